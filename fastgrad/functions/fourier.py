"""Discrete Fourier transforms: `fft` and its relatives in one, two and n dimensions, frequencies, shifts.

With ``w = exp(-2 pi i / n)`` a transform is ``y[k] = sum_j x[j] w**(jk)``, and its inverse has ``1 / w`` in place of w.
`norm` says what else there is a factor of: "backward" (``1/n`` for inverses, which is the default), "ortho" (``1 /
sqrt(n)`` for all), or "forward" (``1/n`` for transforms).

The transform of real numbers has ``y[n - k] = conj(y[k])``. So functions with an r take real numbers and give, or with
an i take, the first ``n // 2 + 1`` of them alone; functions with an h are for real numbers on the other side.

Transforms are computed in the dtype of their operands: on CPUs by the pocketfft inside NumPy, on GPUs by kernels of
fastgrad's own, and long ones of some lengths by others (`long_transforms`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from fastgrad import dtypes
from fastgrad.functions.arguments import as_index, as_sequence, need_tensor
from fastgrad.functions.complex_numbers import conj
from fastgrad.functions.creation import arange, finish, zeros
from fastgrad.functions.long_transforms import by_others, first_of
from fastgrad.functions.outs import taking_out
from fastgrad.functions.plans import planned
from fastgrad.functions.repetition import roll
from fastgrad.functions.shape import cat, wrapped
from fastgrad.native.contracts.element_types import HALVES, complex_of
from fastgrad.native.host.tables import BY_NAME
from fastgrad.ops.call import apply, float_bits

_BACKWARD, _ORTHO, _FORWARD = "backward", "ortho", "forward"
_OPPOSITE = {None: _FORWARD, _BACKWARD: _FORWARD, _ORTHO: _ORTHO, _FORWARD: _BACKWARD}


# --- operands --------------------------------------------------------------------------------------------------


def _floating(name: str, x: Any) -> Any:
    """The operand in a dtype that transforms are computed in."""
    dtype = need_tensor(name, x).dtype
    if dtype.code in HALVES:
        raise RuntimeError(
            f"{name}(): Unsupported dtype {dtype.type_name}; convert it with .to(fastgrad.float32)"
        )
    return x if dtype.inexact else x.to(dtypes.get_default_dtype())


def _complex(name: str, x: Any) -> Any:
    x = _floating(name, x)
    return x if x.is_complex() else x.to(dtypes.ALL[complex_of(x.dtype.code)])


def _real(name: str, x: Any) -> Any:
    if need_tensor(name, x).is_complex():
        raise RuntimeError(f"{name}(): {name} expects a real input tensor, but got {x.dtype.type_name}")
    return _floating(name, x)


def _length(name: str, n: Any) -> int:
    n = as_index(name, "n", n)
    if n < 1:
        raise RuntimeError(f"{name}(): Invalid number of data points ({n}) specified")
    return n


def _factor(name: str, norm: Any, n: int, inverse: bool) -> float:
    """What a transform of length n is multiplied by."""
    if norm is not None and norm not in _OPPOSITE:
        raise RuntimeError(f"{name}(): Invalid normalization mode: {norm!r}")
    if norm == _ORTHO:
        return 1 / math.sqrt(n)
    return 1 / n if inverse == (norm in (None, _BACKWARD)) else 1.0


def _resized(x: Any, dim: int, n: int) -> Any:
    """The operand with n elements along a dimension: the first ones, or zeros behind them."""
    size = x.shape[dim]
    if size > n:
        return x.narrow(dim, 0, n)
    if size == n:
        return x
    missing = [n - size if d == dim else s for d, s in enumerate(x.shape)]
    return cat([x, zeros(missing, dtype=x.dtype, device=x.device)], dim)


_WHOLE = ("fft", "ifft", "fft_of_reals", "ifft_of_reals")


def _run(op: str, x: Any, dim: int, length: int, factor: float) -> Any:
    """A transform of rows along a dimension. `length` is that of the whole rows, which those of halves have not."""
    last = x.dim() - 1
    rows = x.transpose(dim, last) if dim != last else x
    out = _of_rows(op, rows, length, factor)
    return out.transpose(dim, last) if dim != last else out


def _of_rows(op: str, rows: Any, length: int, factor: float) -> Any:
    first, half = first_of(length, rows), length // 2 + 1
    if first == 0 or (first != length and op not in _WHOLE):
        return by_others(op, rows, length, factor, _of_rows)
    sizes = list(rows.shape)
    count = math.prod(sizes[:-1])
    sizes[-1] = half if op == "rfft" else length
    integers = (length, first, 1 if first == length else 2) if op in _WHOLE else (length, half)
    return apply(BY_NAME[op].id, 1, 0, rows, count, *integers, float_bits(factor), len(sizes), *sizes)


# --- one dimension ---------------------------------------------------------------------------------------------


def _dim(name: str, x: Any, dim: Any) -> int:
    dim = as_index(name, "dim", dim)
    if x.dim() == 0:
        raise IndexError(f"{name}(): Dimension specified as {dim} but tensor has no dimensions")
    return wrapped(name, dim, x.dim())


def _whole(name: str, x: Any, n: Any, dim: Any, norm: Any, inverse: bool) -> Any:
    x = _floating(name, x)
    dim = _dim(name, x, dim)
    n = _length(name, x.shape[dim] if n is None else n)
    op = ("ifft" if inverse else "fft") + ("" if x.is_complex() else "_of_reals")
    return _run(op, _resized(x, dim, n), dim, n, _factor(name, norm, n, inverse))


def _to_half(name: str, x: Any, n: Any, dim: Any, norm: Any) -> Any:
    x = _real(name, x)
    dim = _dim(name, x, dim)
    n = _length(name, x.shape[dim] if n is None else n)
    return _run("rfft", _resized(x, dim, n), dim, n, _factor(name, norm, n, False))


def _from_half(name: str, x: Any, n: Any, dim: Any, norm: Any) -> Any:
    x = _complex(name, x)
    dim = _dim(name, x, dim)
    n = _length(name, 2 * (x.shape[dim] - 1) if n is None else n)
    return _run("irfft", _resized(x, dim, n // 2 + 1), dim, n, _factor(name, norm, n, True))


@taking_out
@planned
def fft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """The discrete Fourier transform along a dimension.

    Parameters
    ----------
    input : Tensor
        Real or complex.
    n : int, optional
        How many elements are transformed: those beyond are left out, missing ones are zeros.
    dim : int
    norm : str, optional
        "backward" (no factor, the default), "ortho" (``1 / sqrt(n)``) or "forward" (``1 / n``).

    Returns
    -------
    Tensor
        Complex.

    Raises
    ------
    RuntimeError
        If there is no element to transform, or no such `norm`.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.fft.fft(fg.tensor([1.0, 2.0, 3.0, 4.0]))
    tensor([10.+0.j, -2.+2.j, -2.+0.j, -2.-2.j])
    """
    return _whole("fft", input, n, dim, norm, False)


@taking_out
@planned
def ifft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """The inverse of `fft`.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.fft.ifft(fg.tensor([10, -2 + 2j, -2, -2 - 2j]))
    tensor([1.+0.j, 2.+0.j, 3.+0.j, 4.+0.j])
    """
    return _whole("ifft", input, n, dim, norm, True)


@taking_out
@planned
def rfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """The first ``n // 2 + 1`` elements of the transform of real numbers, which determine the others.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.fft.rfft(fg.tensor([1.0, 2.0, 3.0, 4.0]))
    tensor([10.+0.j, -2.+2.j, -2.+0.j])
    """
    return _to_half("rfft", input, n, dim, norm)


@taking_out
@planned
def irfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """The inverse of `rfft`; without `n` of an even number of elements.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.fft.irfft(fg.tensor([10, -2 + 2j, -2]))
    tensor([1., 2., 3., 4.])
    """
    return _from_half("irfft", input, n, dim, norm)


@taking_out
@planned
def hfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """The transform, which is real, of numbers with ``x[n - k] = conj(x[k])``, of which the first half is given.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.fft.hfft(fg.tensor([1.0, 2.0, 3.0]))
    tensor([ 8., -2.,  0., -2.])
    """
    return _from_half("hfft", conj(need_tensor("hfft", input)), n, dim, _opposite("hfft", norm))


@taking_out
@planned
def ihfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """The inverse of `hfft`: the first half of it.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.fft.ihfft(fg.tensor([8.0, -2.0, 0.0, -2.0]))
    tensor([1.-0.j, 2.-0.j, 3.-0.j])
    """
    return conj(_to_half("ihfft", input, n, dim, _opposite("ihfft", norm)))


def _opposite(name: str, norm: Any) -> str:
    if norm not in _OPPOSITE:
        raise RuntimeError(f"{name}(): Invalid normalization mode: {norm!r}")
    return _OPPOSITE[norm]


# --- more dimensions -------------------------------------------------------------------------------------------


def _dims_and_sizes(name: str, x: Any, s: Any, dim: Any) -> list[tuple[int, int | None]]:
    """The dimensions to be transformed, and to which sizes."""
    dims = None if dim is None else as_sequence(name, (dim,) if isinstance(dim, int) else dim, "dim", 3)
    sizes = None if s is None else as_sequence(name, (s,) if isinstance(s, int) else s, "s", 2)
    if dims is not None and sizes is not None and len(dims) != len(sizes):
        raise RuntimeError(f"{name}(): When given, dim and shape arguments must have the same length")
    if dims is None:
        if sizes is not None and len(sizes) > x.dim():
            raise RuntimeError(
                f"{name}(): Got shape with {len(sizes)} values but input tensor only has {x.dim()} dimensions."
            )
        dims = tuple(range(x.dim() - (x.dim() if sizes is None else len(sizes)), x.dim()))
    places = [wrapped(name, d, x.dim()) for d in dims]
    if len(set(places)) != len(places):
        raise RuntimeError(f"{name}(): FFT dims must be unique")
    wanted: Sequence[int | None] = (
        [None] * len(places) if sizes is None else [n if n != -1 else None for n in sizes]
    )
    return list(zip(places, wanted, strict=True))


def _wholes(name: str, x: Any, s: Any, dim: Any, norm: Any, inverse: bool) -> Any:
    x = _floating(name, x)
    _factor(name, norm, 1, inverse)
    for d, n in _dims_and_sizes(name, x, s, dim):
        x = _whole(name, x, n, d, norm, inverse)
    return _complex(name, x)


def _some(name: str, x: Any, s: Any, dim: Any) -> list[tuple[int, int | None]]:
    found = _dims_and_sizes(name, x, s, dim)
    if not found:
        raise RuntimeError(f"{name}(): {name} must transform at least one axis")
    return found


def _wholes_to_half(name: str, x: Any, s: Any, dim: Any, norm: Any, inverse: bool = False) -> Any:
    """Real numbers: a half in the last of the dimensions, then whole rows in the others."""
    *others, (last, n) = _some(name, _real(name, x), s, dim)
    x = _to_half(name, x, n, last, norm)
    for d, size in reversed(others):
        x = _whole(name, x, size, d, norm, inverse)
    return x


def _wholes_from_half(name: str, x: Any, s: Any, dim: Any, norm: Any, inverse: bool = True) -> Any:
    x = _complex(name, x)
    *others, (last, n) = _some(name, x, s, dim)
    for d, size in others:
        x = _whole(name, x, size, d, norm, inverse)
    return _from_half(name, x, n, last, norm)


@taking_out
@planned
def fftn(input: Any, s: Any = None, dim: Any = None, norm: str | None = None) -> Any:
    """The transform along several dimensions, one after the other.

    Parameters
    ----------
    input : Tensor
    s : sequence of int, optional
        How many elements are transformed along each, -1 for as many as there are.
    dim : sequence of int, optional
        All dimensions if not given, or as many of the last ones as `s` has sizes.
    norm : str, optional
        See `fft`; n is the number of all elements that are transformed.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.fft.fftn(fg.ones(2, 2))
    tensor([[4.+0.j, 0.+0.j],
            [0.+0.j, 0.+0.j]])
    """
    return _wholes("fftn", input, s, dim, norm, False)


@taking_out
@planned
def ifftn(input: Any, s: Any = None, dim: Any = None, norm: str | None = None) -> Any:
    """The inverse of `fftn`."""
    return _wholes("ifftn", input, s, dim, norm, True)


@taking_out
@planned
def rfftn(input: Any, s: Any = None, dim: Any = None, norm: str | None = None) -> Any:
    """`fftn` of real numbers, of which the last dimension is a half; see `rfft`."""
    return _wholes_to_half("rfftn", input, s, dim, norm)


@taking_out
@planned
def irfftn(input: Any, s: Any = None, dim: Any = None, norm: str | None = None) -> Any:
    """The inverse of `rfftn`."""
    return _wholes_from_half("irfftn", input, s, dim, norm)


@taking_out
@planned
def hfftn(input: Any, s: Any = None, dim: Any = None, norm: str | None = None) -> Any:
    """`fftn` whose result is real, of what a half in the last dimension determines; see `hfft`."""
    return _hermitian("hfftn", input, s, dim, norm)


@taking_out
@planned
def ihfftn(input: Any, s: Any = None, dim: Any = None, norm: str | None = None) -> Any:
    """The inverse of `hfftn`."""
    return _inverse_hermitian("ihfftn", input, s, dim, norm)


def _hermitian(name: str, input: Any, s: Any, dim: Any, norm: Any) -> Any:
    x = conj(_complex(name, input))
    return _wholes_from_half(name, x, s, dim, _opposite(name, norm))


def _inverse_hermitian(name: str, input: Any, s: Any, dim: Any, norm: Any) -> Any:
    return conj(_wholes_to_half(name, input, s, dim, _opposite(name, norm)))


_LAST = (-2, -1)


@taking_out
@planned
def fft2(input: Any, s: Any = None, dim: Any = _LAST, norm: str | None = None) -> Any:
    """`fftn` along two dimensions, the last ones if no others are given."""
    return _wholes("fft2", input, s, dim, norm, False)


@taking_out
@planned
def ifft2(input: Any, s: Any = None, dim: Any = _LAST, norm: str | None = None) -> Any:
    """`ifftn` along two dimensions, the last ones if no others are given."""
    return _wholes("ifft2", input, s, dim, norm, True)


@taking_out
@planned
def rfft2(input: Any, s: Any = None, dim: Any = _LAST, norm: str | None = None) -> Any:
    """`rfftn` along two dimensions, the last ones if no others are given."""
    return _wholes_to_half("rfft2", input, s, dim, norm)


@taking_out
@planned
def irfft2(input: Any, s: Any = None, dim: Any = _LAST, norm: str | None = None) -> Any:
    """`irfftn` along two dimensions, the last ones if no others are given."""
    return _wholes_from_half("irfft2", input, s, dim, norm)


@taking_out
@planned
def hfft2(input: Any, s: Any = None, dim: Any = _LAST, norm: str | None = None) -> Any:
    """`hfftn` along two dimensions, the last ones if no others are given."""
    return _hermitian("hfft2", input, s, dim, norm)


@taking_out
@planned
def ihfft2(input: Any, s: Any = None, dim: Any = _LAST, norm: str | None = None) -> Any:
    """`ihfftn` along two dimensions, the last ones if no others are given."""
    return _inverse_hermitian("ihfft2", input, s, dim, norm)


# --- frequencies and shifts ------------------------------------------------------------------------------------


@taking_out
def fftfreq(
    n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Any:
    """The frequencies of the elements that `fft` gives for n samples at distances of d.

    They are ``0, 1, ..., (n - 1) // 2, -(n // 2), ..., -1``, divided by ``n d``.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.fft.fftfreq(4)
    tensor([ 0.0000,  0.2500, -0.5000, -0.2500])
    """
    n = as_index("fftfreq", "n", n)
    positive = (n + 1) // 2
    whole = cat([arange(positive, device=device), arange(-(n // 2), 0, device=device)])
    return finish(_spaced(whole, n, d, dtype), requires_grad)


@taking_out
def rfftfreq(
    n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Any:
    """Those that `rfft` gives: ``0, 1, ..., n // 2``, divided by ``n d``.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.fft.rfftfreq(4)
    tensor([0.0000, 0.2500, 0.5000])
    """
    n = as_index("rfftfreq", "n", n)
    return finish(_spaced(arange(n // 2 + 1, device=device), n, d, dtype), requires_grad)


def _spaced(whole: Any, n: int, d: float, dtype: Any) -> Any:
    return whole.to(dtypes.get_default_dtype() if dtype is None else dtype) * (1.0 / (n * d))


@planned
def fftshift(input: Any, dim: Any = None) -> Any:
    """The frequencies in order, so that zero is in the middle.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.fft.fftshift(fg.tensor([0, 1, 2, -2, -1]))
    tensor([-2, -1,  0,  1,  2])
    """
    return _shifted("fftshift", input, dim, lambda size: size // 2)


@planned
def ifftshift(input: Any, dim: Any = None) -> Any:
    """The inverse of `fftshift`."""
    return _shifted("ifftshift", input, dim, lambda size: (size + 1) // 2)


def _shifted(name: str, x: Any, dim: Any, by: Callable[[int], int]) -> Any:
    need_tensor(name, x)
    dims = (
        range(x.dim())
        if dim is None
        else as_sequence(name, (dim,) if isinstance(dim, int) else dim, "dim", 2)
    )
    places = [wrapped(name, d, x.dim()) for d in dims]
    return roll(x, [by(x.shape[d]) for d in places], places) if places else x.clone()
