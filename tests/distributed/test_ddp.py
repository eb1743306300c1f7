"""DistributedDataParallel: beside PyTorch's over gloo, and what it refuses."""

from __future__ import annotations

import functools
import itertools
import json
import math
from pathlib import Path
from typing import Any

import pytest
from ranks import succeed

import fastgrad as fg
import fastgrad.distributed as dist
from fastgrad import nn
from fastgrad.distributed.algorithms import Join
from fastgrad.distributed.algorithms.ddp_comm_hooks import (
    default_hooks,
    post_localSGD_hook,
    powerSGD_hook,
    quantization_hooks,
    register_ddp_comm_hook,
)
from fastgrad.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from fastgrad.distributed.buckets import assign_buckets
from fastgrad.distributed.optim import PostLocalSGDOptimizer, as_functional_optim
from fastgrad.nn.parallel import DistributedDataParallel

pytest.importorskip("mpi4py")


# --- on several ranks ----------------------------------------------------------------------------------------------


@pytest.mark.mpi
@pytest.mark.parametrize("n", [2, 4])
def test_ranks_are_one_with_the_joined_batch(n: int):
    assert succeed(n, "ddp_only_here.py").count("is done") == n


def differences(
    ours: Any, theirs: Any, where: str = "", relative: float = 1e-4, absolute: float = 1e-5
) -> list[str]:
    """Where results of the libraries differ."""
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        pairs = zip(ours, theirs, strict=True)
        return [
            text
            for k, (a, b) in enumerate(pairs)
            for text in differences(a, b, f"{where}[{k}]", relative, absolute)
        ]
    numbers = isinstance(ours, float) and isinstance(theirs, float)
    same = math.isclose(ours, theirs, rel_tol=relative, abs_tol=absolute) if numbers else ours == theirs
    return [] if same else [f"{where}: {ours!r}, torch has {theirs!r}"]


@pytest.mark.mpi
@pytest.mark.parity
def test_as_pytorch(tmp_path: Path):
    pytest.importorskip("torch")
    ours = json.loads(succeed(2, "ddp.py", "fastgrad"))
    theirs = json.loads(succeed(2, "ddp.py", "torch", str(tmp_path / "store")))
    assert len(ours) == len(theirs) == 2
    for rank in range(2):
        assert ours[rank].keys() == theirs[rank].keys()
        for case in ours[rank]:
            assert not differences(ours[rank][case], theirs[rank][case], f"rank {rank}, {case}")


SEEDS = 60


@pytest.mark.mpi
@pytest.mark.parity
def test_random_programs(tmp_path: Path):
    """Models, options and hooks at random; float16 and normalised batches of 3 are not exact."""
    pytest.importorskip("torch")
    ours = json.loads(succeed(2, "random_ddp.py", "fastgrad", "0", str(SEEDS)))
    theirs = json.loads(succeed(2, "random_ddp.py", "torch", str(tmp_path / "store"), "0", str(SEEDS)))
    seeds = [k for k in range(SEEDS) if not isinstance(theirs[0][k], str)]  # some that PyTorch cannot do
    assert len(seeds) >= SEEDS - 2
    for rank, seed in itertools.product(range(2), seeds):
        where = f"rank {rank}, seed {seed}"
        assert not differences(ours[rank][seed], theirs[rank][seed], where, 5e-3, 2e-3)


# --- on one --------------------------------------------------------------------------------------------------------


def comm_hook(state, bucket):
    out = fg.futures.Future()
    out.set_result(bucket.buffer())
    return out


