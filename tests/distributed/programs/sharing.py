"""The sentences of docs/distributed.md on ranks that share optimizers or have uneven inputs; as `sentences`."""

import copy
import importlib
import warnings

from both import (
    DDP,
    batch,
    dist,
    hooks,
    lib,
    mlp,
    n,
    name,
    nn,
    ours,
    raises,
    rank,
    report,
    train,
    values,
)  # fmt: skip

join = importlib.import_module(f"{name}.distributed.algorithms.join")
Join, Joinable, JoinHook = join.Join, join.Joinable, join.JoinHook
optim = importlib.import_module(f"{name}.distributed.optim")
Zero = optim.ZeroRedundancyOptimizer
OPTIMIZERS = [
    ("SGD", {"lr": 0.1, "momentum": 0.9}), ("Adam", {"lr": 0.01}), ("AdamW", {"lr": 0.01}), ("RMSprop", {"lr": 0.01}),
]  # fmt: skip


def train_alike(model, optimizer, steps=4, first=0):
    """Train with the same batches on all ranks, without DistributedDataParallel."""
    for step in range(first, first + steps):
        optimizer.zero_grad()
        model(batch(step, 0)).pow(2).mean().backward()
        optimizer.step()


def both_kinds(kind="Adam", options=None, **more):
    """The same model with a divided optimizer and with a plain one."""
    options = {"lr": 0.01} if options is None else options
    cls = getattr(lib.optim, kind)
    models = mlp(), mlp()
    return (
        *models,
        Zero(models[0].parameters(), cls, **options, **more),
        cls(models[1].parameters(), **options),
    )


def z1():
    params = [lib.zeros(k, requires_grad=True) for k in (3, 8, 1, 6, 4, 9)]
    optimizer = Zero([{"params": params[:4]}, {"params": params[4:]}], lib.optim.SGD, lr=0.1)
    mine = [[p.numel() for p in group["params"]] for group in optimizer.optim.param_groups]
    assert mine == ([[6, 3], [4]] if rank else [[8, 1], [9]]), mine


def z2():
    for (kind, options), view in [(o, v) for o in OPTIMIZERS for v in (False, True)]:
        model, plain, optimizer, other = both_kinds(kind, options, parameters_as_bucket_view=view)
        train_alike(model, optimizer)
        train_alike(plain, other)
        assert values(model) == values(plain), kind


def z3():
    model, _, optimizer, _ = both_kinds()
    train_alike(model, optimizer, 1)
    count = lib.tensor([float(len(optimizer.optim.state))])
    assert 0 < count.item() < 6
    dist.all_reduce(count)
    assert count.item() == 6


def z4():
    model, plain, optimizer, other = both_kinds()
    train_alike(model, optimizer)
    train_alike(plain, other)
    raises(RuntimeError, optimizer.state_dict)
    optimizer.consolidate_state_dict(to=1)
    if rank != 1:
        return raises(RuntimeError, optimizer.state_dict)
    mine, theirs = optimizer.state_dict(), other.state_dict()
    assert list(mine["state"]) == list(theirs["state"]) == list(range(6))
    for k, state in theirs["state"].items():
        assert all(lib.equal(value, mine["state"][k][key]) for key, value in state.items())
    assert mine["param_groups"] == theirs["param_groups"]


def z5():
    model, plain, _, other = both_kinds()
    train_alike(plain, other, 3)
    state = other.state_dict() if ours else copy.deepcopy(other.state_dict())  # torch shares its tensors
    model.load_state_dict(plain.state_dict())
    optimizer = Zero(model.parameters(), lib.optim.Adam, lr=5.0)
    optimizer.load_state_dict(state)
    assert optimizer.param_groups[0]["lr"] == optimizer.optim.param_groups[0]["lr"] == 0.01
    assert all(p in set(optimizer.optim.param_groups[0]["params"]) for p in optimizer.optim.state)
    train_alike(model, optimizer, 2, 3)
    train_alike(plain, other, 2, 3)
    assert values(model) == values(plain)


