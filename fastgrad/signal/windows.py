"""Windows under the names and with the arguments of ``torch.signal.windows``.

A window of M elements has its places ``k = 0, ..., M - 1``; d is the distance from the first to the last one, M - 1,
or M where the window is not symmetric and its period goes on behind it. All are computed in float64 and rounded once.
Formulas: F. J. Harris, "On the use of windows for harmonic analysis with the discrete Fourier transform", Proceedings
of the IEEE 66 (1978).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from fastgrad import dtypes
from fastgrad.functions.arguments import as_flag, as_float, as_index
from fastgrad.functions.creation import arange, finish, ones
from fastgrad.functions.memory_format import strided
from fastgrad.module_names import getattr_of as _getattr_of

__all__ = [
    "bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine", "general_hamming", "hamming", "hann",
    "kaiser", "nuttall",
]  # fmt: skip

Form = Callable[[Any, int], Any]


def _window(
    name: str, length: Any, form: Form, sym: Any, dtype: Any, layout: Any, device: Any, requires_grad: bool
) -> Any:
    """A window of a form, which is given the places and the distance d."""
    m = as_index(name, "M", length)
    if m < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={m}")
    if layout is not None and layout is not strided:
        raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
    kind = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    if kind not in (dtypes.float32, dtypes.float64):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {kind}")
    symmetric = as_flag(name, "sym", sym)
    if m < 2:
        return finish(ones(m, dtype=kind, device=device), requires_grad)
    places = arange(m, dtype=dtypes.float64, device=device)
    return finish(form(places, m - 1 if symmetric else m).to(kind), requires_grad)


def _cosines(factors: Sequence[float]) -> Form:
    """``a_0 - a_1 cos(2 pi k / d) + a_2 cos(4 pi k / d) - ...``"""

    def form(k: Any, d: int) -> Any:
        angle = k * (2 * math.pi / d)
        total = angle * 0 + factors[0]
        for times, factor in enumerate(factors[1:], 1):
            total = total + (angle * times).cos() * (factor if times % 2 == 0 else -factor)
        return total

    return form


def general_cosine(
    M: int,
    *,
    a: Sequence[float],
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """``a[0] - a[1] cos(2 pi k / d) + a[2] cos(4 pi k / d) - ...``

    Parameters
    ----------
    M : int
        Elements of the window; of none and of one there is nothing but ones.
    a : sequence of float
        The factors.
    sym : bool
        Whether the window is symmetric, as filters want it; otherwise it is periodic, as transforms want it.
    dtype : dtype, optional
        float32 or float64.
    layout : layout, optional
        Strided, which there is nothing else of.
    device : device, optional
    requires_grad : bool

    Returns
    -------
    Tensor
        Of shape (M,).

    Raises
    ------
    ValueError
        If M is negative, `a` is empty, or the dtype or the layout is another one.
    TypeError
        If `a` is no sequence.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.signal.windows.general_cosine(5, a=[0.4, 0.3, 0.3])
    tensor([0.4000, 0.1000, 1.0000, 0.1000, 0.4000])
    """
    if not isinstance(a, (list, tuple)):
        raise TypeError("Coefficients must be a list/tuple")
    if not a:
        raise ValueError("Coefficients cannot be empty")
    form = _cosines([as_float("general_cosine", "a", factor) for factor in a])
    return _window("general_cosine", M, form, sym, dtype, layout, device, requires_grad)


def general_hamming(
    M: int,
    *,
    alpha: float = 0.54,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """``alpha - (1 - alpha) cos(2 pi k / d)``; see `general_cosine`.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.signal.windows.general_hamming(5, alpha=0.5)
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """
    share = as_float("general_hamming", "alpha", alpha)
    form = _cosines([share, 1 - share])
    return _window("general_hamming", M, form, sym, dtype, layout, device, requires_grad)


def hamming(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """``0.54 - 0.46 cos(2 pi k / d)``; see `general_cosine`.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.signal.windows.hamming(5)
    tensor([0.0800, 0.5400, 1.0000, 0.5400, 0.0800])
    """
    return _window("hamming", M, _cosines([0.54, 0.46]), sym, dtype, layout, device, requires_grad)


def hann(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """``(1 - cos(2 pi k / d)) / 2``; see `general_cosine`.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.signal.windows.hann(4, sym=False)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return _window("hann", M, _cosines([0.5, 0.5]), sym, dtype, layout, device, requires_grad)


