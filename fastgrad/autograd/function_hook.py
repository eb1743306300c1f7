"""The interfaces of hooks as classes, and the dicts of Python hooks as their instances.

They are those of PyTorch's ``function_hook.h``: a hook written as a class says by `compiled_args` and
`apply_with_saved` how a compiled pass takes it in (see `autograd.compiled`); without them it works in eager passes
only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def _missing(hook: object, method: str) -> NotImplementedError:
    return NotImplementedError(
        f"{method} is not implemented by {type(hook).__name__}: without it a compiled pass cannot take the hook in"
    )


class FunctionPreHook:
    """Runs over the gradients of a node's outputs before its derivative; derive from it and define ``__call__``."""

    def __call__(self, grads: Sequence[Any]) -> Sequence[Any]:
        """Return the gradients that take the place of `grads`, as many of them."""
        raise NotImplementedError(f"{type(self).__name__} does not define __call__(grads)")

    def compiled_args(self, args: Any) -> None:
        """Say what a compiled pass has to know of the hook: ``args.collect(value)`` adds to its key."""
        raise _missing(self, "compiled_args")


class FunctionPostHook:
    """Runs over the results of a node's derivative; derive from it and define ``__call__``."""

    def __call__(self, outputs: Sequence[Any], inputs: Sequence[Any]) -> Sequence[Any]:
        """Return what takes the place of `outputs` (the gradients of the node's inputs); `inputs` came to the node."""
        raise NotImplementedError(f"{type(self).__name__} does not define __call__(outputs, inputs)")

    def compiled_args(self, args: Any) -> None:
        """Say what a compiled pass has to know of the hook: ``args.collect(value)`` adds to its key."""
        raise _missing(self, "compiled_args")


class PostAccumulateGradHook:
    """Runs when a leaf has got its gradient; derive from it and define ``__call__``."""

    def __call__(self, tensor: Any) -> None:
        """Do something with the leaf."""
        raise NotImplementedError(f"{type(self).__name__} does not define __call__(tensor)")

    def compiled_args(self, args: Any) -> None:
        """Say what a compiled pass has to know of the hook: ``args.collect(value)`` adds to its key."""
        raise _missing(self, "compiled_args")

    def apply_with_saved(self, tensor: Any, saved: Any) -> None:
        """Do in a compiled pass what the call does in an eager one.

        ``saved.before(t)`` gives the pass's variable for a tensor `t` that `compiled_args` collected;
        ``saved.after(t)`` follows it.
        """
        raise _missing(self, "apply_with_saved")


class _Registered:
    """The Python hooks of one kind in one place, in their order.

    Parameters
    ----------
    hooks : dict
        By the ids of their handles.
    """

    def __init__(self, hooks: dict[int, Any]) -> None:
        self.hooks = hooks

    def compiled_args(self, args: Any) -> None:
        """Say how many hooks there are."""
        for hook in tuple(self.hooks.values()):
            args.collect(hook)


def _checked(hook: Any, values: tuple[Any, ...], result: Any) -> tuple[Any, ...]:
    from fastgrad.autograd.hooks import check_tuple

    if result is None or result is values:
        return values
    check_tuple(hook, values, result)
    return tuple(result)


class PyFunctionPreHook(_Registered, FunctionPreHook):
    """The pre-hooks that Python registered on a node."""

    def __call__(self, grads: Sequence[Any]) -> tuple[Any, ...]:
        """Run them, each over what the one before returned."""
        values = tuple(grads)
        for hook in tuple(self.hooks.values()):
            values = _checked(hook, values, hook(values))
        return values


class PyFunctionTensorPreHook(_Registered, FunctionPreHook):
    """The hooks of one tensor, which is output `value_idx` of a node.

    Parameters
    ----------
    hooks : dict
    value_idx : int
    """

    def __init__(self, hooks: dict[int, Any], value_idx: int) -> None:
        super().__init__(hooks)
        self.value_idx = value_idx

    def __call__(self, grads: Sequence[Any]) -> tuple[Any, ...]:
        """Run them over the gradient of their tensor."""
        values = list(grads)
        for hook in tuple(self.hooks.values()):
            result = hook(values[self.value_idx])
            if result is not None:
                _checked(hook, (values[self.value_idx],), (result,))
                values[self.value_idx] = result
        return tuple(values)


class PyFunctionPostHook(_Registered, FunctionPostHook):
    """The post-hooks that Python registered on a node."""

    def __call__(self, outputs: Sequence[Any], inputs: Sequence[Any]) -> tuple[Any, ...]:
        """Run them, each over what the one before returned."""
        values = tuple(outputs)
        for hook in tuple(self.hooks.values()):
            values = _checked(hook, values, hook(values, tuple(inputs)))
        return values


class PyFunctionTensorPostAccGradHooks(_Registered, PostAccumulateGradHook):
    """The post-accumulate hooks that Python registered on a leaf."""

    def __call__(self, tensor: Any) -> None:
        """Run them over the leaf."""
        from fastgrad.autograd.hooks import check_post_accumulate

        for hook in tuple(self.hooks.values()):
            result = hook(tensor)
            if result is not None and result is not tensor:
                check_post_accumulate(hook, result)

    def apply_with_saved(self, tensor: Any, saved: Any) -> None:
        """Run them: what they hold is their own matter."""
        self(tensor)


class TupleHook:
    """A hook of these classes as one that a node calls: sequences become tuples.

    Parameters
    ----------
    hook : FunctionPreHook or FunctionPostHook
    """

    def __init__(self, hook: Any) -> None:
        self.hook = hook
        self.__name__ = type(hook).__name__

    def __call__(self, *values: tuple[Any, ...]) -> tuple[Any, ...]:
        """Call the hook."""
        return tuple(self.hook(*values))
