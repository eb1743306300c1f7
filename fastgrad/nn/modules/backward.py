"""Backward hooks of modules: at boundaries that a call's inputs and outputs cross.

Note [Boundaries of a call]: the inputs of a call cross one boundary node, its outputs another. A post-hook of the
outputs' node runs the backward pre-hooks and keeps what they leave for the pass; a post-hook of the inputs' node runs
the full backward hooks with it. The node of the outputs leads to that of the inputs, so the hook of the former may
hold the latter, but not the other way round: a cycle would keep every graph until the collector comes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

from fastgrad.autograd.boundary import boundary
from fastgrad.autograd.hooks import check_replacement, hook_name
from fastgrad.native.loader import TensorBase, rt
from fastgrad.nn.modules.hooks import Hook
from fastgrad.nn.modules.pytree import children, filled, form_of, is_container, picked, rebuilt

Grads = tuple[Any, ...]


def cross(values: tuple[Any, ...]) -> tuple[Any, Any, tuple[Any, ...]]:
    """Let values, and the tensors inside of containers among them, cross a boundary.

    Returns
    -------
    tuple
        The node, None if nothing requires grad; the form of the values, None if there are no containers; the values
        behind the boundary.
    """
    for value in values:
        if not isinstance(value, TensorBase) and is_container(value):
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


class _Side:
    """One boundary of a call, and the hooks that see what crosses it; what is called is a post-hook of its node.

    Parameters
    ----------
    module : Module
    hooks : list of callable
    """

    kind = ""  # what messages call the hooks
    given = ""  # and what they are given

    def __init__(self, module: Any, hooks: list[Hook]) -> None:
        self.module = module
        self.hooks = hooks
        self.form: Any = None

    def run(self, grads: Grads, *more: Grads) -> tuple[Grads, Grads | None]:
        """Run the hooks.

        Parameters
        ----------
        grads : tuple
            The gradients at the node.
        *more : tuple
            What the hooks get besides.

        Returns
        -------
        tuple
            What the last hook left, and the same as gradients of the node; None if that is what they were.
        """
        shown = grads if self.form is None else tuple(filled(form, grads) for form in self.form)
        left = None
        for hook in self.hooks:
            new = hook(self.module, shown, *more)
            if new is not None:
                left = self.checked(hook, new, len(shown), grads if left is None else left)
                shown = tuple(new)
        return shown, left

    def checked(self, hook: Hook, new: Any, n: int, old: Grads) -> Grads:
        """What a hook returned, as gradients of the node that replace the old ones."""
        if isinstance(new, TensorBase):
            raise RuntimeError(
                f"{self.kind} returned an invalid number of {self.given}, got a Tensor, but expected a tuple of {n} "
                f"(hook '{hook_name(hook)}')"
            )
        if not isinstance(new, (tuple, list)):
            raise TypeError(
                f"{self.kind} '{hook_name(hook)}' must return None or a tuple of {n} gradients, but returned "
                f"'{type(new).__name__}'"
            )
        if len(new) != n:
            raise RuntimeError(
                f"{self.kind} returned an invalid number of {self.given}, got {len(new)}, but expected {n} "
                f"(hook '{hook_name(hook)}')"
            )
        values = self.leaves(hook, new, old)
        for k, (value, before) in enumerate(zip(values, old, strict=True)):
            if value is not None and value is not before:
                if before is None and self.form is None and not _takes_gradient(k):
                    values[k] = None  # of something that is no tensor or does not require grad: never used
                else:
                    check_replacement(hook, before, value)
        return tuple(values)

    def leaves(self, hook: Hook, new: Any, old: Grads) -> list[Any]:
        """What a hook returned, in the order of the node's inputs."""
        if self.form is None:
            return list(new)

        def mismatch(form: Any, value: Any) -> Exception:
            return RuntimeError(
                f"{self.kind} '{hook_name(hook)}' returned a '{type(value).__name__}' where {self.given} has a "
                f"'{type(form).__name__}' of {len(children(form))}: what replaces it must have the same form"
            )

        out: list[Any] = [None] * len(old)
        for form, value in zip(self.form, new, strict=True):
            picked(form, value, out, mismatch)
        return out


