"""The sentences of docs/compiled_autograd.md, one test for each number: hooks as classes, custom functions, attacks."""

from __future__ import annotations

import gc
import random
import signal
import threading

import pytest

import fastgrad as fg
from fastgrad.autograd import compiled
from fastgrad.autograd.graph import FunctionPostHook, FunctionPreHook, PostAccumulateGradHook
from tests.autograd.random_programs.draw import draw
from tests.autograd.random_programs.features import available
from tests.autograd.random_programs.run import Run
from tests.autograd.test_compiled_autograd import both, chain, counted, leaf, no_plans  # noqa: F401 - a fixture

PROGRAMS = 300


class Scale(FunctionPreHook):
    """Multiplies by a tensor."""

    def __init__(self, scale, log=None):
        self.scale, self.log = scale, log

    def __call__(self, grads):
        return [g * self.scale for g in grads]

    def compiled_args(self, args):
        if self.log is not None:
            self.log.append("args")
        args.collect(self.scale)


class Add(FunctionPostHook):
    """Adds a number."""

    def __init__(self, number):
        self.number = number

    def __call__(self, outputs, inputs):
        return [o if o is None else o + self.number * inputs[0] for o in outputs]

    def compiled_args(self, args):
        args.collect(self.number)


class Step(PostAccumulateGradHook):
    """Steps along the gradient with a rate that is a tensor."""

    def __init__(self, rate, log=None):
        self.rate, self.log = rate, [] if log is None else log

    def step(self, tensor, rate):
        with fg.no_grad():
            tensor.sub_(tensor.grad * rate)
        tensor.grad = None

    def __call__(self, tensor):
        self.log.append("called")
        self.step(tensor, self.rate)

    def compiled_args(self, args):
        args.collect(self.rate)

    def apply_with_saved(self, tensor, saved):
        self.log.append("applied")
        rate = saved.before(self.rate)
        self.step(tensor, rate)
        saved.after(self.rate)


def hooked(pre=(), post=(), after=None):
    x = leaf()
    y = x * 3
    for hook in pre:
        y.grad_fn.add_pre_hook(hook)
    for hook in post:
        y.grad_fn.add_post_hook(hook)
    if after is not None:
        x._set_post_accumulate_grad_hook(after)
    y.sin().sum().backward()
    return x.grad if after is None else x.detach()


# --- hooks as classes --------------------------------------------------------------------------------------------


def test_c19_asked_in_every_pass_before_it_runs():
    log = []
    hook = Scale(fg.tensor(2.0), log)

    def program():
        x = leaf()
        y = x * 3
        y.grad_fn.add_pre_hook(hook)
        y.register_hook(lambda g: log.append("hook"))
        y.sum().backward()
        return x.grad.tolist()

    assert counted(program, program) == [1, 0]
    assert log == ["args", "hook"] * 2
    compiled.reset()
    both(program)


@pytest.mark.parametrize("base", [FunctionPreHook, FunctionPostHook, PostAccumulateGradHook])
def test_c19_a_class_that_says_nothing(base):
    made = type("Silent", (base,), {"__call__": lambda self, *values: values[0]})
    places = {FunctionPreHook: "pre", FunctionPostHook: "post"}

    def program():
        if base in places:
            hooked(**{places[base]: [made()]})
        else:
            hooked(after=type("Silent", (made,), {"__call__": lambda self, tensor: None})())

    program()
    with compiled(), pytest.raises(NotImplementedError, match="is not implemented by Silent"):
        program()
    if base is PostAccumulateGradHook:
        half = type("Half", (base,), {"compiled_args": lambda self, args: None})
        with (
            compiled(),
            pytest.raises(NotImplementedError, match="apply_with_saved is not implemented by Half"),
        ):
            hooked(after=half())


def test_c20_what_is_collected():
    def add(value):
        return lambda: hooked(post=[Add(value)])

    class Numbers(Add):
        def __init__(self, *values):
            super().__init__(1)
            self.values = values

        def compiled_args(self, args):
            for value in self.values:
                args.collect(value)

    def numbers(*values):
        return lambda: hooked(post=[Numbers(*values)])

    assert counted(add(1), add(2), add(1), add(2.0), add(3.0), add(True)) == [1, 1, 0, 1, 0, 1]
    shape, text = fg.ones(2, 3).shape, "text"
    assert counted(numbers(shape), numbers((2, 3)), numbers([2, 4]), numbers(text), numbers("other")) == [
        1,
        0,
        1,
        1,
        1,
    ]
    assert (
        counted(numbers(None), numbers(fg.float32), numbers(fg.float64), numbers(b"b"), numbers(print))
        == [1] * 5
    )
    assert counted(numbers(len), numbers({"a": 1}), numbers({"a": 2}), numbers(fg.device("cpu"))) == [
        0,
        1,
        1,
        1,
    ]


