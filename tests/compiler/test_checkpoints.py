"""Checkpoints within compiled calls: both runs of their functions are replayed."""

from __future__ import annotations

import pytest

import fastgrad as fg
import fastgrad.nn.functional as F
from fastgrad import nn
from fastgrad.autograd import Function
from fastgrad.autograd.graph import save_on_cpu, saved_tensors_hooks
from fastgrad.utils.checkpoint import checkpoint, checkpoint_sequential
from tests.compiler.test_calls import near
from tests.compiler.test_values import counts, why_not


class Model(nn.Module):
    def __init__(self, norm=False, frozen=False):
        super().__init__()
        layers = [nn.Linear(4, 8), nn.BatchNorm1d(8) if norm else nn.Tanh(), nn.Dropout(0.5), nn.Linear(8, 4)]
        self.block, self.head = nn.Sequential(*layers), nn.Linear(4, 3)
        self.calls = 0
        self.block[0].requires_grad_(not frozen)

    def forward(self, x):
        h = checkpoint(self.block, x, use_reentrant=False)
        h = checkpoint(lambda a, b: (a * b).tanh(), h, x, use_reentrant=False)
        h = checkpoint(self.nested, h, use_reentrant=False)
        return self.head(h)

    def nested(self, h):
        return checkpoint(self.block, h.sin(), use_reentrant=False).cos()


class InTurn(Model):
    def forward(self, x):
        return self.head(checkpoint_sequential(self.block, 2, x, use_reentrant=False))


def trained(kind, whole, wrap, n=6):
    """Losses, parameters, buffers and the next random number of some steps, and what was compiled."""
    fg.manual_seed(0)
    model = kind()
    optimizer = fg.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.05, momentum=0.5)
    forward = lambda x, y: F.cross_entropy(model(x), y)  # noqa: E731
    called = wrap(forward) if not whole else forward

    def step(x, y):
        optimizer.zero_grad()
        loss = called(x, y)
        loss.backward()
        optimizer.step()
        return loss.item()

    step = wrap(step) if whole else step
    found = []
    for k in range(n):
        fg.manual_seed(k)
        x, y = fg.randn(6, 4), fg.randint(0, 3, (6,))
        found.append((step(x, y), fg.rand(1).item()))
    return found, [*model.parameters(), *model.buffers()], step if whole else called


@pytest.mark.parametrize("whole", [True, False], ids=["step", "forward"])
@pytest.mark.parametrize(
    "kind", [Model, InTurn, lambda: Model(frozen=True)], ids=["nested", "sequential", "frozen"]
)
def test_checkpoints_are_replayed(kind, whole):
    found, tensors, compiled = trained(kind, whole, fg.compile)
    wanted, others, _ = trained(kind, whole, lambda f: f)
    for (a, number), (b, other) in zip(found, wanted, strict=True):
        assert abs(a - b) < 1e-5
        assert number == other, "other random numbers were drawn"
    for t, o in zip(tensors, others, strict=True):
        assert fg.allclose(t, o, atol=1e-5)
    recorded, replayed, eager = counts(compiled)
    assert recorded <= 2
    assert (replayed, eager) == (6 - recorded, 0)


@pytest.mark.parametrize("whole", [True, False], ids=["step", "forward"])
def test_running_statistics_are_counted_as_often_as_eagerly(whole):
    kind = lambda: Model(norm=True)  # noqa: E731
    found, tensors, compiled = trained(kind, whole, fg.compile)
    wanted, others, _ = trained(kind, whole, lambda f: f)
    assert all(abs(a - b) < 1e-4 for (a, _), (b, _) in zip(found, wanted, strict=True))
    for t, o in zip(tensors, others, strict=True):
        assert fg.allclose(t, o, atol=1e-4)
    assert counts(compiled)[1] >= 4
    assert [t._version for t in tensors] == [t._version for t in others]


def test_two_calls_that_change_statistics_before_their_passes():
    """What a second run changes is no tensor that was saved."""
    found = []
    for wrap in (fg.compile, lambda f: f):
        fg.manual_seed(0)
        layer = nn.BatchNorm1d(3)
        f = wrap(lambda x, layer=layer: checkpoint(layer, x, use_reentrant=False).sin().sum())
        for k in range(4):
            losses = [f(fg.arange(6.0).reshape(2, 3) * (k + j + 1)) for j in range(2)]
            for loss in losses:
                loss.backward()
        found.append([t.tolist() for t in (*layer.buffers(), layer.weight.grad, layer.bias.grad)])
    assert near(found[0], found[1])


class Product(Function):
    """A product with noise, which notes when it is called."""

    log: list = []

    @staticmethod
    def forward(ctx, x, w):
        noise = fg.rand_like(x)
        Product.log.append(("forward", x.requires_grad, noise.sum().item()))
        ctx.save_for_backward(x, w, noise)
        return x * w * noise

    @staticmethod
    def backward(ctx, grad):
        x, w, noise = ctx.saved_tensors
        Product.log.append(("backward", noise.sum().item()))
        return grad * w * noise, (grad * x * noise).sum()


class Watched(nn.Module):
    """Checkpoints with hooks and custom functions in them."""

    def __init__(self, nested=False, **options):
        super().__init__()
        self.block = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Tanh())
        self.head, self.w = nn.Linear(4, 3), nn.Parameter(fg.ones(()))
        self.options, self.nested = {"use_reentrant": False, **options}, nested
        note = Product.log.append
        self.block[0].register_forward_pre_hook(lambda m, args: (args[0] * 0.5,))
        self.block[0].register_forward_hook(lambda m, args, out: note(("looks", out.sum().item())))
        self.block[2].register_forward_hook(lambda m, args, out: out.sin())
        self.block[2].register_full_backward_hook(lambda m, gi, go: note(("back", go[0].sum().item())))

    def forward(self, x):
        inner = lambda t: Product.apply(self.block(Product.apply(t, self.w)), self.w)  # noqa: E731
        outer = lambda t: checkpoint(inner, t.sin(), **self.options) * self.w  # noqa: E731
        return self.head(checkpoint(outer if self.nested else inner, x * self.w, **self.options))


