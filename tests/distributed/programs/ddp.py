"""What DistributedDataParallel does, in either library: prints the results of all ranks as JSON; see `both`."""

import sys

from both import (
    DDP,
    SMALL,
    Crossed,
    batch,
    dist,
    fill,
    gives,
    grads,
    hooks,
    lib,
    mlp,
    n,
    nn,
    numbers,
    rank,
    tell,
    train,
)  # fmt: skip

CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


@case
def plain():
    return train(DDP(mlp(rank)))  # rank 0's parameters


@case
def small_buckets():
    return train(DDP(mlp(), bucket_cap_mb=SMALL))


@case
def as_views():
    ddp = DDP(mlp(), bucket_cap_mb=SMALL, gradient_as_bucket_view=True)
    return train(ddp), train(ddp, to_none=False)


@case
def order_of_buckets():
    log = []
    for cap in (64, 128):
        for unused in (False, True):
            model = Crossed()
            names = {id(p): k[0] for k, p in model.named_parameters()}
            ddp = DDP(model, bucket_cap_mb=cap / 2**20, find_unused_parameters=unused)

            def hook(state, bucket, names=names):
                state.append("".join(names[id(p)] for p in bucket.parameters()))
                state.append([bucket.index(), bucket.is_last(), list(bucket.buffer().shape)])
                state.append([list(g.shape) for g in bucket.gradients()])
                state.append(bucket.gradients()[0].data_ptr() == bucket.buffer().data_ptr())
                return gives(bucket.buffer())

            ddp.register_comm_hook(log, hook)
            for _ in range(3):
                ddp(lib.ones(1, 4)).sum().backward()
                log.append("|")
    return log


@case
def order_of_hooks():
    log = []
    ddp = DDP(nn.Linear(2, 1, bias=False))
    p = ddp.module.weight
    queue = lib.autograd.Variable._execution_engine.queue_callback
    p.register_hook(lambda g: log.append(["tensor", g.tolist()]))
    p.register_post_accumulate_grad_hook(lambda t: log.append(["post", t.grad.tolist()]))
    p.register_hook(lambda g: queue(lambda: log.append(["callback", p.grad.tolist()])))
    ddp.register_comm_hook(
        None,
        lambda state, bucket: log.append(["comm", bucket.buffer().tolist()]) or gives(bucket.buffer() * 10),
    )
    ddp(lib.ones(4, 2) * (rank + 1)).sum().backward()
    return log, grads(ddp)


@case
def one_rank_scales():
    ddp = DDP(fill(nn.Linear(2, 1, bias=False)))
    if rank == 0:
        ddp.module.weight.register_hook(lambda g: g * 10)
    ddp(lib.ones(1, 2) * (rank + 1)).sum().backward()
    return grads(ddp)


@case
def sums():
    ddp = DDP(fill(nn.Linear(2, 1)))
    ddp.register_comm_hook(
        None,
        lambda state, bucket: (
            dist.all_reduce(bucket.buffer(), async_op=True).get_future().then(lambda f: f.value()[0])
        ),
    )
    ddp(lib.ones(1, 2) * (rank + 1)).sum().backward()
    return grads(ddp)


@case
def no_sync():
    out = []
    ddp = DDP(mlp())
    with ddp.no_sync():
        ddp(batch(0)).sum().backward()
    out.append(grads(ddp))
    ddp(batch(1)).sum().backward()
    out.append(grads(ddp))
    for inside in (True, False):
        ddp = DDP(mlp())
        if inside:
            with ddp.no_sync():
                y = ddp(batch()).sum()
            y.backward()
        else:
            y = ddp(batch()).sum()
            with ddp.no_sync():
                y.backward()
        out.append(grads(ddp))
    return out


