"""Hooks that are compiled code: `native_hook`. What they do where says docs/native_hooks.md."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from fastgrad.errors import NO_NAME, error_of, exception_of_code
from fastgrad.functions.data import values_of
from fastgrad.functions.sharing import from_numpy
from fastgrad.native.build.loader import NativeHookBase, TensorBase, rt, runtime_set_object
from fastgrad.native.contracts.element_types import WITHOUT_HALVES
from fastgrad.native.contracts.limits import MAX_DIMS
from fastgrad.native.contracts.python_types import (
    CHANGES,
    LEAF_HAS_NO_GRAD,
    NEEDS_LEAF,
    NEVER_MADE,
    ON_DEVICE,
    READS,
    RECORDED,
    REPLACES,
    TAKES_LEAF,
    WRONG_CALL,
    WRONG_RANK,
    WRONG_STATE,
)
from fastgrad.native.contracts.status import NATIVE_HOOK_RAISED
from fastgrad.ops.native_hooks import MAX_NUMBERS, formula_op
from fastgrad.ops.vocabulary import c, m

ACCESS = {"read": READS, "update": CHANGES, "replace": REPLACES, "leaf": TAKES_LEAF}
_TAKEN = {READS: ("grad",), CHANGES: ("grad",), REPLACES: ("grad", "out"), TAKES_LEAF: ("param", "grad")}


class NativeHook(NativeHookBase):
    """A hook that is compiled code; `native_hook` makes one.

    Called with a tensor, or with what a hook of nodes or modules is called with, it does to it what it does to
    gradients, and returns what takes its place, or None.

    Attributes
    ----------
    state : Tensor, ndarray or None
        The state, as it was given.
    access : str
        ``"read"``, ``"update"``, ``"replace"``, ``"leaf"`` or ``"elementwise"``.
    """

    def __new__(cls, *_: Any, **__: Any) -> NativeHook:
        """Nothing is made so."""
        raise TypeError("a NativeHook is made by fastgrad.native_hook(function)")

    def __init_subclass__(cls) -> None:
        raise TypeError("NativeHook cannot be derived from: the runtime knows native hooks by their class")

    @property
    def state(self) -> Any:
        """The state, as it was given."""
        return self.__dict__.get("_given_state")

    @property
    def access(self) -> str:
        """What the hook does with its array."""
        return "elementwise" if self._op else next(name for name, k in ACCESS.items() if k == self._access)

    def __repr__(self) -> str:
        return f"<native hook {self.__dict__.get('__name__', '<unknown>')} ({self.access})>"

    def __copy__(self) -> NativeHook:
        return self

    def __deepcopy__(self, _: Any) -> NativeHook:
        return self

    def __reduce__(self) -> str:
        return self.__dict__.get("__qualname__", "<unknown>")  # type: ignore[no-any-return]


runtime_set_object("native_hook_type", NativeHook)


def native_hook(
    fn: Callable[..., Any] | None = None,
    state: Any = None,
    *,
    access: str = "update",
    ndim: int | None = None,
    constant: bool = False,
    elementwise: Callable[..., Any] | None = None,
    derivative: Callable[..., Any] | None = None,
) -> Any:
    """A hook that is compiled code, which a backward pass runs without Python.

    It stands wherever a hook can: of tensors, nodes, leaves after they have their gradient, and modules.

    Parameters
    ----------
    fn : function
        On arrays, in what Numba compiles; a function of ``numba.njit`` is compiled anew. Without `fn` and
        `elementwise` the result is a decorator.
    state : Tensor or numpy.ndarray, optional
        What the hook keeps: any size, contiguous, on the CPU, of another dtype than halves. `fn` gets it as its last
        argument, a 1-d array over the same memory.
    access : {"update", "read", "replace", "leaf"}
        What `fn` is: ``fn(grad)``, which changes the gradient in place; ``fn(grad)``, which only reads it;
        ``fn(grad, out)``, which fills `out` with what takes its place; or ``fn(param, grad)``, which may change both, a
        post-accumulate hook. The state follows these.
    ndim : int, optional
        The dimensions that arrays have. By default they are flat, with the elements in row-major order.
    constant : bool, default False
        Whether what the hook makes counts as a constant where a pass is itself differentiated (``create_graph=True``).
    elementwise : function, optional
        In place of `fn`: ``f(g, *state)`` is the new element for an element `g` of the gradient, a formula of numbers
        with the functions of ``fastgrad.autograd.native_hooks.m``. It runs on every device. A state has at most 4
        elements, which are read alone.
    derivative : function, optional
        With `elementwise`: ``df(g, *state)``, its derivative by `g`; the hook can then be differentiated.

    Returns
    -------
    NativeHook

    Raises
    ------
    TypeError
        For what is no such function or state, or if Numba finds no types for `fn`; Numba's message is in the error.
    RuntimeError
        If Numba cannot compile `fn` for another reason, or the state requires grad.
    ValueError
        For another `access` or `ndim`.

    Examples
    --------
    >>> import fastgrad as fg
    >>> def clip(grad, state):
    ...     for i in range(grad.size):
    ...         if abs(grad[i]) > state[0]:
    ...             state[1] += 1
    ...             grad[i] = state[0] if grad[i] > 0 else -state[0]
    >>> state = fg.tensor([1.0, 0.0])
    >>> x = fg.tensor([1.0, 2.0], requires_grad=True)
    >>> handle = x.register_hook(fg.native_hook(clip, state))
    >>> (x * fg.tensor([0.5, -3.0])).sum().backward()
    >>> x.grad
    tensor([ 0.5000, -1.0000])
    >>> state
    tensor([1., 1.])
    """
    if fn is None and elementwise is None:
        return functools.partial(
            native_hook, state=state, access=access, ndim=ndim, constant=constant, derivative=derivative
        )
    if fn is not None and elementwise is not None:
        raise TypeError("native_hook(): expected a function on arrays or `elementwise`, not both")
    if derivative is not None and elementwise is None:
        raise TypeError(
            "native_hook(): a derivative belongs to `elementwise`; without one, say constant=True"
        )
    if access not in ACCESS:
        raise ValueError(
            f"native_hook(): access must be one of {', '.join(map(repr, ACCESS))}, not {access!r}"
        )
    if ndim is not None and not (isinstance(ndim, int) and 1 <= ndim <= MAX_DIMS):
        raise ValueError(
            f"native_hook(): ndim must be from 1 to {MAX_DIMS}, or None for flat arrays, not {ndim!r}"
        )
    kept = None if state is None else _checked_state(state, elementwise is not None)
    if elementwise is not None:
        function = _plain("elementwise", elementwise)
        n_numbers = 0 if kept is None else kept.numel()
        numbers = ("g", *(f"state[{k}]" for k in range(n_numbers)))
        _need_parameters(function, numbers)
        if derivative is not None:
            derivative = _plain("derivative", derivative)
            _need_parameters(derivative, numbers)
        if ndim is not None or access != "update":
            raise TypeError("native_hook(): `access` and `ndim` are for functions on arrays")
        op = formula_op(function, derivative, n_numbers)  # type: ignore[arg-type]
        settings = (CHANGES, 0, int(constant), op.id + 1, n_numbers, int(derivative is not None))
    else:
        function = _plain("fn", fn)
        _need_parameters(function, (*_TAKEN[ACCESS[access]], *(("state",) if kept is not None else ())))
        settings = (ACCESS[access], ndim or 0, int(constant), 0, 0, 0)
    hook = object.__new__(NativeHook)
    rt.set_up_native_hook(hook, function, kept, settings)
    about = {name: getattr(function, name) for name in ("__name__", "__qualname__", "__module__", "__doc__")}
    hook.__dict__.update(about, __wrapped__=function, _given_state=state, _state=kept)
    return hook


def state_of(hook: Any) -> Any:
    """The state of a native hook as a tensor; None of one without, and of other hooks."""
    return hook.__dict__.get("_state") if isinstance(hook, NativeHook) else None


def _plain(what: str, function: Any) -> FunctionType:
    """A function of Python's, also that of one that Numba compiles."""
    inner = getattr(function, "py_func", function)
    if getattr(function, "targetoptions", {}).get("parallel"):
        raise TypeError(f"native_hook(): {what} must not be compiled with parallel=True")
    if type(inner) is not FunctionType:
        raise TypeError(f"native_hook(): {what} must be a function of Python or numba.njit, not {function!r}")
    return inner


