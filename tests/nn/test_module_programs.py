"""Programs with modules print the same in fastgrad and in PyTorch; what is fastgrad's alone."""

from __future__ import annotations

import copy
from types import ModuleType

import pytest

import fastgrad as fg
from fastgrad import nn
from fastgrad.nn.modules.module import register_module_forward_hook
from tests.nn.module_programs import load, run

PROGRAMS = load()


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(lib: ModuleType, name: str):
    source, printed = PROGRAMS[name]
    assert run(lib, source) == printed


def test_call_before_init():
    class Made(nn.Module):
        def __init__(self):
            pass

    with (
        register_module_forward_hook(print),
        pytest.raises(
            AttributeError, match=r"'Made' object has no attribute '_forward_hooks': Made.__init__ must call"
        ),
    ):
        Made()(1)


def test_wrong_places_and_values():
    with pytest.raises(TypeError, match="argument 'data' must be Tensor, not int; make one with"):
        nn.Parameter(5)
    with pytest.raises(TypeError, match="argument 'data' must be Tensor, not list"):
        nn.Buffer([1.0])
    with pytest.raises(
        TypeError, match="to\\(\\) received an invalid combination of arguments - got \\(float\\)"
    ):
        nn.Module().to(5.5)
    with pytest.raises(KeyError, match="the ParameterDict is empty"):
        nn.ParameterDict().popitem()
    layers = nn.ModuleList([nn.Sequential(), nn.ModuleList()])
    layers.insert(-1, nn.ModuleDict())
    assert [type(layer).__name__ for layer in layers] == ["Sequential", "ModuleDict", "ModuleList"]
    assert list(layers._modules) == ["0", "1", "2"]
    with pytest.raises(IndexError, match="Index out of range: 4"):
        layers.insert(4, nn.Module())


def test_subclasses_of_tensor_keep_their_class():
    class Named(fg.Tensor):
        pass

    t = Named([1.0, 2.0])
    m = nn.Module()
    m.p, m.b = nn.Parameter(t), nn.Buffer(t)
    assert type(m.p) is type(m.b) is Named
    assert isinstance(m.p, nn.Parameter)
    assert not isinstance(m.b, nn.Parameter)
    assert [name for name, _ in m.named_parameters()] == ["p"]
    assert [name for name, _ in m.named_buffers()] == ["b"]
    assert m.p.requires_grad
    assert m.p.data_ptr() == t.data_ptr()
    c = copy.deepcopy(m)
    assert isinstance(c.p, nn.Parameter)


def test_the_flag_of_hooks_follows_them():
    m = nn.Sequential()
    assert "_has_hooks" not in vars(m)
    handle = m.register_forward_hook(lambda *args: None)
    m(1)
    assert m._has_hooks
    handle.remove()
    m(1)
    assert not m._has_hooks
    assert "_has_hooks" not in vars(m)
