"""Windows, and transforms of short pieces of signals."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from fastgrad import dtypes
from fastgrad.functions.arguments import as_flag, as_float, as_index, need_tensor
from fastgrad.functions.complex_numbers import view_as_real
from fastgrad.functions.creation import arange, finish, ones, zeros
from fastgrad.functions.plans import warn
from fastgrad.functions.public import public
from fastgrad.functions.shape import cat, expand
from fastgrad.native.contracts.element_types import real_of

# --- windows ---------------------------------------------------------------------------------------------------


def _window(
    name: str,
    length: Any,
    periodic: Any,
    dtype: Any,
    device: Any,
    requires_grad: bool,
    form: Callable[[Any, int], Any],
) -> Any:
    """A window of a form, which is given places from 0 on and the distance from the first to the last one."""
    n = as_index(name, "window_length", length)
    if n < 0:
        raise RuntimeError(f"{name}(): requires non-negative window_length, got window_length={n}")
    kind = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    if not kind.is_floating_point:
        raise RuntimeError(f"{name}(): expects floating point dtypes, got: {kind}")
    if n < 2:
        return finish(ones(n, dtype=kind, device=device), requires_grad)
    distance = n if as_flag(name, "periodic", periodic) else n - 1
    return finish(form(arange(n, dtype=dtypes.float64, device=device), distance).to(kind), requires_grad)


def _cosines(*factors: float) -> Callable[[Any, int], Any]:
    """Sums of cosines of multiples of the angle."""

    def form(k: Any, distance: int) -> Any:
        angle = k * (2 * math.pi / distance)
        total = angle * 0 + factors[0]
        for times, factor in enumerate(factors[1:], 1):
            total = total + (angle * times).cos() * factor
        return total

    return form


@public(method=False)
def hann_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """``(1 - cos(2 pi k / n)) / 2``, where n is the length, or one less if the window is not `periodic`.

    Parameters
    ----------
    window_length : int
    periodic : bool
        For transforms; otherwise the window is symmetric, as filters want it.
    dtype : dtype, optional
        Floating point.
    device : device, optional
    requires_grad : bool

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.hann_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    form = _cosines(0.5, -0.5)
    return _window("hann_window", window_length, periodic, dtype, device, requires_grad, form)