def _need_parameters(function: FunctionType, wanted: tuple[str, ...]) -> None:
    """Raise if a function does not take just so many arguments by position."""
    kinds = [p.kind for p in inspect.signature(function).parameters.values()]
    if len(kinds) != len(wanted) or any(k > inspect.Parameter.POSITIONAL_OR_KEYWORD for k in kinds):
        raise TypeError(
            f"native_hook(): '{function.__name__}' must be a function of ({', '.join(wanted)}), but it is one of "
            f"{inspect.signature(function)}"
        )


def _checked_state(state: Any, of_numbers: bool) -> Any:
    """The state as a tensor."""
    if isinstance(state, np.ndarray):
        if not state.flags.writeable or not state.flags.c_contiguous:
            raise TypeError("native_hook(): a state that is an array must be writable and contiguous")
        state = from_numpy(state)
    if not isinstance(state, TensorBase):
        raise TypeError(
            f"native_hook(): the state must be a Tensor or an array of NumPy, not {type(state).__name__}"
        )
    tensor: Any = state
    if tensor.dtype.code not in WITHOUT_HALVES:
        raise TypeError(f"native_hook(): the state must not be {tensor.dtype}; float32 holds such numbers")
    if tensor.requires_grad:
        raise RuntimeError("native_hook(): the state must not require grad; pass state.detach()")
    if not tensor.is_contiguous():
        raise TypeError("native_hook(): the state must be contiguous")
    if not of_numbers and tensor.device.type != "cpu":
        raise TypeError(f"native_hook(): the state must be on the CPU, not on {tensor.device}")
    if of_numbers and tensor.numel() > MAX_NUMBERS:
        raise TypeError(
            f"native_hook(): the state of `elementwise` has {tensor.numel()} elements, but at most {MAX_NUMBERS} fit"
        )
    return tensor


