"""The sentences of docs/distributed.md on two ranks: prints, for each number, what failed; see `both`."""

import gc
import importlib

import numpy as np
from both import (
    DDP,
    SMALL,
    Crossed,
    batch,
    dist,
    gives,
    grads,
    hooks,
    lib,
    mlp,
    n,
    nn,
    numbers,
    ours,
    raises,
    rank,
    report,
)  # fmt: skip

R = dist.ReduceOp
mean = sum(range(1, n + 1)) / n


def one_weight(**options):
    return DDP(nn.Linear(1, 1, bias=False), **options)


def backward(ddp, value=None):
    """A pass whose gradient is rank + 1 on each rank."""
    ddp(lib.full((1, 1), rank + 1.0 if value is None else value)).sum().backward()
    return ddp.module.weight.grad.item()


def g1():
    assert dist.get_world_size() == 2
    assert rank in (0, 1)


def g2():
    raises(ValueError, dist.init_process_group, "mpi" if ours else "gloo")
    if ours:
        dist.destroy_process_group()
        assert not dist.is_initialized()
        dist.init_process_group()


def g5():
    first = dist.new_group([0])
    x = lib.ones(1)
    if rank:
        assert first == dist.GroupMember.NON_GROUP_MEMBER
        assert dist.all_reduce(x, group=first) is None
        assert dist.get_rank(first) == -1
    else:
        dist.all_reduce(x, group=first)
        assert dist.get_world_size(first) == 1


def g6():
    last = dist.new_group([1])
    if rank == 1:
        dist.broadcast(lib.ones(1), 1, last)
        dist.broadcast(lib.ones(1), group=last, group_src=0)
        raises(ValueError, dist.broadcast, lib.ones(1), 0, last)


def c1():
    x = lib.full((3,), rank + 1.0)
    memory = x.data_ptr()
    assert dist.all_reduce(x) is None
    assert x.data_ptr() == memory
    assert x.tolist() == [3.0] * 3


def c2():
    x = lib.full((3,), rank + 1.0)
    work = dist.all_reduce(x, async_op=True)
    doubled = work.get_future().then(lambda f: f.value()[0] * 2)
    assert work.wait() is True
    assert doubled.wait().tolist() == [6.0] * 3


def c3():
    for op, expected in (
        (R.SUM, 3),
        (R.PRODUCT, 2),
        (R.MIN, 1),
        (R.MAX, 2),
        (R.BAND, 0),
        (R.BOR, 3),
        (R.BXOR, 3),
    ):
        x = lib.tensor([rank + 1])
        dist.all_reduce(x, op)
        assert x.item() == expected, op


def c4():
    for dtype in (lib.float32, lib.float16, lib.bfloat16):
        x = lib.full((2,), rank + 1.0, dtype=dtype)
        dist.all_reduce(x, R.AVG)
        assert x.tolist() == [mean] * 2


def c5():
    x = lib.tensor([rank + 1.0])
    dist.broadcast(x, 1)
    assert x.item() == 2
    parts = [lib.zeros(1), lib.zeros(1)]
    dist.all_gather(parts, lib.tensor([rank + 1.0]))
    assert [p.item() for p in parts] == [1, 2]
    dist.gather(lib.tensor([rank + 3.0]), parts if rank == 0 else None)
    assert [p.item() for p in parts] == ([1, 2] if rank else [3, 4])
    dist.scatter(x, [lib.tensor([5.0]), lib.tensor([6.0])] if rank == 0 else None)
    assert x.item() == 5 + rank
    dist.reduce(x, 0)
    assert rank or x.item() == 11
    dist.reduce_scatter(x, [lib.tensor([1.0]), lib.tensor([rank + 1.0])])
    assert x.item() == (3 if rank else 2)
    both = lib.zeros(2)
    dist.all_gather_into_tensor(both, lib.tensor([rank + 1.0]))
    assert both.tolist() == [1, 2]
    dist.reduce_scatter_tensor(x, both)
    assert x.item() == 2 + 2 * rank
    dist.all_to_all_single(both, lib.tensor([10.0 * rank, 10 * rank + 1]))
    assert both.tolist() == [rank, 10 + rank]
    if ours:  # gloo has none
        dist.all_to_all(parts, [lib.tensor([10.0 * rank]), lib.tensor([10.0 * rank + 1])])
        assert [p.item() for p in parts] == [rank, 10 + rank]


