"""Backward hooks of modules: at boundaries that a call's inputs and outputs cross.

Note [Boundaries of a call]: the inputs of a call cross one boundary node, its outputs another. A post-hook of the
outputs' node runs the backward pre-hooks and keeps what they leave for the pass; a post-hook of the inputs' node runs
the full backward hooks with it. The node of the outputs leads to that of the inputs, so the hook of the former may
hold the latter, but not the other way round: a cycle would keep every graph until the collector comes.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from functools import partial
from typing import Any

from fastgrad.autograd.boundary import boundary
from fastgrad.autograd.engine import kept_by_pass
from fastgrad.autograd.hooks import check_replacement, hook_name
from fastgrad.native.build.loader import TensorBase, rt
from fastgrad.nn.modules.hooks import Hook
from fastgrad.nn.modules.pytree import children, filled, form_of, is_container, picked, rebuilt

Grads = tuple[Any, ...]


def cross(values: tuple[Any, ...]) -> tuple[Any, Any, tuple[Any, ...]]:
    """Let values, and the tensors inside of containers among them, cross a boundary.

    Returns
    -------
    tuple
        The node, None if nothing requires grad; the form of the values, None if all are tensors; the values behind
        the boundary.
    """
    for value in values:
        if not isinstance(value, TensorBase):
            break
    else:
        node, out = boundary(values)
        return node, None, out
    tensors: list[Any] = []
    forms = tuple(form_of(value, tensors) for value in values)
    node, aliases = boundary(tuple(tensors))
    if node is None:
        return None, forms, values
    return node, forms, tuple(filled(f, aliases, v) for f, v in zip(forms, values, strict=True))


class Boundaries:
    """The two boundaries of one call, and the hooks that see what crosses them.

    Parameters
    ----------
    module : Module
    hooks, pre_hooks : list of callable
        The full backward hooks and the backward pre-hooks; they stay those of this call.
    """

    __slots__ = ("hooks", "input_form", "module", "n_inputs", "output_form", "pre_hooks")

    def __init__(self, module: Any, hooks: list[Hook], pre_hooks: list[Hook]) -> None:
        self.module = module
        self.hooks = hooks
        self.pre_hooks = pre_hooks

    def enter(self, args: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        """Let the positional arguments in; returns the node, None if nothing requires grad, and the arguments."""
        self.n_inputs = len(args)
        if not self.hooks:
            return None, args
        node, self.input_form, args = cross(args)
        if node is not None:
            node.register_hook(self.at_inputs)
        return node, args

    def leave(self, result: Any, input_node: Any) -> Any:
        """Let the output out."""
        single = not isinstance(result, tuple)
        if single and not isinstance(result, TensorBase) and not is_container(result):
            warnings.warn(
                "For backward hooks to be called, module output should be a Tensor, or a tuple, list, dict or "
                f"dataclass with Tensors, but received {type(result)}",
                stacklevel=4,
            )
        node, self.output_form, values = cross((result,) if single else tuple(result))
        if node is None:
            return result
        node.register_hook(partial(self.at_outputs, input_node))
        if single:
            return values[0]
        return values if type(result) is tuple else rebuilt(result, values)

    def at_outputs(self, input_node: Any, _: Grads, grads: Grads) -> Grads | None:
        """The post-hook of the node at the outputs."""
        form = self.output_form
        shown = grads if form is None else tuple(filled(f, grads) for f in form)
        left = None
        if self.pre_hooks:
            shown, left = _run(_PRE_HOOKS, self.pre_hooks, form, grads, shown, self.module)
        if self.hooks:
            if input_node is None:
                self.without_inputs(shown)
            elif rt.will_run(rt.current_pass(), input_node, 0):
                kept_by_pass()[self] = shown
        return left

    def at_inputs(self, grads: Grads, _: Grads) -> Grads | None:
        """The post-hook of the node at the inputs."""
        grad_output = kept_by_pass().pop(self, None)
        if grad_output is None:  # the pass came from elsewhere than the outputs
            return None
        form = self.input_form
        shown = grads if form is None else tuple(filled(f, grads) for f in form)
        return _run(_HOOKS, self.hooks, form, grads, shown, self.module, grad_output)[1]

    def without_inputs(self, grad_output: Grads) -> None:
        """No input requires grad: the full backward hooks run at the outputs."""
        warnings.warn(
            "Full backward hook is firing when gradients are computed with respect to module outputs since no inputs "
            "require gradients. See the documentation of Module.register_full_backward_hook for more details.",
            stacklevel=4,
        )
        for hook in self.hooks:
            new = hook(self.module, (None,) * self.n_inputs, grad_output)
            if new is not None and not (isinstance(new, tuple) and all(value is None for value in new)):
                raise RuntimeError(
                    "Backward hook for Modules where no input requires gradient should always return None or None for "
                    f"all gradients. (hook '{hook_name(hook)}')"
                )


_HOOKS = ("Backward hook", "grad_input")
_PRE_HOOKS = ("Backward pre hook", "grad_output")


def _run(
    what: tuple[str, str], hooks: list[Hook], form: Any, grads: Grads, shown: Grads, module: Any, *more: Grads
) -> tuple[Grads, Grads | None]:
    """Run the hooks of one boundary.

    Parameters
    ----------
    what : (str, str)
        What messages call the hooks, and what they are given.
    hooks : list of callable
    form : tuple or None
        The form of what crosses the boundary.
    grads, shown : tuple
        The gradients at the node, and as hooks get them.
    module : Module
    *more : tuple
        What hooks get besides.

    Returns
    -------
    tuple
        What the last hook left, and the same as gradients of the node; None if nothing changed.
    """
    left = None
    for hook in hooks:
        new = hook(module, shown, *more)
        if new is not None:
            left = _checked(what, hook, form, new, len(shown), grads if left is None else left)
            shown = tuple(new)
    return shown, left


def _checked(what: tuple[str, str], hook: Hook, form: Any, new: Any, n: int, old: Grads) -> Grads:
    """What a hook returned, as gradients of the node that replace the old ones."""
    kind, given = what
    if not isinstance(new, (tuple, list, TensorBase)):
        raise TypeError(
            f"{kind} '{hook_name(hook)}' must return None or a tuple of {n} gradients, but returned "
            f"'{type(new).__name__}'"
        )
    if isinstance(new, TensorBase) or len(new) != n:
        got = "a Tensor" if isinstance(new, TensorBase) else len(new)
        raise RuntimeError(
            f"{kind} returned an invalid number of {given}, got {got}, but expected {n} (hook '{hook_name(hook)}')"
        )

    def mismatch(form: Any, value: Any) -> Exception:
        return RuntimeError(
            f"{kind} '{hook_name(hook)}' returned a '{type(value).__name__}' where {given} has a "
            f"'{type(form).__name__}' of {len(children(form))}: what replaces it must have the same form"
        )

    values = list(new) if form is None else [None] * len(old)
    for f, value in zip(form or (), new, strict=bool(form)):
        picked(f, value, values, mismatch)
    for k, (value, before) in enumerate(zip(values, old, strict=True)):
        if value is None or value is before:
            continue
        if before is None and not _takes_gradient(k):
            values[k] = None  # of a tensor that does not require grad: never used
        else:
            check_replacement(hook, before, value)
    return tuple(values)


def _takes_gradient(k: int) -> bool:
    """Whether the node at which the pass stands hands a gradient on to its k-th input."""
    return rt.task_node(rt.current_pass()).next_functions[k][0] is not None


# --- the deprecated kind ---------------------------------------------------------------------------------------


def deprecated_hooks(module: Any, hooks: list[Hook], args: Any, result: Any) -> None:
    """Register backward hooks of the deprecated kind at the node of the first tensor in the output."""
    node = _first_tensor(result).grad_fn
    if node is None:
        return
    for hook in hooks:
        node.register_hook(_with_module(hook, module))
    complaint = _complaint(args, result, node)
    if complaint:
        warnings.warn(f"Using {complaint}.", FutureWarning, stacklevel=4)


def _with_module(hook: Hook, module: Any) -> Hook:
    def call(grad_input: Grads, grad_output: Grads) -> Any:
        return hook(module, grad_input, grad_output)

    call.__name__ = hook_name(hook)
    return call


def _first_tensor(result: Any) -> Any:
    while not isinstance(result, TensorBase):
        items = result.values() if isinstance(result, dict) else result
        if not isinstance(items, Iterable):
            raise TypeError(
                f"backward hooks need a Tensor in the module's output, but it has '{type(result).__name__}'"
            )
        result = next(
            (item for item in items if isinstance(item, TensorBase) or not isinstance(result, dict)), None
        )
    return result


def _complaint(args: Any, result: Any, node: Any) -> str | None:
    """Why the gradients at a node are not those of the module, in PyTorch's words."""
    results = result if isinstance(result, tuple) else (result,)
    nodes = {r.grad_fn for r in results if isinstance(r, TensorBase)} - {None}  # type: ignore[attr-defined]
    missing = "of the grad_output"
    if not all(isinstance(r, TensorBase) for r in results):
        what = (
            "non-full backward hooks on a Module that does not return a single Tensor or a tuple of Tensors"
        )
    elif not all(isinstance(a, TensorBase) for a in args):
        what = "non-full backward hooks on a Module that does not take as input a single Tensor or a tuple of Tensors"
        missing = "of the grad_input"
    elif len(nodes) > 1:
        what = "a non-full backward hook when outputs are generated by different autograd Nodes"
        missing = "grad_output"
    elif {a.grad_fn for a in args} - {None} != {target for target, _ in node.next_functions}:
        what = "a non-full backward hook when the forward contains multiple autograd Nodes"
        missing = "grad_input"
    else:
        return None
    return (
        f"{what} is deprecated and will be removed in future versions. This hook will be missing some {missing}. "
        "Please use register_full_backward_hook to get the documented behavior"
    )
