"""Every collective, on any number of ranks: each result follows from the ranks."""

import threading
import warnings

import numpy as np

import fastgrad as fg
import fastgrad.distributed as dist

dist.init_process_group("mpi")
rank, n = dist.get_rank(), dist.get_world_size()
total = n * (n + 1) / 2
mine = rank + 1.0


def full(value, dtype=fg.float32, size=3):
    return fg.full((size,), value, dtype=dtype)


for dtype in (fg.float32, fg.float64, fg.float16, fg.bfloat16, fg.int8, fg.int64, fg.uint8, fg.complex64):
    x = full(rank + 1, dtype)
    pointer, version = x.data_ptr(), x._version
    assert dist.all_reduce(x) is None
    assert x.dtype == dtype and x.data_ptr() == pointer and x._version > version
    assert x.tolist() == [total] * 3, x

R = dist.ReduceOp
for dtype in (fg.float32, fg.float16, fg.bfloat16, fg.int32):
    for op, expected in ((R.MIN, 1), (R.MAX, n), (R.PRODUCT, float(np.prod(range(1, n + 1))))):
        x = full(rank + 1, dtype)
        dist.all_reduce(x, op)
        assert x.tolist() == [expected] * 3, (dtype, op, x)
for dtype in (fg.int8, fg.int16, fg.int32, fg.int64):  # all but the first rank's are negative
    for op, expected in ((R.MIN, 1 - n if n > 1 else 1), (R.MAX, 1)):
        x = full(-rank or 1, dtype)
        dist.all_reduce(x, op)
        assert x.tolist() == [expected] * 3, (dtype, op, x)
for dtype in (fg.float64, fg.float16, fg.bfloat16):
    x = full(mine, dtype)
    dist.all_reduce(x, R.AVG)
    assert x.tolist() == [total / n] * 3
for op, expected in ((R.BAND, False), (R.BOR, True), (R.MAX, True), (R.MIN, False)):
    x = fg.tensor([rank == 0])
    dist.all_reduce(x, op)
    assert x.tolist() == [expected if n > 1 else True]

x, y = full(mine), fg.tensor([[mine, 1.0], [2.0, mine]]).t()
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    assert dist.all_reduce_coalesced([x, y[0]]) is None
    assert (x.tolist(), y.tolist()) == ([total] * 3, [[total, 2 * n], [1.0, mine]])
    found = dist.all_reduce_coalesced(x, R.MAX, async_op=True)
    assert found.wait()[0] is x and x.tolist() == [total] * 3
    parts = [[fg.zeros(2), full(0.0)] for _ in range(n)]
    assert dist.all_gather_coalesced(parts, [y[:, 1], full(mine)]) is None
    assert [[t.tolist() for t in one] for one in parts] == [
        [[2.0 * n, k + 1.0], [k + 1.0] * 3] for k in range(n)
    ]
assert {w.category for w in told} == {FutureWarning} and len(told) == 3
assert all(w.filename == __file__ for w in told)

x = full(mine)
dist.reduce(x, n - 1)
assert x.tolist() == [total if rank == n - 1 else mine] * 3
for root in range(n):
    x = full(mine)
    dist.broadcast(x, root)
    assert x.tolist() == [root + 1.0] * 3

parts = [full(0.0) for _ in range(n)]
dist.all_gather(parts, full(mine))
assert [p.tolist() for p in parts] == [[k + 1.0] * 3 for k in range(n)]
x = fg.zeros(n, 3, dtype=fg.bfloat16)
dist.all_gather_into_tensor(x, full(mine, fg.bfloat16))
assert x[:, 0].tolist() == [k + 1.0 for k in range(n)]
parts = [full(0.0) for _ in range(n)] if rank == 0 else None
dist.gather(full(mine), parts)
assert rank or [p.tolist() for p in parts] == [[k + 1.0] * 3 for k in range(n)]
x = full(0.0)
dist.scatter(x, [full(10.0 * k) for k in range(n)] if rank == n - 1 else None, src=n - 1)
assert x.tolist() == [10.0 * rank] * 3

x = full(0.0)
dist.reduce_scatter(x, [full(mine * k) for k in range(n)])
assert x.tolist() == [total * rank] * 3
dist.reduce_scatter_tensor(x, fg.arange(3.0 * n))
assert x.tolist() == [n * (3.0 * rank + k) for k in range(3)]
dist.reduce_scatter_tensor(x, fg.arange(3.0 * n), R.AVG)
assert x.tolist() == [3.0 * rank + k for k in range(3)]

