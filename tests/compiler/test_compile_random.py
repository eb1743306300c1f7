"""Random changes between calls, and random programs: what `compile` replays is what the call would give."""

from __future__ import annotations

import random

import pytest

import fastgrad as fg
import fastgrad.nn.functional as F
from fastgrad import nn

SCALE = 1.5


class State:
    """What a function sees."""

    def __init__(self, rng):
        self.rng = rng
        self.number = 2.0
        self.flag = True
        self.numbers = [1.0, 2.0]
        self.names = {"a": 0.5, "b": 2}
        self.tensors = [fg.randn(4), fg.randn(4)]
        fg.manual_seed(rng.randrange(1000))
        self.model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Dropout(0.5), nn.Linear(4, 4))
        self.nested = {"deep": [(1, [3.0])]}

    def change(self):
        """Change something, or nothing; what was changed."""
        name = self.rng.choice([n for n in dir(self) if n.startswith("change_")])
        getattr(self, name)()
        return name

    def change_nothing(self):
        pass

    def change_number(self):
        self.number = self.rng.choice([2.0, 2, -0.0, 0.0, float("inf"), 7.25])

    def change_flag(self):
        self.flag = self.rng.choice([True, False, 1])

    def change_numbers(self):
        self.rng.choice(
            [lambda: self.numbers.append(3.0), self.numbers.reverse, lambda: self.numbers.__setitem__(0, 9.0)]
        )()
        del self.numbers[4:]

    def change_names(self):
        self.names[self.rng.choice("abc")] = self.rng.choice([0.5, 2, 3.5])

    def change_order(self):
        self.names = dict(reversed(self.names.items()))

    def change_nested(self):
        self.nested["deep"][0][1][0] += 1

    def change_tensor(self):
        self.tensors[self.rng.randrange(2)] = fg.randn(4)

    def change_contents(self):
        with fg.no_grad():
            self.tensors[0].mul_(-1)

    def change_data(self):
        self.tensors[1].data = fg.randn(4)

    def change_dtype(self):
        self.tensors[1] = self.tensors[1].to(self.rng.choice([fg.float32, fg.float64]))

    def change_strides(self):
        self.tensors[0] = fg.randn(8)[:: self.rng.choice([1, 2])][:4]

    def change_sharing(self):
        self.tensors[1] = self.tensors[0]

    def change_wants(self):
        if self.tensors[1].is_leaf:
            self.tensors[1].requires_grad_(not self.tensors[1].requires_grad)

    def change_parameter(self):
        self.model[0].weight = nn.Parameter(fg.randn(4, 4))

    def change_values_of_parameters(self):
        with fg.no_grad():
            self.model[3].bias.add_(1)

    def change_freezing(self):
        self.model[0].requires_grad_(not self.model[0].weight.requires_grad)

    def change_mode(self):
        self.model.train(not self.model.training)

    def change_layer(self):
        self.model[1] = self.rng.choice([nn.Tanh, nn.ReLU, nn.GELU])()

    def change_option(self):
        self.model[2].p = self.rng.choice([0.5, 0.1, 0.0])

    def change_hooks(self):
        if self.rng.random() < 0.5:
            self.model[0].register_forward_hook(lambda m, args, out: out * 2)
        else:
            self.model[0]._forward_hooks.clear()

    def change_leaf_hooks(self):
        if self.model[3].weight.requires_grad:
            self.model[3].weight.register_hook(lambda g: g * 2)

    def change_gradients(self):
        self.model.zero_grad(set_to_none=self.rng.random() < 0.5)

    def change_global(self):
        global SCALE
        SCALE = self.rng.choice([1.5, -1.0, 2])


def look(state, x):
    """A function that sees all of a state."""
    y = x * state.number + (1 if state.flag is True else 2)
    for k, value in enumerate(state.numbers):
        y = y + value * k
    for k, (_, value) in enumerate(state.names.items()):
        y = y * value + k
    y = y + state.tensors[0] * SCALE - state.tensors[1] + state.nested["deep"][0][1][0]
    return state.model(y.float()) + 1


