"""Where hooks live, and how they are run over gradients.

Note [Where hooks live]: the hooks of a tensor stand in a dict of the Python object, so that the garbage collector
sees a hook that holds its own tensor. Of a non-leaf the node also knows, in `_nodes`: weakly while the object
lives; when the object goes and the graph stays, the entry takes the dict over (`finalize`). A leaf's hooks are
found through the leaf. Native flags say which nodes have an entry, so that a graph without hooks never looks.
"""

from __future__ import annotations

import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from fastgrad.native import layout
from fastgrad.native.layout import NODE, TENSOR
from fastgrad.native.loader import TensorBase, rt, runtime_set_callback, runtime_set_object

FLAGS_FIELD = NODE.fields["flags"][0]
TENSOR_FLAGS = TENSOR.fields["flags"][0]
NODE_FIELD = TENSOR.fields["node"][0]
OUTPUT_NR = TENSOR.fields["output_nr"][0]
DTYPE_FIELD = TENSOR.fields["dtype"][0]
REFS_FIELD = TENSOR.fields["refs"][0]
NODE_REFS = NODE.fields["refs"][0]


class RemovableHandle:
    """What registering a hook returns.

    Attributes
    ----------
    id : int
        Unique in the process and increasing.
    """

    next_id = 0

    def __init__(self, hooks: Any) -> None:
        self.hooks_dict_ref: Any = weakref.ref(hooks)
        self.id = RemovableHandle.next_id
        RemovableHandle.next_id += 1

    def remove(self) -> None:
        """Take the hook away; more than once does no harm."""
        hooks = self.hooks_dict_ref()
        if hooks is not None:
            hooks.pop(self.id, None)

    def __getstate__(self) -> tuple[Any, int]:
        return (self.hooks_dict_ref(), self.id)

    def __setstate__(self, state: tuple[Any, int]) -> None:
        hooks, self.id = state
        self.hooks_dict_ref = weakref.ref(HookDict() if hooks is None else hooks)
        RemovableHandle.next_id = max(RemovableHandle.next_id, self.id + 1)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


class HookDict(OrderedDict[int, Callable[..., Any]]):
    """Hooks by the id of their handle, in the order in which they fire."""


class NodeHooks:
    """What Python keeps for one node."""

    __slots__ = ("leaf", "metadata", "posts", "pres", "tensors")

    def __init__(self) -> None:
        self.tensors: list[tuple[int, Any, Any]] = []  # output, weak reference to the tensor, dict once it died
        self.leaf: dict[str, Any] = {}  # the hooks of a leaf whose object died before the graph
        self.pres = HookDict()
        self.posts = HookDict()
        self.metadata: dict[Any, Any] = {}


_nodes: dict[int, NodeHooks] = {}


def node_entry(handle: int) -> NodeHooks:
    """The entry of a node, made when it is first needed."""
    entry = _nodes.get(handle)
    if entry is None:
        entry = _nodes[handle] = NodeHooks()
        set_node_flag(handle, layout.NODE_PYTHON)
    return entry


def set_node_flag(handle: int, flag: int) -> None:
    """Tell the sweep that Python is due at a node."""
    rt.set_node_field(handle, FLAGS_FIELD, rt.node_field(handle, FLAGS_FIELD) | flag)


def _set_tensor_flag(tensor: Any, flag: int) -> None:
    rt.set_field(tensor, TENSOR_FLAGS, rt.field(tensor, TENSOR_FLAGS) | flag)


# --- registering -----------------------------------------------------------------------------------------------


def register_tensor_hook(tensor: Any, hook: Callable[[Any], Any]) -> RemovableHandle:
    """Add a hook to a tensor: see `Tensor.register_hook`."""
    if not tensor.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    hooks = tensor.__dict__.get("_backward_hooks")
    if hooks is None:
        rt.flags_of(tensor)  # a view catches up with its base, and so gets the node that its gradient arrives at
        node = rt.field(tensor, NODE_FIELD)
        if node:
            hooks = tensor.__dict__["_backward_hooks"] = HookDict()
            node_entry(node).tensors.append((rt.field(tensor, OUTPUT_NR), weakref.ref(tensor), None))
            set_node_flag(node, layout.TENSOR_HOOKS)
            _set_tensor_flag(tensor, layout.HAS_PYTHON)
        else:
            hooks = leaf_hook_dict(tensor, "_backward_hooks", layout.TENSOR_HOOKS)
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


def leaf_hook_dict(tensor: Any, name: str, flag: int) -> Any:
    """The dict of a leaf's hooks: its own, that of an earlier object of the same leaf, or a new one."""
    hooks = tensor.__dict__.get(name)
    if hooks is None:
        node = _keep_leaf_node(tensor, flag)
        earlier = _nodes[node].leaf.pop(name, None) if node in _nodes else None
        hooks = tensor.__dict__[name] = HookDict() if earlier is None else earlier
    return hooks


def leave_hooks_behind(tensor: Any, node: int) -> None:
    """After a change in place: hooks registered before stay with the old node and see the old value's gradient."""
    hooks = tensor.__dict__.pop("_backward_hooks", None)
    if hooks is not None and node in _nodes:
        entry = _nodes[node]
        entry.tensors[:] = [
            (k, _gone, hooks) if held is None and reference() is tensor else (k, reference, held)
            for k, reference, held in entry.tensors
        ]


