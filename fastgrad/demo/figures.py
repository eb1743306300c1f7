"""Pictures as text for a page: curves as SVG, digits as PNG.

Note [Colours]: matplotlib knows no theme. Figures are drawn in marker colours that stand for a role, and
`to_svg` replaces each with a CSS variable of the page, so that one picture serves light and dark.
"""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.image import imsave
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike, NDArray

from fastgrad.markup import escaped
from fastgrad.viz import style
from fastgrad.viz.drawing import Picture
from fastgrad.viz.style import matplotlib_style

INK, MUTED, GRID, PAPER, ACCENT = "#010101", "#020202", "#030303", "#040404", "#050505"
SERIES = ("#060606", "#070707", "#080808", "#090909")
_VARIABLES = {
    INK: "--ink",
    MUTED: "--muted",
    GRID: "--line",
    PAPER: "--card",
    ACCENT: "--accent",
    **{colour: f"--series-{number}" for number, colour in enumerate(SERIES, 1)},
}
_GRAPH_VARIABLES = {
    style.INK: "--ink", style.MUTED: "--muted", style.ARROW: "--muted", style.PAPER: "--card",
    **{fill: f"--{kind}" for kind, (fill, _) in style.FILLS.items()},
    **{line: f"--{kind}-line" for kind, (_, line) in style.FILLS.items()},
}  # fmt: skip
_STYLE = matplotlib_style(INK, MUTED, GRID, PAPER, SERIES) | {"svg.fonttype": "none"}


def to_svg(figure: Figure, name: str, description: str) -> str:
    """Turn a figure into an inline ``<svg>``.

    Parameters
    ----------
    figure : Figure
        Drawn in the marker colours of this module.
    name : str
        Sets the picture's ids apart from those of others on the page.
    description : str
        What a reader who does not see the picture should know.
    """
    buffer = io.StringIO()
    with mpl.rc_context({**_STYLE, "svg.hashsalt": name}):
        figure.savefig(buffer, format="svg", transparent=True)
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", svg, flags=re.DOTALL)
    # Inside HTML the namespaces are implied, and the size is the page's business.
    svg = re.sub(r' xmlns(:\w+)?="[^"]*"', "", svg).replace("xlink:href", "href")
    width, height = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg).groups()  # type: ignore[union-attr]
    svg = re.sub(
        r"<svg [^>]*>", f'<svg viewBox="0 0 {width} {height}" role="img" class="plot">', svg, count=1
    )
    svg = re.sub(r'id="([^"]+)"', rf'id="{name}-\1"', svg)
    svg = re.sub(r'(href="|url\()#', rf"\g<1>#{name}-", svg)
    for colour, variable in _VARIABLES.items():
        svg = svg.replace(colour, f"var({variable})")
    return svg.replace(">", f"><title>{escaped(description)}</title>", 1).strip()


def graph_to_svg(picture: Picture, name: str, description: str) -> str:
    """Turn a picture of a graph into an inline ``<svg>`` in the colours of the page.

    Parameters
    ----------
    picture : Picture
    name, description : str
        As for `to_svg`.
    """
    svg = picture.svg.replace("url(#tip)", f"url(#{name}-tip)").replace('id="tip"', f'id="{name}-tip"')
    for colour, variable in _GRAPH_VARIABLES.items():
        svg = svg.replace(f'"{colour}"', f'"var({variable})"')
    head = (
        f'<svg viewBox="0 0 {picture.width:.1f} {picture.height:.1f}" role="img" class="plot graph" '
        f'style="--natural: {picture.width:.0f}px"><title>{escaped(description)}</title>'
    )
    return re.sub(r"<svg [^>]*>", lambda _: head, svg, count=1)


def curves(
    x: ArrayLike,
    lines: Mapping[str, ArrayLike],
    *,
    ylabel: str,
    background: Sequence[tuple[ArrayLike, ArrayLike]] = (),
    log: bool = False,
    percent: bool = False,
    width: float = 4.6,
) -> Figure:
    """Draw lines over epochs, with a legend above.

    Parameters
    ----------
    x : array
        Epochs.
    lines : mapping
        The values of every line under its name.
    ylabel : str
        What the values are.
    background : sequence of (x, y)
        Unsmoothed data, drawn faintly behind: first that of the first line, then that of the second...
    log, percent : bool
        How the values' axis is divided and labelled.
    width : float
        Inches; letters keep their size, so a panel that is shown narrow should be drawn narrow.
    """
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(width, 3.0), layout="constrained")
        axes = figure.add_subplot()
        if log:
            axes.set_yscale("log")
        for colour, (xs, ys) in zip(SERIES, background, strict=False):
            axes.plot(xs, ys, color=colour, linewidth=0.6, alpha=0.22)
        dots = "o" if len(np.asarray(x)) == 1 else ""
        for colour, (label, values) in zip(SERIES, lines.items(), strict=False):
            axes.plot(x, values, color=colour, label=label, marker=dots)
        axes.set_xlabel("epoch")
        axes.set_ylabel(ylabel)
        axes.margins(x=0.02)
        if percent:
            axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
            axes.yaxis.set_major_formatter(lambda value, _: f"{round(100 * value, 2):g}%")
        place = {"loc": "lower left", "bbox_to_anchor": (-0.02, 1.0), "borderaxespad": 0.2}
        axes.legend(ncols=len(lines), labelcolor=MUTED, **place)
    return figure


def smooth(values: ArrayLike, window: int) -> NDArray[Any]:
    """Take the mean over `window` neighbouring values; at the ends, over as many as there are."""
    values = np.asarray(values, float)
    total = np.concatenate([[0.0], np.cumsum(values)])
    index = np.arange(len(values))
    low = np.maximum(index - window // 2, 0)
    high = np.minimum(index + window // 2 + 1, len(values))
    return (total[high] - total[low]) / (high - low)


def digit_png(image: NDArray[np.float32]) -> str:
    """Encode a scanned digit, ink 0 to 16, as a ``data:`` address: black ink on transparent paper."""
    pixels = np.zeros((*image.shape, 4), np.uint8)
    pixels[..., 3] = np.round(image / 16 * 255).astype(np.uint8)
    buffer = io.BytesIO()
    imsave(buffer, pixels, format="png", metadata={"Software": ""})
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")
