"""Inner products of stretches of rows, as vector instructions: the lanes of their sums are added at the end."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from fastgrad.kernels.cpu.micro import counted, fused_multiply_add, load_vector, store_row
from fastgrad.native.contracts.element_types import FLOAT32

_LL64 = ir.IntType(64)
_LL32 = ir.IntType(32)


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
                    store_row(builder, at, [builder.fadd(before, total)], total.type, total.type.count, size)
            return _context.get_dummy_value()

        i64 = types.int64
        places_type = types.CPointer(i64)
        return types.void(pointer, i64, i64, pointer, places_type, i64, i64, i64, pointer), emit

    return compute


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