def c6():
    x = lib.zeros(2)
    if rank:
        dist.send(lib.ones(2), 0)
    else:
        assert dist.recv(x) == 1
        assert x.tolist() == [1, 1]


def c7():
    found = [None] * n
    dist.all_gather_object(found, {"rank": rank})
    assert found == [{"rank": 0}, {"rank": 1}]
    found = [("of", rank)]
    dist.broadcast_object_list(found, 1)
    assert found == [("of", 1)]


def c8():
    for call in (
        lambda: dist.all_reduce(lib.ones(2, 2).t()[1:]),
        lambda: dist.all_gather([lib.ones(1)], lib.ones(1)),
        lambda: dist.all_gather([lib.ones(1), lib.ones(2)], lib.ones(1)),
    ):
        raises(ValueError, call)
    c1()


def c9():
    ddp = one_weight()

    @lib.compile
    def step(x):
        ddp.zero_grad()
        ddp(x).sum().backward()
        return ddp.module.weight.grad

    for k in range(4):
        assert step(lib.full((1, 1), k + rank + 1.0)).item() == k + mean
    raises(NotImplementedError, lib.compile(lambda x: dist.all_reduce(x)), lib.ones(1))


def calls_of_graphs():
    return importlib.import_module(f"{lib.__name__}.distributed.nn.functional")


def c10():
    x = lib.full((2,), rank + 1.0, requires_grad=True)
    total = calls_of_graphs().all_reduce(x * x)
    assert total.tolist() == [5.0, 5.0]
    (total * (rank + 1)).sum().backward()  # 1 and 2 times the total
    assert x.grad.tolist() == [6 * (rank + 1.0)] * 2


def c11():
    x = lib.full((2,), rank + 1.0, requires_grad=True)
    calls_of_graphs().all_reduce(x, R.PRODUCT).sum().backward()
    assert x.grad.tolist() == [2 * (2.0 - rank)] * 2
    group = dist.new_group([1])
    assert rank == 0 or calls_of_graphs().broadcast(x, 1, group).tolist() == x.tolist()


def p1():
    model = nn.Sequential(nn.Linear(1, 1), nn.BatchNorm1d(1))
    model[1].running_mean.fill_(rank + 1.0)
    with lib.no_grad():
        model[0].weight.fill_(rank + 1.0)
    ddp = DDP(model)
    assert ddp.module[0].weight.item() == 1
    assert ddp.module[1].running_mean.item() == 1


def p2():
    assert backward(one_weight()) == mean


def logged(log):
    ddp = one_weight()
    p = ddp.module.weight
    queue = lib.autograd.Variable._execution_engine.queue_callback
    p.register_hook(lambda g: log.append(("tensor", g.item())))
    p.register_post_accumulate_grad_hook(lambda t: log.append(("post", t.grad.item())))
    p.register_hook(lambda g: queue(lambda: log.append(("callback", p.grad.item()))))

    def hook(state, bucket):
        log.append(("comm", bucket.buffer().item()))
        return gives(bucket.buffer() * 10)

    ddp.register_comm_hook(None, hook)
    return ddp


def p3():
    log = []
    backward(logged(log))
    local = rank + 1.0
    assert log[:3] == [("tensor", local), ("post", local), ("comm", local)]


def p4():
    log = []
    assert backward(logged(log)) == 10 * (rank + 1)
    assert log[3] == ("callback", rank + 1.0)


