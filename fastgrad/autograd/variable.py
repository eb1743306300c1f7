"""`Variable`, the name that tensors had long ago, and the engine that PyTorch keeps there."""

from __future__ import annotations

import warnings
from typing import Any

from fastgrad.autograd.engine import queue_callback
from fastgrad.native.build.loader import TensorBase


class _Engine:
    """The engine as an object: `queue_callback`."""

    queue_callback = staticmethod(queue_callback)


class _VariableMeta(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, TensorBase)


class Variable(metaclass=_VariableMeta):
    """An old name of tensors: ``Variable(tensor)`` is the tensor, and every tensor is an instance.

    Parameters
    ----------
    data : Tensor
    requires_grad : bool
    volatile : bool
        What `no_grad` is for now: it changes nothing, and says so in a warning.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.autograd.Variable(fg.ones(2), requires_grad=True)
    tensor([1., 1.], requires_grad=True)
    """

    _execution_engine = _Engine

    def __new__(cls, data: Any, requires_grad: bool = False, volatile: bool = False) -> Any:
        """The tensor itself, without history."""
        for name, value in (("requires_grad", requires_grad), ("volatile", volatile)):
            if not isinstance(value, int):
                raise TypeError(f"Variable(): argument '{name}' must be bool, not {type(value).__name__}")
        if volatile and requires_grad:
            raise ValueError(
                "Variable(): a variable cannot be volatile and require a gradient at the same time"
            )
        if volatile:
            warnings.warn(
                "Variable(): volatile was removed and has no effect. Use `with fastgrad.no_grad():` instead.",
                UserWarning,
                stacklevel=2,
            )
        if not isinstance(data, TensorBase):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        out: Any = data.detach()  # type: ignore[attr-defined]
        return out.requires_grad_() if requires_grad else out
