"""A directed graph: what a package holds, and what depends on what."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any


class DiGraph:
    """A directed graph whose nodes have attributes. Nodes and edges keep the order in which they came.

    Attributes
    ----------
    nodes : dict
        The attributes of each node, a dict.
    """

    def __init__(self) -> None:
        self.nodes: dict[str, dict[str, Any]] = {}
        self._successors: dict[str, dict[str, None]] = {}
        self._predecessors: dict[str, dict[str, None]] = {}

    def add_node(self, node: str, **attributes: Any) -> None:
        """Add a node, or attributes to one that is there."""
        self._successors.setdefault(node, {})
        self._predecessors.setdefault(node, {})
        self.nodes.setdefault(node, {}).update(attributes)

    def add_edge(self, source: str, target: str) -> None:
        """Let the first depend on the second; adds them if need be."""
        self.add_node(source)
        self.add_node(target)
        self._successors[source][target] = None
        self._predecessors[target][source] = None

    def successors(self, node: str) -> Iterator[str]:
        """What a node depends on; ValueError if it is not there."""
        return self._next(self._successors, node)

    def predecessors(self, node: str) -> Iterator[str]:
        """What depends on a node; ValueError if it is not there."""
        return self._next(self._predecessors, node)

    @staticmethod
    def _next(table: dict[str, dict[str, None]], node: str) -> Iterator[str]:
        if node not in table:
            raise ValueError(f"The node {node} is not in the digraph.")
        return iter(table[node])

    @property
    def edges(self) -> Iterator[tuple[str, str]]:
        """All of them, by their sources."""
        return ((source, target) for source, targets in self._successors.items() for target in targets)

    def __iter__(self) -> Iterator[str]:
        return iter(self.nodes)

    def __contains__(self, node: object) -> bool:
        return isinstance(node, str) and node in self.nodes

    def all_paths(self, src: str, dst: str) -> DiGraph:
        """The part of the graph that lies on a path from one node to another; ValueError if one is not there."""
        after = _reachable(src, self.successors)
        between = after & _reachable(dst, self.predecessors)
        out = DiGraph()
        for source, target in self.edges:
            if source in between and target in between:
                out.add_edge(source, target)
        return out

    def first_path(self, dst: str) -> list[str]:
        """How a node came to be there: each step goes to the predecessor that came first."""
        order = {node: k for k, node in enumerate(self.nodes)}
        path = [dst]
        while True:
            earlier = [node for node in self._predecessors[path[-1]] if node not in path]
            if not earlier:
                return path[::-1]
            path.append(min(earlier, key=order.__getitem__))

    def to_dot(self) -> str:
        """The graph in Graphviz's language."""
        return dot(self.edges)


def dot(edges: Iterable[tuple[str, str]]) -> str:
    """Edges as a graph in Graphviz's language."""
    lines = "\n".join(f'"{source}" -> "{target}";' for source, target in edges)
    return f"digraph G {{\nrankdir = LR;\nnode [shape=box];\n{lines}\n}}\n"


def _reachable(start: str, step: Callable[[str], Iterator[str]]) -> set[str]:
    found, waiting = {start}, deque([start])
    while waiting:
        for node in step(waiting.popleft()):
            if node not in found:
                found.add(node)
                waiting.append(node)
    return found
