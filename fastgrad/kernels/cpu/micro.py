"""A register-tiled product for small matrices, written as vector instructions.

BLAS spends a good part of its time on packing where matrices are small. Here a tile of some rows and up to two vectors
of columns stays in registers while the inner dimension runs; `b` is read by rows, where it lies or from a transposed
panel, and `a` element by element, so that it may be transposed. LLVM does not find this tiling by itself, hence the IR.

An element of a product is the same sum in the same order, whichever tile it is in: a product may be divided anywhere.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from fastgrad.kernels.dtypes import ELEMENTS, INLINE, KERNEL
from fastgrad.native.base.intrinsics import advance, stack_words
from fastgrad.native.build import processors
from fastgrad.native.contracts.element_types import FLOAT32, FLOAT64

PANEL = 256  # rows of a panel: 32 KiB of the stack, which stay in the cache

_LL64 = ir.IntType(64)
_LL32 = ir.IntType(32)


def lanes(dtype: int) -> int:
    """Elements of a vector register; 0 for what tiles are not made of."""
    if dtype not in (FLOAT32, FLOAT64):
        return 0
    nbytes = 64 if processors.wide_tiles() else 32 if processors.host().has("avx") else 16
    return nbytes // (4 if dtype == FLOAT32 else 8)


def masked_lanes(dtype: int) -> int:
    """The same where leaving out lanes, loaded or stored, costs nothing; else 0."""
    return lanes(dtype) if processors.wide_tiles() else 0


def product_rows() -> int:
    """Rows of most tiles of products: with two vectors of columns, their sums leave a few registers for operands."""
    if processors.wide_tiles() or processors.is_arm():
        return 8
    return 6 if _has_avx2() else 4


def _has_avx2() -> bool:
    return processors.host().has("avx2") and processors.fuses()


def tile_shape(dtype: int) -> tuple[int, int, int] | None:
    """Rows, vectors and lanes of a tile whose sums, with what is added to them, fill the vector registers.

    None where the processor has no fused multiply-add on vectors, or the dtype none at all.
    """
    if not lanes(dtype):
        return None
    if processors.wide_tiles() or processors.is_arm():
        return 8, 3, lanes(dtype)
    return (4, 3, lanes(dtype)) if _has_avx2() else None


def tile(
    rows: int,
    vectors: int,
    width: int,
    dtype: int,
    *,
    indirect: bool = False,
    accumulate: bool = False,
    bounded: bool = False,
    padded: bool = False,
    whole: bool = False,
    distances: bool = False,
) -> Any:
    """An inlined function that computes ``rows x (vectors * width)`` elements of the product.

    ``tile(a, row_a, col_a, b, row_b, c, row_c, k)``: pointers, strides in elements, the inner size. With `indirect`,
    `row_b` points at the place of each row of `b`. The product is written to `c`, or added to it to `accumulate`.

    With `bounded` four more arguments follow, ``columns, accumulate, d, row_d``: memory beyond so many columns is
    neither read nor written, and whether the product is added, to rows that need not be those of `c`, is known only
    now. If `padded`, `b` is read beyond them nevertheless: a load that leaves lanes out takes a turn of what
    multiplies. A `whole` tile has all its columns, and leaves no lanes out: where masks are not registers of their own
    that costs more than the tile's sums. For `distances` the squares of differences are summed in place of products.
    """
    pointer = types.CPointer(types.float32 if dtype == FLOAT32 else types.float64)
    element = ir.FloatType() if dtype == FLOAT32 else ir.DoubleType()
    size = 4 if dtype == FLOAT32 else 8
    vector = ir.VectorType(element, width)

    def emit(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        a, row_a, col_a, b, row_b, c, row_c, k, *bounds = args
        fma = fused_multiply_add(builder.module, vector)
        at_c = [builder.gep(c, [builder.mul(row_c, _LL64(r))]) for r in range(rows)]
        start = [_load_row(builder, at, vectors, vector, size, accumulate) for at in at_c]
        if bounded and not whole:
            inside = _masks(builder, bounds[0], vectors, width)
        for at in at_c:  # what is written at the end is on its way from memory while the loop runs
            for v in range(vectors):
                _prefetch(builder, builder.gep(at, [_LL64(v * width)]), to_write=True)

        def step(i: Any, sums: list[Any]) -> list[Any]:
            place = builder.load(builder.gep(row_b, [i])) if indirect else builder.mul(i, row_b)
            at_b = builder.gep(b, [place])
            if bounded and not padded and not whole:
                columns = _load_inside(builder, at_b, inside, vector, size)
            else:
                columns = _load_row(builder, at_b, vectors, vector, size)
            at_a = builder.gep(a, [builder.mul(i, col_a)])
            fresh = []
            for r in range(rows):
                factor = builder.load(builder.gep(at_a, [builder.mul(row_a, _LL64(r))]))
                factors = splat(builder, factor, vector, width)
                for column, total in zip(columns, sums[r * vectors : (r + 1) * vectors], strict=True):
                    apart = builder.fsub(column, factors) if distances else None
                    fresh.append(builder.call(fma, [apart or factors, apart or column, total]))
            return fresh

        sums = _maybe_counted(builder, k, [value for row in start for value in row], step)
        for r, at in enumerate(at_c):
            row = sums[r * vectors : (r + 1) * vectors]
            if bounded:
                at_d = builder.gep(bounds[2], [builder.mul(bounds[3], _LL64(r))])
                _store_sum(builder, at, row, at_d, bounds[1], None if whole else inside, size)
            else:
                store_row(builder, at, row, vector, width, size)
        return _context.get_dummy_value()

    places = types.CPointer(types.int64) if indirect else types.int64
    return _tile_intrinsic(emit, pointer, places, bounded)


def _store_sum(
    builder: Any, at: Any, row: list[Any], at_d: Any, add: Any, masks: list[Any] | None, size: int
) -> None:
    """Write a row of a tile, plus what stands at `at_d` if it is to be added; all of it, or what masks say."""
    vector = row[0].type
    adds = _truths(builder, add, vector.count)
    if masks is None:
        zeros = ir.Constant(vector, [0.0] * vector.count)
        found = _load_row(builder, at_d, len(row), vector, size)
        before = [builder.select(adds, x, zeros) for x in found]
    else:
        before = _load_inside(builder, at_d, [builder.and_(mask, adds) for mask in masks], vector, size)
    sums = [builder.fadd(old, new) for old, new in zip(before, row, strict=True)]
    if masks is None:
        store_row(builder, at, sums, vector, vector.count, size)
    else:
        _store_inside(builder, at, sums, masks, size)


def _tile_intrinsic(emit: Any, pointer: Any, places: Any, bounded: bool) -> Any:
    """What `tile` returns, from the function that writes its instructions."""
    i64 = types.int64
    arguments = (pointer, i64, i64, pointer, places, pointer, i64, i64)

    @intrinsic
    def compute(
        context: Any, a: Any, row_a: Any, col_a: Any, b: Any, row_b: Any, c: Any, row_c: Any, k: Any
    ) -> Any:
        return types.void(*arguments), emit

    @intrinsic
    def compute_inside(
        context: Any,
        a: Any,
        row_a: Any,
        col_a: Any,
        b: Any,
        row_b: Any,
        c: Any,
        row_c: Any,
        k: Any,
        columns: Any,
        accumulate: Any,
        d: Any,
        row_d: Any,
    ) -> Any:
        return types.void(*arguments, i64, i64, pointer, i64), emit

    return compute_inside if bounded else compute


def fused_multiply_add(module: Any, vector: Any) -> Any:
    """LLVM's function ``a * b + c`` on vectors of a type: rounded once where the processor can."""
    name = f"llvm.fmuladd.v{vector.count}{'f32' if isinstance(vector.element, ir.FloatType) else 'f64'}"
    return module.globals.get(name) or ir.Function(module, ir.FunctionType(vector, [vector] * 3), name)