def z6():
    model, plain = mlp(), mlp()
    optimizer = Zero(model[0].parameters(), lib.optim.Adam, lr=0.01, parameters_as_bucket_view=True)
    other = lib.optim.Adam(plain[0].parameters(), lr=0.01)
    train_alike(model, optimizer, 2)
    train_alike(plain, other, 2)
    for net, one in ((model, optimizer), (plain, other)):
        one.add_param_group({"params": list(net[2].parameters()), "lr": 0.1})
        train_alike(net, one, 2, 2)
    assert values(model) == values(plain)


def z7():
    model, plain, optimizer, other = both_kinds("SGD", {"lr": 0.1})
    for net, one in ((model, optimizer), (plain, other)):
        schedule = lib.optim.lr_scheduler.StepLR(one, 1, 0.5)
        for step in range(3):
            train_alike(net, one, 1, step)
            schedule.step()
    assert values(model) == values(plain)
    assert optimizer.optim.param_groups[0]["lr"] == 0.025  # in the last step
    assert optimizer.param_groups[0]["lr"] == 0.0125


def z8():
    model = mlp()
    optimizer = Zero(model.parameters(), lib.optim.SGD, parameters_as_bucket_view=True, lr=0.1)
    group = optimizer.optim.param_groups[0]["params"]
    places = [p.data_ptr() for p in group]
    ends = [place + 4 * p.numel() for place, p in zip(places, group, strict=True)]
    assert places[1:] == ends[:-1]
    assert values(model) == values(mlp())


def z9():
    for view in (False, True):
        model, plain, optimizer, other = both_kinds(parameters_as_bucket_view=view)
        for net, one in ((model, optimizer), (plain, other)):
            train_alike(net, one, 1)
            net[0].requires_grad_(False)
            train_alike(net, one, 2, 1)
            net[0].requires_grad_(True)
            train_alike(net, one, 2, 3)
        assert values(model) == values(plain)


def z10():
    w = lib.zeros(2, requires_grad=True)
    raises(TypeError, Zero, w, lib.optim.SGD, lr=0.1)
    raises(TypeError, Zero, [5], lib.optim.SGD, lr=0.1)
    raises(TypeError, Zero, 5, lib.optim.SGD, lr=0.1)
    raises(ValueError, Zero, [], lib.optim.SGD, lr=0.1)
    raises(ValueError, Zero, [{"lr": 1.0}], lib.optim.SGD, lr=0.1)
    raises(ValueError, Zero, [w, lib.zeros(2, dtype=lib.float64, requires_grad=True)], lib.optim.SGD, lr=0.1)


def z11():
    w = lib.ones(3, requires_grad=True)
    optimizer = Zero([w], lib.optim.SGD, lr=0.5)  # the part of rank 1 is empty

    def closure():
        optimizer.zero_grad()
        loss = (w * w).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 3
    assert w.tolist() == [0.0] * 3


def z12():
    raises(TypeError, Zero, mlp().parameters(), 5)
    optimizer = Zero(mlp().parameters(), lib.optim.SGD, lr=0.1)
    raises(TypeError, copy.deepcopy, optimizer)
    raises(ValueError, Zero, mlp().parameters(), lib.optim.LBFGS)
    raises(ValueError, optimizer.consolidate_state_dict, n)
    raises(ValueError, optimizer.consolidate_state_dict, -1)
    raises(ValueError, Zero, 2 * [lib.ones(1, requires_grad=True)], lib.optim.SGD)


def z13():
    """Steps within the pass are those of the optimizer after it, but for the first two or three, which are left out."""
    make = hooks("ddp_zero_hook").hook_with_zero_step
    for options, skipped in (({}, 2), ({"gradient_as_bucket_view": True}, 2), ({"static_graph": True}, 3)):
        ddp, plain = DDP(mlp(), bucket_cap_mb=100 / 2**20, **options), DDP(mlp())
        optimizer = Zero(ddp.parameters(), lib.optim.Adam, overlap_with_ddp=True, lr=0.01)
        other = lib.optim.Adam(plain.parameters(), lr=0.01)
        ddp.register_comm_hook(None, make(hooks("default_hooks").allreduce_hook, ddp, optimizer))
        for step in range(6):
            for model, one in ((ddp, optimizer), (plain, other)):
                one.zero_grad()
                one.param_groups[0]["lr"] = 0.01 * (step + 1)
                model(batch(step)).pow(2).mean().backward()
            if step >= skipped:
                other.step()
        assert values(ddp) == values(plain), options
        assert len(optimizer.state) < 6
        optimizer.consolidate_state_dict(0)
        if rank == 0:
            assert len(optimizer.state_dict()["state"]) == 6
    assert optimizer.step() is None
    raises(RuntimeError, optimizer.add_param_group, {"params": [lib.ones(1, requires_grad=True)]})
    raises(ValueError, make, None, ddp, Zero(mlp().parameters(), lib.optim.Adam))


