"""PyTorch's oldest constructors, ``Tensor`` and ``FloatTensor``: of sizes, or of data."""

from __future__ import annotations

import numpy as np
import pytest

import fastgrad as fg

GOOD = {
    "nothing": lambda lib: lib.Tensor(),
    "sizes": lambda lib: lib.Tensor(2, 3).zero_(),
    "one size": lambda lib: lib.Tensor(3).zero_(),
    "a Size": lambda lib: lib.Tensor(lib.ones(2, 1).shape).zero_(),
    "an empty Size": lambda lib: lib.Tensor(lib.Size([])).zero_(),
    "a list": lambda lib: lib.Tensor([1, 2]),
    "a tuple": lambda lib: lib.Tensor((2, 3)),
    "an array": lambda lib: lib.Tensor(np.ones(2, dtype=np.float32)),
    "a tensor": lambda lib: lib.Tensor(lib.ones(2)),
    "by name": lambda lib: lib.Tensor(data=[1]),
    "a device": lambda lib: lib.Tensor([1.0], device="cpu"),
    "long of a list": lambda lib: lib.LongTensor([1, 2]),
    "long of sizes": lambda lib: lib.LongTensor(2, 1).zero_(),
    "long of a Size": lambda lib: lib.LongTensor(lib.ones(2).shape).zero_(),
    "a parameter": lambda lib: lib.nn.Parameter(lib.Tensor(1, 2).zero_()).detach(),
}
BAD = {
    "a float": lambda lib: lib.Tensor(1.5),
    "a bool": lambda lib: lib.Tensor(True),
    "None": lambda lib: lib.Tensor(None),
    "text": lambda lib: lib.Tensor("a"),
    "two lists": lambda lib: lib.Tensor([2], [3]),
    "a size and text": lambda lib: lib.Tensor(2, "a"),
    "a negative size": lambda lib: lib.Tensor(-1),
    "another name": lambda lib: lib.Tensor(x=1),
    "data twice": lambda lib: lib.Tensor([1], data=[2]),
    "long of a float": lambda lib: lib.LongTensor(1.5),
}


@pytest.mark.parametrize("case", GOOD)
def test_tensors_are_made(case):
    made = GOOD[case](fg)
    assert type(made) is fg.Tensor
    assert made.dtype is (fg.int64 if case.startswith("long") else fg.float32)


@pytest.mark.parametrize("case", BAD)
def test_other_arguments_are_refused(case):
    with pytest.raises((TypeError, RuntimeError), match=r"Tensor|empty|tensor"):
        BAD[case](fg)


def test_classes_of_users():
    class Mine(fg.Tensor):
        pass

    assert type(Mine([1.0])) is Mine
    assert type(Mine(2, 2)) is Mine


@pytest.mark.parity
@pytest.mark.parametrize("case", {**GOOD, **BAD})
def test_as_in_pytorch(case):
    import torch

    if case in BAD:
        with pytest.raises((TypeError, RuntimeError)) as caught:
            BAD[case](torch)
        with pytest.raises(caught.type):
            BAD[case](fg)
        return
    ours, theirs = GOOD[case](fg), GOOD[case](torch)
    assert (tuple(ours.shape), ours.tolist()) == (tuple(theirs.shape), theirs.tolist())
    assert ours.type().split(".")[1] == theirs.type().split(".")[1]
