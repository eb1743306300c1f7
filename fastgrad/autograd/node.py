"""Nodes of the graph as Python objects."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from fastgrad.autograd.hooks import RemovableHandle, node_entry
from fastgrad.native import layout
from fastgrad.native.layout import NODE
from fastgrad.native.loader import rt
from fastgrad.ops.registry import OPS

_OP, _SEQ, _N_IN, _VARIABLE = (NODE.fields[n][0] for n in ("op", "seq", "n_in", "variable"))
_PYOBJ = NODE.fields["pyobj"][0]


class Node:
    """An op call in the graph: what ``tensor.grad_fn`` returns.

    A node is the same object as long as anyone holds it.
    """

    __slots__ = ("__weakref__", "_handle")

    _handle: int

    def __new__(cls, *args: Any) -> Node:
        """Refuse: nodes belong to ops."""
        raise TypeError("Node objects are made by the runtime, not by users")

    def __del__(self, gone: Callable[[int], None] = rt.node_gone) -> None:
        gone(self._handle)

    def name(self) -> str:
        """The name of the op's derivative, such as ``MulBackward0``."""
        return OPS[rt.node_field(self._handle, _OP)].node

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """For each input the node that its gradient goes to (None if it needs none) and the output's number."""
        out = []
        for k in range(rt.node_field(self._handle, _N_IN)):
            target = rt.node_edge(self._handle, k, 0)
            if target:
                rt.retain_handle(target)
            out.append((wrap(target) if target else None, rt.node_edge(self._handle, k, 1) if target else 0))
        if rt.node_field(self._handle, _OP) == 0:
            return ()
        return tuple(out)

    @property
    def variable(self) -> Any:
        """The leaf of an AccumulateGrad node."""
        if not rt.node_field(self._handle, _VARIABLE):
            raise AttributeError(f"'{self.name()}' object has no attribute 'variable'")
        return rt.node_variable(self._handle)

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dict for whatever users attach to the node."""
        entry = node_entry(self._handle)
        if entry.metadata is None:
            entry.metadata = {}
        return entry.metadata  # type: ignore[no-any-return]

    @property
    def requires_grad(self) -> bool:
        """Always true: a node stands for something that is differentiated."""
        return True

    def _sequence_nr(self) -> int:
        seq = rt.node_field(self._handle, _SEQ)
        return 2**64 - 1 if seq == 1 << 62 else seq  # type: ignore[no-any-return]

    def _set_sequence_nr(self, number: int) -> None:
        rt.set_node_field(self._handle, _SEQ, number)

    def register_hook(self, fn: Callable[[tuple[Any, ...], tuple[Any, ...]], Any]) -> RemovableHandle:
        """Call ``fn(grad_inputs, grad_outputs)`` after the node's derivative ran.

        Parameters
        ----------
        fn : callable
            May return a tuple that replaces `grad_inputs`, or None.

        Returns
        -------
        RemovableHandle
        """
        entry = node_entry(self._handle)
        if entry.posts is None:
            entry.posts = OrderedDict()
        return self._register(entry.posts, fn, layout.POST_HOOKS)

    def register_prehook(self, fn: Callable[[tuple[Any, ...]], Any]) -> RemovableHandle:
        """Call ``fn(grad_outputs)`` before the node's derivative runs.

        Parameters
        ----------
        fn : callable
            May return a tuple that replaces `grad_outputs`, or None.

        Returns
        -------
        RemovableHandle
        """
        entry = node_entry(self._handle)
        if entry.pres is None:
            entry.pres = OrderedDict()
        return self._register(entry.pres, fn, layout.PRE_HOOKS)

    def _register(self, hooks: Any, fn: Callable[..., Any], flag: int) -> RemovableHandle:
        handle = RemovableHandle(hooks)
        hooks[handle.id] = fn
        rt.flag_node(self._handle, flag)
        return handle

    def __repr__(self) -> str:
        return f"<{self.name()} object at {hex(id(self))}>"


_node_object, _set_node_field, _new = rt.node_object, rt.set_node_field, object.__new__


def wrap(handle: int) -> Node:
    """The object of a node; takes over one reference."""
    node = _node_object(handle)
    if node is None:
        node = _new(Node)
        node._handle = handle
        _set_node_field(handle, _PYOBJ, id(node))
    else:
        rt.drop_handle(handle)
    return node  # type: ignore[no-any-return]
