"""The words of `device` for the GPU: with those of `hardware_cores` the only functions and intrinsics of numba.cuda.

Whatever is made of LLVM's instructions for the GPU stands here. Addresses are numbers of 64 bits; they are cast to
pointers into the device's memory where elements are read and written.
"""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

from llvmlite import ir
from numba import cuda
from numba.cuda import cgutils, libdevice, types
from numba.cuda.extending import intrinsic

from fastgrad.kernels import half_ir, scalar_ir
from fastgrad.kernels.cuda import hardware_cores, scalar_math
from fastgrad.kernels.cuda.complex_elements import complex_element
from fastgrad.kernels.cuda.device import Element, Target
from fastgrad.kernels.cuda.hardware_bits import bits_of_32, float_of, float_of_32, sealed
from fastgrad.kernels.cuda.hardware_complex import chosen, constant_of, imag, make, part_by_part, real
from fastgrad.native.contracts.element_types import (
    BFLOAT16,
    BOOL,
    COMPLEX,
    DTYPES,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    HALVES,
    INT16,
    INT32,
    INT64,
    ITEMSIZES,
    UINT8,
    computed_in,
    real_of,
)

GLOBAL, SHARED = 1, 3
"""Address spaces: the device's memory, and that of a block."""

_I16, _I32 = ir.IntType(16), ir.IntType(32)
_SCALARS: dict[int, Any] = {
    BOOL: types.boolean, UINT8: types.uint8, INT16: types.int16, INT32: types.int32, INT64: types.int64,
    FLOAT16: types.float32, BFLOAT16: types.float32, FLOAT32: types.float32, FLOAT64: types.float64,
}  # fmt: skip
_LL: dict[int, Any] = {
    BOOL: ir.IntType(8), UINT8: ir.IntType(8), INT16: _I16, INT32: _I32, INT64: ir.IntType(64),
    FLOAT16: _I16, BFLOAT16: _I16, FLOAT32: ir.FloatType(), FLOAT64: ir.DoubleType(),
}  # fmt: skip

device_function: Any = cuda.jit(device=True)

# --- which thread this is --------------------------------------------------------------------------------------


def thread():  # type: ignore[no-untyped-def]
    return types.int32(cuda.threadIdx.x)


def block():  # type: ignore[no-untyped-def]
    return types.int32(cuda.blockIdx.x)


def blocks():  # type: ignore[no-untyped-def]
    return types.int32(cuda.gridDim.x)


def barrier():  # type: ignore[no-untyped-def]
    cuda.syncthreads()


def barrier_any(value):  # type: ignore[no-untyped-def]
    return cuda.syncthreads_or(types.int32(1 if value else 0)) != 0


def warp_barrier():  # type: ignore[no-untyped-def]
    cuda.syncwarp()


def ballot(flag):  # type: ignore[no-untyped-def]
    return types.uint32(cuda.ballot_sync(-1, flag))


def popcount(bits):  # type: ignore[no-untyped-def]
    return types.int32(cuda.popc(bits))


@part_by_part
def shuffle_xor(value, mask):  # type: ignore[no-untyped-def]
    return cuda.shfl_xor_sync(-1, value, mask)


@part_by_part
def shuffle_up(value, distance):  # type: ignore[no-untyped-def]
    return cuda.shfl_up_sync(-1, value, distance)


@part_by_part
def shuffle_from(value, lane):  # type: ignore[no-untyped-def]
    return cuda.shfl_sync(-1, value, lane)


# --- numbers ---------------------------------------------------------------------------------------------------


@intrinsic
def quotient(context, a, b):  # type: ignore[no-untyped-def]
    def emit(inner, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.udiv(*args)

    return types.uint32(types.uint32, types.uint32), emit


@intrinsic
def high_product(context, a, b):  # type: ignore[no-untyped-def]
    def emit(inner, builder, signature, args):  # type: ignore[no-untyped-def]
        kind = ir.FunctionType(_I32, [_I32, _I32])  # a product of 64 bits would be one of two registers each
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, "llvm.nvvm.mulhi.ui"), args)

    return types.uint32(types.uint32, types.uint32), emit


