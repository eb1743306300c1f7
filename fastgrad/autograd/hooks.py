"""Hooks from Python's side: handles, the hooks of leaves, and the rules for what a hook may return.

Note [Where hooks live]: the hooks of a non-leaf stand in the object of its node, those of a leaf in the `__dict__` of
its object (see `native.backward.hook_dicts`). Python's garbage collector sees both, so that a hook that holds its own
tensor or node is collected with it. A leaf that has hooks keeps its object as long as a graph leads to it.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from weakref import ref

from fastgrad import module_names
from fastgrad.functions.arguments import need_tensor
from fastgrad.functions.creation import zeros
from fastgrad.native.build.loader import HandleBase, TensorBase, rt, runtime_set_object
from fastgrad.native.contracts.records import TENSOR

DTYPE_FIELD, OUTPUT_FIELD = (TENSOR.fields[name][0] for name in ("dtype", "output_nr"))
TENSOR_HOOKS, POST_HOOKS = "_backward_hooks", "_post_accumulate_grad_hooks"
LEAF_HOOK_DICTS = (TENSOR_HOOKS, POST_HOOKS)


class RemovableHandle(HandleBase):
    """What registering a hook returns: takes the hook away again.

    Parameters
    ----------
    hooks_dict : dict
        The hooks, by the handle's id; held weakly.
    extra_dict : dict or sequence of dict, optional
        Further dicts that may have an entry under the same id.

    Attributes
    ----------
    id : int
        Unique in the process and increasing.

    Examples
    --------
    >>> import fastgrad as fg
    >>> x = fg.ones(2, requires_grad=True)
    >>> with x.register_hook(lambda g: g * 10):
    ...     x.sum().backward()
    >>> x.grad
    tensor([10., 10.])
    """

    __slots__ = ()

    def __init__(self, hooks_dict: Any, *, extra_dict: Any = None) -> None:
        self.hooks_dict_ref = ref(hooks_dict)
        self.id = rt.next_hook_id()
        if extra_dict is not None:
            extra = [extra_dict] if isinstance(extra_dict, dict) else extra_dict
            self._extra = tuple(ref(d) for d in extra)

    @property
    def hooks_dict_ref(self) -> Any:
        """A weak reference to the hooks."""
        return rt.get_hooks_dict(self)

    @hooks_dict_ref.setter
    def hooks_dict_ref(self, reference: Any) -> None:
        rt.set_hooks_dict(self, reference)

    @property
    def extra_dict_ref(self) -> tuple[Any, ...]:
        """Weak references to the further dicts."""
        return self._extra or ()

    def remove(self) -> None:
        """Take the hook away; more than once does no harm."""
        if rt.remove_lone_hook(self):
            return
        for reference in (self.hooks_dict_ref, *(self._extra or ())):
            hooks = reference()
            if hooks is not None:
                hooks.pop(self.id, None)

    def __getstate__(self) -> tuple[Any, ...]:
        extra = tuple(d() for d in self._extra or ())
        return (self.hooks_dict_ref(), self.id, extra)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return (_revive, (type(self), self.__getstate__()))

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        hooks, self.id, *rest = state
        self.hooks_dict_ref = ref(OrderedDict() if hooks is None else hooks)
        extra = rest[0] if rest else ()
        self._extra = tuple(ref(OrderedDict() if d is None else d) for d in extra) or None

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def _revive(kind: type, state: tuple[Any, ...]) -> Any:
    handle: Any = object.__new__(kind)
    handle.__setstate__(state)
    return handle


runtime_set_object("handle_type", RemovableHandle)
runtime_set_object("hooks_type", OrderedDict)
runtime_set_object("hooks_name", TENSOR_HOOKS)
runtime_set_object("post_accumulate_name", POST_HOOKS)


# --- registering -----------------------------------------------------------------------------------------------


def register_tensor_hook(
    tensor: Any, hook: Callable[..., Any], *, with_tensor: bool = False, materialize: bool = False
) -> RemovableHandle:
    """Call ``hook(grad)`` whenever the gradient with regard to this tensor is computed.

    Parameters
    ----------
    hook : callable
        May return a tensor that takes the gradient's place, or None.
    with_tensor : bool
        Call ``hook(grad, tensor)`` instead.
    materialize : bool
        Show the hook zeros in place of an undefined gradient, which otherwise is None.

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
    if with_tensor or materialize:
        hook = TensorHook(hook, tensor, with_tensor, materialize)
    handle = rt.register_hook(tensor, hook)
    if handle is None:
        if not tensor.requires_grad:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        handle = rt.add_hook(leaf_hook_dict(tensor, TENSOR_HOOKS), hook)
    return handle  # type: ignore[no-any-return]


