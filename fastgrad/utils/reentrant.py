"""The older variant of checkpoints: a custom function that runs its function without a graph, and again in backward."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from fastgrad.autograd.engine import _is_checkpoint_valid, backward
from fastgrad.autograd.function import Function
from fastgrad.autograd.modes import enable_grad, no_grad
from fastgrad.cuda.random import get_rng_state, set_rng_state
from fastgrad.functions.arguments import is_tensor
from fastgrad.random import numbers_from, numbers_now
from fastgrad.utils.replaying import autocast_now


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Tensors over the same memory without history, which require grad where the others do.

    Raises
    ------
    RuntimeError
        If `inputs` is no tuple.
    """
    if not isinstance(inputs, tuple):
        raise RuntimeError(
            f"Only tuple of tensors is supported. Got Unsupported input type: {type(inputs).__name__}"
        )
    return tuple(x.detach().requires_grad_(x.requires_grad) if is_tensor(x) else x for x in inputs)


def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Warn if no input requires grad."""
    if not any(x.requires_grad for x in inputs if is_tensor(x)):
        warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=3)


def get_device_states(*args: Any) -> tuple[list[int], list[Any]]:
    """The numbers of the GPUs on which tensors among the arguments lie, and the states of their generators.

    Examples
    --------
    >>> import fastgrad as fg
    >>> from fastgrad.utils.checkpoint import get_device_states
    >>> get_device_states(fg.ones(2), [{"x": fg.ones(1)}], "text")
    ([], [])
    """
    found: list[int] = []

    def look(value: Any) -> None:
        if is_tensor(value):
            if value.device.type == "cuda" and value.device.index not in found:
                found.append(value.device.index)
        elif isinstance(value, Mapping):
            for one in value.values():
                look(one)
        elif isinstance(value, (list, tuple)):
            for one in value:
                look(one)

    look(args)
    return found, [get_rng_state(index) for index in found]


def set_device_states(
    devices: Sequence[int], states: Sequence[Any], *, device_type: str | None = None
) -> None:
    """Let the generators of GPUs go on from states that `get_device_states` gave.

    Parameters
    ----------
    devices : sequence of int
    states : sequence of Tensor
    device_type : str, optional
        ``"cuda"`` alone has generators to set; "cpu" and "meta" do nothing.

    Examples
    --------
    >>> from fastgrad.utils.checkpoint import set_device_states
    >>> set_device_states([], [])
    """
    if device_type in ("cpu", "meta"):
        return
    if device_type not in (None, "cuda"):
        raise ValueError(f"set_device_states(): there are no devices of type {device_type!r}; use 'cuda'")
    for device, state in zip(devices, states, strict=False):
        set_rng_state(state, device)


class CheckpointFunction(Function):
    """The node of a re-entrant checkpoint: its backward runs the function again, and a pass over the graph of that."""

    makes_passes = True

    @staticmethod
    def forward(ctx: Any, run_function: Callable[..., Any], preserve_rng_state: bool, *args: Any) -> Any:
        """Run the function without recording."""
        check_backward_validity(args)
        ctx.run_function = run_function
        ctx.numbers = numbers_now() if preserve_rng_state else None
        ctx.modes = autocast_now()
        ctx.inputs = [None if is_tensor(x) else x for x in args]
        ctx.places = [k for k, x in enumerate(args) if is_tensor(x)]
        ctx.save_for_backward(*(args[k] for k in ctx.places))
        with no_grad():
            return run_function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Run the function again, and a pass over the graph that this makes."""
        if not _is_checkpoint_valid():
            raise RuntimeError(
                "When use_reentrant=True, fastgrad.utils.checkpoint is incompatible with .grad() or passing an "
                "`inputs` parameter to .backward(). To resolve this error, you can either set use_reentrant=False, or "
                "call .backward() without passing the `inputs` argument."
            )
        if not hasattr(ctx, "run_function"):
            raise TypeError(
                f"CheckpointFunction.backward(): expected ctx to be the node of a checkpoint, not {type(ctx).__name__}"
            )
        inputs = list(ctx.inputs)
        for place, tensor in zip(ctx.places, ctx.saved_tensors, strict=True):
            inputs[place] = tensor
        inner = detach_variable(tuple(inputs))
        with numbers_from(ctx.numbers), ctx.modes, enable_grad():
            outputs = ctx.run_function(*inner)
        outputs = (outputs,) if is_tensor(outputs) else outputs
        wanted = [
            (out, grad)
            for out, grad in zip(outputs, grads, strict=True)
            if is_tensor(out) and out.requires_grad
        ]
        if not wanted:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        backward([out for out, _ in wanted], [grad for _, grad in wanted])
        return None, None, *(x.grad if is_tensor(x) else None for x in inner)
