"""The words of `cores` for the GPU, as inline PTX. See there what they mean."""

from __future__ import annotations

import functools
from typing import Any

from llvmlite import ir
from numba.cuda import types
from numba.cuda.extending import intrinsic

from fastgrad.kernels import half_ir
from fastgrad.kernels.cuda.cores import Cores
from fastgrad.native.contracts.element_types import BFLOAT16, FLOAT16, FLOAT32

_I32, _I64, _F32 = ir.IntType(32), ir.IntType(64), ir.FloatType()
_WORDS = types.UniTuple(types.int32, 4)
_SUMS = types.UniTuple(types.float32, 4)
_TOGETHER = (
    "convergent",
    "nounwind",
)  # LLVM may not move what all threads of a warp do to where only some come


def _asm(builder: Any, result: Any, text: str, constraints: str, args: list[Any], **more: Any) -> Any:
    kind = ir.FunctionType(result, [a.type for a in args])
    return builder.call(ir.InlineAsm(kind, text, constraints, **more), args)


def _in_room(inner: Any, builder: Any, signature: Any, args: Any) -> Any:
    """The address, 32 bits, of a word of a room."""
    i = inner.cast(builder, args[1], signature.args[1], types.int32)
    return builder.add(builder.trunc(args[0], _I32), builder.shl(i, _I32(2)))


def _matrices(kind: str) -> Any:
    """A load of four matrices."""
    text = f"ldmatrix.sync.aligned.m8n8.x4{kind}.shared.b16 {{$0, $1, $2, $3}}, [$4];"
    function = ir.FunctionType(ir.LiteralStructType([_I32] * 4), [_I32])
    asm = ir.InlineAsm(function, text, "=r,=r,=r,=r,r,~{memory}", side_effect=True)

    @intrinsic
    def get(context, room, i):  # type: ignore[no-untyped-def]
        def emit(inner, builder, signature, args):  # type: ignore[no-untyped-def]
            place = _in_room(inner, builder, signature, args)
            found = builder.call(asm, [place], attrs=_TOGETHER)
            values = [builder.extract_value(found, k) for k in range(4)]
            return inner.make_tuple(builder, signature.return_type, values)

        return _WORDS(types.int64, i), emit

    return get


@intrinsic
def _copy_ahead(context, room, i, address, there):  # type: ignore[no-untyped-def]
    def emit(inner, builder, signature, args):  # type: ignore[no-untyped-def]
        place = _in_room(inner, builder, signature, args)
        asked = inner.cast(builder, args[3], signature.args[3], types.boolean)
        nbytes = builder.select(builder.trunc(asked, ir.IntType(1)), _I32(16), _I32(0))
        text = "cp.async.cg.shared.global [$0], [$1], 16, $2;"
        operands = [place, args[2], nbytes]
        _asm(builder, ir.VoidType(), text, "r,l,r,~{memory}", operands, side_effect=True)
        return inner.get_dummy_value()

    return types.void(types.int64, i, types.int64, there), emit


@intrinsic
def _await_copies(context):  # type: ignore[no-untyped-def]
    def emit(inner, builder, signature, args):  # type: ignore[no-untyped-def]
        _asm(builder, ir.VoidType(), "cp.async.wait_all;", "~{memory}", [], side_effect=True)
        return inner.get_dummy_value()

    return types.void(), emit


@intrinsic
def _half_where(context, address, i, condition):  # type: ignore[no-untyped-def]
    text = "{ .reg .pred p; setp.ne.u32 p, $2, 0; mov.u32 $0, 0; @p ld.global.u16 $0, [$1]; }"

    def emit(inner, builder, signature, args):  # type: ignore[no-untyped-def]
        i = inner.cast(builder, args[1], signature.args[1], types.int64)
        at = builder.add(args[0], builder.shl(i, _I64(1)))
        asked = inner.cast(builder, args[2], types.boolean, types.int32)
        return _asm(builder, _I32, text, "=&r,l,r", [at, asked], side_effect=True)

    return types.int32(types.int64, i, types.boolean), emit


