"""The sentences of docs/compiled_autograd.md, one test for each number: keys of passes, and what compiled passes do."""

from __future__ import annotations

import re
import threading
import warnings
from pathlib import Path

import pytest

import fastgrad as fg
from fastgrad.autograd import compiled
from fastgrad.autograd.graph import queue_callback, saved_tensors_hooks
from fastgrad.native.contracts.pass_plans import MAX_PLANS

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture(autouse=True)
def no_plans():
    everywhere = compiled.is_enabled()
    compiled.disable()
    compiled.reset()
    yield
    compiled.reset()
    (compiled.enable if everywhere else compiled.disable)()


def leaf(*sizes, **options):
    return fg.ones(sizes or (2,), requires_grad=True, **options)


def counted(*calls):
    """How many plans each call makes, in compiled passes."""
    found = []
    for call in calls:
        with compiled() as passes:
            call()
        found.append(passes.captures)
    return found


def chain(n=2, hooks=(), **options):
    """A pass over a small graph; the gradient."""
    with fg.enable_grad():
        x = leaf(n, **options)
        y = x * 2
        for hook in hooks:
            y.register_hook(hook)
        y.sin().sum().backward()
    return x.grad


def both(program):
    """What a program gives in eager passes; compiled ones have to give the same, with new plans and with old ones."""
    eager = program()
    with compiled():
        assert program() == eager
        assert program() == eager
    return eager


# --- switching it on ---------------------------------------------------------------------------------------------


def test_c1_context_decorator_generator():
    with compiled() as passes:
        assert compiled.is_enabled()
        chain()
    assert not compiled.is_enabled()
    assert (passes.captures, passes.hits) == (1, 0)

    @compiled
    def plain():
        return compiled.is_enabled()

    @compiled()
    def called():
        chain()
        return compiled.is_enabled()

    @compiled(False)
    def eager():
        return compiled.is_enabled()

    @compiled()
    def steps():
        yield compiled.is_enabled()

    assert plain()
    assert called()
    assert passes.hits == 1
    assert next(steps())
    with compiled():
        assert not eager()
        with compiled(False):
            assert not compiled.is_enabled()
        assert compiled.is_enabled()
    with pytest.raises(TypeError, match="'enabled' must be bool"):
        compiled(1)


def test_c1_of_the_thread():
    seen = []
    with compiled():
        thread = threading.Thread(target=lambda: seen.append(compiled.is_enabled()))
        thread.start()
        thread.join()
    assert seen == [False]


def test_c2_of_the_process():
    compiled.enable()
    seen = []
    thread = threading.Thread(target=lambda: seen.append(compiled.is_enabled()))
    thread.start()
    thread.join()
    assert seen == [True]
    with compiled(False):
        assert not compiled.is_enabled()
    compiled.disable()
    assert not compiled.is_enabled()


def test_c3_all_sizes():
    assert counted(chain, chain, lambda: chain(3), lambda: chain(1000)) == [1, 0, 0, 0]
    with compiled(dynamic=True):
        assert chain(5).tolist() == chain(5).tolist()
    with pytest.raises(ValueError, match="for all sizes"):
        compiled(dynamic=False)


# --- keys --------------------------------------------------------------------------------------------------------


def test_c4_what_a_key_holds():
    def changed(**changes):
        x = leaf(2, 3, dtype=changes.get("dtype", fg.float32))
        y = x * changes.get("number", 2.0)
        y = y.cos() if changes.get("op") else y.sin()
        if changes.get("dims"):
            y = y.reshape(6)
        if changes.get("retain_grad"):
            y.retain_grad()
        if changes.get("frozen"):
            x.requires_grad_(False)
        if changes.get("wanted"):
            fg.autograd.grad(y.sum(), x)
        else:
            y.sum().backward(retain_graph=changes.get("retain_graph"))

    changes = [
        {}, {"op": 1}, {"dtype": fg.float64}, {"dims": 1}, {"retain_grad": 1}, {"frozen": 1}, {"wanted": 1},
        {"retain_graph": True},
    ]  # fmt: skip
    calls = [lambda c=c: changed(**c) for c in changes]
    assert counted(*calls) == [1] * len(changes)
    assert counted(*calls, lambda: changed(number=3.0)) == [0] * (1 + len(changes))


