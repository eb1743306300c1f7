"""The differences from PyTorch in docs/module_hooks.md, one test for each number, in PyTorch too."""

from __future__ import annotations

import copy
import gc
import importlib
import re
import warnings
import weakref
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import fastgrad as fg


def flags(lib: ModuleType) -> Any:
    """The dict of the ids of global forward hooks with keyword arguments."""
    where = "module_hooks" if here(lib) else "module"
    return importlib.import_module(f"{lib.__name__}.nn.modules.{where}")._global_forward_hooks_with_kwargs


def here(lib: Any) -> bool:
    return lib is fg


def test_md1_undefined(lib, module, ones):
    seen = []
    m, b = module(lambda a, pair: a * pair[0]), ones()
    option = {"containers": True} if here(lib) else {}
    m.register_full_backward_hook(lambda m, gi, go: seen.append(gi[1]), **option)
    m(ones(), [ones(), b]).sum().backward()
    assert b.grad is None
    if here(lib):
        assert seen[0][0].tolist() == [1.0, 1.0]
        assert seen[0][1] is None
        m.register_full_backward_hook(lambda m, gi, go: (gi[0], [gi[0], gi[0]]), containers=True)
        with pytest.raises(RuntimeError, match="can't replace a None gradient with a non-None value"):
            m(ones(), [ones(), b]).sum().backward()
    else:
        assert seen == [None]


def test_md2_in_place(lib, module, ones):
    m = module(lambda x: x.mul_(3))
    m.register_full_backward_hook(lambda *args: None)
    n, x = module(), ones()
    n.register_full_backward_hook(lambda *args: None)
    if here(lib):
        n(m(x * 1)).mul_(5).sum().backward()
        assert x.grad.tolist() == [30.0, 30.0]
    else:
        for f in (lambda: m(x * 1), lambda: n(x).mul_(5)):
            with pytest.raises(RuntimeError, match="is a view and is being modified inplace"):
                f()