def load_vector(builder: Any, at: Any, vector: Any, align: int) -> Any:
    value = builder.load(builder.bitcast(at, vector.as_pointer()))
    value.align = align
    return value


def _prefetch(builder: Any, at: Any, to_write: bool) -> None:
    name, flags = "llvm.prefetch.p0", (int(to_write), 3, 1)  # to the first level, data
    place = builder.bitcast(at, ir.IntType(8).as_pointer())
    kind = ir.FunctionType(ir.VoidType(), [place.type, _LL32, _LL32, _LL32])
    function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
    builder.call(function, [place, *(_LL32(flag) for flag in flags)])


@intrinsic
def prefetch(context: Any, at: Any) -> Any:
    """Ask for the line of the cache that will be read soon; nothing happens where there is no memory."""

    def emit(inner: Any, builder: Any, _signature: Any, args: Any) -> Any:
        _prefetch(builder, args[0], to_write=False)
        return inner.get_dummy_value()

    return types.void(at), emit


def _load_row(builder: Any, at: Any, vectors: int, vector: Any, align: int, given: bool = True) -> list[Any]:
    """Neighbouring vectors from memory, or zeros if they are not `given`."""
    if not given:
        return [ir.Constant(vector, [0.0] * vector.count)] * vectors
    places = (builder.gep(at, [_LL64(v * vector.count)]) for v in range(vectors))
    return [load_vector(builder, place, vector, align) for place in places]