def test_hooks_that_cannot_be_ones(alone):
    def nameless(state, b):
        pass

    def annotated(state, bucket: int):
        pass

    def returning(state, bucket) -> int:
        pass

    ddp = DistributedDataParallel(nn.Linear(1, 1))
    for hook, error, words in (
        (5, TypeError, "must be callable"),
        (None, TypeError, "must be callable"),
        (nameless, KeyError, "bucket"),
        (annotated, ValueError, "bucket annotation should be dist.GradBucket"),
        (returning, ValueError, "return annotation"),
    ):
        with pytest.raises(error, match=words):
            ddp.register_comm_hook(None, hook)
    ddp.register_comm_hook(None, functools.partial(comm_hook))
    for register in (
        lambda: ddp.register_comm_hook(None, comm_hook),
        lambda: ddp._register_builtin_comm_hook(dist.BuiltinCommHookType.ALLREDUCE),
    ):
        with pytest.raises(RuntimeError, match="can only be called once"):
            register()
    with pytest.raises(TypeError, match="must be BuiltinCommHookType, not str"):
        ddp._register_builtin_comm_hook("allreduce")
    with pytest.raises(TypeError, match="must be DDPCommHookType, not str"):
        register_ddp_comm_hook("ALLREDUCE", ddp)


def test_annotations(alone):
    def hook(state: object, bucket: dist.GradBucket) -> fg.futures.Future[fg.Tensor]:
        return comm_hook(state, bucket)

    ddp = DistributedDataParallel(nn.Linear(2, 1, bias=False))
    ddp.register_comm_hook(None, hook)
    ddp(fg.ones(1, 2)).sum().backward()
    assert ddp.module.weight.grad.tolist() == [[1.0, 1.0]]


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: DistributedDataParallel(5), TypeError, "'module' .* must be Module, not int"),
        (lambda: DistributedDataParallel(None), TypeError, "must be Module, not NoneType"),
        (lambda: DistributedDataParallel(nn.ReLU()), RuntimeError, "is not needed when a module"),
        (lambda: DistributedDataParallel(nn.Linear(1, 1), device_ids=[0]), ValueError, "for GPUs"),
        (
            lambda: DistributedDataParallel(nn.Linear(1, 1), mixed_precision=5),
            NotImplementedError,
            "'mixed_precision' is not supported",
        ),
        (lambda: DistributedDataParallel(nn.Linear(1, 1), bucket_cap_mb="5"), TypeError, "'bucket_cap_mb'"),
        (
            lambda: DistributedDataParallel(nn.Linear(1, 1), process_group=5),
            TypeError,
            "'process_group'|'group'",
        ),
        (
            lambda: DistributedDataParallel(nn.Linear(1, 1), process_group=dist.GroupMember.NON_GROUP_MEMBER),
            ValueError,
            "no member",
        ),
        (lambda: Join([5]), TypeError, "element 0 of argument 'joinables' must be Joinable, not int"),
        (lambda: Join.notify_join_context(5), AssertionError, r"int has to call Joinable.__init__\(self\)"),
        (
            lambda: nn.SyncBatchNorm.convert_sync_batchnorm(None),
            TypeError,
            "'module' .* must be Module, not NoneType",
        ),
        (
            lambda: powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=1),
            ValueError,
            "first two iterations",
        ),
        (
            lambda: powerSGD_hook.powerSGD_hook(None, None),
            TypeError,
            "'state' .* PowerSGDState, not NoneType",
        ),
        (lambda: powerSGD_hook.PowerSGDState(None, 0), ValueError, "int of 1 or more"),
        (lambda: quantization_hooks.quantization_perchannel_hook(None, None, 0), ValueError, "'bucket_size'"),
        (lambda: dist.new_subgroups("1"), TypeError, "'group_size' must be int, not str"),
        (lambda: PostLocalSGDOptimizer(5, None), TypeError, "'optim' .* must be Optimizer, not int"),
        (lambda: as_functional_optim(5), ValueError, "does not have a functional counterpart"),
    ],
)
def test_refused(alone, make, error, words):
    with pytest.raises(error, match=words):
        make()


