"""DistributedSampler, beside PyTorch's."""

from __future__ import annotations

import importlib
import itertools

import pytest

from fastgrad.utils.data import DataLoader, DistributedSampler


def shares(kind, n, ranks, **options):
    samplers = [kind(range(n), ranks, r, **options) for r in range(ranks)]
    found = [list(s) for s in samplers]
    assert [len(s) for s in samplers] == [len(f) for f in found]
    return found


@pytest.mark.parity
@pytest.mark.parametrize("drop_last", [False, True])
def test_as_pytorch(drop_last: bool):
    data = pytest.importorskip("torch.utils.data")
    for n, ranks in itertools.product((1, 2, 3, 7, 8), (1, 2, 3, 5)):
        options = {"shuffle": False, "drop_last": drop_last}
        ours = shares(DistributedSampler, n, ranks, **options)
        assert ours == shares(data.DistributedSampler, n, ranks, **options)


def test_every_sample_has_one_rank():
    found = shares(DistributedSampler, 12, 3, seed=4)
    assert sorted(itertools.chain(*found)) == list(range(12))
    assert found == shares(DistributedSampler, 12, 3, seed=4)
    assert found != shares(DistributedSampler, 12, 3, seed=5)
    assert sorted(set(itertools.chain(*shares(DistributedSampler, 11, 3)))) == list(range(11))


def test_epochs_have_orders_of_their_own():
    sampler = DistributedSampler(range(20), 2, 0)
    first = list(sampler)
    assert list(sampler) == first
    sampler.set_epoch(1)
    assert list(sampler) != first


def test_batches():
    sampler = DistributedSampler(range(7), 2, 1, shuffle=False)
    assert [b.tolist() for b in DataLoader(range(7), batch_size=2, sampler=sampler)] == [[1, 3], [5, 0]]
    assert list(DistributedSampler([], 2, 1)) == []


def test_the_group_says_how_many(alone):
    assert list(DistributedSampler(range(3), shuffle=False)) == [0, 1, 2]


def test_refused():
    for rank in (2, -1):
        with pytest.raises(ValueError, match=r"Invalid rank .*interval \[0, 1\]"):
            DistributedSampler(range(3), 2, rank)
    with pytest.raises(TypeError, match="'rank' must be int, not str"):
        DistributedSampler(range(3), 2, "0")
    with pytest.raises(TypeError, match="'epoch' must be int, not NoneType"):
        DistributedSampler(range(3), 2, 0).set_epoch(None)
    with pytest.raises(ValueError, match="init_process_group"):
        DistributedSampler(range(3))
    assert importlib.import_module("fastgrad.utils.data.distributed").DistributedSampler is DistributedSampler