def test_c20_tensors_are_told_apart_by_identity():
    a, b, c = fg.tensor(2.0), fg.tensor(5.0), fg.tensor(2.0, dtype=fg.float64)

    def scaled(*scales):
        return lambda: hooked(pre=[Scale(s) for s in scales])

    assert counted(scaled(a, a), scaled(b, b), scaled(a, b), scaled(b, a)) == [1, 0, 1, 0]
    with compiled(), pytest.raises(RuntimeError, match="changed the type"):
        scaled(c.reshape(1), c.reshape(1))()
    assert both(lambda: hooked(pre=[Scale(a), Scale(b)]).tolist())


def test_c20_what_cannot_be_collected():
    class Odd(Scale):
        def compiled_args(self, args):
            args.collect([object()])

    class Endless(Scale):
        def compiled_args(self, args):
            args.collect(self.scale)

    class Keeps(Scale):
        def compiled_args(self, args):
            self.args = args

    endless = []
    endless.append(endless)
    with compiled():
        with pytest.raises(TypeError, match="but got object"):
            hooked(pre=[Odd(1)])
        with pytest.raises(RecursionError):
            hooked(pre=[Endless(endless)])
        keeps = Keeps(fg.tensor(2.0))
        hooked(pre=[keeps])
        with pytest.raises(RuntimeError, match="key was complete"):
            keeps.args.collect(1)


def test_c20_values_that_lie():
    class Number(int):
        def __hash__(self):
            raise KeyError("hash")

        def __eq__(self, other):
            raise KeyError("eq")

        def __index__(self):
            raise KeyError("index")

    class Text(str):
        __slots__ = ()

        def __str__(self):
            raise KeyError("str")

        __hash__ = None

    class Lies(Add):
        def compiled_args(self, args):
            args.collect([Number(3), Text("t")])

    def program():
        hooked(post=[Add(1), Lies(1)])

    assert counted(program, program) == [1, 0]


def test_c21_applied_with_saved():
    rate, log = fg.tensor(0.5), []
    hook = Step(rate, log)
    eager = hooked(after=hook).tolist()
    with compiled() as passes:
        assert hooked(after=hook).tolist() == eager
        hook.rate = fg.tensor(0.25)
        assert hooked(after=hook).tolist() != eager
    assert log == ["called", "applied", "applied"]
    assert (passes.captures, passes.hits) == (1, 1)


def test_c21_before_and_after():
    class Bad(Step):
        def apply_with_saved(self, tensor, saved):
            self.wrong(tensor, saved)

    def unknown(tensor, saved):
        saved.before(tensor)

    def lonely(tensor, saved):
        saved.after(rate)

    def left(tensor, saved):
        saved.before([rate])

    def nested(tensor, saved):
        values = saved.before({"a": (rate, 1, [rate])})
        assert values["a"][0] is rate
        assert values["a"][1] == 1
        saved.after({"a": (rate, 1, [rate])})

    rate = fg.tensor(0.5)
    messages = {
        unknown: "did not collect",
        lonely: r"before\(\) did not get",
        left: r"before\(\) without after",
    }
    with compiled():
        for wrong, message in messages.items():
            hook = Bad(rate)
            hook.wrong = wrong
            with pytest.raises(RuntimeError, match=message):
                hooked(after=hook)
        hook = Bad(rate)
        hook.wrong = nested
        hooked(after=hook)
        hook.wrong = lambda tensor, saved: None
        hook.__class__ = type("Returns", (Step,), {"apply_with_saved": lambda self, tensor, saved: 5})
        with pytest.raises(TypeError, match="expected Variable, but hook returned 'int'"):
            hooked(after=hook)


def test_c22_a_hook_that_comes_in_the_course_of_a_pass():
    log = []

    def program():
        x = leaf()
        y = x * 2
        y.register_hook(lambda g: x._set_post_accumulate_grad_hook(Step(fg.tensor(0.5), log)))
        y.grad_fn.add_pre_hook(Scale(fg.tensor(3.0)))
        y.sum().backward()
        return x.tolist()

    both(program)
    assert log == ["called"] * 3


def test_c22_while_a_tape_records():
    from fastgrad.native.host.tape import record

    log = []
    with compiled(), record(hooks=True) as tape:
        hooked(after=Step(fg.tensor(0.5), log))
    tape.replay()
    assert log == ["called"] * 2


