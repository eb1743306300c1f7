"""What a replay does for a hook: compiled code makes the call, so that little of Python's runs besides the hook."""

from __future__ import annotations

import sys
import warnings

import pytest

import fastgrad as fg
from fastgrad import nn
from fastgrad.native.build.loader import rt
from fastgrad.native.contracts.records import (
    ALIAS_HOLE,
    INPUT_HOLE,
    MOST_ARGUMENTS,
    MOST_HOLES,
    OWN_HOLE,
    PLAIN_HOLE,
)
from fastgrad.native.host.call_arguments import Hole, quick
from tests.compiler.test_calls import both, net, training, values
from tests.compiler.test_compile import Recording, laid

N = 20


def python_calls(function):
    """How many functions of Python, and of C from Python, a call calls."""
    count = [0]

    def note(frame, event, arg):
        count[0] += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count[0]


def deep(kind):
    """A compiled step of a model with a hook at each of its layers, and what each replay calls."""
    model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(N)))
    for layer in model if kind else ():
        target = layer.weight if kind in ("register_hook", "register_post_accumulate_grad_hook") else layer
        getattr(target, kind)(lambda *args: None)
    call = fg.compile(training(model))
    x = fg.ones(2, 4, requires_grad=True)
    for _ in range(5):
        call(x)
    assert fg.compile.explain(call).signatures[0].n_replayed >= 2
    return python_calls(lambda: call(x))


@pytest.mark.parametrize(
    "kind",
    [
        "register_full_backward_hook",
        "register_full_backward_pre_hook",
        "register_forward_hook",
        "register_forward_pre_hook",
        "register_hook",
        "register_post_accumulate_grad_hook",
    ],
)
def test_a_hook_costs_few_calls_of_python(kind):
    """Two of them: the one that finds what is to be called, and the hook."""
    assert deep(kind) - deep("") <= 2 * N + 8


# --- what hooks do -----------------------------------------------------------------------------------------------


def after_each(how):
    """What hooks behind leaves saw and kept, and what gradients and parameters are left, eagerly or compiled."""

    def run(wrap):
        model, log, kept = net(), [], []

        def hook(p):
            log.append((values([p, p.grad]), p.grad is p.grad))
            kept.append(p.grad)
            if how == "steps":
                with fg.no_grad():
                    p.sub_(p.grad, alpha=0.1)
                p.grad = None
            elif how == "scales":
                p.grad.mul_(2)
            elif how == "replaces":
                p.grad = p.grad * 2
            return p if how == "returns" else None

        for p in model.parameters():
            p.register_post_accumulate_grad_hook(hook)

        @wrap
        def step(x):
            if how != "adds":
                for p in model.parameters():
                    p.grad = None
            model(x).sum().backward()

        for k in range(5):
            fg.manual_seed(k)
            step(fg.randn(2, 4))
        left = [None if p.grad is None else values(p.grad) for p in model.parameters()]
        return log, values(kept), left, values(list(model.parameters()))

    return run


@pytest.mark.parametrize("how", ["looks", "steps", "scales", "replaces", "adds", "returns"])
def test_hooks_behind_leaves(how):
    run = after_each(how)
    assert run(fg.compile) == run(lambda f: f)


def test_a_hook_behind_a_leaf_that_returns_something_later():
    w = fg.ones(2, requires_grad=True)
    answers = [None] * 4 + [5]
    w.register_post_accumulate_grad_hook(lambda p: answers.pop(0))

    @fg.compile
    def step(x):
        w.grad = None
        (w * x).sum().backward()

    for _ in range(4):
        step(fg.ones(2))
    with pytest.raises(RuntimeError, match="returned something else"):
        step(fg.ones(2))


def grad_hook(log, change):
    def hook(m, grad_input, grad_output):
        log.append((values(grad_input), values(grad_output)))
        return change(grad_input, grad_output)

    return hook


def tripled(t, *_):
    t.mul_(3)


CHANGES = {
    "nothing": lambda gi, go: None,
    "the same": lambda gi, go: gi,
    "others": lambda gi, go: tuple(g * 2 for g in gi),
    "a list": lambda gi, go: [g + 1 for g in gi],
    "in place": lambda gi, go: tripled(gi[0]),
    "outputs in place": lambda gi, go: tripled(go[0]),
    "a view in place": lambda gi, go: tripled(gi[0][0]),
    "sometimes in place": lambda gi, go: tripled(gi[0]) if gi[0].sum() > 0 else None,
    "sometimes others": lambda gi, go: (gi[0] * 3,) if gi[0].sum() > 0 else None,
    "from outputs": lambda gi, go: (go[0] @ fg.ones(4, 4),),
    "transposed": lambda gi, go: (gi[0].t().contiguous().t() * 2,),
}


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        return x + self.b(self.a(x).relu()) * x


@pytest.mark.parametrize("whole", [True, False], ids=["step", "forward"])
@pytest.mark.parametrize("change", CHANGES)
def test_full_backward_hooks_that_change_gradients(change, whole):
    """Those that a boundary hands on as they are, which others hold as well, through residual layers."""

    def make(log):
        fg.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 4), Residual(), nn.Tanh(), Residual())
        for m in (model[1], model[1].a, model[2], model[3], model[3].b):
            m.register_full_backward_hook(grad_hook(log, CHANGES[change]))
            m.register_full_backward_hook(grad_hook(log, CHANGES["nothing"]))
        return (training(model) if whole else lambda x: model(x)), model

    both(make)


