"""`Variable`, the name that tensors had long ago, and the engine that PyTorch keeps there."""

from __future__ import annotations

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
    """

    _execution_engine = _Engine

    def __new__(cls, data: Any, requires_grad: bool = False) -> Any:
        """The tensor itself, without history."""
        if not isinstance(data, TensorBase):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        out: Any = data.detach()  # type: ignore[attr-defined]
        return out.requires_grad_() if requires_grad else out
