"""Lists that hold slices, None or an ellipsis are indices for each dimension, for reading and writing."""

from __future__ import annotations

import warnings

import pytest

import fastgrad as fg

LISTS = [
    [slice(0, 1), 1], [slice(None), slice(0, 2)], [0, slice(1)], [None, 0], [..., 0], [slice(None)],
    [slice(None), [0, 2]],
]  # fmt: skip


def read_and_written(lib, index):
    x = lib.arange(6.0).reshape(2, 3).requires_grad_()
    y = x[index]
    (y * 2).sum().backward()
    z = x.detach().clone()
    z[index] = 9
    return y.tolist(), x.grad.tolist(), z.tolist()


@pytest.mark.parametrize("index", LISTS, ids=str)
def test_a_list_is_read_as_the_tuple(index):
    assert read_and_written(fg, index) == read_and_written(fg, tuple(index))


@pytest.mark.parity
@pytest.mark.parametrize("index", LISTS, ids=str)
def test_results_are_those_of_pytorch(index):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch calls it deprecated
        assert read_and_written(fg, index) == read_and_written(pytest.importorskip("torch"), index)


@pytest.mark.parametrize("index", [[slice(None)] * 3, [..., ...], [slice(None), "a"]], ids=str)
def test_wrong_lists(index):
    with pytest.raises((IndexError, TypeError, RuntimeError), match="index"):
        fg.ones(2, 3)[index]
