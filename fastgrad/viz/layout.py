"""Places for the boxes and arrows of a graph: layers from top to bottom, with few crossings.

The steps are those of Sugiyama, Tagawa and Toda: a layer for each vertex, so that every arrow points down; places for
long arrows in the layers that they cross; an order in each layer by the means of their neighbours; then coordinates.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

GAP, LAYER_GAP = 18.0, 34.0
"""Between neighbours of a layer, and between layers at least."""
BEND_WIDTH = 10.0
SWEEPS = 12
PULLS = 8
MANY = 600
"""Vertices from which on there are fewer sweeps."""


class Placed(NamedTuple):
    """Where everything lies.

    Attributes
    ----------
    centres : list of (float, float)
        Of the vertices.
    paths : list of list of (float, float)
        The points of each edge, from the bottom of its first vertex to the top of its second one.
    width, height : float
    """

    centres: list[tuple[float, float]]
    paths: list[list[tuple[float, float]]]
    width: float
    height: float


def layers_of(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """The layer of each vertex: one more than the lowest of those that point at it."""
    following: list[list[int]] = [[] for _ in range(count)]
    waiting = [0] * count
    for a, b in edges:
        following[a].append(b)
        waiting[b] += 1
    layer = [0] * count
    ready = [v for v in range(count) if waiting[v] == 0]
    for v in ready:  # grows while it is read
        for w in following[v]:
            layer[w] = max(layer[w], layer[v] + 1)
            waiting[w] -= 1
            if waiting[w] == 0:
                ready.append(w)
    if len(ready) != count:
        raise ValueError("the graph has a cycle")
    return layer


class _Layered:
    """A graph in layers, with bends: vertices without a box, one in each layer that a long edge crosses."""

    def __init__(self, sizes: Sequence[tuple[float, float]], edges: Sequence[tuple[int, int]]) -> None:
        self.sizes = list(sizes)
        self.layer = layers_of(len(sizes), edges)
        self.rows: list[list[int]] = [[] for _ in range(max(self.layer, default=-1) + 1)]
        self.chains: list[list[int]] = []
        for a, b in edges:
            chain = [a]
            for level in range(self.layer[a] + 1, self.layer[b]):
                chain.append(len(self.sizes))
                self.sizes.append((BEND_WIDTH, 0.0))
                self.layer.append(level)
            self.chains.append([*chain, b])
        self.up: list[list[int]] = [[] for _ in self.sizes]
        self.down: list[list[int]] = [[] for _ in self.sizes]
        for chain in self.chains:
            for a, b in itertools.pairwise(chain):
                self.down[a].append(b)
                self.up[b].append(a)
        self._first_order()
        self.x = [0.0] * len(self.sizes)
        # Long edges are straight if they can be; what ends at once makes room for what goes on.
        self.weights = [
            4.0 if not size[1] else 0.005 if len(up) + len(down) < 2 else 1.0
            for size, up, down in zip(self.sizes, self.up, self.down, strict=True)
        ]

    def _first_order(self) -> None:
        """Put the vertices of each layer in the order in which a walk from the roots finds them."""
        seen = [False] * len(self.sizes)
        for root in range(len(self.sizes)):
            if seen[root] or self.up[root]:
                continue
            stack = [root]
            while stack:
                v = stack.pop()
                if seen[v]:
                    continue
                seen[v] = True
                self.rows[self.layer[v]].append(v)
                stack += reversed(self.down[v])

    def untangle(self, sweeps: int) -> None:
        """Order each layer by the means of its neighbours' places, down and up in turn; the best order stays."""
        place = [0] * len(self.sizes)
        for row in self.rows:
            for k, v in enumerate(row):
                place[v] = k
        best = [list(row) for row in self.rows]
        fewest = self.crossings(place)
        for sweep in range(sweeps):
            if fewest == 0:
                break
            downwards = sweep % 2 == 0
            neighbours = self.up if downwards else self.down
            for row in self.rows if downwards else reversed(self.rows):
                means = {v: _mean([place[w] for w in neighbours[v]], place[v]) for v in row}
                row.sort(key=means.__getitem__)
                for k, v in enumerate(row):
                    place[v] = k
            found = self.crossings(place)
            if found < fewest:
                fewest = found
                best = [list(row) for row in self.rows]
        self.rows = best

    def crossings(self, place: Sequence[int]) -> int:
        """How often edges cross."""
        total = 0
        for row in self.rows:
            ends = [place[w] for v in row for w in sorted(self.down[v], key=place.__getitem__)]
            total += _inversions(ends)
        return total

    def spread(self, pulls: int) -> None:
        """Give each vertex a place across: near the means of its neighbours, in order, without overlap."""
        for row in self.rows:
            at = 0.0
            for v in row:
                self.x[v] = at + self.sizes[v][0] / 2
                at += self.sizes[v][0] + GAP
            for v in row:
                self.x[v] -= at / 2
        for pull in range(pulls):
            downwards = pull % 2 == 0
            for row in self.rows if downwards else reversed(self.rows):
                self._pull(row, self.up if downwards else self.down)
        for row in self.rows:
            self._pull(row, [u + d for u, d in zip(self.up, self.down, strict=True)])

    def _pull(self, row: Sequence[int], neighbours: Sequence[Sequence[int]]) -> None:
        """Move the vertices of a layer to where they want to be, as far as order and widths allow.

        That is the nearest such places in the sense of least squares: vertices that would overlap move as a block.
        """
        blocks: list[tuple[float, float, list[int], float]] = []  # sum of wishes, weight, vertices, width
        for v in row:
            pull = sum(self.weights[w] for w in neighbours[v])
            wish = sum(self.weights[w] * self.x[w] for w in neighbours[v]) / pull if pull else self.x[v]
            weight = self.weights[v]
            half = self.sizes[v][0] / 2
            block = ((wish - half) * weight, weight, [v], self.sizes[v][0] + GAP)
            while blocks and blocks[-1][0] / blocks[-1][1] + blocks[-1][3] > block[0] / block[1]:
                total, mass, members, width = blocks.pop()
                block = (
                    total + block[0] - width * block[1],
                    mass + block[1],
                    members + block[2],
                    width + block[3],
                )
            blocks.append(block)
        for total, mass, members, _ in blocks:
            at = total / mass
            for v in members:
                self.x[v] = at + self.sizes[v][0] / 2
                at += self.sizes[v][0] + GAP


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _inversions(values: list[int]) -> int:
    """How many pairs stand in the wrong order."""
    if len(values) < 2:
        return 0
    middle = len(values) // 2
    left, right = values[:middle], values[middle:]
    count = _inversions(left) + _inversions(right)
    left.sort()
    right.sort()
    k = 0
    for value in right:
        while k < len(left) and left[k] <= value:
            k += 1
        count += len(left) - k
    return count