def test_c4_edges_and_roots():
    x, z = leaf(), leaf()

    def two(first, second, *roots):
        a = first * second
        b = a.sin()
        fg.autograd.backward([(a, b)[k].sum() for k in roots])

    assert counted(
        lambda: two(x, z, 0, 1), lambda: two(x, x, 0, 1), lambda: two(z, x, 0, 1), lambda: two(x, z, 1, 0),
        lambda: two(x, z, 1),
    ) == [1, 1, 0, 1, 1]  # fmt: skip


def test_c5_hooks_are_counted():
    def twice(g):
        return g * 2

    one, other = lambda g: None, lambda g: g * 10
    calls = [(one,), (other,), (twice,), (one, other), (twice, one), ()]
    assert counted(*[lambda h=h: chain(2, h) for h in calls]) == [1, 0, 0, 1, 0, 1]


def test_c5_places_count():
    def placed(place):
        x = leaf()
        y = x * 2
        node = y.grad_fn
        register = {
            "tensor": lambda: y.register_hook(lambda g: None),
            "pre": lambda: node.register_prehook(lambda g: None),
            "post": lambda: node.register_hook(lambda i, o: None),
            "leaf": lambda: x.register_hook(lambda g: None),
            "after": lambda: x.register_post_accumulate_grad_hook(lambda p: None),
        }
        register[place]()
        y.sum().backward()

    places = ["tensor", "pre", "post", "leaf", "after"]
    assert counted(*[lambda p=p: placed(p) for p in places * 2]) == [1] * 5 + [0] * 5


def test_c5_a_removed_hook_is_none():
    def removed():
        x = leaf()
        y = x * 2
        y.register_hook(lambda g: None).remove()
        y.sin().sum().backward()

    assert counted(chain, removed) == [1, 0]


def test_c6_gradients_that_are_there():
    x = leaf()

    def step():
        (x * 2).sum().backward()

    def fresh():
        x.grad = None
        step()

    assert counted(step, step, fresh) == [1, 0, 0]
    assert x.grad.tolist() == [2.0, 2.0]


def test_c7_order_of_making():
    def made(reverse):
        x, log = leaf(), []
        parts = [None, None]
        for k in (1, 0) if reverse else (0, 1):
            parts[k] = x * 2
            parts[k].register_hook(lambda g, k=k: log.append(k))
        (parts[0] + parts[1]).sum().backward()
        return log

    def again():
        assert made(True) == [0, 1]
        assert made(False) == [1, 0]

    again()
    assert counted(again, again) == [2, 0]
    reasons = [plan.reason for plan in compiled.explain()]
    assert any(r.startswith("nodes were made in another order") for r in reasons)


def test_c8_explained():
    with compiled() as passes:
        chain()
        chain(dtype=fg.float64)
        chain(3)
        chain(2, [lambda g: None])
    assert (passes.captures, passes.hits) == (3, 1)
    plans = compiled.explain()
    assert sorted(p.hits for p in plans) == [0, 0, 1]
    assert {(p.nodes, p.runs) for p in plans} == {(4, 4)}
    reasons = " ".join(p.reason for p in plans)
    assert "no graph began like this one" in reasons
    assert "dtype" in reasons
    compiled.reset()
    assert compiled.explain() == ()
    assert counted(chain) == [1]


def test_c8_the_oldest_plans_go():
    def length(n):
        y = x = leaf()
        for _ in range(n):
            y = y * 2
        y.sum().backward()
        return x.grad

    with compiled() as passes:
        for n in range(MAX_PLANS + 10):
            length(n % 60 if n % 2 else n)
    assert passes.captures > MAX_PLANS / 2
    assert len(compiled.explain()) <= MAX_PLANS
    with compiled():
        assert length(3).tolist() == [8.0, 8.0]


