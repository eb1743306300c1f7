"""Custom functions and hooks that change a tensor with a history in place, in compiled calls."""

from __future__ import annotations

import pytest

import fastgrad as fg
from fastgrad import nn
from fastgrad.utils.checkpoint import checkpoint
from tests.compiler.random_steps.run import without_fusion
from tests.compiler.random_steps.world import Dirty, Scaled, TanhInPlace
from tests.compiler.test_forward_only import both
from tests.compiler.test_values import counts


class DirtyAndMore(fg.autograd.Function):
    """Changes its first argument, and gives a second output of what that was."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x.clone(), w)
        ctx.mark_dirty(x)
        y = x * w
        x.mul_(3)
        return x, y

    @staticmethod
    def backward(ctx, a, b):
        x, w = ctx.saved_tensors
        return a * 3 + b * w, (b * x).sum(0)


NOTES: list = []  # what hooks of the call that is under way have seen
FROZEN = fg.tensor([0.5, 1.0, 2.0])


def with_hooks_around(x, w):
    h = x * w
    h.register_hook(lambda g: NOTES.append(("before", g.tolist())))
    Dirty.apply(h, FROZEN)
    h.register_hook(lambda g: NOTES.append(("after", g.tolist())))
    z = h.sin()
    same, more = DirtyAndMore.apply(z, w)
    assert same is z
    return (more * z).sum() + h.sum()


def of_views(x, w):
    h = x * w
    Dirty.apply(h[1:], FROZEN)
    last = h[-1]
    Dirty.apply(last, FROZEN)
    return (h * h).sum() + last.sum()


def within_checkpoints(x, w):
    def inner(t):
        h = t * w
        Dirty.apply(h, FROZEN)
        return Scaled.apply(h.cos(), w, 0.5)

    return checkpoint(inner, x * w, use_reentrant=False).sum()


def twice(x, w):
    h = x * w
    Dirty.apply(Dirty.apply(h, FROZEN), FROZEN)
    h.mul_(2)
    Dirty.apply(h, FROZEN)
    return (h * w).sum()


def with_what_it_made(x, w):
    h = x * w
    TanhInPlace.apply(h)
    z = TanhInPlace.apply(h * w)
    return (h * z).sum()


def differentiated_again(x, w):
    h = (x * w) ** 2
    Dirty.apply(h, FROZEN)
    (g,) = fg.autograd.grad(h.sin().sum(), [w], create_graph=True)
    return (g * g).sum()


PROGRAMS = (with_hooks_around, of_views, within_checkpoints, twice, with_what_it_made, differentiated_again)


@pytest.mark.parametrize("form", ["forward", "step"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_calls_that_change_what_has_a_history_are_replayed(program, form):
    def make(wrap, log):
        w = fg.tensor([1.0, 2.0, 3.0], requires_grad=True)

        def f(x):
            w.grad = None
            s = program(x, w)
            if form == "forward":
                return s
            s.backward()
            return s.detach() * 1

        call = wrap(f)

        def step(k):
            s = call(fg.randn(4, 3))
            if form == "forward":
                w.grad = None
                s.backward()
            log.append((s.item(), w.grad.tolist(), *NOTES))
            NOTES.clear()

        return step

    with without_fusion():
        eager, found, compiled = both(make)
    assert found == eager
    assert counts(compiled)[1] >= 2, str(fg.compile.explain(compiled))


def test_a_forward_hook_that_changes_the_output():
    def make(wrap, log):
        model = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
        model[0].register_forward_hook(lambda m, args, out: (out.mul_(0.5), None)[1])
        model[0].register_forward_hook(lambda m, args, out: out.add_(1))
        call = wrap(model)

        def step(k):
            model.zero_grad()
            out = call(fg.randn(2, 3))
            out.sum().backward()
            log.append((out.tolist(), [p.grad.tolist() for p in model.parameters()]))

        return step

    with without_fusion():
        eager, found, compiled = both(make)
    assert found == eager
    assert counts(compiled)[1] >= 3, str(fg.compile.explain(compiled))


def leaf(x, w):
    return Dirty.apply(w, FROZEN).sum()


def saved_before(x, w):
    h = (x * w).exp()
    Dirty.apply(h, FROZEN)
    return h.sum()


def saved_before_a_launch(x, w):
    h = (x * w).exp()
    h.mul_(2)
    return h.sum()


def saved_by_a_call(x, w):
    h = x * w
    y = Scaled.apply(h, w, 2.0)
    h.mul_(2)
    return y.sum() + h.sum()


def becomes_wanting(x, w):
    h = x * 1
    return DirtyAndMore.apply(h, w)[1].sum() + h.sum()


def with_a_view_of_it(x, w):
    h = x * w

    class Two(fg.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.mark_dirty(a)
            return a.mul_(2), b * 3

        @staticmethod
        def backward(ctx, a, b):
            return a * 2, b * 3

    a, b = Two.apply(h, h[1:])
    return a.sum() + b.sum() + h.sin().sum()


@pytest.mark.parametrize(
    "program",
    [leaf, saved_before, saved_before_a_launch, saved_by_a_call, becomes_wanting, with_a_view_of_it],
    ids=lambda p: p.__name__,
)
def test_what_is_not_replayed_does_what_it_does_eagerly(program):
    """Also what raises, in the call or in the pass through its result."""

    def make(wrap, log):
        w = fg.tensor([1.0, 2.0, 3.0], requires_grad=True)
        call = wrap(lambda x: program(x, w))

        def step(k):
            w.grad = None
            try:
                s = call(fg.randn(4, 3))
                log.append(s.item())
                s.backward()
            except RuntimeError as error:
                log.append(str(error)[-60:])
            log.append((w.tolist(), None if w.grad is None else w.grad.tolist()))

        return step

    with without_fusion():
        eager, found, _ = both(make)
    assert found == eager