def _multiply(kind: str) -> Any:
    text = f"mma.sync.aligned.{kind} {{$0, $1, $2, $3}}, {{$4, $5, $6, $7}}, {{$8, $9}}, {{$0, $1, $2, $3}};"
    four = ir.LiteralStructType([_F32] * 4)
    function = ir.FunctionType(four, [_I32] * 6 + [_F32] * 4)
    asm = ir.InlineAsm(function, text, "=f,=f,=f,=f,r,r,r,r,r,r,0,1,2,3", side_effect=True)

    @intrinsic
    def multiply(context, sums, left, right):  # type: ignore[no-untyped-def]
        def emit(inner, builder, signature, args):  # type: ignore[no-untyped-def]
            sums, left, right = args
            words = [builder.extract_value(left, k) for k in range(4)]
            words += [builder.extract_value(right, k) for k in range(2)]
            words += [builder.extract_value(sums, k) for k in range(4)]
            found = builder.call(asm, words, attrs=_TOGETHER)
            values = [builder.extract_value(found, k) for k in range(4)]
            return inner.make_tuple(builder, signature.return_type, values)

        return _SUMS(_SUMS, _WORDS, types.UniTuple(types.int32, 2)), emit

    return multiply


def _packed(kind: str) -> Any:
    @intrinsic
    def packed(context, x, y):  # type: ignore[no-untyped-def]
        def emit(inner, builder, signature, args):  # type: ignore[no-untyped-def]
            return _asm(builder, _I32, f"cvt.rn.{kind}x2.f32 $0, $1, $2;", "=r,f,f", [args[1], args[0]])

        return types.int32(types.float32, types.float32), emit

    return packed


def _unpacked(code: int) -> Any:
    pair, half = types.UniTuple(types.float32, 2), ir.IntType(16)

    @intrinsic
    def unpacked(context, word):  # type: ignore[no-untyped-def]
        def emit(inner, builder, signature, args):  # type: ignore[no-untyped-def]
            [word] = args
            if code == BFLOAT16:
                bits = [builder.shl(word, _I32(16)), builder.and_(word, _I32(0xFFFF0000))]
                values = [builder.bitcast(b, _F32) for b in bits]
            else:
                halves = [builder.trunc(w, half) for w in (word, builder.lshr(word, _I32(16)))]
                values = [half_ir.widened(builder, code, h, True) for h in halves]
            return inner.make_tuple(builder, pair, values)

        return pair(types.int32), emit

    return unpacked


@intrinsic
def _rounded(context, x):  # type: ignore[no-untyped-def]
    def emit(inner, builder, signature, args):  # type: ignore[no-untyped-def]
        return _asm(builder, _I32, "cvt.rna.tf32.f32 $0, $1;", "=r,f", list(args))

    return types.int32(types.float32), emit


@intrinsic
def _single(context, word):  # type: ignore[no-untyped-def]
    one = types.UniTuple(types.float32, 1)

    def emit(inner, builder, signature, args):  # type: ignore[no-untyped-def]
        return inner.make_tuple(builder, one, [builder.bitcast(args[0], _F32)])

    return one(types.int32), emit


WORDS = {
    "get_matrices": _matrices(""), "get_transposed": _matrices(".trans"), "copy_ahead": _copy_ahead,
    "await_copies": _await_copies, "half_where": _half_where,
}  # fmt: skip


@functools.cache
def cores() -> dict[int, Cores]:
    """The cores by the codes of dtypes."""
    halves = {FLOAT16: "f16", BFLOAT16: "bf16"}
    found = {
        code: Cores(16, _multiply(f"m16n8k16.row.col.f32.{kind}.{kind}.f32"), _packed(kind), _unpacked(code))
        for code, kind in halves.items()
    }
    return found | {FLOAT32: Cores(8, _multiply("m16n8k8.row.col.f32.tf32.tf32.f32"), _rounded, _single)}