def _takes_gradient(k: int) -> bool:
    """Whether the node at which the pass stands hands a gradient on to its k-th input."""
    return rt.task_node(rt.current_pass()).next_functions[k][0] is not None


class _Inputs(_Side):
    """Where the inputs come in, with the full backward hooks."""

    kind = "Backward hook"
    given = "grad_input"

    def __init__(self, module: Any, hooks: list[Hook]) -> None:
        super().__init__(module, hooks)
        self.waiting: dict[int, Grads] = {}  # what `grad_output` is, by the number of the pass

    def expect(self, grad_output: Grads) -> None:
        """The pass under way has come to the outputs and will come to the inputs."""
        while len(self.waiting) > 64:  # passes that failed left theirs behind; nested ones are few
            del self.waiting[next(iter(self.waiting))]
        self.waiting[rt.pass_id(rt.current_pass())] = grad_output

    def __call__(self, grad_inputs: Grads, _: Grads) -> Grads | None:
        grad_output = self.waiting.pop(rt.pass_id(rt.current_pass()), None)
        if grad_output is None:  # the pass came from elsewhere than the outputs
            return None
        return self.run(grad_inputs, grad_output)[1]


class _Outputs(_Side):
    """Where the outputs leave, with the backward pre-hooks.

    Parameters
    ----------
    module : Module
    hooks : list of callable
    inputs : _Inputs
    node : Node or None
        At the inputs; None if none of them requires grad.
    n_inputs : int
    """

    kind = "Backward pre hook"
    given = "grad_output"

    def __init__(self, module: Any, hooks: list[Hook], inputs: _Inputs, node: Any, n_inputs: int) -> None:
        super().__init__(module, hooks)
        self.inputs = inputs
        self.node = node
        self.n_inputs = n_inputs

    def leave(self, result: Any) -> Any:
        """Let the output of the call cross the boundary."""
        single = not isinstance(result, tuple)
        if single and not isinstance(result, TensorBase) and not is_container(result):
            warnings.warn(
                "For backward hooks to be called, module output should be a Tensor, or a tuple, list, dict or "
                f"dataclass with Tensors, but received {type(result)}",
                stacklevel=4,
            )
        node, self.form, values = cross((result,) if single else tuple(result))
        if node is None:
            return result
        node.register_hook(self)
        if single:
            return values[0]
        return values if type(result) is tuple else rebuilt(result, values)

    def __call__(self, _: Grads, grad_outputs: Grads) -> Grads | None:
        shown, left = self.run(grad_outputs)
        if self.node is not None:
            if rt.will_run(rt.current_pass(), self.node, 0):
                self.inputs.expect(shown)
        elif self.inputs.hooks:
            self.without_inputs(shown)
        return left

    def without_inputs(self, grad_output: Grads) -> None:
        """No input requires grad: the full backward hooks run here."""
        warnings.warn(
            "Full backward hook is firing when gradients are computed with respect to module outputs since no inputs "
            "require gradients. See the documentation of Module.register_full_backward_hook for more details.",
            stacklevel=4,
        )
        for hook in self.inputs.hooks:
            new = hook(self.module, (None,) * self.n_inputs, grad_output)
            if new is not None and not (isinstance(new, tuple) and all(value is None for value in new)):
                raise RuntimeError(
                    "Backward hook for Modules where no input requires gradient should always return None or None for "
                    f"all gradients (hook '{hook_name(hook)}')"
                )


def enter_module(
    module: Any, hooks: list[Hook], pre_hooks: list[Hook], args: tuple[Any, ...]
) -> tuple[tuple[Any, ...], Callable[[Any], Any]]:
    """Let the positional arguments of a call cross the boundary of its inputs.

    Parameters
    ----------
    module : Module
    hooks, pre_hooks : list of callable
        The full backward hooks, and the backward pre-hooks. They stay those of this call.
    args : tuple

    Returns
    -------
    tuple
        The arguments behind the boundary, and the function that the output must go through.
    """
    inputs = _Inputs(module, hooks)
    node = None
    if hooks:
        node, inputs.form, args = cross(args)
        if node is not None:
            node.register_hook(inputs)
    return args, _Outputs(module, pre_hooks, inputs, node, len(args)).leave


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