# --- as eager passes do ------------------------------------------------------------------------------------------


def test_c9_a_pass_that_raises():
    def fails(g):
        raise KeyError("mine")

    def program():
        with pytest.raises(KeyError, match="mine"):
            chain(2, [fails])
        return chain(2, [lambda g: g * 2]).tolist()

    both(program)
    compiled.reset()
    with compiled() as passes:
        program()
    assert (passes.captures, passes.hits) == (1, 1)


def test_c10_hooks_that_change_hooks():
    def program():
        log = []
        x = leaf()
        a = x * 2
        b = a.sin()
        c = b.exp()
        handle = a.register_hook(lambda g: log.append("removed"))

        def change(g):
            log.append("change")
            handle.remove()
            a.grad_fn.register_prehook(lambda gs: log.append("pre"))
            a.grad_fn.register_hook(lambda i, o: log.append("post"))
            b.register_hook(lambda g: log.append("late"))
            x.register_hook(lambda g: g * 3)
            x.register_post_accumulate_grad_hook(lambda p: log.append(p.grad.tolist()))
            a.retain_grad()

        c.register_hook(change)
        c.sum().backward()
        return log, a.grad.tolist(), x.grad.tolist()

    log = both(program)[0]
    assert log[:4] == ["change", "late", "pre", "post"]


def test_c11_captures():
    def program():
        x = leaf()
        y = x * 2
        y.register_hook(lambda g: g * 10)
        z = (y * y).sum()
        kept = fg.autograd.grad(z, [y, x], retain_graph=True)
        y.sum().backward(inputs=[x], retain_graph=True)
        unused = fg.autograd.grad(z, [leaf(), x], allow_unused=True)
        return [g if g is None else g.tolist() for g in (*kept, x.grad, *unused)]

    both(program)


@pytest.mark.parametrize("wrong", ["size", "dtype", "int", "tuple", "arity"])
def test_c12_each_hook_is_checked(wrong):
    hooks = {
        "size": lambda g: g[:1], "dtype": lambda g: g.double(), "int": lambda g: 5, "tuple": lambda g: (g,),
        "arity": lambda: None,
    }  # fmt: skip

    def program():
        with pytest.raises((TypeError, RuntimeError)) as caught:
            chain(2, [hooks[wrong]])
        return type(caught.value), str(caught.value)

    both(program)


def test_c12_callbacks_and_anomalies():
    def program():
        log = []
        chain(2, [lambda g: queue_callback(lambda: log.append("callback"))])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with fg.autograd.detect_anomaly(), pytest.raises(RuntimeError) as caught:
                chain(2, [lambda g: g * float("nan")])
        return log, str(caught.value)

    assert both(program)[0] == ["callback"]


def test_c13_freed_and_changed():
    def program():
        x = leaf()
        y = x * 2
        z = y.sin()
        total = z.sum()
        total.backward()
        with pytest.raises(RuntimeError, match="second time"):
            total.backward()
        y = leaf() * 2
        z = y.sin()
        y.mul_(3)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            z.sum().backward()
        return True

    both(program)


def test_c14_nested_passes():
    def program():
        log = []
        x = leaf()
        y = (x * x).sum()

        def inner(g):
            log.append(compiled.is_enabled() or "eager")
            with fg.enable_grad():
                z = leaf()
                (z * x.detach()).sum().backward()
                log.append(z.grad.tolist())
            (again,) = fg.autograd.grad(y, x, retain_graph=True)
            log.append(again.tolist())

        w = y * 2
        w.register_hook(inner)
        w.backward()
        return log[1:], x.grad.tolist()

    both(program)


