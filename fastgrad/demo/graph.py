"""The backward graph: walked through ``next_functions``, laid out in layers, and drawn."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from fastgrad.demo.figures import ACCENT, INK, MUTED, PAPER

COLUMN, ROW = 1.12, 0.78  # inches from one box to the next
WIDTH, HEIGHT = 0.92, 0.46  # inches of a box


@dataclass(frozen=True)
class Vertex:
    """A node of the backward graph as the picture shows it.

    Attributes
    ----------
    label, detail : str
        The operation, and the shape of a parameter or nothing.
    leaf : bool
        Whether gradients end here, in a parameter's ``grad``.
    hooked : bool
        Whether the demo hangs hooks here.
    """

    label: str
    detail: str
    leaf: bool
    hooked: bool


@dataclass(frozen=True)
class Graph:
    """Vertices, root first, and edges as pairs of their numbers in the direction in which gradients flow."""

    vertices: list[Vertex]
    edges: list[tuple[int, int]]

    def next_of(self, index: int) -> list[int]:
        """List the vertices that vertex `index` passes gradients to."""
        return [b for a, b in self.edges if a == index]


def walk(root: Any, names: Mapping[int, tuple[str, str]], hooked: Collection[Any] = ()) -> Graph:
    """Collect the graph below a node.

    Parameters
    ----------
    root : Node
        Where to begin: a result's ``grad_fn``.
    names : mapping
        For the ``id`` of a parameter its name and its shape as text.
    hooked : collection of Node
        Nodes to mark as carrying hooks; a parameter that is named ``weight`` is marked as well.
    """
    numbers = {root: 0}  # also keeps the nodes alive, and with them their identity
    queue = [root]
    edges = []
    for node in queue:
        for successor, _ in node.next_functions:
            if successor is None:
                continue
            if successor not in numbers:
                numbers[successor] = len(numbers)
                queue.append(successor)
            edges.append((numbers[node], numbers[successor]))
    vertices = []
    for node in queue:
        variable = getattr(node, "variable", None)
        label, detail = names.get(id(variable), (re.sub(r"Backward\d*$", "", node.name()), ""))
        leaf = not node.next_functions
        vertices.append(Vertex(label, detail, leaf, node in hooked or label.startswith("weight")))
    return Graph(vertices, edges)


def layout(graph: Graph) -> list[tuple[int, int]]:
    """Place every vertex in a grid: (column, row).

    The column is the longest distance from the root, so that every edge points to the right. In its row a
    vertex follows the first one that points to it; where several want a cell, the one with the longest way
    still to go has it, and the others move down. So the longest path stays straight.
    """
    count = len(graph.vertices)
    successors = [graph.next_of(index) for index in range(count)]
    order = _topological(successors)
    column, height = [0] * count, [0] * count
    for index in order:
        for successor in successors[index]:
            column[successor] = max(column[successor], column[index] + 1)
    for index in reversed(order):
        height[index] = max((height[s] + 1 for s in successors[index]), default=0)
    row = [0] * count
    taken: set[tuple[int, int]] = set()
    for index in sorted(range(count), key=lambda v: (column[v], -height[v])):
        row[index] = max((row[a] for a, b in graph.edges if b == index), default=0)
        while (column[index], row[index]) in taken:
            row[index] += 1
        taken.add((column[index], row[index]))
    return list(zip(column, row, strict=True))


def _topological(successors: list[list[int]]) -> list[int]:
    waiting = [0] * len(successors)
    for targets in successors:
        for target in targets:
            waiting[target] += 1
    order = [index for index, count in enumerate(waiting) if count == 0]
    for index in order:
        for target in successors[index]:
            waiting[target] -= 1
            if waiting[target] == 0:
                order.append(target)
    return order


def draw(graph: Graph) -> Figure:
    """Draw the graph: gradients flow from left to right, parameters are filled, hooks are marked by a dot."""
    places = layout(graph)
    columns = max(c for c, _ in places) + 1
    rows = max(r for _, r in places) + 1
    figure = Figure(figsize=(columns * COLUMN, rows * ROW))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(-COLUMN / 2, (columns - 0.5) * COLUMN)
    axes.set_ylim((rows - 0.5) * ROW, -ROW / 2)
    axes.axis("off")
    for a, b in graph.edges:
        (ca, ra), (cb, rb) = places[a], places[b]
        axes.add_patch(
            FancyArrowPatch(
                (ca * COLUMN + WIDTH / 2, ra * ROW),
                (cb * COLUMN - WIDTH / 2, rb * ROW),
                connectionstyle="arc3",
                arrowstyle="-|>",
                mutation_scale=7,
                shrinkA=0,
                shrinkB=0,
                color=MUTED,
                linewidth=0.9,
            )
        )
    for vertex, (c, r) in zip(graph.vertices, places, strict=True):
        _draw_vertex(axes, vertex, c * COLUMN, r * ROW)
    return figure


def _draw_vertex(axes: Any, vertex: Vertex, x: float, y: float) -> None:
    corner = (x - WIDTH / 2, y - HEIGHT / 2)
    style = "round,pad=0,rounding_size=0.08"
    axes.add_patch(
        FancyBboxPatch(corner, WIDTH, HEIGHT, boxstyle=style, facecolor=PAPER, edgecolor=MUTED, linewidth=0.9)
    )
    if vertex.leaf:
        axes.add_patch(
            FancyBboxPatch(
                corner, WIDTH, HEIGHT, boxstyle=style, facecolor=ACCENT, edgecolor="none", alpha=0.16
            )
        )
    if vertex.hooked:
        axes.plot([x + WIDTH / 2 - 0.02], [y - HEIGHT / 2 + 0.02], "o", color=ACCENT, markersize=6)
    lift = 0.075 if vertex.detail else 0
    axes.text(x, y - lift, vertex.label, ha="center", va="center_baseline", color=INK, fontsize=8.5)
    if vertex.detail:
        axes.text(x, y + 0.1, vertex.detail, ha="center", va="center_baseline", color=MUTED, fontsize=7.5)