def store_row(builder: Any, at: Any, values: list[Any], vector: Any, width: int, align: int) -> None:
    for v, value in enumerate(values):
        target = builder.bitcast(builder.gep(at, [_LL64(v * width)]), vector.as_pointer())
        builder.store(value, target).align = align


def _truths(builder: Any, truth: Any, width: int) -> Any:
    """Lanes that are all true if an integer is not zero."""
    return splat(
        builder, builder.icmp_signed("!=", truth, _LL64(0)), ir.VectorType(ir.IntType(1), width), width
    )


def _masks(builder: Any, columns: Any, vectors: int, width: int) -> list[Any]:
    """Which lanes of neighbouring vectors belong to the first `columns` elements.

    The lanes are numbered in 32 bits: a comparison of wider ones comes in halves, which a loop would join each time.
    """
    indices, most = ir.VectorType(_LL32, width), _LL64(vectors * width)
    clamped = builder.select(builder.icmp_signed("<", columns, most), columns, most)
    bound = splat(builder, builder.trunc(clamped, _LL32), indices, width)
    return [
        builder.icmp_signed("<", ir.Constant(indices, [v * width + k for k in range(width)]), bound)
        for v in range(vectors)
    ]


def masked(builder: Any, action: str, vector: Any, arguments: list[Any]) -> Any:
    """Call LLVM's masked ``load`` or ``store`` of a type of vectors."""
    suffix = f"v{vector.count}{'f32' if isinstance(vector.element, ir.FloatType) else 'f64'}.p0"
    name = f"llvm.masked.{action}.{suffix}"
    kind = ir.FunctionType(vector if action == "load" else ir.VoidType(), [x.type for x in arguments])
    function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
    return builder.call(function, arguments)


def _load_inside(builder: Any, at: Any, masks: list[Any], vector: Any, align: int) -> list[Any]:
    """Neighbouring vectors from memory, zeros where the masks say no."""
    values = []
    for v, mask in enumerate(masks):
        place = builder.bitcast(builder.gep(at, [_LL64(v * vector.count)]), vector.as_pointer())
        zeros = ir.Constant(vector, [0.0] * vector.count)
        values.append(masked(builder, "load", vector, [place, _LL32(align), mask, zeros]))
    return values