class Chooses(nn.Module):
    """Uses its layers as it is told."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(6, 6) for _ in range(4)])

    def forward(self, x, which):
        for k in which:
            x = self.layers[k](x)
        return {"out": [x]}


@case
def unused():
    out = []
    for views in (False, True):
        ddp = DDP(
            fill(Chooses()), find_unused_parameters=True, bucket_cap_mb=SMALL, gradient_as_bucket_view=views
        )
        for which in ([0, 1], [0, rank], [2, 0], [0]):
            ddp.zero_grad()
            ddp(batch(), which)["out"][0].sum().backward()
            out.append(grads(ddp))
        ddp(batch(), [1])["out"][0].sum().backward()  # on top
        out.append(grads(ddp))
    return out


@case
def unused_unexpected():
    ddp = DDP(fill(Chooses()))
    ddp(batch(), [0, 1])["out"][0].sum().backward()
    try:
        ddp(batch(), [0, 1])
    except RuntimeError as error:
        return str(error).startswith("Expected to have finished reduction in the prior iteration")


@case
def static_graph():
    ddp = DDP(fill(Chooses()), static_graph=True, bucket_cap_mb=SMALL)
    out = []
    for step in range(3):
        ddp.zero_grad()
        ddp(batch(step), [0, 2, 0])["out"][0].sum().backward()
        out.append(grads(ddp))
    return out


@case
def buffers():
    torso = nn.Sequential(nn.Linear(6, 3), nn.BatchNorm1d(3))
    out = []
    for broadcast in (True, False):
        ddp = DDP(fill(torso), broadcast_buffers=broadcast)
        for step in range(3):
            ddp(batch(step)).pow(2).sum().backward()
        out.append([b.tolist() for b in ddp.buffers()])
    ddp.eval()
    with lib.no_grad():
        out.append(ddp(lib.ones(1, 6)).tolist())
    return out


@case
def only_grad():
    ddp = DDP(mlp())
    lib.autograd.grad(ddp(batch()).sum(), list(ddp.parameters()))
    return grads(ddp)


@case
def default_hooks():
    found = hooks("default_hooks")
    out = []
    for hook in (
        found.allreduce_hook,
        found.fp16_compress_hook,
        found.fp16_compress_wrapper(found.allreduce_hook),
        hooks("debugging_hooks").noop_hook,
    ):
        ddp = DDP(mlp(), bucket_cap_mb=SMALL)
        ddp.register_comm_hook(None, hook)
        out.append(train(ddp))
    ddp = DDP(mlp())
    ddp._register_builtin_comm_hook(dist.BuiltinCommHookType.FP16_COMPRESS)
    out.append(train(ddp))
    return out


@case
def power_sgd():
    module = hooks("powerSGD_hook")
    out = []
    for options in ({}, {"orthogonalization_epsilon": 1e-6}, {"batch_tensors_with_same_shape": True}):
        for r in (1, 2):
            state = module.PowerSGDState(None, r, start_powerSGD_iter=2, min_compression_rate=1, **options)
            ddp = DDP(mlp())
            ddp.register_comm_hook(state, module.powerSGD_hook)
            train(ddp, 2)
            shapes = [p.shape for p in ddp.parameters() if p.dim() == 2]
            kept = [s for s in shapes if sum(s) * min(*s, r) < s[0] * s[1]]
            # the libraries draw other first factors
            state.p_memory_dict[0] = numbers(sum(s[0] * min(*s, r) for s in kept), seed=1)
            state.q_memory_dict[0] = numbers(sum(s[1] * min(*s, r) for s in kept), seed=2)
            out.append([train(ddp, 3), list(state.compression_stats()), state.iter])
    return out


@case
def post_local_sgd():
    module = hooks("post_localSGD_hook")
    alone = [dist.new_group([r]) for r in range(n)][rank]
    out = []
    for averaged in (True, False):
        state = module.PostLocalSGDState(None, alone, 2, averaged)
        ddp = DDP(mlp())
        ddp.register_comm_hook(state, module.post_localSGD_hook)
        out.append([train(ddp, 4), state.iter])
    return out


mine = {key: function() for key, function in CASES.items() if key in sys.argv[3:] or not sys.argv[3:]}
tell(mine)