def both(call, function, model, *args):
    """Call compiled and eagerly with the same random numbers, and compare values and gradients."""
    found = []
    for f in (call, function):
        grads = [None if p.grad is None else p.grad.clone() for p in model.parameters()]
        fg.manual_seed(11)
        out = f(*args)
        if out.requires_grad:
            out.sum().backward()
        found.append([out.detach(), *(p.grad for p in model.parameters())])
        for p, g in zip(model.parameters(), grads, strict=True):
            p.grad = g
    for a, b in zip(*found, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            assert a.dtype == b.dtype
            assert ((a == b) | (a.isnan() & b.isnan())).all() or fg.allclose(a, b, rtol=1e-5, equal_nan=True)


@pytest.mark.parametrize("seed", range(12))
def test_changes_between_calls(seed):
    rng = random.Random(seed)
    state = State(rng)
    compiled = fg.compile(lambda x: look(state, x))
    for _ in range(40):
        x = fg.randn(3, 4)
        both(compiled, lambda x: look(state, x), state.model, x)
        state.change()


# --- programs --------------------------------------------------------------------------------------------------

UNARY = [
    fg.tanh,
    fg.exp,
    fg.sigmoid,
    fg.relu,
    fg.neg,
    fg.abs,
    F.gelu,
    lambda t: t.clamp(-1, 1),
    lambda t: t**2,
]
BINARY = [
    fg.add,
    fg.sub,
    fg.mul,
    fg.maximum,
    lambda a, b: a / (b.abs() + 1),
    lambda a, b: fg.where(a > b, a, b),
]
SHAPES = [
    lambda t: t.t(),
    lambda t: t[1:].mean(0),
    lambda t: t.reshape(-1)[:4],
    lambda t: t.sum(1, keepdim=True),
]


def program(rng):
    """A random computation over tensors of four by four, with changes in place, views and parts without gradients."""
    steps = []
    for _ in range(rng.randrange(3, 25)):
        kind = rng.random()
        i, j = rng.random(), rng.random()
        if kind < 0.4:
            steps.append(("unary", rng.choice(UNARY), i, j))
        elif kind < 0.75:
            steps.append(("binary", rng.choice(BINARY), i, j))
        elif kind < 0.85:
            steps.append(("shape", rng.choice(SHAPES), i, j))
        elif kind < 0.92:
            steps.append(("in place", rng.choice([2.0, -0.5]), i, j))
        elif kind < 0.96:
            steps.append(("no grad", rng.choice(UNARY), i, j))
        else:
            steps.append(("dropout", 0.5, i, j))

    def run(*tensors):
        made = [t * 1 for t in tensors]
        for kind, f, i, j in steps:
            a, b = made[int(i * len(made))], made[int(j * len(made))]
            if kind == "unary":
                made.append(f(a))
            elif kind == "binary":
                made.append(f(a, b))
            elif kind == "shape":
                made.append(f(a) if a.dim() == 2 else a)
            elif kind == "in place":
                made.append(a.clone().mul_(f).add_(1))
            elif kind == "no grad":
                with fg.no_grad():
                    made.append(f(a))
            else:
                made.append(F.dropout(a, f))
        return made[-1].sum() + made[len(made) // 2].mean() + made[1].sum(), made[-1]

    return run


def results(f, leaves, x, log):
    for leaf in leaves:
        leaf.grad = None
    fg.manual_seed(3)
    loss, last = f(x, *leaves)
    loss.backward()
    found = [loss.detach(), last.detach(), *(leaf.grad for leaf in leaves), log.copy()]
    log.clear()
    return found


def close(a, b):
    if isinstance(a, fg.Tensor):
        return a.shape == b.shape and fg.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True)
    return a == b


@pytest.mark.parametrize("seed", range(60))
def test_programs(seed):
    rng = random.Random(seed)
    fg.manual_seed(seed)
    run = program(rng)
    leaves = [fg.randn(4, 4, requires_grad=True), fg.randn(4, requires_grad=True)]
    log = []
    for k, leaf in enumerate(leaves):
        if rng.random() < 0.5:
            leaf.register_hook(lambda g, k=k: log.append(k))
        if rng.random() < 0.3:
            leaf.register_hook(lambda g: g * 2)
        if rng.random() < 0.3:
            leaf.register_post_accumulate_grad_hook(lambda p, k=k: log.append(("after", k)))

    def step(x, *leaves):
        loss, last = run(x, *leaves)
        loss.backward()
        return loss.detach(), last.detach()

    def whole(x, *leaves):
        for leaf in leaves:
            leaf.grad = None
        return step(x, *leaves)

    forward, training = fg.compile(run), fg.compile(whole)
    for _ in range(4):
        x = fg.randn(4, 4)
        expected = results(run, leaves, x, log)
        found = results(forward, leaves, x, log)
        assert all(map(close, found, expected))
        fg.manual_seed(3)
        loss, last = training(x, *leaves)
        again = [loss, last, *(leaf.grad for leaf in leaves), log.copy()]
        log.clear()
        assert all(map(close, again, expected))


# --- steps that end with reads ------------------------------------------------------------------------------------

READS = [
    "{v} = loss.item()",
    "{v} = float(out.max())",
    "{v} = (out > 0).sum().item()",
    "{v} = bool((out > 2).any())",
    "{v} = int(out.argmax())",
    "{v} = model[0].weight.abs().sum().item()",
    "{v} = float(optimizer.param_groups[0]['params'][1].grad[0])",
    "{v}, other = out.min().item(), loss.item()",
    "{v} = 1 if loss.isnan() else loss.item()",
    "{v} = loss.item() * 2",
    "{v} = [t.item() for t in out[0]]",
    "{v} = {{'a': loss.item(), 'b': (out.mean().item(), 3)}}",
    "{v} = f'{{out.sum().item():.3f}}'",
    "{v} = 0 if model[0].bias.sum() > 100 else out.sum().item()",
]
AFTER = [
    "",
    "x.mul_(0.5)",
    "out = out * 2",
    "if x.dim() > 5:\n        out = -out",
    "total.add_(1)",
    "loss.item()",
]


def source_of(rng):
    """A training step with some reads at its end, and what it returns."""
    lines = ["optimizer.zero_grad()", "out = model(x)", "loss = (out - 1).pow(2).mean()", "loss.backward()"]
    lines.insert(rng.randrange(2, 5), rng.choice(["total.add_(x.mean())", "pass"]))
    lines.append("optimizer.step()")
    names = [f"v{k}" for k in range(rng.randrange(1, 4))]
    few = rng.random() < 0.6  # most functions have only what is given back
    for name in names:
        lines += [rng.choice(READS[:8] if few else READS).format(v=name), rng.choice(AFTER)]
    values = [rng.choice([*names, "out.detach()", "3", "None"]) for _ in range(3)]
    form = rng.choice(["({})", "[{}]", "{{'k': ({})}}", "(({}), 2)"])
    lines.append("return " + form.format(", ".join(values)))
    return "def step(x):\n    " + "\n    ".join(lines) + "\n"


def run_source(source, wrap):
    fg.manual_seed(5)
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))
    optimizer = fg.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scope = {"model": model, "optimizer": optimizer, "total": fg.zeros(1)}
    exec(source, scope)
    step = wrap(scope["step"])
    found = []
    for k in range(11):
        fg.manual_seed(k)
        found.append(step(fg.randn(3, 4) * (1 + k % 2)))
    return step, found, [*model.parameters(), scope["total"]]


def alike(a, b):
    if isinstance(a, fg.Tensor):
        return close(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(alike(a[k], b[k]) for k in a)
    if isinstance(a, (tuple, list)):
        return type(a) is type(b) and len(a) == len(b) and all(map(alike, a, b))
    return type(a) is type(b) and (a == b or (isinstance(a, float) and abs(a - b) < 1e-4))


def test_steps_that_end_with_reads():
    replayed = 0
    for seed in range(60):
        source = source_of(random.Random(seed))
        step, found, tensors = run_source(source, fg.compile)
        _, wanted, others = run_source(source, lambda f: f)
        assert alike(found, wanted), source
        assert alike(tensors, others), source
        (report,) = fg.compile.explain(step).signatures
        assert report.n_recorded + report.n_replayed + report.n_eager == 11
        replayed += report.n_replayed > 5
    assert replayed > 20
