"""A register-tiled product for small matrices, written as vector instructions.

BLAS spends a good part of its time on packing where matrices are small. Here a tile of 8 rows and up to two vectors of
columns stays in registers while the inner dimension runs; `b` is read where it lies, so its rows must be contiguous,
and `a` element by element, so that it may be transposed. LLVM does not find this tiling by itself, hence the IR.
"""

from __future__ import annotations

import platform
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from fastgrad.kernels.dtypes import INLINE, KERNEL
from fastgrad.native.intrinsics import advance
from fastgrad.native.layout import FLOAT32, FLOAT64

ROWS = 8
MAX_WORK = 1 << 22  # multiply-adds; beyond, BLAS is at its best

_LL64 = ir.IntType(64)
_LL32 = ir.IntType(32)


def lanes(dtype: int) -> int:
    """Elements of a vector register, where there are registers enough for the tile; else 0."""
    if not llvm.get_host_cpu_features().get("avx512f"):
        return 0
    return 16 if dtype == FLOAT32 else 8


def tile_shape(dtype: int) -> tuple[int, int, int] | None:
    """Rows, vectors and lanes of a tile whose sums, with what is added to them, fill the vector registers.

    None where the processor has no fused multiply-add on vectors, or the dtype none at all.
    """
    features = llvm.get_host_cpu_features()
    if dtype not in (FLOAT32, FLOAT64):
        return None
    per_float32 = 2 if dtype == FLOAT64 else 1
    if features.get("avx512f"):
        return 8, 3, 16 // per_float32
    if features.get("avx2") and features.get("fma"):
        return 4, 3, 8 // per_float32
    if platform.machine() in ("aarch64", "arm64"):
        return 8, 3, 4 // per_float32
    return None


def tile(
    rows: int, vectors: int, width: int, dtype: int, *, indirect: bool = False, accumulate: bool = False
) -> Any:
    """An inlined function that computes ``rows x (vectors * width)`` elements of the product.

    ``tile(a, row_a, col_a, b, row_b, c, row_c, k)``: pointers, strides in elements, the inner size. With `indirect`,
    `row_b` points at the place of each row of `b`. The product is written to `c`, or added to it to `accumulate`.
    """
    scalar = types.float32 if dtype == FLOAT32 else types.float64
    element = ir.FloatType() if dtype == FLOAT32 else ir.DoubleType()
    size = 4 if dtype == FLOAT32 else 8
    vector = ir.VectorType(element, width)
    pointer = types.CPointer(scalar)

    @intrinsic
    def compute(
        context: Any, a: Any, row_a: Any, col_a: Any, b: Any, row_b: Any, c: Any, row_c: Any, k: Any
    ) -> Any:
        def emit(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            a, row_a, col_a, b, row_b, c, row_c, k = args
            fma = fused_multiply_add(builder.module, vector)
            at_c = [builder.gep(c, [builder.mul(row_c, _LL64(r))]) for r in range(rows)]
            start = [_load_row(builder, at, vectors, vector, size, accumulate) for at in at_c]
            before = builder.block
            loop, done = (builder.append_basic_block(f"tile.{name}") for name in ("loop", "done"))
            builder.cbranch(builder.icmp_signed(">", k, _LL64(0)), loop, done)

            builder.position_at_end(loop)
            i = builder.phi(_LL64)
            i.add_incoming(_LL64(0), before)
            sums = [[builder.phi(vector) for _ in range(vectors)] for _ in range(rows)]
            for r in range(rows):
                for v in range(vectors):
                    sums[r][v].add_incoming(start[r][v], before)
            place = builder.load(builder.gep(row_b, [i])) if indirect else builder.mul(i, row_b)
            columns = _load_row(builder, builder.gep(b, [place]), vectors, vector, size)
            at_a = builder.gep(a, [builder.mul(i, col_a)])
            fresh = []
            for r in range(rows):
                factor = builder.load(builder.gep(at_a, [builder.mul(row_a, _LL64(r))]))
                factors = splat(builder, factor, vector, width)
                fresh.append([builder.call(fma, [factors, columns[v], sums[r][v]]) for v in range(vectors)])
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
        places = types.CPointer(i64) if indirect else i64
        return types.void(pointer, i64, i64, pointer, places, pointer, i64, i64), emit

    return compute


def fused_multiply_add(module: Any, vector: Any) -> Any:
    """LLVM's function ``a * b + c`` on vectors of a type: rounded once where the processor can."""
    name = f"llvm.fmuladd.v{vector.count}{'f32' if isinstance(vector.element, ir.FloatType) else 'f64'}"
    return module.globals.get(name) or ir.Function(module, ir.FunctionType(vector, [vector] * 3), name)


def load_vector(builder: Any, at: Any, vector: Any, align: int) -> Any:
    value = builder.load(builder.bitcast(at, vector.as_pointer()))
    value.align = align
    return value


def _load_row(builder: Any, at: Any, vectors: int, vector: Any, align: int, given: bool = True) -> list[Any]:
    """Neighbouring vectors from memory, or zeros if they are not `given`."""
    if not given:
        return [ir.Constant(vector, [0.0] * vector.count)] * vectors
    places = (builder.gep(at, [_LL64(v * vector.count)]) for v in range(vectors))
    return [load_vector(builder, place, vector, align) for place in places]


def _store_row(builder: Any, at: Any, values: list[Any], vector: Any, width: int, align: int) -> None:
    for v, value in enumerate(values):
        target = builder.bitcast(builder.gep(at, [_LL64(v * width)]), vector.as_pointer())
        builder.store(value, target).align = align


def splat(builder: Any, value: Any, vector: Any, width: int) -> Any:
    undefined = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(undefined, value, _LL32(0))
    return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(_LL32, width), [0] * width))


