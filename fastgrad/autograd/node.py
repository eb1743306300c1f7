"""Nodes of the graph as Python objects."""

from __future__ import annotations

import gc
import importlib
from collections.abc import Callable
from typing import Any

from fastgrad import dtypes
from fastgrad.autograd.function_hook import (
    FunctionPostHook,
    FunctionPreHook,
    PyFunctionPostHook,
    PyFunctionPreHook,
    PyFunctionTensorPreHook,
    TupleHook,
)
from fastgrad.autograd.hooks import RemovableHandle
from fastgrad.autograd.saved import saved_attribute
from fastgrad.native.build.loader import NodeBase, TensorBase, rt, runtime_set_object
from fastgrad.native.contracts.limits import LAST
from fastgrad.native.contracts.python_types import OUTPUT_PLACE, POST_PLACE, PRE_PLACE
from fastgrad.native.contracts.records import NODE, TENSOR
from fastgrad.native.host.tables import OPS

_OP, _SEQ, _N_IN, _N_OUT, _VARIABLE = (NODE.fields[n][0] for n in ("op", "seq", "n_in", "n_out", "variable"))
_OUTPUT_NR = TENSOR.fields["output_nr"][0]

SHOWN_NODES = 60
"""Of a picture in a notebook, at most."""


class Node(NodeBase):
    """An op call in the graph: what ``tensor.grad_fn`` returns.

    A node is the same object as long as anyone holds it.
    """

    __slots__ = ()

    def __new__(cls, *args: Any) -> Node:
        """Refuse: nodes belong to ops."""
        raise TypeError("Node objects are made by the runtime, not by users")

    def name(self) -> str:
        """The name of the op's derivative, such as ``MulBackward0``: that of the class, perhaps with a namespace."""
        return OPS[rt.node_field(self, _OP)].node

    def _repr_html_(self) -> str:
        """What notebooks show: a picture of the graph from here on."""
        from fastgrad.markup import piece

        viz = importlib.import_module(
            "fastgrad.viz"
        )  # which knows nodes, and is not needed without a notebook
        return piece(viz.graph(self, max_nodes=SHOWN_NODES).svg)

    @property
    def _tensor_hooks(self) -> Any:
        """The dict of hooks of the only output, or pairs of output number and dict; None if there are none."""
        return rt.node_hooks(self, OUTPUT_PLACE)

    @property
    def _pres(self) -> Any:
        """The dict of pre-hooks, None if there are none."""
        return rt.node_hooks(self, PRE_PLACE)

    @property
    def _posts(self) -> Any:
        """The dict of post-hooks, None if there are none."""
        return rt.node_hooks(self, POST_PLACE)

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
        if not isinstance(number, int):
            raise TypeError(f"_set_sequence_nr(): an integer is required, but got {type(number).__name__}")
        if not 0 <= number < LAST:
            raise OverflowError(
                f"_set_sequence_nr(): a sequence number is from 0 to {LAST - 1}, but got {number}"
            )
        rt.set_sequence_nr(self, number)

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
        return rt.register_node_hook(self, 1, fn)  # type: ignore[no-any-return]

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
        return rt.register_node_hook(self, 0, fn)  # type: ignore[no-any-return]

    def add_pre_hook(self, hook: FunctionPreHook) -> None:
        """Add a hook written as a class; it cannot be removed.

        Raises
        ------
        TypeError
            If `hook` is no `FunctionPreHook`.
        """
        if not isinstance(hook, FunctionPreHook):
            raise TypeError(f"add_pre_hook expected a FunctionPreHook, but got {type(hook).__name__}")
        self.register_prehook(TupleHook(hook))

    def add_post_hook(self, hook: FunctionPostHook) -> int:
        """Add a hook written as a class; returns the key with which `del_post_hook` removes it.

        Raises
        ------
        TypeError
            If `hook` is no `FunctionPostHook`.
        """
        if not isinstance(hook, FunctionPostHook):
            raise TypeError(f"add_post_hook expected a FunctionPostHook, but got {type(hook).__name__}")
        return self.register_hook(TupleHook(hook)).id

    def del_post_hook(self, key: int) -> bool:
        """Remove what `add_post_hook` added; returns whether it was there."""
        return bool(self._posts) and self._posts.pop(key, None) is not None

    @property
    def tensor_pre_hooks(self) -> list[FunctionPreHook]:
        """The hooks of the node's outputs, one object for each tensor."""
        held = self._tensor_hooks
        pairs = held if isinstance(held, tuple) else () if held is None else ((0, held),)
        return [PyFunctionTensorPreHook(hooks, number) for number, hooks in pairs if hooks]

    @property
    def pre_hooks(self) -> list[FunctionPreHook]:
        """The pre-hooks of the node: one object for all that Python registered."""
        return [PyFunctionPreHook(self._pres)] if self._pres else []

    @property
    def post_hooks(self) -> list[FunctionPostHook]:
        """The post-hooks of the node: one object for all that Python registered."""
        return [PyFunctionPostHook(self._posts)] if self._posts else []

    def _register_hook_dict(self, tensor: Any) -> None:
        """Let the hooks of a tensor run at this node, once more if they do already."""
        if not isinstance(tensor, TensorBase):
            raise TypeError("_register_hook_dict expected a variable")
        if tensor._backward_hooks is not None:
            rt.hold_hooks(self, rt.field(tensor, _OUTPUT_NR), tensor._backward_hooks)

    @property
    def _input_metadata(self) -> list[tuple[Any, tuple[int, ...]]]:
        """For each output of the forward op its dtype and sizes."""
        metas = [rt.node_meta(self, k) for k in range(rt.node_field(self, _N_OUT))]
        return [(dtypes.of_code(meta[0]), tuple(meta[2:])) for meta in metas]

    def __call__(self, *grads: Any) -> Any:
        """Run the derivative alone, without hooks.

        Parameters
        ----------
        *grads : Tensor or None
            One for each output of the forward op.

        Returns
        -------
        Tensor or tuple of Tensor or None
            The gradient of each input.
        """
        expected = rt.node_field(self, _N_OUT)
        if len(grads) != expected:
            raise TypeError(f"expected {expected} arguments, got {len(grads)} instead")
        for k, grad in enumerate(grads):
            if grad is not None and not isinstance(grad, TensorBase):
                raise TypeError(f"argument {k} is not a Variable")
        from fastgrad.autograd.recorded_rules import apply_rules

        results = [None] * rt.node_field(self, _N_IN)
        for k, value in apply_rules(self, grads):
            results[k] = value
        return results[0] if len(results) == 1 else tuple(results)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} object at {hex(id(self))}>"


_classes: dict[str, type[Node]] = {}  # by the name of the node


def _class_of(number: int) -> type[Node]:
    """The class of the nodes of an op, by the op's number. Ops whose nodes have one name share one class."""
    name = OPS[number].node
    known = _classes.get(name)
    if known is None:
        saved = {saved for op in OPS if op.node == name for saved in op.saved_names()}
        attributes: dict[str, Any] = {"__slots__": (), "__module__": "builtins"}
        attributes |= {f"_saved_{s}": _saved_property(s, raw=False) for s in saved}
        attributes |= {f"_raw_saved_{s}": _saved_property(s, raw=True) for s in saved}
        made = type(name.rpartition("::")[2], (Node,), attributes)
        known = _classes.setdefault(name, made)  # another thread may have been faster
    return known


def _saved_property(name: str, raw: bool) -> property:
    return property(lambda node: saved_attribute(node, name, raw))


runtime_set_object("node_base", NodeBase)
runtime_set_object("make_node_class", _class_of)

gc.callbacks.append(rt.collecting)
