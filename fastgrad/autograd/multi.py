"""Hooks over several tensors at once."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

from fastgrad.autograd.edges import get_gradient_edge
from fastgrad.autograd.engine import kept_by_pass
from fastgrad.autograd.hooks import RemovableHandle
from fastgrad.functions.arguments import need_tensors
from fastgrad.native.build.loader import rt

MODES = ("all", "any")


class MultiHandle:
    """What registering a hook over several tensors returns.

    Parameters
    ----------
    handles : sequence of RemovableHandle
        One of each tensor.
    """

    def __init__(self, handles: Sequence[RemovableHandle]) -> None:
        self.handles = tuple(handles)

    def remove(self) -> None:
        """Take the hook away from all tensors; more than once does no harm."""
        for handle in self.handles:
            handle.remove()

    def __getstate__(self) -> tuple[RemovableHandle, ...]:
        return self.handles

    def __setstate__(self, handles: tuple[RemovableHandle, ...]) -> None:
        self.handles = handles

    def __enter__(self) -> MultiHandle:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def _finder(tensor: Any) -> Callable[[], Any]:
    """What finds the node at which a tensor's gradient arrives, None once it is gone.

    A non-leaf's node is not held: its hooks lead here, and a graph behind it may have saved its tensor where the
    garbage collector does not look. A leaf's node would be lost, since the leaf does not hold it either.
    """
    node = get_gradient_edge(tensor).node
    return (lambda: node) if tensor.is_leaf else weakref.ref(node)


class _Gathering:
    """Collects one value from each of several places in each pass, and calls a function when all have come.

    Parameters
    ----------
    finders : sequence of callable
        What finds the nodes at which the values come.
    with_captures : bool
        Whether the values come from tensor hooks, which also run at nodes that are only captured.
    call : callable
        Gets the list of values, None for places that the pass does not reach.
    """

    def __init__(
        self, finders: Sequence[Callable[[], Any]], with_captures: bool, call: Callable[[list[Any]], Any]
    ) -> None:
        self.finders = finders
        self.with_captures = with_captures
        self.call = call

    def put(self, k: int, value: Any) -> None:
        """The value of place `k` has come."""
        kept = kept_by_pass()
        values, missing = kept.pop(self, None) or ([None] * len(self.finders), self.expected())
        values[k] = value
        if missing > 1:
            kept[self] = (values, missing - 1)
        elif missing == 1:
            self.call(values)

    def expected(self) -> int:
        """From how many places a value comes in the pass under way."""
        task = rt.current_pass()
        nodes = [find() for find in self.finders]
        return sum(rt.will_run(task, node, int(self.with_captures)) for node in nodes if node is not None)


def register_multi_grad_hook(
    tensors: Sequence[Any], fn: Callable[[Any], Any], *, mode: str = "all"
) -> MultiHandle:
    """Call a function once in each pass, with the gradients of several tensors.

    Parameters
    ----------
    tensors : sequence of Tensor
    fn : callable
        In mode "all" called with a list, in the order of `tensors`, when all gradients that the pass computes
        are there; those of tensors outside of the pass are None. In mode "any" called with the first gradient
        that arrives. What it returns is ignored.
    mode : {"all", "any"}

    Returns
    -------
    MultiHandle

    Raises
    ------
    ValueError
        For another mode.
    AssertionError
        In mode "all", if a tensor does not require grad, or no gradient can arrive at it.

    Examples
    --------
    >>> import fastgrad as fg
    >>> a, b = fg.ones(1, requires_grad=True), fg.ones(1, requires_grad=True)
    >>> handle = fg.autograd.graph.register_multi_grad_hook((a, b), lambda grads: print(grads))
    >>> (a * b * 2).sum().backward()
    [tensor([2.]), tensor([2.])]
    """
    if mode not in MODES:
        raise ValueError(f"Expects mode to be one of {MODES} but got {mode}")
    tensors = need_tensors("register_multi_grad_hook", tensors)
    if mode == "any":
        return _register_any([t for t in tensors if t.requires_grad], fn)
    for tensor in tensors:
        if not tensor.requires_grad:
            raise AssertionError("Expected gradient function to be set")
    gathering = _Gathering([_finder(t) for t in tensors], True, fn)
    return _register_all(tensors, lambda k, t: t.register_hook(lambda grad: gathering.put(k, grad)))


def _register_all(tensors: Sequence[Any], register: Callable[[int, Any], RemovableHandle]) -> MultiHandle:
    """Register a hook on each of several tensors, or on none."""
    handles: list[RemovableHandle] = []
    try:
        for k, tensor in enumerate(tensors):
            handles.append(register(k, tensor))
    except BaseException:
        MultiHandle(handles).remove()
        raise
    return MultiHandle(handles)


def _register_any(tensors: Sequence[Any], fn: Callable[[Any], Any]) -> MultiHandle:
    def hook(grad: Any) -> None:
        kept = kept_by_pass()
        if hook not in kept:
            kept[hook] = True
            fn(grad)

    return _register_all(tensors, lambda k, t: t.register_hook(hook))


def register_multi_post_accumulate_grad_hook(
    tensors: Sequence[Any], fn: Callable[[list[Any]], Any]
) -> MultiHandle:
    """Call a function once in each pass, after all of several leaves have got their gradient.

    Parameters
    ----------
    tensors : sequence of Tensor
        Leaves that require grad.
    fn : callable
        Called with a list of the leaves in the order of `tensors`, None for those that the pass does not
        reach, when the last of them has its ``grad``.

    Returns
    -------
    MultiHandle

    Raises
    ------
    RuntimeError
        If a tensor is not a leaf or does not require grad.

    Examples
    --------
    >>> import fastgrad as fg
    >>> a, b = fg.ones(1, requires_grad=True), fg.ones(1, requires_grad=True)
    >>> def step(leaves):
    ...     print([leaf.grad for leaf in leaves])
    >>> handle = fg.autograd.graph.register_multi_post_accumulate_grad_hook((a, b), step)
    >>> (a * b * 2).sum().backward()
    [tensor([2.]), tensor([2.])]
    """
    tensors = need_tensors("register_multi_post_accumulate_grad_hook", tensors)
    gathering = _Gathering([], False, fn)
    handle = _register_all(
        tensors, lambda k, t: t.register_post_accumulate_grad_hook(lambda leaf: gathering.put(k, leaf))
    )
    gathering.finders = [_finder(t) for t in tensors]
    return handle
