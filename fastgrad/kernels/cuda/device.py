"""The words in which kernels of the CUDA device are written, and what they mean: here in plain Python.

A kernel is a Python function of its frame. What it knows of the GPU are the words below and the elements of each dtype.
For the GPU `hardware` puts functions of numba.cuda in their place, under the same names. As they stand here, a kernel
runs over the host's memory, thread by thread, which is what the tests do: `here` says which thread it is.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import math
import threading
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from fastgrad.kernels.cuda import simulated_complex
from fastgrad.kernels.cuda.simulated_complex import Complex64, Complex128
from fastgrad.kernels.specialise import specialised
from fastgrad.native.contracts.element_types import (
    BFLOAT16,
    BOOL,
    COMPLEX,
    COMPLEX64,
    DTYPES,
    FLOAT16,
    HALVES,
    INT16,
    ITEMSIZES,
    SUPPORTED_DTYPES,
    computed_in,
    real_of,
)

WARP = 32
"""Threads that run in step and read each other's registers."""
ELEMENTS = (*SUPPORTED_DTYPES, INT16)
"""The dtypes that kernels have elements of; as int16, halves are moved that nobody computes with."""


class Element(NamedTuple):
    """One dtype on the device.

    Halves are float32 wherever they are not in the device's memory: what is read of them is widened, what is written
    is rounded, and a block's room for them holds float32. See Note [Halves] in `element_types`.

    Attributes
    ----------
    name : str
    size : int
        Bytes in memory.
    constant : callable
        A number of the dtype.
    load, store : callable
        ``load(address, i)`` and ``store(address, i, value)``, which converts.
    load_where : callable
        ``load_where(address, i, condition)``, which is zero, and reads nothing, where the condition does not hold.
    load_some, store_some : callable
        Of a number of elements, at most 16 bytes, the functions ``load(address)``, which gives a tuple, and
        ``store(address, values)``; the address is a multiple of their bytes.
    shared : callable
        Of a number of elements, the function without arguments that gives the block's room for so many; kernels
        call it once. ``get(room, i)`` and ``put(room, i, value)`` are its elements.
    get_some : callable
        Of a number of elements, at most 16 bytes, the function ``get(room, i)`` that gives a tuple of those from the
        i-th on; i is a multiple of the number. `put_some` of it is ``put(room, i, values)``.
    math : object
        The vocabulary `m` of formulas.
    """

    name: str
    size: int
    constant: Any
    load: Any
    store: Any
    load_where: Any
    load_some: Callable[[int], Any]
    store_some: Callable[[int], Any]
    shared: Callable[[int], Any]
    get: Any
    put: Any
    get_some: Callable[[int], Any]
    put_some: Callable[[int], Any]
    math: Any


class Target(NamedTuple):
    """What kernels are made for.

    Attributes
    ----------
    elements : dict
        By the codes of dtypes.
    words : dict
        What stands in the place of the words of this module.
    decorate : callable
        What every function of a kernel is decorated with.
    kept : dict
        Functions of modules that were made for it.
    cores : dict
        Its tensor cores, by the codes of dtypes; empty where it has none. See `cores`.
    """

    elements: Mapping[int, Element]
    words: Mapping[str, Any]
    decorate: Callable[[Any], Any]
    kept: dict[Any, Any]
    cores: Mapping[int, Any]

    def made(self, function: Callable[..., Any]) -> Any:
        """A function of the words of this module, for this target."""
        return specialised(function, self.words, self.decorate, self.kept)


# --- which thread this is --------------------------------------------------------------------------------------


class Here(threading.local):
    """A thread of the GPU in the simulation: its number in its block, that of the block, and how many there are.

    `team` is what the threads of a block share, `copies` what the thread brings to the block's memory meanwhile.
    """

    thread = 0
    block = 0
    blocks = 1
    team: Any = None

    def __init__(self) -> None:
        self.copies: list[tuple[Any, int, int]] = []


here = Here()


def thread():
    """The number of this thread in its block."""
    return np.int32(here.thread)


def block():
    """The number of this block."""
    return np.int32(here.block)


def blocks():
    """How many blocks there are."""
    return np.int32(here.blocks)


def barrier():
    """All threads of a block wait for each other; what they wrote before can be read behind it."""
    here.team.wait()


def barrier_any(value):
    """A barrier that says whether the value is true in any thread of the block."""
    return here.team.any(bool(value))


def exchanged(value):
    """The values of all threads of the block, of which those of the own warp mean something; no word of kernels."""
    return here.team.exchange(value)


def warp_barrier():
    """The same for the threads of a warp."""
    exchanged(None)


def ballot(flag):
    """The threads of this warp for which a flag is true, as bits from the lowest on."""
    first = here.thread - here.thread % WARP
    flags = exchanged(bool(flag))[first : first + WARP]
    return np.uint32(sum(1 << k for k, one in enumerate(flags) if one))


