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
