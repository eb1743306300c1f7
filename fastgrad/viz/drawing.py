"""Diagrams as SVG."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from fastgrad.markup import escaped
from fastgrad.markup import shortened as shortened_to
from fastgrad.viz import layout
from fastgrad.viz.style import ARROW, FILLS, FONT, HOOK_COLOURS, INK, MUTED, ON_COLOUR, PAPER

TITLE_SIZE, DETAIL_SIZE = 12.0, 10.0
LINE, TITLE_LINE, BAND = 13.0, 16.0, 15.0
PADDING, MARGIN = 8.0, 16.0
HOOK_NAMES = {
    "tensor": "tensor hook", "node_pre": "pre-hook", "node_post": "post-hook", "post_accumulate": "post-accumulate",
    "retain_grad": "retain_grad",
}  # fmt: skip
LONGEST = 44
"""Letters of a line, at most."""

_WIDTHS = {
    **dict.fromkeys("ijltfI.,:;'|()[]/ ", 0.32), **dict.fromkeys("0123456789", 0.64), **dict.fromkeys("mwMW@%", 0.88),
}  # fmt: skip
"""Of letters, in their size: those of the wider fonts that browsers have."""


@dataclass
class Vertex:
    """A box.

    Attributes
    ----------
    title : str
    details : list of str
        Lines below it.
    kind : str
        A key of `FILLS`.
    hooks : list of (str, str)
        Kind and name of each.
    """

    title: str
    details: list[str] = field(default_factory=list)
    kind: str = "op"
    hooks: list[tuple[str, str]] = field(default_factory=list)

    def lines_of_hooks(self) -> list[tuple[str, str]]:
        """The kind of each hook and what stands in its band."""
        return [
            (kind, shortened(f"{HOOK_NAMES[kind]}: {name}" if name else HOOK_NAMES[kind]))
            for kind, name in self.hooks
        ]

    def size(self) -> tuple[float, float]:
        """Width and height."""
        texts = [text_width(shortened(self.title), TITLE_SIZE) * 1.06]
        texts += [text_width(shortened(line), DETAIL_SIZE) for line in self.details]
        texts += [text_width(line, DETAIL_SIZE) + 12 for _, line in self.lines_of_hooks()]
        height = TITLE_LINE + LINE * len(self.details) + BAND * len(self.hooks) + PADDING
        return max(texts) + 2 * PADDING, height


@dataclass
class Diagram:
    """Boxes and arrows.

    Attributes
    ----------
    vertices : list of Vertex
    edges : list of (int, int, str)
        From where to where, and what stands beside the arrow.
    notes : list of str
        Lines above the picture.
    """

    vertices: list[Vertex] = field(default_factory=list)
    edges: list[tuple[int, int, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def shortened(text: str) -> str:
    """A text of one line that is not too long."""
    return shortened_to(text, LONGEST)


def text_width(text: str, size: float) -> float:
    """About how wide a text is."""
    return sum(_WIDTHS.get(c, 0.67 if c.isupper() else 0.56) for c in text) * size


class Picture:
    """A picture in SVG, which notebooks show.

    Attributes
    ----------
    svg : str
    width, height : float
        In pixels.
    """

    def __init__(self, svg: str, width: float, height: float) -> None:
        self.svg = svg
        self.width = width
        self.height = height

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a file.

        Raises
        ------
        ValueError
            If the name does not end in ``.svg``.
        """
        name = os.fspath(path)
        if not str(name).lower().endswith(".svg"):
            raise ValueError(f"save(): pictures are SVG, so the name has to end in .svg, but got {name!r}")
        with open(name, "w", encoding="utf-8") as file:
            file.write(self.svg)

    def __str__(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"<Picture of {self.width:.0f} x {self.height:.0f} pixels>"


FAR, TOO_FAR = 4, 60
"""Over how many layers an arrow to a leaf, and any arrow, goes at most; a reference stands in place of a longer one."""


def with_references(diagram: Diagram) -> Diagram:
    """The same diagram with a small box that names its end in place of each arrow that would go too far."""
    layer = layout.layers_of(len(diagram.vertices), [(a, b) for a, b, _ in diagram.edges])
    vertices, edges = list(diagram.vertices), []
    nearest: dict[int, int] = {}  # the lowest layer that points at a vertex: that arrow stays
    for a, b, _ in diagram.edges:
        nearest[b] = max(nearest.get(b, 0), layer[a])
    numbered: dict[int, int] = {}
    for a, b, label in diagram.edges:
        end = diagram.vertices[b]
        limit = FAR if end.kind == "leaf" else TOO_FAR
        if layer[b] - layer[a] <= limit or layer[a] == nearest[b]:
            edges.append((a, b, label))
            continue
        if end.kind == "leaf":
            title = end.title
        else:
            title = f"{end.title} #{numbered.setdefault(b, len(numbered) + 1)}"
        edges.append((a, len(vertices), label))
        vertices.append(Vertex("\u2192 " + title, [], "more"))
    for b, number in numbered.items():
        end = vertices[b]
        vertices[b] = Vertex(f"{end.title} #{number}", end.details, end.kind, end.hooks)
    return Diagram(vertices, edges, diagram.notes)


def draw(diagram: Diagram) -> Picture:
    """Lay a diagram out and draw it."""
    diagram = with_references(diagram)
    sizes = [vertex.size() for vertex in diagram.vertices]
    placed = layout.place(sizes, [(a, b) for a, b, _ in diagram.edges])
    top = MARGIN + LINE * len(diagram.notes) + (6 if diagram.notes else 0)
    wide = max([placed.width, *(text_width(note, DETAIL_SIZE) for note in diagram.notes)])
    width, height = wide + 2 * MARGIN, placed.height + top + MARGIN
    shift = MARGIN + (wide - placed.width) / 2
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.1f} {height:.1f}" font-family="{FONT}">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="6.5" markerHeight="6.5" '
        f'orient="auto"><path d="M0,0.6 L8,4 L0,7.4 z" fill="{ARROW}"/></marker></defs>',
        f'<rect width="{width:.1f}" height="{height:.1f}" fill="{PAPER}"/>',
    ]
    for k, note in enumerate(diagram.notes):
        parts.append(_text(note, MARGIN, MARGIN + LINE * (k + 0.7), DETAIL_SIZE, MUTED, "start"))
    for (_, _, label), path in zip(diagram.edges, placed.paths, strict=True):
        parts += _arrow([(x + shift, y + top) for x, y in path], label)
    for vertex, (x, y), size in zip(diagram.vertices, placed.centres, sizes, strict=True):
        parts += _box(vertex, x + shift, y + top, *size)
    parts.append("</svg>")
    return Picture("\n".join(parts), width, height)


