"""What DistributedDataParallel does that PyTorch's does not, or that it cannot show without GPUs."""

import numpy as np

import fastgrad as fg
import fastgrad.distributed as dist
from fastgrad import nn
from fastgrad.distributed.algorithms import ddp_comm_hooks as hooks
from fastgrad.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from fastgrad.nn.parallel import DistributedDataParallel

dist.init_process_group("mpi")
rank, n = dist.get_rank(), dist.get_world_size()


def model():
    fg.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4))


def batch(step):
    return fg.from_numpy(np.random.RandomState(step).uniform(-1, 1, (4 * n, 6)).astype(np.float32))


def train(model, mine, steps=4):
    optimizer = fg.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(steps):
        optimizer.zero_grad()
        x = batch(step)
        model(x[4 * rank : 4 * rank + 4] if mine else x).pow(2).mean().backward()
        optimizer.step()
    return fg.cat([p.detach().reshape(-1) for p in model.parameters()])


# n ranks are one with the joined batch
alone = train(model(), False)
for options in (
    {},
    {"bucket_cap_mb": 1e-5},
    {"gradient_as_bucket_view": True},
    {"bucket_cap_mb_list": [1e-5, 1]},
):
    assert fg.allclose(train(DistributedDataParallel(model(), **options), True), alone, atol=1e-6)

# all ranks have the same numbers, bit by bit
mine = train(DistributedDataParallel(model()), True)
first = mine.clone()
dist.broadcast(first, 0)
assert fg.equal(first, mine)

# hooks by name; bfloat16 on the CPU; the batched PowerSGD
for kind in hooks.DDPCommHookType:
    ddp = DistributedDataParallel(model())
    hooks.register_ddp_comm_hook(kind, ddp)
    found = train(ddp, True)
    exact = kind.name in (
        "ALLREDUCE",
        "POWER_SGD",
        "POWER_SGD_RANK2",
        "BATCHED_POWER_SGD",
        "BATCHED_POWER_SGD_RANK2",
    )
    if kind.name != "NOOP":
        assert fg.allclose(found, alone, atol=1e-6 if exact else 1e-2), kind
for wrapper in (default_hooks.bf16_compress_wrapper, default_hooks.fp16_compress_wrapper):
    ddp = DistributedDataParallel(model())
    ddp.register_comm_hook(None, wrapper(default_hooks.allreduce_hook))
    assert fg.allclose(train(ddp, True), alone, atol=1e-2)
for hook in (powerSGD_hook.powerSGD_hook, powerSGD_hook.batched_powerSGD_hook):
    for options in (
        {},
        {"use_error_feedback": False},
        {"warm_start": False},
        {"orthogonalization_epsilon": 1e-8},
    ):
        # of full rank nothing is lost
        state = powerSGD_hook.PowerSGDState(
            None, 12, start_powerSGD_iter=2, min_compression_rate=0, **options
        )
        ddp = DistributedDataParallel(model())
        ddp.register_comm_hook(state, hook)
        assert fg.allclose(train(ddp, True, 5), train(model(), False, 5), atol=1e-5), (hook, options)
    # of rank 1 something is; error feedback brings it back
    ddp = DistributedDataParallel(model(), bucket_cap_mb=1e-5)
    state = powerSGD_hook.PowerSGDState(None, 1, start_powerSGD_iter=2, min_compression_rate=1)
    ddp.register_comm_hook(state, hook)
    out = train(ddp, True, 6)
    assert not fg.allclose(out, train(model(), False, 6), atol=1e-6)
    rate, before, after = state.compression_stats()
    assert rate > 1 and before / after == rate
    first = out.clone()
    dist.broadcast(first, 0)
    assert fg.equal(first, out)

# whole steps that are compiled
ddp = DistributedDataParallel(nn.Linear(3, 2, bias=False))


@fg.compile
def step(x):
    ddp.zero_grad()
    ddp(x).sum().backward()
    return ddp.module.weight.grad


for k in range(5):
    expected = sum(k + 10.0 * r for r in range(n)) / n
    assert step(fg.full((1, 3), k + 10.0 * rank)).tolist() == [[expected] * 3] * 2


@fg.compile
def reduced(x):
    dist.all_reduce(x)
    return x * 2


try:
    reduced(fg.ones(1))
    raise AssertionError("it was recorded")
