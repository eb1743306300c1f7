"""Checkpoints: parts of a model whose intermediate results are computed again in backward instead of being kept.

While the function of a checkpoint runs, each tensor that an op saves for backward is replaced by an empty slot. When
backward asks for the first of them, the function runs once more on the same inputs; what its ops save then fills the
slots, in the same order. Nothing of the graph changes: hooks fire once, gradients of gradients exist. On a tape the
launches of both runs stand where they ran.

Note [Nested checkpoints]: a tensor is saved by the innermost checkpoint alone, and the inputs of a checkpoint are saved
by the one around it. So whatever lies within several checkpoints is computed again from the outermost inwards.

Note [Slots of a pass]: a recomputation belongs to one backward pass, and a slot gives its tensor away when the pass
asks for it: memory is free at once, also where the graph is retained. A second pass computes anew. The nodes of the
graph own the slots; for one that is gone nothing is kept.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import warnings
import weakref
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, NoReturn

from fastgrad.autograd.engine import _current_graph_task_id
from fastgrad.autograd.modes import enable_grad, is_grad_enabled
from fastgrad.autograd.saved import keep, saved_tensors_hooks
from fastgrad.functions.arguments import is_tensor
from fastgrad.native.host.saved_calls import launches_again, pass_of
from fastgrad.nn.modules.container import Sequential
from fastgrad.random import numbers_from, numbers_now
from fastgrad.utils.reentrant import (
    CheckpointFunction,
    check_backward_validity,
    detach_variable,
    get_device_states,
    set_device_states,
)
from fastgrad.utils.replaying import autocast_now

__all__ = [
    "CheckpointError",
    "CheckpointFunction",
    "CheckpointPolicy",
    "check_backward_validity",
    "checkpoint",
    "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "detach_variable",
    "get_device_states",
    "noop_context_fn",
    "set_checkpoint_early_stop",
    "set_device_states",
]

ContextFn = Callable[
    [], tuple[contextlib.AbstractContextManager[Any], contextlib.AbstractContextManager[Any]]
]


class CheckpointError(RuntimeError):
    """The second run of a checkpoint's function saved other tensors for backward than the first one."""


def noop_context_fn() -> tuple[
    contextlib.AbstractContextManager[Any], contextlib.AbstractContextManager[Any]
]:
    """Two contexts that do nothing: the default of `checkpoint`."""
    return contextlib.nullcontext(), contextlib.nullcontext()