@pytest.mark.parametrize("whole", [True, False], ids=["step", "forward"])
@pytest.mark.parametrize("options", [{}, {"early_stop": False}, {"nested": True}], ids=str)
def test_hooks_and_custom_functions_within_checkpoints(options, whole):
    sides = []
    for wrap in (fg.compile, lambda f: f):
        Product.log.clear()
        found, tensors, called = trained(lambda: Watched(**options), whole, wrap)
        sides.append((found, [t.tolist() for t in tensors], list(Product.log), called))
    for a, b in zip(sides[0][:3], sides[1][:3], strict=True):
        assert near(a, b)
    if whole or not options.get("nested"):
        assert counts(sides[0][3])[1] >= 4
    else:
        assert "a checkpoint within another one" in why_not(sides[0][3])


@pytest.mark.parametrize("whole", [True, False], ids=["step", "forward"])
def test_reentrant_checkpoints_are_right(whole):
    found, tensors, called = trained(lambda: Watched(use_reentrant=True), whole, fg.compile)
    wanted, others, _ = trained(lambda: Watched(use_reentrant=True), whole, lambda f: f)
    assert near([a for a, _ in found], [a for a, _ in wanted])
    assert near([t.tolist() for t in tensors], [t.tolist() for t in others])
    assert "makes a pass of its own" in why_not(called)


def test_a_second_run_that_saves_something_else_later():
    """The custom function saves one tensor more in a replay."""
    n = [1]

    class Uneven(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(*[x] * n[0])
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.saved_tensors[0]

    w = fg.ones(3, requires_grad=True)

    @fg.compile
    def step(x):
        w.grad = None
        checkpoint(Uneven.apply, w * x, use_reentrant=False).sum().backward()

    for _ in range(4):
        step(fg.ones(3))
    n[0] = 2
    with pytest.raises(RuntimeError, match="saves other tensors"):
        step(fg.ones(3))


@pytest.mark.parametrize("whole", [True, False], ids=["step", "forward"])
def test_custom_functions_under_hooks_of_saved_tensors(whole):
    sides = []
    for wrap in (fg.compile, lambda f: f):
        log, Product.log[:] = [], []

        def pack(t, log=log):
            log.append(("pack", t.sum().item()))
            return t.detach().clone(), len(log)

        def unpack(t, log=log):
            log.append(("unpack", t[1]))
            return t[0]

        class Model(Watched):
            def forward(self, x, pack=pack, unpack=unpack):
                with saved_tensors_hooks(pack, unpack):
                    x = Product.apply(self.block(x), self.w)
                with save_on_cpu():
                    x = Product.apply(x, self.w)
                with saved_tensors_hooks(pack, unpack):
                    return self.head(checkpoint(nn.Tanh(), x, use_reentrant=False))

        found, tensors, called = trained(Model, whole, wrap)
        sides.append((found, [t.tolist() for t in tensors], log, list(Product.log), called))
    for a, b in zip(sides[0][:4], sides[1][:4], strict=True):
        assert near(a, b)
    assert counts(sides[0][4])[1] >= 3


def test_hooks_that_draw_random_numbers():
    """They stand between the dropouts of a step, whose numbers are those of an eager step."""
    sides = []
    for wrap in (fg.compile, lambda f: f):
        fg.manual_seed(0)
        model, log = nn.Sequential(nn.Dropout(0.5), nn.Linear(4, 4), nn.Dropout(0.5)), []
        model[0].register_forward_hook(lambda m, args, out: out + fg.rand_like(out))
        model[1].weight.register_hook(lambda g: g * fg.rand_like(g))
        model[1].register_full_backward_hook(lambda m, gi, go, log=log: log.append(fg.rand(1).item()))

        @wrap
        def step(x, model=model):
            for p in model.parameters():
                p.grad = None
            model(x).sum().backward()

        for k in range(5):
            fg.manual_seed(k)
            step(fg.ones(3, 4, requires_grad=True))
            log += [fg.rand(1).item(), *(p.grad.tolist() for p in model.parameters())]
        sides.append(log)
    assert near(*sides)


def test_a_hook_that_draws_other_numbers_later():
    w, draws = fg.ones(3, requires_grad=True), [0]
    w.register_hook(lambda g: g * fg.rand(3) if draws[0] else g * 2)

    @fg.compile
    def step(x):
        w.grad = None
        (F.dropout(x, 0.5) * w).sum().backward()

    for _ in range(4):
        step(fg.ones(3))
    draws[0] = 1
    with pytest.raises(RuntimeError, match="other random numbers"):
        step(fg.ones(3))


def test_a_function_that_computes_something_else_the_second_time():
    state = {"n": 0}

    def uneven(x):
        state["n"] += 1
        return x.exp() if state["n"] % 2 else x.exp().sin()

    w = fg.ones(3, requires_grad=True)

    @fg.compile
    def step(x):
        w.grad = None
        checkpoint(uneven, w * x, use_reentrant=False, early_stop=False).sum().backward()
        return w.grad * 1

    for _ in range(3):
        with pytest.raises(RuntimeError, match="recomputation"):
            step(fg.ones(3))
