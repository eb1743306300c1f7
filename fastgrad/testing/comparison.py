"""`assert_close`: whether results are what was expected, within rounding, and by how much they are not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fastgrad.functions.data import values_of
from fastgrad.functions.sharing import from_numpy
from fastgrad.native.build.loader import TensorBase, rt
from fastgrad.native.contracts.element_types import DTYPES

TOLERANCES = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
}
"""Relative and absolute, of floating and complex dtypes; other elements have to be equal."""


class _Options(NamedTuple):
    allow_subclasses: bool
    rtol: float | None
    atol: float | None
    equal_nan: bool
    check_device: bool
    check_dtype: bool
    check_layout: bool
    check_stride: bool


class _MismatchError(Exception):
    """What is wrong with two values, and where they stand in what was compared."""

    def __init__(self, text: str, place: tuple[Any, ...]) -> None:
        where = "".join(f"[{key!r}]" for key in place)
        super().__init__(f"{text}\n\nThe failure occurred for item {where}" if place else text)


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Raise if values differ by more than rounding: ``|actual - expected| <= atol + rtol |expected|`` for each element.

    Tensors have to agree in sizes, dtype and device, too. Containers are compared item by item.

    Parameters
    ----------
    actual, expected : Tensor, array, number, None, or sequence or mapping of such
    allow_subclasses : bool, default True
        Whether tensors may be of different classes.
    rtol, atol : float, optional
        Tolerances, both or none. By default those of the dtype: 1.3e-6 and 1e-5 for float32, 1e-7 and 1e-7 for float64,
        1e-3 and 1e-5 for float16, 1.6e-2 and 1e-5 for bfloat16, for complex numbers those of the parts, none for
        integers and bools; of two dtypes the larger ones.
    equal_nan : bool, default False
        Whether NaN equals NaN.
    check_device, check_dtype, check_stride : bool
        Whether tensors have to agree in these.
    check_layout : bool
        Accepted for PyTorch's sake: all tensors are strided.
    msg : str or callable, optional
        What the error says, or what makes it of what it would say.

    Raises
    ------
    AssertionError
        If they differ.
    TypeError
        If values cannot be compared.
    ValueError
        If only one of `rtol` and `atol` is given.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.testing.assert_close(fg.tensor([0.1]) * 3, fg.tensor([0.3]))
    >>> fg.testing.assert_close({"a": 1}, {"a": 2})
    Traceback (most recent call last):
    ...
    AssertionError: Scalars are not equal!
    <BLANKLINE>
    Expected 2 but got 1.
    Absolute difference: 1
    Relative difference: 0.5
    <BLANKLINE>
    The failure occurred for item ['a']
    """
    options = _Options(
        allow_subclasses, rtol, atol, equal_nan, check_device, check_dtype, check_layout, check_stride
    )
    try:
        pairs = list(_pairs(actual, expected, (), set()))
        for compare, a, b, place in pairs:
            compare(a, b, place, options)
    except _MismatchError as mismatch:
        text = str(mismatch)
        said = msg(text) if callable(msg) else msg
        raise AssertionError(text if said is None else said) from None


# --- what is compared with what --------------------------------------------------------------------------------

_Compare = Callable[[Any, Any, tuple[Any, ...], _Options], None]
_NUMBERS = (int, float, complex, np.number)


def _pairs(
    a: Any, b: Any, place: tuple[Any, ...], around: set[tuple[int, int]]
) -> Iterator[tuple[_Compare, Any, Any, tuple[Any, ...]]]:
    """The values in two containers, side by side, and how they are compared."""
    if _both(a, b, Mapping) or (_both(a, b, Sequence) and not _any(a, b, (str, bytes))):
        within = (id(a), id(b))
        if within in around:
            raise TypeError("assert_close(): a container holds itself")
        for key in _keys(a, b, place):
            yield from _pairs(a[key], b[key], (*place, key), around | {within})
    elif _both(a, b, TensorBase):
        yield _tensors, a, b, place
    elif _both(a, b, np.ndarray):
        yield _arrays, a, b, place
    elif a is None or b is None:
        yield _nones, a, b, place
    elif _both(a, b, (bool, np.bool_)):
        yield _bools, a, b, place
    elif _both(a, b, _NUMBERS):
        yield _numbers, a, b, place
    else:
        where = f" at {''.join(f'[{key!r}]' for key in place)}" if place else ""
        raise TypeError(
            f"No comparison pair was able to handle inputs of type {type(a)} and {type(b)}{where}."
        )


def _both(a: Any, b: Any, kind: Any) -> bool:
    return isinstance(a, kind) and isinstance(b, kind)


def _any(a: Any, b: Any, kind: Any) -> bool:
    return isinstance(a, kind) or isinstance(b, kind)


def _keys(a: Any, b: Any, place: tuple[Any, ...]) -> list[Any]:
    """The keys, or indices, of two containers, which have to be the same."""
    if isinstance(a, Mapping):
        missing, additional = [k for k in b if k not in a], [k for k in a if k not in b]
        if missing or additional:
            raise _MismatchError(
                "The keys of the mappings do not match:\n"
                f"Missing keys in the actual mapping: {sorted(missing, key=repr)}\n"
                f"Additional keys in the actual mapping: {sorted(additional, key=repr)}",
                place,
            )
        return list(a)
    if len(a) != len(b):
        raise _MismatchError(f"The length of the sequences mismatch: {len(a)} != {len(b)}", place)
    return list(range(len(a)))


# --- values ----------------------------------------------------------------------------------------------------


