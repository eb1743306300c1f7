"""Values, dtypes and shapes of every op against NumPy, in every form it can be written."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from op_cases import OP_CASES, OpCase
from op_testing import (
    array_of,
    as_list,
    assert_all_same,
    by_dtype,
    by_name,
    by_seldom_dtype,
    expected,
    forms_of,
    keywords,
    run,
    samples_of,
    takes_tensor,
    takes_tensor_first,
    tensors,
    with_specials,
)


def test_names_are_unique():
    names = [case.name for case in OP_CASES]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(("case", "dtype"), by_dtype() + by_seldom_dtype())
def test_values(lib, case: OpCase, dtype: str):
    for sample in samples_of(case, dtype):
        wanted = expected(case, sample)
        for form in forms_of(case).values():
            assert_all_same(case, run(lib, form, sample), wanted)


@pytest.mark.parametrize(("case", "dtype"), with_specials())
def test_special_values(lib, case: OpCase, dtype: str):
    for sample in case.special(dtype):
        wanted = expected(case, sample)
        for form in forms_of(case).values():
            assert_all_same(case, run(lib, form, sample), wanted)


@pytest.mark.parametrize(
    ("case", "dtype"), by_dtype(c for c in OP_CASES if c.inplace is None and takes_tensor(c))
)
def test_arguments_stay_as_they_were(lib, case: OpCase, dtype: str):
    for sample in samples_of(case, dtype):
        args = tensors(lib, sample.args)
        case.call(lib, *args, **keywords(lib, sample))
        for tensor, array in zip(args, sample.args, strict=True):
            if isinstance(array, np.ndarray):
                assert tensor._version == 0
                np.testing.assert_array_equal(array_of(tensor), array)


@pytest.mark.parametrize(("case", "dtype"), by_dtype(c for c in OP_CASES if c.inplace))
def test_in_place(lib, case: OpCase, dtype: str):
    """The call returns its argument, which holds the result, and other arguments stay as they were."""
    for sample in samples_of(case, dtype):
        args = tensors(lib, sample.args)
        address = args[0].data_ptr()
        result = case.inplace(lib, *args, **keywords(lib, sample))
        assert result is args[0]
        assert result.data_ptr() == address
        assert result._version > 0
        assert_all_same(case, [array_of(result)], expected(case, sample))
        for tensor, array in zip(args[1:], sample.args[1:], strict=True):
            if isinstance(array, np.ndarray):
                np.testing.assert_array_equal(array_of(tensor), array)


def other_values(array: np.ndarray) -> np.ndarray:
    if array.dtype == bool:
        return ~array
    return (array.reshape(-1)[::-1].reshape(array.shape) + 1).astype(array.dtype)


@pytest.mark.parametrize("case", by_name(c for c in OP_CASES if c.view is not None and takes_tensor_first(c)))
def test_outputs_share_memory_exactly_if_they_are_views(lib, case: OpCase):
    for sample in samples_of(case, case.dtypes[0]):
        changed = other_values(sample.args[0])
        after = replace(sample, args=(changed, *sample.args[1:])) if case.view else sample
        wanted = expected(case, after)
        for form in forms_of(case).values():
            args = tensors(lib, sample.args)
            outputs = as_list(form(lib, *args, **keywords(lib, sample)))
            args[0].copy_(lib.tensor(changed))
            assert_all_same(case, [array_of(t) for t in outputs], wanted)


def test_new_tensors_have_version_zero(lib):
    """What fills them is no change; nor is what makes the seed of a pass."""
    x = lib.zeros(2, 2)
    made = [x, lib.ones(2), lib.full((2,), 3), lib.eye(2), lib.arange(3), lib.rand(2), lib.tensor([1.0])]
    made += [lib.tensor(x), lib.ones_like(x), lib.zeros_like(x), lib.full_like(x, 2), x.clone()]
    assert [t._version for t in made] == [0] * len(made)
    y = x.requires_grad_().sum()
    assert lib.autograd.grad(y, y)[0]._version == 0
    z = lib.zeros(2, 3).t()
    z[lib.tensor([0, 2])] = 1.0
    assert z._version == 1
