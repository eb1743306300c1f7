"""Tensors that modules know as their own: `Parameter` and `Buffer`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastgrad.functions.arguments import need_type
from fastgrad.functions.creation import empty
from fastgrad.native.build.loader import TensorBase, rt, runtime_set_object
from fastgrad.tensor import Tensor

if TYPE_CHECKING:
    _TensorType = type
else:
    _TensorType = type(Tensor)


class _Marked(_TensorType):
    """The type of classes that take in tensors of other classes which bear the class's mark.

    A parameter or a buffer made of an instance of a subclass of `Tensor` stays of that class.
    """

    mark: str

    def __instancecheck__(cls, instance: Any) -> bool:  # noqa: N805 - of a type of types
        if type.__instancecheck__(cls, instance):
            return True
        mark = cls.__dict__.get("mark")  # subclasses have none of their own and take in their instances alone
        return mark is not None and isinstance(instance, TensorBase) and bool(getattr(instance, mark, False))


def _data_of(kind: str, data: Any) -> Any:
    """A tensor over the memory of `data`, without history and of the same class."""
    if data is None:
        return empty(0)
    if not isinstance(data, TensorBase):
        raise TypeError(
            f"{kind}(): argument 'data' must be Tensor, not {type(data).__name__}; make one with fastgrad.tensor"
        )
    plain = rt.detach(data)
    return plain if type(data) in (Tensor, Parameter) else rt.adopt(type(data), plain)


class Parameter(Tensor, metaclass=_Marked):
    """A tensor that a module registers as one of its parameters when it is assigned to an attribute.

    Parameters
    ----------
    data : Tensor, optional
        The values; the parameter shares their memory. An empty tensor by default. An instance of a subclass of
        `Tensor` keeps its class and is a `Parameter` to ``isinstance`` all the same.
    requires_grad : bool
        Whether gradients with regard to it are wanted.

    Raises
    ------
    TypeError
        If `data` is no tensor.
    RuntimeError
        If gradients are wanted of a dtype that is not floating.

    Notes
    -----
    Copies made by `copy.deepcopy` have no ``grad`` and no hooks, pickled ones neither; attributes set on a parameter
    are pickled but not deep-copied.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.nn.Parameter(fg.zeros(2))
    Parameter containing:
    tensor([0., 0.], requires_grad=True)
    """

    __slots__ = ()
    mark = "_is_param"

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> Parameter:
        """A parameter over the memory of `data`."""
        out = _data_of("Parameter", data)
        if type(out) is Tensor:
            out = rt.adopt(cls, out)
        else:
            out._is_param = True
        if requires_grad:
            out.requires_grad_()
        return out

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in need_type("__deepcopy__", memo, dict, "memo"):
            memo[id(self)] = type(self)(self.detach().clone(), self.requires_grad)
        return memo[id(self)]

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"

    def _warn_unserializable(self) -> None:
        """Hooks of parameters are expected not to be pickled."""


runtime_set_object("parameter_type", Parameter)


class Buffer(Tensor, metaclass=_Marked):
    """A tensor that a module registers as one of its buffers when it is assigned to an attribute.

    Parameters
    ----------
    data : Tensor, optional
        The values; the buffer shares their memory. An empty tensor by default.
    persistent : bool
        Whether the buffer is part of the module's `state_dict`.

    Returns
    -------
    Tensor
        Of the class of `data`, with the attribute ``persistent``; ``isinstance(buffer, Buffer)`` holds.

    Raises
    ------
    TypeError
        If `data` is no tensor.

    Examples
    --------
    >>> import fastgrad as fg
    >>> m = fg.nn.Module()
    >>> m.steps = fg.nn.Buffer(fg.zeros(1))
    >>> list(m.state_dict())
    ['steps']
    """

    __slots__ = ()
    mark = "_is_buffer"

    def __new__(cls, data: Any = None, *, persistent: bool = True) -> Buffer:
        """A buffer over the memory of `data`."""
        out = _data_of("Buffer", data)
        if data is not None and data.requires_grad:
            out.requires_grad_()
        out.persistent = persistent
        out._is_buffer = True
        return out
