"""Sorting: elements of each row in order, and where they came from."""

from __future__ import annotations

from fastgrad.native.contracts import integers
from fastgrad.native.contracts.frames.framed import SEARCH
from fastgrad.native.contracts.frames.sorting import SORTING
from fastgrad.native.contracts.ops import (
    AS_OPERANDS,
    NOT_DIFFERENTIABLE,
    ONE_DIFFERENTIABLE,
    SHAPE_FRAMED,
    SHAPE_SORT,
    STRUCTURED,
    WITH_INDICES,
)
from fastgrad.ops.call import invoke
from fastgrad.ops.index import scatter_add
from fastgrad.ops.kernel_table import Kernel
from fastgrad.ops.registry import Op

SELECT = Kernel("select_sorted", "sorting:select", frame=SORTING)


def _sorting(name, flags=0):
    op = Op(
        name, STRUCTURED, ("x",), integers.SORTED.names, kernel=SELECT, forward=SHAPE_SORT,
        n_out=2, flags=ONE_DIFFERENTIABLE | WITH_INDICES | flags, saved_as="self -> values indices",
    )  # fmt: skip

    @op.vjp("x")
    def _(g, y1, dim, sizes):
        return invoke(scatter_add, (None, g, y1), dim, sizes)

    return op


# How many boundaries stand before each value: they are in order, or a sorter says in which.
searchsorted = Op(
    "searchsorted", STRUCTURED, ("values", "boundaries", "sorter?"), (*SEARCH.names_of("integers"), "*outputs"),
    kernel=Kernel("search", "searching:search", frame=SEARCH), forward=SHAPE_FRAMED,
    flags=NOT_DIFFERENTIABLE,
)  # fmt: skip
sort = _sorting("sort", AS_OPERANDS)
topk = _sorting("topk")
