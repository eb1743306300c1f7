"""What compiled code does for modules: reading attributes, and calls with hooks. Both leave nothing behind."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections import OrderedDict

import pytest

import fastgrad as fg
from fastgrad import nn
from fastgrad.native.build.loader import ModuleBase, rt


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(fg.ones(1))
        self.inner = nn.Sequential()
        self.register_buffer("buffer", fg.zeros(1))

    def forward(self, *args, **kwargs):
        return args, kwargs


# --- attributes ------------------------------------------------------------------------------------------------


def test_parameters_buffers_and_submodules_are_attributes():
    m = Plain()
    assert m.weight is m._parameters["weight"]
    assert m.buffer is m._buffers["buffer"]
    assert m.inner is m._modules["inner"]
    with pytest.raises(AttributeError, match="'Plain' object has no attribute 'other'"):
        _ = m.other
    assert getattr(m, "other", 3) == 3


def test_what_a_class_has_comes_before_parameters():
    class Shadowed(Plain):
        bias = 5

        @property
        def inner(self):
            return "property"

    m = Shadowed()
    m._parameters["bias"] = nn.Parameter(fg.ones(1))
    assert m.bias == 5
    assert m.inner == "property"


def test_a_property_that_raises_an_attribute_error_goes_on_to_the_dicts():
    class Raising(Plain):
        @property
        def weight(self):
            raise AttributeError("lost")

        @weight.setter
        def weight(self, value):
            self.register_parameter("other", value)

        @property
        def broken(self):
            raise ValueError("kept")

    m = Raising()
    del m._parameters["weight"]
    with pytest.raises(AttributeError, match="'Raising' object has no attribute 'weight'"):
        _ = m.weight
    m._parameters["weight"] = 3
    assert m.weight == 3
    with pytest.raises(ValueError, match="kept"):
        _ = m.broken


def test_a_getattr_of_its_own():
    class Own(Plain):
        def __getattr__(self, name):
            try:
                return super().__getattr__(name)
            except AttributeError:
                if name != "other":
                    raise
                return "own"

    class Below(Own):
        pass

    for m in (Own(), Below()):
        assert m.weight is m._parameters["weight"]
        assert m.other == "own"


def test_a_getattr_that_comes_and_goes():
    class Above(nn.Module):
        pass

    class Below(Above):
        pass

    m = Below()
    m.register_parameter("weight", None)
    for kind in (Above, Below):
        kind.__getattr__ = lambda self, name: name.upper()
        assert m.other == "OTHER"
        assert m.weight == "WEIGHT"
        del kind.__getattr__
        assert m.weight is None
        with pytest.raises(AttributeError, match="other"):
            _ = m.other


def test_a_getattribute_of_its_own_and_mixins():
    class Counting(Plain):
        seen = 0

        def __getattribute__(self, name):
            Counting.seen += 1
            return super().__getattribute__(name)

    class Mixin:
        def __getattr__(self, name):
            return "mixin" if name == "other" else super().__getattr__(name)

    class Mixed(Mixin, Plain):
        pass

    before = Counting.seen
    m = Counting()
    assert m.weight is m._parameters["weight"]
    assert Counting.seen > before
    m = Mixed()
    assert m.other == "mixin"
    assert m.weight is m._parameters["weight"]


def test_a_class_that_keeps_the_news_to_itself():
    class Silent(Plain):
        def __init_subclass__(cls):
            pass

    class Below(Silent):
        pass

    m = Below()
    assert m.weight is m._parameters["weight"]
    with pytest.raises(AttributeError, match="'Below' object has no attribute 'other'"):
        _ = m.other


def test_dicts_of_other_kinds_are_asked_in_python():
    class Loud(dict):
        def __getitem__(self, key):
            return "loud", super().__getitem__(key)

    m = Plain()
    m.__dict__["_parameters"] = Loud(weight=1)
    assert m.weight == ("loud", 1)
    m.__dict__["_parameters"] = OrderedDict(weight=2)
    assert m.weight == 2
    m.__dict__["_parameters"] = 5
    with pytest.raises(TypeError):
        _ = m.inner
    del m.__dict__["_parameters"]
    assert m.inner is m._modules["inner"]
    m.__dict__.clear()
    with pytest.raises(AttributeError, match="'Plain' object has no attribute 'inner'"):
        _ = m.inner
    with pytest.raises(AttributeError, match="'Plain' object has no attribute 'weight'"):
        _ = nn.Module.__new__(Plain).weight


def test_names_that_are_no_names():
    class Text(str):
        __slots__ = ()
        __hash__ = str.__hash__

    m = Plain()
    assert getattr(m, Text("weight")) is m.weight
    with pytest.raises(TypeError, match="attribute name must be string"):
        getattr(m, 3)
    with pytest.raises(AttributeError):
        m.__getattr__("weight2")


def test_only_classes_of_modules_are_changed():
    for wrong in (int, object, type, 3, None, Plain(), nn.Module()):
        with pytest.raises(TypeError, match="a class of modules"):
            rt.read_fast(wrong)
    rt.read_fast(ModuleBase)
    rt.read_fast(Plain)


# --- calls -----------------------------------------------------------------------------------------------------


def test_a_module_that_forwards_to_itself_ends():
    m = Plain()
    m.__dict__["forward"] = m
    with pytest.raises(RecursionError):
        m()
    m.register_forward_hook(lambda *_: None)
    with pytest.raises(RecursionError):
        m()


def test_another_call_for_all_modules():
    before = nn.Module.__call__
    nn.Module.__call__ = lambda self, *args, **kwargs: ("other", before(self, *args, **kwargs))
    try:
        assert Plain()(1) == ("other", ((1,), {}))
    finally:
        nn.Module.__call__ = before
    assert Plain()(1, k=2) == ((1,), {"k": 2})
    del nn.Module.__call__
    assert Plain()(1) == ((1,), {})


def test_keyword_arguments_of_the_caller_stay_as_they_are():
    def change(module, args, kwargs):
        kwargs["added"] = True

    m = Plain()
    m.register_forward_pre_hook(change, with_kwargs=True)
    mine = {"k": 1}
    assert ModuleBase.__call__(m, **mine) == ((), {"k": 1, "added": True})
    assert m() == ((), {"added": True})
    assert mine == {"k": 1}


def test_a_tuple_with_ideas_of_its_own_is_taken_as_the_tuple_that_it_is():
    class Lying(tuple):
        __slots__ = ()

        def __len__(self):
            return 100

    m = Plain()
    m.register_forward_pre_hook(lambda module, args: Lying((1, 2)))
    assert m() == ((1, 2), {})
    m.register_forward_pre_hook(lambda module, args: len(args))
    assert m() == ((100,), {})


@pytest.mark.parametrize("n", [1, 2])
def test_hooks_that_replace_the_dicts_while_they_run(n):
    m = Plain()
    log = []

    def hook(module, *_):
        log.append(len(log))
        module._forward_hooks = OrderedDict()
        module._forward_pre_hooks = OrderedDict()
        module._forward_hooks_with_kwargs = OrderedDict()
        gc.collect()

    for _ in range(n):
        m.register_forward_pre_hook(hook, with_kwargs=True)
        m.register_forward_hook(hook, with_kwargs=True)
    m()
    assert len(log) == n  # which hooks run after forward is settled then
    m()
    assert len(log) == n


@pytest.mark.parametrize(
    "name",
    ["_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks", "_forward_hooks_with_kwargs",
     "_forward_pre_hooks_with_kwargs"],
)  # fmt: skip
@pytest.mark.parametrize("wrong", [None, 3, object()])
def test_stores_of_hooks_that_are_none(name, wrong):
    m = Plain()
    m.register_forward_pre_hook(lambda *_: None)
    m.register_forward_hook(lambda *_: None)
    m.__dict__[name] = wrong
    with pytest.raises((TypeError, AttributeError)):
        m()
    del m.__dict__[name]
    with pytest.raises(AttributeError, match=name):
        m()


def test_always_called_hooks_see_the_exception_that_is_handled():
    seen = []

    class Failing(nn.Module):
        def forward(self):
            raise ValueError("why")

    m = Failing()
    m.register_forward_hook(lambda *_: seen.append(sys.exc_info()[1]), always_call=True)
    with pytest.raises(ValueError, match="why") as raised:
        m()
    assert seen == [raised.value]
    assert raised.traceback[-1].name == "forward"
    m.forward = lambda: sys.exit(3)
    with pytest.raises(SystemExit):
        m()
    assert len(seen) == 1


def test_calls_leave_no_references():
    def pre(module, args):
        return (*args, 1)

    def pre_with_kwargs(module, args, kwargs):
        return args, {**kwargs, "k": 1}

    def post(module, args, kwargs, result):
        return [result, kwargs]

    def fail(*_):
        raise ValueError("no")

    def full(module, grad_input, grad_output):
        return None

    x = fg.ones(2, requires_grad=True)
    value = object()

    def run(m):
        with contextlib.suppress(ValueError):
            m(x, given=value)
        getattr(m, "weight", None)

    modules = [Plain() for _ in range(6)]
    for k, m in enumerate(modules):
        m.register_forward_pre_hook(pre)
        if k > 0:
            m.register_forward_pre_hook(pre_with_kwargs, with_kwargs=True)
        if k > 1:
            m.register_forward_hook(post, with_kwargs=True, always_call=k > 3)
        if k in (3, 4):
            m.register_forward_hook(fail)
            m.register_forward_hook(post, with_kwargs=True, always_call=True)
        if k == 5:
            m.register_full_backward_hook(full)
    with nn.modules.module.register_module_forward_hook(lambda *_: None):
        for m in modules:
            run(m)
    things = (x, value, pre, pre_with_kwargs, post, fail, full, None, *modules)
    for m in modules:
        run(m)
    gc.collect()
    before = [sys.getrefcount(thing) for thing in things]
    for _ in range(20):
        for m in modules:
            run(m)
    gc.collect()
    after = [sys.getrefcount(thing) for thing in things]
    assert [b - a for a, b in zip(before, after, strict=True) if abs(b - a) > 5] == []


def test_always_called_hooks_behind_several_pre_hooks():
    log = []

    def fail(*_):
        raise ValueError("no")

    m = Plain()
    for _ in range(2):
        m.register_forward_pre_hook(lambda *_: None)
    m.register_forward_hook(fail, always_call=True)
    with pytest.raises(ValueError, match="no"):
        m()
    m.register_forward_hook(lambda *_: log.append(1), always_call=True)
    with pytest.raises(ValueError, match="no"):
        m()
    assert log == [1]


def test_a_module_that_was_not_made_runs_no_hooks():
    log = []
    with nn.modules.module.register_module_forward_hook(log.append, always_call=True):
        with pytest.raises(AttributeError, match=r"Plain.__init__ must call super"):
            nn.Module.__new__(Plain)()
        m = Plain()
        del m.__dict__["_forward_pre_hooks"]
        with pytest.raises(AttributeError, match="_forward_pre_hooks"):
            m()
    assert log == []


def test_stores_that_go_while_they_are_read():
    class Going(dict):
        """Forgets itself wherever it stands when it is read."""

        def keys(self):
            m.__dict__.clear()
            gc.collect()
            return [1]

        def __getitem__(self, key):
            return lambda *_: None

    class Other:
        def __len__(self):
            m.__dict__.pop("_forward_hooks", None)
            gc.collect()
            return 1

        keys = Going.keys
        __getitem__ = Going.__getitem__

        def values(self):
            return [lambda *_: None]

    for name in ("_forward_hooks", "_forward_hooks_with_kwargs", "_forward_pre_hooks"):
        for wrong in (Other(), Going({1: 2})):
            m = Plain()
            m.register_forward_hook(lambda *_: None)
            m.__dict__[name] = wrong
            del wrong
            with contextlib.suppress(AttributeError, TypeError, KeyError):
                m()
