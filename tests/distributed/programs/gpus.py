"""Calls on tensors of GPUs, of which there are none: two ranks, each with a stand-in of the driver and of NCCL."""

import sys
import threading
import warnings

import numpy as np

import fastgrad as fg
import fastgrad.distributed as dist
from fastgrad import nn
from fastgrad.distributed import nccl
from fastgrad.nn.parallel import DistributedDataParallel
from tests.cuda.fake_driver import FakeDriver, attached
from tests.cuda.fake_nccl import FakeNccl

case = sys.argv[1]
driver = FakeDriver()
fake = FakeNccl(driver)
functions = nccl.Nccl(fake.address)
nccl.library = lambda: functions


def on_gpu(values, dtype=fg.float32):
    return fg.tensor(values, dtype=dtype).cuda()


def collectives():
    rank = dist.get_rank()
    for dtype in (fg.float32, fg.float64, fg.float16, fg.bfloat16, fg.int32, fg.int64, fg.uint8):
        for op, wanted in (("SUM", [3, 5]), ("PRODUCT", [2, 6]), ("MIN", [1, 2]), ("MAX", [2, 3])):
            x = on_gpu([1 + rank, 2 + rank], dtype)
            assert dist.all_reduce(x, getattr(dist.ReduceOp, op)) is None
            assert x.tolist() == wanted, (dtype, op, x)
    x = on_gpu([1 + rank, 4])
    dist.all_reduce(x, dist.ReduceOp.AVG)
    assert x.tolist() == [1.5, 4]
    x = fg.tensor([1 + 2j, rank]).cuda()
    dist.all_reduce(x)
    assert x.tolist() == [2 + 4j, 1]
    x = on_gpu([rank == 0, False], fg.bool)
    dist.all_reduce(x, dist.ReduceOp.BOR)
    assert x.tolist() == [True, False]
    x = on_gpu([1 + rank])
    dist.reduce(x, 1)
    assert x.item() == (3 if rank else 1)
    for dtype in (fg.int32, fg.float32, fg.bool):
        x = fg.full((3, 2), rank).to(dtype).cuda()
        version = x._version
        dist.broadcast(x, 1)
        assert (x.tolist(), x._version - version) == (fg.ones(3, 2).to(dtype).tolist(), 1 - rank)
    out = fg.zeros(4).cuda()
    dist.all_gather_into_tensor(out, on_gpu([rank, 7]))
    assert out.tolist() == [0, 7, 1, 7]
    parts = [fg.zeros(2, 1).cuda() for _ in range(2)]
    dist.all_gather(parts, on_gpu([[rank], [5]]))
    assert [p.tolist() for p in parts] == [[[0], [5]], [[1], [5]]]
    out = fg.zeros(2).cuda()
    dist.reduce_scatter_tensor(out, on_gpu([1, 2, 3, 4]), dist.ReduceOp.AVG)
    assert out.tolist() == ([3, 4] if rank else [1, 2])
    dist.reduce_scatter(out, [on_gpu([1, 2]), on_gpu([3, 4])])
    assert out.tolist() == ([6, 8] if rank else [2, 4])
    dist.all_reduce(fg.zeros(0).cuda())
    x, y = on_gpu([rank, 1]), on_gpu([[5.0], [rank]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        assert dist.all_reduce_coalesced([x, y]) is None
        assert (x.tolist(), y.tolist()) == ([1, 2], [[10], [1]])
        parts = [[fg.zeros_like(x), fg.zeros_like(y)] for _ in range(2)]
        found = dist.all_gather_coalesced(parts, [x + rank, y], async_op=True).wait()
        assert [t.tolist() for one in found for t in one] == [[1, 2], [[10], [1]], [2, 3], [[10], [1]]]
    dist.barrier(device_ids=[0])
    x = fg.ones(2)  # of the CPU, by MPI
    dist.all_reduce(x)
    assert x.tolist() == [2, 2]


def exchanges():
    """N1: calls that NCCL has no function for, made of messages; of any dtype, since nothing is computed."""
    rank = dist.get_rank()
    for dtype in (fg.float32, fg.bfloat16, fg.uint8, fg.bool, fg.complex64):
        x = fg.tensor([[rank, 1 - rank]]).to(dtype).cuda()
        found = [fg.zeros(1, 2, dtype=dtype).cuda() for _ in range(2)]
        version = found[0]._version
        assert dist.gather(x, found if rank else None, dst=1) is None
        assert fg.cat(found).tolist() == fg.tensor([[0, rank], [rank, 0]]).to(dtype).tolist()
        assert found[0]._version - version == rank
        dist.scatter(x, None if rank else [fg.zeros_like(x), fg.ones_like(x)])
        assert x.tolist() == fg.full((1, 2), rank).to(dtype).tolist()
    x = on_gpu([rank])
    found = [fg.zeros(1).cuda(), x]  # what is sent lies where it arrives
    dist.gather(x, found if rank else None, dst=1)
    assert [t.item() for t in found] == ([0, 1] if rank else [0, 0])
    parts = [fg.full((k + 1,), 10 * rank + k).cuda() for k in range(2)]  # of other sizes for other ranks
    found = [fg.zeros(rank + 1, dtype=fg.int64).cuda() for _ in range(2)]
    work = dist.all_to_all(found, parts, async_op=True)
    assert [t.tolist() for t in work.get_future().wait()] == [[rank] * (rank + 1), [10 + rank] * (rank + 1)]
    x = fg.tensor([[10.0 * rank, 1.0], [10 * rank + 1, 2.0]]).cuda()
    dist.all_to_all_single(x, x)  # in place
    assert x.tolist() == [[rank, rank + 1], [10 + rank, rank + 1]]
    out, x = fg.zeros(5 if rank else 1).cuda(), on_gpu([4, 5] if rank else [0, 1, 2, 3])
    dist.all_to_all_single(out, x, [3, 2] if rank else [1, 0], [0, 2] if rank else [1, 3])
    assert out.tolist() == ([1, 2, 3, 4, 5] if rank else [0])
    dist.all_to_all_single(out[:0], x[:0])


def subgroups():
    """N1: groups of some ranks, side by side and one within another, have communicators of their own."""
    rank, n = dist.get_rank(), dist.get_world_size()
    halves = [dist.new_group([0, 2]), dist.new_group([3, 1])]
    x = on_gpu([10.0**rank])
    dist.all_reduce(x, group=halves[rank % 2])
    assert x.item() == (1010 if rank % 2 else 101)
    x = on_gpu([rank])
    dist.broadcast(x, 2 + rank % 2, group=halves[rank % 2])
    assert x.item() == 2 + rank % 2
    dist.all_reduce(x)  # of all ranks, in between
    assert x.item() == 10
    mine, groups = dist.new_subgroups(2)
    x = on_gpu([rank])
    dist.all_reduce(x, group=mine)
    assert (x.item(), len(groups)) == ([1, 1, 5, 5][rank], 2)
    alone = [dist.new_group([k]) for k in range(n)]
    dist.all_reduce(x, group=alone[rank])
    assert x.item() == [1, 1, 5, 5][rank]
    assert len(fake.communicators) == 4
    dist.destroy_process_group(mine)
    assert len(fake.communicators) == 3
    raises(ValueError, "group", dist.all_reduce, x, dist.ReduceOp.SUM, mine)


def objects():
    """N1: objects go over MPI; a tensor of a GPU among them arrives on the CPU, as pickled ones do."""
    rank = dist.get_rank()
    found = [None, None]
    dist.gather_object({"rank": rank}, None if rank else found)
    assert found == ([None, None] if rank else [{"rank": 0}, {"rank": 1}])
    dist.scatter_object_list(found, None if rank else ["a", on_gpu([1.0, 2.0])])
    assert found[0].tolist() == [1, 2] if rank else found[0] == "a"
    dist.broadcast_object_list(found, 1)
    assert (found[0].tolist(), found[0].device.type) == ([1, 2], "cpu")


def kept():
    """What a call sends stays until then, whoever drops it: rank 1 comes when its memory would have been reused."""
    from mpi4py import MPI

    rank = dist.get_rank()
    out = [fg.zeros(1000).cuda() for _ in range(2)]
    dist.all_reduce(out[0])
    if rank:
        MPI.COMM_WORLD.recv()
    works = [
        dist.reduce_scatter(out[0], [fg.full((1000,), 1.0 + k).cuda() for k in range(2)], async_op=True),
        dist.gather(fg.full((1000,), 3.0 + rank).cuda(), None if rank == 0 else out, dst=1, async_op=True),
    ]
    others = [fg.full((n,), 9.0).cuda() for n in (1000, 2000) for _ in range(4)]
    if not rank:
        MPI.COMM_WORLD.send(None, 1)
    for work in works:
        work.wait()
    assert [t[0].item() for t in out] == ([3, 4] if rank else [2, 0])
    assert len(others) == 8


def streams():
    """A call stands in the stream that was the current one, and whose waits for it lets the current one wait."""
    rank = dist.get_rank()
    x = on_gpu([1.0, rank])
    side = fg.cuda.Stream()
    side.wait_stream(fg.cuda.current_stream())
    with fg.cuda.stream(side):
        work = dist.all_reduce(x, async_op=True)
    before = driver.calls["cuStreamSynchronize"], driver.calls["cuCtxSynchronize"]
    assert work.wait()
    assert (
        driver.calls["cuStreamSynchronize"],
        driver.calls["cuCtxSynchronize"],
    ) == before  # the host does not wait
    assert (x * 2).tolist() == [4.0, 2.0]
    done = []
    future = dist.all_reduce(x, async_op=True).get_future().then(lambda f: done.append(f.value()[0] + 1))
    future.wait()
    assert done[0].tolist() == [5.0, 3.0]


def messages():
    rank = dist.get_rank()
    for call in (dist.send, dist.recv):
        try:
            call(fg.ones(1).cuda(), 1 - rank)
        except dist.DistError as error:
            assert "device_id" in str(error)
        else:
            raise AssertionError
    dist.all_reduce(fg.ones(1).cuda())
    x, y = on_gpu([rank, 1, 2]), fg.zeros(3).cuda()
    works = dist.batch_isend_irecv([dist.P2POp(dist.isend, x, 1 - rank), dist.P2POp(dist.irecv, y, 1 - rank)])
    for work in works:
        work.wait()
    assert y.tolist() == [1 - rank, 1, 2]
    if rank:
        dist.send(x, 0)
        assert dist.isend(x, 0).wait()
    else:
        assert dist.recv(y, 1) == 1
        assert y.tolist() == [1, 1, 2]
        work = dist.irecv(y, 1)
        work.wait()
        assert work.source_rank() == 1


def train(device):
    """What hooks saw and parameters became."""
    fg.manual_seed(dist.get_rank())  # rank 0's parameters are those of all
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 2)).to(device)
    ids = [0] if device == "cuda" else None
    wrapped = DistributedDataParallel(model, device_ids=ids, bucket_cap_mb=1e-4)
    log = []

    def hook(_, bucket):
        log.append(bucket.index())
        return dist.all_reduce(bucket.buffer(), async_op=True).get_future().then(lambda f: f.value()[0])

    for name, p in model.named_parameters():
        p.register_post_accumulate_grad_hook(lambda p, name=name: log.append(name))
    wrapped.register_comm_hook(None, hook)
    optimizer = fg.optim.SGD(wrapped.parameters(), lr=0.125)
    rng = np.random.default_rng(dist.get_rank())
    for _ in range(4):
        x = fg.from_numpy(rng.integers(-4, 5, (4, 4)).astype(np.float32)).to(device)
        optimizer.zero_grad()
        wrapped(x).square().sum().backward()
        optimizer.step()
    return log, [p.detach().cpu() for p in model.parameters()]