def buckets(cap, **options):
    """Which parameters came in which bucket, of three passes."""
    model = Crossed()
    names = {id(p): k[0] for k, p in model.named_parameters()}
    ddp = DDP(model, bucket_cap_mb=cap / 2**20, **options)
    log = []

    def hook(state, bucket):
        log[-1].append("".join(names[id(p)] for p in bucket.parameters()))
        return gives(bucket.buffer())

    ddp.register_comm_hook(None, hook)
    for _ in range(3):
        log.append([])
        ddp(lib.ones(1, 4)).sum().backward()
    return log


def p5():
    assert buckets(64)[0] == ["bac"]


def p6():
    assert buckets(64)[1:] == [["b", "c", "a"]] * 2
    assert buckets(128)[1:] == [["bc", "a"]] * 2


def p7():
    assert buckets(64, find_unused_parameters=True) == [["c", "a", "b"]] * 3


def p8():
    ddp = one_weight()
    with ddp.no_sync():
        y = ddp(lib.full((1, 1), rank + 1.0)).sum()
    y.backward()
    assert ddp.module.weight.grad.item() == rank + 1
    ddp = one_weight()
    y = ddp(lib.full((1, 1), rank + 1.0)).sum()
    with ddp.no_sync():
        y.backward()
    assert ddp.module.weight.grad.item() == mean


def p9():
    ddp = one_weight()
    with ddp.no_sync():
        backward(ddp)
    assert backward(ddp) == 2 * mean


class Chooses(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(1, 1, bias=False) for _ in range(3)])
        with lib.no_grad():
            for layer in self.layers:
                layer.weight.fill_(1.0)

    def forward(self, x, which):
        for k in which:
            x = self.layers[k](x)
        return x


def p10():
    ddp = DDP(Chooses())
    ddp(lib.ones(1, 1), [0]).sum().backward()
    assert "Expected to have finished reduction" in raises(RuntimeError, ddp, lib.ones(1, 1), [0])


def p11():
    ddp = DDP(Chooses(), find_unused_parameters=True)
    ddp(lib.ones(1, 1), [0, rank]).sum().backward()
    first, second, third = grads(ddp)
    assert first == [[1.5]]  # (1 + 1 on rank 0, 1 on the other) / 2
    assert second == [[0.5]]
    assert third is None


def p12():
    ddp = DDP(Chooses(), static_graph=True)
    for _ in range(3):
        ddp.zero_grad()
        ddp(lib.full((1, 1), rank + 1.0), [0, 1, 0]).sum().backward()
        assert grads(ddp)[:2] == [[[2 * mean]], [[mean]]]


def p13():
    ddp = one_weight()
    [g] = lib.autograd.grad(ddp(lib.full((1, 1), rank + 1.0)).sum(), [ddp.module.weight])
    assert g.item() == rank + 1
    assert ddp.module.weight.grad is None


def p14():
    ddp = one_weight(gradient_as_bucket_view=True)
    places = []

    def hook(state, bucket):
        places.append(bucket.buffer().data_ptr())
        return gives(bucket.buffer())

    ddp.register_comm_hook(None, hook)
    backward(ddp)
    assert ddp.module.weight.grad.data_ptr() == places[-1]


def p15():
    for options, expected in (({}, 1), ({"broadcast_buffers": False}, rank + 1)):
        ddp = DDP(nn.Sequential(nn.Linear(1, 1), nn.BatchNorm1d(1, momentum=0.0)), **options)
        ddp.module[1].running_mean.fill_(rank + 1.0)
        ddp(lib.ones(2, 1)).sum().backward()
        assert ddp.module[1].running_mean.item() == expected


def p16():
    ddp = one_weight()
    module = ddp.module
    del ddp
    gc.collect()
    module(lib.full((1, 1), rank + 1.0)).sum().backward()
    assert module.weight.grad.item() == rank + 1


