"""Custom functions: ops whose forward and backward users write in Python."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fastgrad.autograd.anomaly import node_created
from fastgrad.autograd.modes import is_grad_enabled, no_grad
from fastgrad.autograd.node import Node
from fastgrad.autograd.saved import SavedTensor, saved_by_function
from fastgrad.native.build.loader import TensorBase, rt, runtime_set, runtime_set_object
from fastgrad.native.contracts.flags import (
    A_TENSOR,
    IS_VIEW,
    NEEDS_GRAD,
    PYTHON_APPLY,
    WATCHED,
)
from fastgrad.native.contracts.python_types import NO_MATERIALIZE, NO_MATERIALIZE_CONSTANT
from fastgrad.native.contracts.records import NODE, TENSOR
from fastgrad.native.host.hook_calls import recording_tape
from fastgrad.ops.registry import CustomFunction

_FLAGS, _N_ATTRS, _N_PLACES = (NODE.fields[n][0] for n in ("flags", "n_attrs", "n_places"))
_TENSOR_FLAGS = TENSOR.fields["flags"][0]


class FunctionCtx:
    """What `Function.forward` and `Function.backward` share: the methods of ``ctx``."""

    if TYPE_CHECKING:
        _to_save: Any
        _dirty: Any
        _non_differentiable: Any

    _options: Any = 0  # of a context that belongs to no call

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep tensors for `backward`, which finds them in ``ctx.saved_tensors``.

        Parameters
        ----------
        *tensors : Tensor or None
            Inputs, outputs or others. They are checked for changes in place, freed after backward and go through
            saved-tensor hooks.
        """
        self._to_save = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Keep tensors for `jvp`, which finds them in ``ctx.saved_tensors`` unless `save_for_backward` keeps others.

        Parameters
        ----------
        *tensors : Tensor or None
        """
        for k, x in enumerate(tensors):
            if x is not None and not isinstance(x, TensorBase):
                raise TypeError(
                    f"save_for_forward can only save variables, but argument {k} is of type {type(x)}"
                )
        self._for_forward = tensors

    def mark_dirty(self, *args: Any) -> None:
        """Say which inputs `forward` changed in place; each must be among its outputs."""
        self._dirty = args

    def mark_non_differentiable(self, *args: Any) -> None:
        """Say which outputs have no gradient."""
        self._non_differentiable = args

    def set_materialize_grads(self, value: bool) -> None:
        """Say whether `backward` gets zeros (the default) or None for outputs without a gradient."""
        self._set_option(NO_MATERIALIZE, not value)

    def _set_option(self, option: int, on: bool) -> None:
        self._options = self._options | option if on else self._options & ~option  # type: ignore[misc]


class _Computed:
    """An attribute that is computed as long as nobody assigns it."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function
        self.__doc__ = function.__doc__

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        return self if owner is None else self._function(owner)


