"""Functions that PyTorch's layers are made of: results and gradients beside PyTorch's, and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastgrad as fg


def line(lib: Any, x: Any) -> Any:
    return lib.linspace(-1, 1, 12, dtype=x.dtype)


CASES: dict[str, tuple[tuple[int, ...], Any]] = {
    "constant_pad_nd": ((2, 3), lambda lib, x: lib.constant_pad_nd(x, (1, -1, 0, 2), 3.0)),
    "grid_sampler_2d": (
        (1, 2, 3, 4),
        lambda lib, x: lib.grid_sampler_2d(x, line(lib, x).reshape(1, 2, 3, 2), 2, 1, False),
    ),
    "grid_sampler_3d": (
        (1, 1, 2, 3, 4),
        lambda lib, x: lib.grid_sampler_3d(x, line(lib, x).reshape(1, 1, 2, 2, 3), 0, 2, True),
    ),
    "native_layer_norm": (
        (2, 3, 4), lambda lib, x: lib.native_layer_norm(x, (3, 4), lib.ones(3, 4, dtype=x.dtype) * 2, None, 1e-5)
    ),
    "native_group_norm": ((2, 4, 3), lambda lib, x: lib.native_group_norm(x, None, None, 2, 4, 3, 2, 1e-5)),
    "native_batch_norm": (
        (2, 3, 4),
        lambda lib, x: lib.native_batch_norm(x, lib.ones(3, dtype=x.dtype), None, None, None, True, 0.1, 1e-5),
    ),
    "native_batch_norm, fixed": (
        (2, 3), lambda lib, x: lib.native_batch_norm(
            x, None, None, lib.zeros(3, dtype=x.dtype), lib.ones(3, dtype=x.dtype), False, 0.1, 1e-5
        )
    ),
}  # fmt: skip
WRONG: dict[str, tuple[type[Exception], Any]] = {
    "no tensor": (TypeError, lambda lib: lib.constant_pad_nd(None, (1, 1))),
    "rank": (RuntimeError, lambda lib: lib.grid_sampler_2d(lib.ones(2, 2), lib.ones(1, 1, 1, 2), 0, 0, True)),
    "elements": (
        RuntimeError,
        lambda lib: lib.native_group_norm(lib.ones(2, 4), None, None, 2, 4, 2, 2, 0.0),
    ),
    "eps": (TypeError, lambda lib: lib.native_layer_norm(lib.ones(2), (2,), None, None, None)),
}


@pytest.mark.parity
@pytest.mark.parametrize("case", CASES)
def test_results_and_gradients(case):
    torch = pytest.importorskip("torch")
    shape, call = CASES[case]
    values = np.random.default_rng(0).standard_normal(shape)
    found = []
    for lib in (fg, torch):
        x = lib.tensor(values).requires_grad_()
        results = call(lib, x)
        results = results if isinstance(results, tuple) else (results,)
        sum((r * r).sum() for r in results if r.requires_grad).backward()
        found.append([*(r.detach().numpy() for r in results), x.grad.numpy()])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("case", WRONG)
@pytest.mark.parametrize("name", ["fastgrad", pytest.param("torch", marks=pytest.mark.parity)])
def test_errors(name, case):
    kind, call = WRONG[case]
    with pytest.raises(kind):
        call(fg if name == "fastgrad" else pytest.importorskip(name))
