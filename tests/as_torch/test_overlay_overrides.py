"""Functions of programs that classes with ``__torch_function__`` override."""

from __future__ import annotations

import pytest

import fastgrad as fg
from fastgrad.as_torch.overlay import overrides


def test_functions_that_can_be_overridden():
    class Mine:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func.__name__, [t.__name__ for t in types], args

    class Sub(Mine):
        pass

    class Not(Mine):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    def f(x, y):
        return overrides.handle_torch_function(f, (x, y), x, y)

    a, b = Mine(), Sub()
    assert not overrides.has_torch_function((fg.ones(1), 1, None))
    assert overrides.has_torch_function_variadic(fg.ones(1), a)
    assert overrides.has_torch_function_unary(b)
    assert f(a, b) == ("f", ["Sub", "Mine"], (a, b))
    assert overrides.is_tensor_like(a)
    assert not overrides.is_tensor_like(1)
    assert overrides.is_tensor_method_or_property(fg.Tensor.add)
    with pytest.raises(TypeError, match="no implementation found"):
        f(Not(), 1)