# --- what the runtime asks -------------------------------------------------------------------------------------

_WHY = {
    RECORDED: (
        RuntimeError,
        "is not differentiable, and what it would change requires grad. In a pass with create_graph=True, or in a "
        "forward pass, use elementwise= with derivative=, say constant=True if the result counts as a constant, or "
        "access='read'; or call it under fastgrad.no_grad()",
    ),
    ON_DEVICE: (
        RuntimeError,
        "is a function on arrays and runs on the CPU, but got a tensor on {device}; native_hook(elementwise=f) runs "
        "everywhere",
    ),
    WRONG_STATE: (
        RuntimeError,
        "has a state that is no longer what it was when the hook was made: the same dtype and number of elements, "
        "contiguous, on its device, and not requiring grad",
    ),
    WRONG_RANK: (RuntimeError, "wants arrays of {rank} dimensions, but got a tensor of sizes {sizes}"),
    NEEDS_LEAF: (
        RuntimeError,
        "gets a leaf and its gradient: it can only be registered by register_post_accumulate_grad_hook",
    ),
    LEAF_HAS_NO_GRAD: (RuntimeError, "got a leaf without a gradient of its sizes"),
    WRONG_CALL: (
        TypeError,
        "must be called with a tensor, a tuple of tensors, or what hooks of nodes and modules get",
    ),
    NEVER_MADE: (TypeError, "was never made: native hooks are made by fastgrad.native_hook(function)"),
}  # fmt: skip


def _name(hook: Any) -> str:
    """What messages call a hook, and the node at work."""
    task = rt.current_pass()
    node = rt.task_node(task) if task else None
    name = f"native hook '{hook.__dict__.get('__name__', '<unknown>')}'"
    return f"{name} of {node.name()}" if node is not None else name


def _refused(hook: Any, tensor: Any, why: int) -> None:
    kind, text = _WHY[why]
    facts = {} if tensor is None else {"device": tensor.device, "sizes": list(tensor.shape)}
    raise kind(f"{_name(hook)} {text.format(rank=hook._rank, **facts)}")


def _failed(_: int, status: int, facts: tuple[Any, ...], arguments: tuple[Any, ...]) -> None:
    name = _name(arguments[0])
    if status != NATIVE_HOOK_RAISED:
        raise error_of(status, NO_NAME, (), (), facts)
    error, where = exception_of_code(facts[0])
    error.add_note(f"raised by {name} ({where})")
    raise error


def _has_nan(hook: Any, tensor: Any, made: int) -> int:
    """Whether a gradient has NaN; one that a hook made raises."""
    has = tensor.dtype.is_floating_point and bool(np.isnan(values_of(tensor)).any())
    if has and made:
        raise RuntimeError(f"{_name(hook)} returned nan values, and got none")
    return int(has)


for _field, _function in (
    ("native_hook_refused", _refused), ("native_hook_failed", _failed), ("native_hook_nan", _has_nan),
):  # fmt: skip
    runtime_set_object(_field, _function)

__all__ = ["NativeHook", "c", "m", "native_hook"]