def p17():
    model = nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.BatchNorm1d(1, eps=0.0)))
    x = lib.tensor([[4.0 * rank], [4.0 * rank + 2.0]], requires_grad=True)  # 0, 2 and 4, 6: variance 5
    out = model(x)
    assert lib.allclose(out, (x - 3) / 5**0.5)
    assert abs(model[0].running_mean.item() - 0.3) < 1e-6
    (out * (1.0 + rank)).sum().backward()
    total = x.grad.sum().reshape(1)  # to shift all inputs alike changes nothing
    assert rank == 1 or abs(total.item()) > 1e-3
    dist.all_reduce(total)
    assert abs(total.item()) < 1e-5


def h1():
    seen = []
    ddp = DDP(mlp(), bucket_cap_mb=SMALL)

    def hook(state, bucket):
        seen.append((state, bucket.index(), bucket.is_last()))
        return gives(bucket.buffer())

    ddp.register_comm_hook("state", hook)
    for _ in range(2):
        seen.clear()
        ddp(batch()).sum().backward()
    count = len(seen)
    assert count > 1
    assert seen == [("state", k, k == count - 1) for k in range(count)]


def h2():
    seen = []
    ddp = DDP(nn.Linear(3, 2))

    def hook(state, bucket):
        buffer, found = bucket.buffer(), bucket.gradients()
        seen.append(
            [list(buffer.shape), [list(g.shape) for g in found], [list(p.shape) for p in bucket.parameters()]]
        )
        seen.append(found[0].data_ptr() == buffer.data_ptr())
        bucket.set_buffer(buffer * 2)
        return gives(bucket.buffer())

    ddp.register_comm_hook(None, hook)
    ddp(lib.ones(1, 3)).sum().backward()
    assert seen == [[[8], [[2, 3], [2]], [[2, 3], [2]]], True]
    assert ddp.module.bias.grad.tolist() == [2, 2]


def reducing(ddp, then=lambda f: f.value()[0]):
    def hook(state, bucket):
        return dist.all_reduce(bucket.buffer(), async_op=True).get_future().then(then)

    ddp.register_comm_hook(None, hook)
    return ddp


def h3():
    assert backward(reducing(one_weight())) == n * mean


def h4():
    ddp = reducing(one_weight(), lambda f: f.value()[0] * 2)
    assert backward(ddp) == 2 * n * mean


def h5():
    ddp = reducing(one_weight())
    raises(RuntimeError, reducing, ddp)


def h6():
    ddp = one_weight()

    def annotated(state, bucket: int):
        return None

    raises(TypeError, ddp.register_comm_hook, None, 5)
    raises(KeyError, ddp.register_comm_hook, None, lambda state, other: None)
    raises(ValueError, ddp.register_comm_hook, None, annotated)


def h7():
    for value, words in ((None, "got None"), (gives(lib.ones(2)), "2 of"), (gives(5), "holds int")):
        ddp = one_weight()

        def hook(state, bucket, value=value):
            return value

        ddp.register_comm_hook(None, hook)
        said = raises(RuntimeError, backward, ddp)
        assert words in said, said
        assert "communication hook hook, bucket 0" in said


def h8():
    ddp = one_weight()

    def hook(state, bucket):
        raise LookupError("here")

    ddp.register_comm_hook(None, hook)
    try:
        backward(ddp)
    except LookupError as error:
        found = error.__notes__
    assert found == ["in communication hook hook, bucket 0"]


