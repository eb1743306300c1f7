"""Fourier transforms of rows, by the loops of NumPy's pocketfft.

They are the C functions behind the generalised ufuncs of `numpy.fft`, called by their addresses, as a product calls
BLAS: without Python, on any thread, and again when a tape is replayed. NumPy's C interface documents where a ufunc
holds them (``PyUFuncObject`` in ``ufuncobject.h``), and how they are called.
"""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
from numba import njit, types

from fastgrad.kernels.dtypes import ELEMENTS, INLINE, KERNEL, LOOP
from fastgrad.kernels.reports import Builder
from fastgrad.native.base import frames
from fastgrad.native.base.intrinsics import (
    address_of,
    address_of_variable,
    advance,
    float_of,
    stack_small,
    words,
)
from fastgrad.native.contracts.element_types import COMPLEX, FLOAT32, FLOAT64, ITEMSIZES, real_of

_PLACES = {"nin": 16, "functions": 32, "data": 40, "ntypes": 48}  # bytes from the beginning of a ufunc
_TYPES = {
    "fft": ("Dd->D", "Ff->F"), "ifft": ("Dd->D", "Ff->F"), "rfft_n_even": ("dd->D", "ff->F"),
    "rfft_n_odd": ("dd->D", "ff->F"), "irfft": ("Dd->d", "Ff->f"),
}  # fmt: skip
_NOTHING = ctypes.c_int64(0)  # what stands for the data of loops that have none


def find_pocketfft() -> tuple[str, ...]:
    """Names of the loops, made visible to compiled code.

    Raises
    ------
    NotImplementedError
        If this NumPy has no such loops, or keeps them elsewhere.
    """
    names = []
    for name, kinds in _TYPES.items():
        ufunc = _ufunc(name)
        functions, data = _loops(ufunc)
        for dtype, kind in zip((FLOAT64, FLOAT32), kinds, strict=True):
            at = ufunc.types.index(kind)
            symbol = _symbol(name, dtype)
            llvm.add_symbol(symbol, functions[at])
            llvm.add_symbol(f"{symbol}_data", data[at] if data else ctypes.addressof(_NOTHING))
            names.append(symbol)
    return tuple(names)


def _ufunc(name: str) -> Any:
    try:
        module = importlib.import_module("numpy.fft._pocketfft_umath")
    except ImportError:
        raise NotImplementedError("Fourier transforms need the loops of NumPy 2") from None
    ufunc = getattr(module, name, None)
    if ufunc is None or any(kind not in ufunc.types for kind in _TYPES[name]):
        raise NotImplementedError(
            f"Fourier transforms need the ufunc {name} of numpy.fft, which this NumPy lacks"
        )
    return ufunc


def _loops(ufunc: Any) -> tuple[list[int], list[int] | None]:
    """The addresses of the loops of a ufunc, and what they are to be given."""
    at = id(ufunc)
    counts = tuple((ctypes.c_int * 3).from_address(at + _PLACES["nin"]))
    n = ctypes.c_int.from_address(at + _PLACES["ntypes"]).value
    if counts != (ufunc.nin, ufunc.nout, ufunc.nargs) or n != ufunc.ntypes:
        raise NotImplementedError("the ufuncs of this NumPy are not laid out as its C interface says")
    functions, data = (
        ctypes.c_void_p.from_address(at + _PLACES[name]).value for name in ("functions", "data")
    )
    return [
        None if first is None else [int(p or 0) for p in (ctypes.c_void_p * n).from_address(first)]
        for first in (functions, data)
    ]  # type: ignore[return-value]


def _symbol(name: str, dtype: int) -> str:
    return f"fastgrad_pocketfft_{name}_{'double' if dtype == FLOAT64 else 'float'}"


def _loop(name: str, dtype: int, read: int, written: int) -> Callable[..., None]:
    """``loop(rows, x, length, out, length_out, distance, scale)``: the transforms of rows without gaps, times a factor.

    The rows that are written begin at a distance of so many elements.
    """
    part = real_of(dtype)
    symbol = _symbol(name, part)
    word = types.int64
    call = types.ExternalFunction(symbol, types.void(word, word, word, word))
    data = address_of_variable(f"{symbol}_data")
    pointer, constant = ELEMENTS[part].pointer, ELEMENTS[part].constant
    step, step_out = ITEMSIZES[read], ITEMSIZES[written]

    @njit(**KERNEL)
    def loop(rows, x, length, out, length_out, distance, scale):  # type: ignore[no-untyped-def]
        arguments, sizes, steps = words(stack_small()), words(stack_small()), words(stack_small())
        factor = words(stack_small())
        pointer(address_of(factor))[0] = constant(scale)
        arguments[0], arguments[1], arguments[2] = x, address_of(factor), out
        sizes[0], sizes[1], sizes[2] = rows, length, length_out
        steps[0], steps[1], steps[2] = length * step, 0, distance * step_out
        steps[3], steps[4] = step, step_out
        if rows > 0:  # for no rows, too, it would plan transforms of that length, and find no memory for it
            call(address_of(arguments), address_of(sizes), address_of(steps), data())

    return loop  # type: ignore[no-any-return]


