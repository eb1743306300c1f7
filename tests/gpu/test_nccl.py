"""A group of one rank on a GPU: calls by NCCL, and training with them."""

from __future__ import annotations

import numpy as np
import pytest

import fastgrad as fg
from fastgrad import distributed as dist
from fastgrad.distributed import nccl

pytest.importorskip("mpi4py")


@pytest.fixture
def group(gpu, request, monkeypatch):
    """A group of this process alone, with NCCL or its stand-in."""
    if "stand-in" in request.node.name:
        from fastgrad.cuda.gpus import attached
        from tests.cuda.fake_nccl import FakeNccl

        fake = FakeNccl(attached()[0].driver)
        functions = nccl.Nccl(fake.address)
        monkeypatch.setattr(nccl, "library", lambda: functions)
    elif not nccl.is_available():
        pytest.skip("there is no NCCL")
    dist.init_process_group("nccl", device_id=0)
    yield dist.group.WORLD
    dist.destroy_process_group()


@pytest.mark.parametrize("dtype", [fg.float32, fg.float64, fg.float16, fg.bfloat16, fg.int64, fg.uint8])
@pytest.mark.parametrize("n", [0, 1, 1000])
def test_collectives(gpu, group, dtype, n):
    x = fg.arange(n).remainder(7).to(dtype).to(gpu)
    wanted = x.clone()
    for op in ("SUM", "PRODUCT", "MIN", "MAX"):
        dist.all_reduce(x, getattr(dist.ReduceOp, op))
        assert fg.equal(x, wanted)
    dist.broadcast(x, 0)
    dist.reduce(x, 0)
    out = fg.zeros_like(x)
    dist.all_gather_into_tensor(out, x)
    assert fg.equal(out, wanted)
    dist.reduce_scatter_tensor(x.zero_(), out)
    assert fg.equal(x, wanted)
    found = [fg.zeros_like(x)]
    dist.all_gather(found, x)
    assert fg.equal(found[0], wanted)
    out.zero_()
    dist.gather(x, [out])
    assert fg.equal(out, wanted)
    dist.scatter(x.zero_(), [out])
    assert fg.equal(x, wanted)
    dist.all_to_all([out.zero_()], [x])
    dist.all_to_all_single(out, out)
    assert fg.equal(out, wanted)


def test_on_a_stream_of_its_own(gpu, group):
    side = fg.cuda.Stream()
    x = fg.full((1 << 20,), 3.0, device=gpu)
    side.wait_stream(fg.cuda.current_stream())
    with fg.cuda.stream(side):
        x *= 2
        work = dist.all_reduce(x, async_op=True)
    work.wait()
    assert (x + 1).unique().tolist() == [7.0]


def test_training(gpu, group):
    results = []
    for wrap in (
        lambda m: m,
        lambda m: fg.nn.parallel.DistributedDataParallel(m, device_ids=[0], bucket_cap_mb=1e-4),
    ):
        fg.manual_seed(0)
        model = fg.nn.Sequential(fg.nn.Linear(8, 16), fg.nn.Tanh(), fg.nn.Linear(16, 4)).to(gpu)
        wrapped = wrap(model)
        optimizer = fg.optim.SGD(model.parameters(), lr=0.1)
        x = fg.from_numpy(np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8)).to(gpu)
        for _ in range(3):
            optimizer.zero_grad()
            wrapped(x).square().mean().backward()
            optimizer.step()
        results.append([p.tolist() for p in model.parameters()])
    assert results[0] == results[1]
