"""Every op of the table on a GPU does what it does on the CPU: values, dtypes, strides, gradients, errors."""

from __future__ import annotations

import contextlib
import re
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from op_testing import (
    Traced,
    array_of,
    as_list,
    assert_all_same,
    assert_same_gradients,
    by_dtype,
    by_error,
    contiguous,
    exception_of,
    keywords,
    samples_of,
    tensors,
)

import fastgrad as fg
from fastgrad.kernels.cuda import compile as compilation
from fastgrad.ops.kernel_table import KERNELS

OF_THE_HOST = ("from_numpy", "tensor.array")  # they make arrays of NumPy between two tensors
SLACK = 4  # times the tolerance of the CPU's: another order of sums, another libm


def transposed(lib: Any, array: np.ndarray) -> Any:
    """A tensor whose dimensions lie the other way round."""
    turned = lib.tensor(np.ascontiguousarray(array.transpose()).reshape(array.shape[::-1]))
    return turned.permute(tuple(reversed(range(array.ndim))))


@contextlib.contextmanager
def skipping_what_is_not_yet() -> Iterator[None]:
    """Skip a test of a kernel that the device has no form of; which these are is known and tested elsewhere."""
    try:
        yield
    except NotImplementedError as error:
        found = re.search(r"has no CUDA kernel for (\w+)", str(error))
        if found is None or found[1] not in compilation.lacking(KERNELS):
            raise
        pytest.skip(str(error))


def results(case: Any, sample: Any, make: Any = contiguous) -> list[Any]:
    fg.manual_seed(zlib.crc32(case.name.encode()))
    return as_list(case.call(fg, *tensors(fg, sample.args, make), **keywords(fg, sample)))


@pytest.mark.parametrize("make", [contiguous, transposed], ids=["rows", "transposed"])
@pytest.mark.parametrize(("case", "dtype"), by_dtype())
def test_values(gpu, case, dtype, make):
    if case.name in OF_THE_HOST or (make is transposed and not case.strided):
        pytest.skip("it is for the host, or asks for one memory layout")
    for sample in samples_of(case, dtype):
        wanted = results(case, sample, make)
        with fg.device(gpu), skipping_what_is_not_yet():
            found = results(case, sample, make)
        assert {t.device.type for t in found} <= {gpu}
        assert [t.stride() for t in found] == [t.stride() for t in wanted]
        assert_all_same(case, [array_of(t) for t in found], [array_of(t) for t in wanted], slack=SLACK)


@pytest.mark.parametrize(("case", "dtype"), [p for p in by_dtype() if p.values[0].differentiable])
def test_gradients(gpu, case, dtype):
    for sample in samples_of(case, dtype):
        fg.manual_seed(3)
        wanted = Traced(fg, case, sample).gradient_arrays()
        with fg.device(gpu), skipping_what_is_not_yet():
            fg.manual_seed(3)
            found = Traced(fg, case, sample).gradient_arrays()
        assert_same_gradients(case, found, wanted, 5 * SLACK)


@pytest.mark.parametrize(("case", "error"), by_error())
def test_errors(gpu, case, error):
    wanted, _ = exception_of(error.call, fg, *tensors(fg, error.args))
    with fg.device(gpu):
        found, said = exception_of(lambda: (error.call(fg, *tensors(fg, error.args)), fg.cuda.synchronize()))
    if (
        found is not wanted
    ):  # an index that a GPU reports late is an IndexError, whatever the function makes of it
        assert found is IndexError, said
        assert "found when something waited" in said
    assert wanted is not None
