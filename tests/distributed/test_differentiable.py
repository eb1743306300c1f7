"""Calls between processes that are part of the graph: beside PyTorch's over gloo, and what they refuse."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from ranks import succeed

import fastgrad as fg
from fastgrad.distributed import nn

pytest.importorskip("mpi4py")


@pytest.mark.mpi
@pytest.mark.parametrize("n", [1, 3])
def test_calls(n: int):
    assert len(json.loads(succeed(n, "differentiable.py", "fastgrad"))) == n


@pytest.mark.mpi
@pytest.mark.parity
def test_as_pytorch(tmp_path: Path):
    pytest.importorskip("torch")
    ours = json.loads(succeed(2, "differentiable.py", "fastgrad"))
    theirs = json.loads(succeed(2, "differentiable.py", "torch", str(tmp_path / "store")))
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.keys() == other.keys()
        for case in mine:
            for x, y in zip(mine[case], other[case], strict=True):
                np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6, err_msg=case)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: nn.all_reduce(5), TypeError, "must be Tensor, not int"),
        (lambda: nn.all_gather(None), TypeError, "must be Tensor, not NoneType"),
        (lambda: nn.broadcast(fg.ones(1), 3), ValueError, "Global rank 3 is not part"),
        (lambda: nn.scatter([]), AssertionError, "tensors of one size"),
        (lambda: nn.scatter([fg.ones(1), fg.ones(2)]), AssertionError, "tensors of one size"),
        (lambda: nn.scatter(fg.ones(1)), TypeError, "iterable of Tensors"),
        (lambda: nn.gather([fg.ones(1)]), TypeError, "must be Tensor, not list"),
        (lambda: nn.reduce_scatter(fg.ones(1), [fg.ones(2)]), ValueError, "2 elements"),
        (lambda: nn.reduce_scatter(None, [fg.ones(2)]), TypeError, "'output'"),
        (lambda: nn.all_to_all([fg.ones(2)], fg.ones(2)), TypeError, "iterable of Tensors"),
        (lambda: nn.all_to_all_single(fg.ones(2), fg.ones(3)), ValueError, "expects 2"),
        (lambda: nn.all_reduce(fg.ones(1), "sum"), TypeError, "'op' must be ReduceOp, not str"),
        (lambda: nn.all_reduce(fg.ones(1), group=5), TypeError, "must be ProcessGroup, not int"),
    ],
)  # fmt: skip
def test_refused(alone, call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_one_process(alone):
    x = fg.tensor([1.0, 2.0], requires_grad=True)
    (nn.all_reduce(x * x) + nn.all_gather(x)[0] + nn.broadcast(x, 0)).sum().backward()
    assert x.grad.tolist() == [4, 6]
    assert not nn.all_reduce(fg.ones(2)).requires_grad
