"""Complex tensors on a GPU: values and gradients are those of the CPU, also of Fourier transforms."""

from __future__ import annotations

import numpy as np
import pytest
from complex_cases import cases, of, pairs, reals, same

import fastgrad as fg
from fastgrad.functions import long_transforms

ONE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
DTYPES = ("complex64", "complex128")
LENGTHS = (1, 2, 5, 12, 17, 64, 100, 2047, 2048, 4096, 6006)


@pytest.mark.filterwarnings("ignore:Casting complex values")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", cases())
def test_as_on_the_cpu(gpu, name, dtype):
    function, arrays = cases()[name]
    same(gpu, function, [of(a, dtype) for a in arrays], dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ONE)
def test_transforms(gpu, name, dtype):
    for n in LENGTHS:
        if n > 1 or name not in ("irfft", "hfft"):
            x = reals(3, n) if name in ("rfft", "ihfft") else pairs(3, n)
            same(
                gpu,
                lambda lib, x, n=n: getattr(lib.fft, name)(x, n=n, norm="ortho"),
                [of(x, dtype)],
                dtype,
                10,
            )
    x = reals(6, 5, 2) if name in ("rfft", "ihfft") else pairs(6, 5, 2)
    same(gpu, lambda lib, x: getattr(lib.fft, name)(x, dim=0), [of(x, dtype)], dtype, 10)
    same(gpu, lambda lib, x: getattr(lib.fft, name)(x[:0], dim=1), [of(x, dtype)], dtype)


@pytest.mark.parametrize("name", ONE)
@pytest.mark.parametrize("n", [8, 13, 24, 30])
def test_long_transforms(gpu, name, n, monkeypatch):
    """In a block that holds eight numbers: two passes, or a convolution."""
    monkeypatch.setattr(long_transforms, "room_of", lambda rows: 8)
    x = reals(2, n) if name in ("rfft", "ihfft") else pairs(2, n)
    same(gpu, lambda lib, x: getattr(lib.fft, name)(x, n=n), [of(x, "complex128")], "complex128")


def test_what_is_too_long(gpu, monkeypatch):
    monkeypatch.setattr(long_transforms, "room_of", lambda rows: 8)
    with pytest.raises(NotImplementedError, match=r"37 elements of complex64.*at most 32; move the operand"):
        fg.fft.fft(fg.ones(37, dtype=fg.complex64, device=gpu))


def test_numbers_there_and_back(gpu):
    x = fg.ones(3, dtype=fg.complex64, device=gpu) * 2
    assert x.cpu().tolist() == [2 + 0j] * 3
    assert (x * 2j)[1].item() == 4j
    assert repr(x + 1j) == f"tensor([2.+1.j, 2.+1.j, 2.+1.j], device='{x.device}')"
    assert fg.from_dlpack(x).data_ptr() == x.data_ptr()
    assert x.__cuda_array_interface__["typestr"] == "<c8"
    assert x.to(fg.complex128).cpu().dtype is fg.complex128


def test_an_optimizer_over_the_parts(gpu):
    def trained(device):
        z = fg.tensor([1 + 2j, 3 - 1j], dtype=fg.complex64, device=device)
        parts = fg.nn.Parameter(fg.view_as_real(z))
        optimizer = fg.optim.Adam([parts], lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            (fg.view_as_complex(parts).abs() ** 2).sum().backward()
            optimizer.step()
        return parts.detach().cpu().numpy()

    np.testing.assert_allclose(trained(gpu), trained("cpu"), rtol=1e-5)


def test_a_graph_of_complex_numbers_brings_nothing_from_the_host(gpu):
    x = fg.ones(4, dtype=fg.complex64, device=gpu)
    graph = fg.cuda.CUDAGraph()
    with fg.cuda.graph(graph):
        y = fg.fft.fft(x * 2j) + (1 - 1j)
    x.fill_(3j)
    graph.replay()
    assert y.tolist() == [-23 - 1j, 1 - 1j, 1 - 1j, 1 - 1j]
