"""Tensors in notebooks: what they are, and a table of some values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fastgrad import markup
from fastgrad.formatting import format_cells

ROWS, COLUMNS = 4, 5
"""How many rows and columns are shown at each end of a matrix."""


def html_of(kind: str, facts: Sequence[str], values: np.ndarray) -> str:
    """A tensor as HTML.

    Parameters
    ----------
    kind : str
        The name of its class.
    facts : sequence of str
        What is known of it; empty ones are left out.
    values : numpy.ndarray
        Of any shape. Of more than two dimensions the first matrix is shown, of a large one the edges.
    """
    head = f"<div><b>{markup.escaped(kind)}</b> {markup.muted(' · '.join(filter(None, facts)))}</div>"
    if values.size == 0:
        return markup.piece(head)
    note = ""
    if values.ndim > 2:
        matrices = values.size // (values.shape[-1] * values.shape[-2])
        place = ", ".join("0" * (values.ndim - 2))
        note = (
            f"<div>{markup.muted(f'[{place}], the first of {matrices:,} matrices')}</div>"
            if matrices > 1
            else ""
        )
        values = values[(0,) * (values.ndim - 2)]
    return markup.piece(head + note + _matrix(np.atleast_2d(values), values.ndim))


def _matrix(values: np.ndarray, ndim: int) -> str:
    """A table of the edges of a matrix, with the numbers of its rows and columns where it has dimensions."""
    rows, columns = _edges(values.shape[0], ROWS), _edges(values.shape[1], COLUMNS)
    texts = format_cells(values[np.ix_([r for r in rows if r >= 0], [c for c in columns if c >= 0])])
    if -1 in columns:
        for row in texts:
            row.insert(COLUMNS, "…")
    if -1 in rows:
        texts.insert(ROWS, ["…"] * len(columns))
    named = int(ndim == 2)
    head = [""] * named + [_number(c) for c in columns] if ndim else []
    return markup.table(head, ([_number(r)] * named + row for r, row in zip(rows, texts, strict=True)))


def _number(k: int) -> str:
    return "…" if k < 0 else str(k)


def _edges(n: int, edge: int) -> list[int]:
    """Numbers from 0 to n-1; of many those at both ends, with -1 between them."""
    return list(range(n)) if n <= 2 * edge + 1 else [*range(edge), -1, *range(n - edge, n)]
