"""Pieces of HTML for notebooks: escaped text, tables, and their style, which is at home on light and dark pages."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from typing import Any

_UNFIT = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

LONGEST = 200
"""Letters of one text in a piece, at most."""

STYLE = (
    "<style>"
    ".fastgrad-look{font:13px/1.45 system-ui,sans-serif;overflow-x:auto;max-width:100%}"
    ".fastgrad-look code,.fastgrad-look td,.fastgrad-look th{font-family:ui-monospace,Menlo,Consolas,monospace}"
    ".fastgrad-look table{border-collapse:collapse;margin:4px 0;font-variant-numeric:tabular-nums}"
    ".fastgrad-look td,.fastgrad-look th{padding:2px 10px 2px 0;text-align:right;white-space:pre;font-size:12px}"
    ".fastgrad-look th{font-weight:600;border-bottom:1px solid rgba(128,128,128,.5)}"
    ".fastgrad-look .l{text-align:left}"
    ".fastgrad-look .m{opacity:.7}"
    ".fastgrad-look details,.fastgrad-look .leaf{margin-left:1.2em}"
    ".fastgrad-look summary{cursor:pointer;margin-left:-1.2em}"
    ".fastgrad-look svg{max-width:none;height:auto}"
    "</style>"
)


def escaped(text: str) -> str:
    """A text as HTML and XML have it: nothing in it is markup, and letters that XML does not allow are replaced."""
    return html.escape(_UNFIT.sub("\ufffd", text))


def cut(text: str, longest: int = LONGEST) -> str:
    """A text, or its beginning if it is too long."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


def shortened(text: str, longest: int = LONGEST) -> str:
    """A text of one line that is not too long."""
    return cut(" ".join(text.split()), longest)


def piece(body: str) -> str:
    """A piece of HTML with the style that it needs."""
    return f'{STYLE}<div class="fastgrad-look">{body}</div>'


def muted(text: str) -> str:
    """A text that stands back."""
    return f'<span class="m">{escaped(shortened(text))}</span>'


def table(head: Sequence[str], rows: Iterable[Sequence[str]], left: int = 0) -> str:
    """A table of texts.

    Parameters
    ----------
    head : sequence of str
        Above the columns; none if empty.
    rows : iterable of sequence of str
    left : int
        How many columns begin at the left; the others end at the right.
    """
    parts = ["<table>"]
    if head:
        parts.append(f"<thead>{_row('th', head, left)}</thead>")
    parts += ["<tbody>", *(_row("td", row, left) for row in rows), "</tbody></table>"]
    return "".join(parts)


def _row(tag: str, cells: Sequence[str], left: int) -> str:
    classes = [' class="l"' if k < left else "" for k in range(len(cells))]
    made = (f"<{tag}{kind}>{escaped(cut(text))}</{tag}>" for kind, text in zip(classes, cells, strict=True))
    return f"<tr>{''.join(made)}</tr>"


def prints_itself(kind: type[Any]) -> bool:
    """Whether a subclass of a program says itself how its objects are printed: then notebooks show that text."""
    own = next(vars(base)["__repr__"] for base in kind.__mro__ if "__repr__" in vars(base))
    # A function is told by where it was defined; an object in its place, as overrides have them, by its class.
    place = getattr(own, "__globals__", {}).get("__name__") or type(own).__module__
    return not place.startswith("fastgrad.")