# --- uneven inputs -----------------------------------------------------------------------------------------------


def one_weight(value=1.0, **options):
    ddp = DDP(nn.Linear(1, 1, bias=False), **options)
    with lib.no_grad():
        ddp.module.weight.fill_(value)
    return ddp


def step_by_gradient(ddp):
    """A pass whose gradient is rank + 1 on each rank, and a step of size 1."""
    ddp.zero_grad()
    ddp(lib.full((1, 1), rank + 1.0)).sum().backward()
    with lib.no_grad():
        ddp.module.weight -= ddp.module.weight.grad
    return ddp.module.weight.grad.item()


def j1():
    for counts in ((1, 4), (3, 0), (0, 2), (2, 2)):
        ddp = DDP(mlp(), bucket_cap_mb=100 / 2**20)
        with ddp.join():
            train(ddp, counts[rank])
        assert ddp(batch()).shape == (4, 2)
        found = [None] * n
        dist.all_gather_object(found, values(ddp))
        assert found[0] == found[1], counts


def j2():
    for by_all, expected in ((True, [1.5, 1.0, 1.0]), (False, [1.5, 2.0, 2.0])):
        ddp = one_weight()
        with ddp.join(divide_by_initial_world_size=by_all):
            found = [step_by_gradient(ddp) for _ in range(3 if rank else 1)]
        assert found == expected[: len(found)], found
        assert ddp.module.weight.item() == 1 - sum(expected)


def j3():
    ddp = DDP(nn.Sequential(nn.Linear(1, 1), nn.BatchNorm1d(1)))
    with ddp.join():
        for _ in range(2 - rank):
            ddp(lib.tensor([[0.0], [1.0]])).sum().backward()
        with lib.no_grad():  # rank 0 is the last one
            ddp.module[0].weight.fill_(5.0 - rank)
            ddp.module[1].running_mean.fill_(7.0 - rank)
    assert ddp.module[0].weight.item() == 5
    assert ddp.module[1].running_mean.item() == 7
    with ddp.join(), lib.no_grad():  # both are
        ddp.module[0].weight.fill_(5.0 + rank)
    assert ddp.module[0].weight.item() == 6


def j4():
    ddp = one_weight()
    seen = []

    def run():
        with ddp.join(throw_on_early_termination=True):
            for _ in range(4 if rank else 2):
                step_by_gradient(ddp)
                seen.append(1)

    said = raises(RuntimeError, run)
    assert (
        "Detected at least one rank that exhausted inputs" if rank else "Rank 0 exhausted all inputs."
    ) in said
    assert len(seen) == 2
    dist.barrier()


def j5():
    ddp = one_weight()
    with ddp.join(enable=False):
        assert step_by_gradient(ddp) == 1.5


class Counts(Joinable):
    """Adds a number over all ranks in each iteration."""

    def __init__(self, group=None):
        super().__init__()
        self.group = group or dist.group.WORLD
        self.log = []

    def __call__(self):
        work = Join.notify_join_context(self)
        if work is not None:
            work.wait()
        x = lib.ones(1)
        dist.all_reduce(x)
        self.log.append(x.item())

    def join_hook(self, **kwargs):
        outer = self
        self.log.append(kwargs)

        class Hook(JoinHook):
            def main_hook(self):
                x = lib.zeros(1)
                dist.all_reduce(x)
                outer.log.append("main")

            def post_hook(self, is_last_joiner):
                outer.log.append(is_last_joiner)

        return Hook()

    @property
    def join_device(self):
        return lib.device("cpu")

    @property
    def join_process_group(self):
        return self.group


