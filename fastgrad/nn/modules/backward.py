"""Backward hooks of modules: at boundaries that a call's inputs and outputs cross.

Note [Boundaries of a call]: the inputs of a call cross one boundary node, its outputs another. A post-hook of the
outputs' node runs the backward pre-hooks and keeps what they leave for the pass; a post-hook of the inputs' node runs
the full backward hooks with it. The node of the outputs leads to that of the inputs, so the hook of the former may
hold the latter, but not the other way round: a cycle would keep every graph until the collector comes.

Note [What crosses]: tensors among the positional arguments, and the output or the elements of a tuple of outputs, as
PyTorch documents it. What is in containers crosses too if a hook of the call asks for it, and if the output is one
container that is no tuple: there PyTorch would call no hook.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

from fastgrad.autograd.boundary import boundary, zeros_at
from fastgrad.autograd.hooks import CheckedHook, check_replacement, hook_name
from fastgrad.native.build.loader import TensorBase, rt
from fastgrad.native.contracts.profiles import BACKWARD_HOOK, BACKWARD_PRE_HOOK
from fastgrad.native.host.hook_calls import call_hook
from fastgrad.nn.modules import module_hooks as hooks_
from fastgrad.nn.modules.module_hooks import CALL_HOOKS, Hook
from fastgrad.nn.modules.pytree import children, filled, form_of, is_container, picked, rebuilt
from fastgrad.profiler.ranges import PROFILED, noted_hook

_tensor_boundary, _hold_node_hook = rt.tensor_boundary, rt.hold_node_hook

Grads = tuple[Any, ...]
Hooks = Sequence[Hook]
Wishes = dict[Any, list[bool]]  # by the kind of hooks: for each whether it wants what is in containers
_Kind = tuple[str, str]  # what messages call a hook, and what it replaces
HOOK: _Kind = ("Backward hook", "grad_input")
PRE_HOOK: _Kind = ("Backward pre hook", "grad_output")
Answers = list[tuple[Hook, Any]]  # what hooks returned that was not None


def _cross_parts(values: tuple[Any, ...], inside: bool) -> tuple[Any, Any, tuple[Any, ...]]:
    """Let values cross a boundary that are not all tensors, and with `inside` the tensors inside of containers.

    Returns
    -------
    tuple
        The node, None if nothing requires grad; the form of the values; the values behind the boundary.
    """
    tensors: list[Any] = []
    forms = tuple([form_of(v, tensors) if inside or isinstance(v, TensorBase) else None for v in values])
    node, aliases = boundary(tuple(tensors))
    if node is None:
        return None, forms, values
    return node, forms, tuple([filled(f, aliases, v) for f, v in zip(forms, values, strict=True)])


class Crossing:
    """What backward hooks need of one call: the two boundaries that its tensors cross, and the hooks that see them.

    The hooks are those that are there when it is made.

    Parameters
    ----------
    module : Module
    own : dict
        The `__dict__` of the module.

    Attributes
    ----------
    hooks, pre_hooks, deprecated : tuple of callable
        The full backward hooks, the backward pre-hooks, and backward hooks of the deprecated kind.
    wishes : dict, optional
        For each of the first two kinds whether it wants what is in containers, if one does.
    """

    __slots__ = (
        "args", "deprecated", "hooks", "input_form", "module", "n_inputs", "output_form", "pre_hooks", "single",
        "wishes",
    )  # fmt: skip

    def __init__(self, module: Any, own: dict[str, Any]) -> None:
        self.module = module
        self.wishes: Wishes | None = None
        self.deprecated: Hooks = ()
        if CALL_HOOKS or own["_is_full_backward_hook"] is not True or own["_backward_hooks_with_containers"]:
            self._gather(own)
            return
        self.hooks: Hooks = tuple(own["_backward_hooks"].values())
        self.pre_hooks: Hooks = tuple(own["_backward_pre_hooks"].values())

    def _gather(self, own: dict[str, Any]) -> None:
        """Find the hooks of the module and those of all modules, of each kind."""
        inside = own["_backward_hooks_with_containers"]
        stores = [(own["_is_full_backward_hook"], own["_backward_hooks"], own["_backward_pre_hooks"])]
        if CALL_HOOKS:
            inside = {*inside, *hooks_._global_backward_hooks_with_containers}
            everywhere = hooks_._global_backward_hooks, hooks_._global_backward_pre_hooks
            stores.insert(0, (hooks_._global_is_full_backward_hook, *everywhere))
        full: list[Hook] = []
        pre: list[Hook] = []
        deprecated: list[Hook] = []
        for is_full, hooks, pre_hooks in stores:
            if is_full:
                full += hooks.values()
            elif is_full is False:
                deprecated += hooks.values()
            if pre_hooks:
                pre += pre_hooks.values()
        self.hooks, self.pre_hooks, self.deprecated = tuple(full), tuple(pre), tuple(deprecated)
        if PROFILED in CALL_HOOKS:
            self.hooks = tuple(noted_hook(BACKWARD_HOOK, hook) for hook in self.hooks)
            self.pre_hooks = tuple(noted_hook(BACKWARD_PRE_HOOK, hook) for hook in self.pre_hooks)
        if inside:
            self.wishes = {
                HOOK: [key in inside for is_full, hooks, _ in stores if is_full for key in hooks],
                PRE_HOOK: [key in inside for _, _, pre_hooks in stores for key in pre_hooks],
            }

    def enter(self, args: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        """Let the positional arguments in.

        Returns
        -------
        tuple
            The node that they cross, None if there is none, and what `forward` gets. The crossing does not hold the
            node, whose hook holds the crossing: without a cycle the graph goes with its last tensor.
        """
        pair: Any = (None, args)
        if self.hooks or self.pre_hooks:
            self.n_inputs = len(args)
            self.input_form = None
            pair = _tensor_boundary(args)
            if pair is None:
                node, self.input_form, args = _cross_parts(args, self.wishes is not None)
                pair = node, args
            if pair[0] is not None:
                _hold_node_hook(pair[0], 1, CheckedHook(_at_inputs, self))
        if self.deprecated:
            self.args = pair[1]
        return pair  # type: ignore[no-any-return]

    def leave(self, result: Any, input_node: Any) -> Any:
        """Let the output out; returns what the caller gets."""
        if self.hooks or self.pre_hooks:
            result = self._let_out(result, input_node)
        if self.deprecated:
            deprecated_hooks(self.module, self.deprecated, self.args, result)
        return result

    def _let_out(self, result: Any, input_node: Any) -> Any:
        single = self.single = not isinstance(result, tuple)
        if single and not isinstance(result, TensorBase) and not is_container(result):
            warnings.warn(
                "For backward hooks to be called, module output should be a Tensor, or a tuple, list, dict or "
                f"dataclass with Tensors, but received {type(result)}",
                stacklevel=3,
            )
        values = (result,) if single else tuple(result)
        self.output_form = None
        pair = _tensor_boundary(values)
        if pair is None:
            node, self.output_form, values = _cross_parts(values, single or self.wishes is not None)
        else:
            node, values = pair
        if node is None:
            return result
        _hold_node_hook(node, 1, CheckedHook(_at_outputs, self, input_node))
        if single:
            return values[0]
        return values if type(result) is tuple else rebuilt(result, values)

    def ask(
        self, kind: _Kind, hooks: Hooks, shown: Grads, grad_output: Grads | None = None
    ) -> tuple[Any, Answers]:
        """Run the hooks of one boundary; what the last one left, unchecked but for its length, and all answers."""
        answers: Answers = []
        for k, hook in enumerate(hooks):
            hides = self.wishes is not None and not self.wishes[kind][k]
            seen = self.outermost(grad_output is None, shown) if hides else shown
            if grad_output is None:
                new = call_hook(hook, self.module, seen, first=1)
            else:
                other = self.outermost(True, grad_output) if hides else grad_output
                new = call_hook(hook, self.module, seen, other, first=1)
            if new is None:
                continue
            held = _contents(kind, hook, new, len(shown))
            if hides and isinstance(held, (tuple, list)):
                own = self.outermost(grad_output is None, (True,) * len(held))
                taken = zip(own, held, _plain(shown), strict=True)
                new = held = tuple([mine if is_own else before for is_own, mine, before in taken])
            answers.append((hook, held))
            shown = new
        return shown, answers

    def outermost(self, of_outputs: bool, values: Any) -> Any:
        """The same with None for containers."""
        form = self.input_form
        if of_outputs:
            form = None if self.single else self.output_form
        if form is None or not isinstance(values, (tuple, list)):
            return values
        return tuple(
            [
                v if f is None or isinstance(f, int) else None
                for f, v in zip(form, _plain(values), strict=True)
            ]
        )

    def without_inputs(self, grad_output: Grads) -> None:
        """No input requires grad: the full backward hooks run at the outputs."""
        warnings.warn(
            "Full backward hook is firing when gradients are computed with respect to module outputs since no inputs "
            "require gradients. See the documentation of Module.register_full_backward_hook for more details.",
            stacklevel=4,
        )
        for k, hook in enumerate(self.hooks):
            hides = self.wishes is not None and not self.wishes[HOOK][k]
            seen = self.outermost(True, grad_output) if hides else grad_output
            new = call_hook(hook, self.module, (None,) * self.n_inputs, seen, first=1)
            if new is not None and not (isinstance(new, tuple) and all(value is None for value in new)):
                raise RuntimeError(
                    "Backward hook for Modules where no input requires gradient should always return None or None for "
                    f"all gradients. (hook '{hook_name(hook)}')"
                )


def _at_outputs(call: Crossing, input_node: Any, _: Grads, grads: Grads) -> Grads | None:
    """The post-hook of the node at the outputs of a call: what the pre-hooks make of the gradients."""
    form = call.output_form
    shown: Any = grads if form is None else tuple([filled(f, grads) for f in form])
    left = None
    answers: Answers = []
    if call.pre_hooks:
        shown, answers = call.ask(PRE_HOOK, call.pre_hooks, shown)
        left = grads  # which they may have changed in place
    if call.hooks and input_node is None:
        call.without_inputs(shown)
        left = grads
    if answers:
        left = _gradients(PRE_HOOK, answers, form, grads)
    if call.hooks and input_node is not None:
        rt.keep_until(input_node, call, shown)
    return left


def _at_inputs(call: Crossing, grads: Grads, _: Grads) -> Grads | None:
    """The post-hook of the node at the inputs: what the full backward hooks make of the gradients.

    Zeros for an argument that got none.
    """
    form = call.input_form
    left = grads
    for g in grads:
        if g is None:
            left = _with_zeros(grads, form)
            break
    grad_output = rt.take_kept(call) if call.hooks else None
    if grad_output is None:  # only pre-hooks, or the pass came from elsewhere than the outputs
        return left
    shown = left if form is None else tuple([filled(f, left) for f in form])
    _, answers = call.ask(HOOK, call.hooks, shown, grad_output)
    return _gradients(HOOK, answers, form, left) if answers else left


# --- what hooks return -----------------------------------------------------------------------------------------


def _with_zeros(grads: Grads, form: Any) -> Grads:
    """Gradients at the boundary of the inputs, zeros for a tensor in no container where there is none."""
    node = rt.task_node(rt.current_pass())
    values = list(grads)
    for k in range(len(grads)) if form is None else [f for f in form if isinstance(f, int)]:
        if values[k] is None:
            values[k] = zeros_at(node, k)
    return tuple(values)


def _plain(values: Any) -> Any:
    """A tuple or list that holds what it says: those of derived classes may tell another length, or hand out others."""
    if isinstance(values, tuple) and type(values) is not tuple:
        return tuple.__getitem__(values, slice(None))
    if isinstance(values, list) and type(values) is not list:
        return list.__getitem__(values, slice(None))
    return values


def _contents(kind: _Kind, hook: Hook, new: Any, n: int) -> Any:
    """What a hook returned, which has as many entries as what it was given, as a plain tuple or list if it is one."""
    what, given = kind
    if not hasattr(new, "__len__"):
        raise TypeError(
            f"{what} '{hook_name(hook)}' must return None or a tuple of {n} gradients, but returned "
            f"'{type(new).__name__}'"
        )
    got = "a Tensor" if isinstance(new, TensorBase) else len(new)
    if got == n and isinstance(new, (tuple, list)):
        new = _plain(new)
        got = len(new)
    if got != n:
        raise RuntimeError(
            f"{what} returned an invalid number of {given}, got {got}, but expected {n} (hook '{hook_name(hook)}')"
        )
    return new


def _gradients(kind: _Kind, answers: Answers, form: Any, old: Grads) -> Grads:
    """What hooks left, as gradients of the node that replace the old ones, when all of them have run."""
    what, given = kind
    hook, last = answers[-1]
    if not isinstance(last, (tuple, list)):
        raise TypeError(
            f"{what} '{hook_name(hook)}' must return None or a tuple of {len(last)} gradients, but returned "
            f"'{type(last).__name__}'"
        )

    def mismatch(form: Any, value: Any) -> Exception:
        return RuntimeError(
            f"{what} '{hook_name(hook)}' returned a '{type(value).__name__}' where {given} has a "
            f"'{type(form).__name__}' of {len(children(form))}: what replaces it must have the same form"
        )

    left: list[Any] = [None] * len(old)
    forms = range(len(old)) if form is None else form
    for k, (f, value) in enumerate(zip(forms, list(last), strict=True)):
        hook = _giver(answers, k, value)
        found: dict[int, Any] = {}
        picked(f, value, found, mismatch)
        for j, new in found.items():
            left[j] = new
            if new is not None and new is not old[j]:
                _check_gradient(hook, old[j], new, j if isinstance(f, int) else None)
    return tuple(left)


def _giver(answers: Answers, k: int, value: Any) -> Hook:
    """The hook that put a value in its place; later ones may have handed it on."""
    for hook, answer in answers:
        if isinstance(answer, (tuple, list)) and answer[k] is value:
            return hook
    return answers[-1][0]


def _check_gradient(hook: Hook, old: Any, new: Any, output_nr: int | None) -> None:
    """What replaces a gradient is like it; like the tensor if that got none and is in no container."""
    if old is None and output_nr is not None:
        old = zeros_at(rt.task_node(rt.current_pass()), output_nr)
    check_replacement(hook, old, new)


# --- the deprecated kind ---------------------------------------------------------------------------------------


def deprecated_hooks(module: Any, hooks: Hooks, args: Any, result: Any) -> None:
    """Register backward hooks of the deprecated kind at the node of the first tensor in the output."""
    node = _first_tensor(result).grad_fn
    if node is None:
        return
    for hook in hooks:
        node.register_hook(_with_module(hook, module))
    complaint = _complaint(args, result, node)
    if complaint:
        warnings.warn(f"Using {complaint}.", FutureWarning, stacklevel=3)


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