@pytest.mark.parametrize("inputs", ["none", "some"])
def test_gradients_that_are_none(inputs):
    """The first layer's input requires no gradient; of two inputs one is not used."""

    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, a, b=None):
            return self.linear(a)

    def make(log):
        fg.manual_seed(0)
        model = nn.ModuleList([nn.Linear(4, 4), Two()])
        first = lambda m, gi, go: log.append((values(gi), values(go)))  # noqa: E731
        model[1].register_full_backward_hook(first)
        if inputs == "none":
            model[0].register_full_backward_hook(first)

        def step(x):
            model.zero_grad()
            h = model[0](x)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model[1](h, h * 2 if inputs == "some" else x).sum().backward()
            return h.detach()

        return step, model

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        both(make)


def test_what_full_backward_hooks_keep_is_theirs():
    """Both gradients of each of some calls, of which later launches have copies."""
    model, kept = net(2), []
    model[2].register_full_backward_hook(lambda m, gi, go: kept.append((gi[0], go[0])))
    call = fg.compile(training(model))
    seen = []
    for k in range(6):
        call(fg.full((2, 4), k + 1.0))
        seen.append([[p.clone() for p in pair] for pair in kept])
    for k in range(6):
        for pair, now in zip(seen[k], kept, strict=False):
            assert all(fg.equal(a, b) for a, b in zip(pair, now, strict=True))
    assert len({t.data_ptr() for pair in kept for t in pair}) == 12


@pytest.mark.parametrize("kind", ["register_full_backward_hook", "register_full_backward_pre_hook"])
def test_hooks_that_add_and_remove_hooks(kind):
    def make(log):
        model = net(3)
        handles = []

        def hook(m, *grads):
            log.append(("first", values(grads)))
            while handles:
                handles.pop().remove()
            if len(log) < 30:
                handles.append(getattr(model[2], kind)(lambda m, *g: log.append(("added", values(g)))))

        getattr(model[4], kind)(hook)
        return training(model), model

    both(make, least=0, calls=8)


def test_a_hook_that_raises_leaves_all_as_it_was():
    model, fails = net(2), [0]

    def hook(m, gi, go):
        if fails[0]:
            raise ValueError("enough")

    model[2].register_full_backward_hook(hook)
    call = fg.compile(training(model))
    x = fg.ones(2, 4)
    for _ in range(4):
        expected = call(x)
    for _ in range(20):
        fails[0] = 1
        with pytest.raises(ValueError, match="enough"):
            call(x)
        fails[0] = 0
        assert fg.equal(call(x), expected)


def test_a_forward_hook_that_returns_something_later():
    model, answer = net(2), [None]
    model[1].register_forward_hook(lambda m, args, out: answer[0] and out * 2)
    call = fg.compile(training(model))
    for _ in range(4):
        call(fg.ones(2, 4))
    answer[0] = True
    with pytest.raises(RuntimeError, match="returned something else"):
        call(fg.ones(2, 4))


def test_a_forward_hook_that_leaves_hooks_later():
    model, leaves = net(2), []
    model[1].register_forward_hook(lambda m, args, out: out.register_hook(print) and None if leaves else None)
    call = fg.compile(training(model))
    for _ in range(4):
        call(fg.ones(2, 4))
    leaves.append(1)
    with pytest.raises(RuntimeError, match="left other hooks"):
        call(fg.ones(2, 4))


# --- plans -------------------------------------------------------------------------------------------------------


def test_plans_that_compiled_code_does_not_know():
    def rest(*_):
        pass

    assert quick(print, (Hole(0), (Hole(1), None)), [(b"", 0)] * 2, rest) is not None
    for args in (
        (1,),
        ([Hole(0)],),
        ({"a": Hole(0)},),
        ((Hole(0), (Hole(0),)),),
        (None,) * (MOST_ARGUMENTS + 1),
    ):
        assert quick(print, args, [(b"", 0)], rest) is None
    assert quick(print, (None,), [(b"", 0)] * (MOST_HOLES + 1), rest) is None


def test_plans_that_say_what_cannot_be():
    """Forged ones are errors, within a replay and outside of one."""
    x, w = fg.ones(8), fg.ones(4)
    recording = Recording(lambda: x * w[0], [x], [w])
    tape = recording.bind([recording.result]).tape
    where = laid(0, 0, (8,))

    def rest(*_):
        pass

    right = (print, (0,), (where,), OWN_HOLE, rest, None)
    for k, wrong in (
        (1, [0]), (1, (1,)), (1, (-1,)), (1, (2**70,)), (1, (0,) * 5), (1, ((1,),)), (1, None),
        (2, [where]), (2, (b"",)), (2, (None,)), (2, (where,) * 20), (2, (laid(9, 0, (1,)),)), (2, None),
        (3, "0"), (3, None),
    ):  # fmt: skip
        plan = (*right[:k], wrong, *right[k + 1 :])
        with pytest.raises(RuntimeError):
            rt.call_quickly(tape, plan)
    for kind in (OWN_HOLE, ALIAS_HOLE, PLAIN_HOLE, INPUT_HOLE):  # outside of a call nothing lies there
        with pytest.raises(RuntimeError):
            rt.call_quickly(tape, (print, (0,), (where,), kind, rest, None))
    for plan in ((), right[:5], (*right, 1)):
        with pytest.raises(RuntimeError):
            rt.call_quickly(tape, plan)
    with pytest.raises(TypeError):
        rt.call_quickly(tape, None)
    with pytest.raises(TypeError):
        rt.call_quickly(None, right)
    with pytest.raises(TypeError):
        rt.call_quickly(tape, (1, (), (), 0, rest, None))
    assert rt.call_quickly(tape, (lambda: None, (), (), 0, rest, None)) is None
