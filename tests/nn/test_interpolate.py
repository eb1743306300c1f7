"""Images of other sizes beside torch's: every mode with its options, gradients, and what is refused."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import fastgrad as fg

MODES = {
    1: ("nearest", "nearest-exact", "linear", "area"),
    2: ("nearest", "nearest-exact", "bilinear", "bicubic", "area"),
    3: ("nearest", "nearest-exact", "trilinear", "area"),
}
SIZES = (5, 7, 4)
TARGETS: list[dict[str, Any]] = [
    {"size": (10, 14, 8)},
    {"size": (3, 4, 9)},
    {"size": SIZES},
    {"size": 1},
    {"scale_factor": 2.0},
    {"scale_factor": 1.7},
    {"scale_factor": 0.6},
    {"scale_factor": 1.7, "recompute_scale_factor": True},
]


def options(mode: str) -> list[dict[str, Any]]:
    if mode in ("nearest", "nearest-exact", "area"):
        return [{}]
    found: list[dict[str, Any]] = [{}, {"align_corners": True}]
    return found if mode in ("linear", "trilinear") else found + [{**o, "antialias": True} for o in found]


CASES = [(rank, mode) for rank, modes in MODES.items() for mode in modes]


def outcome(lib: Any, image: np.ndarray, **kwargs: Any) -> list[np.ndarray]:
    x = lib.tensor(image).requires_grad_()
    y = lib.nn.functional.interpolate(x, **kwargs)
    weights = np.cos(np.arange(y.numel())).reshape(tuple(y.shape)).astype(image.dtype)
    (y * lib.tensor(weights)).sum().backward()
    return [y.detach().numpy(), x.grad.numpy()]


@pytest.mark.parity
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("rank", "mode"), CASES)
def test_beside_torch(lib, rank: int, mode: str, dtype: str):
    torch = pytest.importorskip("torch")
    image = np.random.default_rng(0).standard_normal((2, 3, *SIZES[:rank])).astype(dtype)
    tolerance = 1e-9 if dtype == "float64" else 3e-5
    for target, option in itertools.product(TARGETS, options(mode)):
        size = target.get("size")
        given = {**target, "size": size[:rank]} if isinstance(size, tuple) else target
        ours, theirs = (outcome(x, image, mode=mode, **given, **option) for x in (lib, torch))
        for a, b in zip(ours, theirs, strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance, err_msg=f"{given} {option}")


@pytest.mark.parametrize("mode", ["linear", "nearest", "area"])
def test_derivatives(mode: str):
    x = fg.tensor(np.random.default_rng(1).standard_normal((1, 2, 5)), requires_grad=True)

    def resized(x: Any) -> Any:
        return fg.nn.functional.interpolate(x, size=7, mode=mode)

    assert fg.autograd.gradcheck(resized, (x,))
    assert fg.autograd.gradgradcheck(resized, (x,))


ERRORS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({}, ValueError, "either size or scale_factor"),
    ({"size": 2, "scale_factor": 2.0}, ValueError, "only one of size"),
    ({"size": 2, "align_corners": True}, ValueError, "align_corners"),
    ({"size": 2, "mode": "bilinear"}, NotImplementedError, "bilinear|4D"),
    ({"size": 2, "mode": "cubic"}, NotImplementedError, ""),
    ({"size": (2, 2)}, ValueError, "spatial dimensions"),
    ({"size": 2, "recompute_scale_factor": True}, ValueError, "recompute_scale_factor"),
    ({"size": 2, "antialias": True}, ValueError, "[Aa]nti-alias"),
    ({"size": 0}, RuntimeError, "greater than 0"),
]


@pytest.mark.parametrize(("kwargs", "kind", "text"), ERRORS, ids=[str(k) for k in range(len(ERRORS))])
def test_refused(lib, kwargs: dict[str, Any], kind: type[Exception], text: str):
    with pytest.raises(kind, match=text or None):
        lib.nn.functional.interpolate(lib.ones(1, 2, 4), **kwargs)


@pytest.mark.parametrize("name", ["upsample", "upsample_nearest", "upsample_bilinear"])
def test_names_of_old_warn(lib, name: str):
    with pytest.warns(UserWarning, match="deprecated"):
        assert getattr(lib.nn.functional, name)(lib.ones(1, 1, 2, 2), scale_factor=2).shape == (1, 1, 4, 4)


def test_integers_are_selected(lib):
    x = lib.tensor([[[1, 2, 3]]], dtype=lib.uint8)
    assert lib.nn.functional.interpolate(x, size=5).tolist() == [[[1, 1, 2, 2, 3]]]
