"""First and second derivatives of every differentiable op against central differences, in float64."""

from __future__ import annotations

from typing import Any

import pytest
from op_cases import OP_CASES, OpCase, Sample
from op_testing import (
    Traced,
    array_of,
    as_list,
    assert_same,
    by_dtype,
    by_name,
    dtype_name,
    keywords,
    samples_of,
    skip_where_torch_lacks,
    tensors,
)

DIFFERENTIABLE = [case for case in OP_CASES if case.differentiable]
SMOOTH = [case for case in DIFFERENTIABLE if "float64" in case.dtypes]

FIRST_ORDER = {"rtol": 1e-6, "atol": 1e-7}
SECOND_ORDER = {"rtol": 1e-5, "atol": 1e-6}


def test_something_can_be_differentiated():
    """Otherwise the tests below would pass over the case."""
    for case in SMOOTH:
        assert smooth_samples(case), case.name


def smooth_samples(case: OpCase) -> list[Sample]:
    return [s for s in samples_of(case, "float64") if case.grad_positions(s.args)]


def against_differences(
    lib: Any, check: str, case: OpCase, sample: Sample, tolerance: dict[str, float]
) -> None:
    args, options = tensors(lib, sample.args), keywords(lib, sample)
    for position in case.grad_positions(sample.args):
        args[position].requires_grad_()

    def function(*now: Any) -> Any:
        return case.call(lib, *now, **options)

    assert getattr(lib.autograd, check)(function, args, check_grad_dtypes=True, **tolerance)


@pytest.mark.parametrize("case", by_name(SMOOTH))
def test_first_order(lib, case: OpCase):
    skip_where_torch_lacks(lib, case, "gradients")
    for sample in smooth_samples(case):
        against_differences(lib, "gradcheck", case, sample, FIRST_ORDER)


@pytest.mark.parametrize("case", by_name(SMOOTH))
def test_second_order(lib, case: OpCase):
    """Derivatives of the gradients, by the inputs and by the gradient that came in."""
    skip_where_torch_lacks(lib, case, "gradients")
    for sample in smooth_samples(case):
        against_differences(lib, "gradgradcheck", case, sample, SECOND_ORDER)


@pytest.mark.parametrize(("case", "dtype"), by_dtype(DIFFERENTIABLE))
def test_a_recorded_gradient_is_the_same(lib, case: OpCase, dtype: str):
    """With a graph of its own a gradient is made from tensors, op by op, and otherwise by compiled rules."""
    skip_where_torch_lacks(lib, case, "gradients")
    for sample in samples_of(case, dtype):
        compiled = Traced(lib, case, sample).gradients()
        recorded = Traced(lib, case, sample).gradients(create_graph=True)
        for c, r in zip(compiled, recorded, strict=True):
            assert (c is None) == (r is None)
            if c is not None:
                wanted = array_of(c)
                assert_same(array_of(r), wanted, case.tolerance(wanted.dtype))


@pytest.mark.parametrize(("case", "dtype"), by_dtype(DIFFERENTIABLE))
def test_gradients_look_like_their_inputs(lib, case: OpCase, dtype: str):
    """A floating output of floating inputs records a graph; each gradient has its input's dtype and shape."""
    skip_where_torch_lacks(lib, case, "gradients")
    for sample in samples_of(case, dtype):
        traced = Traced(lib, case, sample)
        for output in traced.outputs:
            assert output.requires_grad == (bool(traced.inputs) and dtype_name(output).startswith("float"))
        for tensor, gradient in zip(traced.inputs, traced.gradients(), strict=True):
            if gradient is not None:
                assert gradient.dtype == tensor.dtype
                assert gradient.shape == tensor.shape
                assert not gradient.requires_grad


@pytest.mark.parametrize("case", by_name(c for c in OP_CASES if c.grad_points))
def test_ties_and_kinks(lib, case: OpCase):
    for point in case.grad_points:
        traced = Traced(lib, case, Sample(point.args, point.kwargs))
        weights = [lib.ones_like(t) for t in traced.recorded]
        if case.name == "log_softmax":
            weights = [lib.tensor([0.0, 1.0], dtype=lib.float64)]
        for gradient, wanted in zip(traced.gradients(weights), point.grads, strict=True):
            assert_same(array_of(gradient), wanted, (1e-12, 1e-12))


@pytest.mark.parametrize("case", by_name(c for c in OP_CASES if not c.differentiable))
def test_nothing_is_recorded_for_constants(lib, case: OpCase):
    for sample in samples_of(case, case.dtypes[0]):
        if sample.kwargs.get("requires_grad"):
            continue
        for output in as_list(case.call(lib, *tensors(lib, sample.args), **keywords(lib, sample))):
            assert not output.requires_grad
            assert output.grad_fn is None


@pytest.mark.parametrize("name", ["relu", "relu_"])
def test_relu_has_a_second_derivative(lib, name: str):
    """It is zero, but it is there: a gradient penalty may be taken of a network of nothing else."""
    x = lib.tensor([-1.0, 2.0], requires_grad=True)
    (g,) = lib.autograd.grad(getattr(x * 1, name)().sum(), x, create_graph=True)
    assert g.requires_grad
    (second,) = lib.autograd.grad(g.sum(), x)
    assert (g.tolist(), second.tolist()) == ([0.0, 1.0], [0.0, 0.0])


def test_gradients_have_memory_as_in_pytorch(lib):
    """That of a mean may be changed in place; that of a sum is one element for many."""
    x = lib.ones(3, 4, requires_grad=True)
    (g,) = lib.autograd.grad(x.mean(), x)
    assert g.stride() == (4, 1)
    g.sub_(1.0)
    assert g.max().item() == g.min().item() == pytest.approx(1 / 12 - 1)
    assert lib.autograd.grad(x.mean(0).sum(), x)[0].is_contiguous()
    assert lib.autograd.grad(x.sum(), x)[0].stride() == (0, 0)


@pytest.mark.parametrize(
    "call",
    [
        lambda lib, w, v: v @ v,
        lambda lib, w, v: w @ v,
        lambda lib, w, v: v @ w,
        lambda lib, w, v: lib.stack([w, w]) @ v,
        lambda lib, w, v: w.t().reshape(9),
    ],
    ids=["dot", "mv", "vm", "batch", "reshape"],
)
def test_results_of_products_are_no_views(lib, call):
    """They are the caller's alone, and may be changed in place even if they were made without gradients."""
    w, v = lib.ones(3, 3), lib.ones(3, requires_grad=True)
    with lib.no_grad():
        out = call(lib, w, v)
    assert not out._is_view()
    out.copy_(v.sum() * lib.ones(*out.shape))
    out.sum().backward()
    assert v.grad.tolist() == [out.numel()] * 3


def test_indices_are_no_output_of_the_node(lib):
    x = lib.tensor([1.0, 3.0], requires_grad=True)
    y = x.max(0).values
    seen = []
    y.grad_fn.register_prehook(lambda grads: seen.append(len(grads)) or (grads[0] * 2,))
    y.backward()
    assert seen == [1]
    assert x.grad.tolist() == [0.0, 2.0]


def test_masked_fill_in_place_saves_its_mask(lib):
    x = lib.ones(2, requires_grad=True)
    y = (x * 1).masked_fill_(lib.tensor([True, False]), 0.0).sum()
    y.backward()
    assert x.grad.tolist() == [0.0, 1.0]
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()