@public(method=False)
def hamming_window(
    window_length: int,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """``alpha - beta cos(2 pi k / n)``; see `hann_window`."""
    form = _cosines(as_float("hamming_window", "alpha", alpha), -as_float("hamming_window", "beta", beta))
    return _window("hamming_window", window_length, periodic, dtype, device, requires_grad, form)


@public(method=False)
def blackman_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """``0.42 - 0.5 cos(2 pi k / n) + 0.08 cos(4 pi k / n)``; see `hann_window`."""
    form = _cosines(0.42, -0.5, 0.08)
    return _window("blackman_window", window_length, periodic, dtype, device, requires_grad, form)


@public(method=False)
def bartlett_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """``1 - |2 k / n - 1|``; see `hann_window`."""
    return _window(
        "bartlett_window", window_length, periodic, dtype, device, requires_grad,
        lambda k, distance: 1 - (k * (2 / distance) - 1).abs(),
    )  # fmt: skip


@public(method=False)
def kaiser_window(
    window_length: int,
    periodic: bool = True,
    beta: float = 12.0,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """``I0(beta sqrt(1 - (2 k / n - 1)**2)) / I0(beta)`` with the modified Bessel function of order 0.

    See `hann_window`.
    """
    shape = as_float("kaiser_window", "beta", beta)

    def form(k: Any, distance: int) -> Any:
        place = k * (2 / distance) - 1
        return ((1 - place * place).clamp(0).sqrt() * shape).i0() / (k[:1] * 0 + shape).i0()

    return _window("kaiser_window", window_length, periodic, dtype, device, requires_grad, form)


# --- transforms of pieces --------------------------------------------------------------------------------------


def _padded(x: Any, by: int, mode: str) -> Any:
    """The rows of a matrix with `by` elements more at either end."""
    n = x.shape[1]
    if mode == "reflect":
        if by >= n:
            raise RuntimeError(
                f"stft(): reflection of {by} elements needs more than that, but the signal has {n}"
            )
        return cat([x[:, 1 : by + 1].flip(1), x, x[:, n - by - 1 : n - 1].flip(1)], 1)
    if mode == "constant":
        rest = zeros(x.shape[0], by, dtype=x.dtype, device=x.device)
        return cat([rest, x, rest], 1)
    if mode == "replicate":
        first, last = (expand(x[:, k : k + 1 or None], x.shape[0], by) for k in (0, -1))
        return cat([first, x, last], 1)
    if mode == "circular":
        return cat([x[:, n - by :], x, x[:, :by]], 1)
    raise NotImplementedError(f"stft(): Unrecognised padding mode {mode}")


def _places(frames: int, n_fft: int, hop: int, device: Any) -> Any:
    """Where the elements of each piece stand."""
    return arange(frames, device=device).unsqueeze(1) * hop + arange(n_fft, device=device)


def _whole_window(
    name: str, window: Any, n_fft: int, hop_length: Any, win_length: Any, like: Any
) -> tuple[int, Any]:
    """The step between pieces, and the window of a whole piece."""
    if n_fft <= 0:
        raise RuntimeError(f"{name}(): expected n_fft > 0, but got {n_fft}")
    width = n_fft if win_length is None else as_index(name, "win_length", win_length)
    hop = n_fft // 4 if hop_length is None else as_index(name, "hop_length", hop_length)
    if hop <= 0:
        raise RuntimeError(f"{name}(): expected hop_length > 0, but got {hop}")
    if not 0 < width <= n_fft:
        raise RuntimeError(f"{name}(): expected 0 < win_length <= n_fft, but got win_length={width}")
    if window is None:
        warn(
            f"{name}(): A window was not provided. A rectangular window will be applied, which is known to cause "
            "spectral leakage. Other windows such as fastgrad.hann_window are recommended to be used instead.",
            2,
        )
        real = dtypes.ALL[real_of(like.dtype.code)]
        window = ones(width, dtype=real, device=like.device)
    elif need_tensor(name, window, "window", 5).dim() != 1 or window.shape[0] != width:
        raise RuntimeError(
            f"{name}(): expected a 1D window tensor of size equal to win_length={width}, but got window with size "
            f"{list(window.shape)}"
        )
    before = (n_fft - width) // 2
    if width < n_fft:
        sides = [zeros(n, dtype=window.dtype, device=window.device) for n in (before, n_fft - width - before)]
        window = cat([sides[0], window, sides[1]])
    return hop, window


@public()
def stft(
    input: Any,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Any:
    """The Fourier transforms of pieces of a signal, each multiplied by a window.

    Parameters
    ----------
    input : Tensor
        Of shape (length,) or (batch, length), real or complex.
    n_fft : int
        The length of a piece.
    hop_length : int, optional
        From one piece to the next, ``n_fft // 4`` if not given.
    win_length : int, optional
        Of the window, which stands in the middle of a piece; `n_fft` if not given.
    window : Tensor, optional
        Ones if not given, which is warned of.
    center : bool
        Pieces are centred at multiples of `hop_length`, for which the signal is padded at both ends.
    pad_mode : str
        "reflect", "constant", "replicate" or "circular".
    normalized : bool
        Multiply by ``1 / sqrt(n_fft)``.
    onesided : bool, optional
        Only the first ``n_fft // 2 + 1`` frequencies, which is the default for real signals and windows.
    return_complex : bool, optional
        What is real has to say whether the result is complex, or has pairs in a last dimension.
    align_to_window : bool, optional
        Not supported: None or False.

    Returns
    -------
    Tensor
        Of shape (batch, frequencies, pieces).

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.stft(fg.ones(8), 4, window=fg.ones(4), center=False, return_complex=True).shape
    fastgrad.Size([3, 5])
    """
    from fastgrad.functions import fourier as fft  # few programs need it

    x = need_tensor("stft", input)
    n_fft = as_index("stft", "n_fft", n_fft)
    if align_to_window:
        raise NotImplementedError("stft(): align_to_window is not supported")
    if x.dim() not in (1, 2) or not x.dtype.inexact:
        raise RuntimeError(
            f"stft(): expected a 1D or 2D tensor of floating point or complex values, but got {list(x.shape)} of "
            f"{x.dtype.name}"
        )
    pairs = x.is_complex() or (window is not None and window.is_complex())
    if return_complex is None and not pairs:
        raise RuntimeError(
            "stft requires the return_complex parameter be given for real inputs, and will further require that "
            "return_complex=True in a future PyTorch release."
        )
    hop, whole = _whole_window("stft", window, n_fft, hop_length, win_length, x)
    rows = x if x.dim() == 2 else x.unsqueeze(0)
    if center:
        rows = _padded(rows, n_fft // 2, pad_mode)
    length = rows.shape[1]
    if length < n_fft:
        raise RuntimeError(f"stft(): expected 0 < n_fft <= {length}, but got n_fft={n_fft}")
    if pairs and onesided:
        raise RuntimeError("stft(): Cannot have onesided output if window or input is complex")
    pieces = rows[:, _places(1 + (length - n_fft) // hop, n_fft, hop, x.device)] * whole
    half = not pairs if onesided is None else onesided
    out = (fft.rfft if half else fft.fft)(pieces, norm="ortho" if normalized else None).transpose(1, 2)
    out = out if x.dim() == 2 else out.squeeze(0)
    return out if return_complex or return_complex is None else view_as_real(out)


@public()
def istft(
    input: Any,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Any:
    """The signal whose `stft` comes nearest to the input, by overlapping pieces (Griffin and Lim, 1984).

    Parameters
    ----------
    input : Tensor
        Complex, of shape (frequencies, pieces) or (batch, frequencies, pieces).
    n_fft, hop_length, win_length, window, center, normalized, onesided
        As for `stft`.
    length : int, optional
        That of the signal, which ends there or has zeros behind.
    return_complex : bool
        Whether the signal is complex, which it can be if `onesided` is not set.

    Raises
    ------
    RuntimeError
        If sizes do not fit, or there are places that no window covers.

    Examples
    --------
    >>> import fastgrad as fg
    >>> x, window = fg.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]), fg.hann_window(4)
    >>> fg.istft(fg.stft(x, 4, window=window, return_complex=True), 4, window=window)
    tensor([1., 2., 3., 4., 5., 6., 7., 8.])
    """
    from fastgrad.functions import fourier as fft  # few programs need it

    x = need_tensor("istft", input)
    n_fft = as_index("istft", "n_fft", n_fft)
    if not x.is_complex():
        raise RuntimeError(
            f"istft(): requires a complex-valued input tensor matching the output from stft with return_complex=True, "
            f"but got {x.dtype.name}"
        )
    if x.dim() not in (2, 3) or x.numel() == 0:
        raise RuntimeError(
            f"istft(): expected a tensor with 2 or 3 dimensions and elements, but got {list(x.shape)}"
        )
    hop, whole = _whole_window("istft", window, n_fft, hop_length, win_length, x)
    half = x.shape[-2] != n_fft if onesided is None else onesided
    expected = n_fft // 2 + 1 if half else n_fft
    if x.shape[-2] != expected:
        raise RuntimeError(
            "istft(): expected the frequency dimension (3rd to the last) of the input tensor to match n_fft / 2 + 1 "
            f"when onesided=True, or n_fft otherwise: {expected}, but got {x.shape[-2]}"
        )
    if return_complex and half:
        raise RuntimeError("istft(): cannot have onesided input and complex output: set onesided=False")
    norm = "ortho" if normalized else None
    rows = (x if x.dim() == 3 else x.unsqueeze(0)).transpose(1, 2)
    # As in PyTorch, of all frequencies of a real signal the first half counts.
    pieces = fft.ifft(rows, norm=norm) if return_complex else fft.irfft(rows, n_fft, norm=norm)
    out = _overlapped(pieces * whole, whole, n_fft, hop, center, length)
    return out if x.dim() == 3 else out.squeeze(0)


def _overlapped(pieces: Any, window: Any, n_fft: int, hop: int, center: bool, length: Any) -> Any:
    """The sum of overlapping pieces, divided by that of the squares of their windows."""
    batch, frames = pieces.shape[:2]
    whole = n_fft + hop * (frames - 1)
    places = _places(frames, n_fft, hop, pieces.device).reshape(-1)
    sums = zeros(batch, whole, dtype=pieces.dtype, device=pieces.device)
    sums = sums.index_add(1, places, pieces.reshape(batch, -1))
    squares = expand(window * window, frames, n_fft).reshape(-1)
    weights = zeros(whole, dtype=squares.dtype, device=pieces.device).index_add(0, places, squares)
    start = n_fft // 2 if center else 0
    end = whole - start if length is None else start + as_index("istft", "length", length)
    sums, weights = sums[:, start:end], weights[start:end]
    least = weights.abs().min() if weights.numel() else None
    if least is None or not bool(least > 1e-11):
        raise RuntimeError(
            f"istft(): window overlap add min: {None if least is None else least.item()}: there are places that no "
            "window covers; use another window, or a smaller hop_length"
        )
    out = sums / weights
    missing = end - start - out.shape[1]
    if missing > 0:
        warn(
            "istft(): The length of signal is shorter than the length parameter. Result is being padded with zeros in "
            "the tail. Please check your center and hop_length settings.",
            2,
        )
        out = cat([out, zeros(batch, missing, dtype=out.dtype, device=out.device)], 1)
    return out
