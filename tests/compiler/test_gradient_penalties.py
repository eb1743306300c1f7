"""Steps that differentiate gradients: hooks and custom functions in passes with create_graph=True are replayed."""

from __future__ import annotations

import pytest

import fastgrad as fg
from fastgrad import nn
from fastgrad.autograd import Function
from tests.compiler.test_calls import near
from tests.compiler.test_values import counts, why_not

LOG: list = []


def note(name, *gradients):
    LOG.append((name, [g.requires_grad for g in gradients], [g.detach().tolist() for g in gradients]))


class Cubed(Function):
    """It saves inputs alone."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x**3 * w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        note("Cubed", g)
        return 3 * g * x * x * w, (g * x**3).sum(0)


class Exponential(Function):
    """It saves what it gives: the second derivative is one of the first as well."""

    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        note("Exponential", g)
        return g * ctx.saved_tensors[0]


class Penalized:
    """A step with a gradient penalty, and hooks wherever they can stand."""

    def __init__(self, kind):
        fg.manual_seed(0)
        self.kind = kind
        self.model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
        self.w = fg.randn(4, requires_grad=True)
        self.optimizer = fg.optim.SGD([*self.model.parameters(), self.w], lr=0.01)
        first, tanh, last = self.model
        if "module" in kind:
            first.register_full_backward_hook(lambda m, gi, go: note("module", *gi, *go))
            tanh.register_full_backward_hook(lambda m, gi, go: (gi[0] * 0.5,))
            last.register_full_backward_pre_hook(lambda m, go: (go[0] * 1.5,))
        if "forward" in kind:
            tanh.register_forward_hook(lambda m, args, out: (out * 2).sin())
        if "leaf" in kind:
            first.weight.register_hook(lambda g: note("leaf", g))
        self.hook = (lambda g: (note("tensor", g), g * g)[1]) if "tensor" in kind else None
        self.look = (lambda g: note("looks", g)) if "looks" in kind else None
        self.before = (lambda go: note("before", *go)) if "node" in kind else None
        self.after = lambda gi, go: tuple(None if g is None else g * 2 for g in gi)

    def step(self, x):
        self.optimizer.zero_grad()
        x = x.detach().requires_grad_()
        h = Cubed.apply(x, self.w) if "function" in self.kind else x * self.w
        if "saved" in self.kind:
            h = Exponential.apply(h * 0.1)
        if "tensor" in self.kind:
            h.register_hook(self.hook)
        if "node" in self.kind:
            h = h * 1.5
            h.grad_fn.register_prehook(self.before)
            h.grad_fn.register_hook(self.after)
        out = self.model(h)
        (g,) = fg.autograd.grad(out.sum(), [x], create_graph=True)
        if "looks" in self.kind:
            g.register_hook(self.look)
        if "third" in self.kind:
            (g,) = fg.autograd.grad((g**2).sum(), [x], create_graph=True)
        loss = out.mean() + ((g.norm(dim=1) - 1) ** 2).mean()
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def outcomes(kind, wrap):
    LOG.clear()
    trained = Penalized(kind)
    step, found = wrap(trained.step), []
    for k in range(5):
        fg.manual_seed(k)
        loss = step(fg.randn(3, 4))
        found.append(
            [loss.item(), *(p.tolist() for p in [*trained.model.parameters(), trained.w]), LOG.copy()]
        )
        LOG.clear()
    return found, step


KINDS = (
    "plain", "function", "module", "forward", "leaf", "tensor", "node", "looks",
    "function module forward leaf tensor node looks",
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_gradient_penalties(kind):
    found, step = outcomes(kind, fg.compile)
    wanted, _ = outcomes(kind, lambda f: f)
    for k, (a, b) in enumerate(zip(found, wanted, strict=True)):
        assert near(a, b), k
    assert counts(step)[1] >= 2, str(fg.compile.explain(step))


def numbers(found):
    """Without what hooks and functions noted."""
    return [part[:-1] for part in found]


@pytest.mark.parametrize("kind", ["saved", "function saved module tensor"])
def test_a_function_that_saves_what_it_returns(kind):
    """A pass calls its backward once, with the sum of what comes there."""
    found, step = outcomes(kind, fg.compile)
    wanted, _ = outcomes(kind, lambda f: f)
    for k, (a, b) in enumerate(zip(found, wanted, strict=True)):
        assert near(a, b), k
    assert counts(step)[1] >= 2, str(fg.compile.explain(step))


@pytest.mark.parametrize("kind", ["function third", "function module tensor third"])
def test_third_derivatives_through_custom_functions_are_right(kind):
    found, step = outcomes(kind, fg.compile)
    wanted, _ = outcomes(kind, lambda f: f)
    assert near(numbers(found), numbers(wanted))
    assert why_not(step)


@pytest.mark.parametrize("form", ["step", "forward"])
def test_a_hook_that_uses_a_parameter_that_its_input_depends_on(form):
    """Also the recorded call counts that once."""
    sides = []
    for wrap in (fg.compile, lambda f: f):
        w, layer = fg.tensor([0.5, 1.5], requires_grad=True), nn.Tanh()
        layer.register_forward_hook(lambda m, args, out, w=w: out * w)
        forward = lambda x, w=w, layer=layer: layer(x * w).sum()  # noqa: E731
        called = wrap(forward) if form == "forward" else forward

        def step(x, called=called, w=w):
            w.grad = None
            called(x).backward()

        step = step if form == "forward" else wrap(step)
        for k in range(4):
            step(fg.tensor([[1.0 + k, 2.0]]))
            sides.append(w.grad.tolist())
    assert near(sides[:4], sides[4:])


@pytest.mark.parametrize("returns", [True, False])
def test_a_hook_that_changes_a_gradient_with_a_history_in_place_is_right(returns):
    sides = []
    for wrap in (fg.compile, lambda f: f):
        w, u = (fg.arange(1.0, 4.0).mul_(k).requires_grad_() for k in (1, 2))
        w.register_hook(lambda g: g.mul_(0.5) if returns else (g.mul_(0.5), None)[1])

        @wrap
        def step(x, w=w, u=u):
            w.grad = u.grad = None
            (g,) = fg.autograd.grad(((x * w * u) ** 2).sum(), [w], create_graph=True)
            (x * g).sum().backward()

        for k in range(3):
            step(fg.ones(3) * (k + 1))
            sides.append((w.grad.tolist(), u.grad.tolist()))
    assert sides[:3] == sides[3:]


def test_a_hook_on_gradients_with_a_history_that_returns_something_later():
    sides = []
    for wrap in (fg.compile, lambda f: f):
        w, factors = fg.ones(3, requires_grad=True), [None, None, None, 2.0, 3.0]

        def hook(g, factors=factors):
            factor = factors[0]
            return None if factor is None else g * factor

        w.register_hook(hook)

        @wrap
        def step(x, w=w):
            w.grad = None
            (g,) = fg.autograd.grad(((x * w) ** 3).sum(), [w], create_graph=True)
            (x * g).sum().backward()

        for k in range(5):
            step(fg.ones(3) * (k + 1))
            factors.pop(0) if len(factors) > 1 else None
            sides.append(w.grad.tolist())
    assert sides[:5] == sides[5:]
