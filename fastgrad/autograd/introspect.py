"""What hooks there are: lists of them, with counts and times where they are measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from fastgrad.autograd.hooks import POST_HOOKS, TENSOR_HOOKS, hook_name
from fastgrad.autograd.node import Node
from fastgrad.native.build.loader import TensorBase, rt, runtime_get, runtime_set_object

_measured: dict[int, list[int]] = {}  # by the id of the handle: calls, nanoseconds


def _note_hook(number: int, nanoseconds: int) -> None:
    entry = _measured.setdefault(number, [0, 0])
    entry[0] += 1
    entry[1] += nanoseconds


runtime_set_object("note_hook", _note_hook)


class measure_hooks:  # noqa: N801 - a context manager
    """While this context is active, calls of hooks are counted and timed; `hooks` shows the figures.

    Entering forgets earlier figures. All threads are measured.

    Examples
    --------
    >>> import fastgrad as fg
    >>> x = fg.ones(2, requires_grad=True)
    >>> handle = x.register_hook(lambda g: None)
    >>> with fg.autograd.graph.measure_hooks():
    ...     x.sum().backward()
    >>> fg.hooks(x)[0].calls
    1
    """

    def __enter__(self) -> None:
        _measured.clear()
        self._before = runtime_get("noting")
        rt.note_hooks(1)

    def __exit__(self, *_: object) -> None:
        rt.note_hooks(self._before)


class HookInfo:
    """One hook.

    Attributes
    ----------
    kind : str
        "tensor", "post_accumulate", "node_pre", "node_post" or "retain_grad"; of a module "forward_pre", "forward",
        "backward_pre", "backward", "state_dict_pre", "state_dict", "load_state_dict_pre" or "load_state_dict_post".
    name : str
        The name of the function.
    owner : Tensor, Node or Module
        What it is registered on.
    hook : callable or None
        None for "retain_grad".
    id : int
        That of its handle; -1 for "retain_grad".
    calls : int
        How often it ran while hooks were measured; those of modules are not.
    seconds : float
        How long it ran in them.
    """

    __slots__ = ("_stores", "hook", "id", "kind", "name", "owner")

    def __init__(
        self, kind: str, owner: Any, number: int, hook: Any, stores: Sequence[dict[int, Any]]
    ) -> None:
        self.kind = kind
        self.owner = owner
        self.id = number
        self.hook = hook
        self.name = hook_name(hook) if hook is not None else "retain_grad"
        self._stores = stores

    @property
    def calls(self) -> int:
        """How often it ran while hooks were measured."""
        return _measured.get(self.id, (0, 0))[0]

    @property
    def seconds(self) -> float:
        """How long it ran in them."""
        return _measured.get(self.id, (0, 0))[1] * 1e-9

    def remove(self) -> None:
        """Take the hook away; "retain_grad" stays, as it cannot be undone."""
        for store in self._stores:
            store.pop(self.id, None)

    def __repr__(self) -> str:
        if isinstance(self.owner, TensorBase):
            what = f"tensor of {list(self.owner.shape)}"  # type: ignore[attr-defined]
        else:
            what = self.owner.name() if isinstance(self.owner, Node) else type(self.owner).__name__
        figures = f", {self.calls} calls, {self.seconds * 1e6:.1f} us" if self.calls else ""
        return f"<{self.kind} hook '{self.name}' of {what}{figures}>"


class HookList(list[HookInfo]):
    """The hooks of something, in the order in which they run."""

    def clear(self) -> None:
        """Remove all of the hooks from what they are registered on, and empty the list."""
        for info in self:
            info.remove()
        super().clear()


def _of_dict(kind: str, owner: Any, hooks: Any) -> Iterator[HookInfo]:
    for number, hook in (hooks or {}).items():
        yield HookInfo(kind, owner, number, hook, (hooks,))


def _of_node(node: Node) -> Iterator[HookInfo]:
    for place in node.tensor_pre_hooks:
        yield from _of_dict("tensor", node, place.hooks)  # type: ignore[attr-defined]
    yield from _of_dict("node_pre", node, node._pres)
    yield from _of_dict("node_post", node, node._posts)


def _of_tensor(tensor: Any) -> Iterator[HookInfo]:
    yield from _of_dict("tensor", tensor, getattr(tensor, TENSOR_HOOKS))
    if tensor.retains_grad:
        yield HookInfo("retain_grad", tensor, -1, None, ())
    if not tensor.is_leaf:
        yield from _of_dict("node_pre", tensor.grad_fn, tensor.grad_fn._pres)
        yield from _of_dict("node_post", tensor.grad_fn, tensor.grad_fn._posts)
        return
    node = rt.current_node(tensor)
    if node is not None:
        yield from _of_dict("node_pre", node, node._pres)
    yield from _of_dict("post_accumulate", tensor, getattr(tensor, POST_HOOKS))
    if node is not None:
        yield from _of_dict("node_post", node, node._posts)


def hooks(owner: Any) -> HookList:
    """Every hook of a tensor and of the node behind it, or of a node, in the order in which they run.

    Of a module its own hooks, kind by kind; those of the modules within it are listed by asking for each.

    Parameters
    ----------
    owner : Tensor, Node or Module

    Returns
    -------
    HookList
        Of `HookInfo`; its ``clear()`` removes them all.

    Raises
    ------
    TypeError
        For anything else.

    Examples
    --------
    >>> import fastgrad as fg
    >>> x = fg.ones(2, requires_grad=True)
    >>> def double(grad):
    ...     return grad * 2
    >>> handle = x.register_hook(double)
    >>> fg.hooks(x)
    [<tensor hook 'double' of tensor of [2]>]
    >>> fg.hooks(x).clear()
    >>> fg.hooks(x)
    []
    """
    if isinstance(owner, TensorBase):
        return HookList(_of_tensor(owner))
    if isinstance(owner, Node):
        return HookList(_of_node(owner))
    if hasattr(owner, "_hook_infos"):
        return HookList(owner._hook_infos())
    raise TypeError(f"hooks(): expected a Tensor, a Node or a Module, but got {type(owner).__name__}")
