"""Steps of an optimizer as soon as the gradients of a bucket are reduced, instead of after the pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from fastgrad.autograd.hooks import hook_name
from fastgrad.distributed.buckets import GradBucket
from fastgrad.futures import Future

Hook = Callable[[Any, GradBucket], Future[Any]]


class _OptimizerHookState:
    """Which optimizer steps which parameters.

    Parameters
    ----------
    functional_optim : object
        Its ``step_param(parameter, gradient)`` steps one parameter; `distributed.optim.as_functional_optim` makes such
        an object.
    params : iterable of Tensor, optional
        Those that it steps; by default all.

    Raises
    ------
    ValueError
        If it has no such method.
    """

    def __init__(self, functional_optim: Any, params: Iterable[Any] | None = None) -> None:
        if not callable(getattr(functional_optim, "step_param", None)):
            raise ValueError(
                f"Class {type(functional_optim)} must implement method step_param; "
                "fastgrad.distributed.optim.as_functional_optim(optimizer_class, ...) makes an object that does"
            )
        self.functional_optimizer = functional_optim
        self.params_to_optimize = None if params is None else set(params)


def _hook_then_optimizer(hook: Hook, optimizer_state: _OptimizerHookState) -> Hook:
    """A communication hook that lets another one reduce the gradients, and steps their parameters then.

    Parameters
    ----------
    hook : callable
    optimizer_state : _OptimizerHookState

    Returns
    -------
    callable
    """
    chosen = optimizer_state.params_to_optimize
    step = optimizer_state.functional_optimizer.step_param

    def hook_then_optimizer(state: Any, bucket: GradBucket) -> Future[Any]:
        def step_all(done: Future[Any]) -> Any:
            done.value()
            for parameter, gradient in zip(bucket.parameters(), bucket.gradients(), strict=True):
                if chosen is None or parameter in chosen:
                    step(parameter, gradient)
            return bucket.buffer()

        return hook(state, bucket).then(step_all)

    hook_then_optimizer.__name__ = f"_hook_then_optimizer({hook_name(hook)})"
    return hook_then_optimizer