def _strip(rows: int, width: int, dtype: int, accumulate: bool) -> Any:
    """An inlined function that computes `rows` rows of the product, as wide a tile at a time as fits."""
    wide, narrow = (tile(rows, vectors, width, dtype, accumulate=accumulate) for vectors in (2, 1))

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
                load_vector(builder, builder.gep(source, [builder.mul(row_source, _LL64(r))]), vector, size)
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
            factors = splat(builder, factor, vector, width)
            for r, value in enumerate(values):
                at = builder.gep(target, [builder.mul(row_target, _LL64(r))])
                _store_row(builder, at, [builder.fmul(value, factors)], vector, width, size)
            return _context.get_dummy_value()

        i64 = types.int64
        return types.void(pointer, i64, pointer, i64, scalar), emit

    return move


def _shuffle(builder: Any, a: Any, b: Any, mask: list[int]) -> Any:
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(_LL32, len(mask)), mask))


def lane_sums(rows: int, vectors: int, width: int, dtype: int) -> Any:
    """An inlined function that adds ``rows x vectors`` inner products, over stretches of some images, to `c`.

    ``sums(a, row_a, image_a, b, places, image_b, n, images, c)``: row r of `a` begins at ``r * row_a``, row v of `b` at
    ``places[v]``; both are `n` long, a multiple of the vector's width, and go on in several images. The sum of rows r
    and v is added to ``c[v * rows + r]``.
    """
    scalar = types.float32 if dtype == FLOAT32 else types.float64
    element = ir.FloatType() if dtype == FLOAT32 else ir.DoubleType()
    size = 4 if dtype == FLOAT32 else 8
    vector = ir.VectorType(element, width)
    pointer = types.CPointer(scalar)

    @intrinsic
    def compute(
        context: Any,
        a: Any,
        row_a: Any,
        image_a: Any,
        b: Any,
        places: Any,
        image_b: Any,
        n: Any,
        images: Any,
        c: Any,
    ) -> Any:
        def emit(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            a, row_a, image_a, b, places, image_b, n, images, c = args
            fma = fused_multiply_add(builder.module, vector)
            starts = [builder.load(builder.gep(places, [_LL64(v)])) for v in range(vectors)]
            offsets = [builder.mul(row_a, _LL64(r)) for r in range(rows)]

            def image(i: Any, sums: list[Any]) -> list[Any]:
                from_a, from_b = builder.mul(i, image_a), builder.mul(i, image_b)
                at_a = [builder.gep(a, [builder.add(from_a, offset)]) for offset in offsets]
                at_b = [builder.gep(b, [builder.add(from_b, start)]) for start in starts]

                def pixels(j: Any, sums: list[Any]) -> list[Any]:
                    x = [load_vector(builder, builder.gep(at, [j]), vector, size) for at in at_b]
                    fresh = []
                    for r in range(rows):  # one vector of `a` at a time: there are no registers for more
                        y = load_vector(builder, builder.gep(at_a[r], [j]), vector, size)
                        fresh += [builder.call(fma, [y, x[v], sums[r * vectors + v]]) for v in range(vectors)]
                    return fresh

                return counted(builder, n, width, sums, pixels)

            sums = counted(builder, images, 1, [ir.Constant(vector, [0.0] * width)] * (rows * vectors), image)
            for v in range(vectors):
                totals = _add_lanes(builder, sums[v::vectors])
                for k, total in enumerate(totals):
                    at = builder.gep(c, [_LL64(v * rows + k * total.type.count)])
                    before = load_vector(builder, at, total.type, size)
                    _store_row(builder, at, [builder.fadd(before, total)], total.type, total.type.count, size)
            return _context.get_dummy_value()

        i64 = types.int64
        places_type = types.CPointer(i64)
        return types.void(pointer, i64, i64, pointer, places_type, i64, i64, i64, pointer), emit

    return compute


def counted(builder: Any, count: Any, step: int, carried: list[Any], body: Any) -> list[Any]:
    """A loop from 0 up to `count`, which is more than 0, that carries vectors through ``body(i, carried)``."""
    before, loop, done = (
        builder.block,
        *(builder.append_basic_block(name) for name in ("sums.loop", "sums.done")),
    )
    builder.branch(loop)
    builder.position_at_end(loop)
    i = builder.phi(_LL64)
    i.add_incoming(_LL64(0), before)
    values = [builder.phi(value.type) for value in carried]
    for phi, value in zip(values, carried, strict=True):
        phi.add_incoming(value, before)
    fresh = body(i, values)
    following = builder.add(i, _LL64(step))
    i.add_incoming(following, builder.block)
    for phi, value in zip(values, fresh, strict=True):
        phi.add_incoming(value, builder.block)
    builder.cbranch(builder.icmp_signed("<", following, count), loop, done)
    builder.position_at_end(done)
    return fresh


def _add_lanes(builder: Any, vectors: list[Any]) -> list[Any]:
    """The sum of the lanes of each of a power of two of vectors, in order, in as few vectors as hold them."""
    partial = vectors[0].type.count
    while partial > 1:
        pairs = (
            list(zip(vectors[::2], vectors[1::2], strict=True)) if len(vectors) > 1 else [(vectors[0],) * 2]
        )
        lanes = vectors[0].type.count if len(vectors) > 1 else vectors[0].type.count // 2
        vectors = [
            builder.fadd(*(
                builder.shuffle_vector(
                    a, b, ir.Constant(ir.VectorType(_LL32, lanes), [2 * k + odd for k in range(lanes)])
                )
                for odd in (0, 1)
            ))
            for a, b in pairs
        ]  # fmt: skip
        partial //= 2
    return vectors