def j6():
    first, second = Counts(), Counts()
    with Join([first, second], some=1):
        for _ in range(1 + 2 * rank):
            first()
            second()
    expected = [{"some": 1}, 2, 1, 1, True] if rank else [{"some": 1}, 2, "main", "main", False]
    assert first.log == second.log == expected, first.log


def j7():
    raises(ValueError, Join, [])
    other = dist.new_group([0, 1])
    raises(ValueError, Join, [Counts(), Counts(other)])


def j8():
    ddp = DDP(nn.Sequential(nn.Linear(1, 1), nn.BatchNorm1d(1, momentum=0.0)))
    ddp.module[1].running_mean.fill_(rank + 1.0)
    seen = []
    with ddp.join():
        for _ in range(2 - rank):
            ddp(lib.tensor([[0.0], [1.0]])).sum().backward()
            seen.append(ddp.module[1].running_mean.item())
            if rank == 0:
                ddp.module[1].running_mean.fill_(9.0)
    assert seen == [2.0, 9.0][: 2 - rank], seen


def j9():
    ddp = one_weight()
    seen = []
    with ddp.join():
        for _ in range(2 * rank):
            with ddp.no_sync():
                ddp(lib.full((1, 1), 1.0)).sum().backward()
            ddp(lib.full((1, 1), 3.0)).sum().backward()
            seen.append(ddp.module.weight.grad.item())
    assert seen == [2.0, 3.0][: 2 * rank], seen  # (1 + 3) / 2, and (2 + 1 + 3) / 2


def j10():
    """Weights are those of a plain optimizer, which steps with the gradients of all."""
    options = {"lr": 0.05}
    model = DDP(mlp())
    optimizer = Zero(model.parameters(), lib.optim.Adam, **options)
    with Join([model, optimizer]):
        for step in range(1 + 3 * rank):
            optimizer.zero_grad()
            model(batch(step)).pow(2).mean().backward()
            optimizer.step()
    plain = mlp()
    other = lib.optim.Adam(plain.parameters(), **options)
    for step in range(4):
        other.zero_grad()
        for r in range(n):
            if step < 1 + 3 * r:
                (plain(batch(step, r)).pow(2).mean() / n).backward()
        other.step()
    pairs = zip(model.parameters(), plain.parameters(), strict=True)
    assert all(lib.allclose(a, b, atol=1e-5) for a, b in pairs)


def j11():
    for options in (
        {"find_unused_parameters": True}, {"static_graph": True}, {"gradient_as_bucket_view": True},
    ):  # fmt: skip
        for counts in ((0, 4), (1, 4), (4, 1), (3, 4)):
            ddp = DDP(mlp(), bucket_cap_mb=100 / 2**20, **options)
            with ddp.join():
                train(ddp, counts[rank])
            train(ddp, 2)  # and without the context
            found = [None] * n
            dist.all_gather_object(found, values(ddp))
            assert found[0] == found[1], (options, counts)


def j12():
    power = hooks("powerSGD_hook")
    for hook, state in (
        (hooks("default_hooks").fp16_compress_hook, None),
        (power.powerSGD_hook, power.PowerSGDState(None, 2, 2, min_compression_rate=0)),
    ):
        ddp = DDP(mlp())
        ddp.register_comm_hook(state, hook)
        with ddp.join():
            train(ddp, 2 + 2 * rank)
        found = [None] * n
        dist.all_gather_object(found, values(ddp))
        assert found[0] == found[1]


def j13():
    ddp = one_weight()
    with ddp.join():
        for _ in range(2 + rank):
            with lib.no_grad():
                ddp(lib.ones(1, 1))
            step_by_gradient(ddp)


def j14():
    ddp = one_weight()
    join.MANY, before = 2, join.MANY
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with ddp.join():
            for _ in range(5 * rank):
                step_by_gradient(ddp)
    join.MANY = before
    told = [str(one.message) for one in seen if "uneven input skew" in str(one.message)]
    assert len(told) == 1 - rank, told


# --- averages of parameters --------------------------------------------------------------------------------------


averaging = importlib.import_module(f"{name}.distributed.algorithms.model_averaging")
averagers = importlib.import_module(f"{name}.distributed.algorithms.model_averaging.averagers")


