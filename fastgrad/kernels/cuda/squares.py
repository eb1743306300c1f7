"""Results each element of which is a sum over two rows, as those of products of matrices and of distances are.

A block computes a square of rows and columns, each of its threads a few by a few elements of it, in registers; what
they read stands in the block's memory, `DEPTH` columns of one operand and rows of the other at a time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fastgrad.kernels.cuda.device import Target, barrier, block, blocks, opaque, thread
from fastgrad.kernels.cuda.places import split

THREADS = 256
ACROSS = 16  # threads beside each other
EACH, DEPTH = 4, 16
SIDE = ACROSS * EACH
PITCH = SIDE + 1  # of a column or row in the block's memory


class Square(NamedTuple):
    """What is computed. `f` is whatever these functions want to know, `batch` the number of the matrices.

    Attributes
    ----------
    fill : callable
        ``fill(f, left, right, batch, top, first, k)`` brings `DEPTH` columns and rows, from the k-th on, of the rows
        from `top` and the columns from `first` on, to the block's memory, `PITCH` elements apart.
    zero : number
        A sum at first.
    add : callable
        ``add(f, sum, a, b)``: a sum with what two elements add to it. Where elements have an `own` one,
        ``add(f, sum, a, b, x, c)``: c stands as far behind a as `DEPTH` columns.
    keep : callable
        ``keep(f, batch, i, j, sum)`` writes an element.
    own : callable, optional
        ``own(f, batch, i, j)``: what an element of the square knows from the beginning.
    each : int
        How many rows and columns a thread has.
    unrolled : bool
        Whether the compiler may write out the loop; not if an addition is long.
    """

    fill: Any
    zero: Any
    add: Any
    keep: Any
    own: Any = None
    each: int = EACH
    unrolled: bool = True


def square(what: Square, get: Any) -> Any:
    """A function ``compute(f, left, right, batch, top, first, rows, columns, depth)``: the square from there on."""
    scope: dict[str, Any] = {
        "np": np, "thread": thread, "barrier": barrier, "opaque": opaque, "get": get, "zero": what.zero,
        "fill": what.fill, "add": what.add, "keep": what.keep, "own": what.own,
    }  # fmt: skip
    exec(_text(what), scope)
    return scope["compute"]


def _text(what: Square) -> str:
    """The text of such a function, in which each element of a thread has a name."""
    each = range(what.each)
    cells = [(i, j) for i in each for j in each]
    down, beside = ([f"{start} + {k * ACROSS}" for k in each] for start in ("top + row", "first + column"))
    inside = [f"{down[i]} < rows and {beside[j]} < columns" for i, j in cells]
    places = [f"f, batch, {down[i]}, {beside[j]}" for i, j in cells]
    known = [f", x{i}{j}, c{i}" if what.own else "" for i, j in cells]
    lines = [
        "def compute(f, left, right, batch, top, first, rows, columns, depth):",
        f"    row, column = thread() // {ACROSS}, thread() % {ACROSS}",
        *(f"    s{i}{j} = zero" for i, j in cells),
    ]
    if what.own:
        lines += [
            f"    x{i}{j} = own({place}) if {there} else zero"
            for (i, j), place, there in zip(cells, places, inside, strict=True)
        ]
    lines += [
        "    k = np.int64(0)",
        "    while k < depth:",
        "        barrier()",
        "        fill(f, left, right, batch, top, first, k)",
        "        barrier()",
        "        d = np.int64(0)",
        f"        while d < {DEPTH}:",
        *(f"            a{i} = get(left, d * {PITCH} + row + {i * ACROSS})" for i in each),
        *(f"            b{j} = get(right, d * {PITCH} + column + {j * ACROSS})" for j in each),
    ]
    if what.own:
        lines += [f"            c{i} = get(left, ({DEPTH} + d) * {PITCH} + row + {i * ACROSS})" for i in each]
    lines += [
        f"            s{i}{j} = add(f, s{i}{j}, a{i}, b{j}{more})"
        for (i, j), more in zip(cells, known, strict=True)
    ]
    lines += [
        f"            d += {'1' if what.unrolled else 'opaque(np.int64(1))'}",
        f"        k += {DEPTH}",
    ]
    for (i, j), place, there in zip(cells, places, inside, strict=True):
        lines += [f"    if {there}:", f"        keep({place}, s{i}{j})"]
    return "\n".join(lines) + "\n"


def each_square(target: Target, dtype: int, what: Square, sizes: Any) -> Any:
    """A function ``go(f, left, right)``: all squares of ``f.batch`` results.

    ``sizes(f)`` gives rows and columns of each, and of how many terms a sum is.
    """
    compute, side = square(what, target.elements[dtype].get), ACROSS * what.each

    def go(f, left, right):
        rows, columns, depth = sizes(f)
        unit, down, across = np.int64(block()), (rows + side - 1) // side, (columns + side - 1) // side
        while unit < f.batch * down * across:
            line, column = split(unit, across)
            batch, row = split(line, down)
            compute(f, left, right, batch, row * side, column * side, rows, columns, depth)
            unit += blocks()

    return go