def place(sizes: Sequence[tuple[float, float]], edges: Sequence[tuple[int, int]]) -> Placed:
    """Lay a graph out.

    Parameters
    ----------
    sizes : sequence of (float, float)
        Width and height of each vertex.
    edges : sequence of (int, int)
        They may not form a cycle.

    Raises
    ------
    ValueError
        If they do.
    """
    graph = _Layered(sizes, edges)
    graph.untangle(SWEEPS if len(sizes) < MANY else 3)
    graph.spread(PULLS if len(sizes) < MANY else 4)
    left = min((graph.x[v] - graph.sizes[v][0] / 2 for v in range(len(graph.sizes))), default=0.0)
    width = max((graph.x[v] + graph.sizes[v][0] / 2 for v in range(len(graph.sizes))), default=0.0) - left
    tops, heights, at = [], [], 0.0
    for row in graph.rows:
        tops.append(at)
        heights.append(max(graph.sizes[v][1] for v in row))
        at += heights[-1] + LAYER_GAP
    middle = [tops[graph.layer[v]] + heights[graph.layer[v]] / 2 for v in range(len(graph.sizes))]
    centres = [(graph.x[v] - left, middle[v]) for v in range(len(graph.sizes))]
    paths = []
    for chain in graph.chains:
        (x, y), (end_x, end_y) = centres[chain[0]], centres[chain[-1]]
        points = [(x, y + graph.sizes[chain[0]][1] / 2)]
        for v in chain[1:-1]:  # a long edge is straight beside the boxes of a layer
            points.append((centres[v][0], tops[graph.layer[v]]))
            points.append((centres[v][0], tops[graph.layer[v]] + heights[graph.layer[v]]))
        paths.append([*points, (end_x, end_y - graph.sizes[chain[-1]][1] / 2)])
    return Placed(centres[: len(sizes)], paths, width, max(at - LAYER_GAP, 0.0))
