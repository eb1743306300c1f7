"""The same calls in fastgrad and torch: values, dtypes, shapes, what is recorded, gradients, exceptions."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
from op_cases import OP_CASES, ErrorCase, OpCase, Sample
from op_testing import (
    Traced,
    array_of,
    assert_all_same,
    assert_same_gradients,
    by_dtype,
    by_error,
    by_name,
    by_seldom_dtype,
    exception_of,
    keywords,
    samples_of,
    tensors,
    with_specials,
)

pytestmark = pytest.mark.parity


@pytest.fixture(scope="module")
def torch():
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    gc.freeze()  # torch stays: collections need not look at it
    return torch


def graph_of(traced: Traced) -> list[tuple[bool, bool, bool]]:
    return [(t.requires_grad, t.grad_fn is None, t.is_leaf) for t in traced.outputs]


def compare(
    lib: Any, torch: Any, case: OpCase, sample: Sample, *, gradients: bool = True, signed_zero: bool = False
) -> None:
    ours, theirs = Traced(lib, case, sample), Traced(torch, case, sample)
    actual, wanted = ([array_of(t) for t in traced.outputs] for traced in (ours, theirs))
    assert_all_same(case, actual, wanted, signed_zero=signed_zero)
    assert graph_of(ours) == graph_of(theirs)
    if gradients and "gradients" not in case.torch_lacks:
        assert_same_gradients(case, ours.gradient_arrays(), theirs.gradient_arrays(), slack=4)


@pytest.mark.parametrize(("case", "dtype"), by_dtype() + by_seldom_dtype(["int8"]))
def test_samples(lib, torch, case: OpCase, dtype: str):
    for sample in samples_of(case, dtype):
        compare(lib, torch, case, sample)


@pytest.mark.parametrize(("case", "dtype"), with_specials())
def test_special_values(lib, torch, case: OpCase, dtype: str):
    for sample in case.special(dtype):
        compare(lib, torch, case, sample, gradients=case.special_grads, signed_zero=case.zero_signs)


@pytest.mark.parametrize(("case", "dtype"), by_dtype(c for c in OP_CASES if c.empty))
def test_empty(lib, torch, case: OpCase, dtype: str):
    for sample in case.empty(dtype):
        compare(lib, torch, case, sample)


@pytest.mark.parametrize("case", by_name(c for c in OP_CASES if c.grad_points))
def test_ties_and_kinks(lib, torch, case: OpCase):
    for point in case.grad_points:
        compare(lib, torch, case, Sample(point.args, point.kwargs))


@pytest.mark.parametrize("case", by_name(c for c in OP_CASES if c.inplace))
def test_versions(lib, torch, case: OpCase):
    """In-place calls count as many versions as torch's."""
    for sample in samples_of(case, case.dtypes[0]):
        counts = []
        for library in (lib, torch):
            args = tensors(library, sample.args)
            case.inplace(library, *args, **keywords(library, sample))
            counts.append(
                [t._version for t, a in zip(args, sample.args, strict=True) if isinstance(a, np.ndarray)]
            )
        assert counts[0] == counts[1]


@pytest.mark.parametrize(("case", "error"), by_error())
def test_exception_classes(lib, torch, case: OpCase, error: ErrorCase):
    """What a program catches from torch, it catches from fastgrad."""
    theirs, _ = exception_of(error.call, torch, *tensors(torch, error.args))
    ours, message = exception_of(error.call, lib, *tensors(lib, error.args))
    assert theirs is error.raises
    assert ours is not None, "nothing was raised"
    assert issubclass(ours, theirs), message