def test_c14_switched_in_hooks():
    seen = []

    def hook(g):
        with compiled():
            seen.append(chain().tolist())
        with compiled(False):
            seen.append(chain().tolist())

    assert chain(2, [hook]).tolist() == chain().tolist()
    with compiled():
        chain(2, [hook])
        assert compiled.is_enabled()
    assert len({tuple(s) for s in seen}) == 1


def test_c14_threads():
    failures = []

    def work(k):
        try:
            with compiled():
                for n in range(60):
                    x = leaf(3)
                    y = x
                    for _ in range(n % 7):
                        y = y * 2
                    y.register_hook(lambda g, n=n: compiled.reset() if n % 20 == k else None)
                    y.sum().backward()
                    assert x.grad.tolist() == [2.0 ** (n % 7)] * 3
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_c15_passes_over_passes():
    def program():
        x = fg.tensor([1.0, 2.0, 3.0], requires_grad=True)
        y = (x.sin() * x).sum()
        log = []
        for _ in range(3):
            (g,) = fg.autograd.grad(y, x, create_graph=True)
            g.register_hook(lambda v: log.append(v.tolist()))
            y = (g * g).sum()
        y.backward()
        return log, x.grad.tolist()

    both(program)


@pytest.mark.parametrize("pre", [False, True])
def test_c16_other_numbers_in_a_pass(pre):
    def program():
        log = []
        x = leaf()
        parts = [x * (k + 2) for k in range(4)]
        more = [p.sin() for p in parts]
        for k, p in enumerate(parts):
            p.register_hook(lambda g, k=k: log.append(k))

        def renumber(g):
            log.append("renumber")
            order = fg.autograd.graph._current_graph_task_execution_order
            before = [n.name() for n in order()]
            for k, p in enumerate(parts):
                p.grad_fn._set_sequence_nr(10**9 - k)
            log.append((before, [n.name() for n in order()]))

        (more[3].grad_fn.register_prehook if pre else more[3].register_hook)(renumber)
        total = more[0] + more[1] + more[2] + more[3]
        total.sum().backward()
        return log, x.grad.tolist()

    both(program)


def test_c16_orders_that_are_asked_for():
    def program():
        log = []
        x = leaf()
        y = x * 2

        def hook(g):
            graph = fg.autograd.graph
            log.append([n.name() for n in graph._current_graph_task_execution_order()])
            log.append([graph._will_engine_execute_node(n) for n in (y.grad_fn, z.grad_fn)])

        y.register_hook(hook)
        z = y.sin()
        z.sum().backward(retain_graph=True)
        fg.autograd.grad(z.sum(), y)
        return log

    both(program)


def test_c17_saved_tensor_hooks():
    def program():
        log = []
        with saved_tensors_hooks(
            lambda t: log.append("pack") or (t,), lambda t: log.append("unpack") or t[0]
        ):
            x = leaf()
            y = (x * x).sum()
        y.backward()
        return log, x.grad.tolist()

    both(program)
    compiled.reset()
    x = leaf()
    assert counted(program, lambda: (x * x).sum().backward(), program) == [1, 1, 0]


def test_c18_profiles():
    x = leaf()
    with compiled(), fg.autograd.profiler.profile() as profile:
        (x * 2).sum().backward()
        (x * 2).sum().backward()
    assert sum(e.count for e in profile.key_averages() if "MulBackward0" in e.key) >= 2


def test_c18_compiled_functions():
    @fg.compile
    def step(x):
        return (x * 2).sum()

    x = leaf()
    for _ in range(4):
        step(x).backward()
    (before,) = fg.compile.explain(step).signatures
    with compiled() as passes:
        for _ in range(3):
            step(x).backward()
    (after,) = fg.compile.explain(step).signatures
    assert (after.n_recorded, after.n_replayed) == (before.n_recorded, before.n_replayed + 3)
    assert passes.hits == 2
    assert x.grad.tolist() == [14.0, 14.0]


