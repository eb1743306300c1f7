"""A step over many parameters is one launch, with the bits of a step over each of them."""

from __future__ import annotations

import threading

import pytest

import fastgrad as fg
from fastgrad.native.host.tape import record
from fastgrad.native.host.threads import get_num_threads, set_num_threads

OPTIMIZERS = {
    "SGD": lambda p: fg.optim.SGD(p, lr=0.1, weight_decay=0.1),
    "heavy SGD": lambda p: fg.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "Adam": lambda p: fg.optim.Adam(p, lr=0.1, weight_decay=0.1),
    "AdamW": lambda p: fg.optim.AdamW(p, lr=0.1, amsgrad=True, maximize=True),
    "RMSprop": lambda p: fg.optim.RMSprop(p, lr=0.1, momentum=0.5, centered=True),
    "Adagrad": lambda p: fg.optim.Adagrad(p, lr=0.1, lr_decay=0.1),
    "Adadelta": lambda p: fg.optim.Adadelta(p),
    "Adamax": lambda p: fg.optim.Adamax(p, lr=0.1, weight_decay=0.1),
    "NAdam": lambda p: fg.optim.NAdam(p, lr=0.1),
    "RAdam": lambda p: fg.optim.RAdam(p, lr=0.1, betas=(0.9, 0.6)),
    "Rprop": lambda p: fg.optim.Rprop(p, lr=0.1),
    "ASGD": lambda p: fg.optim.ASGD(p, lr=0.1, lambd=0.1, t0=1),
}
SMALL = ((3, 4), (5,), (), (0, 2), (7,))
LARGE = ((300, 333), (5,), (), (0, 2), (77, 401), (65536,), (9,), (70001,))


@pytest.fixture(params=[1, 4])
def threads(request):
    before = get_num_threads()
    set_num_threads(request.param)
    yield
    set_num_threads(before)


def parameters(shapes, dtype=fg.float32, seed=1):
    fg.manual_seed(seed)
    made = [fg.randn(*s, dtype=dtype).requires_grad_() for s in shapes]
    for p in made:
        p.grad = fg.randn(*p.shape, dtype=dtype)
    return made


def bits(optimizers):
    found = []
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            for p in group["params"]:
                kept = [p, *optimizer.state[p].values()]
                found.append([t.detach().contiguous().numpy().tobytes() for t in kept])
    return found


def steps(optimizers, n=3):
    for _ in range(n):
        for optimizer in optimizers:
            optimizer.step()
    return bits(optimizers)


def launches_for(name):
    """Of one step: the rates of ASGD go on in a launch of their own."""
    return 1 + (name == "ASGD")


def launches_of(call):
    with record() as tape:
        call()
    return tape.launches


