"""What goes on between ranks while nobody waits for it: each case is a program of two ranks, which prints a line."""

import json
import os
import sys
import threading
import time
from pathlib import Path

import fastgrad as fg
import fastgrad.distributed as dist
from fastgrad import flags, nn
from fastgrad.distributed.progress import queue
from fastgrad.native.contracts.messages import OVER
from fastgrad.native.messages.progress import LONGEST
from fastgrad.nn.parallel import DistributedDataParallel
from tests.threads import n_tasks

case = sys.argv[1]
LIMIT = 20.0 if flags.PROGRESS_THREAD else 1.0  # seconds


def comes_by_itself(works):
    """Wait without a call that makes progress; whether all is over in time."""
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        if all(work._flight is None or work._flight.state == OVER for work in works):
            return True
        time.sleep(0.001)
    return False


def train():
    """The order of all hooks; in the third pass the last of them waits until the buckets before are reduced."""
    fg.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(8, 8, bias=False) for _ in range(4)))
    names = {id(p): n for n, p in model.named_parameters()}
    wrapped = DistributedDataParallel(model, bucket_cap_mb=4 * 64 / 2**20)
    log, numbers = [], []

    def comm(_, bucket):
        log.append(f"bucket {bucket.index()}: {' '.join(names[id(p)] for p in bucket.parameters())}")
        return dist.all_reduce(bucket.buffer(), async_op=True).get_future().then(reduced(bucket.index()))

    def reduced(k):
        def then(done):
            log.append(f"reduced {k}")
            return done.value()[0]

        return then

    def last(grad):
        if queue().threaded and len(numbers) == 2:
            flying = dist.group.WORLD.flying
            assert len(flying) == 3, flying
            assert comes_by_itself(list(flying))
        log.append("last")

    wrapped.register_comm_hook(None, comm)
    for name, p in model.named_parameters():
        p.register_hook(lambda g, name=name: log.append(f"tensor {name}"))
        p.register_post_accumulate_grad_hook(lambda p: log.append(f"accumulated {names[id(p)]}"))
    model[0].weight.register_hook(last)
    for k in range(3):
        fg.manual_seed(k + dist.get_rank())
        wrapped(fg.randn(4, 8)).square().sum().backward()
        numbers.append([p.grad.sum().item() for p in model.parameters()])
        model.zero_grad()
    print(json.dumps([log, numbers])) if dist.get_rank() == 0 else None


def beside():
    """A call goes on by itself; while it cannot, looking at it costs little, and without calls nobody looks."""
    x = fg.ones(1 << 18)
    assert comes_by_itself([dist.all_reduce(x, async_op=True)])
    dist.barrier()
    looked_at = Path(sys.argv[2])  # how the first rank says so without the library
    if dist.get_rank():
        while not looked_at.exists():
            time.sleep(0.01)
        dist.all_reduce(x)
    else:
        begun, start = queue().rounds(), time.monotonic()
        work = dist.all_reduce(x, async_op=True)
        time.sleep(0.8)
        looked, passed = queue().rounds() - begun, time.monotonic() - start
        assert 10 < looked < 4 * passed * 1e6 / LONGEST + 100, (looked, passed)
        looked_at.touch()
        assert comes_by_itself([work])
        before = queue().rounds()
        time.sleep(0.2)
        assert queue().rounds() - before <= 2
        work.wait()
    message = fg.full((4,), float(dist.get_rank()))
    if dist.get_rank():
        assert comes_by_itself([dist.isend(message, 0)])
    else:
        work = dist.irecv(message)
        assert comes_by_itself([work])
        assert work.wait()
        assert (work.source_rank(), message.tolist()) == (1, [1.0] * 4)


def ends():
    """The thread ends with the process group, and another group gets another one."""
    before = n_tasks()
    for _ in range(2):
        assert comes_by_itself([dist.all_reduce(fg.ones(4), async_op=True)])
        assert n_tasks() == before + 1
        dist.destroy_process_group()
        assert n_tasks() == before
        dist.init_process_group()


def single():
    """Without MPI_THREAD_MULTIPLE there is no thread, and calls are as right as with it."""
    before = n_tasks()
    x = fg.ones(4)
    work = dist.all_reduce(x, async_op=True)
    assert not queue().threaded
    work.wait()
    assert (x.tolist(), n_tasks()) == ([2.0] * 4, before)


def many():
    """Calls of several threads and groups, many under way at once, of all kinds; all are right."""
    rank = dist.get_rank()
    other = dist.new_group([0, 1])
    found = []

    def calls(group):
        for k in range(100):
            xs = [fg.full((k + 1,), float(rank + i)) for i in range(4)]
            works = [
                dist.all_reduce(xs[0], async_op=True, group=group),
                dist.broadcast(xs[1], 1, async_op=True, group=group),
                dist.all_reduce(xs[2], dist.ReduceOp.AVG, async_op=True, group=group),
                dist.all_reduce(xs[3].half(), async_op=True, group=group),
            ]
            for work in reversed(works):
                work.wait()
            found.append([t[-1].item() for t in (*xs[:3], works[3].result()[0])])

    threads = [threading.Thread(target=calls, args=(g,)) for g in (None, other)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == [[1.0, 2.0, 2.5, 7.0]] * 200, found


def forked():
    """A child that is forked while a call is under way has no thread, and ends by itself."""
    x = fg.ones(4)
    work = None if dist.get_rank() else dist.all_reduce(x, async_op=True)
    child = os.fork()
    if not child:
        assert n_tasks() == 1
        sys.exit(3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    if work is None:
        dist.all_reduce(x)
    else:
        work.wait()
    assert x.tolist() == [2.0] * 4


dist.init_process_group()
{"train": train, "beside": beside, "ends": ends, "single": single, "many": many, "forked": forked}[case]()
dist.destroy_process_group()