def _keep_leaf_node(tensor: Any, flag: int) -> int:
    """Set a flag on a leaf's AccumulateGrad node, which lives from now on as long as the leaf's object.

    The node holds the leaf's record; an object that holds the node makes no cycle that the collector must see.
    """
    keeper = tensor.__dict__.get("_accumulator")
    if keeper is None:
        keeper = tensor.__dict__["_accumulator"] = NodeKeeper(rt.leaf_node(tensor))
        _set_tensor_flag(tensor, layout.HAS_PYTHON)
    set_node_flag(keeper.handle, flag)
    return keeper.handle


class NodeKeeper:
    """One reference to a native node."""

    __slots__ = ("__weakref__", "handle")

    def __init__(self, handle: int) -> None:
        self.handle = handle

    def __del__(self, drop: Callable[[int], None] = rt.drop_handle) -> None:
        drop(self.handle)


# --- lifetimes -------------------------------------------------------------------------------------------------


def finalize(tensor: Any) -> None:
    """The Python object of a tensor with hooks goes: the node takes the hooks over, if the graph stays."""
    attributes = tensor.__dict__
    keeper = attributes.get("_accumulator")
    if keeper is not None:
        if rt.node_field(keeper.handle, NODE_REFS) > 1:
            node_entry(keeper.handle).leaf = {k: attributes[k] for k in LEAF_HOOKS if attributes.get(k) is not None}
        return
    node = rt.field(tensor, NODE_FIELD)
    entry = _nodes.get(node)
    if entry is None:
        return
    alone = rt.field(tensor, REFS_FIELD) == 1 and rt.node_field(node, NODE_REFS) == 1
    for k, (output, reference, hooks) in enumerate(entry.tensors):
        if hooks is None and reference() is tensor and not alone:
            entry.tensors[k] = (output, _gone, attributes.get("_backward_hooks"))


def _gone() -> None:
    """In the place of a weak reference to an object that left its hooks to its node."""


LEAF_HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")


def leaf_hooks(node: int, name: str) -> Any:
    """The hooks of a leaf, found through its AccumulateGrad node."""
    hooks = rt.node_variable(node).__dict__.get(name)
    if hooks is None and node in _nodes:
        hooks = _nodes[node].leaf.get(name)
    return hooks or {}


def notify(kind: int, handle: int, nodes: Any = _nodes, node_kind: int = layout.NODE_KIND) -> int:
    """The runtime frees a record of which Python keeps something. Module globals may be gone by then."""
    if kind == node_kind:
        nodes.pop(handle, None)
    return 0


runtime_set_object("finalizer", finalize)
runtime_set_callback("notify", 2, notify)


# --- running ---------------------------------------------------------------------------------------------------


def hook_name(hook: Any) -> str:
    """What messages call a hook."""
    return getattr(hook, "__name__", "<unknown>")


def check_replacement(hook: Any, old: Any, new: Any) -> None:
    """What a hook returned in place of a gradient must be: of the same kind, dtype and sizes."""
    if not isinstance(new, TensorBase):
        raise TypeError(f"expected Variable, but hook returned '{type(new).__name__}'")
    if old is None:
        raise RuntimeError("can't replace a None gradient with a non-None value")
    if rt.field(old, DTYPE_FIELD) != rt.field(new, DTYPE_FIELD):
        was, got = (f"fastgrad.{t.dtype.type_name}Tensor" for t in (old, new))
        raise RuntimeError(f"hook '{hook_name(hook)}' has changed the type of value (was {was} got {got})")
    if rt.sizes(old) != rt.sizes(new):
        raise RuntimeError(f"hook '{hook_name(hook)}' has changed the size of value")


def run_tensor_hooks(hooks: Any, gradient: Any) -> Any:
    """Run the hooks of one tensor over its gradient; returns the gradient that goes on."""
    for hook in list(hooks.values()):
        result = hook(gradient)
        if result is not None and result is not gradient:
            check_replacement(hook, gradient, result)
            gradient = result
    return gradient


def run_tuple_hooks(hooks: Any, values: tuple[Any, ...], *others: Any) -> tuple[Any, ...]:
    """Run node hooks over a tuple of gradients, each seeing what the one before returned."""
    for hook in list(hooks.values()):
        result = hook(values, *others)
        if result is None or result is values:
            continue
        if not isinstance(result, tuple):
            raise TypeError(f"expected tuple, but hook returned '{type(result).__name__}'")
        check_tuple(hook, values, result)
        values = result
    return values


def check_tuple(hook: Any, values: Sequence[Any], result: Sequence[Any]) -> None:
    """A tuple that a node hook returned must have as many values, each None or fit to replace the old one."""
    if len(result) != len(values):
        raise RuntimeError(
            f"hook '{hook_name(hook)}' has returned an incorrect number of values (got {len(result)}, but expected "
            f"{len(values)})"
        )
    for old, new in zip(values, result, strict=True):
        if new is not None and new is not old:
            check_replacement(hook, old, new)


def warn_unserializable(hooks: Any) -> None:
    """Hooks are not pickled; say so."""
    for hook in hooks.values():
        if not getattr(hook, "__torch_unserializable__", False):
            warnings.warn(
                f"backward hook {hook!r} on tensor will not be serialized.  If this is expected, you can decorate the "
                "function with @fastgrad.utils.hooks.unserializable_hook to suppress this warning",
                stacklevel=3,
            )
