"""Fourier transforms: values against NumPy, everything against PyTorch, derivatives against finite differences."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import fastgrad as fg

RNG = np.random.default_rng(5)
ONE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
OF_REALS = ("rfft", "ihfft")
NORMS = (None, "ortho", "forward")


def operand(name: str, *shape: int) -> np.ndarray:
    made = RNG.standard_normal(shape)
    real = name.rstrip("2n") in OF_REALS
    return made if real else made + 1j * RNG.standard_normal(shape)


def numbers(t: Any) -> np.ndarray:
    made = RNG.standard_normal(tuple(t.shape))
    return made + 1j * RNG.standard_normal(tuple(t.shape)) if t.is_complex() else made


def resolved(t: Any) -> np.ndarray:
    t = t.detach()
    return t.resolve_conj().numpy()


@pytest.mark.parametrize("name", ONE)
def test_values_of_one_dimension(name: str):
    for n, norm in itertools.product((1, 2, 5, 8, 17, 64), NORMS):
        x = operand(name, 3, n)
        if name in ("irfft", "hfft") and n == 1:
            continue
        found = getattr(fg.fft, name)(fg.tensor(x), norm=norm).numpy(force=True)
        np.testing.assert_allclose(found, getattr(np.fft, name)(x, norm=norm), rtol=1e-12, atol=1e-12)
    single = operand(name, 2, 6).astype("complex64" if name not in OF_REALS else "float32")
    found = getattr(fg.fft, name)(fg.tensor(single)).numpy(force=True)
    np.testing.assert_allclose(found, getattr(np.fft, name)(single), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn"])
def test_values_of_more_dimensions(name: str):
    x = operand(name, 3, 4, 5)
    for options in ({}, {"axes": (0, 2)}, {"s": (2, 6), "axes": (0, 1)}, {"norm": "ortho"}):
        ours = {"dim" if key == "axes" else key: value for key, value in options.items()}
        found = getattr(fg.fft, name)(fg.tensor(x), **ours).numpy()
        np.testing.assert_allclose(found, getattr(np.fft, name)(x, **options), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ONE)
def test_derivatives(name: str):
    for n in (4, 5):
        x = fg.tensor(operand(name, 2, n), requires_grad=True)
        assert fg.autograd.gradcheck(lambda x: getattr(fg.fft, name)(x, n=5), x)
        assert fg.autograd.gradgradcheck(lambda x: getattr(fg.fft, name)(x) ** 2, x)


@pytest.mark.parity
@pytest.mark.parametrize("suffix", ["", "2", "n"])
@pytest.mark.parametrize("name", ONE)
def test_as_pytorch(name: str, suffix: str):
    torch = pytest.importorskip("torch")
    several = [{}, {"norm": "ortho"}, {"s": (4, 6), "dim": (0, 2)}, {"s": (3, -1), "norm": "forward"}]
    single = [{"n": 4, "dim": 0}, {"n": 7, "norm": "ortho"}, {"norm": "forward"}]
    for options in several if suffix else single:
        a = operand(name, 3, 4, 5)
        x, y = torch.tensor(a, requires_grad=True), fg.tensor(a, requires_grad=True)
        theirs = getattr(torch.fft, name + suffix)(x, **options)
        ours = getattr(fg.fft, name + suffix)(y, **options)
        np.testing.assert_allclose(resolved(ours), resolved(theirs), rtol=1e-11, atol=1e-11)
        g = numbers(theirs)
        (first,) = torch.autograd.grad(theirs, x, torch.tensor(g))
        (found,) = fg.autograd.grad(ours, y, fg.tensor(g))
        np.testing.assert_allclose(resolved(found), resolved(first), rtol=1e-11, atol=1e-11)


@pytest.mark.parity
def test_frequencies_and_shifts_as_pytorch():
    torch = pytest.importorskip("torch")
    for n, d in itertools.product((1, 4, 5), (1.0, 0.5)):
        for name in ("fftfreq", "rfftfreq"):
            theirs, ours = (getattr(lib.fft, name)(n, d) for lib in (torch, fg))
            np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-6)
    a = np.arange(20).reshape(4, 5)
    for name, dim in itertools.product(("fftshift", "ifftshift"), (None, 0, (0, 1))):
        theirs, ours = (getattr(lib.fft, name)(lib.tensor(a), dim) for lib in (torch, fg))
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


ERRORS: list[tuple[type[Exception], str, dict[str, Any]]] = [
    (RuntimeError, "fft", {"n": 0}),
    (IndexError, "fft", {"dim": 5}),
    (RuntimeError, "fft", {"norm": "x"}),
    (TypeError, "fft", {"n": "a"}),
    (TypeError, "fft", {"dim": None}),
    (RuntimeError, "fftn", {"dim": (0, 0)}),
    (RuntimeError, "fftn", {"s": (2, 2, 2)}),
    (RuntimeError, "fft2", {"s": (2,)}),
    (RuntimeError, "fftn", {"s": (0, 2)}),
    (RuntimeError, "irfft", {"n": -1}),
    (RuntimeError, "rfftn", {"dim": ()}),
    (RuntimeError, "fftn", {"s": (2,), "dim": (0, 1)}),
    (RuntimeError, "irfft", {"n": 1 << 62}),
]


def test_errors():
    for error, name, options in ERRORS:
        with pytest.raises((error, MemoryError)):
            getattr(fg.fft, name)(fg.ones(3, 3), **options)
    for call in (
        lambda: fg.fft.rfft(fg.ones(3) * 1j),
        lambda: fg.fft.fft(fg.ones(3, dtype=fg.float16)),
        lambda: fg.fft.fft(fg.tensor(1.0)),
        lambda: fg.fft.irfft(fg.ones(1)),
        lambda: fg.fft.fft(None),
        lambda: fg.fft.fft(fg.zeros(3, 0)),
    ):
        with pytest.raises((RuntimeError, IndexError, TypeError)):
            call()
    assert fg.fft.fft(fg.zeros(0, 3)).shape == (0, 3)
    assert fg.fft.irfft(fg.zeros(0, 3)).shape == (0, 4)


def test_many_rows_and_strides():
    """Launches in parts, operands that are no rows, integers."""
    a = RNG.standard_normal((3000, 37))
    np.testing.assert_allclose(fg.fft.fft(fg.tensor(a)).numpy(), np.fft.fft(a), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(fg.fft.rfft(fg.tensor(a)).numpy(), np.fft.rfft(a), rtol=1e-10, atol=1e-10)
    t = fg.tensor(a)[::2, 1::3]
    np.testing.assert_allclose(fg.fft.fft(t, dim=0).numpy(), np.fft.fft(a[::2, 1::3], axis=0), atol=1e-9)
    assert fg.fft.fft(fg.arange(4)).dtype is fg.complex64


# --- windows and pieces ----------------------------------------------------------------------------------------

WINDOWS = ("hann", "hamming", "bartlett", "blackman", "kaiser")


@pytest.mark.parity
@pytest.mark.parametrize("name", WINDOWS)
def test_windows_as_pytorch(name: str):
    torch = pytest.importorskip("torch")
    for n, periodic in itertools.product((0, 1, 2, 5, 8), (True, False)):
        theirs, ours = (getattr(lib, f"{name}_window")(n, periodic) for lib in (torch, fg))
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-6, atol=1e-6)
    for bad in ({"window_length": -1}, {"window_length": 3, "dtype": fg.int64}):
        with pytest.raises(RuntimeError):
            getattr(fg, f"{name}_window")(**bad)


FORWARD = [
    {}, {"hop_length": 3}, {"center": False}, {"normalized": True}, {"onesided": False}, {"pad_mode": "constant"},
    {"pad_mode": "replicate"}, {"pad_mode": "circular"},
]  # fmt: skip
INVERSE = [
    {}, {"hop_length": 3}, {"normalized": True}, {"onesided": False}, {"length": 20},
    {"onesided": False, "return_complex": True},
]  # fmt: skip


@pytest.mark.parity
@pytest.mark.filterwarnings("ignore:stft with return_complex")
def test_pieces_as_pytorch():
    torch = pytest.importorskip("torch")
    window = np.hanning(10)[1:-1] + 0.1

    def compare(name: str, a: np.ndarray, options: dict[str, Any]) -> None:
        x, y = torch.tensor(a, requires_grad=True), fg.tensor(a, requires_grad=True)
        theirs = getattr(torch, name)(x, 8, window=torch.tensor(window), **options)
        ours = getattr(fg, name)(y, 8, window=fg.tensor(window), **options)
        np.testing.assert_allclose(resolved(ours), resolved(theirs), rtol=1e-11, atol=1e-11)
        g = numbers(theirs)
        (first,) = torch.autograd.grad(theirs, x, torch.tensor(g))
        (found,) = fg.autograd.grad(ours, y, fg.tensor(g))
        np.testing.assert_allclose(resolved(found), resolved(first), rtol=1e-10, atol=1e-10)

    for options in FORWARD:
        compare("stft", RNG.standard_normal((2, 30)), {"return_complex": True, **options})
    compare("stft", operand("fft", 30), {})
    compare("stft", RNG.standard_normal(30), {"return_complex": False})
    for options in INVERSE:
        compare("istft", operand("fft", 2, 8 if "onesided" in options else 5, 9), options)


def test_errors_of_pieces():
    x, window = fg.ones(30), fg.ones(8)
    for options in (
        {}, {"return_complex": True, "hop_length": 0}, {"return_complex": True, "pad_mode": "x"},
        {"return_complex": True, "win_length": 9}, {"return_complex": True, "win_length": 4},
    ):  # fmt: skip
        with pytest.raises((RuntimeError, NotImplementedError)):
            fg.stft(x, 8, window=window, **options)
    with pytest.raises(RuntimeError, match="window overlap"):
        fg.istft(fg.ones(5, 9) * 1j, 8, window=fg.hann_window(8), center=False)
    with pytest.raises(RuntimeError):
        fg.istft(fg.ones(5, 9), 8, window=window)
    with pytest.raises(RuntimeError):
        fg.istft(fg.ones(4, 9) * 1j, 8, window=window)
    with pytest.warns(UserWarning, match="window was not provided"):
        fg.stft(x, 8, return_complex=True)


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "ihfft", "irfft", "hfft"])
def test_no_rows_of_any_length_need_no_memory(name: str):
    x = fg.ones(2, 0, requires_grad=True)
    found = getattr(fg.fft, name)(x, 2**60, 0)
    assert found.shape[1] == 0
    assert found.shape[0] == {"rfft": 2**59 + 1, "ihfft": 2**59 + 1}.get(name, 2**60)
    found.real.sum().backward()
    assert x.grad is not None
    assert x.grad.shape == (2, 0)
