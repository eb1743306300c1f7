"""Writes to memory that is read at the same time, and sizes that no tensor can have."""

from __future__ import annotations

from typing import Any

import pytest

import fastgrad as fg

PARTLY = "some elements of the input tensor and the written-to tensor refer to a single memory location"
TWICE = "more than one element of the written-to tensor refers to a single memory location"


def matrix(lib: Any) -> Any:
    return lib.arange(1.0, 10.0).reshape(3, 3).clone()


@pytest.mark.parametrize(
    "write",
    [
        lambda lib, s: s.sub_(s[0]),
        lambda lib, s: s[1:].add_(s[:-1]),
        lambda lib, s: s.t().copy_(s),
        lambda lib, s: s.copy_(s.t()),
        lambda lib, s: s.mul_(s[0, 0]),
        lambda lib, s: s.copy_(s[1, 1]),
        lambda lib, s: s.clamp_(s[0], s[1]),
        lambda lib, s: s.add_(s[0], alpha=2),
        lambda lib, s: s[0:2].__setitem__(slice(None), s[1:3]),
        lambda lib, s: s.__setitem__(lib.tensor([0, 1]), s[1:3]),
        lambda lib, s: s.__setitem__(lib.tensor([0, 1]), s[2, 2]),
    ],
)
def test_what_is_read_is_not_written(lib, write):
    s = matrix(lib)
    with pytest.raises(RuntimeError, match=PARTLY):
        write(lib, s)
    assert s.tolist() == matrix(lib).tolist()


@pytest.mark.parametrize(
    ("write", "first"),
    [
        (lambda s: s.add_(s), [2.0, 4.0, 6.0]),
        (lambda s: s.add_(s.detach()), [2.0, 4.0, 6.0]),
        (lambda s: s.add_(s.view(3, 3)), [2.0, 4.0, 6.0]),
        (lambda s: s.copy_(s), [1.0, 2.0, 3.0]),
        (lambda s: s[0].copy_(s[1]), [4.0, 5.0, 6.0]),
        (lambda s: s[:, 0:2].add_(s[:, 0:2]), [2.0, 4.0, 3.0]),
        (lambda s: s.fill_(s[1, 1]), [5.0, 5.0, 5.0]),
        (lambda s: s.masked_fill_(s > 1, s[0, 0]), [1.0, 1.0, 1.0]),
        (lambda s: s.__setitem__(s > 1, s[0, 0]), [1.0, 1.0, 1.0]),
    ],
)
def test_what_is_the_same_or_apart_may_be_read(lib, write, first):
    s = matrix(lib)
    write(s)
    assert s[0].tolist() == first


def test_an_element_with_several_indices(lib):
    for write in (
        lambda t: t.add_(1),
        lambda t: t.copy_(lib.ones(3)),
        lambda t: t.exp_(),
        lambda t: t.uniform_(),
        lambda t: lib.nn.functional.relu(t, inplace=True),
    ):
        with pytest.raises(RuntimeError, match=TWICE):
            write(lib.ones(1).expand(3))
    assert lib.ones(1).expand(3).fill_(2).tolist() == [2.0] * 3
    assert lib.ones(1).expand(3).zero_().tolist() == [0.0] * 3
    assert lib.ones(1, 1).expand(3, 0).add_(1).tolist() == [[], [], []]


BIG = 2**64


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda lib, x: lib.zeros(BIG + 3), TypeError),
        (lambda lib, x: lib.full((2 * BIG + 1, 2), 1.0), TypeError),
        (lambda lib, x: lib.zeros(2**62, 4), RuntimeError),
        (lambda lib, x: lib.zeros(2**40, 2**40), RuntimeError),
        (lambda lib, x: lib.ones(1).expand(2**32, 2**32), RuntimeError),
        (lambda lib, x: lib.ones(4, 1).expand(4, 2**62 + 1), RuntimeError),
        (lambda lib, x: lib.ones(1).expand(BIG), TypeError),
        (lambda lib, x: lib.ones(1).expand(2**62).clone(), RuntimeError),
        (lambda lib, x: lib.ones(1).expand(2**40, 1) + lib.ones(1).expand(2**40), RuntimeError),
        (lambda lib, x: lib.cat([lib.ones(1).expand(2**62)] * 2), RuntimeError),
        (lambda lib, x: x.view(BIG), TypeError),
        (lambda lib, x: x.view(2**32, 2**32), RuntimeError),
        (lambda lib, x: x.view(2**62, 4, -1), RuntimeError),
        (lambda lib, x: x.reshape(BIG + 6), TypeError),
        (lambda lib, x: x.unflatten(0, (BIG, -1)), TypeError),
        (lambda lib, x: x.repeat(10**30), TypeError),
        (lambda lib, x: x.repeat(2**62, 2), RuntimeError),
        (lambda lib, x: lib.repeat_interleave(x, 10**30), ValueError),
        (lambda lib, x: lib.repeat_interleave(x, 2**62), RuntimeError),
        (lambda lib, x: x.narrow(0, 1, 2**63 - 1), RuntimeError),
        (lambda lib, x: x.narrow(0, 0, BIG), ValueError),
        (lambda lib, x: x.select(0, BIG), ValueError),
        (lambda lib, x: x.split(BIG), ValueError),
        (lambda lib, x: x.flatten(0, BIG), ValueError),
        (lambda lib, x: x.diagonal(BIG), ValueError),
    ],
)
def test_sizes_that_no_tensor_can_have(lib, make, error):
    with pytest.raises(error):
        make(lib, lib.ones(2, 3))


def test_large_sizes_that_a_tensor_can_have():
    assert fg.ones(1).expand(2**31, 2**31).numel() == 2**62
    assert fg.ones(1, 0).expand(2**62, 0).shape == (2**62, 0)
    for step in (2**60, 2**61, 2**62, 2**63 - 1, 2**64):
        assert fg.ones(2, 3)[::step].tolist() == [[1.0, 1.0, 1.0]]
        assert fg.ones(3)[::step].numpy().tolist() == [1.0]
    assert fg.repeat_interleave(fg.tensor([1, 2]), fg.tensor([0, 2])).tolist() == [2, 2]
