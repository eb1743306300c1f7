"""The gradients of layer and root-mean-square normalisation: all at once, or those that a pass wants."""

from __future__ import annotations

import numpy as np
import pytest

import fastgrad as fg
import fastgrad.nn.functional as F

SIZES = [(0, 4), (1, 1), (3, 5), (4, 600), (70, 9), (65, 1000), (1100, 3)]


def assert_close(a, b):
    tolerance = 1e-5 if a.dtype == fg.float32 else 1e-12
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), tolerance, 10 * tolerance)


def _program(kind: str, n: int, c: int, dtype: str):
    rng = np.random.default_rng(n + c)
    x, weight, bias, grad = (
        fg.tensor(rng.standard_normal(sizes).astype(dtype)) for sizes in ((n, c), (c,), (c,), (n, c))
    )
    leaves = [t.requires_grad_() for t in (x, weight, bias)[: 3 if kind == "layer_norm" else 2]]
    out = F.layer_norm(x, (c,), weight, bias) if kind == "layer_norm" else F.rms_norm(x, (c,), weight, 1e-5)
    return out, leaves, grad


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["layer_norm", "rms_norm"])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_all_at_once_are_what_they_are_one_by_one(sizes, kind: str, dtype: str):
    out, leaves, grad = _program(kind, *sizes, dtype)
    together = fg.autograd.grad(out, leaves, grad, retain_graph=True)
    for leaf, found in zip(leaves, together, strict=True):
        [alone] = fg.autograd.grad(out, leaf, grad, retain_graph=True)
        assert found.shape == leaf.shape
        assert_close(found, alone)
    rows = fg.autograd.grad(out, leaves[0], grad, retain_graph=True)[0]
    assert rows.tolist() == together[0].tolist()  # by the same function


@pytest.mark.parametrize("sizes", [(4100, 40), (130, 1500)], ids=str)
def test_they_do_not_depend_on_the_number_of_threads(sizes):
    before = fg.get_num_threads()
    found = []
    try:
        for threads in (1, 2, 5):
            fg.set_num_threads(threads)
            out, leaves, grad = _program("layer_norm", *sizes, "float32")
            found.append([g.tolist() for g in fg.autograd.grad(out, leaves, grad)])
    finally:
        fg.set_num_threads(before)
    assert found[0] == found[1] == found[2]


def test_operands_that_do_not_lie_row_by_row():
    out, leaves, grad = _program("layer_norm", 70, 12, "float64")
    expected = fg.autograd.grad(out, leaves, grad)
    x = leaves[0].detach().t().contiguous().t().requires_grad_()
    out = F.layer_norm(x, (12,), *leaves[1:])
    found = fg.autograd.grad(out, [x, *leaves[1:]], grad.t().contiguous().t())
    for a, b in zip(found, expected, strict=True):
        assert_close(a, b)


def test_hooks_that_give_back_a_shorter_weight_are_told():
    def unpack(t):
        return fg.ones(3) if t.shape == (5,) else t

    with fg.autograd.graph.saved_tensors_hooks(lambda t: t, unpack):
        out, leaves, grad = _program("layer_norm", 7, 5, "float32")
    with pytest.raises(RuntimeError, match="do not fit"):
        fg.autograd.grad(out, leaves, grad)


def test_the_third_result_is_dropped_where_there_is_no_bias():
    x, weight = fg.randn(9, 4, requires_grad=True), fg.randn(4, requires_grad=True)
    F.layer_norm(x, (4,), weight).sum().backward()
    assert_close(weight.grad, F.layer_norm(x, (4,)).sum(0))
    assert weight.grad.shape == (4,)


def test_instances_of_an_empty_batch_move_the_statistics_to_nan():
    mean, var = fg.zeros(4), fg.ones(4)
    out = fg.nn.functional.instance_norm(fg.zeros(0, 4, 3), mean, var)
    assert tuple(out.shape) == (0, 4, 3)
    assert mean.isnan().all()
    assert var.isnan().all()