class TensorHook:
    """A tensor hook that wants more than the gradient.

    Parameters
    ----------
    hook : callable
    tensor : Tensor
        The one that the hook is registered on.
    with_tensor : bool
        Whether the hook gets it as its second argument.
    materialize : bool
        Whether the hook gets zeros in place of an undefined gradient.
    """

    def __init__(self, hook: Callable[..., Any], tensor: Any, with_tensor: bool, materialize: bool) -> None:
        self.hook = hook
        self.tensor = tensor if with_tensor else None
        self.like = (tuple(tensor.shape), tensor.dtype, tensor.device) if materialize else None
        self.__name__ = hook_name(hook)

    def __call__(self, grad: Any) -> Any:
        """Call the hook as it wants to be called."""
        if grad is None and self.like is not None:
            grad = self.zeros()
        return self.hook(grad) if self.tensor is None else self.hook(grad, self.tensor)

    def zeros(self) -> Any:
        """What stands for an undefined gradient."""
        sizes, dtype, device = self.like or ((), None, None)
        return zeros(sizes, dtype=dtype, device=device)


def register_post_accumulate_grad_hook(tensor: Any, hook: Callable[[Any], None]) -> RemovableHandle:
    """Call ``hook(tensor)`` after a pass has added to the ``grad`` of this leaf.

    Parameters
    ----------
    hook : callable
        Gets the leaf itself; must return None.

    Returns
    -------
    RemovableHandle

    Raises
    ------
    RuntimeError
        If the tensor is not a leaf or does not require grad.

    Examples
    --------
    An optimizer step fused into backward:

    >>> import fastgrad as fg
    >>> p = fg.ones(2, requires_grad=True)
    >>> def step(leaf):
    ...     with fg.no_grad():
    ...         leaf.sub_(leaf.grad * 0.5)
    ...     leaf.grad = None
    >>> handle = p.register_post_accumulate_grad_hook(step)
    >>> (p * 3).sum().backward()
    >>> p
    tensor([-0.5000, -0.5000], requires_grad=True)
    """
    if not need_tensor("register_post_accumulate_grad_hook", tensor, "tensor").requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if not tensor.is_leaf:
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    return rt.add_hook(leaf_hook_dict(tensor, POST_HOOKS), hook)  # type: ignore[no-any-return]


def set_post_accumulate_hook(tensor: Any, hook: Any) -> None:
    """Make one hook the only post-accumulate hook of a leaf; None removes all."""
    hooks = leaf_hook_dict(tensor, POST_HOOKS)
    hooks.clear()
    if hook is not None:
        rt.add_hook(hooks, hook)


def leaf_hook_dict(tensor: Any, name: str) -> Any:
    """The dict of a leaf's hooks of one kind, made when it is first needed."""
    return rt.leaf_hooks(tensor, int(name == POST_HOOKS))


def _need_hooks(name: str, hooks: Any) -> Any:
    """The hooks, if they are a dict or None."""
    if hooks is not None and not isinstance(hooks, dict):
        raise TypeError(f"{name} of a tensor must be a dict of hooks or None, not {type(hooks).__name__}")
    return hooks


def _referable(hooks: Any) -> Any:
    """A dict of hooks as handles can refer to it, or None."""
    return OrderedDict(hooks) if type(hooks) is dict else hooks


def leaf_hooks(tensor: Any, name: str) -> Any:
    """The hooks of one kind of a leaf, or None; TypeError for what somebody else put in their place."""
    return _need_hooks(name, tensor.__dict__.get(name))


def set_leaf_hooks(tensor: Any, name: str, hooks: Any) -> None:
    """Let the hooks of one kind of a leaf be those of a dict, from now on; None for none."""
    hooks = _referable(_need_hooks(name, hooks))
    if hooks is not None:
        leaf_hook_dict(tensor, name)  # a leaf that has hooks is known by it
        tensor.__dict__[name] = hooks
    else:
        tensor.__dict__.pop(name, None)


