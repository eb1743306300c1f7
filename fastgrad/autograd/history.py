"""Where the graph behind tensors leads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fastgrad.autograd.node import Node
from fastgrad.native.build.loader import rt
from fastgrad.native.contracts.records import NODE

_N_IN = NODE.fields["n_in"][0]


def leads_elsewhere(outputs: Iterable[Any], inputs: Iterable[Any]) -> bool:
    """Whether the graph behind outputs has an end that is none of `inputs`, which are aliases or leaves."""
    own = [rt.gradient_node(t) for t in inputs]
    ends = set(map(id, own))
    waiting = [rt.gradient_node(t) for t in outputs if t.requires_grad]
    seen: dict[int, Node] = {id(n): n for n in waiting}
    while waiting:
        node = waiting.pop()
        if id(node) in ends:
            continue
        edges = [rt.node_target(node, k) for k in range(rt.node_field(node, _N_IN))]
        edges = [n for n in edges if n is not None]
        if not edges:
            return True
        for n in edges:
            if id(n) not in seen:
                seen[id(n)] = n
                waiting.append(n)
    return False
