"""A register-tiled product for small matrices, written as vector instructions.

BLAS spends a good part of its time on packing where matrices are small. Here a tile of 8 rows and up to two vectors of
columns stays in registers while the inner dimension runs; `b` is read where it lies, so its rows must be contiguous,
and `a` element by element, so that it may be transposed. LLVM does not find this tiling by itself, hence the IR.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from fastgrad.kernels.dtypes import INLINE, KERNEL
from fastgrad.native.intrinsics import advance
from fastgrad.native.layout import FLOAT32

ROWS = 8
NARROW_ROWS = 4  # where a machine has 16 registers of half the width
MAX_WORK = 1 << 22  # multiply-adds; beyond, BLAS is at its best

_LL64 = ir.IntType(64)
_LL32 = ir.IntType(32)


def lanes(dtype: int) -> int:
    """Elements of a vector register, where there are registers enough for the tile; else 0."""
    if not llvm.get_host_cpu_features().get("avx512f"):
        return 0
    return 16 if dtype == FLOAT32 else 8


def tile(rows: int, vectors: int, width: int, dtype: int, accumulate: bool = False) -> Any:
    """An inlined function that computes ``rows x (vectors * width)`` elements of the product.

    ``tile(a, row_a, col_a, b, row_b, c, row_c, k)``: pointers, strides in elements, the inner size. The product
    is written to `c`, or added to what stands there to `accumulate`.
    """
    scalar = types.float32 if dtype == FLOAT32 else types.float64
    element = ir.FloatType() if dtype == FLOAT32 else ir.DoubleType()
    size = 4 if dtype == FLOAT32 else 8
    vector = ir.VectorType(element, width)
    pointer = types.CPointer(scalar)
    name = f"llvm.fma.v{width}f{8 * size}"

    @intrinsic
    def compute(
        context: Any, a: Any, row_a: Any, col_a: Any, b: Any, row_b: Any, c: Any, row_c: Any, k: Any
    ) -> Any:
        def emit(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            a, row_a, col_a, b, row_b, c, row_c, k = args
            module = builder.module
            fma = module.globals.get(name) or ir.Function(module, ir.FunctionType(vector, [vector] * 3), name)
            at_c = [builder.gep(c, [builder.mul(row_c, _LL64(r))]) for r in range(rows)]
            start = [_load_row(builder, at, vectors, vector, width, size, accumulate) for at in at_c]
            before = builder.block
            loop = builder.append_basic_block("tile.loop")
            done = builder.append_basic_block("tile.done")
            builder.cbranch(builder.icmp_signed(">", k, _LL64(0)), loop, done)

            builder.position_at_end(loop)
            i = builder.phi(_LL64)
            i.add_incoming(_LL64(0), before)
            sums = [[builder.phi(vector) for _ in range(vectors)] for _ in range(rows)]
            for r in range(rows):
                for v in range(vectors):
                    sums[r][v].add_incoming(start[r][v], before)
            at_b = builder.gep(b, [builder.mul(i, row_b)])
            columns = _load_row(builder, at_b, vectors, vector, width, size)
            at_a = builder.gep(a, [builder.mul(i, col_a)])
            fresh = []
            for r in range(rows):
                factor = builder.load(builder.gep(at_a, [builder.mul(row_a, _LL64(r))]))
                splat = _splat(builder, factor, vector, width)
                fresh.append([builder.call(fma, [splat, columns[v], sums[r][v]]) for v in range(vectors)])
            following = builder.add(i, _LL64(1))
            i.add_incoming(following, loop)
            for r in range(rows):
                for v in range(vectors):
                    sums[r][v].add_incoming(fresh[r][v], loop)
            builder.cbranch(builder.icmp_signed("<", following, k), loop, done)

            builder.position_at_end(done)
            results = [[builder.phi(vector) for _ in range(vectors)] for _ in range(rows)]
            for r in range(rows):
                for v in range(vectors):
                    results[r][v].add_incoming(start[r][v], before)
                    results[r][v].add_incoming(fresh[r][v], loop)
            for at, row in zip(at_c, results, strict=True):
                _store_row(builder, at, row, vector, width, size)
            return _context.get_dummy_value()

        i64 = types.int64
        return types.void(pointer, i64, i64, pointer, i64, pointer, i64, i64), emit

    return compute


def _load(builder: Any, at: Any, vector: Any, align: int) -> Any:
    value = builder.load(builder.bitcast(at, vector.as_pointer()))
    value.align = align
    return value


def _load_row(
    builder: Any, at: Any, vectors: int, vector: Any, width: int, align: int, given: bool = True
) -> list[Any]:
    """Neighbouring vectors from memory, or zeros if they are not `given`."""
    if not given:
        return [ir.Constant(vector, [0.0] * width)] * vectors
    return [_load(builder, builder.gep(at, [_LL64(v * width)]), vector, align) for v in range(vectors)]


def _store_row(builder: Any, at: Any, values: list[Any], vector: Any, width: int, align: int) -> None:
    for v, value in enumerate(values):
        target = builder.bitcast(builder.gep(at, [_LL64(v * width)]), vector.as_pointer())
        builder.store(value, target).align = align


def _splat(builder: Any, value: Any, vector: Any, width: int) -> Any:
    undefined = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(undefined, value, _LL32(0))
    return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(_LL32, width), [0] * width))


def _strip(rows: int, width: int, dtype: int, accumulate: bool) -> Any:
    """An inlined function that computes `rows` rows of the product, as wide a tile at a time as fits."""
    wide, narrow = (tile(rows, vectors, width, dtype, accumulate) for vectors in (2, 1))

    @njit(**INLINE)
    def strip(c, row_c, a, row_a, col_a, b, row_b, n, k):  # type: ignore[no-untyped-def]
        j = 0
        while j + 2 * width <= n:
            wide(a, row_a, col_a, advance(b, j), row_b, advance(c, j), row_c, k)
            j += 2 * width
        if j < n:
            narrow(a, row_a, col_a, advance(b, j), row_b, advance(c, j), row_c, k)

    return strip


def tiled_product(rows: int, width: int, dtype: int, accumulate: bool = False) -> Any:
    """``product(c, row_c, a, row_a, col_a, b, row_b, m, n, k)`` for n a multiple of the vector's width.

    Strides are in elements: those of the rows of `c` and `b`, of rows and columns of `a`. Strips of `rows` rows are
    computed at a time.
    """
    several, single = _strip(rows, width, dtype, accumulate), _strip(1, width, dtype, accumulate)

    @njit(**KERNEL)
    def product(c, row_c, a, row_a, col_a, b, row_b, m, n, k):  # type: ignore[no-untyped-def]
        r = 0
        while r + rows <= m:
            several(advance(c, r * row_c), row_c, advance(a, r * row_a), row_a, col_a, b, row_b, n, k)
            r += rows
        while r < m:
            single(advance(c, r * row_c), row_c, advance(a, r * row_a), row_a, col_a, b, row_b, n, k)
            r += 1

    return product


def small_product(dtype: int) -> Any:
    """The tiled product where there are registers enough for it to be faster than BLAS, or None."""
    width = lanes(dtype)
    return tiled_product(ROWS, width, dtype) if width else None


def tile_shape(dtype: int) -> tuple[int, int]:
    """Rows of a tile, and elements of a vector, that suit the registers of this machine."""
    width = lanes(dtype)
    return (ROWS, width) if width else (NARROW_ROWS, 8 if dtype == FLOAT32 else 4)


def transposing(width: int, dtype: int) -> Any:
    """An inlined function that transposes ``width x width`` elements in registers and multiplies them by a factor.

    ``move(target, row_target, source, row_source, factor)``: pointers and the strides of rows in elements.
    """
    scalar = types.float32 if dtype == FLOAT32 else types.float64
    element = ir.FloatType() if dtype == FLOAT32 else ir.DoubleType()
    size = 4 if dtype == FLOAT32 else 8
    vector = ir.VectorType(element, width)
    pointer = types.CPointer(scalar)

    @intrinsic
    def move(context: Any, target: Any, row_target: Any, source: Any, row_source: Any, factor: Any) -> Any:
        def emit(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            target, row_target, source, row_source, factor = args
            values = [
                _load(builder, builder.gep(source, [builder.mul(row_source, _LL64(r))]), vector, size)
                for r in range(width)
            ]
            span = 1
            while span < width:  # swap the off-diagonal blocks of all squares of 2 * span
                low = [c if not c & span else width + c - span for c in range(width)]
                high = [c + span if not c & span else width + c for c in range(width)]
                for r in (r for r in range(width) if not r & span):
                    pair = values[r], values[r + span]
                    values[r], values[r + span] = (_shuffle(builder, *pair, mask) for mask in (low, high))
                span *= 2
            splat = _splat(builder, factor, vector, width)
            for r, value in enumerate(values):
                at = builder.gep(target, [builder.mul(row_target, _LL64(r))])
                _store_row(builder, at, [builder.fmul(value, splat)], vector, width, size)
            return _context.get_dummy_value()

        i64 = types.int64
        return types.void(pointer, i64, pointer, i64, scalar), emit

    return move


def _shuffle(builder: Any, a: Any, b: Any, mask: list[int]) -> Any:
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(_LL32, len(mask)), mask))
