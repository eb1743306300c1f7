"""The sentences of docs/module_hooks.md, tests for each number: calls and backward hooks."""

from __future__ import annotations

from typing import Any

import pytest


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


def test_m13_containers_pass_by(module, ones):
    seen: list[Any] = []
    m = module(lambda x, pair: (x * pair[0], (x * pair[1],), {"x": x}))
    m.register_full_backward_hook(lambda m, gi, go: (seen.append((gi, go)), (gi[0] * 10, gi[1]))[1])
    x, y = ones(), ones()
    y.register_hook(lambda g: seen.append("y"))
    out = m(x, [y, y])
    (out[0].sum() + out[1][0].sum() + out[2]["x"].sum()).backward()
    assert seen[0] == "y"
    ((grad_input, grad_output),) = seen[1:]
    assert [g if g is None else g.tolist() for g in grad_input] == [[3.0, 3.0], None]
    assert [g if g is None else g.tolist() for g in grad_output] == [[1.0, 1.0], None, None]
    assert (x.grad.tolist(), y.grad.tolist()) == ([30.0, 30.0], [2.0, 2.0])


def test_m13_zeros(lib, module, ones):
    seen: list[Any] = []
    m = module(lambda a, b, c, n: (a * 2 * c, b * 3))
    m.register_full_backward_hook(lambda m, gi, go: seen.append([g if g is None else g.tolist() for g in gi]))
    a, b = ones(), ones(1, 3)
    b.register_hook(lambda g: seen.append(g.tolist()))
    m(a, b, lib.ones(2), lib.ones(1, dtype=lib.int64))[0].sum().backward()
    assert seen == [[[2.0, 2.0], [[0.0] * 3], [0.0, 0.0], [0]], [[0.0] * 3]]
    assert b.grad.tolist() == [[0.0] * 3]
    # zeros also where the pass does not come from the outputs, and the hook does not run
    z = m(a, b, lib.ones(2), 1)[1]
    inner: list[Any] = []
    m = module(lambda a, b: inner.append(a * 2) or a + b)
    m.register_full_backward_hook(lambda m, gi, go: seen.append("no"))
    c = ones()
    m(a, c)
    inner.pop().sum().backward()
    assert c.grad.tolist() == [0.0, 0.0]
    assert "no" not in seen
    assert z.requires_grad


def test_m14_this_call(module, ones):
    seen = []
    m, x = module(), ones()
    m.register_full_backward_hook(lambda m, gi, go: seen.append(gi[0].tolist()))
    (m(x) + x * 7).sum().backward()
    assert seen == [[2.0, 2.0]]
    assert x.grad.tolist() == [9.0, 9.0]


def test_m15_replacing(lib, module, ones):
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
    m = module()
    m.register_full_backward_hook(lambda m, gi, go: (gi[0].mul_(5), None)[1])
    m(x).backward(lib.ones(2))
    assert x.grad.tolist() == [10.0, 10.0]


def test_m15_where_there_was_none(lib, module, ones):
    m, a, b = module(lambda a, b, c: (a * 2, b * 3)), ones(), ones()
    m.register_full_backward_hook(lambda m, gi, go: (gi[0], lib.full((2,), 5.0), lib.ones(2)))
    m(a, b, lib.ones(2))[0].sum().backward()
    assert (a.grad.tolist(), b.grad.tolist()) == ([2.0, 2.0], [5.0, 5.0])


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
        (lambda *a: {"a": 1, "b": 2}, RuntimeError, "invalid number of grad_.*, got 2, but expected 1"),
        (lambda *a: set(), RuntimeError, "invalid number of grad_.*, got 0, but expected 1"),
        (lambda *a: "abc", RuntimeError, "invalid number of grad_.*, got 3, but expected 1"),
        (lambda *a: {1}, TypeError, "set"),
        (lambda *a: "a", TypeError, "str"),
    ):
        with pytest.raises(kind, match=message):
            run(hook)


def test_m16_later_hooks_run_first(lib, module, ones):
    for wrong, kind in (((1, None), TypeError), ([lib.ones(3), None], RuntimeError), ("ab", TypeError)):
        log: list[Any] = []
        m, x = module(lambda x, n: x * n), ones()
        m.register_full_backward_hook(lambda m, gi, go, wrong=wrong: wrong)
        m.register_full_backward_hook(lambda m, gi, go, log=log: log.append(gi))
        with pytest.raises(kind):
            m(x, 3).sum().backward()
        assert log[0] is wrong
        assert x.grad is None
    m.register_full_backward_hook(lambda m, gi, go: (go[0] * 2, "anything"))
    m(x, 3).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_m16_where_there_is_no_gradient(lib, module, ones):
    for wrong, kind in (
        (lib.ones(3), RuntimeError),
        (lib.ones(2, dtype=lib.float64), RuntimeError),
        (5, TypeError),
    ):
        m = module(lambda a, b: a * 2 + b)
        with (
            m.register_full_backward_hook(lambda m, gi, go, wrong=wrong: (gi[0], wrong)),
            pytest.raises(kind),
        ):
            m(ones(), lib.ones(2)).sum().backward()
        m = module(lambda a, b: (a * 2, b))
        with (
            m.register_full_backward_pre_hook(lambda m, go, wrong=wrong: (go[0], wrong)),
            pytest.raises(kind),
        ):
            m(ones(), ones())[0].sum().backward()


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


def test_m24_where_there_was_none(lib, module, ones):
    m, a, b = module(lambda a, b, c: (a * 2, b * 3, c, 5)), ones(), ones()
    m.register_full_backward_pre_hook(lambda m, go: [go[0], lib.full((2,), 7.0), lib.ones(2), 5])
    m(a, b, lib.ones(2))[0].sum().backward()
    assert (a.grad.tolist(), b.grad.tolist()) == ([2.0, 2.0], [21.0, 21.0])
    m, a, b = module(lambda a, b: (a * 2, b * 3)), ones(), ones()
    m.register_full_backward_pre_hook(lambda m, go: None)
    m(a, b)[0].sum().backward()
    assert b.grad.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("full", [False, True])
def test_m24_in_place(lib, nn, module, ones, full):
    """Gradients of outputs that a hook changes in place go on changed."""
    m, x = module(), ones()
    m.register_full_backward_pre_hook(lambda m, go: (go[0].mul_(3), None)[1])
    if full:
        m.register_full_backward_hook(lambda m, gi, go: (gi[0].mul_(5), None)[1])
    (m(x) * 1).sum().backward()
    assert x.grad.tolist() == ([30.0, 30.0] if full else [6.0, 6.0])


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