def test_the_programs_of_the_page():
    scope = {"__name__": "__main__"}
    for program in re.findall(
        r"```python\n(.*?)```", (DOCS / "compiled_autograd.md").read_text(), flags=re.DOTALL
    ):
        exec(program, scope)
    assert scope["passes"].captures == 1
    assert scope["passes"].hits == 9


def test_every_sentence_has_a_test():
    numbers = set(
        re.findall(r"^\*\*C(\d+)\*\*", (DOCS / "compiled_autograd.md").read_text(), flags=re.MULTILINE)
    )
    here = Path(__file__).parent
    text = "".join(
        (here / name).read_text() for name in ("test_compiled_autograd.py", "test_compiled_hooks.py")
    )
    assert numbers == set(re.findall(r"def test_c(\d+)_", text))


THEMES = {}


def theme(program):
    THEMES[program.__name__] = program
    return program


@theme
def accumulating_without_zero():
    x = leaf()
    for n in range(1, 4):
        (x * n).sin().sum().backward()
    return x.grad.tolist()


@theme
def gradients_changed_in_place():
    x = leaf()
    for _ in range(3):
        x.register_hook(lambda g: g.mul_(2))
        (x * x).sum().backward()
        x.grad *= 2
    return x.grad.tolist()


@theme
def keeping_the_graph():
    x = leaf()
    y = (x * x).sum()
    for _ in range(3):
        y.backward(retain_graph=True)
    return x.grad.tolist()


@theme
def gradients_that_are_outputs():
    x = leaf()
    y = x * 2
    y.retain_grad()
    (y * y).sum().backward()
    return y.grad.tolist(), x.grad.tolist()


@theme
def modules_with_hooks():
    log = []
    fg.manual_seed(0)
    model = fg.nn.Sequential(fg.nn.Linear(2, 3), fg.nn.ReLU(), fg.nn.Linear(3, 1))
    for name, part in model.named_modules():
        part.register_full_backward_hook(lambda m, i, o, name=name: log.append((name, str(i), str(o))))
        part.register_full_backward_pre_hook(lambda m, o, name=name: log.append((name, "pre", str(o))))
    for n in (1, 4):
        model(leaf(n, 2)).sum().backward()
    return log, [p.grad.tolist() for p in model.parameters()]


@theme
def hooks_over_several_tensors():
    log = []
    x, z = leaf(), leaf()
    for mode in ("all", "any"):
        fg.autograd.graph.register_multi_grad_hook((x, z), lambda g: log.append(str(g)), mode=mode)
    for _ in range(2):
        (x * z).sum().backward()
        (x * 3).sum().backward()
    return log


@theme
def steps_within_backward():
    fg.manual_seed(0)
    model = fg.nn.Sequential(fg.nn.Linear(4, 4), fg.nn.Tanh(), fg.nn.Linear(4, 2))
    optimizers = {p: fg.optim.SGD([p], lr=0.1, momentum=0.9) for p in model.parameters()}

    def step(p):
        optimizers[p].step()
        optimizers[p].zero_grad()

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(step)
    for n in (3, 5, 3):
        model(fg.ones(n, 4)).pow(2).sum().backward()
    return [p.tolist() for p in model.parameters()]


@theme
def checkpoints():
    from fastgrad.utils.checkpoint import checkpoint

    x = leaf(3)
    for _ in range(2):
        checkpoint(lambda t: (t.sin() * t).exp(), x, use_reentrant=False).sum().backward()
    return x.grad.tolist()


@theme
def views_in_place():
    x = leaf(4)
    y = x * 2
    y[1:3].mul_(3)
    y.register_hook(lambda g: g * 2)
    y.sum().backward()
    return x.grad.tolist()


@theme
def broadcasting_and_dtypes():
    x, w = leaf(3, 1), leaf(1, 4, dtype=fg.float64)
    ((x * w).exp() + w + x.half().sum()).sum().backward()
    return x.grad.tolist(), w.grad.tolist(), str(w.grad.dtype)


@pytest.mark.parametrize("name", THEMES)
def test_c10_themes(name):
    both(THEMES[name])