def whole(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """Complex rows to complex rows."""
    loop = _loop(kernel.options["loop"], dtype, dtype, dtype)

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.fft(frame)
        loop(f.rows, f.x.data, f.length, f.out, f.length, f.length, float_of(f.scale))

    return run, KERNEL


def _halves(dtype: int) -> Any:
    """``halves(rows, x, length, out, distance, scale)``: the first halves of the transforms of real rows."""
    even, odd = (
        _loop(name, dtype, dtype, COMPLEX[dtype == FLOAT64]) for name in ("rfft_n_even", "rfft_n_odd")
    )

    @njit(**KERNEL)
    def halves(rows, x, length, out, distance, scale):  # type: ignore[no-untyped-def]
        if length % 2 == 0:
            even(rows, x, length, out, length // 2 + 1, distance, scale)
        else:
            odd(rows, x, length, out, length // 2 + 1, distance, scale)

    return halves


def of_reals(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """Real rows to complex rows, whose second halves are the conjugates of the first ones from behind."""
    result = COMPLEX[dtype == FLOAT64]
    halves, pointer, conj = _halves(dtype), ELEMENTS[result].pointer, ELEMENTS[result].math.conj
    inverse = kernel.options["inverse"]

    @njit(**LOOP)
    def mirror(out, length):  # type: ignore[no-untyped-def]
        for k in range(1, (length + 1) // 2):
            first = out[k]
            out[k] = conj(first) if inverse else first
            out[length - k] = first if inverse else conj(first)

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.fft_of_reals(frame)
        halves(f.rows, f.x.data, f.length, f.out, f.length, float_of(f.scale))
        for row in range(f.rows):
            mirror(advance(pointer(f.out), row * f.length), f.length)

    return run, KERNEL


def to_half(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """Real rows to the first half of their transforms; what stands for two frequencies is multiplied by a weight."""
    result = COMPLEX[dtype == FLOAT64]
    halves = _halves(dtype)
    pointer, weight = ELEMENTS[result].pointer, kernel.options["weight"]
    constant = ELEMENTS[dtype].constant

    @njit(**INLINE)
    def weigh(out, length):  # type: ignore[no-untyped-def]
        for k in range(1, (length + 1) // 2):
            out[k] = out[k] * constant(weight)

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.fft_to_half(frame)
        halves(f.rows, f.x.data, f.length, f.out, f.half, float_of(f.scale))
        if weight != 1:
            for row in range(f.rows):
                weigh(advance(pointer(f.out), row * f.half), f.length)

    return run, KERNEL


def from_half(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """The first half of transforms of real rows to these rows; what stands for two frequencies may count half."""
    part = real_of(dtype)
    loop = _loop("irfft", dtype, dtype, part)
    pointer_x, pointer, constant = ELEMENTS[dtype].pointer, ELEMENTS[part].pointer, ELEMENTS[part].constant
    halves = kernel.options["weight"] != 1
    real = ELEMENTS[dtype].math.real

    @njit(**INLINE)
    def halve(out, x, length, scale):  # type: ignore[no-untyped-def]
        """Of what stands for one frequency, all counts: the other half of it is added again."""
        first = real(x[0]) * constant(scale)
        last = real(x[length // 2]) * constant(scale) if length % 2 == 0 else constant(0)
        for k in range(length):
            single = first - last if k & 1 else first + last
            out[k] = (out[k] + single) * constant(0.5)

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.fft_from_half(frame)
        loop(f.rows, f.x.data, f.half, f.out, f.length, f.length, float_of(f.scale))
        if halves:
            for row in range(f.rows):
                x = advance(pointer_x(f.x.data), row * f.half)
                halve(advance(pointer(f.out), row * f.length), x, f.length, float_of(f.scale))

    return run, KERNEL
