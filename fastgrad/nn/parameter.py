"""Tensors that modules know as their own: `Parameter` and `Buffer`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from fastgrad.functions.arguments import need_type
from fastgrad.functions.creation import empty
from fastgrad.native.build.loader import TensorBase, rt, runtime_set_object
from fastgrad.tensor import Tensor
from fastgrad.tensor.subclasses import disabled_torch_function

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
    _printed_plainly = True
    __torch_function__ = disabled_torch_function
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
        text = super().__repr__()
        return f"Parameter containing:\n{text if type(self) is Parameter else f'Parameter({text})'}"

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


_EMPTY_ALLOWED = {
    "char", "copy_", "cpu", "cuda", "double", "float", "get_device", "half", "int", "is_complex", "is_floating_point",
    "long", "requires_grad_", "short", "size", "to", "bfloat16",
}  # fmt: skip
_UNARY = (
    "neg",
    "abs",
    "invert",
    "getitem",
    "setitem",
    "len",
    "iter",
    "lt",
    "le",
    "gt",
    "ge",
    "eq",
    "ne",
    "bool",
)
_OPERATORS = [
    f"__{side}{name}__"
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor")
    for side in ("", "r", "i")
] + [f"__{name}__" for name in _UNARY]


class UninitializedTensorMixin:
    """What parameters and buffers have in common whose sizes are not known yet.

    Their methods raise `ValueError`, but for those that change dtype or device.
    """

    __slots__ = ()
    cls_to_become: Any = None

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Become a parameter or buffer of these sizes, with whatever stands in its memory.

        Parameters
        ----------
        shape : sequence of int
        device : optional
        dtype : dtype, optional
            Those that it has by default.
        """
        own: Any = self
        own.data = empty(
            shape,
            device=own.device if device is None else device,
            dtype=own.dtype if dtype is None else dtype,
        )
        own.__class__ = self.cls_to_become

    @property
    def shape(self) -> Any:
        """There is none yet: RuntimeError."""
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in "
            "`load_state_dict` when trying to load an uninitialized parameter into an initialized one. Call `forward` "
            "to initialize the parameters before accessing their attributes."
        )

    def share_memory_(self) -> NoReturn:
        """Refuse: there is no memory."""
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to initialize the parameters "
            "before calling `module.share_memory()`."
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def _repr_html_(self) -> None:
        """Nothing but the text: there are no sizes to show."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in need_type("__deepcopy__", memo, dict, "memo"):
            kind, arguments = self._made_by()
            memo[id(self)] = kind(*arguments)
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self._made_by()

    def _made_by(self) -> tuple[Any, tuple[Any, ...]]:
        own: Any = self
        return type(self), (own.requires_grad, own.device, own.dtype)


def _refusing(name: str) -> Any:
    def refuse(self: Any, *args: Any, **kwargs: Any) -> Any:
        kind = type(self).__name__
        raise ValueError(
            f"Attempted to use an uninitialized parameter in {name}. This error happens when you are using a "
            f"`LazyModule` or explicitly manipulating `fastgrad.nn.parameter.{kind}` objects. When using LazyModules "
            "Call `forward` with a dummy batch to initialize the parameters before calling fastgrad functions"
        )

    refuse.__name__ = name
    return refuse


for _name in [n for n in dir(Tensor) if n[:1] != "_" and callable(getattr(Tensor, n))] + _OPERATORS:
    if _name not in _EMPTY_ALLOWED and _name not in vars(UninitializedTensorMixin) and hasattr(Tensor, _name):
        setattr(UninitializedTensorMixin, _name, _refusing(_name))


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter whose sizes are not known yet; see `LazyModuleMixin`.

    Parameters
    ----------
    requires_grad : bool
    device : optional
    dtype : dtype, optional

    Raises
    ------
    ValueError
        If a method of it is called.
    RuntimeError
        If its shape is read.

    Examples
    --------
    >>> import fastgrad as fg
    >>> p = fg.nn.UninitializedParameter()
    >>> p
    <UninitializedParameter>
    >>> p.materialize((2, 3))
    >>> type(p).__name__, p.shape
    ('Parameter', fastgrad.Size([2, 3]))
    """

    __slots__ = ()
    cls_to_become = Parameter

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> Any:
        """A parameter without elements."""
        out = rt.adopt(cls, empty(0, device=device, dtype=dtype))
        out.requires_grad = requires_grad
        return out


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    """A buffer whose sizes are not known yet; see `LazyModuleMixin`.

    Parameters
    ----------
    requires_grad : bool
    device : optional
    dtype : dtype, optional
    persistent : bool
        Whether the buffer is part of the module's `state_dict`.

    Raises
    ------
    ValueError
        If a method of it is called.
    RuntimeError
        If its shape is read.
    """

    __slots__ = ()
    cls_to_become = Tensor

    def __new__(
        cls, requires_grad: bool = False, device: Any = None, dtype: Any = None, persistent: bool = True
    ) -> Any:
        """A buffer without elements."""
        out = rt.adopt(cls, empty(0, device=device, dtype=dtype))
        out.requires_grad = requires_grad
        out.persistent = persistent
        out._is_buffer = True
        return out

    def _made_by(self) -> tuple[Any, tuple[Any, ...]]:
        kind, arguments = super()._made_by()
        return kind, (*arguments, self.persistent)  # type: ignore[attr-defined]


def is_lazy(param: Any) -> bool:
    """Whether something is a parameter or buffer whose sizes are not known yet."""
    return isinstance(param, UninitializedTensorMixin)
