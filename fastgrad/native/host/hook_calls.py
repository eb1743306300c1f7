"""Hooks on tapes: calls that a replay makes again.

Between the launches of a tape stands the number of a call. A replay calls the hook with the gradients that lie by then
where they lay during the capture, and copies what comes of it to where the launches behind it read. A gradient goes out
as a copy, so that a hook may change it in place; a leaf, for which a post-accumulate hook is called, goes out as it is,
with the gradient that it had.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from fastgrad.native.build.loader import TensorBase, rt, runtime_set_object
from fastgrad.native.contracts.records import TENSOR

if TYPE_CHECKING:
    import weakref

    from fastgrad.native.host.tape import Tape

_KIND = TENSOR.fields["dtype"][0], TENSOR.fields["device"][0]
recorder: weakref.ref[Tape] | None = None
"""The tape that began to record last."""


def _tensors(value: Any) -> Iterator[Any]:
    """Tensors and Nones in nested tuples and lists."""
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from _tensors(item)
    else:
        yield value


def _is_leaf(value: Any) -> bool:
    return isinstance(value, TensorBase) and value.requires_grad and value.is_leaf  # type: ignore[attr-defined]


class Lying:
    """Where a tensor lay during the capture: a tensor over the same memory, until the tape is bound to other memory.

    Attributes
    ----------
    tensor : Tensor or None
        It lies there; None once `bound` says how it lies.
    bound : tuple
        The tape, and how it lies in a region of that.
    """

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor
        self.bound: tuple[Any, ...] = ()

    def bind(self, *bound: Any) -> None:
        """Lie in a region of a bound tape from now on."""
        self.tensor, self.bound = None, bound

    def now(self) -> Any:
        """A tensor that lies there now, or by a replay that is under way."""
        return self.tensor if self.tensor is not None else rt.tape_tensor(*self.bound)


class _Place:
    """A tensor that a hook got: where it lay, or which leaf it was and with what gradient."""

    def __init__(self, tensor: Any) -> None:
        self.leaf = tensor if _is_leaf(tensor) else None
        if self.leaf is None:
            self.lying: Lying | None = Lying(rt.where_it_lies(tensor))
        else:
            self.grad = tensor.grad
            self.lying = None if self.grad is None else Lying(self.grad)

    def again(self) -> Any:
        if self.leaf is None:
            return self.lying.now().clone()  # type: ignore[union-attr]
        grad = self.lying.now() if self.lying is not None else None
        if self.leaf.grad is not grad:
            self.leaf.grad = grad
        return self.leaf


def _is_like(kept: Any, value: Any) -> bool:
    """Whether what a hook returned can stand where another tensor lay."""
    return kept is None or (
        isinstance(value, TensorBase)
        and rt.sizes(value) == rt.sizes(kept)
        and all(rt.field(value, k) == rt.field(kept, k) for k in _KIND)
    )


def _places(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return tuple(_places(item) for item in value)
    return _Place(value) if isinstance(value, TensorBase) else value


def _again(place: Any) -> Any:
    if isinstance(place, tuple):
        return tuple(_again(item) for item in place)
    return place.again() if isinstance(place, _Place) else place


class HookCall:
    """The call of a hook during a capture."""

    def __init__(self, hook: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.hook = hook
        self.args = _places(args)
        self.outcome: list[Lying | None] = []

    def lying(self) -> Iterator[Lying]:
        """The places in memory that it knows."""
        yield from (place.lying for place in _tensors(self.args) if isinstance(place, _Place) and place.lying)
        yield from (lying for lying in self.outcome if lying)

    def leaves(self) -> Iterator[Any]:
        """The leaves that the hook got."""
        return (p.leaf for p in _tensors(self.args) if isinstance(p, _Place) and p.leaf is not None)

    def came_to(self, value: Any) -> None:
        """Note what the hook returned, or what it got and may have changed."""
        self.outcome = [
            Lying(t.detach()) if isinstance(t, TensorBase) and not _is_leaf(t) else None  # type: ignore[attr-defined]
            for t in _tensors(value)
        ]

    def again(self) -> None:
        """Call the hook, and bring what comes of it to where it lay."""
        args = _again(self.args)
        result = self.hook(*args)
        found = list(_tensors(args[0] if result is None else result))
        kept = [lying.now() if lying else None for lying in self.outcome]
        if len(found) != len(kept) or not all(map(_is_like, kept, found)):
            raise RuntimeError(
                f"replay(): the hook {self.hook!r} returned other gradients than during the capture; record again"
            )
        for place, value in zip(kept, found, strict=True):
            if place is not None:
                place.copy_(value.detach())


def _record(hook: Callable[..., Any], *args: Any) -> Any:
    """Called by the runtime in place of a hook, while a tape records that calls hooks again."""
    tape = recorder() if recorder is not None else None
    rt.pause(1)
    try:
        call = HookCall(hook, args)
        result = hook(*args)
        call.came_to(args[0] if result is None else result)
    finally:
        rt.pause(0)
    if tape is not None:
        tape._calls.append(call)
        rt.record_call(len(tape._calls) - 1)
    return result


def _replay(tape: Tape, number: int) -> None:
    """Called by the runtime where a hook stands on a tape."""
    tape._calls[number].again()


runtime_set_object("record_hook", _record)
runtime_set_object("replay_hook", _replay)
