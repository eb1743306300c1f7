"""Diagrams of the backward graph."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from typing import Any

from fastgrad import dtypes
from fastgrad.autograd.edges import GradientEdge
from fastgrad.autograd.introspect import hooks
from fastgrad.autograd.node import Node
from fastgrad.native.build.loader import TensorBase, rt
from fastgrad.native.contracts.flags import PYTHON_APPLY, SAVED_FREED
from fastgrad.native.contracts.records import NODE
from fastgrad.native.host.tables import OPS
from fastgrad.profiler.events import format_memory
from fastgrad.viz.drawing import Diagram, Vertex

DEEPEST = 8
"""How far into partial calls of partial calls the name of a hook is looked for."""

_OP, _FLAGS, _PLACES, _SEQ, _ATTRS, _VARIABLE, _RETAINS = (
    NODE.fields[name][0] for name in ("op", "flags", "n_places", "seq", "n_attrs", "variable", "retains")
)


def roots_of(value: Any) -> list[tuple[Node, str]]:
    """The nodes where a graph begins, and what they are called."""
    found: list[tuple[Node, str]] = []
    several = isinstance(value, (list, tuple)) and not isinstance(value, GradientEdge)
    for k, item in enumerate(value if several else (value,)):
        name = f"output {k}" if several and len(value) > 1 else "output"
        if isinstance(item, GradientEdge):
            found.append((item.node, name))
        elif isinstance(item, Node):
            found.append((item, name))
        elif isinstance(item, TensorBase):
            if not item.requires_grad:
                raise ValueError("graph(): a tensor that does not require grad has no graph behind it")
            found.append((rt.gradient_node(item), f"{name} {sizes(item.shape)}"))
        else:
            raise TypeError(
                f"graph(): expected a Tensor, a Node, several of them or a Tape, but got {type(item).__name__}"
            )
    if not found:
        raise ValueError("graph(): expected at least one tensor or node")
    return found


def sizes(shape: Iterable[int]) -> str:
    """Sizes as text."""
    return f"({', '.join(map(str, shape))})"


class Backward:
    """What a backward graph looks like.

    Parameters
    ----------
    roots : list of (Node, str)
    names : mapping
        Names of tensors by their ``id``.
    show_attrs, show_saved : bool
    max_nodes : int
    """

    def __init__(
        self,
        roots: list[tuple[Node, str]],
        names: Mapping[int, str],
        *,
        show_attrs: bool,
        show_saved: bool,
        max_nodes: int,
    ) -> None:
        self.names = names
        self.show_attrs = show_attrs
        self.show_saved = show_saved
        self.saved_bytes = 0
        self.numbers: dict[Node, int] = {}  # keeps the nodes, and with them their identity
        for node, _ in roots:
            self.numbers.setdefault(node, len(self.numbers))
        order = list(self.numbers)
        edges: list[tuple[Node, Node, int]] = []
        for node in order:  # grows while it is read
            for target, output in node.next_functions:
                if target is None:
                    continue
                if target not in self.numbers:
                    self.numbers[target] = len(self.numbers)
                    order.append(target)
                edges.append((node, target, output))
        self.diagram = Diagram()
        shown = order[:max_nodes]
        self.diagram.vertices = [self.vertex(node) for node in shown]
        self._edges(edges, len(shown))
        self._outputs(roots, len(shown))
        self._notes(len(order), len(shown))

    def _edges(self, edges: list[tuple[Node, Node, int]], count: int) -> None:
        cut: dict[int, int] = {}
        for node, target, output in edges:
            a, b = self.numbers[node], self.numbers[target]
            if a < count and b < count:
                self.diagram.edges.append((a, b, edge_label(target, output)))
            elif a < count:
                cut[a] = cut.get(a, 0) + 1
        for a, n in cut.items():
            self.diagram.edges.append((a, len(self.diagram.vertices), ""))
            self.diagram.vertices.append(Vertex("…", [f"{n} more" if n > 1 else ""][: n > 1], "more"))

    def _outputs(self, roots: list[tuple[Node, str]], count: int) -> None:
        for node, name in roots:
            number = self.numbers[node]
            if number < count:
                self.diagram.edges.append((len(self.diagram.vertices), number, ""))
                self.diagram.vertices.append(Vertex(name, [], "output"))

    def _notes(self, total: int, shown: int) -> None:
        text = f"{total:,} nodes" if shown == total else f"{shown:,} of {total:,} nodes: max_nodes={shown}"
        if self.saved_bytes:
            text += f"; what they save for backward: {format_memory(self.saved_bytes)}"
        self.diagram.notes.append(text)

    def vertex(self, node: Node) -> Vertex:
        """The box of a node."""
        title = node.name().rpartition("::")[2]
        found = [(info.kind, "" if info.kind == "retain_grad" else readable(info)) for info in hooks(node)]
        if rt.node_field(node, _RETAINS):
            found.append(("retain_grad", ""))
        if rt.node_field(node, _VARIABLE):
            return self._leaf(node, title)
        custom = rt.node_field(node, _FLAGS) & PYTHON_APPLY
        kind = "custom" if custom else "boundary" if "Hook" in title else "op"
        details = [f"{sizes(shape)} {kind_.name}" for kind_, shape in _outputs_of(node)]
        return Vertex(title, details + self._saved(node) + self._attrs(node), kind, found)

    def _leaf(self, node: Node, title: str) -> Vertex:
        """The box of a leaf and its AccumulateGrad node."""
        leaf = node.variable
        name = self.names.get(id(leaf), "")
        found = [(info.kind, readable(info)) for info in hooks(leaf)]
        details = [
            f"{sizes(leaf.shape)} {leaf.dtype.name}",
            format_memory(leaf.numel() * leaf.element_size()),
        ]
        return Vertex(name or "leaf", [*details, title], "leaf", found)

    def _saved(self, node: Node) -> list[str]:
        """What a node saves for its derivative."""
        if rt.node_field(node, _FLAGS) & SAVED_FREED:
            return ["saved: freed"]
        custom = rt.node_field(node, _FLAGS) & PYTHON_APPLY
        names = {} if custom else OPS[rt.node_field(node, _OP)].saving.names
        total, lines = 0, []
        packed = node._packed or {}
        for k in range(rt.node_field(node, _PLACES)):
            meta = rt.saved_meta(node, k)
            name = names.get(k, str(k))
            if k in packed:
                lines.append(f"{name}: packed by hooks")
            elif meta:
                kind = dtypes.of_code(meta[0])
                nbytes = math.prod(meta[2:]) * kind.itemsize
                total += nbytes
                lines.append(f"{name}: {sizes(meta[2:])} {kind.name}")
        self.saved_bytes += total
        head = [f"saves {format_memory(total)}"] if total else []
        return head + lines if self.show_saved else head + [line for line in lines if "packed" in line]

    def _attrs(self, node: Node) -> list[str]:
        """The integers that an op was called with."""
        if not self.show_attrs:
            return []
        values = [rt.node_attr(node, k) for k in range(rt.node_field(node, _ATTRS))]
        lines = [f"integers: {sizes(values)}"] if values else []
        return [*lines, f"sequence nr {rt.node_field(node, _SEQ)}"]


def readable(info: Any) -> str:
    """The name of a hook; of a partial call that of its function."""
    hook, name = info.hook, info.name
    for _ in range(DEEPEST):
        if isinstance(hook, functools.partial):
            hook, name = hook.func, ""
    name = str(getattr(hook, "__qualname__", "") or name).rpartition("<locals>.")[2]
    return name if name not in ("", "<unknown>") else type(hook).__qualname__


def _outputs_of(node: Node) -> list[tuple[Any, tuple[int, ...]]]:
    found = []
    for k in range(rt.node_field(node, NODE.fields["n_out"][0])):
        meta = rt.node_meta(node, k)
        if meta and meta[0] >= 0:
            found.append((dtypes.of_code(meta[0]), tuple(meta[2:])))
    return found[:4]


def edge_label(target: Node, output: int) -> str:
    """What is known of the gradient that goes along an edge."""
    meta = rt.node_meta(target, output) if output < rt.node_field(target, NODE.fields["n_out"][0]) else ()
    if not meta or meta[0] < 0:
        return ""
    return f"gradient {sizes(meta[2:])} {dtypes.of_code(meta[0]).name}"
