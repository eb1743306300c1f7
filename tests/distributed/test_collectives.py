"""Calls between processes, and what they refuse."""

from __future__ import annotations

from datetime import timedelta

import pytest
from ranks import succeed

import fastgrad as fg
import fastgrad.distributed as dist

pytest.importorskip("mpi4py")


@pytest.mark.mpi
@pytest.mark.parametrize("n", [1, 2, 4])
def test_collectives(n: int):
    assert succeed(n, "collectives.py").count("is done") == n


@pytest.mark.mpi
@pytest.mark.parametrize("n", [1, 2])
def test_forked_children(n: int):
    assert succeed(n, "forks.py").count("is done") == n


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: dist.all_reduce(5), TypeError, "must be Tensor, not int"),
        (lambda: dist.all_reduce(None), TypeError, "must be Tensor, not NoneType"),
        (lambda: dist.all_reduce(fg.ones(4, 4).t()[1:]), ValueError, "contiguous"),
        (lambda: dist.all_reduce(fg.ones(1), "sum"), TypeError, "'op' must be ReduceOp, not str"),
        (lambda: dist.all_reduce(fg.ones(1), dist.ReduceOp.BOR), RuntimeError, "needs integers or bools"),
        (
            lambda: dist.all_reduce(fg.ones(1, dtype=fg.int32), dist.ReduceOp.AVG),
            RuntimeError,
            "floating-point",
        ),
        (lambda: dist.all_reduce(fg.ones(1, dtype=fg.bool)), RuntimeError, "not defined for bools"),
        (lambda: dist.all_reduce(fg.ones(1, dtype=fg.cfloat), dist.ReduceOp.MAX), RuntimeError, "complex"),
        (lambda: dist.all_reduce(fg.ones(1), group=5), TypeError, "must be ProcessGroup, not int"),
        (lambda: dist.broadcast(fg.ones(1)), TypeError, "'src' must be int"),
        (lambda: dist.broadcast(fg.ones(1), 1), ValueError, "Global rank 1 is not part"),
        (lambda: dist.broadcast(fg.ones(1), 0, group_src=0), ValueError, "Can't specify both"),
        (lambda: dist.broadcast(fg.ones(1), group_src=-1), ValueError, "is no rank"),
        (lambda: dist.all_gather([], fg.ones(1)), ValueError, "one tensor for each of 1 ranks, got 0"),
        (lambda: dist.all_gather([fg.ones(2)], fg.ones(1)), ValueError, r"'tensor_list\[0\]' has 2 elements"),
        (lambda: dist.all_gather(fg.ones(1), fg.ones(1)), TypeError, "iterable of Tensors"),
        (lambda: dist.gather(fg.ones(1)), ValueError, "'gather_list' must have one tensor"),
        (lambda: dist.reduce_scatter_tensor(fg.ones(2), fg.ones(3)), ValueError, "1 times the elements"),
        (lambda: dist.all_to_all_single(fg.ones(2), fg.ones(3)), ValueError, "expects 2"),
        (lambda: dist.all_to_all_single(fg.ones(2), fg.ones(2), [1]), ValueError, "output_split_sizes"),
        (lambda: dist.send(fg.ones(1), 0), ValueError, "it is this one"),
        (lambda: dist.irecv(fg.ones(1), tag=-1), ValueError, "'tag' must be between"),
        (lambda: dist.batch_isend_irecv([]), ValueError, "at least one"),
        (lambda: dist.P2POp(print, fg.ones(1), 0), ValueError, "Invalid ``op``"),
        (lambda: dist.all_gather_object([], 1), ValueError, "must have 1 elements"),
        (lambda: dist.all_gather_object([None], lambda: 1), TypeError, "cannot be pickled"),
        (lambda: dist.broadcast_object_list(5, 0), TypeError, "must be list, not int"),
        (lambda: dist.new_group([0, 0]), ValueError, "a rank twice"),
        (lambda: dist.new_group([7]), ValueError, "rank 7 does not exist"),
        (lambda: dist.new_group([]), ValueError, "at least one rank"),
        (lambda: dist.new_group(["0"]), TypeError, "must hold ints, but found str"),
        (lambda: dist.new_group(timeout=5), TypeError, "datetime.timedelta"),
        (lambda: dist.init_process_group(), ValueError, "twice"),
        (lambda: dist.monitored_barrier(timeout=5), TypeError, "datetime.timedelta"),
        (lambda: dist.barrier(async_op=True).wait(5), TypeError, "datetime.timedelta"),
        (lambda: dist.is_backend_available(5), TypeError, "must be str, not int"),
        (lambda: dist.barrier(device_ids=[0]), NotImplementedError, "GPUs"),
    ],
)
def test_refused(alone, call, error, words):
    with pytest.raises(error, match=words):
        call()
    x = fg.ones(2)
    dist.all_reduce(x)  # the group still works
    assert x.tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"device_id": 0}, NotImplementedError, "need the backend 'nccl'"),
        ({"backend": "gloo"}, NotImplementedError, "use 'mpi'"),
        ({"backend": "pigeon"}, ValueError, "Invalid backend: 'pigeon'"),
        ({"backend": 5}, TypeError, "must be str, not int"),
        ({"init_method": "udp://here:1"}, ValueError, "env://"),
        ({"init_method": "tcp://here"}, ValueError, "must be 'tcp://host:port', got 'tcp://here'"),
        (
            {"init_method": "tcp://here:1?rank=1"},
            ValueError,
            "rank of argument 'init_method' is '1', but MPI says 0",
        ),
        ({"store": {}}, TypeError, "'store' .* must be Store, not dict"),
        ({"world_size": 3}, ValueError, "'world_size' is 3, but MPI says 1"),
        ({"rank": "x"}, ValueError, "'rank' is 'x'"),
        ({"timeout": 3}, TypeError, "timedelta"),
        ({"timeout": timedelta(0)}, ValueError, "more than zero"),
    ],
)
def test_refused_beginnings(arguments, error, words):
    with pytest.raises(error, match=words):
        dist.init_process_group(**arguments)
    assert not dist.is_initialized()


def test_g3_without_a_group():
    for call in (
        lambda: dist.all_reduce(fg.ones(1)),
        dist.get_rank,
        dist.barrier,
        dist.destroy_process_group,
    ):
        with pytest.raises(ValueError, match="init_process_group"):
            call()
    assert dist.group.WORLD is None


def test_what_was_destroyed(alone):
    group = dist.new_group([0])
    dist.destroy_process_group(group)
    with pytest.raises(ValueError, match="destroyed"):
        dist.all_reduce(fg.ones(1), group=group)


def test_no_memory_is_copied(alone):
    x = fg.ones(3, requires_grad=True)
    before = x.data_ptr()
    dist.all_reduce(x)
    assert x.data_ptr() == before
    assert x.requires_grad


def test_empty_tensors(alone):
    x = fg.empty(0)
    dist.all_reduce(x)
    dist.broadcast(x, 0)
    out = fg.empty(0, 3)
    dist.all_gather_into_tensor(out, x)