@pytest.mark.parametrize(
    ("hook", "made"),
    [
        (default_hooks.allreduce_hook, lambda: dist.GroupMember.NON_GROUP_MEMBER),
        (
            post_localSGD_hook.post_localSGD_hook,
            lambda: post_localSGD_hook.PostLocalSGDState(None, dist.GroupMember.NON_GROUP_MEMBER, 0),
        ),
        (
            powerSGD_hook.batched_powerSGD_hook,
            lambda: powerSGD_hook.PowerSGDState(
                dist.GroupMember.NON_GROUP_MEMBER, 1, 0, use_error_feedback=False, warm_start=False
            ),
        ),
    ],
)
def test_groups_of_hooks_without_this_process(alone, hook, made):
    ddp = DistributedDataParallel(nn.Linear(4, 4, bias=False))
    ddp.register_comm_hook(made(), hook)
    with pytest.raises(ValueError, match="this process is no member of it"):
        ddp(fg.ones(1, 4)).sum().backward()
    assert (ddp.reducer.buckets[0].buffer == 1).all()


def filled(values):
    """A bucket of these numbers."""
    buffer = fg.tensor(values)
    return dist.GradBucket(0, 1, buffer, [buffer], [fg.zeros(len(values))])


@pytest.mark.parametrize("values", [[], [0.0] * 5, [3.0], [-1e-30, 0.0], [-2.0, -1.0], [1e30, -1.0, 7.0]])
def test_bytes_at_the_edges(alone, values):
    for hook in (
        quantization_hooks.quantization_pertensor_hook,
        quantization_hooks.quantization_perchannel_hook,
    ):
        found = hook(None, filled(values)).wait()
        assert found.shape == (len(values),)
        step = (max([*values, 0.0]) - min([*values, 0.0])) / 255
        assert all(abs(a - b) <= step + 1e-7 for a, b in zip(found.tolist(), values, strict=True))


@pytest.mark.parity
@pytest.mark.parametrize("length", [1, 511, 512, 1300])
def test_bytes_as_pytorch(alone, length):
    """PyTorch's hooks run only over NCCL; these are the functions of which they are made."""
    torch = pytest.importorskip("torch")
    theirs = pytest.importorskip("torch.distributed.algorithms.ddp_comm_hooks.quantization_hooks")
    values = torch.randn(length, generator=torch.Generator().manual_seed(length)) * 3 - 1
    whole, rows = values[None], torch.nn.functional.pad(values, (0, -length % 512)).view(-1, 512)
    for hook, matrix in (
        (quantization_hooks.quantization_pertensor_hook, whole),
        (quantization_hooks.quantization_perchannel_hook, rows),
    ):
        observer = torch.ao.quantization.PerChannelMinMaxObserver()
        observer(matrix)
        scale, zero = observer.calculate_qparams()
        quantized = theirs._quantize_per_channel_backend(matrix, scale, zero)
        expected = theirs._dequantize_per_channel_backend(quantized, scale, zero).view(-1)[:length]
        assert hook(None, filled(values.tolist())).wait().tolist() == expected.tolist()


def test_bytes_of_other_dtypes_and_without_a_number(alone):
    for dtype in (fg.float64, fg.float16, fg.bfloat16):
        buffer = fg.tensor([1.0, -1.0, 0.0], dtype=dtype)
        bucket = dist.GradBucket(0, 1, buffer, [buffer], [buffer])
        found = quantization_hooks.quantization_pertensor_hook(None, bucket).wait()
        assert found is buffer
        assert fg.allclose(found.float(), fg.tensor([1.0, -1.0, 0.0]), atol=1e-2)
    for bad in (math.nan, math.inf):
        found = quantization_hooks.quantization_pertensor_hook(None, filled([1.0, bad])).wait()
        assert not found.isfinite().all()


def test_averagers_that_gain_nothing_or_begin_anew(alone):
    with pytest.warns(UserWarning, match="a period of 1 averages parameters in every step"):
        averager = PeriodicModelAverager(1)
    inner = fg.optim.SGD([fg.ones(1, requires_grad=True)], lr=0.1)
    optimizer = PostLocalSGDOptimizer(inner, averager)
    optimizer.step()
    with pytest.warns(UserWarning, match="does not contain a step counter"):
        optimizer.load_state_dict(inner.state_dict())
    assert averager.step == 0
    assert repr(optimizer) == repr(inner)


