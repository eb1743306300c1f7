"""Gradients that are kept, and native hooks, within compiled functions that only compute."""

from __future__ import annotations

import pytest

import fastgrad as fg
from tests.compiler.test_compile import _clip
from tests.compiler.test_forward_only import both
from tests.compiler.test_values import counts


def states_of(*tensors):
    return [None if t.grad is None else t.grad.tolist() for t in tensors if t.retains_grad or t.is_leaf]


def test_outputs_keep_their_whole_gradient():
    """What comes from outside and what comes from within, behind the hooks of the tensor, summed over passes."""

    def make(wrap, log):
        w = fg.tensor([1.0, 2.0, 3.0], requires_grad=True)

        def f(x):
            h = x * w
            h.register_hook(lambda g: log.append(("h", g.tolist())))
            h.retain_grad()
            z = h.sin() * w
            z.retain_grad()
            return h, (z * z).sum(), z, x * 2

        call = wrap(f)

        def step(k):
            h, s, z, _ = call(fg.tensor([1.0, 0.5, 2.0]) * (k + 1))
            log.append(("flags", h.retains_grad, z.retains_grad, h.is_leaf))
            for _ in range(2):
                total = ((h * 2).sum() + s, s, (h * 2).sum() + z.sum() + s, s * 2, (h * 2).sum())[k]
                total.backward(retain_graph=True)
                log.append(states_of(h, z, w))
            (g,) = fg.autograd.grad(s, [w], retain_graph=True)
            h.mul_(2)  # from there on it is another tensor's gradient
            fg.autograd.grad((h * 3).sum(), [h])
            log.append((g.tolist(), states_of(h, z, w)))

        return step

    eager, found, compiled = both(make)
    zeros = ("h", [0.0] * 3)
    assert [e for e in found if e != zeros] == [e for e in eager if e != zeros]
    assert counts(compiled)[1] >= 3


def test_a_gradient_that_a_pass_within_has_left():
    def make(wrap, log):
        w = fg.ones(3, requires_grad=True)

        def f(x):
            h = x * w
            h.retain_grad()
            fg.autograd.grad((h * h).sum(), [w], retain_graph=True)
            left = h.detach()
            left.grad = left * 5
            return h, left

        call = wrap(f)

        def step(k):
            h, left = call(fg.ones(3) * k)
            log.append((h.grad.tolist(), left.grad.tolist()))
            h.sum().backward()
            log.append(h.grad.tolist())

        return step

    eager, found, compiled = both(make)
    assert found == eager
    assert counts(compiled) == (2, 3, 0)  # the first call found no gradient of `w`


def test_second_derivatives_keep_gradients_with_a_history():
    def make(wrap, log):
        def f(x):
            h = x**3
            h.retain_grad()
            return h, (h * h).sum()

        call = wrap(f)

        def step(k):
            x = fg.full((2,), 1.0 + k, requires_grad=True)
            h, s = call(x)
            (g,) = fg.autograd.grad(s + h.sum(), x, create_graph=True)
            log.append((h.grad.tolist(), h.grad.requires_grad))
            (second,) = fg.autograd.grad(g.sum() + h.grad.sum(), x)
            log.append(second.tolist())

        return step

    eager, found, compiled = both(make)
    assert found == eager
    assert counts(compiled)[1] == 4


@pytest.mark.parametrize("made", ["outside", "within"])
def test_native_hooks_run_in_the_backward_of_a_call(made):
    """Over tensors and nodes; the state is what eager passes leave, however often they run."""

    def make(wrap, log):
        w = fg.ones(4, requires_grad=True)
        clip = fg.native_hook(_clip, state=fg.tensor([0.5, 0.0]))

        def f(x):
            hook = clip if made == "outside" else fg.native_hook(_clip, state=fg.full((2,), 0.5))
            h = x * w
            h.register_hook(hook)
            y = h * h
            y.grad_fn.register_prehook(hook)
            return y.sum(), hook.state

        call = wrap(f)

        def step(k):
            w.grad = None
            s, state = call(fg.tensor([1.0, -2.0, 0.1, 3.0]) * (k + 1))
            if k == 3:
                with fg.no_grad():
                    clip.state[0] = 0.25
            for _ in range(2):
                (s * k).backward(retain_graph=True)
            log.append((w.grad.tolist(), state.tolist(), clip.state.tolist(), clip.state._version))

        return step

    eager, found, compiled = both(make)
    assert found == eager
    assert counts(compiled) == (1, 4, 0)


def test_a_state_that_requires_grad_by_then_raises():
    w = fg.ones(3, requires_grad=True)
    clip = fg.native_hook(_clip, state=fg.tensor([0.5, 0.0]))

    def f(x):
        h = x * w
        h.register_hook(clip)
        return h.sum()

    for call in (f, compiled := fg.compile(f)):
        for _ in range(3):
            w.grad = None
            s = call(fg.ones(3))
            clip.state.requires_grad_()
            with pytest.raises(RuntimeError, match="has a state that"):
                s.backward()
            clip.state.requires_grad_(False)
    assert counts(compiled) == (1, 2, 0)


def test_what_stands_outside_is_left_to_the_pass():
    """Neither gradients that what a call gets keeps, nor its hooks, nor a graph behind it that was freed."""

    def make(wrap, log):
        w = fg.ones(3, requires_grad=True)
        clip = fg.native_hook(_clip, state=fg.tensor([0.5, 0.0]))
        call = wrap(lambda x: (x * w).sum())

        def step(k):
            x = w.detach().requires_grad_() * (k + 1)
            x.retain_grad()
            x.register_hook(clip)
            if k == 4:
                x.sum().backward()
                x.grad = None
                log.append(fg.autograd.grad(call(x), [w])[0].tolist())
                return
            call(x).backward()
            log.append((x.grad.tolist(), clip.state.tolist()))

        return step

    eager, found, compiled = both(make)
    assert found == eager
    assert counts(compiled)[1] >= 3


def test_a_hook_of_the_backward_that_holds_a_tensor_of_the_call_runs_eagerly():
    def make(wrap, log):
        w = fg.ones(3, requires_grad=True)

        def f(x):
            h = x * w
            h.register_hook(lambda g: log.append(h.sum().item()))
            return h.sum()

        call = wrap(f)
        return lambda k: call(fg.ones(3) * k).backward()

    eager, found, compiled = both(make)
    assert found == eager
    assert "that holds a tensor of this call" in fg.compile.explain(compiled).signatures[0].refused