def blackman(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """``0.42 - 0.5 cos(2 pi k / d) + 0.08 cos(4 pi k / d)``; see `general_cosine`.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.signal.windows.blackman(5).sum()
    tensor(1.6800)
    """
    return _window("blackman", M, _cosines([0.42, 0.5, 0.08]), sym, dtype, layout, device, requires_grad)


def nuttall(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """Nuttall's four cosines, with the lowest side lobes; see `general_cosine`.

    The factors are those of A. H. Nuttall, "Some windows with very good sidelobe behavior", IEEE Transactions on
    Acoustics, Speech, and Signal Processing 29 (1981).

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.signal.windows.nuttall(5).argmax()
    tensor(2)
    """
    form = _cosines([0.3635819, 0.4891775, 0.1365995, 0.0106411])
    return _window("nuttall", M, form, sym, dtype, layout, device, requires_grad)


def bartlett(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """``1 - |2 k / d - 1|``; see `general_cosine`.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.signal.windows.bartlett(5)
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """

    def form(k: Any, d: int) -> Any:
        return 1 - (k * (2 / d) - 1).abs()

    return _window("bartlett", M, form, sym, dtype, layout, device, requires_grad)


def cosine(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """``sin(pi (k + 1/2) / (d + 1))``; see `general_cosine`.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.signal.windows.cosine(5)
    tensor([0.3090, 0.8090, 1.0000, 0.8090, 0.3090])
    """

    def form(k: Any, d: int) -> Any:
        return ((k + 0.5) * (math.pi / (d + 1))).sin()

    return _window("cosine", M, form, sym, dtype, layout, device, requires_grad)


def exponential(
    M: int,
    *,
    center: float | None = None,
    tau: float = 1.0,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """``exp(-|k - center| / tau)``; see `general_cosine`.

    Parameters
    ----------
    M : int
    center : float, optional
        ``d / 2`` by default, and always for symmetric windows.
    tau : float
        Positive: in how many places the window falls to 1 / e.
    sym : bool
    dtype : dtype, optional
    layout : layout, optional
    device : device, optional
    requires_grad : bool

    Raises
    ------
    ValueError
        If tau is not positive, or a symmetric window has a center.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.signal.windows.exponential(3)
    tensor([0.3679, 1.0000, 0.3679])
    """
    width = as_float("exponential", "tau", tau)
    if width <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    middle = None if center is None else as_float("exponential", "center", center)

    def form(k: Any, d: int) -> Any:
        return ((k - (d / 2 if middle is None else middle)).abs() * (-1 / width)).exp()

    return _window("exponential", M, form, sym, dtype, layout, device, requires_grad)


def gaussian(
    M: int,
    *,
    std: float = 1.0,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """``exp(-((k - d / 2) / std)**2 / 2)``; see `general_cosine`. `std` is positive.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.signal.windows.gaussian(3)
    tensor([0.6065, 1.0000, 0.6065])
    """
    width = as_float("gaussian", "std", std)
    if width <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")

    def form(k: Any, d: int) -> Any:
        place = (k - d / 2) * (1 / width)
        return (place * place * -0.5).exp()

    return _window("gaussian", M, form, sym, dtype, layout, device, requires_grad)


def kaiser(
    M: int,
    *,
    beta: float = 12.0,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """``I0(beta sqrt(1 - (2 k / d - 1)**2)) / I0(beta)``; see `general_cosine`. `beta` is not negative.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.signal.windows.kaiser(5, beta=0.0)
    tensor([1., 1., 1., 1., 1.])
    """
    shape = as_float("kaiser", "beta", beta)
    if shape < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")

    def form(k: Any, d: int) -> Any:
        place = k * (2 / d) - 1
        return ((1 - place * place).clamp(0).sqrt() * shape).i0() / (k[:1] * 0 + shape).i0()

    return _window("kaiser", M, form, sym, dtype, layout, device, requires_grad)


__getattr__ = _getattr_of(__name__)
