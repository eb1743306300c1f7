"""Rows of windows as vector instructions: a result in each lane, and one element of every window at a time.

Rows are short and begin anywhere, so every access is masked, and what lies outside of a row of the image is never read.
LLVM makes no such loops of scalar ones. By strides of 1 and 2 elements come from vectors that lie side by side, by
others they are gathered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from fastgrad.kernels.cpu.micro import counted, splat, tile_shape
from fastgrad.kernels.dtypes import KERNEL, Element
from fastgrad.native.base.intrinsics import advance
from fastgrad.native.contracts.element_types import FLOAT32

_LL32, _LL64 = ir.IntType(32), ir.IntType(64)
MOST = 16  # lanes: places are int32, whatever the elements are; an image has fewer than 2**31 of them


def lanes(kind: np.dtype[Any]) -> int:
    """Elements of a vector."""
    shape = tile_shape(FLOAT32)
    return min((shape[2] if shape else 4) * 4 // kind.itemsize, MOST)


class _Row:
    """Vectors of one element type, and how they come from a row of an image."""

    def __init__(self, kind: np.dtype[Any], scalar: Any, builder: Any) -> None:
        self.kind, self.scalar, self.builder, self.count = kind, scalar, builder, lanes(kind)
        self.vector = ir.VectorType(scalar, self.count)
        self.places = ir.VectorType(_LL32, self.count)
        self.iota = ir.Constant(self.places, list(range(self.count)))
        self.name = f"v{self.count}{'f' if kind.kind == 'f' else 'i'}{8 * kind.itemsize}"

    def all(self, place: Any) -> Any:
        """A place in every lane."""
        return splat(self.builder, self.builder.trunc(place, _LL32), self.places, self.count)

    def constant(self, value: float) -> Any:
        """A number in every lane."""
        return ir.Constant(self.vector, [value] * self.count)

    def below(self, places: Any, size: Any) -> Any:
        """Where ``0 <= place < size``: as an unsigned number what is negative is large."""
        return self.builder.icmp_unsigned("<", places, self.all(size))

    def _call(self, name: str, result: Any, *args: Any) -> Any:
        module = self.builder.module
        kind = ir.FunctionType(result, [a.type for a in args])
        return self.builder.call(module.globals.get(name) or ir.Function(module, kind, name), args)

    def store(self, value: Any, at: Any, mask: Any) -> None:
        """Write the lanes of a mask."""
        self._store(value, self.name, self.kind.itemsize, at, mask)

    def store_places(self, places: Any, at: Any, mask: Any) -> None:
        """Write places as int64."""
        wide = self.builder.sext(places, ir.VectorType(_LL64, self.count))
        self._store(wide, f"v{self.count}i64", 8, at, mask)

    def _store(self, value: Any, name: str, size: int, at: Any, mask: Any) -> None:
        pointer = self.builder.bitcast(at, value.type.as_pointer())
        self._call(f"llvm.masked.store.{name}.p0", ir.VoidType(), value, pointer, _LL32(size), mask)

    def _load(self, at: Any, mask: Any) -> Any:
        pointer, size = self.builder.bitcast(at, self.vector.as_pointer()), _LL32(self.kind.itemsize)
        return self._call(
            f"llvm.masked.load.{self.name}.p0", self.vector, pointer, size, mask, self.constant(0)
        )

    def _gather(self, row: Any, places: Any, mask: Any) -> Any:
        builder, size, wide = self.builder, self.kind.itemsize, ir.VectorType(_LL64, self.count)
        offsets = builder.mul(builder.sext(places, wide), ir.Constant(wide, [size] * self.count))
        addresses = builder.add(splat(builder, builder.ptrtoint(row, _LL64), wide, self.count), offsets)
        pointers = builder.inttoptr(addresses, ir.VectorType(self.scalar.as_pointer(), self.count))
        name = f"llvm.masked.gather.{self.name}.v{self.count}p0"
        return self._call(name, self.vector, pointers, _LL32(size), mask, self.constant(0))

    def elements(self, row: Any, start: Any, stride: Any, known: int, size: Any) -> tuple[Any, Any, Any]:
        """Every stride-th element from `start` on, or zero; their places; where these lie in the row."""
        builder = self.builder
        steps = ir.Constant(self.places, [k * known for k in range(self.count)])
        if known == 0:
            steps = builder.mul(self.all(stride), self.iota)
        places = builder.add(self.all(start), steps)
        mask = self.below(places, size)
        if known == 0:
            return self._gather(row, places, mask), places, mask
        parts = []
        for part in range(known):
            begin = builder.add(start, _LL64(part * self.count))
            beside = builder.add(self.all(begin), self.iota)
            parts.append(self._load(builder.gep(row, [begin]), self.below(beside, size)))
        if known == 1:
            return parts[0], places, mask
        even = ir.Constant(ir.VectorType(_LL32, self.count), [2 * k for k in range(self.count)])
        return builder.shuffle_vector(parts[0], parts[1], even), places, mask


Step = Callable[[_Row, list[Any], Any, Any, Any, Any], list[Any]]


def _chunk(element: Element, known: int, initial: Any, step: Step) -> Any:
    """A vector of results: ``step(row, carried, elements, places, mask, base)`` for all elements of their windows."""
    kind = np.dtype(element.name)
    pointer, i64 = types.CPointer(element.scalar), types.int64

    @intrinsic
    def chunk(
        context: Any, x: Any, top: Any, rows: Any, down: Any, left: Any, columns: Any, across: Any, stride: Any,
        width: Any, active: Any, out: Any, indices: Any,
    ) -> Any:  # fmt: skip
        def emit(inner: Any, builder: Any, _signature: Any, args: Any) -> Any:
            x, top, rows, down, left, columns, across, stride, width, active, out, indices = args
            row = _Row(kind, inner.get_data_type(element.scalar), builder)

            def each_row(k: Any, carried: list[Any]) -> list[Any]:
                base = builder.mul(builder.add(top, builder.mul(k, down)), width)
                line = builder.gep(x, [base])

                def each_column(m: Any, carried: list[Any]) -> list[Any]:
                    begin = builder.add(left, builder.mul(m, across))
                    found = row.elements(line, begin, stride, known, width)
                    return step(row, carried, *found, base)

                return counted(builder, columns, 1, carried, each_column)

            results = counted(builder, rows, 1, initial(row), each_row)
            mask = row.below(row.iota, active)
            row.store(results[0], out, mask)
            if len(results) > 1:
                row.store_places(results[1], indices, mask)
            return inner.get_dummy_value()

        return types.void(pointer, *(i64,) * 9, pointer, types.CPointer(i64)), emit

    return chunk


def _line(element: Element, initial: Any, step: Step) -> Any:
    """``line(x, top, rows, down, left, columns, across, stride, width, n, out, places)``: a row of `n` results.

    Their windows have `rows` rows of the image from `top` on, each `down` after the one before; `columns` columns, each
    `across` after the one before; the first window begins at `left`, the others `stride` after each other.
    """
    width_of = lanes(np.dtype(element.name))
    by_one, by_two, general = (_chunk(element, known, initial, step) for known in (1, 2, 0))

    @njit(**KERNEL)
    def line(x, top, rows, down, left, columns, across, stride, width, n, out, places):  # type: ignore[no-untyped-def]
        for j in range(0, n, width_of):
            begin, rest, to, at = left + j * stride, n - j, advance(out, j), advance(places, j)
            if stride == 1:
                by_one(x, top, rows, down, begin, columns, across, stride, width, rest, to, at)
            elif stride == 2:
                by_two(x, top, rows, down, begin, columns, across, stride, width, rest, to, at)
            else:
                general(x, top, rows, down, begin, columns, across, stride, width, rest, to, at)

    return line


def sums(element: Element) -> Any:
    """The sum of each window."""

    def add(row: _Row, carried: list[Any], value: Any, places: Any, mask: Any, base: Any) -> list[Any]:
        plus = row.builder.fadd if row.kind.kind == "f" else row.builder.add
        return [plus(carried[0], value)]

    return _line(element, lambda row: [row.constant(0)], add)


def maxima(element: Element) -> Any:
    """The greatest element of each window, and its place in the image: the last nan, or the first greatest.

    Where a window has no element in the image it is the lowest number, at -1.
    """
    kind = np.dtype(element.name)
    lowest = -np.inf if kind.kind == "f" else np.iinfo(kind).min

    def compare(row: _Row, carried: list[Any], value: Any, places: Any, mask: Any, base: Any) -> list[Any]:
        best, at = carried
        b = row.builder
        if kind.kind == "f":
            better = b.or_(b.fcmp_ordered(">", value, best), b.fcmp_unordered("uno", value, value))
        else:
            better = (b.icmp_signed if kind.kind == "i" else b.icmp_unsigned)(">", value, best)
        unset = b.icmp_signed("<", at, ir.Constant(row.places, [0] * row.count))
        taken = b.and_(mask, b.or_(better, unset))
        found = b.add(places, row.all(base))
        return [b.select(taken, value, best), b.select(taken, found, at)]

    def initial(row: _Row) -> list[Any]:
        return [row.constant(lowest), ir.Constant(row.places, [-1] * row.count)]

    return _line(element, initial, compare)
