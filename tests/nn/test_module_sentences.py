"""The sentences of docs/module_hooks.md, one test for each number: calls, backward hooks, containers."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from typing import Any

import pytest

import fastgrad as fg


def say(log: list[Any], what: Any) -> Any:
    return lambda *args: log.append(what)


# --- a call ------------------------------------------------------------------------------------------------------


def test_m1_order(module, ones):
    log: list[str] = []
    m = module(lambda x: (log.append("forward"), x)[1])
    m.register_forward_hook(say(log, "hook"))
    m.register_forward_pre_hook(say(log, "pre"))
    m(ones())
    assert log == ["pre", "forward", "hook"]
    log.clear()
    m.forward(ones())
    assert log == ["forward"]


def test_m2_global_first(module, hooks, ones):
    log: list[str] = []
    m = module()
    m.register_forward_hook(say(log, "1"))
    m.register_forward_hook(say(log, "2"))
    m.register_forward_hook(say(log, "0"), prepend=True)
    m.register_forward_pre_hook(say(log, "pre 1"))
    m.register_forward_pre_hook(say(log, "pre 0"), prepend=True)
    with (
        hooks.register_module_forward_hook(say(log, "global 1")),
        hooks.register_module_forward_hook(say(log, "global 2")),
        hooks.register_module_forward_pre_hook(say(log, "global pre")),
    ):
        m(ones())
    assert log == ["global pre", "pre 0", "pre 1", "global 1", "global 2", "0", "1", "2"]
    log.clear()
    m(ones())
    assert log == ["pre 0", "pre 1", "0", "1", "2"]


def test_m3_changes_during_a_call(module, ones):
    log: list[str] = []
    m = module()

    def pre(m, args):
        log.append("pre")
        m.register_forward_hook(hook)
        m.register_forward_pre_hook(say(log, "late pre"))
        first.remove()

    def hook(m, args, output):
        log.append("hook")
        m.register_forward_hook(say(log, "late"))
        second.remove()

    first = m.register_forward_pre_hook(pre)
    second = m.register_forward_pre_hook(say(log, "second"))
    m(ones())
    assert log == ["pre", "second", "hook"]
    log.clear()
    m(ones())
    assert log == ["late pre", "hook", "late"]


def test_m4_exception(module, ones):
    log: list[str] = []
    m = module()
    m.register_forward_pre_hook(lambda m, args: 1 / 0)
    m.register_forward_pre_hook(say(log, "pre"))
    m.register_forward_hook(say(log, "hook"))
    with pytest.raises(ZeroDivisionError):
        m(ones())
    assert log == []


def test_m5_pre_hook(module, ones):
    m = module(lambda *args: args)
    for returned, arguments in (((1, 2), (1, 2)), ([3], ([3],)), (4, (4,)), (None, (0,))):
        with m.register_forward_pre_hook(lambda m, args, returned=returned: returned):
            assert m(0) == arguments


def test_m6_pre_hook_with_kwargs(module, ones):
    seen = []
    m = module(lambda *args, **kwargs: (args, kwargs))
    m.register_forward_pre_hook(lambda m, args, kwargs: seen.append((args, kwargs)), with_kwargs=True)
    m.register_forward_pre_hook(lambda m, args, kwargs: ((5,), {"b": 6}), with_kwargs=True)
    assert m(1, a=2) == ((5,), {"b": 6})
    assert seen == [((1,), {"a": 2})]
    for wrong in (5, (1,), [(1,), {}], ((1,), {}, 3)):
        with (
            m.register_forward_pre_hook(lambda m, args, kwargs, wrong=wrong: wrong, with_kwargs=True),
            pytest.raises(RuntimeError, match="forward pre-hook must return None or a tuple of"),
        ):
            m(1)


def test_m7_pre_hook_without_kwargs(module):
    seen = []
    m = module(lambda *args, **kwargs: (args, kwargs))
    m.register_forward_pre_hook(lambda *args: (seen.append(args[1:]), (3,))[1])
    assert m(1, a=2) == ((3,), {"a": 2})
    assert seen == [((1,),)]


def test_m8_forward_hook(module):
    seen = []
    m = module(lambda x: x + 1)
    m.register_forward_pre_hook(lambda m, args: (10,))
    m.register_forward_hook(lambda *args: seen.append(args[1:]))
    m.register_forward_hook(lambda m, args, output: [output])
    m.register_forward_hook(lambda *args: seen.append(args[1:]))
    assert m(1) == [11]
    assert seen == [((10,), 11), ((10,), [11])]


def test_m9_forward_hook_with_kwargs(module):
    seen = []
    m = module(lambda x, k: x + k)
    m.register_forward_hook(lambda *args: seen.append(args[1:]), with_kwargs=True)
    assert m(1, k=2) == 3
    assert seen == [((1,), {"k": 2}, 3)]


def test_m10_always_call(module):
    log: list[Any] = []
    m = module(lambda x: 1 / x)
    m.register_forward_hook(lambda m, args, output: (log.append(("1", output)), "new")[1], always_call=True)
    m.register_forward_hook(say(log, "not always"))
    m.register_forward_hook(
        lambda m, args, kwargs, output: log.append(("2", output)), always_call=True, with_kwargs=True
    )
    with pytest.raises(ZeroDivisionError):
        m(0)
    assert log == [("1", None), ("2", "new")]
    log.clear()
    with (
        m.register_forward_hook(lambda *args: {}["a"], prepend=True, always_call=True),
        pytest.raises(KeyError),
    ):
        m(1)
    assert log == [("1", 1.0), ("2", "new")]


def test_m11_always_call_fails(module):
    def forward(kind):
        raise kind

    log: list[Any] = []
    m = module(forward)
    m.register_forward_hook(lambda *args: 1 / 0, always_call=True)
    m.register_forward_hook(say(log, "next"), always_call=True)
    with (
        pytest.warns(UserWarning, match="always_call=True`` raised an exception that was silenced"),
        pytest.raises(KeyError),
    ):
        m(KeyError)
    assert log == ["next"]
    for kind in (KeyboardInterrupt, SystemExit):
        with pytest.raises(kind):
            m(kind)
    assert log == ["next"]


# --- full backward hooks -----------------------------------------------------------------------------------------


def test_m12_full_backward_hook(lib, module, ones):
    log: list[str] = []
    m, x = module(lambda x: inner(x) * 3), ones()

    def inner(x):
        y = x * 2
        y.register_hook(say(log, "inside"))
        return y

    m.register_full_backward_hook(say(log, "backward"))
    m.register_full_backward_pre_hook(say(log, "pre"))
    y = m(x)
    y.register_hook(say(log, "output"))
    x.register_hook(say(log, "input"))
    y.sum().backward(retain_graph=True)
    order = ["output", "pre", "inside", "backward", "input"]
    assert log == order
    lib.autograd.grad(y.sum(), x)
    assert log == order * 2
    log.clear()
    (m(x) + m(x)).sum().backward()
    assert log.count("backward") == log.count("pre") == 2


def test_m13_arguments(module, ones):
    seen = []
    m = module(lambda a, n, b: (a * n * b, None, a + b))
    m.register_full_backward_hook(lambda m, gi, go: seen.append((gi, go)))
    out = m(ones(), 3, ones())
    (out[0].sum() + out[2].sum() * 5).backward()
    ((grad_input, grad_output),) = seen
    assert isinstance(grad_input, tuple)
    assert isinstance(grad_output, tuple)
    assert [g if g is None else g.tolist() for g in grad_input] == [[8.0, 8.0], None, [8.0, 8.0]]
    assert [g if g is None else g.tolist() for g in grad_output] == [[1.0, 1.0], None, [5.0, 5.0]]
    m = module()
    m.register_full_backward_hook(lambda m, gi, go: seen.append((len(gi), len(go))))
    m(ones()).sum().backward()
    assert seen[1] == (1, 1)


def test_m14_this_call(module, ones):
    seen = []
    m, x = module(), ones()
    m.register_full_backward_hook(lambda m, gi, go: seen.append(gi[0].tolist()))
    (m(x) + x * 7).sum().backward()
    assert seen == [[2.0, 2.0]]
    assert x.grad.tolist() == [9.0, 9.0]


def test_m15_replacing(module, ones):
    seen = []
    m, x = module(), ones()
    m.register_full_backward_hook(lambda m, gi, go: (gi[0] * 10,))
    m.register_full_backward_hook(lambda m, gi, go: [gi[0] + 1])
    m.register_full_backward_hook(lambda m, gi, go: seen.append(gi[0].tolist()))
    m(x).sum().backward()
    assert seen == [[21.0, 21.0]]
    assert x.grad.tolist() == [21.0, 21.0]
    x.grad = None
    m.register_full_backward_hook(lambda m, gi, go: (None,))
    m(x).sum().backward()
    assert x.grad is None


@pytest.mark.parametrize("register", ["register_full_backward_hook", "register_full_backward_pre_hook"])
def test_m16_wrong_returns(module, ones, register):
    def run(hook):
        m = module()
        getattr(m, register)(hook)
        m(ones()).sum().backward()

    for hook, kind, message in (
        (lambda *a: (a[1][0], a[1][0]), RuntimeError, "invalid number of grad_.*, got 2, but expected 1"),
        (lambda *a: (a[1][0][:1],), RuntimeError, "has changed the size of value"),
        (lambda *a: (a[1][0].double(),), RuntimeError, "has changed the type of value"),
        (lambda *a: (1,), TypeError, "expected Variable, but hook returned 'int'"),
        (lambda *a: 5, TypeError, "int"),
    ):
        with pytest.raises(kind, match=message):
            run(hook)


def test_m17_no_input_requires_grad(lib, nn, ones):
    seen = []
    message = "Full backward hook is firing when gradients are computed with respect to module outputs"
    m = nn.Module()
    m.w = nn.Parameter(lib.ones(2))
    m.forward = lambda x, n: m.w * x * n
    m.register_full_backward_hook(lambda m, gi, go: seen.append((gi, go[0].tolist(), m.w.grad is None)))
    with pytest.warns(UserWarning, match=message):
        m(lib.ones(2), 3).sum().backward()
    assert seen == [((None, None), [1.0, 1.0], True)]
    for returned in (None, (None, None)):
        with (
            m.register_full_backward_hook(lambda m, gi, go, r=returned: r),
            pytest.warns(UserWarning, match=message),
        ):
            m(lib.ones(2), 3).sum().backward()
    with (
        m.register_full_backward_hook(lambda m, gi, go: (go[0], None)),
        pytest.warns(UserWarning, match=message),
        pytest.raises(RuntimeError, match="should always return None or None for all gradients"),
    ):
        m(lib.ones(2), 3).sum().backward()
    m.forward = None


def test_m18_no_graph(lib, module, ones):
    log: list[str] = []
    m = module(lambda x: x.detach() * 2)
    m.register_full_backward_hook(say(log, "backward"))
    (m(ones()) * ones()).sum().backward()
    m = module()
    m.register_full_backward_hook(say(log, "backward"))
    with lib.no_grad():
        y = m(ones())
    (y * ones()).sum().backward()
    assert log == []


def test_m19_parameters_only(lib, nn, ones):
    log: list[str] = []
    m, x = nn.Module(), ones()
    w = m.w = nn.Parameter(lib.ones(2))
    m.forward = lambda x: w * x
    m.register_full_backward_hook(say(log, "backward"))
    y = m(x)
    lib.autograd.grad(y.sum(), w, retain_graph=True)
    y.sum().backward(inputs=[w], retain_graph=True)
    assert log == []
    y.sum().backward()
    assert log == ["backward"]
    m.forward = None


def test_m20_frozen(module, ones):
    log: list[str] = []
    m = module()
    handle = m.register_full_backward_hook(say(log, "removed"))
    y = m(ones())
    handle.remove()
    m.register_full_backward_hook(say(log, "late"))
    y.sum().backward()
    assert log == ["removed"]


def test_m21_second_order(lib, module, ones):
    seen = []
    m, x = module(), ones()
    m.register_full_backward_hook(lambda m, gi, go: seen.append((gi[0].requires_grad, go[0].requires_grad)))
    (g,) = lib.autograd.grad((m(x) ** 3).sum(), x, create_graph=True)
    g.sum().backward()
    assert seen[0] == (True, True)
    assert x.grad.tolist() == [48.0, 48.0]


def test_m22_keyword_arguments(module, ones):
    seen = []
    m, x, k = module(lambda x, k: x * k), ones(), ones()
    m.register_full_backward_hook(lambda m, gi, go: (seen.append(len(gi)), (gi[0] * 10,))[1])
    m(x, k=k).sum().backward()
    assert seen == [1]
    assert (x.grad.tolist(), k.grad.tolist()) == ([10.0, 10.0], [1.0, 1.0])


def test_m23_prepend(module, ones):
    log: list[int] = []
    m = module()
    for k in range(3):
        m.register_full_backward_hook(say(log, k), prepend=k == 2)
        m.register_full_backward_pre_hook(say(log, -k), prepend=k == 2)
    m(ones()).sum().backward()
    assert log == [-2, 0, -1, 2, 0, 1]


def test_m24_pre_hook(module, ones):
    seen = []
    m, x = module(), ones()
    m.register_full_backward_pre_hook(lambda m, go: (seen.append(go[0].tolist()), (go[0] * 3,))[1])
    m.register_full_backward_pre_hook(lambda m, go: seen.append(go[0].tolist()))
    m.register_full_backward_hook(lambda m, gi, go: seen.append(go[0].tolist()))
    m(x).sum().backward()
    assert seen == [[1.0, 1.0], [3.0, 3.0], [3.0, 3.0]]
    assert x.grad.tolist() == [6.0, 6.0]


def test_m25_pre_hook_parameters_only(lib, nn, ones):
    log: list[str] = []
    m = nn.Module()
    w = m.w = nn.Parameter(lib.ones(2))
    m.forward = lambda x: w * x
    m.register_full_backward_pre_hook(say(log, "pre"))
    lib.autograd.grad(m(ones()).sum(), w)
    assert log == ["pre"]
    m.forward = None


def test_m26_pre_hook_number(module, ones):
    m = module()
    m.register_full_backward_pre_hook(lambda m, go: (go[0], go[0]))
    with pytest.raises(
        RuntimeError,
        match="Backward pre hook returned an invalid number of grad_output, got 2, but expected 1",
    ):
        m(ones()).sum().backward()


def test_m27_nested(nn, module, ones):
    log: list[str] = []
    s = nn.Sequential(module(), module())
    for name, m in (("outer", s), ("0", s[0]), ("1", s[1])):
        m.register_full_backward_pre_hook(say(log, f"{name} pre"))
        m.register_full_backward_hook(say(log, name))
    s(ones()).sum().backward()
    assert log == ["outer pre", "1 pre", "1", "0 pre", "0", "outer"]


# --- containers --------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Output:
    value: Any
    extra: Any = None


def plain(value: Any) -> Any:
    """Gradients as lists of numbers."""
    if isinstance(value, fg.Tensor):
        return value.tolist()
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(plain(v) for v in value)
    return Output(plain(value.value), plain(value.extra)) if isinstance(value, Output) else value


def fg_module(forward: Any) -> Any:
    m = fg.nn.Module()
    m.forward = forward
    return m


def leaf(n: int = 1) -> Any:
    return fg.ones(n, requires_grad=True)


def test_m28_outputs():
    seen = []

    def run(forward, loss):
        m = fg_module(forward)
        m.register_full_backward_hook(lambda m, gi, go: seen.append(plain(go)))
        out = m(leaf())
        loss(out).backward()
        return out

    out = run(lambda x: {"a": x * 2, "n": 1, "b": [x * 3, "s"]}, lambda o: o["a"] + o["b"][0] * 4)
    assert seen.pop() == ({"a": [1.0], "n": None, "b": [[4.0], None]},)
    assert out["n"] == 1
    assert out["b"][1] == "s"
    run(lambda x: [x * 2, x * 3], lambda o: o[0])
    assert seen.pop() == ([[1.0], None],)
    out = run(lambda x: Output(x * 2, extra={"k": x}), lambda o: o.value + o.extra["k"] * 2)
    assert seen.pop() == (Output([1.0], {"k": [2.0]}),)
    assert type(out) is Output
    run(lambda x: (x, (x * 2, [1, 2])), lambda o: o[0] + o[1][0])
    assert seen.pop() == ([1.0], ([1.0], None))
    out = run(lambda x: OrderedDict(a=x), lambda o: o["a"])
    assert type(out) is OrderedDict


def test_m29_inputs():
    seen = []
    m = fg_module(lambda x, d, config: x * d["y"][0] * d["z"])
    m.register_full_backward_hook(lambda m, gi, go: seen.append(plain(gi)))
    x, y = leaf(), leaf()
    m(x, {"y": [y, fg.ones(1)], "z": 3}, {"k": 1}).backward()
    assert seen == [([3.0], {"y": [[3.0], None], "z": None}, None)]
    seen.clear()
    m = fg_module(lambda pair: pair[0] * pair[1])
    m.register_full_backward_hook(lambda m, gi, go: seen.append(plain(gi)))
    m([x, y]).backward()
    assert seen == [([[1.0], [1.0]],)]


def test_m30_replacing():
    def run(hook):
        y, x = leaf(), leaf()
        m = fg_module(lambda x, d: x * d["y"] * d["z"][0])
        m.register_full_backward_hook(hook)
        m(x, {"y": y, "z": [2, 3]}).backward()
        return x.grad.tolist(), None if y.grad is None else y.grad.tolist()

    assert run(lambda m, gi, go: (gi[0], {"y": gi[1]["y"] * 10})) == ([2.0], [20.0])
    assert run(lambda m, gi, go: (gi[0], None)) == ([2.0], None)
    assert run(lambda m, gi, go: (gi[0], {**gi[1], "y": None})) == ([2.0], None)
    for wrong in (5, [1], {}, {"y": None, "q": None}, leaf()):
        with pytest.raises(RuntimeError, match=r"'dict' of 2: what replaces it must have the same form"):
            run(lambda m, gi, go, wrong=wrong: (gi[0], wrong))
    with pytest.raises(RuntimeError, match="has changed the size of value"):
        run(lambda m, gi, go: (gi[0], {"y": fg.ones(3)}))


def test_m31_containers_are_copied():
    x, y = leaf(), leaf()
    given, config, kept = {"x": x}, {"k": 1}, []
    seen = []
    m = fg_module(lambda d, c: (seen.append((d, c)), kept.append([d["x"] * 2, c]), kept[0])[2])
    m.register_full_backward_hook(lambda *a: None)
    out = m(given, config)
    assert given["x"] is x
    ((d, c),) = seen
    assert d is not given
    assert c is config
    assert out is not kept[0]
    assert out[1] is config
    assert m.forward is not None
    cycle = [y]
    cycle.append(cycle)
    m = fg_module(lambda v: v[0] * 2)
    m.register_full_backward_hook(lambda *a: None)
    m(cycle).backward()
    assert y.grad.tolist() == [2.0]
    cycle.clear()


def test_m32_other_outputs(module, ones):
    log: list[str] = []
    m = module(lambda x: iter([x]))
    m.register_full_backward_hook(say(log, "backward"))
    with pytest.warns(UserWarning, match="For backward hooks to be called, module output should be a Tensor"):
        (y,) = m(ones())
    y.sum().backward()
    assert log == []


def test_m33_in_place():
    seen = []
    for hooked in (False, True):
        m, x = fg_module(lambda x: x.mul_(3)), leaf(2)
        if hooked:
            m.register_full_backward_hook(lambda m, gi, go: seen.append(plain((gi, go))))
        y = m(x * 1)
        y.mul_(2)
        y.sum().backward()
        assert x.grad.tolist() == [6.0, 6.0]
    assert seen == [(([6.0, 6.0],), ([2.0, 2.0],))]