def popcount(bits):
    """How many bits of 32 are set."""
    return np.int32(int(bits).bit_count())


def add_to(room, i, value):
    """Add to an int32 of the block's memory, whoever else does so at the same time; what it was before.

    Who comes first nobody can tell.
    """
    return here.team.add(room, int(i), np.int32(value))


def exchange(address, i, value):
    """Put an int64 in the place of one in memory, whoever else does so at the same time; what it was before.

    Who comes first nobody can tell.
    """
    place = ctypes.c_int64.from_address(int(address) + 8 * int(i))
    before, place.value = place.value, int(value)
    return np.int64(before)


def shuffle_xor(value, mask):
    """The value of the thread of this warp whose number differs in the bits of the mask."""
    return exchanged(value)[here.thread ^ int(mask)]


def shuffle_up(value, distance):
    """The value of a thread before this one in its warp, or this one's where there is none."""
    values, source = exchanged(value), here.thread - int(distance)
    return values[source] if here.thread % WARP >= distance else value


def shuffle_from(value, lane):
    """The value of a thread of this warp."""
    return exchanged(value)[here.thread - here.thread % WARP + int(lane)]


# --- numbers ---------------------------------------------------------------------------------------------------


def quotient(a, b):
    """``a // b`` of 32 bits without sign."""
    return np.uint32(int(a) // int(b))


def high_product(a, b):
    """The upper half of the product of two numbers of 32 bits without sign."""
    return np.uint32(int(a) * int(b) >> 32)


def like(x, value):
    """The value in the type of x; integers wrap around."""
    return type(x)(_wrapped(value, type(x)))


def where(condition, x, y):
    """x if the condition holds, else y; both are computed."""
    return x if condition else y


def float_of(bits):
    """The float64 with these bits."""
    return np.int64(bits).view(np.float64)


def float_of_32(bits):
    """The float32 with these bits, an int32."""
    return np.int32(bits).view(np.float32)


def sealed(x, nothing):
    """x, where `nothing` is zero, as no compiler knows: see Note [Sealed values] in `fused`."""
    return x


def word_of(table, i):
    """A word of the table of a launch over many frames; on the GPU it stands behind the parameters."""
    return table[int(i)]


def opaque(x):
    """An int64 of which the compiler for the GPU knows nothing, nor that it is the same each time.

    A loop that goes on by it is not unrolled, which would cost registers, and a division for how often it goes round.
    """
    return x


def bits_of_32(x):
    """The bits of a float32."""
    return np.float32(x).view(np.int32)


def divide(x, y):
    """``(quotient, rest)`` rounded towards zero; zeros for a zero divisor; the quotient wraps around."""
    a, b, kind = int(x), int(y), type(x)
    if b == 0:
        return kind(0), kind(0)
    whole = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return kind(_wrapped(whole, kind)), kind(a - whole * b)


def _wrapped(value, kind):
    """What an integer type makes of a number that it may not hold."""
    if not issubclass(kind, np.integer):
        return value
    number = float(value)
    if not isinstance(value, int | np.integer) and not np.isfinite(number):
        return 0
    info = np.iinfo(kind)
    return (int(value) - int(info.min)) % (1 << info.bits) + int(info.min)


def fma(x, y, z):
    """``x * y + z`` with one rounding."""
    if not np.isfinite(x) or not np.isfinite(y) or not np.isfinite(z):
        return x * y + z
    exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
    return type(x)(float(exact)) if exact else x * y + z


def rounded_product(x, y):
    """``x * y``, rounded also where the product is added to something."""
    return x * y


def reciprocal_near(x):
    """``1 / x`` of a float32 between 1 and 2**100, of which the last digit may be wrong: without a case for others."""
    return np.float32(1) / x


absolute, sqrt, floor, ceil, trunc, round_half_even = np.abs, np.sqrt, np.floor, np.ceil, np.trunc, np.rint
copysign, fmod, power, greater, smaller = np.copysign, np.fmod, np.power, np.fmax, np.fmin
exp, expm1, exp2, log, log1p, log2, log10 = np.exp, np.expm1, np.exp2, np.log, np.log1p, np.log2, np.log10
tanh, sin, cos, sinh, cosh, asinh = np.tanh, np.sin, np.cos, np.sinh, np.cosh, np.arcsinh
atan2, hypot = np.arctan2, np.hypot
make, real, imag = simulated_complex.make, simulated_complex.real, simulated_complex.imag


def exp2_flushed(x):
    """``2**x`` of a float32, by the GPU's instruction for that: zero where it is no normal number."""
    value = np.exp2(np.float32(x))
    return np.float32(0) if value < np.finfo(np.float32).tiny else value


def erf(x):
    """The error function."""
    return type(x)(math.erf(x))


def complement_of_erf(x):
    """``1 - erf(x)``, exact where that is small."""
    return type(x)(math.erfc(x))


def sinpi(x):
    """``sin(pi x)``."""
    return type(x)(math.sin(math.pi * float(x)))


def cospi(x):
    """``cos(pi x)``."""
    return type(x)(math.cos(math.pi * float(x)))


WORDS = (
    "thread", "block", "blocks", "barrier", "barrier_any", "warp_barrier", "ballot", "popcount", "add_to",
    "exchange", "shuffle_xor", "shuffle_up", "shuffle_from", "quotient", "high_product", "like", "where", "float_of",
    "float_of_32", "sealed",
    "bits_of_32", "word_of", "opaque", "divide", "fma", "rounded_product", "reciprocal_near",
    "absolute", "sqrt", "floor", "ceil", "trunc", "round_half_even", "copysign", "fmod", "power", "greater", "smaller",
    "exp", "expm1", "exp2", "log", "log1p", "log2", "log10", "tanh", "sin", "cos", "erf", "complement_of_erf", "sinpi",
    "cospi", "exp2_flushed", "sinh", "cosh", "asinh", "atan2", "hypot", "make", "real", "imag",
)  # fmt: skip
"""The names that stand for something else on the GPU."""

# --- elements in the host's memory -----------------------------------------------------------------------------


_rooms = itertools.count()


def _of_float16(bits):
    return np.float32(np.uint16(bits).view(np.float16))


def _bits_of_float16(value):
    return int(np.float64(value).astype(np.float16).view(np.uint16))


def _of_bfloat16(bits):
    return np.uint32(bits << 16).view(np.float32)


def _bits_of_bfloat16(value):
    number = float(value)
    if math.isfinite(number):
        _, exponent = math.frexp(number)
        unit = max(exponent, -125) - 8  # of the last of eight binary digits; below, numbers have fewer
        number = math.copysign(math.ldexp(round(math.ldexp(number, -unit)), unit), number)
    return int(np.float32(number).view(np.uint32)) >> 16


_HALVES = {FLOAT16: (_of_float16, _bits_of_float16), BFLOAT16: (_of_bfloat16, _bits_of_bfloat16)}


def _get_some(count):
    def some(room, i):
        if i % count:
            raise ValueError(f"{count} elements from the {i}th on")
        return tuple(room[int(i) : int(i) + count])

    return some


def _put_some(put, count):
    def some(room, i, values):
        if i % count:
            raise ValueError(f"{count} elements from the {i}th on")
        for k, value in zip(range(count), values, strict=True):
            put(room, i + k, value)

    return some


def _element(code: int) -> Element:
    from fastgrad.kernels.cuda import scalar_math

    kind = np.dtype(DTYPES[computed_in(code)]).type
    c_type, size = np.ctypeslib.as_ctypes_type(np.uint16 if code in HALVES else kind), ITEMSIZES[code]
    widened, bits_of = _HALVES.get(code, (kind, None))

    def load(address, i):
        return widened(c_type.from_address(int(address) + size * int(i)).value)

    def converted(value):
        return bool(value) if code == BOOL else _wrapped(value, kind)

    def store(address, i, value):
        place = c_type.from_address(int(address) + size * int(i))
        place.value = bits_of(value) if bits_of else converted(value)

    def load_where(address, i, condition):
        return load(address, i) if condition else kind(0)

    def aligned(address, count):
        if address % (count * size):
            raise ValueError(f"{count} elements of {size} bytes at {address:#x}")

    def load_some(count):
        def some(address):
            aligned(address, count)
            return tuple(load(address, k) for k in range(count))

        return some

    def store_some(count):
        def some(address, values):
            aligned(address, count)
            for k, value in zip(range(count), values, strict=True):
                store(address, k, value)

        return some

    def shared(count):
        which = next(_rooms)
        return lambda: here.team.room(which, count)

    def put(room, i, value):
        room[int(i)] = kind(converted(value))

    def get(room, i):
        return room[int(i)]

    return Element(
        DTYPES[code], size, kind, load, store, load_where, load_some, store_some, shared, get, put, _get_some,
        functools.partial(_put_some, put), scalar_math.vocabulary(computed_in(code), {}, lambda function: function),
    )  # fmt: skip


def simulated() -> Target:
    """Kernels over the host's memory, in plain Python."""
    from fastgrad.kernels.cuda import cores
    from fastgrad.kernels.cuda.complex_elements import complex_element

    words = {name: globals()[name] for name in WORDS} | {name: getattr(cores, name) for name in cores.WORDS}
    elements = {code: _element(code) for code in ELEMENTS if code not in COMPLEX}
    for code in COMPLEX:
        kind = Complex64 if code == COMPLEX64 else Complex128
        elements[code] = complex_element(
            code, elements[real_of(code)], kind, words, lambda function: function
        )
    bits_of = {code: functions[1] for code, functions in _HALVES.items()}
    return Target(elements, words, lambda function: function, {}, cores.simulated(bits_of))