def set_output_hooks(tensor: Any, hooks: Any) -> None:
    """Let the hooks of a non-leaf be those of a dict; if it has hooks they are replaced in the dict that it has."""
    hooks = _referable(_need_hooks(TENSOR_HOOKS, hooks))
    present = rt.output_hooks(tensor)
    if present is not None:
        new = dict(hooks or {})
        present.clear()
        present.update(new)
    elif hooks is not None:
        rt.hold_hooks(rt.grad_fn(tensor), rt.field(tensor, OUTPUT_FIELD), hooks)


# --- what a hook may return ------------------------------------------------------------------------------------


def hook_name(hook: Any) -> str:
    """What messages call a hook."""
    return getattr(hook, "__name__", "<unknown>")


def _blame(hook: Any) -> str:
    """What messages add: which hook returned something wrong, of which node."""
    name = hook_name(hook)
    if name == "<unknown>":
        function = getattr(hook, "func", None)  # functools.partial
        name = hook_name(function) if function is not None else type(hook).__name__
    task = rt.current_pass()
    node = rt.task_node(task) if task else None
    return f" (hook '{name}' of {node.name()})" if node is not None else f" (hook '{name}')"


def check_replacement(hook: Any, old: Any, new: Any) -> None:
    """What a hook returned in place of a gradient must be: a tensor of the same kind, dtype and sizes."""
    if old is None and isinstance(hook, TensorHook) and hook.like is not None:
        old = hook.zeros()
    if old is None:
        raise RuntimeError(f"can't replace a None gradient with a non-None value{_blame(hook)}")
    if not isinstance(new, TensorBase):
        raise TypeError(f"expected Variable, but hook returned '{type(new).__name__}'{_blame(hook)}")
    if rt.field(old, DTYPE_FIELD) != rt.field(new, DTYPE_FIELD):
        was, got = (f"{module_names.shown}.{t.dtype.type_name}Tensor" for t in (old, new))
        raise RuntimeError(
            f"hook '{hook_name(hook)}' has changed the type of value (was {was} got {got}){_blame(hook)}"
        )
    if rt.sizes(old) != rt.sizes(new):
        sizes = f"was {list(rt.sizes(old))} got {list(rt.sizes(new))}"
        raise RuntimeError(f"hook '{hook_name(hook)}' has changed the size of value ({sizes}){_blame(hook)}")


class CheckedHook(partial[Any]):
    """A node hook of the library's own: what it returns is right, also where there was no gradient before.

    It calls hooks itself, which stand on tapes in its place.
    """

    __slots__ = ()
    calls_hooks = True


def check_tuple(hook: Any, values: Sequence[Any], result: Any) -> None:
    """What a node hook returned must be a tuple of as many values, each None or fit to replace the old one."""
    if isinstance(hook, CheckedHook):
        return
    if not isinstance(result, tuple):
        raise TypeError(f"expected tuple, but hook returned '{type(result).__name__}'{_blame(hook)}")
    if len(result) != len(values):
        raise RuntimeError(
            f"hook '{hook_name(hook)}' has returned an incorrect number of values (got {len(result)}, but expected "
            f"{len(values)}){_blame(hook)}"
        )
    for old, new in zip(values, result, strict=True):
        if new is not None and new is not old:
            check_replacement(hook, old, new)


def check_post_accumulate(hook: Any, result: Any) -> None:
    """A post-accumulate hook returned neither None nor its leaf."""
    if not isinstance(result, TensorBase):
        raise TypeError(f"expected Variable, but hook returned '{type(result).__name__}'{_blame(hook)}")
    raise RuntimeError(f"Tensor post accumulate grad hooks should return None.{_blame(hook)}")


for _check in (check_replacement, check_tuple, check_post_accumulate):
    runtime_set_object(_check.__name__, _check)


def warn_unserializable(hooks: Any) -> None:
    """Hooks are not pickled; say so."""
    for hook in hooks.values():
        if not getattr(hook, "__torch_unserializable__", False):
            warnings.warn(
                f"backward hook {hook!r} on tensor will not be serialized.  If this is expected, you can decorate the "
                "function with @fastgrad.utils.hooks.unserializable_hook to suppress this warning",
                stacklevel=4,
            )