given = [full(10.0 * rank + k, size=k + 1) for k in range(n)]
got = [full(0.0, size=rank + 1) for _ in range(n)]
dist.all_to_all(got, given)
assert [g.tolist() for g in got] == [[10.0 * k + rank] * (rank + 1) for k in range(n)]
x = fg.zeros(n, 2)
dist.all_to_all_single(x, fg.arange(n * 2.0).view(n, 2) + 100 * rank)
assert x[:, 0].tolist() == [100.0 * k + 2 * rank for k in range(n)]
both = full(mine, size=n)  # memory that is sent and written to
dist.all_gather_into_tensor(both, both[rank : rank + 1])
assert both.tolist() == [k + 1.0 for k in range(n)]
dist.reduce_scatter_tensor(both[:1], both)
assert both[0].item() == n * mine
both = fg.arange(float(n)) + 100 * rank
dist.all_to_all_single(both, both)
assert both.tolist() == [100.0 * k + rank for k in range(n)]
x = fg.zeros(n * (rank + 1))
dist.all_to_all_single(x, fg.arange(float(n * (n + 1) // 2)), [rank + 1] * n, list(range(1, n + 1)))
first = rank * (rank + 1) // 2
assert x.tolist() == [float(first + k) for _ in range(n) for k in range(rank + 1)]

# messages
if n > 1:
    if rank == 0:
        dist.send(full(7.0), 1)
        dist.send_object_list([{"a": 1}, "text"], 1)
    elif rank == 1:
        x = full(0.0)
        assert dist.recv(x) == 0 and x.tolist() == [7.0] * 3
        found = [None, None]
        assert dist.recv_object_list(found, 0) == 0 and found == [{"a": 1}, "text"]
    other = (rank + 1) % n, (rank - 1) % n
    x = full(0.0)
    works = dist.batch_isend_irecv(
        [dist.P2POp(dist.irecv, x, other[1], tag=5), dist.P2POp(dist.isend, full(mine), other[0], tag=5)]
    )
    assert all(w.wait() for w in works) and x.tolist() == [other[1] + 1.0] * 3
    assert works[0].source_rank() == other[1]


class Longer(fg.Tensor):
    """Says other things of itself than are true."""

    def numel(self):
        return 1000

    def detach(self):
        return fg.ones(1000)

    def is_contiguous(self):
        return True

    @property
    def dtype(self):
        return fg.float64


x = full(mine)
dist.all_reduce(x.as_subclass(Longer) if rank == 0 else x)
assert x.tolist() == [total] * 3
x = fg.zeros(n, 3)
dist.all_gather_into_tensor(x.as_subclass(Longer), full(mine).as_subclass(Longer))
assert x[:, 0].tolist() == [k + 1.0 for k in range(n)]

# later
first, second = full(mine), full(mine * 10)
works = [dist.all_reduce(first, async_op=True), dist.all_reduce(second, async_op=True)]
doubled = works[1].get_future().then(lambda f: f.value()[0] * 2)
assert doubled.wait().tolist() == [total * 20] * 3
assert works[0].is_completed() or works[0].wait()
assert works[0].is_success() and works[0].result()[0] is first and first.tolist() == [total] * 3
assert dist.barrier() is None

# from several threads
x, failed = fg.ones(100_000), []


def look(work):
    try:
        while not work.is_completed():
            pass
        work.wait()
    except Exception as error:
        failed.append(error)


for _ in range(20):
    works = [dist.all_reduce(x, R.MAX, async_op=True) for _ in range(3)]
    threads = [threading.Thread(target=look, args=(w,)) for w in works * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
assert not failed, failed

# objects
found = [None] * n
dist.all_gather_object(found, {"rank": rank, "text": "x" * rank})
assert found == [{"rank": k, "text": "x" * k} for k in range(n)]
found = [None] * n if rank == 0 else None
dist.gather_object("y" * rank, found)
assert rank or found == ["y" * k for k in range(n)]
found = [rank, {"at": rank}]
dist.broadcast_object_list(found, n - 1)
assert found == [n - 1, {"at": n - 1}]
found = [None]
dist.scatter_object_list(found, [("to", k, "z" * k) for k in range(n)] if rank == 0 else None)
assert found == [("to", rank, "z" * rank)]


def refuse():
    raise LookupError("here I am not")


class Refused:
    def __reduce__(self):
        return refuse, ()


for call, found in (  # all take part to the end, and no list is half changed
    (lambda found: dist.all_gather_object(found, Refused() if rank == n - 1 else 1), [None] * n),
    (lambda found: dist.broadcast_object_list(found, n - 1), [1, Refused(), 3]),
):
    before = list(found)
    try:
        call(found)
    except LookupError:
        assert found == before
    else:
        assert rank == n - 1 and found == before

# groups
last = dist.new_group([n - 1])
everyone = dist.new_group()
assert dist.get_world_size(everyone) == n and dist.get_rank(everyone) == rank
if rank == n - 1:
    assert (dist.get_rank(last), dist.get_world_size(last)) == (0, 1)
    assert dist.get_global_rank(last, 0) == n - 1 and dist.get_group_rank(last, n - 1) == 0
    assert dist.get_process_group_ranks(last) == [n - 1]
else:
    assert last is dist.GroupMember.NON_GROUP_MEMBER and dist.get_rank(last) == -1
x = full(mine)
dist.all_reduce(x, group=last)
assert x.tolist() == [mine] * 3
dist.all_reduce(x, group=everyone)
assert x.tolist() == [total] * 3
dist.destroy_process_group(everyone)

# once more
dist.destroy_process_group()
assert not dist.is_initialized()
dist.init_process_group()
dist.monitored_barrier()
x = full(mine)
dist.all_reduce(x)
assert x.tolist() == [total] * 3 and dist.group.WORLD.size() == n
print(f"rank {rank} is done")
