"""One style for all pictures: colours, and what matplotlib is told of them.

The report of the demo puts variables of its page in the place of the colours, so that its pictures are at home on dark
pages, too. No two colours are the same to the last bit: each is replaced for itself.
"""

from __future__ import annotations

from typing import Any

FONT = "Helvetica, Arial, sans-serif"
INK, MUTED, GRID, PAPER, ACCENT, ARROW = "#1d1d1f", "#5f6068", "#e4e2dc", "#ffffff", "#2f5fd0", "#8a8c96"
SERIES = ("#2f5fd1", "#c25e00", "#1b7f5c", "#8a4fb5")
"""Of lines and bars, in this order."""
RIGHT, WRONG = "#1b7f5d", "#b3261e"

FILLS = {
    "op": ("#eeeff3", "#b9bbc6"), "leaf": ("#dde8fb", "#82a5e6"), "custom": ("#efe6fa", "#b595dd"),
    "boundary": ("#f6f6f5", "#c9c9c6"), "output": ("#e0f2ea", "#7fbfa5"), "more": ("#fffffe", "#c9c9c7"),
    "kernel": ("#eeeff4", "#b9bbc7"),
}  # fmt: skip
"""Of boxes by what they are: the inside and the line around it."""
ON_COLOUR = "#fefefe"
"""Of texts on bands in these colours."""
HOOK_COLOURS = {
    "tensor": "#b85700", "node_pre": "#8d6708", "node_post": "#9d174d", "post_accumulate": "#0f766e",
    "retain_grad": "#54565f",
}  # fmt: skip


def matplotlib_style(
    ink: str = INK, muted: str = MUTED, grid: str = GRID, paper: str = PAPER, series: tuple[str, ...] = SERIES
) -> dict[str, Any]:
    """Settings for ``matplotlib.rc_context`` or ``rcParams.update``.

    Parameters
    ----------
    ink, muted, grid, paper : str
        Colours of titles, of what stands back, of lines behind curves, and of the ground.
    series : tuple of str
        Colours of lines and bars.

    Examples
    --------
    >>> matplotlib_style()["axes.spines.top"]
    False
    """
    return {
        "figure.facecolor": paper, "axes.facecolor": paper, "savefig.facecolor": paper,
        "font.size": 9, "font.sans-serif": ["Helvetica", "Arial", "Liberation Sans", "DejaVu Sans"],
        "text.color": ink, "axes.titlecolor": ink, "axes.titlesize": 10, "axes.titleweight": "bold",
        "axes.titlelocation": "left", "figure.titlesize": 11, "figure.titleweight": "bold",
        "axes.edgecolor": muted, "axes.labelcolor": muted, "axes.linewidth": 0.8,
        "axes.spines.top": False, "axes.spines.right": False,
        "axes.grid": True, "axes.grid.axis": "y", "axes.axisbelow": True,
        "axes.prop_cycle": f"cycler('color', {list(series)!r})",
        "grid.color": grid, "grid.linewidth": 0.8, "xtick.color": muted, "ytick.color": muted,
        "xtick.major.size": 3, "ytick.major.size": 0, "ytick.minor.size": 0,
        "legend.frameon": False, "legend.handlelength": 1.2, "legend.columnspacing": 1.0,
        "lines.linewidth": 1.6, "lines.solid_capstyle": "round",
    }  # fmt: skip