def weights(steps, averager):
    """A parameter that each rank moves by its own amount, after each step."""
    w = nn.Parameter(lib.full((2,), 10.0 * rank))
    found = []
    for _ in range(steps):
        w.grad = lib.full((2,), 1.0)
        with lib.no_grad():
            w += rank + 1.0
        averager.average_parameters([w])
        found.append(w[0].item())
    return found


def m1():
    averager = averagers.PeriodicModelAverager(period=2, warmup_steps=1)
    expected = [11 * rank + 1, 6.5 + 1.5, 8 + rank + 1, 8 + 3, 11 + rank + 1]
    assert weights(5, averager) == expected
    assert averager.step == 5
    raises(ValueError, averagers.PeriodicModelAverager, 0)
    raises(ValueError, averagers.PeriodicModelAverager, 2, -1)


def m2():
    utils = importlib.import_module(f"{name}.distributed.algorithms.model_averaging.utils")
    a, b, c = (
        nn.Parameter(lib.full((2, 2), rank + 1.0, dtype=d)) for d in (lib.float32, lib.float64, lib.float32)
    )
    a.grad, b.grad = lib.ones(2, 2), lib.ones(2, 2, dtype=lib.float64)
    utils.average_parameters_or_parameter_groups([{"params": [a, b]}, {"params": [c]}], None)
    assert a.tolist() == b.tolist() == [[1.5] * 2] * 2
    assert b.dtype == lib.float64
    assert c.tolist() == [[rank + 1.0] * 2] * 2
    raises(NotImplementedError, utils.get_params_to_average, [5])
    group = dist.new_group([0])
    utils.average_parameters([a], group)  # nothing, on either rank


def m3():
    hierarchical = importlib.import_module(f"{averaging.__name__}.hierarchical_model_averager")
    averager = hierarchical.HierarchicalModelAverager({2: 1, 4: 2})
    groups = [dist.get_world_size(group) for group in averager.period_process_group_dict.values()]
    assert groups == [1, 2]
    found = weights(5, averager)
    assert found[0] == 6.5
    assert found[1:4] == [6.5 + k * (rank + 1) for k in (1, 2, 3)]
    assert found[4] == 6.5 + 4 * 1.5
    raises(ValueError, hierarchical.HierarchicalModelAverager, {})
    raises(ValueError, hierarchical.HierarchicalModelAverager, {2: 1})
    raises(ValueError, hierarchical.HierarchicalModelAverager, {0: 2})


def m4():
    """Gradients of all at first, then own ones and averages of parameters."""
    local = hooks("post_localSGD_hook")
    mine, every = dist.new_subgroups(1)
    assert dist.get_world_size(mine) == 1
    assert len(every) == 2
    ddp = DDP(mlp())
    ddp.register_comm_hook(local.PostLocalSGDState(None, mine, 2), local.post_localSGD_hook)
    inner = lib.optim.SGD(ddp.parameters(), lr=0.1, momentum=0.9)
    averager = averagers.PeriodicModelAverager(period=2, warmup_steps=2)
    optimizer = optim.PostLocalSGDOptimizer(inner, averager)
    equal = []
    for step in range(6):
        optimizer.zero_grad()
        ddp(batch(step)).pow(2).mean().backward()
        optimizer.step()
        told = [None] * n
        dist.all_gather_object(told, values(ddp))
        equal.append(told[0] == told[1])
    assert equal == [True, True, True, False, True, False]
    state = optimizer.state_dict()
    assert state["step"] == 6
    averager.step = 0
    optimizer.load_state_dict(state)
    assert averager.step == 6
    assert optimizer.state is inner.state
    assert optimizer.param_groups == inner.param_groups
    optimizer.add_param_group({"params": [lib.ones(1, requires_grad=True)]})
    assert len(inner.param_groups) == 2


def m5():
    mine, every = dist.new_subgroups_by_enumeration([[1], [0]])
    assert every[1 - rank] is mine
    assert dist.get_process_group_ranks(mine) == [rank]
    raises(ValueError, dist.new_subgroups, 3)
    raises(ValueError, dist.new_subgroups, 0)
    raises(ValueError, dist.new_subgroups_by_enumeration, [[0], [0, 1]])


report({k: f for k, f in globals().items() if k[0] in "zjm"}, {"z12", "z13", "j10", "j11", "j13", "j14"})