def test_without_a_group():
    with pytest.raises(ValueError, match="init_process_group"):
        DistributedDataParallel(nn.Linear(1, 1))


def test_a_hook_that_raises(alone):
    ddp = DistributedDataParallel(nn.Linear(2, 1))

    def raises(state, bucket):
        raise LookupError("here")

    ddp.register_comm_hook(None, raises)
    with pytest.raises(LookupError, match="here") as caught:
        ddp(fg.ones(1, 2)).sum().backward()
    assert caught.value.__notes__ == ["in communication hook raises, bucket 0"]
    ddp.reducer.hook = None
    with pytest.raises(RuntimeError, match="Expected to have finished reduction"):
        ddp(fg.ones(1, 2))
    ddp.zero_grad()
    ddp(fg.ones(1, 2)).sum().backward()
    assert ddp.module.bias.grad.tolist() == [1.0]


def test_futures_that_fail(alone):
    for fail, error, words in (
        (lambda f: f.set_exception(ValueError("bad")), ValueError, "bad"),
        (lambda f: f.set_result(fg.ones(1)), RuntimeError, "bucket 0: the future must hold 3 elements"),
    ):

        def hook(state, bucket, fail=fail):
            out = fg.futures.Future()
            fail(out)
            return out

        ddp = DistributedDataParallel(nn.Linear(2, 1))
        ddp.register_comm_hook(None, hook)
        with pytest.raises(error, match=words):
            ddp(fg.ones(1, 2)).sum().backward()


def test_unused_parameters_are_named(alone):
    ddp = DistributedDataParallel(nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.Linear(2, 2)}))
    ddp.module.forward = lambda x: ddp.module["a"](x)
    ddp(fg.ones(1, 2)).sum().backward()
    with pytest.raises(RuntimeError, match=r"no gradient: 2 \(b.weight\), 3 \(b.bias\)"):
        ddp(fg.ones(1, 2))


def test_hooks_end_with_the_model(alone):
    module = nn.Linear(2, 1, bias=False)
    ddp = DistributedDataParallel(module)
    ddp.register_comm_hook(None, lambda state, bucket: 1 / 0)
    del ddp
    module(fg.ones(1, 2)).sum().backward()
    assert module.weight.grad.tolist() == [[1.0, 1.0]]


def test_state_dict_and_modes(alone):
    ddp = DistributedDataParallel(nn.Sequential(nn.Linear(2, 1), nn.Dropout()))
    assert list(ddp.state_dict()) == ["module.0.weight", "module.0.bias"]
    ddp.eval()
    assert not ddp.module[1].training
    with fg.no_grad():
        assert ddp(fg.ones(1, 2)).shape == (1, 1)


def test_assignment():
    inf = math.inf
    assert assign_buckets([], [], [1]) == []
    assert assign_buckets([4] * 3, "aba", [inf]) == [[0, 2], [1]]
    assert assign_buckets([4] * 5, "ababa", [4, 8]) == [[0], [1], [2, 4], [3]]


def test_grad_buckets():
    buffer = fg.arange(4.0)
    bucket = dist.GradBucket(1, 2, buffer, [buffer[:4].view(2, 2)], [fg.ones(2, 2)])
    assert bucket.is_last()
    bucket.set_buffer(buffer.half())
    assert bucket.buffer().dtype == fg.float16
    with pytest.raises(TypeError, match="must be Tensor, not int"):
        bucket.set_buffer(5)


def test_gradients_are_views(alone):
    ddp = DistributedDataParallel(nn.Linear(2, 1), gradient_as_bucket_view=True)
    for _ in range(2):
        ddp(fg.ones(1, 2)).sum().backward()
        [bucket] = ddp.reducer.buckets
        memory = {p.grad.data_ptr() for p in ddp.parameters()}
        assert memory == {view.data_ptr() for view in bucket.views}
        assert bucket.buffer.tolist() == [1.0] * 3
        ddp.zero_grad(set_to_none=False)
        assert bucket.buffer.tolist() == [0.0] * 3
