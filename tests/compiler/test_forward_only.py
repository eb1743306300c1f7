"""Compiled functions that only compute: what differentiates their results does what it does eagerly."""

from __future__ import annotations

import pytest

import fastgrad as fg
from fastgrad import nn
from fastgrad.nn.parameter import Parameter
from tests.compiler.test_values import counts


def both(make, n=5):
    """What a function of `make` notes in some calls, eagerly and compiled; it gets what wraps the compiled part."""
    logs, compiled = [], []

    def wrap(f):
        compiled.append(fg.compile(f))
        return compiled[-1]

    for wrapped in (lambda f: f, wrap):
        fg.manual_seed(0)
        log = []
        step = make(wrapped, log)
        for k in range(n):
            fg.manual_seed(k)
            step(k)
        logs.append(log)
    return (*logs, compiled[0])


# --- the order of leaves ----------------------------------------------------------------------------------------


class Branches(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.heads = nn.ModuleList(nn.Linear(4, 4, bias=k % 3 != 0) for k in range(n))
        self.scale = Parameter(fg.ones(4))
        self.shift = Parameter(fg.zeros(4))

    def forward(self, x):
        h = self.first(x) * self.scale
        parts = [head(h + self.shift).tanh() for head in self.heads]
        return sum(parts[1:], parts[0] * self.scale)


@pytest.mark.parametrize("n", [1, 2, 3, 6])
@pytest.mark.parametrize("brings", [False, True])
def test_hooks_of_leaves_come_in_the_order_of_an_eager_pass(n, brings):
    def make(wrap, log):
        model = Branches(n)
        for name, p in model.named_parameters():
            p.register_hook(lambda g, name=name: log.append((name, round(g.sum().item(), 3))))
            p.register_post_accumulate_grad_hook(lambda p, name=name: log.append(("after", name)))
        f = wrap(model)

        def step(k):
            model.zero_grad()
            x = fg.randn(2, 4, requires_grad=brings)
            f(x * 2 if brings and k % 2 else x).sum().backward()

        return step

    eager, found, compiled = both(make)
    assert [e if e[0] == "after" else e[0] for e in found] == [e if e[0] == "after" else e[0] for e in eager]
    assert all(abs(a[1] - b[1]) < 2e-3 for a, b in zip(eager, found, strict=True) if a[0] != "after")
    assert fg.compile.explain(compiled).signatures[0].n_replayed > 0


# --- outputs that are not used ----------------------------------------------------------------------------------


def test_an_output_that_is_not_used_gives_no_gradient():
    def make(wrap, log):
        a, b, c = (fg.ones(3, requires_grad=True) for _ in range(3))
        f = wrap(lambda x: ((x * a).sum(), (x * b * c).sum(), x * c, x + 1))

        def step(k):
            a.grad = b.grad = c.grad = None
            outs = f(fg.ones(3) * k)
            used = [outs[0]], [outs[1]], [outs[2].sum()], [outs[0], outs[2].sum()], [outs[1], outs[0]]
            sum(used[k]).backward()
            log.append([None if t.grad is None else t.grad.tolist() for t in (a, b, c)])

        return step

    eager, found, compiled = both(make)
    assert found == eager
    assert any(None in entry for entry in found)
    assert counts(compiled) == (1, 4, 0)


def test_an_argument_that_no_used_output_depends_on():
    f = fg.compile(lambda x, y: (x * 2, y * 3))
    for _ in range(3):
        x, y = fg.ones(2, requires_grad=True), fg.ones(2, requires_grad=True)
        f(x, y)[0].sum().backward()
        assert x.grad.tolist() == [2, 2]
        assert y.grad is None
        with pytest.raises(RuntimeError, match="not have been used"):
            fg.autograd.grad(f(x, y)[0].sum(), y)


def test_hooks_see_zeros_and_never_nothing():
    f = fg.compile(lambda x, y: (x * 2, y * 3))
    seen = []
    for _ in range(3):
        x, y = fg.ones(2, requires_grad=True), fg.ones(2, requires_grad=True)
        y.register_hook(lambda g: seen.append((g * 2).tolist()))
        f(x, y)[0].sum().backward()
        f(x, y * 1)[0].sum().backward()
    assert seen == [[0, 0]] * 6


# --- arguments with a history ------------------------------------------------------------------------------------


def test_arguments_of_which_one_follows_from_another():
    def make(wrap, log):
        w = fg.ones(3, requires_grad=True)
        f = wrap(lambda x, z, u: (x * z + u).sum() * w.sum())

        def step(k):
            z = fg.randn(3, requires_grad=True)
            x = z + z
            u = x.sin() + z
            for t, name in ((z, "z"), (x, "x"), (u, "u")):
                t.register_hook(lambda g, name=name: log.append((name, g.tolist())))
            w.grad = None
            f(x, z, u).backward()
            log.append((z.grad.tolist(), w.grad.tolist()))

        return step

    eager, found, compiled = both(make)
    assert len(eager) == len(found)
    for a, b in zip(eager, found, strict=True):
        assert a[0] == b[0] if isinstance(a[0], str) else fg.allclose(fg.tensor(a[0]), fg.tensor(b[0]))
        assert fg.allclose(fg.tensor(a[1]), fg.tensor(b[1]))
    assert counts(compiled) == (1, 4, 0)


def test_parts_of_one_tensor():
    def make(wrap, log):
        f = wrap(lambda a, b: (a * b).sum())

        def step(k):
            z = fg.randn(4, requires_grad=True)
            a, b = z.split(2)
            a.register_hook(lambda g: log.append(g.tolist()))
            f(a, b).backward()
            log.append(z.grad.tolist())

        return step

    eager, found, compiled = both(make)
    for a, b in zip(eager, found, strict=True):
        assert fg.allclose(fg.tensor(a), fg.tensor(b))
    assert counts(compiled)[1] == 4


# --- second derivatives ------------------------------------------------------------------------------------------


def penalty(log, f, parameters, k, leaf):
    """A gradient penalty: the gradient of a norm of a gradient."""
    z = fg.randn(4, 3, requires_grad=True)
    x = z if leaf else (z * 2).tanh()
    for p in parameters:
        p.grad = None
    y = f(x, scale=2.0)
    (g,) = fg.autograd.grad(y.sum(), x, create_graph=True)
    ((g.pow(2).sum(1) - 1).pow(2).mean() + y.mean()).backward()
    log += [y.detach(), g.detach(), z.grad, *(p.grad.clone() for p in parameters), fg.rand(1)]


@pytest.mark.parametrize("leaf", [True, False])
def test_a_gradient_penalty(leaf):
    def make(wrap, log):
        model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Dropout(0.3), nn.Linear(8, 1))
        parameters = list(model.parameters())[:-1]  # the last bias has no part in it
        f = wrap(lambda x, scale=1.0: model(x) * scale)
        return lambda k: penalty(log, f, parameters, k, leaf)

    eager, found, compiled = both(make)
    assert all(fg.allclose(a, b, atol=1e-5) for a, b in zip(eager, found, strict=True))
    assert counts(compiled)[1:] == (3, 0)  # the first call had no gradients yet