def _store_inside(builder: Any, at: Any, values: list[Any], masks: list[Any], align: int) -> None:
    for v, (value, mask) in enumerate(zip(values, masks, strict=True)):
        vector = value.type
        place = builder.bitcast(builder.gep(at, [_LL64(v * vector.count)]), vector.as_pointer())
        masked(builder, "store", vector, [value, place, _LL32(align), mask])


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


def bounded_strip(rows: int, width: int, dtype: int, padded: bool = False, distances: bool = False) -> Any:
    """An inlined function that computes `rows` rows of the product, however many columns there are.

    If `padded`, `b` has whole vectors of columns; for `distances` see `tile`.
    """
    free = masked_lanes(dtype) != 0
    whole = tile(rows, 2, width, dtype, bounded=True, padded=free, whole=not free, distances=distances)
    wide, narrow = (
        tile(rows, vectors, width, dtype, bounded=True, padded=padded, distances=distances)
        for vectors in (2, 1)
    )
    once = padded and free  # the first kind of tile is the second as well
    enough = width + 1 if once else 2 * width

    @njit(**INLINE)
    def strip(c, row_c, a, row_a, col_a, b, row_b, n, k, accumulate, d, row_d):  # type: ignore[no-untyped-def]
        for j in range(0, n, 2 * width):
            at_b, at_c, at_d = advance(b, j), advance(c, j), advance(d, j)
            if n - j >= enough:
                whole(a, row_a, col_a, at_b, row_b, at_c, row_c, k, n - j, accumulate, at_d, row_d)
            elif not once and n - j > width:
                wide(a, row_a, col_a, at_b, row_b, at_c, row_c, k, n - j, accumulate, at_d, row_d)
            else:
                narrow(a, row_a, col_a, at_b, row_b, at_c, row_c, k, n - j, accumulate, at_d, row_d)

    return strip


def bounded_rows(dtype: int, padded: bool = False, distances: bool = False) -> Any:
    """An inlined function for all sizes.

    ``rows(c, row_c, a, row_a, tile_a, col_a, b, row_b, m, n, k, accumulate, d, row_d)``: strides are as in
    `tiled_product`, and `tile_a` is what lies between a tile of `product_rows` rows of `a` and the next one;
    `accumulate` and `padded` are as in `bounded_product`, and `d` and `distances` are as in `tile`.
    """
    most = product_rows()
    by_most, by_4, by_2, by_1 = (
        bounded_strip(n, lanes(dtype), dtype, padded, distances) for n in (most, 4, 2, 1)
    )

    @njit(**INLINE)
    def rows(  # type: ignore[no-untyped-def]
        c, row_c, a, row_a, tile_a, col_a, b, row_b, m, n, k, accumulate, d, row_d
    ):  # fmt: skip
        left = m
        while left >= most:
            by_most(c, row_c, a, row_a, col_a, b, row_b, n, k, accumulate, d, row_d)
            c, d, a = advance(c, most * row_c), advance(d, most * row_d), advance(a, tile_a)
            left -= most
        if left & 4:
            by_4(c, row_c, a, row_a, col_a, b, row_b, n, k, accumulate, d, row_d)
            c, d, a = advance(c, 4 * row_c), advance(d, 4 * row_d), advance(a, 4 * row_a)
        if left & 2:
            by_2(c, row_c, a, row_a, col_a, b, row_b, n, k, accumulate, d, row_d)
            c, d, a = advance(c, 2 * row_c), advance(d, 2 * row_d), advance(a, 2 * row_a)
        if left & 1:
            by_1(c, row_c, a, row_a, col_a, b, row_b, n, k, accumulate, d, row_d)

    return rows


