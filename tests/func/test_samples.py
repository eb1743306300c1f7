"""`vmap` of ops over the samples that PyTorch's table has for them, against a loop over the batch."""

from __future__ import annotations

import numpy as np
import pytest

import fastgrad as fg
from fastgrad.func import vmap
from fastgrad.func.trees import leaves_of

RANDOM = (
    "rand",
    "dropout",
    "bernoulli",
    "multinomial",
    "normal",
    "empty",
    "uniform",
    "attention",
    "rrelu",
    "fractional",
)
REFUSED = {
    "allclose", "equal",  # a bool
    "masked_select", "nonzero", "nonzero_static", "argwhere", "unique", "unique_consecutive",  # of sizes that differ
    "masked_scatter", "histc", "histogram", "histogramdd", "bincount",
    "nn.functional.one_hot",
    "nn.functional.gaussian_nll_loss",  # read elements
    *(f"special.{kind}_polynomial_{letter}" for kind in ("chebyshev", "shifted_chebyshev") for letter in "tuvw"),
    *(f"special.{kind}" for kind in (  # the highest order
        "hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p",
    )),
    "narrow", "tensor_split",  # where a tensor says where
    "as_strided", "as_strided_copy", "as_strided_scatter",  # where memory has a layout of its own
    "nn.functional.batch_norm", "nn.functional.instance_norm",  # with statistics that are the same for all
    "nn.functional.multi_head_attention_forward",  # with dropout
    "nn.functional.max_unpool1d", "nn.functional.max_unpool2d", "nn.functional.max_unpool3d",  # custom functions
}  # fmt: skip


def _brought(torch, value):
    if isinstance(value, torch.Tensor):
        return fg.tensor(value.detach().numpy())
    return type(value)(_brought(torch, v) for v in value) if type(value) in (tuple, list) else value


def _compared(torch, function, sample):
    """Whether a sample could be compared: all tensors among the arguments have a batch of two elements."""
    args = [_brought(torch, a) for a in (sample.input, *sample.args)]
    kwargs = {key: _brought(torch, value) for key, value in sample.kwargs.items()}
    if any(isinstance(a, (torch.dtype, torch.device)) for a in leaves_of((args, kwargs))):
        return 0
    dims = tuple(0 if isinstance(a, fg.Tensor) else None for a in args)
    x = args[0]
    args = [fg.stack([a, a]) if d == 0 else a for a, d in zip(args, dims, strict=True)]
    args[0] = fg.stack([x, x.flip(tuple(range(x.dim())))]) if x.dim() else args[0]
    try:
        rows = [
            function(*(a[k] if d == 0 else a for a, d in zip(args, dims, strict=True)), **kwargs)
            for k in (0, 1)
        ]
    except (TypeError, ValueError, RuntimeError, IndexError):
        return 0  # arguments that this package does not take
    found = leaves_of(vmap(lambda *given: function(*given, **kwargs), dims)(*args))
    for k in (0, 1):
        for a, b in zip(found, leaves_of(rows[k]), strict=True):
            assert a.dtype is b.dtype
            np.testing.assert_allclose(a[k].numpy(force=True), b.numpy(force=True), rtol=1e-6, atol=1e-9)
    return 1


@pytest.mark.parity
@pytest.mark.filterwarnings("ignore")
def test_samples_are_a_loop():
    torch = pytest.importorskip("torch")
    from torch.testing._internal.common_methods_invocations import op_db

    compared = 0
    for op in op_db[::5]:  # all of them take minutes
        function = fg
        for part in op.name.split("."):
            function = getattr(function, part, None)
        if not callable(function) or op.name in REFUSED or any(word in op.name for word in RANDOM):
            continue
        dtype = (
            torch.float64
            if torch.float64 in op.dtypes
            else torch.int64
            if torch.int64 in op.dtypes
            else torch.bool
        )
        samples = op.sample_inputs("cpu", dtype, requires_grad=False)
        for sample, _ in zip(samples, range(2), strict=False):
            if isinstance(sample.input, torch.Tensor):
                try:
                    compared += _compared(torch, function, sample)
                except Exception as error:
                    error.add_note(op.name)
                    raise
    assert compared > 25