except NotImplementedError as error:
    assert "compiled" in str(error)

# a group of some ranks
pair = dist.new_group([0])
if rank == 0:
    ddp = DistributedDataParallel(model(), process_group=pair)
    ddp(batch(0)).sum().backward()

# what hooks may not return, on all ranks at once; the model works afterwards
for value, words in (
    (None, "bucket 0: expected the hook to return a fastgrad.futures.Future, but got None"),
    (fg.ones(3), "but got Tensor"),
    ([1, 2], "holds list"),
    (fg.ones(1), "12 elements"),
    (fg.ones(12, dtype=fg.float64), "float64"),
):
    ddp = DistributedDataParallel(nn.Linear(5, 2))

    def wrong(state, bucket, value=value):
        if (isinstance(value, fg.Tensor) and value.numel() == 3) or value is None:
            return value
        out = fg.futures.Future()
        out.set_result(value)
        return out

    ddp.register_comm_hook(None, wrong)
    try:
        ddp(fg.ones(1, 5)).sum().backward()
        raise AssertionError("it was accepted")
    except RuntimeError as error:
        assert words in str(error) and "communication hook wrong, bucket 0" in str(error), error
    ddp.reducer.hook = None
    try:
        ddp(fg.ones(1, 5))
    except RuntimeError as error:
        assert "Expected to have finished reduction" in str(error)
    ddp.zero_grad()
    ddp(fg.ones(1, 5)).sum().backward()
    assert ddp.module.bias.grad.tolist() == [1.0, 1.0]

# parameters of other sizes on other ranks
if n > 1:
    try:
        DistributedDataParallel(nn.Linear(3, 2 + rank))
        raise AssertionError("it was accepted")
    except RuntimeError as error:
        assert "parameter weight has sizes (3, 3)" in str(error) and "on rank 1, but (2, 3)" in str(error)


# SyncBatchNorm: ranks normalise as one with the joined batch, forward, backward and twice; also where a rank has none
def normalised(layer, x, twice):
    x = x.clone().requires_grad_()
    out = layer(x)
    loss = (out * out.sin()).sum() if out.numel() else out.sum()
    (gradient,) = fg.autograd.grad(loss, x, create_graph=twice)
    if twice:
        (gradient,) = fg.autograd.grad((gradient * gradient).sum() if gradient.numel() else gradient.sum(), x)
    return out.detach(), gradient


def shares(joined, sizes):
    return list(fg.split(joined, sizes))[rank]


for momentum, sizes in ((0.1, [3] * n), (None, [5, 1] + [2] * (n - 2)), (0.3, [6, 0] + [1] * (n - 2))):
    if n == 1:
        break
    joined = fg.from_numpy(np.random.RandomState(3).uniform(-1, 2, (sum(sizes), 3, 5)))
    for twice in (False, True):
        whole = nn.BatchNorm1d(3, momentum=momentum, dtype=fg.float64)
        mine = nn.SyncBatchNorm.convert_sync_batchnorm(
            nn.Sequential(nn.BatchNorm1d(3, momentum=momentum))
        ).double()
        for layer in (whole, mine[0]):
            layer.weight.data.copy_(fg.tensor([1.0, 2.0, -1.0]))
        for found, expected in zip(
            normalised(mine, shares(joined, sizes), twice), normalised(whole, joined, twice), strict=True
        ):
            assert fg.allclose(found, shares(expected, sizes), atol=1e-9), (momentum, twice)
        for name, buffer in whole.named_buffers():
            assert fg.allclose(mine[0].get_buffer(name).double(), buffer.double(), atol=1e-9), name
        mine.eval()
        assert fg.allclose(mine(joined), whole.eval()(joined))
if n > 1:
    try:
        nn.SyncBatchNorm(2)(fg.ones(1 if rank == 0 else 0, 2))
        raise AssertionError("it was accepted")
    except ValueError as error:
        assert "more than 1 value per channel" in str(error)
    assert nn.SyncBatchNorm(0)(fg.ones(2, 0)).shape == (2, 0)
    layers = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4))
    ddp = DistributedDataParallel(nn.SyncBatchNorm.convert_sync_batchnorm(layers))
    ddp(batch(rank)).square().sum().backward()
print(f"rank {rank} is done\n", end="")
dist.destroy_process_group()
