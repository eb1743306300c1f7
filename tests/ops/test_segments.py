"""`segment_reduce` beside PyTorch: values, gradients, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from errors_beside import kinds_raised

import fastgrad as fg
from fastgrad.autograd import gradcheck, gradgradcheck

REDUCTIONS = ("sum", "mean", "max", "min", "prod")
LENGTHS = {
    "vector": ((9,), 0, [2, 0, 3, 4]),
    "rows": ((5, 3), 0, [1, 4]),
    "columns": ((2, 6), 1, [[2, 4, 0], [1, 2, 3]]),
    "middle": ((2, 5, 3), -2, [[2, 3], [0, 5]]),
    "nothing": ((0, 2), 0, [0, 0]),
}


def data_of(sizes: tuple[int, ...], dtype: str = "float64") -> np.ndarray:
    return np.round(np.random.default_rng(5).normal(size=sizes), 1).astype(dtype)


def both(make: Any) -> tuple[np.ndarray, np.ndarray]:
    torch = pytest.importorskip("torch")
    return tuple(np.asarray(make(lib).detach().numpy()) for lib in (fg, torch))  # type: ignore[return-value]


@pytest.mark.parity
@pytest.mark.parametrize("initial", [None, 0.5])
@pytest.mark.parametrize("reduce", REDUCTIONS)
@pytest.mark.parametrize("case", sorted(LENGTHS))
def test_values_and_gradients(case: str, reduce: str, initial: float | None) -> None:
    sizes, axis, lengths = LENGTHS[case]
    weights = (
        np.random.default_rng(6).random((20,)) + 0.1
    )  # PyTorch does not share negative gradients of extremes

    def run(lib: Any) -> Any:
        x = lib.tensor(data_of(sizes), requires_grad=True)
        out = lib.segment_reduce(x, reduce, lengths=lib.tensor(lengths), axis=axis, initial=initial)
        g = lib.tensor(weights)[: out.numel()].reshape(out.shape)
        (grad,) = lib.autograd.grad(out, x, g)
        return lib.cat([out.reshape(-1), grad.reshape(-1)])

    mine, theirs = both(run)
    np.testing.assert_allclose(mine, theirs, rtol=1e-12)


@pytest.mark.parity
@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_nan_zeros_and_ties(reduce: str) -> None:
    values = [1.0, np.nan, 3, 2, 2, 1, 0, 5, 0, 0, 7]

    def run(lib: Any) -> Any:
        x = lib.tensor(values, requires_grad=True)
        out = lib.segment_reduce(x, reduce, lengths=lib.tensor([3, 4, 2, 2]))
        (grad,) = lib.autograd.grad(out, x, lib.tensor([1.0, 2, 3, 4]))
        return lib.cat([out, grad])

    mine, theirs = both(run)
    np.testing.assert_allclose(mine, theirs)


@pytest.mark.parity
@pytest.mark.parametrize("offsets", [[0, 2, 2, 6], [1, 2, 2, 5], [0], [3, 3]])
def test_offsets(offsets: list[int]) -> None:
    def run(lib: Any) -> Any:
        x = lib.arange(1.0, 7.0).requires_grad_()
        out = lib.segment_reduce(x, "sum", offsets=lib.tensor(offsets))
        return lib.cat([out, lib.autograd.grad(out.sum(), x)[0]])

    mine, theirs = both(run)
    np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parity
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_dtypes(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    for reduce in REDUCTIONS:
        for lengths in ("int32", "int64"):
            pair = [
                lib.segment_reduce(
                    lib.arange(6, dtype=getattr(lib, dtype)),
                    reduce,
                    lengths=lib.tensor([2, 4], dtype=getattr(lib, lengths)),
                )
                for lib in (fg, torch)
            ]
            assert str(pair[0].dtype).partition(".")[2] == str(pair[1].dtype).partition(".")[2] == dtype
            assert pair[0].float().tolist() == pair[1].float().tolist()


@pytest.mark.parity
def test_unsafe_leaves_elements_out() -> None:
    def run(lib: Any) -> Any:
        x = lib.arange(1.0, 7.0).requires_grad_()
        out = lib.segment_reduce(x, "max", lengths=lib.tensor([2, 3]), unsafe=True)
        return lib.cat([out, lib.autograd.grad(out.sum(), x)[0]])

    mine, theirs = both(run)
    np.testing.assert_array_equal(mine, theirs)


WRONG = {
    "nothing given": lambda lib, x: lib.segment_reduce(x, "sum"),
    "indices": lambda lib, x: lib.segment_reduce(x, "sum", indices=lib.tensor([0, 6])),
    "reduce": lambda lib, x: lib.segment_reduce(x, "x", lengths=lib.tensor([6])),
    "reduce none": lambda lib, x: lib.segment_reduce(x, None, lengths=lib.tensor([6])),
    "reduce number": lambda lib, x: lib.segment_reduce(x, 1, lengths=lib.tensor([6])),
    "too few": lambda lib, x: lib.segment_reduce(x, "sum", lengths=lib.tensor([2, 3])),
    "too many": lambda lib, x: lib.segment_reduce(x, "sum", lengths=lib.tensor([2, 5])),
    "negative": lambda lib, x: lib.segment_reduce(x, "sum", lengths=lib.tensor([7, -1])),
    "negative unsafe": lambda lib, x: lib.segment_reduce(x, "sum", lengths=lib.tensor([7, -1]), unsafe=True),
    "floats": lambda lib, x: lib.segment_reduce(x, "sum", lengths=lib.tensor([2.0, 4.0])),
    "short": lambda lib, x: lib.segment_reduce(x, "sum", lengths=lib.tensor([2, 4], dtype=lib.int16)),
    "no lengths": lambda lib, x: lib.segment_reduce(x, "sum", lengths=lib.tensor([], dtype=lib.int64)),
    "no offsets": lambda lib, x: lib.segment_reduce(x, "sum", offsets=lib.tensor([], dtype=lib.int64)),
    "descending": lambda lib, x: lib.segment_reduce(x, "sum", offsets=lib.tensor([0, 4, 2, 6])),
    "list": lambda lib, x: lib.segment_reduce(x, "sum", lengths=[6]),
    "positional": lambda lib, x: lib.segment_reduce(x, "sum", lib.tensor([6])),
    "no tensor": lambda lib, x: lib.segment_reduce([1.0], "sum", lengths=lib.tensor([1])),
    "axis": lambda lib, x: lib.segment_reduce(x, "sum", lengths=lib.tensor([6]), axis=1),
    "axis float": lambda lib, x: lib.segment_reduce(x, "sum", lengths=lib.tensor([6]), axis=0.5),
    "rank": lambda lib, x: lib.segment_reduce(x, "sum", lengths=lib.tensor([[6]])),
    "unsafe": lambda lib, x: lib.segment_reduce(x, "sum", lengths=lib.tensor([6]), unsafe=1),
    "initial": lambda lib, x: lib.segment_reduce(x, "sum", lengths=lib.tensor([6]), initial="a"),
    "initial complex": lambda lib, x: lib.segment_reduce(x, "sum", lengths=lib.tensor([6]), initial=1j),
    "integers": lambda lib, x: lib.segment_reduce(lib.arange(6), "sum", lengths=lib.tensor([6])),
    "complex": lambda lib, x: lib.segment_reduce(x + 0j, "sum", lengths=lib.tensor([6])),
    "no dimension": lambda lib, x: lib.segment_reduce(x[0], "sum", lengths=lib.tensor([1])),
    "method": lambda lib, x: x.segment_reduce("sum", lengths=lib.tensor([6])),
}


@pytest.mark.parity
@pytest.mark.parametrize("case", sorted(WRONG))
def test_errors_are_pytorchs(case: str) -> None:
    here, there = kinds_raised(lambda lib: WRONG[case](lib, lib.arange(6.0)))
    assert here is there


def test_what_pytorch_reads_past_the_end_of_is_an_error() -> None:
    x = fg.arange(12.0).reshape(3, 4)
    for lengths in ([[1, 3], [2, 2]], [[1, 3]]):
        with pytest.raises(RuntimeError, match="before axis 1"):
            fg.segment_reduce(x, "sum", lengths=fg.tensor(lengths), axis=1)
    for offsets in ([0, 1, 9], [-1, 1, 3]):
        with pytest.raises(RuntimeError, match="ascend from 0"):
            fg.segment_reduce(x, "sum", offsets=fg.tensor(offsets))
    assert fg.segment_reduce(x, "sum", lengths=fg.tensor([2, 9]), unsafe=True).tolist() == [
        [4, 6, 8, 10],
        [8, 9, 10, 11],
    ]


def test_negative_gradients_of_extremes_are_shared() -> None:
    x = fg.tensor([2.0, 2.0, 1.0], requires_grad=True)
    (-fg.segment_reduce(x, "max", lengths=fg.tensor([3]))).sum().backward()
    assert x.grad.tolist() == [-0.5, -0.5, 0.0]


@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_both_derivatives(reduce: str) -> None:
    x = fg.tensor(np.random.default_rng(2).permutation(10).reshape(5, 2) + 1.0, requires_grad=True)
    lengths = fg.tensor([2, 0, 3])

    def run(x: Any) -> Any:
        return fg.segment_reduce(x, reduce, lengths=lengths, initial=20.0 if reduce == "min" else 0.5)

    assert gradcheck(run, (x,), check_forward_ad=True)
    assert gradgradcheck(run, (x,))


def test_the_node_and_vmap() -> None:
    x = fg.arange(6.0).requires_grad_()
    lengths = fg.tensor([2, 4])
    assert (
        fg.segment_reduce(x, "max", lengths=lengths).grad_fn.next_functions[0][0].name()
        == "SegmentReduceBackward0"
    )
    batch = fg.arange(12.0).reshape(2, 6)
    out = fg.vmap(lambda row: fg.segment_reduce(row, "prod", lengths=lengths))(batch)
    assert out.tolist() == [fg.segment_reduce(row, "prod", lengths=lengths).tolist() for row in batch]
