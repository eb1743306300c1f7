"""What the tests of the op table share: tensors from samples, outputs as arrays, gradients, comparison."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pytest
from op_cases import OP_CASES, OpCase, Sample


def by_dtype(cases: Iterable[OpCase] = OP_CASES) -> list[Any]:
    """Test parameters: each case with each of its dtypes."""
    return [pytest.param(case, dtype, id=f"{case.name}-{dtype}") for case in cases for dtype in case.dtypes]


SELDOM = ("int8", "uint16")
FOR_ALL = (
    "add", "sub", "mul", "div", "floor_divide", "remainder", "pow", "neg", "abs", "sign", "sqrt", "square", "eq", "lt",
    "logical_not", "bitwise_not", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift", "clamp", "maximum",
    "where", "gcd", "sum", "mean.dtype", "amax", "argmin", "all", "prod", "cumsum", "sort", "topk", "mm", "cat",
    "to.float32", "to.uint8", "getitem.advanced", "scatter_add", "index_put.accumulate", "add_", "fill_", "full_like",
    "nonzero", "unique", "searchsorted", "max_pool2d",
)  # fmt: skip
"""Cases that stand for their like in the dtypes that programs seldom use; all kernels are made for each dtype alike."""


def by_seldom_dtype(dtypes: Sequence[str] = SELDOM) -> list[Any]:
    """Test parameters: some cases of integers with dtypes that the others are not tested with."""
    cases = [case for case in OP_CASES if case.name in FOR_ALL]
    return [pytest.param(case, dtype, id=f"{case.name}-{dtype}") for case in cases for dtype in dtypes]


def with_specials() -> list[Any]:
    """Test parameters: cases and dtypes that have special values."""
    return [p for p in by_dtype(c for c in OP_CASES if c.special) if p.values[0].special(p.values[1])]


def by_name(cases: Iterable[OpCase]) -> list[Any]:
    return [pytest.param(case, id=case.name) for case in cases]


def by_error(cases: Iterable[OpCase] = OP_CASES) -> list[Any]:
    return [pytest.param(case, e, id=f"{case.name}-{e.name}") for case in cases for e in case.errors]


def samples_of(case: OpCase, dtype: str) -> list[Sample]:
    """The same samples in every run and every test."""
    return case.samples(np.random.default_rng(zlib.crc32(f"{case.name} {dtype}".encode())), dtype)


def takes_tensor(case: OpCase) -> bool:
    return any(sample.arrays() for sample in samples_of(case, case.dtypes[0]))


def takes_tensor_first(case: OpCase) -> bool:
    samples = samples_of(case, case.dtypes[0])
    return all(sample.args and isinstance(sample.args[0], np.ndarray) for sample in samples)


def skip_where_torch_lacks(lib: Any, case: OpCase, what: str) -> None:
    if lib.__name__ == "torch" and what in case.torch_lacks:
        pytest.skip(f"torch has no {what} of {case.name}")


def forms_of(case: OpCase) -> dict[str, Callable[..., Any]]:
    return {"call": case.call, **case.forms}


# --- between arrays and tensors -------------------------------------------------------------------------

MakeTensor = Callable[[Any, np.ndarray], Any]


def contiguous(lib: Any, array: np.ndarray) -> Any:
    return lib.tensor(np.ascontiguousarray(array).reshape(array.shape))


def tensors(lib: Any, values: Sequence[Any], make: MakeTensor = contiguous) -> list[Any]:
    """Arrays become tensors; everything else stays."""
    return [make(lib, value) if isinstance(value, np.ndarray) else value for value in values]


def keywords(lib: Any, sample: Sample) -> dict[str, Any]:
    return {k: contiguous(lib, v) if isinstance(v, np.ndarray) else v for k, v in sample.kwargs.items()}


def as_list(out: Any) -> list[Any]:
    return list(out) if isinstance(out, (tuple, list)) else [out]


def dtype_name(tensor: Any) -> str:
    return str(tensor.dtype).rpartition(".")[2]


def array_of(tensor: Any) -> np.ndarray:
    """A copy of the values. The dtype that the tensor claims must be the one its memory has."""
    array = tensor.detach().cpu().numpy().copy()
    assert str(array.dtype) == dtype_name(tensor)
    assert array.shape == tuple(tensor.shape)
    return array


def run(
    lib: Any, form: Callable[..., Any], sample: Sample, make: MakeTensor = contiguous
) -> list[np.ndarray]:
    out = form(lib, *tensors(lib, sample.args, make), **keywords(lib, sample))
    return [array_of(t) for t in as_list(out)]


def expected(case: OpCase, sample: Sample) -> list[np.ndarray]:
    return [np.asarray(a) for a in as_list(case.ref(*sample.args, **sample.kwargs))]


def exception_of(call: Callable[..., Any], *args: Any) -> tuple[type[Exception] | None, str]:
    """The class and message of what `call` raises. No traceback survives, nor the tensors in its frames."""
    try:
        call(*args)
    except Exception as error:
        return type(error), str(error)
    return None, ""


# --- gradients ------------------------------------------------------------------------------------------


def cotangents(outputs: Sequence[Any]) -> list[np.ndarray]:
    """Fixed weights of either sign for every element of the outputs that record a graph."""
    rng = np.random.default_rng(7)
    return [
        np.asarray(rng.uniform(0.5, 1.5, tuple(t.shape)) * rng.choice([-1, 1], tuple(t.shape))).astype(
            dtype_name(t)
        )
        for t in outputs
    ]


class Traced:
    """One call whose floating arguments require grad."""

    def __init__(self, lib: Any, case: OpCase, sample: Sample, make: MakeTensor = contiguous) -> None:
        self.lib = lib
        self.args = tensors(lib, sample.args, make)
        self.inputs = [self.args[i] for i in case.grad_positions(sample.args)]
        for tensor in self.inputs:
            tensor.requires_grad_()
        self.outputs = as_list(case.call(lib, *self.args, **keywords(lib, sample)))
        self.recorded = [t for t in self.outputs if t.requires_grad]

    def gradients(self, weights: Sequence[Any] | None = None, **options: Any) -> list[Any]:
        """The inputs' gradients of the recorded outputs' sum, weighted with `weights` (tensors)."""
        if not self.inputs or not self.recorded:
            return [None for _ in self.inputs]
        if weights is None:
            weights = tensors(self.lib, cotangents(self.recorded))
        options = {"allow_unused": True} | options
        return list(self.lib.autograd.grad(self.recorded, self.inputs, weights, **options))

    def gradient_arrays(self) -> list[np.ndarray | None]:
        return [None if g is None else array_of(g) for g in self.gradients()]


# --- comparison -----------------------------------------------------------------------------------------


def assert_same(
    actual: np.ndarray, wanted: np.ndarray, tolerance: tuple[float, float], *, signed_zero: bool = False
) -> None:
    """Equal dtype, shape and values, nan being equal to nan."""
    assert actual.dtype == wanted.dtype
    assert actual.shape == wanted.shape
    relative, absolute = tolerance if wanted.dtype.kind == "f" else (0.0, 0.0)
    np.testing.assert_allclose(actual, wanted, rtol=relative, atol=absolute)
    if signed_zero and wanted.dtype.kind == "f":
        zero = (wanted == 0) & (actual == 0)
        np.testing.assert_array_equal(np.signbit(actual[zero]), np.signbit(wanted[zero]), "sign of zero")


def assert_all_same(
    case: OpCase,
    actual: Sequence[np.ndarray],
    wanted: Sequence[np.ndarray],
    slack: float = 1.0,
    **options: Any,
) -> None:
    """As `assert_same`, with the case's tolerances, `slack` times as wide."""
    assert len(actual) == len(wanted)
    for a, w in zip(actual, wanted, strict=True):
        relative, absolute = case.tolerance(w.dtype)
        assert_same(a, w, (slack * relative, slack * absolute), **options)


def assert_same_gradients(
    case: OpCase, actual: Sequence[np.ndarray | None], wanted: Sequence[np.ndarray | None], slack: float = 1.0
) -> None:
    """As `assert_all_same`, with None equal to None and tolerances `slack` times as wide."""
    assert [a is None for a in actual] == [w is None for w in wanted]
    for a, w in zip(actual, wanted, strict=True):
        if a is not None and w is not None:
            relative, absolute = case.tolerance(w.dtype)
            assert_same(a, w, (slack * relative, slack * absolute))