def bounded_product(dtype: int, padded: bool = False) -> Any:
    """``product(c, row_c, a, row_a, col_a, b, row_b, m, n, k, accumulate)`` for matrices of any size.

    Strides are as in `tiled_product`; the product is written to `c`, or added to it if `accumulate` is not 0. Longer
    inner sums than `PANEL` are added in blocks, which keeps them accurate. If `padded`, `b` has whole vectors of
    columns.
    """
    rows, most = bounded_rows(dtype, padded), product_rows()

    @njit(**KERNEL)
    def block(c, row_c, a, row_a, col_a, b, row_b, m, n, k, accumulate):  # type: ignore[no-untyped-def]
        rows(c, row_c, a, row_a, most * row_a, col_a, b, row_b, m, n, k, accumulate, c, row_c)

    @njit(**KERNEL)
    def product(c, row_c, a, row_a, col_a, b, row_b, m, n, k, accumulate):  # type: ignore[no-untyped-def]
        for p in range(0, max(k, 1), PANEL):  # zeros are written for k = 0
            at_a, at_b, depth = advance(a, p * col_a), advance(b, p * row_b), min(PANEL, k - p)
            add = 1 if accumulate or p > 0 else 0
            block(c, row_c, at_a, row_a, col_a, at_b, row_b, m, n, depth, add)

    return product