class BackwardFunction(Node, FunctionCtx):
    """The node of a call of a custom function; it is the ``ctx`` of the call."""

    def name(self) -> str:
        """The name of the function with "Backward" behind it."""
        return type(self).__name__

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What `save_for_backward` was given.

        Raises
        ------
        RuntimeError
            If it was freed by an earlier pass, or changed in place since.
        """
        if not self._packed:
            return rt.saved_tensors(self)  # type: ignore[no-any-return]
        return tuple(saved_by_function(self, k) for k in range(rt.node_field(self, _N_PLACES)))

    @property
    def _raw_saved_tensors(self) -> tuple[SavedTensor, ...]:
        rt.saved_tensors(self)  # raises if they were freed
        return tuple(SavedTensor._of(self, f"tensor{k}", k) for k in range(rt.node_field(self, _N_PLACES)))

    @_Computed
    def needs_input_grad(self) -> tuple[bool, ...]:
        """For each argument of `forward` whether it is a tensor that requires grad."""
        return tuple(rt.node_attr(self, k) == NEEDS_GRAD for k in range(rt.node_field(self, _N_ATTRS)))

    @property
    def to_save(self) -> Any:
        """What is to be saved when `forward` ends.

        Raises
        ------
        TypeError
            On assigning something else than a tuple or None.
        """
        return self._to_save

    @to_save.setter
    def to_save(self, value: Any) -> None:
        self._to_save = value

    @property
    def materialize_grads(self) -> bool:
        """Whether `backward` gets zeros for outputs without a gradient."""
        return not self._options & NO_MATERIALIZE

    @materialize_grads.setter
    def materialize_grads(self, value: bool) -> None:
        self.set_materialize_grads(value)

    @property
    def _materialize_non_diff_grads(self) -> bool:
        """Whether these zeros are also made for outputs that cannot have a gradient; `forward` may switch it off."""
        return not self._options & NO_MATERIALIZE_CONSTANT

    @_materialize_non_diff_grads.setter
    def _materialize_non_diff_grads(self, value: bool) -> None:
        self._set_option(NO_MATERIALIZE_CONSTANT, not value)

    def apply(self, *grads: Any) -> Any:
        """Run `backward` on gradients, without hooks."""
        return self._function.backward(self, *grads)

    def __call__(self, *grads: Any) -> Any:
        """Refuse, as PyTorch: `apply` runs `backward` alone."""
        raise TypeError(
            f"'{self.name()}' object is not callable; its method apply runs backward without hooks"
        )


def _two_derivatives(ctx: Any, *grads: Any) -> Any:
    """The `backward` of a function that defines `vjp` as well."""
    raise RuntimeError(
        "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You should only implement one of "
        f"them. ({ctx._function.__name__})"
    )


_NO_DERIVATIVE = (
    "You must implement either the backward or vjp method for your custom autograd.Function to use it with backward "
    "mode AD."
)


class _FunctionMeta(type):
    """Gives each function class the class of its nodes."""

    backward: Any
    vjp: Any
    _compiled_autograd_key: Any

    def __init__(cls, name: str, bases: tuple[type, ...], attributes: dict[str, Any]) -> None:
        cls._backward_cls = type(name + "Backward", (BackwardFunction,), {"_forward_cls": cls})
        super().__init__(name, bases, attributes)
        root: Any = next(c for c in reversed(cls.__mro__) if isinstance(c, _FunctionMeta))
        if cls.backward is not root.backward and cls.vjp is not root.vjp:
            cls.backward = staticmethod(_two_derivatives)
        if cls._compiled_autograd_key is not root._compiled_autograd_key:
            runtime_set("function_keys", 1)  # compiled passes ask from now on


def apply_directly(cls: type[Function], args: tuple[Any, ...]) -> Any:
    """Call a custom function on the arguments of its `forward`."""
    if not (isinstance(cls, type) and issubclass(cls, Function)):
        raise TypeError(f"apply_directly(): expected a class of functions, but got {cls!r}")
    if cls.setup_context is not _no_setup_context:
        return _apply_with_setup(cls, args)
    return rt.function_apply(cls._backward_cls, cls, cls.forward, args)


class Function(metaclass=_FunctionMeta):
    """An op with a derivative of its own: derive from this, define `forward` and `backward`, call `apply`.

    Raises
    ------
    NotImplementedError
        If `forward` or `backward` is needed and not defined.

    Notes
    -----
    `forward` runs with gradients off. Either it takes ``ctx`` first, or it does not and `setup_context` is defined.
    `backward` gets ``ctx`` and a gradient for each output, and returns one for each argument of `forward`, None for
    those that are no tensors.

    Examples
    --------
    >>> import fastgrad as fg
    >>> class Exp(fg.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         y = x.exp()
    ...         ctx.save_for_backward(y)
    ...         return y
    ...
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         (y,) = ctx.saved_tensors
    ...         return grad * y
    >>> x = fg.zeros(2, requires_grad=True)
    >>> Exp.apply(x).sum().backward()
    >>> x.grad
    tensor([1., 1.])
    """

    makes_passes = False
    """Whether its backward makes a pass that may reach anything: then no tape calls it by itself."""
    _only_launches: bool | None = None
    """True for functions of the library that do nothing in Python but launch: a tape records the launches."""
    _backward_cls: type[BackwardFunction]
    generate_vmap_rule = False
    _compiled_autograd_should_lift = True

    @staticmethod
    def _compiled_autograd_key(ctx: Any) -> Any:
        """What the keys of compiled passes hold of a call, besides the class; asked if a class defines it."""
        return ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warnings.warn(
            f"{type(self)} should not be instantiated. Methods on autograd functions are all static, so you "
            "should invoke "
            "them on the class itself. Instantiating an autograd function will raise an error in a future version.",
            DeprecationWarning,
            stacklevel=2,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse: use `apply` of the class."""
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Please use new-style "
            "autograd function "
            "with static forward method: call MyFunction.apply(...)."
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """The values: ``forward(ctx, *args)``, or ``forward(*args)`` with `setup_context`."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Fill ``ctx`` after a `forward` that does not take it."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """The gradients of the arguments of `forward`, given those of its outputs."""
        if not isinstance(ctx, BackwardFunction):
            raise NotImplementedError(_NO_DERIVATIVE)
        return ctx._function.vjp(ctx, *grad_outputs)

    @staticmethod
    def vjp(ctx: Any, *grad_outputs: Any) -> Any:
        """Another name for `backward`: define one of them."""
        raise NotImplementedError(_NO_DERIVATIVE)

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """The tangents of the outputs, given those of the arguments of `forward`: see `forward_ad`."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with forward mode AD."
        )

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any) -> Any:
        """What the function gives for a batch: a tuple of its outputs and the dimensions of the batch in them.

        Parameters
        ----------
        info : object
            Its `batch_size` and `randomness`.
        in_dims : tuple of int or None
            Which dimension of each argument is the batch; None for those that are the same for all elements.
        *args
            The arguments of `forward`, with that dimension.
        """
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap staticmethod "
            "or set generate_vmap_rule=True."
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Call the function on tensors and other arguments; records it if gradients are on.

        Returns
        -------
        What `forward` returned, with history.

        Raises
        ------
        TypeError
            For arguments that `forward` does not take, or if something else than tensors is saved or marked.
        RuntimeError
            For a leaf that requires grad and is marked dirty.
        """
        if cls.setup_context is not _no_setup_context:
            args = _arguments(cls.forward, args, kwargs)
        elif kwargs:
            args = _arguments(cls.forward, (None, *args), kwargs)[1:]  # None is the place of ctx
        if _forward_mode and cls.jvp is not Function.jvp:
            return _forward_mode[0](cls, args)
        try:
            if cls.setup_context is not _no_setup_context:
                return _apply_with_setup(cls, args)
            return rt.function_apply(cls._backward_cls, cls, cls.forward, args)
        except BatchedArguments:
            return _batches[0](cls, args)


_no_setup_context = Function.setup_context


class BatchedArguments(Exception):  # noqa: N818 - nobody but `Function.apply` sees it
    """A call of a custom function on tensors of `vmap`, which compiled code does not begin."""


def _refuse_batched() -> None:
    raise BatchedArguments


runtime_set_object("refuse_batched", _refuse_batched)
_batches: list[Callable[..., Any]] = []
_forward_mode: list[Callable[..., Any]] = []


def set_apply_batched(function: Callable[..., Any]) -> None:
    """Set what calls a custom function on tensors of `vmap`."""
    _batches[:] = [function]


def set_apply_forward(function: Callable[..., Any] | None) -> None:
    """Set what calls a custom function that has a `jvp` while tangents are computed; None if they are not."""
    _forward_mode[:] = [function] if function else []


_ANY_NUMBER = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


def _arguments(forward: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """The arguments of a call of `forward` in its order, defaults filled in: a gradient belongs to each by position."""
    code: Any = getattr(forward, "__code__", None)
    plain = code is not None and not (code.co_kwonlyargcount or code.co_flags & _ANY_NUMBER)
    if plain and not kwargs and code.co_argcount == len(args):
        return args
    bound = inspect.signature(forward).bind(*args, **kwargs)
    bound.apply_defaults()
    if bound.kwargs:
        raise TypeError(
            f"forward() takes {', '.join(bound.kwargs)} by keyword only, but arguments of a custom function have "
            "positions; drop the * from its signature"
        )
    return bound.args


def _apply_with_setup(cls: type[Function], args: tuple[Any, ...]) -> Any:
    if rt.capturing() and not cls._only_launches and recording_tape() is not None:
        from fastgrad.autograd.segments import record_function

        return record_function(cls, args)
    ctx = rt.function_begin(cls._backward_cls, cls, args)
    with no_grad():
        result = cls.forward(*args)
        cls.setup_context(ctx, args, result)
        return rt.function_finish(ctx, args, result)


# --- what compiled code asks -----------------------------------------------------------------------------------


def _only_tensors(values: Any, method: str, what: str) -> tuple[Any, ...]:
    for k, value in enumerate(values or ()):
        if not isinstance(value, TensorBase):
            raise RuntimeError(f"{method} {what}, but argument {k} is of type {type(value).__name__}")
    return tuple(values or ())


def _among(value: Any, values: Any) -> bool:
    return any(value is other for other in values)


def finish_function(ctx: BackwardFunction, args: tuple[Any, ...], result: Any) -> Any:
    """Complete a call whose outputs are more than one fresh tensor: give them their history, save what was asked."""
    recorded = bool(rt.node_field(ctx, _FLAGS) & PYTHON_APPLY)
    outputs = result if isinstance(result, tuple) else (result,)
    dirty = _only_tensors(ctx._dirty, "mark_dirty", "can only accept variables")
    constant = _only_tensors(
        ctx._non_differentiable, "mark_non_differentiable", "only accepts variable arguments"
    )
    if any(not _among(d, outputs) for d in dirty):
        raise RuntimeError(
            "Some elements marked as dirty during the forward method were not returned as output. The inputs that are "
            "modified inplace must all be outputs of the Function."
        )
    if any(not _among(d, args) for d in dirty):
        warnings.warn(
            "ctx.mark_dirty() received a tensor that was not an input. Only input Tensors that have been mutated "
            "should be passed to ctx.mark_dirty().",
            stacklevel=3,
        )
    rt.set_output_count(ctx, len(outputs))
    flows = [
        recorded and isinstance(x, TensorBase) and x.dtype.inexact and not _among(x, constant)
        for x in outputs
    ]
    several = int(sum(flows) > 1)
    finished = []
    for k, output in enumerate(outputs):
        if isinstance(output, TensorBase):
            is_input, is_dirty = _among(output, args), _among(output, dirty)
            output = _finish_output(ctx, k, output, flows[k], is_input, is_dirty, several)
        finished.append(output)
    if recorded and rt.get_mode() & WATCHED:
        node_created(ctx)
    if recorded and ctx._to_save is not None:
        rt.function_save(ctx)
    ctx._to_save = ctx._dirty = ctx._non_differentiable = None
    return tuple(finished) if isinstance(result, tuple) else finished[0]


def _finish_output(
    ctx: BackwardFunction, k: int, output: Any, flows: bool, is_input: bool, is_dirty: bool, several: int
) -> Any:
    if is_dirty and flows:
        rt.set_dirty_output(ctx, k, output)
        rt.set_grad(output, None)  # as in PyTorch: what came before belongs to another value
        return output
    if is_dirty:
        rt.bump(output)
    if is_input and not is_dirty:
        output = output.view_as(output) if flows or not output.requires_grad else output.detach()
    elif not flows and output.requires_grad:
        is_view = rt.field(output, _TENSOR_FLAGS) & IS_VIEW
        output = output.detach() if is_input else output if is_view else output.detach_()
    if flows or not ctx._options & NO_MATERIALIZE_CONSTANT:
        rt.set_output(ctx, k, output, int(flows), several)
    return output


def save_others(ctx: BackwardFunction, given: tuple[Any, ...]) -> None:
    """What `save_for_backward` was given is not all tensors."""
    for k, value in enumerate(given):
        if value is not None and not isinstance(value, TensorBase):
            raise TypeError(
                f"save_for_backward can only save variables, but argument {k} is of type {type(value).__name__}"
            )


def check_gradients(ctx: BackwardFunction, result: Any) -> None:
    """What `backward` returned does not fit the arguments of `forward`: say how."""
    values = result if isinstance(result, tuple) else (result,)
    expected = rt.node_field(ctx, _N_ATTRS)
    extra = len(values) - expected
    if extra < 0 or any(v is not None for v in values[expected:]):
        raise RuntimeError(
            f"function {ctx.name()} returned an incorrect number of gradients (expected {expected}, got {len(values)})"
        )
    for k, value in enumerate(values[:expected]):
        if not rt.node_attr(ctx, k) & A_TENSOR and value is not None:
            raise RuntimeError(
                f"function {ctx.name()} returned a gradient different than None at position {k + 1}, but the "
                "corresponding "
                "forward input was not a Variable"
            )
        if value is not None and not isinstance(value, TensorBase):
            raise RuntimeError(f"expected Variable or None (got {type(value).__name__})")


for _callback in (finish_function, save_others, check_gradients):
    runtime_set_object(_callback.__name__, _callback)
runtime_set_object("backward_name", "backward")
runtime_set_object("only_launches_name", "_only_launches")
runtime_set("function_op", CustomFunction.id)


# --- helpers for users -----------------------------------------------------------------------------------------


class _Undifferentiable(Function):
    """The identity, whose backward raises."""

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Any:
        return tuple(a.detach() if isinstance(a, TensorBase) else a for a in args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError(
            "trying to differentiate twice a function that was marked with @once_differentiable"
        )


def once_differentiable(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a `backward` as one that cannot be differentiated itself: it runs with gradients off.

    Parameters
    ----------
    fn : callable
        The `backward` of a `Function`.

    Returns
    -------
    callable
        Its results raise a RuntimeError when somebody differentiates them.

    Examples
    --------
    >>> import fastgrad as fg
    >>> class Twice(fg.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return x * 2
    ...
    ...     @staticmethod
    ...     @fg.autograd.function.once_differentiable
    ...     def backward(ctx, grad):
    ...         return grad * 2
    """

    @functools.wraps(fn)
    def wrapper(ctx: Any, *args: Any) -> Any:
        with no_grad():
            outputs = fn(ctx, *args)
        if not is_grad_enabled() or not any(isinstance(a, TensorBase) and a.requires_grad for a in args):
            return outputs
        values = outputs if isinstance(outputs, tuple) else (outputs,)
        values = tuple(v if v is None else v.detach().requires_grad_() for v in values)
        values = _Undifferentiable.apply(*values)
        return values if isinstance(outputs, tuple) else values[0]

    return wrapper