# --- custom functions --------------------------------------------------------------------------------------------


class Twice(fg.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2 + ctx.saved_tensors[0] * 0


class Thrice(Twice):
    @staticmethod
    def backward(ctx, grad):
        return grad * 3


class Keyed(Twice):
    @staticmethod
    def forward(ctx, x, number):
        ctx.number = number
        return x * number

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.number, None

    @staticmethod
    def _compiled_autograd_key(ctx):
        return ctx.number


def test_c23_custom_functions():
    def run(function, *args):
        x = leaf()
        function.apply(x, *args).sum().backward()
        return x.grad.tolist()

    calls = [lambda f=f: run(f) for f in (Twice, Thrice, Twice)]
    assert counted(*calls) == [1, 1, 0]
    keyed = [lambda n=n: run(Keyed, n) for n in (2, 3, 2)]
    assert counted(*keyed) == [1, 1, 0]
    assert Twice._compiled_autograd_should_lift
    for call in calls + keyed:
        compiled.reset()
        both(call)


# --- attacks -----------------------------------------------------------------------------------------------------


def test_c24_what_raises_in_compiled_args():
    class Raises(Scale):
        def compiled_args(self, args):
            raise self.scale

    with compiled():
        for error in (KeyError("mine"), KeyboardInterrupt(), SystemExit(3)):
            with pytest.raises(type(error)):
                hooked(pre=[Raises(error)])
            assert not fg.autograd.graph._current_graph_task_id() > 0
        assert hooked().tolist() == hooked().tolist()


def test_c24_an_interruption():
    class Waits(Scale):
        def compiled_args(self, args):
            signal.raise_signal(signal.SIGINT)
            for _ in range(1000):
                pass

    x = leaf()
    y = x * 2
    y.grad_fn.add_pre_hook(Waits(1))
    with compiled(), pytest.raises(KeyboardInterrupt):
        y.sum().backward()
    assert x.grad is None


def test_c24_compiled_args_that_change_the_graph():
    log = []

    class Changes(Scale):
        def compiled_args(self, args):
            self.change()

    def program(what):
        log.clear()
        x = leaf()
        y = x * 2
        z = y.sin()
        hook = Changes(fg.tensor(3.0))
        handle = z.register_hook(lambda g: log.append("removed"))
        changes = {
            "hooks": lambda: (handle.remove(), y.register_hook(lambda g: log.append("added"))),
            "numbers": lambda: (y.grad_fn._set_sequence_nr(10**9), z.grad_fn._set_sequence_nr(3)),
            "pass": lambda: (
                z.sum().backward(retain_graph=True) if not log and not log.append("once") else None
            ),
            "reset": lambda: (compiled.reset(), gc.collect()),
            "own": lambda: y.grad_fn.add_pre_hook(Scale(fg.tensor(2.0))),
            "freed": lambda: setattr(x, "grad", None),
        }
        hook.change = changes[what]
        y.grad_fn.add_pre_hook(hook)
        z.sum().backward()
        return x.grad.tolist()

    for what in ("hooks", "numbers", "pass", "reset", "own", "freed"):
        with compiled():
            first = program(what)
            assert program(what) == first, what
    assert log == ["removed"]


def test_c24_hooks_that_forget_plans():
    def program():
        hooks = [lambda g: compiled.reset(), lambda g: [gc.collect(), None][1]]
        return chain(2, [*hooks, lambda g: chain(3).sum() * g]).tolist()

    both(program)


def test_c24_dicts_that_are_none():
    def program():
        x = leaf()
        y = (x * 2).sum()
        x.register_hook(lambda g: None)
        x.__dict__["_backward_hooks"] = 5
        with pytest.raises(TypeError, match="must be a dict"):
            y.backward()
        del x.__dict__["_backward_hooks"]
        y = (x * 2).sum()
        y.backward()
        return x.grad.tolist()

    both(program)


def test_c24_one_graph_on_several_threads():
    x = leaf()
    y = x
    for _ in range(50):
        y = y * 1.0
        y.register_hook(lambda g: None)
    total = y.sum()
    failures = []

    def work():
        try:
            with compiled():
                for _ in range(40):
                    total.backward(retain_graph=True)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert x.grad.tolist() == [160.0, 160.0]


@pytest.mark.parametrize("start", range(0, PROGRAMS, 50))
def test_c10_random_programs(start):
    features = available(fg)
    for seed in range(start, start + 50):
        program = draw(random.Random(seed), features)
        eager = repr(Run(fg, program).log)
        with compiled():
            for _ in range(2):
                assert repr(Run(fg, program).log) == eager, f"seed {seed}\n{program}"