def ddp():
    """Training on GPUs is that on the CPU, up to rounding; ranks have the same parameters, hooks the same order."""
    cpu_log, cpu = train("cpu")
    gpu_log, gpu = train("cuda")
    assert cpu_log == gpu_log
    assert len({k for k in gpu_log if isinstance(k, int)}) > 1
    for a, b in zip(cpu, gpu, strict=True):
        fg.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
        others = [None, None]
        dist.all_gather_object(others, b.tolist())
        assert others[0] == others[1]


def raises(kind, words, call, *args):
    try:
        call(*args)
    except kind as error:
        assert words in str(error), error
    else:
        raise AssertionError(f"no {kind.__name__}: {words}")


def gather_to_self(x, target):
    dist.gather(x, [target, target], dst=dist.get_rank())


def uneven():
    """What rank 0 sends, rank 1 does not expect."""
    sizes = [1, 1] if dist.get_rank() else [2, 2]
    return fg.ones(sum(sizes)).cuda(), fg.ones(4).cuda(), sizes, [2, 2]


def refused():
    x = fg.ones(4).cuda()
    raises(ValueError, "contiguous", dist.all_reduce, fg.ones(2, 2).cuda().t())
    raises(NotImplementedError, "int16", dist.all_reduce, fg.empty(2, dtype=fg.int16, device="cuda"))
    raises(NotImplementedError, "BAND", dist.all_reduce, on_gpu([1], fg.int32), dist.ReduceOp.BAND)
    raises(RuntimeError, "BXOR", dist.all_reduce, x, dist.ReduceOp.BXOR)
    raises(ValueError, "8 of", dist.all_gather_into_tensor, fg.ones(7).cuda(), x)
    raises(TypeError, "tensor_list", dist.all_gather, x, x)
    raises(ValueError, "one GPU", dist.all_gather, [fg.ones(4), fg.ones(4)], x)
    raises(ValueError, "'gather_list[0]' has 3 elements", gather_to_self, x, fg.ones(3).cuda())
    raises(ValueError, "one GPU", gather_to_self, x, fg.ones(4))
    raises(NotImplementedError, ".cpu()", gather_to_self, fg.ones(4), x)
    raises(ValueError, "must NOT be specified", dist.scatter, x, [x, x], 1 - dist.get_rank())
    raises(ValueError, "one GPU", dist.all_to_all_single, x, fg.ones(4))
    raises(NotImplementedError, ".cpu()", dist.all_to_all, [x, x], [fg.ones(4), fg.ones(4)])
    raises(ValueError, "is of fastgrad.int64", dist.all_to_all, [x, x], [x, x.to(fg.int64)])
    raises(ValueError, "does not divide", dist.all_to_all_single, x, fg.ones(3).cuda())
    raises(
        ValueError, "rank 0 sends 2 elements to rank 1, which expects 1", dist.all_to_all_single, *uneven()
    )
    x = fg.ones(4).cuda()  # the group goes on
    raises(NotImplementedError, "named by 'src'", dist.recv, x)
    graph = fg.cuda.CUDAGraph()
    dist.all_reduce(x)
    with fg.cuda.graph(graph):
        raises(RuntimeError, "capturing", dist.all_reduce, x)
        raises(RuntimeError, "capturing", dist.all_to_all_single, x, x)