class CheckpointPolicy(enum.Enum):
    """What a policy of `create_selective_checkpoint_contexts` would say of an op."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Any, allow_cache_entry_mutation: bool = False
) -> NoReturn:
    """Refuse: which results of ops a checkpoint keeps cannot be chosen.

    Ops are compiled calls that no Python code stands in, so nobody asks a policy, and none can be left out of the
    second run.

    Raises
    ------
    NotImplementedError
        Always. Make checkpoints of the parts whose results are not to be kept, and call the others outside of them.
    """
    raise NotImplementedError(
        "create_selective_checkpoint_contexts(): policies of what a checkpoint keeps are not supported; call what is "
        "to be kept outside of checkpoint(), and make checkpoints of the parts around it"
    )


def _metadata(tensor: Any) -> dict[str, Any]:
    return {"shape": tensor.shape, "dtype": tensor.dtype, "device": tensor.device}


_CHECKS: dict[str, Callable[[Any], Any]] = {"default": _metadata, "none": lambda tensor: None}
_early_stop: bool | None = None  # what `set_checkpoint_early_stop` says


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """For checkpoints whose forward runs in this block, say whether the second run ends at the last tensor needed.

    Parameters
    ----------
    enable : bool
        Takes precedence over the argument `early_stop` of `checkpoint`.
    """
    global _early_stop
    before, _early_stop = _early_stop, enable
    try:
        yield
    finally:
        _early_stop = before


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: ContextFn = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Any:
    """Call a function without keeping what backward will need: backward calls it again.

    Parameters
    ----------
    function : callable
        Must compute the same whenever it is called with the same arguments.
    *args, **kwargs
        Its arguments. Tensors among `args` are saved as an op saves them.
    use_reentrant : bool, optional
        Say False; None means it, with a warning. True is the older variant: the function runs without a graph, and
        again in the backward of a node of its own, with a pass over the graph that this makes. It takes no keyword
        arguments, sees gradients of tensor arguments alone, has no second derivatives, and works in ``backward()``
        without `inputs` alone.
    context_fn : callable, optional
        Returns two context managers, for the first and for the second run.
    determinism_check : {"default", "none"}
        Whether shape, dtype and device of the tensors that the two runs save are compared.
    debug : bool
        Not supported.
    early_stop : bool
        End the second run as soon as the last tensor that is needed has been saved.
    preserve_rng_state : bool
        Let the second run draw the same numbers from the default generator as the first.

    Returns
    -------
    object
        What `function` returned.

    Raises
    ------
    CheckpointError
        In backward, if the second run saves fewer or other tensors than the first.
    NotImplementedError
        If `debug` is True.
    ValueError
        If `determinism_check` is unknown, or keyword arguments, `context_fn` or `debug` are given with
        ``use_reentrant=True``.

    Warns
    -----
    UserWarning
        If `use_reentrant` is not given.

    Examples
    --------
    >>> import fastgrad as fg
    >>> x = fg.ones(2, requires_grad=True)
    >>> def function(x):
    ...     print("called")
    ...     return x.exp().sin()
    >>> y = checkpoint(function, x, use_reentrant=False)
    called
    >>> y.sum().backward()
    called
    >>> x.grad
    tensor([-2.4783, -2.4783])
    """
    if _chosen("checkpoint", use_reentrant, debug):
        if kwargs:
            raise ValueError(f"checkpoint(): Unexpected keyword arguments: {', '.join(kwargs)}")
        if context_fn is not noop_context_fn or debug:
            raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
        return CheckpointFunction.apply(function, preserve_rng_state, *args)
    if determinism_check not in _CHECKS:
        raise ValueError(f"determinism_check should be one of {list(_CHECKS)}, but got {determinism_check}")
    forward_context, recompute_context = context_fn()
    if not is_grad_enabled():
        return function(*args, **kwargs)
    numbers = numbers_now() if preserve_rng_state else None

    modes = autocast_now()

    def again(*inputs: Any) -> None:
        with numbers_from(numbers), recompute_context, modes:
            function(*inputs, **kwargs)

    stop = early_stop if _early_stop is None else _early_stop
    region = _Region(again, args, stop, _CHECKS[determinism_check])
    with saved_tensors_hooks(region.pack, region.unpack), forward_context:
        result = function(*args, **kwargs)
        region.finished = True
    if not region.finished:
        raise RuntimeError(
            "checkpoint(): the forward context provided by context_fn suppressed an exception raised during the "
            "checkpointed forward, so that there is nothing to return"
        )
    return result


def checkpoint_sequential(
    functions: Any,
    segments: int,
    input: Any,
    use_reentrant: bool | None = None,
    *,
    preserve_rng_state: bool = True,
) -> Any:
    """Call functions one after the other, in segments of which each but the last is a checkpoint.

    Parameters
    ----------
    functions : Sequential or sequence of callable
    segments : int
        Into how many parts, of equal length but for the last, they are cut.
    input : object
        The argument of the first function.
    use_reentrant : bool, optional
        As for `checkpoint`.
    preserve_rng_state : bool
        As for `checkpoint`.

    Returns
    -------
    object
        What the last function returned.

    Raises
    ------
    ValueError
        If there are fewer functions than segments.

    Examples
    --------
    >>> import fastgrad as fg
    >>> x = fg.ones(1, requires_grad=True)
    >>> checkpoint_sequential([fg.exp, fg.sin, fg.cos], 3, x, use_reentrant=False).backward()
    >>> x.grad
    tensor([0.9897])
    """
    reentrant = _chosen("checkpoint_sequential", use_reentrant, False)
    parts = list(functions.children()) if isinstance(functions, Sequential) else list(functions)
    if not 1 <= segments <= len(parts):
        raise ValueError(
            f"checkpoint_sequential(): expected segments to lie between 1 and the number of functions, {len(parts)}, "
            f"but got {segments}"
        )
    length = len(parts) // segments
    value = input
    for k in range(segments - 1):
        run = functools.partial(_in_turn, parts[k * length : (k + 1) * length])
        value = checkpoint(run, value, use_reentrant=reentrant, preserve_rng_state=preserve_rng_state)
    return _in_turn(parts[(segments - 1) * length :], value)


def _in_turn(functions: Sequence[Callable[[Any], Any]], value: Any) -> Any:
    for function in functions:
        value = function(value)
    return value


def _chosen(name: str, use_reentrant: bool | None, debug: bool) -> bool:
    """Whether it is the re-entrant variant."""
    if debug and not use_reentrant:
        raise NotImplementedError(f"{name}(): debug=True is not supported; leave it off")
    if use_reentrant is None:
        warnings.warn(
            f"{name}(): the variant is not chosen: pass use_reentrant=False, which is what is done now; in PyTorch it "
            "has to be passed",
            UserWarning,
            stacklevel=3,
        )
    return bool(use_reentrant)


class _Slot:
    """The place of one saved tensor, owned by the node that saved it; by pass what a recomputation put there."""

    __slots__ = ("__weakref__", "values")

    def __init__(self) -> None:
        self.values: dict[Hashable, Any] = {}


class _Stop(BaseException):
    """Ends a recomputation that has filled all slots; not for the ``except Exception`` of the function."""

    def __init__(self, region: _Region) -> None:
        self.region = region


class _Region:
    """One call of a checkpoint: what it needs to run again, and a slot for each tensor that it saved."""

    def __init__(
        self,
        again: Callable[..., None],
        args: Sequence[Any],
        early_stop: bool,
        metadata: Callable[[Any], Any],
    ) -> None:
        self.first = None
        self.calls: list[Any] = []
        self.again = again
        self.inputs = [keep(a) if is_tensor(a) else functools.partial(_same, a) for a in args]
        self.early_stop = early_stop
        self.metadata = metadata
        self.slots: list[weakref.ref[_Slot]] = []
        self.metadatas: list[Any] = []
        self.finished = False
        self.recomputed: set[Hashable] = set()

    @launches_again
    def pack(self, tensor: Any) -> _Slot:
        slot = _Slot()
        self.slots.append(weakref.ref(slot))
        self.metadatas.append(self.metadata(tensor))
        return slot

    @launches_again
    def unpack(self, slot: _Slot) -> Any:
        number = pass_of(_current_graph_task_id())
        inside = number >= 0
        owner: Hashable = number if inside else object()
        if owner not in self.recomputed:
            self.recompute(owner)
        value = slot.values.pop(owner, None)
        if inside:
            self.recomputed.add(owner)
        else:  # an attribute of a node was read: nobody will come for the others
            self.forget(owner)
        if value is None:
            raise CheckpointError(
                "checkpoint(): Unpack is being triggered for a tensor that was already unpacked once. If you are "
                "calling ctx.saved_tensors in backward, make sure to do so only once."
            )
        return value

    def recompute(self, owner: Hashable) -> None:
        """Run the function again and fill the slots for a pass."""
        inputs = [give() for give in self.inputs]
        run = _Recomputation(self, owner)
        try:
            with saved_tensors_hooks(run.pack, _same), enable_grad():
                self.again(*inputs)
        except _Stop as stop:
            if stop.region is not self:
                self.forget(owner)
                raise
        except BaseException:
            self.forget(owner)
            raise
        run.check()

    def forget(self, owner: Hashable) -> None:
        for reference in self.slots:
            slot = reference()
            if slot is not None:
                slot.values.pop(owner, None)


class _Recomputation:
    """The second run of a region for one pass."""

    def __init__(self, region: _Region, owner: Hashable) -> None:
        self.first = self.region = region
        self.calls: list[Any] = []
        self.owner = owner
        self.count = 0
        self.beyond = (
            False  # the function itself asked for gradients before it was through, and saved more since
        )
        self.different: list[str] = []

    @launches_again
    def pack(self, tensor: Any) -> Any:
        region, place = self.region, self.count
        if tensor.requires_grad:  # else backward gets the object that the function had
            tensor = tensor.detach()
        if place >= len(region.slots):
            if region.early_stop:
                raise _Stop(region)
            if region.finished:
                self.fail(
                    "trying to save more tensors during recomputation than during the original forward pass."
                )
            self.beyond = True
            return tensor
        self.count += 1
        slot = region.slots[place]()
        if slot is not None:
            slot.values[self.owner] = tensor
            found = region.metadata(tensor)
            if found != region.metadatas[place]:
                self.different.append(
                    f"tensor at position {place}:\nsaved metadata: {region.metadatas[place]}\n"
                    f"recomputed metadata: {found}\n"
                )
        if region.early_stop and self.count == len(region.slots):
            raise _Stop(region)
        return tensor  # for a pass over the graph of the second run

    def check(self) -> None:
        """Compare with the first run."""
        expected = len(self.region.slots)
        if self.beyond:
            return
        if self.count != expected:
            self.fail(
                "A different number of tensors was saved during the original forward and recomputation.\n"
                f"Number of tensors saved during forward: {expected}\n"
                f"Number of tensors saved during recomputation: {self.count}."
            )
        if self.different:
            self.fail(
                "Recomputed values for the following tensors have different metadata than during the forward pass.\n"
                + "".join(self.different)
            )

    def fail(self, what: str) -> NoReturn:
        self.region.forget(self.owner)
        raise CheckpointError(
            f"checkpoint(): {what}\nThe function of a checkpoint must do the same each time: look for what depends on "
            "global state, on time, or on random numbers that are not drawn from the default generator."
        )


def _same(value: Any) -> Any:
    return value