def test_md3_containers(lib, module, ones):
    seen = []
    m = module(lambda x, other: {"a": x * other[0]})
    option = {"containers": True} if here(lib) else {}
    m.register_full_backward_hook(
        lambda m, gi, go: seen.append((len(gi), type(gi[1]), type(go[0]))), **option
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        m(ones(), [ones()])["a"].sum().backward()
    assert seen == ([(2, list, dict)] if here(lib) else [])
    assert len(caught) == (0 if here(lib) else 1)


def test_md3_place(lib, module, ones):
    """A hook that sees into containers runs when their gradients are known too."""
    log: list[str] = []
    m = module(lambda x, pair: x * 2 + pair[0])
    for option in ({}, {"containers": True}) if here(lib) else ({},):
        inside = ones()
        inside.register_hook(lambda g: log.append("inside"))
        with m.register_full_backward_hook(lambda m, gi, go: log.append("hook"), **option):
            m(ones(), [inside]).sum().backward()
    assert log == (["inside", "hook", "hook", "inside"] if here(lib) else ["inside", "hook"])


def test_md4_identity(lib, module, ones):
    seen = []
    m, x, constant = module(lambda *args: (seen.append(args), args)[1]), ones(), lib.ones(2)
    m.register_full_backward_pre_hook(lambda *args: None)
    out = m(x, constant)
    assert seen[0][0] is not x
    assert (seen[0][1] is constant) == (out[1] is constant) == here(lib)
    assert out[0] is not x
    seen.clear()


def test_md5_always_call_kwargs(lib, module, hooks):
    log: list[Any] = []
    m = module(lambda x, k: 1 / x)
    hook = lambda *args: log.append(len(args))  # noqa: E731
    with (
        hooks.register_module_forward_hook(hook, with_kwargs=True, always_call=True),
        pytest.raises(ZeroDivisionError),
    ):
        m(0, k=1)
    assert log == [4 if here(lib) else 3]
    flags(lib).clear()


def test_md6_global_handle(lib, hooks):
    handle = hooks.register_module_forward_hook(print, with_kwargs=True, always_call=True)
    assert handle.id in flags(lib)
    handle.remove()
    assert (handle.id in flags(lib)) != here(lib)
    flags(lib).clear()


def test_md7_changes_while_hooks_run(lib, nn, module):
    log: list[Any] = []
    m = module(lambda x: x)
    m.register_forward_hook(lambda m, args, output: second.remove())
    second = m.register_forward_hook(lambda *args: log.append(len(args)), with_kwargs=True)
    m(1)
    assert log == [4 if here(lib) else 3]
    m = nn.Sequential()
    m.register_state_dict_pre_hook(
        lambda *args: m.register_state_dict_pre_hook(lambda *args: log.append("late"))
    )
    m.register_state_dict_pre_hook(lambda *args: None)
    if here(lib):
        m.state_dict()
    else:
        with pytest.raises(RuntimeError, match="mutated during iteration"):
            m.state_dict()
    assert "late" not in log


def test_md8_names(lib, module, ones):
    def wrong(m, gi, go):
        return (gi[0][:1],)

    m = module()
    m.register_full_backward_hook(wrong)
    with pytest.raises(
        RuntimeError, match=f"hook '{'wrong' if here(lib) else 'hook'}' has changed the size of value"
    ):
        m(ones()).sum().backward()


def test_md8_blames_the_hook(lib, module, ones):
    """The one that returned it, not one that handed it on."""

    def wrong(m, gi, go):
        return (gi[0][:1],)

    def handing_on(m, gi, go):
        return gi

    m = module()
    m.register_full_backward_hook(wrong)
    m.register_full_backward_hook(handing_on)
    with pytest.raises(RuntimeError, match=f"hook '{'wrong' if here(lib) else 'hook'}' has changed the size"):
        m(ones()).sum().backward()


def test_md9_what_is_returned(lib, module, ones):
    m, x = module(), ones(1, 2)
    m.register_full_backward_hook(lambda m, gi, go: gi[0] * 5)
    if here(lib):
        with pytest.raises(RuntimeError, match="got a Tensor, but expected 1 \\(hook '<lambda>'\\)"):
            m(x).sum().backward()
    else:
        with pytest.raises(RuntimeError, match="has changed the size of value"):
            m(x).sum().backward()
    m, x = module(), ones(2)
    m.register_full_backward_hook(lambda m, gi, go: gi[0] * 5)
    with pytest.raises(RuntimeError, match="Backward hook returned an invalid number of grad_input"):
        m(x).sum().backward()
    m, x = module(), ones(2)
    m.register_full_backward_hook(lambda m, gi, go: {0: gi[0] * 5})
    if here(lib):
        with pytest.raises(
            TypeError, match="must return None or a tuple of 1 gradients, but returned 'dict'"
        ):
            m(x).sum().backward()
    else:
        m(x).sum().backward()
        assert x.grad.tolist() == [10.0, 10.0]


def test_md10_pair(lib, module):
    m = module(lambda *args: args)
    m.register_forward_pre_hook(lambda m, args, kwargs: (args[0], kwargs), with_kwargs=True)
    if here(lib):
        with pytest.raises(RuntimeError, match="forward pre-hook must return None or a tuple of"):
            m(lib.ones(2))
    else:
        assert len(m(lib.ones(2))) == 2


def test_md11_kinds(lib, module, hooks):
    m = module()
    m.register_backward_hook(print).remove()
    if here(lib):
        m.register_full_backward_hook(print)
        hooks.register_module_backward_hook(print).remove()
        hooks.register_module_full_backward_hook(print).remove()
    else:
        with pytest.raises(RuntimeError, match="Cannot use both"):
            m.register_full_backward_hook(print)


def test_md12_registration(lib, nn, hooks):
    m = nn.Module()
    with hooks.register_module_parameter_registration_hook(lambda *args: 5):
        if here(lib):
            with pytest.raises(
                TypeError, match="parameter registration hook returned a 'int' object for 'p'"
            ):
                m.p = nn.Parameter(lib.ones(1))
        else:
            m.p = nn.Parameter(lib.ones(1))
            assert m.p == 5


def test_md13_post_hooks(lib, nn):
    class Made(nn.Module):
        def post(self, *args):
            self.called = True

    m = Made()
    if here(lib):
        m.register_state_dict_post_hook(m.post)
        m._register_state_dict_hook(m.post)
        m.state_dict()
        assert m.called
    else:
        with pytest.raises(AttributeError, match="no attribute '_from_public_api'"):
            m.register_state_dict_post_hook(m.post)


def test_md14_copy(lib, module):
    log: list[int] = []
    m = module(lambda x: x)
    m.register_forward_hook(lambda *args: log.append(1))
    c = copy.copy(m)
    c.register_forward_hook(lambda *args: log.append(2))
    m(0)
    assert log == ([1] if here(lib) else [1, 2])
    log.clear()
    c(0)
    assert log == [1, 2]


@pytest.mark.filterwarnings("ignore:Using a non-full backward hook:FutureWarning")
def test_md15_deprecated(lib, module, ones):
    log: list[str] = []
    m = module()
    m.register_backward_hook(lambda m, gi, go: log.append(type(m).__name__))
    y, alive = m(ones()), weakref.ref(m)
    del m
    gc.collect()
    assert (alive() is not None) == here(lib)
    if here(lib):
        y.sum().backward()
        assert log == ["Made"]
    else:
        with pytest.raises(RuntimeError, match="hook of a dead Module"):
            y.sum().backward()


def test_md16_passes(lib, nn, ones):
    m, seed = nn.Module(), lib.ones(2)
    w = m.w = nn.Parameter(lib.ones(2))
    m.forward = lambda x: w * x
    seen: list[Any] = []
    m.register_full_backward_hook(lambda m, gi, go: seen.append(go[0].tolist()))
    m.register_full_backward_pre_hook(lambda m, go: (held.append(weakref.ref(go[0])), None)[1])
    held: list[Any] = []
    y = m(ones())
    lib.autograd.grad(y, w, seed * 7, retain_graph=True)
    gc.collect()
    assert (held[0]() is None) == here(lib)
    # a pass inside of a pass
    inner = [True]

    def again(grad):
        if inner.pop():
            inner.append(False)
            lib.autograd.grad(y, x, seed * 5, retain_graph=True)

    seen.clear()
    x = ones()
    z = x * 1
    m.forward = lambda x: w * twice(x)

    def twice(x):
        out = x * 1
        out.register_hook(again)
        return out

    y = m(z)
    y.backward(seed, retain_graph=True)
    assert seen == ([[5.0, 5.0], [1.0, 1.0]] if here(lib) else [[5.0, 5.0]])
    m.forward = None


def test_md17_warnings(lib, nn):
    m = nn.Module()
    m.w = nn.Parameter(lib.ones(2))
    m.forward = lambda x: m.w * x
    m.register_full_backward_pre_hook(lambda *args: None)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        m(lib.ones(2)).sum().backward()
    assert len(caught) == (0 if here(lib) else 1)
    m.forward = None


def test_every_difference_has_a_test():
    root = Path(__file__).parents[2]
    numbers = [
        int(n) for n in re.findall(r"^\*\*MD(\d+)\*\*", (root / "docs" / "module_hooks.md").read_text(), re.M)
    ]
    assert numbers == list(range(1, len(numbers) + 1))
    tests = [int(n) for n in re.findall(r"^def test_md(\d+)_", Path(__file__).read_text(), re.M)]
    assert sorted(set(tests)) == numbers
