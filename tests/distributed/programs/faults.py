"""Programs that go wrong on the last rank: the others print what they are told.

The second argument is an empty folder, in which ranks tell each other how far they are without the library: what is
tested does not depend on which rank is faster.
"""

import os
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path

import fastgrad as fg
import fastgrad.distributed as dist
from fastgrad import nn
from fastgrad.distributed import faults
from fastgrad.distributed.optim import ZeroRedundancyOptimizer
from fastgrad.nn.parallel import DistributedDataParallel

case, folder = sys.argv[1], Path(sys.argv[2])


def come(where):
    """Say that this rank has come to a place."""
    (folder / f"{where}.{os.environ['PMI_RANK']}").touch()


def wait(where, count):
    """Wait until so many ranks have come there."""
    while len(list(folder.glob(f"{where}.*"))) < count:
        time.sleep(0.01)


if case == "early":
    print(f"shares: {faults.segments()}\n", end="", flush=True)
if case == "early" and os.environ["RANK"] == "1":
    raise LookupError("before the group")
if case == "absent" and os.environ["RANK"] == "1":
    sys.exit()
if case != "absent":
    come("start")
    wait("start", int(os.environ["PMI_SIZE"]))
TIMED_OUT = ("absent", "late", "late_beside")  # the others do not depend on it
dist.init_process_group("mpi", timeout=timedelta(seconds=2 if case in TIMED_OUT else 30))
assert not faults.segments()  # nothing will stay when ranks are killed
rank, n = dist.get_rank(), dist.get_world_size()
last = rank == n - 1
x = fg.ones(4)


def all_are_through():
    """A call, and the last rank goes on when the others do."""
    dist.all_reduce(x)
    come("through")
    if last:
        wait("through", n)
        time.sleep(0.5)  # they are in the next call, most of the time


def killed():
    all_are_through()
    if last:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.all_reduce(x)


def killed_beside():
    all_are_through()
    if last:
        os.kill(os.getpid(), signal.SIGKILL)
    work = dist.all_reduce(x, async_op=True)
    time.sleep(1)
    work.wait()


def late_beside():
    if last:
        wait("end", n - 1)
    work = dist.all_reduce(fg.ones(1 << 20), async_op=True)
    dist.barrier(async_op=True)
    del work
    dist.destroy_process_group()


def killed_while_receiving():
    all_are_through()
    if last:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.recv(x, n - 1)


def raises():
    all_are_through()
    if last:
        raise LookupError("of this rank")
    dist.all_reduce(x)


def busy():
    faults.FAREWELL = 1.0
    dist.all_reduce(x)
    if last:
        raise LookupError("of this rank")
    time.sleep(60)


def ends():
    if not last:
        dist.all_reduce(x)


def ends_in_a_message():
    if not last:
        dist.recv(x, n - 1)


def late():
    if last:
        wait("end", n - 1)
    dist.all_reduce(x)


def sizes():
    dist.all_reduce(fg.ones(5 if last else 4))


def dtypes():
    dist.all_reduce(fg.ones(4, dtype=fg.float64 if last else fg.float32))


def operations():
    dist.all_reduce(x, dist.ReduceOp.MAX if last else dist.ReduceOp.SUM)


def order():
    if last:
        dist.broadcast(x, 0)
    dist.all_reduce(x)


def roots():
    dist.broadcast(x, n - 1 if last else 0)


def messages():
    if last:
        dist.send(fg.ones(3), 0)
    elif rank == 0:
        dist.recv(fg.ones(4), n - 1)


def splits():
    dist.all_to_all_single(
        fg.ones(n), fg.ones(n + 1 if last else n), input_split_sizes=[1] * (n - 1) + [2 if last else 1]
    )


def groups():
    dist.new_group([0] if last else [0, 1])


def hook():
    ddp = DistributedDataParallel(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)))

    def mine(state, bucket):
        if last:
            raise LookupError("in the hook")
        work = dist.all_reduce(bucket.buffer(), async_op=True)
        return work.get_future().then(lambda f: f.value()[0])

    ddp.register_comm_hook(None, mine)
    ddp(fg.ones(1, 2)).sum().backward()


def joins():
    ddp = DistributedDataParallel(nn.Linear(2, 1))
    with ddp.join():
        for step in range(3 if last else 1):
            if step == 2:
                raise LookupError("in a batch")
            ddp(fg.ones(1, 2)).sum().backward()


def divides():
    params = [fg.ones(5 if last else 4, requires_grad=True)]
    ZeroRedundancyOptimizer(params, fg.optim.SGD, lr=0.1).step()


def ahead():
    """Some ranks have begun later calls when they learn of another one's."""
    if last:
        dist.barrier()
    works = [dist.all_reduce(fg.ones(k), async_op=True) for k in (4, 5, 6)]
    for work in works:
        work.wait()


def caught():
    try:
        if last:
            raise LookupError("and caught")
        dist.all_reduce(x)
    except LookupError:
        pass
    dist.barrier()


def interrupted():
    print("ready\n", end="", flush=True)  # in one piece, as other ranks write to the same place
    dist.recv(x) if not last else time.sleep(60)


def tries_again():
    for _ in range(2):
        try:
            dist.all_reduce(fg.ones(5 if last else 4))
        except dist.DistBackendError as error:
            print(f"rank {rank}: {error}\n", end="", flush=True)
    dist.destroy_process_group()
    print(f"rank {rank} went on\n", end="", flush=True)


class SilentError(Exception):
    def __str__(self):
        raise ValueError("no words")


def says_nothing():
    dist.all_reduce(x)
    if last:
        raise SilentError
    dist.all_reduce(x)


def finalized():
    from mpi4py import MPI

    MPI.Finalize()
    dist.all_reduce(x)


try:
    globals()[case]()
finally:
    come("end")