def _nones(a: Any, b: Any, place: tuple[Any, ...], _: _Options) -> None:
    if a is not b:
        raise _MismatchError(f"None mismatch: {a} is not {b}", place)


def _bools(a: Any, b: Any, place: tuple[Any, ...], _: _Options) -> None:
    if bool(a) != bool(b):
        raise _MismatchError(f"Booleans mismatch: {a} is not {b}", place)


def _numbers(a: Any, b: Any, place: tuple[Any, ...], options: _Options) -> None:
    kinds = [_kind(a), _kind(b)]
    rtol, atol = _tolerances(options, "int64" if kinds == [int, int] else "float64")
    if options.check_dtype and kinds[0] is not kinds[1]:
        raise _MismatchError(f"The (d)types do not match: {type(a)} != {type(b)}.", place)
    _compare_number(a, b, rtol, atol, place, options)


def _kind(number: Any) -> type:
    if isinstance(number, (complex, np.complexfloating)):
        return complex
    return float if isinstance(number, (float, np.floating)) else int


def _compare_number(
    a: Any, b: Any, rtol: float, atol: float, place: tuple[Any, ...], options: _Options
) -> None:
    off = abs(a - b)
    both_nan = options.equal_nan and a != a and b != b
    if a == b or both_nan or (np.isfinite(a) and np.isfinite(b) and off <= atol + rtol * abs(b)):
        return
    relative = off / abs(b) if b != 0 else float("inf")
    exact = rtol == 0 and atol == 0
    within = ["", ""] if exact else [f" (up to {atol} allowed)", f" (up to {rtol} allowed)"]
    raise _MismatchError(
        f"Scalars are not {'equal' if exact else 'close'}!\n\nExpected {b} but got {a}.\n"
        f"Absolute difference: {off}{within[0]}\nRelative difference: {relative}{within[1]}",
        place,
    )


def _arrays(a: Any, b: Any, place: tuple[Any, ...], options: _Options) -> None:
    _tensors(from_numpy(a.copy()), from_numpy(b.copy()), place, options)


def _tensors(a: Any, b: Any, place: tuple[Any, ...], options: _Options) -> None:
    """Compare tensors: first what they are, then their elements."""
    if not options.allow_subclasses and type(a) is not type(b):
        raise TypeError(
            f"No comparison pair was able to handle inputs of type {type(a)} and {type(b)}: "
            "allow_subclasses=False"
        )
    both = [_tolerances(options, DTYPES[t.dtype.code]) for t in (a, b)]
    rtol, atol = (max(pair) for pair in zip(*both, strict=True))
    facts: list[tuple[str, Any, Any]] = [("shape", a.shape, b.shape)]
    if options.check_device:
        facts.append(("device", a.device, b.device))
    if options.check_dtype:
        facts.append(("dtype", a.dtype, b.dtype))
    if options.check_stride:
        facts.append(("stride()", a.stride(), b.stride()))
    for name, x, y in facts:
        if x != y:
            raise _MismatchError(f"The values for attribute '{name}' do not match: {x} != {y}.", place)
    x, y = (np.asarray(values_of(rt.detach(t))) for t in (a, b))
    _compare_elements(x, y, rtol, atol, place, options)


def _tolerances(options: _Options, dtype: str) -> tuple[float, float]:
    rtol, atol = options.rtol, options.atol
    if rtol is not None and atol is not None:
        return rtol, atol
    if rtol is not None or atol is not None:
        missing = "atol" if atol is None else "rtol"
        raise ValueError(f"Both 'rtol' and 'atol' must be either specified or omitted, but got no {missing}.")
    return TOLERANCES.get(dtype, (0.0, 0.0))


def _compare_elements(
    x: np.ndarray, y: np.ndarray, rtol: float, atol: float, place: tuple[Any, ...], options: _Options
) -> None:
    """Compare arrays, in float64 or, of integers and bools, exactly."""
    exact = not (np.issubdtype(x.dtype, np.inexact) or np.issubdtype(y.dtype, np.inexact))
    pairs = np.iscomplexobj(x) or np.iscomplexobj(y)
    wide: Any = np.int64 if exact else np.complex128 if pairs else np.float64
    x, y = x.astype(wide), y.astype(wide)
    with np.errstate(all="ignore"):
        off = np.abs(x - y)
        allowed = np.isfinite(x) & np.isfinite(y) & (off <= atol + rtol * np.abs(y))
        fine = (x == y) | allowed | (np.isnan(x) & np.isnan(y) if options.equal_nan else False)
        if np.all(fine):
            return
        relative = np.where((off == 0) & (y == 0), 0.0, off / np.abs(y))
    if x.ndim == 0:
        number: Any = int if exact else complex if pairs else float
        _compare_number(number(x), number(y), rtol, atol, place, options)
    strict = rtol == 0 and atol == 0
    lines = [
        f"Tensor-likes are not {'equal' if strict else 'close'}!\n",
        f"Mismatched elements: {np.count_nonzero(~fine)} / {x.size} ({np.count_nonzero(~fine) / x.size:.1%})",
    ]
    for what, values, limit in (("absolute", off, atol), ("relative", relative, rtol)):
        at = np.unravel_index(np.argmax(np.where(fine, 0, values)), values.shape)
        worst = int(values[at]) if exact and what == "absolute" else float(values[at])
        within = "" if strict else f" (up to {limit} allowed)"
        lines.append(f"Greatest {what} difference: {worst} at index {tuple(map(int, at))}{within}")
    raise _MismatchError("\n".join(lines), place)
