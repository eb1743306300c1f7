"""What segments of the graph get: see `segments`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Container, Iterable, Iterator
from functools import partial
from typing import Any

from fastgrad.autograd.boundary import boundary
from fastgrad.autograd.function import Function
from fastgrad.autograd.modes import enable_grad
from fastgrad.native.build.loader import rt
from fastgrad.native.contracts.flags import COPY_ON_WRITE
from fastgrad.native.contracts.records import TENSOR
from fastgrad.native.host.hook_calls import Lying

_NODE = TENSOR.fields["node"][0]


class Input:
    """A tensor that a call got.

    Attributes
    ----------
    tensor : Tensor
        During the capture; None afterwards, unless the call gets the same one in each replay.
    may_change : bool
        Whether the call may change it in place though it has a history: what it gets is then no view of it.
    changes : bool
        Whether it did.
    """

    def __init__(self, tensor: Any, is_same: bool) -> None:
        self.tensor = tensor
        self.wants = bool(tensor.requires_grad)
        self.may_change = self.wants and not tensor.is_leaf and not rt.flags_of(tensor) & COPY_ON_WRITE
        self.changes = False
        self.is_same = is_same and not self.wants
        self.version = rt.version(tensor)
        self.node = rt.field(tensor, _NODE)
        self.lying: Lying | None = None if self.is_same else Lying(rt.where_it_lies(tensor))

    def settle(self) -> None:
        """Let go of the tensor of the capture."""
        if self.lying is not None:
            self.tensor = None

    @property
    def is_quick(self) -> bool:
        """Whether the call may get the memory itself in a replay."""
        return self.lying is not None and self.lying.is_shared and bool(self.lying.bound) and not self.changes

    def seen(self) -> Any:
        """What the call gets during the capture."""
        return apart(self.tensor) if self.may_change else behind_boundary([self.tensor])[0]

    def maker(self, tape: Any) -> Callable[[], Any]:
        """What gives what the call gets in a replay."""
        lying = self.lying
        if lying is None:
            tensor = self.tensor
            return lambda: tensor
        if self.is_quick:
            return partial(rt.tape_input if self.wants else rt.tape_tensor, *lying.bound)
        if not self.wants:
            return lying.given
        enter = apart if self.changes else lambda t: behind_boundary([t])[0]
        return lambda: enter(lying.given().requires_grad_())


def apart(tensor: Any) -> Any:
    """A tensor as an input of a segment that may change it in place: no view of it, so that its history stays."""
    return rt.attach_output(behind_boundary([tensor])[0].grad_fn, 0, tensor)


def twin(tensor: Any) -> Any:
    """A tensor that has the history of another one, also where that is changed in place."""
    return rt.attach_output(tensor.grad_fn, 0, tensor)


@contextlib.contextmanager
def same_versions(tensors: list[Any]) -> Iterator[None]:
    """A block in which tensors get other histories: the changes were counted before."""
    versions = [rt.version(t) for t in tensors]
    yield
    for t, version in zip(tensors, versions, strict=True):
        rt.set_version(t, version)


class Changed(Function):
    """Lets a tensor that a call changed in place by another one over the same memory have the history of that."""

    @staticmethod
    def forward(ctx: Any, tensor: Any, changed: Any) -> Any:
        """The first of them."""
        ctx.mark_dirty(tensor)
        return tensor

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        """Hand the gradient on to the second."""
        return None, gradient


def behind_boundary(tensors: list[Any]) -> list[Any]:
    """Tensors as inputs of a segment: those that require gradients behind a boundary of the graph, each its own.

    One that comes more than once is one input.
    """
    with enable_grad():
        inputs = {
            k: boundary((t,))[1][0] if t.requires_grad else t for k, t in {id(t): t for t in tensors}.items()
        }
    return [inputs[id(t)] for t in tensors]


def roots(outputs: Iterable[Any]) -> list[Any]:
    """The nodes of some tensors, None for those without."""
    return [t.grad_fn for t in outputs]


def nodes_behind(todo: list[Any], ends: Container[int] = ()) -> Iterator[Any]:
    """Nodes, and those behind them, up to others, which are given by their identities; each once."""
    seen: dict[int, Any] = {}
    while todo:
        node = todo.pop()
        if node is None or id(node) in seen or id(node) in ends:
            continue
        seen[id(node)] = node
        yield node
        todo += [following for following, _ in node.next_functions]
