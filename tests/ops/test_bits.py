"""Neighbours, significands and exponents of numbers, and histograms of points, beside PyTorch's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import fastgrad as fg

VALUES = [
    0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 1e-45, 5e-324, math.inf, -math.inf, math.nan, 65504.0, 3e38, 1e-40, 6e-8, -6e-8,
    1.7e308, -1e-310,
]  # fmt: skip
DTYPES = ["float16", "bfloat16", "float32", "float64"]


def both(dtype: str) -> tuple[Any, Any, Any]:
    torch = pytest.importorskip("torch")
    own, theirs = (lib.tensor(VALUES, dtype=lib.float64).to(getattr(lib, dtype)) for lib in (fg, torch))
    return torch, own, theirs


def equal(ours: Any, theirs: Any) -> None:
    np.testing.assert_array_equal(ours.double().numpy(), theirs.double().numpy())
    np.testing.assert_array_equal(np.signbit(ours.double().numpy()), np.signbit(theirs.double().numpy()))


@pytest.mark.parity
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("to", [0.0, -0.0, 1.0, math.inf, -math.inf])
def test_neighbours(to, dtype):
    torch, own, theirs = both(dtype)
    keep = [k for k, v in enumerate(VALUES) if not math.isnan(v)]  # the sign of nan is nobody's
    ours = fg.nextafter(own, fg.full_like(own, to))
    equal(ours[keep], torch.nextafter(theirs, torch.full_like(theirs, to))[keep])
    assert ours.isnan().sum() == 1
    assert fg.nextafter(own, fg.full_like(own, math.nan)).isnan().all()


@pytest.mark.parity
@pytest.mark.parametrize("dtype", DTYPES)
def test_significands_and_exponents(dtype):
    torch, own, theirs = both(dtype)
    mantissa, exponent = fg.frexp(own)
    wide = theirs.float() if dtype == "bfloat16" else theirs  # PyTorch has none of bfloat16
    expected = torch.frexp(wide)
    np.testing.assert_array_equal(mantissa.double().numpy(), expected.mantissa.double().numpy())
    np.testing.assert_array_equal(exponent.numpy(), expected.exponent.numpy())
    assert (mantissa.dtype, exponent.dtype) == (own.dtype, fg.int32)


@pytest.mark.parity
def test_gradients():
    torch = pytest.importorskip("torch")
    found = []
    for lib in (fg, torch):
        x = lib.tensor([1.0, -6.0, 0.3], dtype=lib.float64, requires_grad=True)
        y = lib.tensor([1.0, 2.0, 2.0], dtype=lib.float64)
        (lib.frexp(x).mantissa.sum() + (lib.nextafter(x, y) * 3).sum()).backward()
        found.append(x.grad.numpy())
    np.testing.assert_array_equal(*found)


POINTS: dict[str, dict[str, Any]] = {
    "ints": {"bins": [2, 3]},
    "one number": {"bins": 4, "density": True},
    "range": {"bins": [3, 2], "range": [-0.5, 0.5, 0.0, 2.0]},
    "edges": {"bins": ([-1.0, 0.0, 0.25], [-2.0, 0.0, 1.0, 3.0])},
    "weights": {"bins": 2, "weight": True},
}


@pytest.mark.parity
@pytest.mark.parametrize("case", POINTS)
@pytest.mark.parametrize("shape", [(20, 2), (4, 5, 2), (0, 2)], ids=str)
def test_histograms_of_points(shape, case):
    torch = pytest.importorskip("torch")
    values = np.random.default_rng(0).standard_normal(shape)
    found = []
    for lib in (fg, torch):
        settings = dict(POINTS[case])
        if "weight" in settings:
            settings["weight"] = lib.linspace(0, 1, math.prod(shape[:-1]), dtype=lib.float64).reshape(
                shape[:-1]
            )
        if case == "edges":
            settings["bins"] = tuple(lib.tensor(own, dtype=lib.float64) for own in settings["bins"])
        found.append(lib.histogramdd(lib.tensor(values), **settings))
    np.testing.assert_allclose(found[0].hist.numpy(), found[1].hist.numpy(), rtol=1e-12)
    for ours, theirs in zip(found[0].bin_edges, found[1].bin_edges, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-12)


WRONG: dict[str, tuple[type[Exception], Any]] = {
    "range": (RuntimeError, lambda lib, x: lib.histogramdd(x, 2, range=[0.0, 1.0])),
    "bins": (RuntimeError, lambda lib, x: lib.histogramdd(x, [2])),
    "no bins": (RuntimeError, lambda lib, x: lib.histogramdd(x, [0, 1])),
    "vector": (RuntimeError, lambda lib, x: lib.histogramdd(x[0], 2)),
    "integers": (NotImplementedError, lambda lib, x: lib.histogramdd(x.long(), 2)),
    "weights": (RuntimeError, lambda lib, x: lib.histogramdd(x, 2, weight=x)),
    "neighbours of integers": (NotImplementedError, lambda lib, x: lib.nextafter(x.long(), x.long())),
    "neighbours towards a number": (TypeError, lambda lib, x: lib.nextafter(x, 1.0)),
    "exponents of integers": (RuntimeError, lambda lib, x: lib.frexp(x.long())),
    "exponents of nothing": (TypeError, lambda lib, x: lib.frexp(None)),
}


@pytest.mark.parametrize("case", WRONG)
@pytest.mark.parametrize("name", ["fastgrad", pytest.param("torch", marks=pytest.mark.parity)])
def test_errors(name, case):
    kind, call = WRONG[case]
    lib = fg if name == "fastgrad" else pytest.importorskip(name)
    with pytest.raises(kind):
        call(lib, lib.ones(3, 2))


def test_an_index_of_nothing_may_have_any_dtype():
    x = fg.ones(5, 3, requires_grad=True)
    for shape in ((0,), (2, 0), (2, 0, 4)):
        for dtype in (fg.uint8, fg.float32, fg.int64 if len(shape) == 2 else fg.int16):
            out = fg.gather(x, 0, fg.zeros(shape, dtype=dtype))
            assert tuple(out.shape) == shape
            assert out.requires_grad
    with pytest.raises(RuntimeError, match="dtype"):
        fg.gather(x, 0, fg.zeros(1, 1, dtype=fg.uint8))


HASHED = [
    (dtype, shape, dim, keepdim)
    for dtype in ("bool", "uint8", "int8", "int64", "uint64", "float16", "bfloat16", "float32", "float64")
    for shape, dim, keepdim in (
        ((), None, False), ((), 0, True), ((7,), None, False), ((3, 4, 5), (0, 2), False), ((3, 4, 5), -2, True),
        ((0, 3), 1, True), ((3, 4), (), False),
    )
]  # fmt: skip


@pytest.mark.parity
@pytest.mark.parametrize(("dtype", "shape", "dim", "keepdim"), HASHED)
def test_hashes(dtype: str, shape: tuple[int, ...], dim: Any, keepdim: bool) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(2)
    numbers = rng.integers(0, 2 if dtype == "bool" else 100, shape) * (1.5 if "float" in dtype else 1)
    found = []
    for lib in (fg, torch):
        x = lib.tensor(numbers).to(getattr(lib, dtype))
        named = {} if dim is None else {"dim": dim, "keepdim": keepdim}
        if lib is torch and dtype == "uint64":  # PyTorch has no kernel
            x = x.to(torch.int64)
        found.append(lib.hash_tensor(x, **named))
    assert found[0].dtype is fg.uint64
    assert found[0].numpy().tolist() == found[1].numpy().tolist()
    assert tuple(found[0].shape) == tuple(found[1].shape)


def test_hash_refusals() -> None:
    assert fg.tensor([1.0, -1.0]).hash_tensor().item() == 1 << 63
    for call, error, text in (
        (lambda: fg.hash_tensor(1), TypeError, "must be Tensor"),
        (lambda: fg.hash_tensor(fg.ones(1), mode=1), RuntimeError, "mode"),
        (lambda: fg.hash_tensor(fg.ones(1, dtype=fg.complex64)), NotImplementedError, "view_as_real"),
        (lambda: fg.hash_tensor(fg.ones(3, 0), 1), IndexError, "non-zero size"),
        (lambda: fg.hash_tensor(fg.ones(3, 0)), RuntimeError, "dim to be specified"),
        (lambda: fg.hash_tensor(fg.ones(2, 2), 2), IndexError, "out of range"),
        (lambda: fg.hash_tensor(fg.ones(2, 2), (0, 0)), RuntimeError, "multiple times"),
    ):
        with pytest.raises(error, match=text):
            call()
