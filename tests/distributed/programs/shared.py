"""What ranks do in memory that they share: cases of any number of ranks, one after the other."""

import json
import os
import signal
import sys
import time

import numpy as np

import fastgrad as fg
import fastgrad.distributed as dist
from fastgrad import nn
from fastgrad.distributed import boards
from fastgrad.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from fastgrad.distributed.collectives import repeated_sum
from fastgrad.native.contracts.messages import NOTES, OVER, PAYLOAD
from fastgrad.nn.parallel import DistributedDataParallel

cases = sys.argv[1:]
ADDED = (fg.float32, fg.float64, fg.int32, fg.int64)


def group():
    return dist.group.WORLD


def of_rank(count, dtype, rank=None):
    """Other numbers on each rank, small ones, so that sums are exact in any order."""
    rank = dist.get_rank() if rank is None else rank
    return ((fg.arange(count) * 7 + rank * 3) % 11).to(dtype)


def total(count, dtype):
    return sum(of_rank(count, fg.int64, rank) for rank in range(dist.get_world_size())).to(dtype)


def small():
    """Broadcasts and sums that go with the notes, those that are just too large for that, and none at all."""
    for dtype in (*ADDED, fg.float16, fg.uint8, fg.bool, fg.complex64):
        limit = PAYLOAD // fg.zeros(1, dtype=dtype).element_size()
        for count in (0, 1, 5, limit, limit + 1, 3 * limit + 7):
            x = of_rank(count, dtype)
            root = count % dist.get_world_size()
            dist.broadcast(x, root)
            assert x.equal(of_rank(count, dtype, root)), (dtype, count)
            x = of_rank(count, dtype)
            if dtype is not fg.bool and dtype is not fg.uint8:
                dist.all_reduce(x)
                assert x.equal(total(count, dtype)), (dtype, count)


def ahead():
    """A rank may make more calls than there are notes before another one makes the first."""
    if dist.get_rank() == 0:
        time.sleep(0.2)
    xs = [of_rank(3, fg.float32) + k for k in range(5 * NOTES)]
    works = [
        dist.all_reduce(x, async_op=True) if k % 3 else dist.broadcast(x, 1, async_op=True)
        for k, x in enumerate(xs)
    ]
    for work in reversed(works):
        work.wait()
    n = dist.get_world_size()
    for k, x in enumerate(xs):
        wanted = total(3, fg.float32) + n * k if k % 3 else of_rank(3, fg.float32, 1) + k
        assert x.equal(wanted), (k, x)


def in_place():
    """Sums of tensors in a window, on all ranks or on some only, in which case MPI does them."""
    for dtype in ADDED:
        size = fg.zeros(1, dtype=dtype).element_size()
        for count in (PAYLOAD // size + 1, 3 * PAYLOAD + 1, 100_003):
            window = group().share(64 + size * count)
            assert window is not None
            mine = fg.from_numpy(window.memory(64, size * count, np.uint8)).view(dtype)
            for everywhere in (True, False, True):
                x = mine if everywhere or dist.get_rank() == 0 else fg.empty(count, dtype=dtype)
                x.copy_(of_rank(count, dtype))
                dist.all_reduce(x)
                assert x.equal(total(count, dtype)), (dtype, count, everywhere)
            del mine, x
    assert len(group().windows) == 1  # the others were given back


def averages():
    """Means, again and again, by powers of two and other numbers: as if divided before, then added in order."""
    ranks = dist.get_world_size()
    for kind, eps in ((np.float32, 1e-6), (np.float64, 1e-14)):
        given = [np.random.default_rng(rank).standard_normal(30_011).astype(kind) for rank in range(ranks)]
        for count in (17, 30_011):
            window = group().share(given[0].nbytes)
            inside = fg.from_numpy(window.memory(0, given[0].itemsize * count, kind))
            outside = fg.zeros(count, dtype=inside.dtype)
            for x, exact in ((inside, True), (inside if dist.get_rank() == 0 else outside, count == 17)):
                call = repeated_sum(x, group())
                for number in (ranks, 2, 3, 5, 1, 8):
                    x.copy_(fg.from_numpy(given[dist.get_rank()][:count]))
                    call.average(number).wait()
                    wanted = given[0][:count] / kind(number)
                    for one in given[1:]:
                        wanted = wanted + one[:count] / kind(number)
                    assert not exact or np.array_equal(x.numpy(), wanted), (kind, count, number)
                    assert np.allclose(x.numpy(), wanted, rtol=eps, atol=eps), (kind, count, number)
            del inside, x, call


def with_idle_cores():
    """As where the ranks have more cores than their threads take: the thread adds up, while nobody waits."""
    plain = numbers(trained(5))
    board, before = group().board, group().board.has_idle_cores
    board.has_idle_cores = True
    assert numbers(trained(5)) == plain
    averages()
    window = group().share(1 << 20)
    x = fg.from_numpy(window.memory(0, 1 << 20, np.float32))
    call = repeated_sum(x, group())
    for by_itself in (True, False, True):
        board.has_idle_cores = by_itself
        x.fill_(1.0)
        work = call.average(4)
        end = time.monotonic() + (20.0 if by_itself else 0.2)
        while work._flight.state != OVER and time.monotonic() < end:
            time.sleep(0.001)
        assert (work._flight.state == OVER) == by_itself
        dist.barrier()
        work.wait()
        assert (x == dist.get_world_size() / 4).all()
    board.has_idle_cores = before


def without_room():
    """Where there is no room for all, nothing is shared, and no rank is left with half of it."""
    boards._has_room = lambda _: dist.get_rank() != 0
    assert group().share(1 << 12) is None
    assert group().windows == []
    assert group().share(1 << 12, wanted=False) is None
    model = trained(3)
    assert not model.reducer.shared


def trained(passes, *, hook=None, late=None, **options):
    """A model after some passes over several buckets, by batches that differ between ranks."""
    fg.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(16, 70), nn.BatchNorm1d(70), nn.ReLU(), nn.Linear(70, 90), nn.Linear(90, 1)
    )
    model = DistributedDataParallel(model, bucket_cap_mb=16 * 70 * 4 / 2**20, **options)
    if hook is not None:
        model.register_comm_hook(None, hook)
    optimizer = fg.optim.SGD(model.parameters(), lr=0.1)
    for k in range(passes):
        if k == 3 and late is not None:
            model.register_comm_hook(None, late)
        fg.manual_seed(10 * k + dist.get_rank())
        optimizer.zero_grad()
        model(fg.randn(8, 16)).square().mean().backward()
        optimizer.step()
    return model