def transposed_product(dtype: int) -> Any:
    """``product(c, row_c, a, row_a, col_a, b, row_b, m, n, k, accumulate)`` with the transpose of `b`.

    The n rows of `b` are k long. Panels of the transpose, two vectors of columns wide, are made in a buffer on the
    stack.
    """
    element, width = ELEMENTS[dtype], lanes(dtype)
    pointer, memory = element.pointer, stack_words(PANEL * 2 * width * element.scalar.bitwidth // 64)
    several, transpose = bounded_product(dtype, padded=True), _transpose(dtype)

    @njit(**KERNEL)
    def product(c, row_c, a, row_a, col_a, b, row_b, m, n, k, accumulate):  # type: ignore[no-untyped-def]
        panel = pointer(memory())
        for j in range(0, n, 2 * width):
            columns = min(2 * width, n - j)
            for p in range(0, max(k, 1), PANEL):  # zeros are written for k = 0
                depth = min(PANEL, k - p)
                transpose(panel, advance(b, j * row_b + p), row_b, columns, depth)
                add = 1 if accumulate or p > 0 else 0
                at_c, at_a = advance(c, j), advance(a, p * col_a)
                several(at_c, row_c, at_a, row_a, col_a, panel, 2 * width, m, columns, depth, add)

    return product


def _transpose(dtype: int) -> Any:
    """An inlined function that fills a panel with the transpose of n rows of length k."""
    width, one = lanes(dtype), ELEMENTS[dtype].constant(1)
    move, move_edge = transposing(width, dtype), transposing(width, dtype, bounded=True)

    @njit(**INLINE)
    def transpose(panel, b, row_b, n, k):  # type: ignore[no-untyped-def]
        for j in range(0, n, width):
            for p in range(0, k, width):
                target, source = advance(panel, p * 2 * width + j), advance(b, j * row_b + p)
                if j + width <= n and p + width <= k:
                    move(target, 2 * width, source, row_b, one)
                else:
                    move_edge(target, 2 * width, source, row_b, one, n - j, k - p)

    return transpose


def transposed_elements(apart: int) -> Any:
    """An inlined function that writes the transpose of n rows, `k` long: its own rows lie that far `apart`."""

    @njit(**INLINE)
    def transpose(target, source, row, n, k):  # type: ignore[no-untyped-def]
        for p in range(k):
            for j in range(n):
                target[p * apart + j] = source[j * row + p]

    return transpose


def transposing(width: int, dtype: int, *, bounded: bool = False, scaled: bool = True) -> Any:
    """An inlined function that transposes ``width x width`` elements in registers and multiplies them by a factor.

    ``move(target, row_target, source, row_source, factor)``: pointers and the strides of rows in elements. If not
    `scaled` there is no factor, and all bits stay as they are.

    With `bounded` two more arguments follow, ``rows, columns``: only as many of the source are read, each at least 1;
    the rest of what is written has no meaning.
    """
    scalar = types.float32 if dtype == FLOAT32 else types.float64
    element = ir.FloatType() if dtype == FLOAT32 else ir.DoubleType()
    size = 4 if dtype == FLOAT32 else 8
    vector = ir.VectorType(element, width)
    pointer = types.CPointer(scalar)

    def emit(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        target, row_target, source, row_source, *others = args
        factors = [splat(builder, others[0], vector, width)] if scaled else []
        if bounded:
            values = _rows_inside(builder, source, row_source, *others[1:], vector, size)
        else:
            places = [builder.gep(source, [builder.mul(row_source, _LL64(r))]) for r in range(width)]
            values = [load_vector(builder, place, vector, size) for place in places]
        for r, value in enumerate(_transposed(builder, values)):
            at = builder.gep(target, [builder.mul(row_target, _LL64(r))])
            result = builder.fmul(value, factors[0]) if scaled else value
            store_row(builder, at, [result], vector, width, size)
        return _context.get_dummy_value()

    i64 = types.int64
    arguments = (pointer, i64, pointer, i64, scalar)

    @intrinsic
    def move(context: Any, target: Any, row_target: Any, source: Any, row_source: Any, factor: Any) -> Any:
        return types.void(*arguments), emit

    @intrinsic
    def move_inside(
        context: Any,
        target: Any,
        row_target: Any,
        source: Any,
        row_source: Any,
        factor: Any,
        rows: Any,
        columns: Any,
    ) -> Any:
        return types.void(*arguments, i64, i64), emit

    @intrinsic
    def move_bits(context: Any, target: Any, row_target: Any, source: Any, row_source: Any) -> Any:
        return types.void(*arguments[:4]), emit

    return move_inside if bounded else move if scaled else move_bits


def _rows_inside(
    builder: Any, source: Any, stride: Any, rows: Any, columns: Any, vector: Any, size: int
) -> list[Any]:
    """As many rows of a matrix as a vector has lanes: the last one in place of those behind it, zeros behind a row."""
    inside, last = _masks(builder, columns, 1, vector.count), builder.sub(rows, _LL64(1))
    values = []
    for r in range(vector.count):
        row = builder.select(builder.icmp_signed("<", _LL64(r), rows), _LL64(r), last)
        values += _load_inside(builder, builder.gep(source, [builder.mul(stride, row)]), inside, vector, size)
    return values


def _transposed(builder: Any, values: list[Any]) -> list[Any]:
    """The columns of the matrix whose rows are as many vectors as they have lanes."""
    width, span = len(values), 1
    values = list(values)
    while span < width:  # swap the off-diagonal blocks of all squares of 2 * span
        low = [c if not c & span else width + c - span for c in range(width)]
        high = [c + span if not c & span else width + c for c in range(width)]
        for r in (r for r in range(width) if not r & span):
            pair = values[r], values[r + span]
            values[r], values[r + span] = (shuffle(builder, *pair, mask) for mask in (low, high))
        span *= 2
    return values


def shuffle(builder: Any, a: Any, b: Any, mask: list[int]) -> Any:
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(_LL32, len(mask)), mask))


def _maybe_counted(builder: Any, count: Any, carried: list[Any], body: Any) -> list[Any]:
    """As `counted` by ones, for a count that may be 0: what is carried stays then."""
    before = builder.block
    enter, done = (builder.append_basic_block(name) for name in ("tile.loop", "tile.done"))
    builder.cbranch(builder.icmp_signed(">", count, _LL64(0)), enter, done)
    builder.position_at_end(enter)
    fresh = counted(builder, count, 1, carried, body)
    after = builder.block
    builder.branch(done)
    builder.position_at_end(done)
    results = []
    for old, new in zip(carried, fresh, strict=True):
        result = builder.phi(old.type)
        result.add_incoming(old, before)
        result.add_incoming(new, after)
        results.append(result)
    return results


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