def test_hooks_run_as_often_as_eagerly_with_second_derivatives():
    def make(wrap, log):
        w = fg.ones(3, requires_grad=True)
        w.register_hook(lambda g: log.append(("w", g.tolist())))
        f = wrap(lambda x: (x * w).pow(3).sum())

        def step(k):
            w.grad = None
            z = fg.full((3,), 1.0 + k, requires_grad=True)
            x = z * 1
            x.register_hook(lambda g: log.append(("x", g.tolist())))
            (g,) = fg.autograd.grad(f(x), x, create_graph=True)
            g.sum().backward()
            log.append(("grads", z.grad.tolist() + w.grad.tolist()))

        return step

    eager, found, compiled = both(make)
    assert [name for name, _ in eager] == [name for name, _ in found]
    for (_, a), (_, b) in zip(eager, found, strict=True):
        assert fg.allclose(fg.tensor(a), fg.tensor(b))
    assert counts(compiled)[1] == 4


def test_third_derivatives_and_several_outputs():
    def make(wrap, log):
        f = wrap(lambda x, n: ((x**4).sum(), x.sin() * x, n, x.sum().item()))

        def step(k):
            x = fg.full((2,), 1.5 + k, requires_grad=True)
            a, b, _, value = f(x, 3)
            (g,) = fg.autograd.grad(a + b.sum(), x, create_graph=True)
            (h,) = fg.autograd.grad(g.sum(), x, create_graph=True)
            (t,) = fg.autograd.grad(h.sum(), x)
            log.extend([g.detach(), h.detach(), t, fg.tensor(value)])

        return step

    eager, found, compiled = both(make)
    assert all(fg.allclose(a, b, rtol=1e-4) for a, b in zip(eager, found, strict=True))
    assert counts(compiled)[1] == 4


def differentiated_twice(f, *args, between=lambda: None):
    y = f(*args)
    between()
    return fg.autograd.grad(y.sum(), args[0], create_graph=True)


def test_what_cannot_be_differentiated_again_says_why():
    w, total, shift = fg.ones(3, requires_grad=True), fg.zeros(3), fg.ones(3)
    scale = [2.0]

    def changes(x):
        total.add_(1)
        return x * w

    def reads(x):
        return (x + shift).sin() * w * scale[0]

    hooked = nn.Linear(3, 3)
    hooked.register_forward_hook(lambda m, args, out: None)
    x = fg.ones(3, requires_grad=True)
    cases = [
        (fg.compile(changes), lambda: None, "it changes a tensor from outside"),
        (fg.compile(reads), lambda: shift.add_(1), "was changed after the call"),
        (fg.compile(reads), lambda: setattr(shift, "data", fg.zeros(3)), "was changed after the call"),
        (
            fg.compile(reads),
            lambda: scale.__setitem__(0, scale[0] + 1),
            "was 2.0 and is 3.0|was 3.0 and is 4.0",
        ),
        (fg.compile(reads), lambda: fg.set_default_dtype(fg.float64), "default dtype"),
        (fg.compile(hooked), lambda: None, "it calls hooks or custom functions"),
        (fg.compile(lambda y: y * x), lambda: None, "it also reaches otherwise"),
    ]
    try:
        for f, between, why in cases:
            for _ in range(2):
                with pytest.raises(RuntimeError, match=why):
                    differentiated_twice(f, x, between=between)
                fg.set_default_dtype(fg.float32)
    finally:
        fg.set_default_dtype(fg.float32)


def test_a_parameter_that_changes_before_it_is_differentiated_again():
    w = fg.ones(3, requires_grad=True)
    f = fg.compile(lambda x: x * w * w)
    x = fg.ones(3, requires_grad=True)

    def change():
        with fg.no_grad():
            w.mul_(2)

    for _ in range(2):
        with pytest.raises(
            RuntimeError, match=r"modified by an inplace operation|was changed after the call"
        ):
            differentiated_twice(f, x, between=change)