def numbers(model):
    return [t.flatten().tolist() for t in model.state_dict().values()]


def train():
    """What comes of training, for the test to compare with that of other settings."""
    found = [
        numbers(trained(5)),
        numbers(trained(5, find_unused_parameters=True)),
        numbers(trained(5, static_graph=True)),
        numbers(trained(5, hook=allreduce_hook)),
        numbers(trained(5, late=allreduce_hook)),
        numbers(trained(5, gradient_as_bucket_view=True)),
    ]
    for one in found[
        1:
    ]:  # MPI adds up some buckets, and those of first passes: of more than two ranks in another order
        assert one == found[0] or dist.get_world_size() > 2
        for a, b in zip(one, found[0], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    if dist.get_rank() == 0:
        print(json.dumps(found[0]))


def which():
    """Buckets are shared if nobody else sees them, and no longer once a hook does."""
    seen = []

    def mine(_, bucket):
        seen.append(bucket.buffer())
        return allreduce_hook(None, bucket)

    assert not trained(1).reducer.shared  # the buckets of the first pass do not stay
    assert trained(2).reducer.shared
    assert trained(3, hook=allreduce_hook).reducer.shared
    assert not trained(3, hook=mine).reducer.shared
    model = trained(3, gradient_as_bucket_view=True)
    assert model.reducer.shared
    assert all(group().windows[-1].offset(p.grad.numpy()) is None for p in model.parameters())
    model = trained(3, gradient_as_bucket_view=True, hook=allreduce_hook)
    assert not model.reducer.shared
    assert numbers(trained(6, gradient_as_bucket_view=True, late=mine)) == numbers(trained(6))
    seen.clear()
    model = trained(6, late=mine)
    assert not model.reducer.shared
    assert seen
    assert numbers(model) == numbers(trained(6))
    assert all(group().windows[-1].offset(x.numpy()) is None for x in seen)


def freed():
    """Windows go when no rank uses them; those of groups that all ranks have destroyed, with the next group."""
    models = [trained(2) for _ in range(3)]
    assert len(group().windows) == 3
    del models
    trained(2)
    assert len(group().windows) == 1
    maps = len(named())
    for _ in range(5):
        for _ in range(2):
            other = dist.new_group()
            dist.all_reduce(fg.ones(3), group=other)
            dist.destroy_process_group(other)
        dist.barrier()
    assert len(named()) <= maps + 4
    for _ in range(3):
        model = trained(2)
        gradients = [p.grad for p in model.parameters()]
        dist.destroy_process_group()
        assert all(g.isfinite().all() for g in gradients)
        del model
        dist.init_process_group()
        dist.barrier()
    assert len(named()) <= maps + 4


def named():
    """The files of the memory that this process shares, also those that have no name any more."""
    with open("/proc/self/maps") as file:
        return [line.split()[5] for line in file if "/dev/shm/" in line]


def only_here():
    """If one rank does not want to share memory, none does."""
    assert group().board is None
    small()
    assert numbers(trained(4))


def dies():
    """The last rank is killed between two passes; nothing that has a name is left."""
    model = trained(3)
    assert model.reducer.shared
    print(f"shares: {named()}\n", end="", flush=True)
    dist.barrier()
    if dist.get_rank() == dist.get_world_size() - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    model(fg.randn(8, 16)).square().mean().backward()


def goes_on():
    """Passes until somebody ends the ranks."""
    model = trained(3)
    print(f"shares: {named()}\n", end="", flush=True)
    while True:
        model(fg.randn(8, 16)).square().mean().backward()
        model.zero_grad()


def differs():
    """The last rank has a parameter less in its passes."""
    model = trained(3)
    if dist.get_rank() == dist.get_world_size() - 1:
        dist.all_reduce(fg.ones(5))
    model(fg.randn(8, 16)).square().mean().backward()


if "only_here" in cases and int(os.environ["PMI_RANK"]) == 0:
    from fastgrad import flags

    flags.SHARED_MEMORY = False
dist.init_process_group()
for case in cases:
    globals()[case]()
dist.destroy_process_group()