@intrinsic
def like(context, x, value):  # type: ignore[no-untyped-def]
    kind = types.unliteral(x)

    def emit(inner, builder, signature, args):  # type: ignore[no-untyped-def]
        return inner.cast(builder, args[1], signature.args[1], signature.return_type)

    return kind(x, value), emit


@intrinsic
def where(context, condition, x, y):  # type: ignore[no-untyped-def]
    a, b = types.unliteral(x), types.unliteral(y)
    kind = a if a == b else context.unify_types(a, b)

    def emit(inner, builder, signature, args):  # type: ignore[no-untyped-def]
        values = [inner.cast(builder, args[k], signature.args[k], kind) for k in (1, 2)]
        return chosen(builder, inner, args[0], kind, *values)

    return kind(types.boolean, x, y), emit


@intrinsic
def fma(context, x, y, z):  # type: ignore[no-untyped-def]
    kind = types.unliteral(x)

    def emit(inner, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.fma(
            *(inner.cast(builder, a, t, kind) for a, t in zip(args, signature.args, strict=True))
        )

    return kind(x, y, z), emit


@intrinsic
def rounded_product(context, x, y):  # type: ignore[no-untyped-def]
    kind = types.unliteral(x)
    text, register = ("mul.rn.f64", "d") if kind == types.float64 else ("mul.rn.f32", "f")

    def emit(inner, builder, signature, args):  # type: ignore[no-untyped-def]
        number = inner.get_value_type(kind)
        function = ir.FunctionType(number, [number, number])
        return builder.call(
            ir.InlineAsm(function, f"{text} $0, $1, $2;", f"={register},{register},{register}"), args
        )

    return kind(kind, kind), emit


@intrinsic
def exp2_flushed(context, x):  # type: ignore[no-untyped-def]
    def emit(inner, builder, signature, args):  # type: ignore[no-untyped-def]
        kind = ir.FunctionType(ir.FloatType(), [ir.FloatType()])
        return builder.call(ir.InlineAsm(kind, "ex2.approx.ftz.f32 $0, $1;", "=f,f"), args)

    return types.float32(types.float32), emit


@intrinsic
def reciprocal_near(context, x):  # type: ignore[no-untyped-def]
    def emit(inner, builder, signature, args):  # type: ignore[no-untyped-def]
        single = ir.FloatType()
        text = "rcp.approx.ftz.f32 $0, $1;"
        found = builder.call(ir.InlineAsm(ir.FunctionType(single, [single]), text, "=f,f"), args)
        wrong = builder.fma(builder.fsub(single(-0.0), args[0]), found, single(1))
        return builder.fma(found, wrong, found)

    return types.float32(types.float32), emit


TABLE = "fastgrad_table"
"""What stands in PTX for the parameter that is a table; `assemble` knows its name."""


@intrinsic
def word_of(context, table, i):  # type: ignore[no-untyped-def]
    text = f"{{ .reg .b64 at; mov.b64 at, {TABLE}; add.s64 at, at, $1; ld.param.b64 $0, [at]; }}"
    function = ir.FunctionType(ir.IntType(64), [ir.IntType(64)])

    def emit(inner, builder, signature, args):  # type: ignore[no-untyped-def]
        place = inner.cast(builder, args[1], signature.args[1], types.int64)
        return builder.asm(function, text, "=l,l", [builder.shl(place, ir.IntType(64)(3))], side_effect=False)

    return types.int64(types.int64, i), emit


@intrinsic
def opaque(context, x):  # type: ignore[no-untyped-def]
    kind = ir.FunctionType(ir.IntType(64), [ir.IntType(64)])

    def emit(inner, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.asm(kind, "mov.b64 $0, $1;", "=l,l", args, side_effect=True)

    return types.int64(types.int64), emit


@intrinsic
def divide(context, x, y):  # type: ignore[no-untyped-def]
    """As `scalar_ir.divide`."""
    if not isinstance(x, types.Integer):
        return None

    def emit(inner, builder, signature, args):  # type: ignore[no-untyped-def]
        small = x.bitwidth == 8 and not x.signed
        pair = _divided_bytes(builder, *args) if small else scalar_ir.divided(builder, *args, x.signed)
        return inner.make_tuple(builder, signature.return_type, pair)

    return types.UniTuple(x, 2)(x, x), emit


def _divided_bytes(builder: Any, a: Any, b: Any) -> tuple[Any, Any]:
    """`scalar_ir.divided` of bytes, by a reciprocal in float32, which takes fewer registers than integers.

    ``(a + 1/2) / b`` is at least 1/510 away from every whole number, which is more than the last digits of 256 that an
    approximate reciprocal and the product get wrong.
    """
    single, byte = ir.FloatType(), a.type
    by_zero = builder.icmp_unsigned("==", b, byte(0))
    divisor = builder.select(by_zero, byte(1), b)
    kind = ir.FunctionType(single, [single])
    reciprocal, truncated = (
        ir.InlineAsm(kind, f"{name} $0, $1;", "=f,f") for name in ("rcp.approx.ftz.f32", "cvt.rzi.f32.f32")
    )
    x, y = builder.uitofp(a, single), builder.uitofp(divisor, single)
    share = builder.fmul(builder.fadd(x, single(0.5)), builder.call(reciprocal, [y]))
    whole = builder.call(truncated, [share])
    rest = builder.fsub(x, builder.fmul(whole, y))
    quotient = builder.select(by_zero, single(0), whole)
    return builder.trunc(builder.fptoui(quotient, _I32), byte), builder.trunc(
        builder.fptoui(rest, _I32), byte
    )


_MATH: dict[str, Any] = {
    "absolute": math.fabs, "sqrt": math.sqrt, "copysign": math.copysign, "fmod": math.fmod,
    "power": math.pow, "exp": math.exp, "expm1": math.expm1, "exp2": math.exp2, "log": math.log, "log1p": math.log1p,
    "log2": math.log2, "log10": math.log10, "tanh": math.tanh, "sin": math.sin, "cos": math.cos, "erf": math.erf,
    "complement_of_erf": math.erfc, "sinh": math.sinh, "cosh": math.cosh, "asinh": math.asinh, "atan2": math.atan2,
    "hypot": math.hypot,
}  # fmt: skip
_BY_DTYPE = {  # what `math` has under other types, and what it lacks
    "floor": ("floorf", "floor"), "ceil": ("ceilf", "ceil"), "trunc": ("truncf", "trunc"),
    "round_half_even": ("rintf", "rint"), "greater": ("fmaxf", "fmax"), "smaller": ("fminf", "fmin"),
    "sinpi": ("sinpif", "sinpi"), "cospi": ("cospif", "cospi"),
}  # fmt: skip


@functools.cache
def _of_toolkit(name: str) -> Any:
    """A function of the toolkit; what stands for it in `libdevice` is an empty function, which must not be copied."""
    function = getattr(libdevice, name)
    if name.startswith(("fmax", "fmin")):
        return device_function(lambda x, y: function(x, y))
    return device_function(lambda x: function(x))


@functools.cache
def words(dtype: int) -> dict[str, Any]:
    """What stands for the words of `device`; functions of numbers are those of a dtype."""
    functions = (
        thread, block, blocks, barrier, barrier_any, warp_barrier, ballot, popcount, shuffle_xor, shuffle_up,
        shuffle_from,
    )  # fmt: skip
    found: dict[str, Any] = {f.__name__: device_function(f) for f in functions}
    found |= {
        "quotient": quotient, "high_product": high_product, "like": like, "where": where, "float_of": float_of,
        "bits_of_32": bits_of_32, "float_of_32": float_of_32, "sealed": sealed,
        "word_of": word_of, "opaque": opaque, "divide": divide, "fma": fma, "add_to": add_to,
        "exchange": exchange,
        "rounded_product": rounded_product, "exp2_flushed": exp2_flushed, "reciprocal_near": reciprocal_near,
        "make": make, "real": real, "imag": imag, **hardware_cores.WORDS,
    }  # fmt: skip
    found |= _MATH
    for word, names in _BY_DTYPE.items():
        found[word] = _of_toolkit(names[dtype == FLOAT64])
    return found


# --- memory ----------------------------------------------------------------------------------------------------


def _pointer(builder: Any, address: Any, kind: Any, space: int) -> Any:
    return builder.inttoptr(address, ir.PointerType(kind, addrspace=space))


def _rounded_to_bfloat16(builder: Any, value: Any) -> Any:
    kind = ir.FunctionType(_I16, [ir.FloatType()])
    return builder.call(ir.InlineAsm(kind, "cvt.rn.bf16.f32 $0, $1;", "=h,f"), [value])


def _to_memory(
    context: Any, builder: Any, value: Any, source: Any, code: int, rounding: half_ir.Instruction | None
) -> Any:
    """A value as it lies in memory."""
    source, target = types.unliteral(source), _SCALARS[code]
    if code in HALVES:
        exact = source in (types.float32, types.float64)
        wide = source if exact else types.float64 if _is_wide(source) else types.float32
        number = context.cast(builder, value, source, wide)
        return half_ir.rounded(builder, code, number, rounding)
    if code == BOOL:
        truth = context.cast(builder, value, source, types.boolean)
        return builder.zext(truth, _LL[code])
    if isinstance(source, types.Float) and isinstance(target, types.Integer) and target.bitwidth < 64:
        wide = context.cast(builder, value, source, types.int64)
        return context.cast(builder, wide, types.int64, target)
    return context.cast(builder, value, source, target)


def _is_wide(source: Any) -> bool:
    """Whether float32 does not hold all numbers of a type that is no real one."""
    if isinstance(source, types.Complex):
        return bool(source.underlying_float == types.float64)
    return isinstance(source, types.Integer) and source.bitwidth > 16


def _from_memory(builder: Any, value: Any, code: int) -> Any:
    if code in HALVES:
        return half_ir.widened(builder, code, value, True)
    return builder.icmp_unsigned("!=", value, ir.Constant(value.type, 0)) if code == BOOL else value


def _access(code: int, space: int, rounding: half_ir.Instruction | None) -> tuple[Any, Any]:
    scalar, kind = _SCALARS[code], _LL[code]

    def place(context, builder, signature, args):  # type: ignore[no-untyped-def]
        i = context.cast(builder, args[1], signature.args[1], types.int64)
        return builder.gep(_pointer(builder, args[0], kind, space), [i])

    @intrinsic
    def load(context, address, i):  # type: ignore[no-untyped-def]
        def emit(inner, builder, signature, args):  # type: ignore[no-untyped-def]
            value = builder.load(place(inner, builder, signature, args), align=ITEMSIZES[code])
            return _from_memory(builder, value, code)

        return scalar(types.int64, i), emit

    @intrinsic
    def store(context, address, i, value):  # type: ignore[no-untyped-def]
        def emit(inner, builder, signature, args):  # type: ignore[no-untyped-def]
            to = place(inner, builder, signature, args)
            stored = _to_memory(inner, builder, args[2], signature.args[2], code, rounding)
            builder.store(stored, to, align=ITEMSIZES[code])
            return inner.get_dummy_value()

        return types.void(types.int64, i, value), emit

    return load, store


def _in_words(code: int, count: int) -> int:
    """How many words of 32 bits some small elements are, and zero for others.

    They are moved as such, because an instruction moves at most four pieces, and LLVM keeps to that; bits are taken
    from words that it knows nothing of, or it would make pieces of them again.
    """
    words, rest = divmod(count * ITEMSIZES[code], 4)
    return words if ITEMSIZES[code] < 4 and rest == 0 else 0


def _split(builder: Any, found: Any, kind: Any, count: int) -> list[Any]:
    """The integers in a vector of words."""
    opaque = ir.InlineAsm(ir.FunctionType(_I32, [_I32]), "mov.b32 $0, $1;", "=r,r")
    each, values = count // found.type.count, []
    for k in range(found.type.count):
        word = builder.call(opaque, [builder.extract_element(found, _I32(k))])
        values += [builder.trunc(builder.lshr(word, _I32(kind.width * j)), kind) for j in range(each)]
    return values


def _joined(builder: Any, values: list[Any], words: int) -> list[Any]:
    """Words that hold integers."""
    each, found = len(values) // words, []
    for k in range(words):
        word = _I32(0)
        for j, value in enumerate(values[k * each : (k + 1) * each]):
            wide = builder.zext(value, _I32)
            word = builder.or_(word, builder.shl(wide, _I32(value.type.width * j)))
        found.append(word)
    return found


_HALF_WORD = ("u16", "h", "mov.u16 $0, 0")
_IN_PTX = {  # types of loads, registers, and zeros
    BOOL: ("u8", "r", "mov.u32 $0, 0"), UINT8: ("u8", "r", "mov.u32 $0, 0"), INT32: ("u32", "r", "mov.u32 $0, 0"),
    INT16: _HALF_WORD, FLOAT16: _HALF_WORD, BFLOAT16: _HALF_WORD,
    INT64: ("u64", "l", "mov.u64 $0, 0"), FLOAT32: ("f32", "f", "mov.f32 $0, 0f00000000"),
    FLOAT64: ("f64", "d", "mov.f64 $0, 0d0000000000000000"),
}  # fmt: skip


def _load_where(code: int) -> Any:
    """A load with a predicate: what stands for it in LLVM would be a branch."""
    kind, register, zero = _IN_PTX[code]
    small = ITEMSIZES[code] == 1
    text = f"{{ .reg .pred p; setp.ne.u32 p, $2, 0; {zero}; @p ld.global.{kind} $0, [$1]; }}"
    function = ir.FunctionType(_I32 if small else _LL[code], [ir.IntType(64), _I32])

    @intrinsic
    def load(context, address, i, condition):  # type: ignore[no-untyped-def]
        def emit(inner, builder, signature, args):  # type: ignore[no-untyped-def]
            i = inner.cast(builder, args[1], signature.args[1], types.int64)
            at = builder.add(args[0], builder.mul(i, ir.IntType(64)(ITEMSIZES[code])))
            asked = inner.cast(builder, args[2], types.boolean, types.int32)
            found = builder.asm(function, text, f"=&{register},l,r", [at, asked], side_effect=True)
            return _from_memory(builder, builder.trunc(found, _LL[code]) if small else found, code)

        return _SCALARS[code](types.int64, i, types.boolean), emit

    return load


def _load_some(code: int, count: int) -> Any:
    result, words = types.UniTuple(_SCALARS[code], count), _in_words(code, count)
    vector = ir.VectorType(_I32 if words else _LL[code], words or count)

    @intrinsic
    def load(context, address):  # type: ignore[no-untyped-def]
        def emit(inner, builder, signature, args):  # type: ignore[no-untyped-def]
            pointer = _pointer(builder, args[0], vector, GLOBAL)
            found = builder.load(pointer, align=count * ITEMSIZES[code])
            if words:
                values = _split(builder, found, _LL[code], count)
            else:
                values = [builder.extract_element(found, _I32(k)) for k in range(count)]
            return inner.make_tuple(builder, result, [_from_memory(builder, v, code) for v in values])

        return result(types.int64), emit

    return load


def _get_some(code: int, count: int) -> Any:
    vector, result = ir.VectorType(_LL[code], count), types.UniTuple(_SCALARS[code], count)

    @intrinsic
    def get(context, room, i):  # type: ignore[no-untyped-def]
        def emit(inner, builder, signature, args):  # type: ignore[no-untyped-def]
            at = inner.cast(builder, args[1], signature.args[1], types.int64)
            place = builder.gep(_pointer(builder, args[0], _LL[code], SHARED), [at])
            pointer = builder.bitcast(place, ir.PointerType(vector, addrspace=SHARED))
            found = builder.load(pointer, align=count * ITEMSIZES[code])
            values = [builder.extract_element(found, _I32(k)) for k in range(count)]
            return inner.make_tuple(builder, result, values)

        return result(types.int64, i), emit

    return get


def _put_some(code: int, count: int) -> Any:
    vector = ir.VectorType(_LL[code], count)

    @intrinsic
    def put(context, room, i, values):  # type: ignore[no-untyped-def]
        def emit(inner, builder, signature, args):  # type: ignore[no-untyped-def]
            at = inner.cast(builder, args[1], signature.args[1], types.int64)
            place = builder.gep(_pointer(builder, args[0], _LL[code], SHARED), [at])
            whole = ir.Constant(vector, ir.Undefined)
            for k in range(count):
                whole = builder.insert_element(whole, builder.extract_value(args[2], k), _I32(k))
            pointer = builder.bitcast(place, ir.PointerType(vector, addrspace=SHARED))
            builder.store(whole, pointer, align=count * ITEMSIZES[code])
            return inner.get_dummy_value()

        return types.void(types.int64, i, types.UniTuple(_SCALARS[code], count)), emit

    return put


def _store_some(code: int, rounding: half_ir.Instruction | None, count: int) -> Any:
    words = _in_words(code, count)
    vector = ir.VectorType(_I32 if words else _LL[code], words or count)

    @intrinsic
    def store(context, address, values):  # type: ignore[no-untyped-def]
        def emit(inner, builder, signature, args):  # type: ignore[no-untyped-def]
            found = [
                _to_memory(inner, builder, builder.extract_value(args[1], k), source, code, rounding)
                for k, source in enumerate(signature.args[1])
            ]
            whole = ir.Constant(vector, ir.Undefined)
            for k, piece in enumerate(_joined(builder, found, words) if words else found):
                whole = builder.insert_element(whole, piece, _I32(k))
            builder.store(whole, _pointer(builder, args[0], vector, GLOBAL), align=count * ITEMSIZES[code])
            return inner.get_dummy_value()

        return types.void(types.int64, values), emit

    return store


@intrinsic
def add_to(context, room, i, value):  # type: ignore[no-untyped-def]
    def emit(inner, builder, signature, args):  # type: ignore[no-untyped-def]
        at = inner.cast(builder, args[1], signature.args[1], types.int64)
        pointer = builder.gep(_pointer(builder, args[0], _I32, SHARED), [at])
        return builder.atomic_rmw("add", pointer, args[2], "monotonic")

    return types.int32(types.int64, i, types.int32), emit


@intrinsic
def exchange(context, address, i, value):  # type: ignore[no-untyped-def]
    word = ir.IntType(64)

    def emit(inner, builder, signature, args):  # type: ignore[no-untyped-def]
        pointer = builder.gep(_pointer(builder, args[0], word, GLOBAL), [args[1]])
        return builder.atomic_rmw("xchg", pointer, args[2], "monotonic")

    return types.int64(types.int64, types.int64, types.int64), emit


_rooms = itertools.count()


def _shared(code: int, count: int) -> Any:
    name = f"fastgrad_shared_{next(_rooms)}"
    array = ir.ArrayType(_LL[code], count)

    @intrinsic
    def room(context):  # type: ignore[no-untyped-def]
        def emit(inner, builder, signature, args):  # type: ignore[no-untyped-def]
            place = builder.module.globals.get(name)
            if place is None:
                place = ir.GlobalVariable(builder.module, array, name, addrspace=SHARED)
                place.linkage, place.align = "internal", 16
                place.initializer = ir.Constant(array, ir.Undefined)
            return builder.ptrtoint(place, ir.IntType(64))

        return types.int64(), emit

    return room


def _element(code: int, rounding: half_ir.Instruction | None) -> Element:
    inner = computed_in(code)
    load, store = _access(code, GLOBAL, rounding)
    get, put = _access(inner, SHARED, None)
    return Element(
        DTYPES[code], ITEMSIZES[code], _SCALARS[code], load, store, _load_where(code),
        functools.partial(_load_some, code), functools.partial(_store_some, code, rounding),
        functools.partial(_shared, inner), get, put, functools.partial(_get_some, inner),
        functools.partial(_put_some, inner),
        scalar_math.vocabulary(inner, words(inner), device_function),
    )  # fmt: skip


@functools.cache
def target(knows_bfloat16: bool) -> Target:
    """Kernels for GPUs that round to bfloat16 by an instruction and have tensor cores for it, or for older ones."""
    roundings = {FLOAT16: half_ir.truncated, BFLOAT16: _rounded_to_bfloat16 if knows_bfloat16 else None}
    elements = {code: _element(code, roundings.get(code)) for code in _SCALARS}
    for code in COMPLEX:
        part, kind = real_of(code), constant_of(_SCALARS[real_of(code)])
        elements[code] = complex_element(code, elements[part], kind, words(part), device_function)
    cores = hardware_cores.cores() if knows_bfloat16 else {}
    return Target(elements, words(FLOAT32), device_function, {}, cores)
