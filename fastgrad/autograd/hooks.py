"""Where hooks live, and how they are run over gradients.

Note [Where hooks live]: the hooks of a tensor stand in a dict of the Python object, so that the garbage collector
sees a hook that holds its own tensor. Of a non-leaf the node also knows, in `_nodes`: weakly while the object
lives; when the object goes and the graph stays, the entry takes the dict over (`finalize`). A leaf's hooks are
found through the leaf. Native flags say which nodes have an entry, so that a graph without hooks never looks.
"""

from __future__ import annotations

import itertools
import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any
from weakref import ref

from fastgrad.native import layout
from fastgrad.native.layout import NODE, TENSOR
from fastgrad.native.loader import TensorBase, rt, runtime_set_object

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

    __slots__ = ("__weakref__", "hooks_dict_ref", "id")

    def __init__(self, hooks: Any, ids: Any = itertools.count()) -> None:  # noqa: B008 - one counter for all
        self.hooks_dict_ref: Any = ref(hooks)
        self.id = next(ids)

    def remove(self) -> None:
        """Take the hook away; more than once does no harm."""
        hooks = self.hooks_dict_ref()
        if hooks is not None:
            hooks.pop(self.id, None)

    def __getstate__(self) -> tuple[Any, int]:
        return (self.hooks_dict_ref(), self.id)

    def __setstate__(self, state: tuple[Any, int]) -> None:
        hooks, self.id = state
        self.hooks_dict_ref = ref(OrderedDict() if hooks is None else hooks)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


class NodeHooks:
    """What Python keeps for one node.

    Attributes
    ----------
    tensors : list of (int, dict or weak reference to a dict)
        For each tensor with hooks the output's number and its hooks, weakly as long as the tensor's object holds them.
    leaf : dict
        The hooks of a leaf whose object died before the graph, by attribute.
    pres, posts, metadata : dict
    """

    __slots__ = ("leaf", "metadata", "posts", "pres", "tensors")

    def __init__(self) -> None:
        self.tensors: list[tuple[int, Any]] = []
        self.leaf: Any = None
        self.pres: Any = None
        self.posts: Any = None
        self.metadata: Any = None


# By handle: a NodeHooks, or for the usual node, whose only output has hooks, just what `tensors` would hold for it.
_nodes: dict[int, Any] = {}
runtime_set_object("hooks_name", "_backward_hooks")
runtime_set_object("reference_type", ref)
runtime_set_object("node_table", _nodes)  # the runtime removes the entries of nodes that it frees


def node_entry(handle: int) -> NodeHooks:
    """The entry of a node, made when it is first needed."""
    entry = _nodes.get(handle)
    if type(entry) is NodeHooks:
        return entry
    full = NodeHooks()
    if entry is not None:
        full.tensors.append((0, entry))
    _nodes[handle] = full
    rt.flag_node(handle, layout.NODE_PYTHON)
    return full


# --- registering -----------------------------------------------------------------------------------------------


def register_tensor_hook(tensor: Any, hook: Callable[[Any], Any]) -> RemovableHandle:
    """Call ``hook(grad)`` whenever the gradient with regard to this tensor is computed.

    Parameters
    ----------
    hook : callable
        May return a tensor that takes the gradient's place, or None.

    Returns
    -------
    RemovableHandle
        With a method ``remove()``; also a context manager.

    Raises
    ------
    RuntimeError
        If the tensor does not require grad.

    Examples
    --------
    >>> import fastgrad as fg
    >>> x = fg.ones(2, requires_grad=True)
    >>> handle = x.register_hook(lambda g: g * 10)
    >>> x.sum().backward()
    >>> x.grad
    tensor([10., 10.])
    """
    attributes = tensor.__dict__
    hooks = attributes.get("_backward_hooks")
    if hooks is None:
        target = rt.hook_target(tensor)
        if not target:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        node, output = target
        if node:
            hooks = attributes["_backward_hooks"] = OrderedDict()
            if output or node in _nodes:
                node_entry(node).tensors.append((output, ref(hooks)))
            else:
                _nodes[node] = ref(hooks)
        else:
            hooks = leaf_hook_dict(tensor, "_backward_hooks", layout.TENSOR_HOOKS)
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