@pytest.mark.parametrize("dtype", [fg.float32, fg.float64], ids=str)
@pytest.mark.parametrize("shapes", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_bits_of_single_steps(name, shapes, dtype, threads):
    make = OPTIMIZERS[name]
    together = [make(parameters(shapes, dtype))]
    alone = [make([p]) for p in parameters(shapes, dtype)]
    assert steps(together) == steps(alone)
    assert launches_of(together[0].step) == launches_for(name)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_parameters_that_lie_otherwise(name, threads):
    """Transposed ones without gaps are part of the launch; what has gaps has one of its own, by way of copies."""
    results = []
    for alone in (False, True):
        params = parameters((*LARGE, (40, 50), (30, 20), (6, 8)))
        params[-1].grad = params[-1].grad.t().contiguous().t()  # lies otherwise than its parameter
        base = fg.ones(50, 40)
        params[-3] = base.t().requires_grad_()
        params[-3].grad = fg.ones(50, 40).mul_(0.5).t()
        params[-2] = fg.ones(30, 40)[:, ::2].requires_grad_()
        params[-2].grad = fg.ones(30, 20).mul_(0.25)
        optimizers = [OPTIMIZERS[name]([p]) for p in params] if alone else [OPTIMIZERS[name](params)]
        results.append(steps(optimizers))
    assert results[0] == results[1]


def test_two_dtypes(threads):
    results = []
    for alone in (False, True):
        params = [
            p for pair in zip(parameters(LARGE), parameters(LARGE, fg.float64), strict=True) for p in pair
        ]
        optimizers = [fg.optim.Adam([p]) for p in params] if alone else [fg.optim.Adam(params)]
        results.append(steps(optimizers))
    assert results[0] == results[1]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_what_shares_memory_is_not_joined(name, threads):
    """Views of one flat piece of memory, and a gradient that is another parameter: one after the other, as ever."""
    results = []
    for alone in (False, True):
        flat = fg.linspace(-1, 1, 200_000)
        params = [flat[:120_000].requires_grad_(), flat[100_000:].requires_grad_(), fg.ones(100_000)]
        params[2].requires_grad_()
        params[0].grad = fg.linspace(-2, 2, 120_000)
        params[1].grad = params[2].detach()
        params[2].grad = fg.linspace(-1, 3, 100_000)
        optimizers = [OPTIMIZERS[name]([p]) for p in params] if alone else [OPTIMIZERS[name](params)]
        results.append(steps(optimizers))
        if not alone:
            assert launches_of(optimizers[0].step) > 2
    assert results[0] == results[1]


@pytest.mark.filterwarnings("ignore:optimizer contains a parameter group with duplicate")
def test_a_parameter_twice(threads):
    w, other = parameters(((100_000,), (100_000,)))
    twin, other_twin = parameters(((100_000,), (100_000,)))
    twice = fg.optim.SGD([w, other, w], lr=0.1)
    steps([twice], 2)
    single = [fg.optim.SGD([p], lr=0.1) for p in (twin, other_twin, twin)]
    steps(single, 2)
    assert w.equal(twin)
    assert other.equal(other_twin)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_replays(name, threads):
    """A tape has one launch for the step of a group, and replays do what steps do."""
    eager, taped = (OPTIMIZERS[name](parameters(LARGE)) for _ in range(2))
    steps([eager], 5)
    steps([taped], 2)
    with record() as tape:
        taped.step()
    assert tape.launches == launches_for(name)
    assert len(list(tape)) == len(LARGE) * launches_for(name)
    tape.replay()
    tape.replay()
    assert bits([eager]) == bits([taped])


@pytest.mark.parametrize(
    ("order", "launches"),
    [
        ([0, 1, 2, 3], 1), ([0, 1], 1), ([1, 2], 1), ([0, 2], 2), ([3, 2, 1, 0], 4), ([1, 1], 2), ([2, 3, 0, 1], 2),
        ([0, 1, 0, 1], 2), ([], 0),
    ],
)  # fmt: skip
def test_editions(order, launches, threads):
    """Neighbours that are still neighbours run as one; a launch that stands twice runs twice, in order."""
    sizes = ((90_000,), (70_000,), (5,), (80_000,))
    params, twins = parameters(sizes), parameters(sizes)
    with record() as tape:
        fg.optim.SGD(params, lr=0.5).step()
    tape.edit(order)
    assert tape.launches == launches
    if order:
        tape.replay()
    fg.optim.SGD(twins, lr=0.5).step()
    for k in order:
        fg.optim.SGD([twins[k]], lr=0.5).step()
    assert all(p.equal(twin) for p, twin in zip(params, twins, strict=True))
    tape.edit(range(len(order)))
    assert tape.launches == launches


def test_two_steps_on_a_tape(threads):
    """Steps that follow each other stay two launches: the second one reads what the first one wrote."""
    eager, taped = (OPTIMIZERS["Adam"](parameters(LARGE)) for _ in range(2))
    steps([eager], 5)
    steps([taped], 1)
    with record() as tape:
        taped.step()
        taped.step()
    assert tape.launches == 2
    tape.replay()
    assert bits([eager]) == bits([taped])


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_groups_on_a_tape(name, threads):
    """All groups of an optimizer are one launch on a tape, each with its own options."""

    def make():
        params = parameters(LARGE)
        optimizer = OPTIMIZERS[name](params[:3])
        optimizer.add_param_group({"params": params[3:6], "lr": 0.3})
        optimizer.add_param_group({"params": params[6:], "weight_decay": 0.5})
        return optimizer

    eager, taped = make(), make()
    steps([eager], 5)
    steps([taped], 2)
    with record() as tape:
        taped.step()
    assert tape.launches == launches_for(name)
    tape.replay()
    tape.replay()
    assert bits([eager]) == bits([taped])


@pytest.mark.parametrize("what", ["written twice", "read first", "written first"])
def test_groups_that_have_to_do_with_each_other(what, threads):
    """The gradient of one group is a parameter of another one: two launches, in order."""

    def make():
        a, b, c = (fg.linspace(-1, k, 150_000).requires_grad_() for k in range(3))
        a.grad, b.grad, c.grad = (fg.linspace(k, 1, 150_000) for k in range(2, 5))
        if what == "read first":
            a.grad = b.detach()
        elif what == "written first":
            b.grad = a.detach()
        else:
            whole = fg.linspace(-1, 3, 250_000)
            a, b = whole[:150_000].requires_grad_(), whole[100_000:].requires_grad_()
            a.grad, b.grad = fg.ones(150_000), fg.ones(150_000)
        return fg.optim.SGD([{"params": [a]}, {"params": [b]}, {"params": [c]}], lr=0.5)

    eager, taped = make(), make()
    steps([eager], 3)
    with record() as tape:
        taped.step()
    assert tape.launches == 2
    tape.replay()
    tape.replay()
    assert bits([eager]) == bits([taped])


def test_clipping(threads):
    """Scaling and clipping of values are one launch each."""
    params, twins = parameters(LARGE), parameters(LARGE)
    total = fg.nn.utils.get_total_norm([p.grad for p in params])
    scaled = launches_of(lambda: fg.nn.utils.clip_grads_with_norm_(params, 0.5, total))
    one = launches_of(lambda: fg.nn.utils.clip_grads_with_norm_(params[:1], 10.0, total))
    assert scaled == one
    for p in twins:
        fg.nn.utils.clip_grads_with_norm_([p], 0.5, total)
    for p, twin in zip(params[1:], twins[1:], strict=True):
        assert p.grad.equal(twin.grad)
    assert launches_of(lambda: fg.nn.utils.clip_grad_value_(params, 1e-3)) == 1
    for p in twins:
        fg.nn.utils.clip_grad_value_([p], 1e-3)
    for p, twin in zip(params[1:], twins[1:], strict=True):
        assert p.grad.equal(twin.grad)


def test_steps_of_several_threads():
    """Other threads run while a large step does, and drop its gradients."""
    optimizers = [OPTIMIZERS["Adam"](parameters(LARGE, seed=k)) for k in range(3)]
    expected = [OPTIMIZERS["Adam"](parameters(LARGE, seed=k)) for k in range(3)]
    gradients = [[p.grad for p in o.param_groups[0]["params"]] for o in optimizers]

    def work(k):
        for _ in range(5):
            optimizers[k].step()
            optimizers[k].zero_grad()
            for p, g in zip(optimizers[k].param_groups[0]["params"], gradients[k], strict=True):
                p.grad = g.clone()

    started = [threading.Thread(target=work, args=(k,)) for k in range(3)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    steps(expected, 5)
    assert bits(optimizers) == bits(expected)


def test_a_profile_notes_one_launch(threads):
    optimizer = OPTIMIZERS["Adam"](parameters(LARGE))
    optimizer.step()
    with fg.profiler.profile() as profile:
        optimizer.step()
    assert [e.name for e in profile.events() if e.category == "kernel"] == [
        "kernel adam_step (float32, flat)"
    ]


def test_versions_count(threads):
    params = parameters(LARGE)
    optimizer = OPTIMIZERS["Adam"](params)
    before = [p._version for p in params]
    optimizer.step()
    assert [p._version for p in params] == [v + 1 for v in before]