def after_training(ddp):
    optimizer = lib.optim.SGD(ddp.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        ddp(batch(step)).pow(2).mean().backward()
        optimizer.step()
    return lib.cat([p.detach().reshape(-1) for p in ddp.parameters()])


def near(hook, state=None, tolerance=1e-6):
    """Whether training with a hook ends near where it ends without one."""
    ddp = DDP(mlp())
    ddp.register_comm_hook(state, hook)
    return lib.allclose(after_training(ddp), after_training(DDP(mlp())), atol=tolerance)


def h9():
    default, power, local = hooks("default_hooks"), hooks("powerSGD_hook"), hooks("post_localSGD_hook")
    assert near(default.allreduce_hook)
    assert near(default.fp16_compress_hook, tolerance=1e-3)
    assert near(default.fp16_compress_wrapper(default.allreduce_hook), tolerance=1e-3)
    assert near(power.powerSGD_hook, power.PowerSGDState(None, 8, 2, min_compression_rate=0), 1e-4)
    state = local.PostLocalSGDState(None, dist.new_group([0, 1]), 1)
    assert near(local.post_localSGD_hook, state)
    ddp = one_weight()
    ddp.register_comm_hook(None, hooks("debugging_hooks").noop_hook)
    assert backward(ddp) == rank + 1


def h10():
    default, power = hooks("default_hooks"), hooks("powerSGD_hook")
    assert near(default.bf16_compress_hook, tolerance=1e-2)
    assert near(default.bf16_compress_wrapper(default.allreduce_hook), tolerance=1e-2)
    assert near(power.batched_powerSGD_hook, power.PowerSGDState(None, 13, 2), 1e-4)


def h11():
    found = hooks("quantization_hooks")
    values = numbers(600, seed=rank).tolist() + [1e-3] * 7
    for width, hook in (
        (607, found.quantization_pertensor_hook),
        (512, found.quantization_perchannel_hook),
        (100, lambda state, bucket: found.quantization_perchannel_hook(state, bucket, 100)),
    ):
        ddp = DDP(nn.Linear(607, 1, bias=False))
        ddp.register_comm_hook(None, hook)
        ddp(lib.tensor([values])).sum().backward()
        mine = [None] * n
        dist.all_gather_object(mine, values)
        expected = sum(by_bytes(np.float32(one), width) for one in mine) / np.float32(n)
        assert np.allclose(ddp.module.weight.grad.tolist(), expected, atol=1e-6), width


def by_bytes(x, width):
    """What numbers are after they were bytes, rows of them with a scale each."""
    rows = np.zeros((-(-x.size // width), width), np.float32)
    rows.reshape(-1)[: x.size] = x
    least, most = np.minimum(rows.min(1), 0), np.maximum(rows.max(1), 0)
    scale = ((most - least) / np.float32(255))[:, None]
    zero = -np.round(least[:, None] / scale)
    return (scale * (np.clip(np.round(rows / scale) + zero, 0, 255) - zero)).reshape(-1)[: x.size]


def h12():
    """Steps that follow the reduction of each bucket are those of the optimizer after the pass."""
    module = hooks("optimizer_overlap_hooks")
    utils = importlib.import_module(f"{lib.__name__}.distributed.optim")
    for cls, options in ((lib.optim.SGD, {"lr": 0.1, "momentum": 0.9}), (lib.optim.Adam, {"lr": 0.01})):
        ddp, plain = DDP(mlp(), bucket_cap_mb=SMALL), DDP(mlp())
        chosen = list(ddp.parameters())[2:]
        state = module._OptimizerHookState(utils.as_functional_optim(cls, **options), chosen)
        hook = module._hook_then_optimizer(hooks("default_hooks").allreduce_hook, state)
        ddp.register_comm_hook(None, hook)
        optimizer = cls(list(plain.parameters())[2:], **options)
        for step in range(3):
            for model in (ddp, plain):
                model.zero_grad()
                model(batch(step)).pow(2).mean().backward()
            optimizer.step()
        for a, b in zip(ddp.parameters(), plain.parameters(), strict=True):
            assert lib.equal(a, b)
            assert lib.equal(a.grad, b.grad)
    raises(ValueError, module._OptimizerHookState, 5)


report(
    {name: f for name, f in globals().items() if name[0] in "gcph"},
    {"c4", "c8", "c9", "c11", "p16", "p17", "h7", "h8", "h10", "h11"},
)
