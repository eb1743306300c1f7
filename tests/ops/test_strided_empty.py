"""The memory layout of arguments makes no difference, and tensors without elements are tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from op_cases import OP_CASES, OpCase, Sample
from op_testing import (
    Traced,
    array_of,
    assert_all_same,
    assert_same_gradients,
    by_dtype,
    contiguous,
    expected,
    forms_of,
    run,
    samples_of,
    skip_where_torch_lacks,
    takes_tensor,
)

import fastgrad as fg

STRIDED = [case for case in OP_CASES if case.strided and takes_tensor(case)]


def transposed(lib: Any, array: np.ndarray) -> Any:
    """The last dimension has the largest stride."""
    order = tuple(reversed(range(array.ndim)))
    return contiguous(lib, array.transpose(order)).permute(order)


def stepped(lib: Any, array: np.ndarray) -> Any:
    """Every second element of every dimension of a larger tensor, from the second one on."""
    if array.ndim == 0:
        return contiguous(lib, np.stack([array, array]))[1]
    larger = np.full([2 * n + 1 for n in array.shape], 7).astype(array.dtype)
    window = tuple(slice(1, None, 2) for _ in array.shape)
    larger[window] = array
    return contiguous(lib, larger)[window]


def expanded(lib: Any, array: np.ndarray) -> Any:
    """Stride zero along the first dimension; stands for an array that repeats its first row."""
    return contiguous(lib, array[:1]).expand(array.shape)


def first_row_repeated(array: np.ndarray) -> np.ndarray:
    return np.broadcast_to(array[:1], array.shape).copy()


LAYOUTS: dict[str, tuple[Callable[..., Any], Callable[[np.ndarray], np.ndarray]]] = {
    "transposed": (transposed, np.array),
    "stepped": (stepped, np.array),
    "expanded": (expanded, first_row_repeated),
}


def applies(layout: str, value: Any) -> bool:
    return isinstance(value, np.ndarray) and (layout != "expanded" or (value.ndim > 0 and len(value) > 0))


def arrangements(layout: str, sample: Sample) -> list[tuple[Sample, set[int]]]:
    """Samples whose values the layout can hold, with the positions that get it: all, and each alone."""
    positions = [i for i, value in enumerate(sample.args) if applies(layout, value)]
    choices = {frozenset(positions), *(frozenset({p}) for p in positions)} - {frozenset()}
    convert = LAYOUTS[layout][1]
    return [
        (
            Sample(tuple(convert(v) if i in chosen else v for i, v in enumerate(sample.args)), sample.kwargs),
            set(chosen),
        )
        for chosen in sorted(choices, key=sorted)
    ]


class Maker:
    """Turns the arrays of a sample into tensors, those at `chosen` positions in the layout.

    The harness asks for the arrays in their order, so that counting them tells the position.
    """

    def __init__(self, layout: str, sample: Sample, chosen: set[int]) -> None:
        strided = LAYOUTS[layout][0]
        arrays = [i for i, value in enumerate(sample.args) if isinstance(value, np.ndarray)]
        self.makers = iter([strided if i in chosen else contiguous for i in arrays])

    def __call__(self, lib: Any, array: np.ndarray) -> Any:
        return next(self.makers)(lib, array)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("case", "dtype"), by_dtype(STRIDED))
def test_layout_makes_no_difference(lib, case: OpCase, dtype: str, layout: str):
    for original in samples_of(case, dtype):
        for sample, chosen in arrangements(layout, original):
            wanted = run(lib, case.call, sample)
            actual = run(lib, case.call, sample, Maker(layout, sample, chosen))
            assert_all_same(case, actual, wanted)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("case", [pytest.param(c, id=c.name) for c in STRIDED if c.differentiable])
def test_layout_makes_no_difference_to_gradients(lib, case: OpCase, layout: str):
    skip_where_torch_lacks(lib, case, "gradients")
    skip_where_torch_lacks(lib, case, "strided gradients")
    for original in samples_of(case, case.dtypes[0]):
        for sample, chosen in arrangements(layout, original):
            wanted = Traced(lib, case, sample).gradient_arrays()
            actual = Traced(lib, case, sample, Maker(layout, sample, chosen)).gradient_arrays()
            assert_same_gradients(case, actual, wanted)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_are_what_they_say(lib, layout: str):
    """Otherwise the tests above would compare contiguous tensors with contiguous tensors."""
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    make, convert = LAYOUTS[layout]
    tensor = make(lib, array)
    assert not tensor.is_contiguous()
    np.testing.assert_array_equal(array_of(tensor), convert(array))


@pytest.mark.parametrize(("case", "dtype"), by_dtype(c for c in OP_CASES if c.empty))
def test_empty(lib, case: OpCase, dtype: str):
    for sample in case.empty(dtype):
        wanted = expected(case, sample)
        for form in forms_of(case).values():
            assert_all_same(case, run(lib, form, sample), wanted)


@pytest.mark.parametrize(("case", "dtype"), by_dtype(c for c in OP_CASES if c.empty and c.differentiable))
def test_gradients_of_empty(lib, case: OpCase, dtype: str):
    """Gradients exist, in the shape of the input, even where there is nothing to differentiate."""
    for sample in case.empty(dtype):
        traced = Traced(lib, case, sample)
        for tensor, gradient in zip(traced.inputs, traced.gradients(), strict=True):
            if gradient is not None:
                assert gradient.shape == tensor.shape
                assert gradient.dtype == tensor.dtype


@pytest.mark.parametrize("call", [
    lambda x: x.sum(), lambda x: x.sum(0), lambda x: x.mean(1), lambda x: x.softmax(1), lambda x: x * 2,
    lambda x: x.t() @ x, lambda x: x.amax(1), lambda x: x.cumsum(0), lambda x: x.sort(1)[0], lambda x: x.contiguous(),
])  # fmt: skip
def test_a_view_of_nothing_may_begin_beyond_its_memory(lib, call: Any):
    view, plain = lib.ones(0, 4)[:, 2:], lib.ones(0, 2)
    np.testing.assert_array_equal(call(view).numpy(), call(plain).numpy(), strict=True)


@pytest.mark.parametrize("dtype", [fg.float32, fg.float64])
@pytest.mark.parametrize("sizes", [(7,), (33, 40), (3, 1, 50)])
@pytest.mark.parametrize(
    "function",
    [lambda a, b: a**2.5, lambda a, b: a**-1, fg.atan2, lambda a, b: a / b, lambda a, b: a**b, fg.hypot],
)
def test_the_gradient_of_a_sum_is_that_of_ones(function, sizes, dtype):
    """A sum gives all elements one gradient, which lies in memory once."""
    a, b = (fg.rand(sizes, dtype=dtype).add_(0.5).requires_grad_() for _ in range(2))
    y = function(a, b)
    found = fg.autograd.grad(y.sum(), (a, b), allow_unused=True, retain_graph=True)
    expected = fg.autograd.grad(y, (a, b), fg.ones(sizes, dtype=dtype), allow_unused=True)
    for mine, theirs in zip(found, expected, strict=True):
        assert (mine is None) == (theirs is None)
        assert mine is None or fg.equal(mine, theirs)