def leaf_hook_dict(tensor: Any, name: str, flag: int) -> Any:
    """The dict of a leaf's hooks: its own, that of an earlier object of the same leaf, or a new one."""
    attributes = tensor.__dict__
    hooks = attributes.get(name)
    if hooks is None:
        keeper = attributes.get("_accumulator")
        if keeper is None:
            rt.hook_target(tensor)
            keeper = attributes["_accumulator"] = NodeKeeper(rt.leaf_node(tensor))
        rt.flag_node(keeper.handle, flag)
        entry = _nodes.get(keeper.handle)
        earlier = entry.leaf.pop(name, None) if type(entry) is NodeHooks and entry.leaf else None
        hooks = attributes[name] = OrderedDict() if earlier is None else earlier
    return hooks


def leave_hooks_behind(tensor: Any, node: int) -> None:
    """After a change in place: hooks registered before stay with the old node and see the old value's gradient."""
    hooks = tensor.__dict__.pop("_backward_hooks", None)
    if hooks is not None:
        _hold(node, hooks)


def _hold(node: int, hooks: Any) -> None:
    """Let a node hold a dict of hooks that no tensor object holds any more."""
    entry = _nodes.get(node)
    if type(entry) is ref:
        _nodes[node] = hooks
    elif type(entry) is NodeHooks:
        for k, (output, held) in enumerate(entry.tensors):
            if type(held) is ref and held() is hooks:
                entry.tensors[k] = (output, hooks)


def tensor_hooks(entry: Any) -> Any:
    """Pairs of output number and hooks for a node's tensors, in the order in which the tensors first got one."""
    if type(entry) is not NodeHooks:
        return ()
    pairs = [(output, held() if type(held) is ref else held) for output, held in entry.tensors]
    return [(output, hooks) for output, hooks in pairs if hooks]


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
            node_entry(keeper.handle).leaf = {
                k: attributes[k] for k in LEAF_HOOKS if attributes.get(k) is not None
            }
        return
    hooks = attributes.get("_backward_hooks")
    node = rt.field(tensor, NODE_FIELD)
    if hooks and node and not (rt.field(tensor, REFS_FIELD) == 1 and rt.node_field(node, NODE_REFS) == 1):
        _hold(node, hooks)


LEAF_HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")


def leaf_hooks(node: int, name: str) -> Any:
    """The hooks of a leaf, found through its AccumulateGrad node."""
    hooks = rt.node_variable(node).__dict__.get(name)
    if hooks is None:
        entry = _nodes.get(node)
        if type(entry) is NodeHooks and entry.leaf:
            hooks = entry.leaf.get(name)
    return hooks


runtime_set_object("finalizer", finalize)


# --- running ---------------------------------------------------------------------------------------------------


def hook_name(hook: Any) -> str:
    """What messages call a hook."""
    return getattr(hook, "__name__", "<unknown>")


def check_replacement(hook: Any, old: Any, new: Any) -> None:
    """What a hook returned in place of a gradient must be: of the same kind, dtype and sizes."""
    if old is None:
        raise RuntimeError("can't replace a None gradient with a non-None value")
    if not isinstance(new, TensorBase):
        raise TypeError(f"expected Variable, but hook returned '{type(new).__name__}'")
    if rt.field(old, DTYPE_FIELD) != rt.field(new, DTYPE_FIELD):
        was, got = (f"fastgrad.{t.dtype.type_name}Tensor" for t in (old, new))
        raise RuntimeError(f"hook '{hook_name(hook)}' has changed the type of value (was {was} got {got})")
    if rt.sizes(old) != rt.sizes(new):
        raise RuntimeError(f"hook '{hook_name(hook)}' has changed the size of value")


def run_tensor_hooks(hooks: Any, gradient: Any) -> Any:
    """Run the hooks of one tensor over its gradient; returns the gradient that goes on."""
    for hook in tuple(hooks.values()):
        result = hook(gradient)
        if result is not None and result is not gradient:
            check_replacement(hook, gradient, result)
            gradient = result
    return gradient


def run_tuple_hooks(hooks: Any, values: tuple[Any, ...], *others: Any) -> tuple[Any, ...]:
    """Run node hooks over a tuple of gradients, each seeing what the one before returned."""
    for hook in tuple(hooks.values()):
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
