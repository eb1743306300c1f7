"""Nodes of the graph as Python objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastgrad.autograd.hooks import RemovableHandle
from fastgrad.autograd.saved import saved_attribute
from fastgrad.native import layout
from fastgrad.native.layout import NODE
from fastgrad.native.loader import NodeBase, rt, runtime_set_object
from fastgrad.native.objects_layout import NODE_OBJECT
from fastgrad.ops.registry import OPS

_OP, _SEQ, _N_IN, _VARIABLE = (NODE.fields[n][0] for n in ("op", "seq", "n_in", "variable"))
_PRES, _POSTS = (NODE_OBJECT.fields[n][0] for n in ("pres", "posts"))
LAST = 1 << 62  # what `native.graph` gives AccumulateGrad nodes


class Node(NodeBase):
    """An op call in the graph: what ``tensor.grad_fn`` returns.

    A node is the same object as long as anyone holds it.
    """

    __slots__ = ()

    def __new__(cls, *args: Any) -> Node:
        """Refuse: nodes belong to ops."""
        raise TypeError("Node objects are made by the runtime, not by users")

    def name(self) -> str:
        """The name of the op's derivative, such as ``MulBackward0``."""
        return OPS[rt.node_field(self, _OP)].node

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """For each input the node that its gradient goes to (None if it needs none) and the output's number."""
        if rt.node_field(self, _OP) == 0:
            return ()
        return tuple(
            (rt.node_target(self, k), max(rt.node_output(self, k), 0))
            for k in range(rt.node_field(self, _N_IN))
        )

    @property
    def variable(self) -> Any:
        """The leaf of an AccumulateGrad node."""
        if not rt.node_field(self, _VARIABLE):
            raise AttributeError(f"'{self.name()}' object has no attribute 'variable'")
        return rt.node_variable(self)

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dict for whatever users attach to the node."""
        if self._metadata is None:
            self._metadata = {}
        return self._metadata  # type: ignore[no-any-return]

    @property
    def requires_grad(self) -> bool:
        """Always true: a node stands for something that is differentiated."""
        return True

    def _sequence_nr(self) -> int:
        seq = rt.node_field(self, _SEQ)
        return 2**64 - 1 if seq == LAST else seq  # type: ignore[no-any-return]

    def _set_sequence_nr(self, number: int) -> None:
        rt.set_node_field(self, _SEQ, number)

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
        return rt.register_node_hook(self, _POSTS, layout.POST_HOOKS, fn)  # type: ignore[no-any-return]

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
        return rt.register_node_hook(self, _PRES, layout.PRE_HOOKS, fn)  # type: ignore[no-any-return]

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("_saved_", "_raw_saved_")):
            return saved_attribute(self, name)
        raise AttributeError(f"'{self.name()}' object has no attribute '{name}'")

    def __repr__(self) -> str:
        return f"<{self.name()} object at {hex(id(self))}>"


runtime_set_object("node_base", NodeBase)
runtime_set_object("node_type", Node)