def _text(text: str, x: float, y: float, size: float, colour: str, anchor: str, bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" fill="{colour}" text-anchor="{anchor}"{weight}>'
        f"{escaped(text)}</text>"
    )


def _arrow(points: Sequence[tuple[float, float]], label: str) -> list[str]:
    """A smooth line through points, each part of which begins and ends upright, and what stands beside its end."""
    x, y = points[0]
    steps = [f"M{x:.1f},{y:.1f}"]
    for nx, ny in points[1:]:
        bend = (ny - y) / 2
        if abs(nx - x) < 0.05:
            steps.append(f"L{nx:.1f},{ny:.1f}")
        else:
            steps.append(f"C{x:.1f},{y + bend:.1f} {nx:.1f},{ny - bend:.1f} {nx:.1f},{ny:.1f}")
        x, y = nx, ny
    title = f"<title>{escaped(label)}</title>" if label else ""
    line = f'fill="none" stroke="{ARROW}" stroke-width="1.1" marker-end="url(#tip)"'
    return [f'<path d="{" ".join(steps)}" {line}>{title}</path>']


def _box(vertex: Vertex, x: float, y: float, width: float, height: float) -> list[str]:
    fill, line = FILLS[vertex.kind]
    left, top = x - width / 2, y - height / 2
    dashes = ' stroke-dasharray="4 3"' if vertex.kind == "more" else ""
    whole = escaped(
        "\n".join([vertex.title, *vertex.details, *(f"{HOOK_NAMES[k]}: {n}" for k, n in vertex.hooks)])
    )
    parts = [
        f"<g><title>{whole}</title>"
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}" rx="5" fill="{fill}" '
        f'stroke="{line}"{dashes}/>'
    ]
    at = top + PADDING / 2
    parts.append(
        _text(
            shortened(vertex.title),
            x,
            at + TITLE_LINE - 4.5,
            TITLE_SIZE,
            INK,
            "middle",
            vertex.kind in ("leaf", "output"),
        )
    )
    at += TITLE_LINE
    for line_ in vertex.details:
        parts.append(_text(shortened(line_), x, at + LINE - 3.5, DETAIL_SIZE, MUTED, "middle"))
        at += LINE
    for kind, text in vertex.lines_of_hooks():
        colour = HOOK_COLOURS[kind]
        parts.append(
            f'<rect x="{left + 4:.1f}" y="{at + 1:.1f}" width="{width - 8:.1f}" height="{BAND - 2:.1f}" rx="3" '
            f'fill="{colour}"/>'
        )
        parts.append(_text(text, x, at + BAND - 4.5, DETAIL_SIZE, ON_COLOUR, "middle"))
        at += BAND
    parts.append("</g>")
    return parts