def differs():
    """W1: one rank's tensor lies on the CPU."""
    dist.all_reduce(fg.ones(4).cuda())
    dist.all_reduce(fg.ones(4) if dist.get_rank() else fg.ones(4).cuda())


def roots():
    """W1: who gets what is gathered."""
    gather_to_self(fg.ones(4).cuda(), fg.ones(4).cuda())


def fails():
    """What NCCL says is raised, and the group cannot be used any more."""
    x = fg.ones(4).cuda()
    dist.all_reduce(x)
    fake.says["ncclAllReduce"] = 5
    raises(dist.DistBackendError, "NCCL error 5 in ncclAllReduce: the stand-in's reason", dist.all_reduce, x)
    raises(dist.DistBackendError, "cannot be used any more", dist.all_reduce, x)
    dist.destroy_process_group()
    assert (fake.calls["ncclCommAbort"], fake.calls["ncclCommDestroy"]) == (1, 0)
    print("told\n", end="", flush=True)


with attached(driver):
    dist.init_process_group("nccl", device_id=0 if case == "collectives" else None)
    assert dist.get_backend() == "nccl"
    assert fake.calls["ncclCommInitRank"] == (case == "collectives")
    globals()[case]()
    if case != "fails":
        dist.destroy_process_group()
        assert not fake.communicators
    assert threading.active_count() == 1
