"""PyTorch's own sample inputs: values and first gradients of functions that have no row in the op table.

`op_db` of PyTorch lists calls of each of its functions. Each is made in both libraries, for float64 and, where the
function is one of numbers, for int64.
"""

from __future__ import annotations

import functools
import sys
import types
import unittest
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore")]

FUNCTIONS = """
unfold adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d avg_pool3d
max_pool3d max_unpool1d max_unpool2d max_unpool3d
instance_norm local_response_norm
interpolate upsample_bilinear upsample_nearest
channel_shuffle pixel_shuffle pixel_unshuffle
celu elu glu hardshrink hardsigmoid hardswish hardtanh leaky_relu logsigmoid mish prelu relu relu6 selu silu
softmin softplus softshrink softsign tanhshrink threshold cosine_embedding_loss gaussian_nll_loss
hinge_embedding_loss huber_loss kl_div l1_loss margin_ranking_loss mse_loss multi_margin_loss
multilabel_margin_loss multilabel_soft_margin_loss poisson_nll_loss smooth_l1_loss soft_margin_loss
triplet_margin_loss triplet_margin_with_distance_loss cross_entropy nll_loss binary_cross_entropy
binary_cross_entropy_with_logits
"""

MOST = 100  # samples of an entry of the table, evenly chosen

# Samples that are left out: the function, what decides, the reason.
EXCLUDED: dict[str, tuple[Callable[[tuple[Any, ...], dict[str, Any]], bool], str]] = {
    "avg_pool3d": (lambda args, kwargs: not args[0].is_floating_point(), "means of integers are refused"),
    "triplet_margin_with_distance_loss": (
        lambda args, kwargs: kwargs.get("distance_function") is not None,
        "a function of PyTorch's",
    ),
}


@functools.cache
def entries() -> dict[str, list[Any]]:
    # PyTorch's table stands beside its own tests, which derive from this class.
    sys.modules.setdefault("expecttest", types.SimpleNamespace(TestCase=unittest.TestCase))  # type: ignore[arg-type]
    from torch.testing._internal.common_methods_invocations import op_db

    found: dict[str, list[Any]] = {}
    for op in op_db:
        if op.name.startswith("nn.functional."):
            found.setdefault(op.name.removeprefix("nn.functional."), []).append(op)
    return found


def converted(lib: Any, torch: Any, value: Any) -> Any:
    """A value of a sample for a library: tensors, dtypes, and what they stand in."""
    if isinstance(value, torch.Tensor):
        made = lib.tensor(value.detach().clone().numpy()) if lib is not torch else value.detach().clone()
        return made.requires_grad_(value.requires_grad)
    if isinstance(value, torch.dtype):
        return getattr(lib, str(value).rpartition(".")[2])
    if isinstance(value, (tuple, list)) and not hasattr(value, "_fields"):
        return type(value)(converted(lib, torch, v) for v in value)
    return value


def tensors_in(value: Any, kind: type) -> list[Any]:
    if isinstance(value, kind):
        return [value]
    return [t for v in value for t in tensors_in(v, kind)] if isinstance(value, (tuple, list)) else []


def outcome(lib: Any, function: Callable[..., Any], args: Any, kwargs: Any) -> tuple[list[Any], list[Any]]:
    """Results and gradients of a call, as arrays."""
    out = function(*args, **kwargs)
    outs = tensors_in(out, lib.Tensor)
    leaves = [t for t in tensors_in([args, list(kwargs.values())], lib.Tensor) if t.requires_grad]
    recorded = [y for y in outs if y.requires_grad]
    grads = []
    if recorded:
        weights = [
            lib.tensor(np.cos(np.arange(y.numel(), dtype=np.float64)).reshape(y.shape)) for y in recorded
        ]
        total = sum((y * w).sum() for y, w in zip(recorded, weights, strict=True))
        grads = lib.autograd.grad(total, leaves, allow_unused=True)
    zeros = [np.zeros(tuple(x.shape)) for x in leaves]
    arrays = [z if g is None else g.detach().numpy() for g, z in zip(grads, zeros, strict=False)]
    return [y.detach().numpy() for y in outs], arrays


@pytest.mark.parametrize("name", FUNCTIONS.split())
@pytest.mark.parametrize("dtype", ["float64", "int64"])
def test_samples(lib, name: str, dtype: str):
    torch = pytest.importorskip("torch")
    assert name in entries(), f"PyTorch has no samples of {name}"
    for op in entries()[name]:
        kind = getattr(torch, dtype)
        if kind not in op.dtypes:
            continue
        grads = dtype == "float64" and op.supports_autograd
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            samples = list(op.sample_inputs("cpu", kind, requires_grad=grads))
        for k, sample in list(enumerate(samples))[:: len(samples) // MOST + 1]:
            args, kwargs = (sample.input, *sample.args), sample.kwargs
            if name in EXCLUDED and EXCLUDED[name][0](args, kwargs):
                continue
            calls = [
                (library, getattr(library.nn.functional, name), converted(library, torch, args),
                 {key: converted(library, torch, v) for key, v in kwargs.items()})
                for library in (lib, torch)
            ]  # fmt: skip
            (ours, our_grads), (theirs, their_grads) = (outcome(*call) for call in calls)
            assert len(ours) == len(theirs), f"sample {k}"
            for a, b in zip(ours + our_grads, theirs + their_grads, strict=True):
                assert a.dtype == b.dtype, f"sample {k}: {sample}"
                rtol, atol = (1e-5, 1e-6) if a.dtype == np.float32 else (1e-7, 1e-9)
                np.testing.assert_allclose(a, b, rtol=rtol, atol=atol, err_msg=f"sample {k}: {sample}")
