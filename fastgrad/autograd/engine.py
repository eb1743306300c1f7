"""The Python side of a backward pass: arguments that need a look, results, and what compiled code asks on the way.

A pass is one call of the runtime: see ``native.backward.run``.
"""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from fastgrad import dtypes
from fastgrad.autograd.edges import GradientEdge, check_edge
from fastgrad.autograd.recorded_rules import apply_rules
from fastgrad.autograd.threads import on_another_thread
from fastgrad.errors import NO_NAME, noted_call, raise_status
from fastgrad.functions.arguments import as_truth
from fastgrad.functions.creation import full
from fastgrad.functions.likeness import full_like
from fastgrad.native.build.loader import TensorBase, rt, runtime_set_object
from fastgrad.native.contracts.flags import (
    ACCUMULATE,
    CREATE_GRAPH,
    FILTERED,
    GRAD_ENABLED,
    KEEP_GRAPH,
)
from fastgrad.native.contracts.records import NODE
from fastgrad.native.host import devices
from fastgrad.native.host.hook_calls import call_callbacks, queue_in_replay
from fastgrad.native.host.tables import BY_NAME, OPS
from fastgrad.ops.call import invoke
from fastgrad.ops.recorded import trace_recorded


class _Filtered(threading.local):
    """How many passes with `inputs` are under way in a thread."""

    depth = 0


_filtered = _Filtered()
_N_IN = NODE.fields["n_in"][0]


def _inputs_of(inputs: Any, name: str) -> list[Any]:
    """What gradients are wanted of, given as one, as a sequence or as a dict."""
    if isinstance(inputs, Mapping):
        if type(inputs) is not dict:
            raise TypeError(
                f"`inputs` argument to `{name}()` must be a dict, not {type(inputs).__name__}. Other Mapping types are "
                "not supported."
            )
        inputs = inputs.values()
    wanted = [inputs] if isinstance(inputs, (TensorBase, GradientEdge)) else list(inputs)
    if not wanted:
        raise RuntimeError(f"`inputs` argument to `{name}()` cannot be empty.")
    return wanted


def _check_inputs(wanted: list[Any]) -> None:
    for k, t in enumerate(wanted):
        if not isinstance(t, (TensorBase, GradientEdge)):
            raise RuntimeError(f"all inputs have to be Tensors or GradientEdges, but got {type(t).__name__}")
        if isinstance(t, GradientEdge):
            check_edge(t)
        if isinstance(t, TensorBase) and not t.requires_grad:  # type: ignore[attr-defined]
            raise RuntimeError(f"One of the differentiated Tensors does not require grad (inputs[{k}])")


def _sequence(value: Any) -> list[Any]:
    if value is None:
        return []
    return [value] if isinstance(value, (TensorBase, GradientEdge)) else list(value)


def _kind_of(root: Any) -> tuple[tuple[int, ...], Any]:
    """Sizes and dtype of a root."""
    if isinstance(root, TensorBase):
        return rt.sizes(root), root.dtype
    code, _, *sizes = rt.node_meta(root.node, root.output_nr)
    return tuple(sizes), dtypes.of_code(code)


def _filled_like(root: Any, value: int) -> Any:
    """A tensor like a root or an input, filled with a number."""
    if isinstance(root, TensorBase):
        return full_like(root, value)
    code, device, *sizes = rt.node_meta(root.node, root.output_nr)
    return full(sizes, value, dtype=dtypes.of_code(code), device=devices.name_of(device))


def _no_gradient(index: int) -> RuntimeError:
    """The error for a root that does not require grad; in a hook it says how that may have come about."""
    error = RuntimeError(f"element {index} of tensors does not require grad and does not have a grad_fn")
    if rt.current_pass() and not rt.get_mode() & GRAD_ENABLED:
        error.add_note(
            "Inside of hooks and backward functions gradients are off, unless the pass has create_graph=True. Compute "
            "what is to be differentiated inside of `with fastgrad.enable_grad():`."
        )
    return error


def _check_root(root: Any, index: int) -> None:
    """Raise unless a pass may start from it."""
    if not isinstance(root, TensorBase):
        check_edge(root)
    elif not root.requires_grad or rt.gradient_node(root) is None:  # type: ignore[attr-defined]
        raise _no_gradient(index)  # also for a view made without history


def _root_gradient(root: Any, gradient: Any, index: int) -> Any:
    """The gradient that a root starts with; None if it does not require grad and none is given."""
    if isinstance(root, TensorBase):
        if gradient is None and not root.requires_grad:  # type: ignore[attr-defined]
            return None
    else:
        check_edge(root)
    sizes, dtype = _kind_of(root)
    if gradient is None:
        if math.prod(sizes) != 1:
            raise RuntimeError(
                "grad can be implicitly created only for scalar outputs; pass `gradient` with the shape of the "
                "output, "
                f"{list(sizes)}"
            )
        if not dtype.is_floating_point:
            raise RuntimeError(f"grad can be implicitly created only for real scalar outputs but got {dtype}")
        return _filled_like(root, 1)
    if not isinstance(gradient, TensorBase):
        raise TypeError(f"gradients can be either Tensors or None, but got {type(gradient).__name__}")
    if rt.sizes(gradient) != sizes:
        raise RuntimeError(
            f"Mismatch in shape: grad_output[{index}] has a shape of {gradient.shape} and output[{index}] has a "
            f"shape of {type(gradient.shape)(sizes)}."
        )
    if gradient.dtype is dtype:
        return gradient
    if gradient.dtype.is_complex != dtype.is_complex:
        raise RuntimeError(
            "For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch in dtype: "
            f"grad_output[{index}] has a dtype of {gradient.dtype} and output[{index}] has a dtype of {dtype}."
        )
    return gradient.to(dtype)


def _roots(outputs: Any, gradients: Any, wanted: list[Any] | None) -> tuple[list[Any], list[Any]]:
    """The roots of a pass and their gradients, with `wanted` looked at as well.

    As in PyTorch the gradients of all roots are made or compared with them first, then the roots are looked at, then
    what gradients are wanted of: this decides which of several errors is raised.
    """
    roots = _sequence(outputs)
    for t in roots:
        if not isinstance(t, (TensorBase, GradientEdge)):
            raise TypeError(f"expected Tensors or GradientEdges to differentiate, but got {type(t).__name__}")
    grads = _sequence(gradients) if gradients is not None else [None] * len(roots)
    if len(grads) != len(roots):
        raise RuntimeError(f"got {len(roots)} tensors and {len(grads)} gradients")
    made = [_root_gradient(o, g, k) for k, (o, g) in enumerate(zip(roots, grads, strict=True))]
    for k, root in enumerate(roots):
        _check_root(root, k)
    _check_inputs(wanted or [])
    return roots, made


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    """Add the gradients of tensors with regard to the leaves of their graph to the leaves' ``grad``.

    Parameters
    ----------
    tensors : Tensor or sequence of Tensor
        What to differentiate.
    grad_tensors : Tensor or sequence of Tensor or None, optional
        The vectors of the vector-Jacobian product, in the shapes of `tensors`; scalars may do without.
    retain_graph : bool, optional
        Keep what the graph saved, so that another pass can follow; by default the value of `create_graph`.
    create_graph : bool
        Record the pass itself, so that gradients can be differentiated.
    grad_variables : Tensor or sequence of Tensor or None, optional
        The deprecated name of `grad_tensors`.
    inputs : Tensor, sequence of Tensor or dict of Tensor, optional
        Only these get a ``grad``, which may be non-leaves.

    Raises
    ------
    RuntimeError
        If a tensor does not require grad, a gradient's shape does not fit, the graph was freed, or a saved tensor
        was changed in place since.

    Examples
    --------
    >>> import fastgrad as fg
    >>> x = fg.tensor([1.0, 2.0], requires_grad=True)
    >>> fg.autograd.backward((x * x).sum())
    >>> x.grad
    tensor([2., 4.])
    """
    if grad_variables is not None:
        warnings.warn(
            "`grad_variables` is deprecated. Use `grad_tensors` instead.", FutureWarning, stacklevel=2
        )
        if grad_tensors is not None:
            raise RuntimeError(
                "`grad_tensors` and `grad_variables` (deprecated) arguments both passed to `backward()`. Please only "
                "use `grad_tensors`."
            )
        grad_tensors = grad_variables
    if tensors is None:
        raise TypeError(
            "backward(): argument 'tensors' (position 1) must be Tensor or tuple of Tensors, not NoneType"
        )
    wanted = None if inputs is None else _inputs_of(inputs, "backward")
    create_graph = as_truth("backward", "create_graph", create_graph)
    if create_graph:
        warnings.warn(
            "Using backward() with create_graph=True will create a reference cycle between the parameter and "
            "its gradient "
            "which can cause a memory leak. We recommend using autograd.grad when creating the graph to avoid this.",
            stacklevel=3,
        )
    keep = create_graph if retain_graph is None else as_truth("backward", "retain_graph", retain_graph)
    flags = ACCUMULATE | (KEEP_GRAPH if keep else 0) | (CREATE_GRAPH if create_graph else 0)
    if wanted is not None:
        flags |= FILTERED
        _filtered.depth += 1
    try:
        done = rt.run_pass(tensors, grad_tensors, wanted, flags)
        if done is not None:
            _run_checked(*_roots(tensors, grad_tensors, wanted), wanted, flags)
    finally:
        if wanted is not None:
            _filtered.depth -= 1


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> Any:
    """The gradients of outputs with regard to inputs, as new tensors; no ``grad`` is touched.

    Parameters
    ----------
    outputs : Tensor or sequence of Tensor
    inputs : Tensor, sequence of Tensor or dict of Tensor
    grad_outputs : Tensor or sequence of Tensor or None, optional
        The vectors of the vector-Jacobian product.
    retain_graph, create_graph : bool
        As for `backward`.
    only_inputs : bool
        Deprecated, and without effect.
    allow_unused : bool, optional
        Give None for inputs that the outputs do not depend on, instead of raising.
    is_grads_batched : bool
        Whether `grad_outputs` have a first dimension more than the outputs: there is a pass for each of its elements,
        and the gradients get that dimension, too. Hooks run in each of the passes.
    materialize_grads : bool
        Zeros in place of None; implies `allow_unused`.

    Returns
    -------
    tuple of Tensor, or dict of Tensor
        A dict with the keys of `inputs` if these are one.

    Raises
    ------
    RuntimeError
        As for `backward`, and if an input is not used and `allow_unused` is not set.

    Examples
    --------
    >>> import fastgrad as fg
    >>> x = fg.tensor(3.0, requires_grad=True)
    >>> fg.autograd.grad(x * x, x)
    (tensor(6.),)
    """
    if is_grads_batched:
        return _grad_of_each(
            outputs, inputs, grad_outputs, retain_graph, create_graph, allow_unused, materialize_grads
        )
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False."
        )
    if not only_inputs:
        warnings.warn(
            "only_inputs argument is deprecated and is ignored now (defaults to True). To accumulate gradient for "
            "other parts of the graph, please use fastgrad.autograd.backward.",
            FutureWarning,
            stacklevel=2,
        )
    if inputs is None:
        raise TypeError(
            "grad(): argument 'inputs' (position 2) must be Tensor or tuple of Tensors, not NoneType"
        )
    if allow_unused is not None:
        allow_unused = as_truth("grad", "allow_unused", allow_unused)
    create_graph = as_truth("grad", "create_graph", create_graph)
    keep = create_graph if retain_graph is None else as_truth("grad", "retain_graph", retain_graph)
    flags = FILTERED | (KEEP_GRAPH if keep else 0) | (CREATE_GRAPH if create_graph else 0)
    wanted = inputs
    found = rt.run_pass(outputs, grad_outputs, wanted, flags)
    if found is NotImplemented or found is Ellipsis:
        wanted = _inputs_of(inputs, "grad")
        found = _grad_of_batched(_sequence(outputs), wanted, grad_outputs, keep, create_graph)
        if found is None:
            found = _run_checked(*_roots(outputs, grad_outputs, wanted), wanted, flags)
    for value in found:
        if value is None:
            found = _unused(found, _inputs_of(wanted, "grad"), allow_unused, materialize_grads, create_graph)
            break
    return dict(zip(inputs, found, strict=True)) if isinstance(inputs, dict) else found  # type: ignore[no-any-return]


_batches: list[Callable[..., Any]] = []


def set_grad_of_batched(function: Callable[..., Any]) -> None:
    """Set what differentiates tensors of `vmap`: it gives gradients, or None where there are no such tensors."""
    _batches[:] = [function]


def _grad_of_batched(
    roots: list[Any], wanted: list[Any], grad_outputs: Any, keep: bool, create_graph: bool
) -> Any:
    """The gradients where tensors of `vmap` are among the arguments, else None."""
    if not _batches:
        return None
    grads = [None] * len(roots) if grad_outputs is None else _sequence(grad_outputs)
    return _batches[0](roots, wanted, grads, keep, create_graph) if len(grads) == len(roots) else None


def _grad_of_each(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any,
    retain_graph: bool | None,
    create_graph: bool,
    allow_unused: bool | None,
    materialize_grads: bool,
) -> Any:
    """`grad` for each element of the first dimension of the gradients that it begins with."""
    roots, given = _sequence(outputs), _sequence(grad_outputs)
    if len(roots) != len(given) or any(g is None for g in given):
        raise RuntimeError(
            "grad can be implicitly created only for scalar outputs, and not if is_grads_batched=True"
        )
    for k, (root, g) in enumerate(zip(roots, given, strict=True)):
        if not isinstance(g, TensorBase):
            raise TypeError(f"gradients can be either Tensors or None, but got {type(g).__name__}")
        sizes = rt.sizes(g)
        if not sizes or sizes[1:] != _kind_of(root)[0]:
            raise RuntimeError(
                "If `is_grads_batched=True`, the first dimension of each grad_output is the batch, and the remaining "
                f"ones are those of the output, but a mismatch was detected: grad_output[{k}] has a shape of {g.shape} "
                f"and output[{k}] has a shape of {type(g.shape)(_kind_of(root)[0])}."
            )
    lengths = [rt.sizes(g)[0] for g in given]
    if any(n != lengths[0] for n in lengths):
        raise ValueError(f"Expected all grad_outputs to have the same first size, got sizes {lengths}")
    if not lengths or not lengths[0]:
        raise IndexError("is_grads_batched=True needs grad_outputs with a first dimension that is not empty")
    keep = create_graph if retain_graph is None else as_truth("grad", "retain_graph", retain_graph)
    rows = [
        grad(
            roots, inputs, [g[k] for g in given], keep or k + 1 < lengths[0], create_graph,
            allow_unused=allow_unused, materialize_grads=materialize_grads,
        )
        for k in range(lengths[0])
    ]  # fmt: skip
    if isinstance(inputs, Mapping):
        return {key: _stacked([row[key] for row in rows]) for key in rows[0]}
    return tuple(_stacked(column) for column in zip(*rows, strict=True))


def _stacked(gradients: Any) -> Any:
    """Gradients in a new first dimension; None if they are."""
    return None if gradients[0] is None else invoke(BY_NAME["stack"], gradients, 0)


def _unused(
    found: tuple[Any, ...],
    wanted: list[Any],
    allow_unused: bool | None,
    materialize: bool,
    create_graph: bool,
) -> tuple[Any, ...]:
    """Gradients of which some are undefined as `grad` returns them."""
    if not (materialize if allow_unused is None else allow_unused):
        index = next(k for k, value in enumerate(found) if value is None)
        raise RuntimeError(
            f"The differentiated Tensor at index {index} appears to not have been used in the graph. Set "
            "allow_unused=True "
            "if this is the desired behavior."
        )
    if not materialize:
        return found
    return tuple(
        _zeros_like(t, create_graph) if value is None else value
        for t, value in zip(wanted, found, strict=True)
    )


def _run_checked(roots: list[Any], grads: list[Any], wanted: list[Any] | None, flags: int) -> tuple[Any, ...]:
    """A pass whose arguments have been looked at; on another thread if too many passes are under way on this one."""
    found = rt.run_pass(roots, grads, wanted, flags)
    if found is Ellipsis:
        return on_another_thread(lambda: _run_checked(roots, grads, wanted, flags))  # type: ignore[no-any-return]
    if found is NotImplemented:
        raise RuntimeError(
            "a tensor to differentiate has other sizes or another dtype than when it was recorded; was its `.data` set?"
        )
    return found  # type: ignore[no-any-return]


def _zeros_like(wanted: Any, create_graph: bool) -> Any:
    if isinstance(wanted, GradientEdge):
        raise RuntimeError("materialize_grads cannot be used when the given input is a GradientEdge")
    zeros = full_like(wanted, 0)
    return zeros.requires_grad_() if create_graph else zeros


# --- what Python keeps for a pass ------------------------------------------------------------------------------

_CALLBACKS = "callbacks"


def kept_by_pass() -> dict[Any, Any]:
    """What is kept for the pass under way in this thread, under a key of whoever keeps it; it goes with the pass."""
    return rt.kept_by_pass(rt.current_pass())  # type: ignore[no-any-return]


def queue_callback(callback: Callable[[], Any]) -> None:
    """Call a function when the pass under way is done, before `backward` or `grad` returns.

    Parameters
    ----------
    callback : callable
        Called without arguments, once, in the order of queueing; it may queue more. If the pass fails, none is
        called; if one raises, the rest are not called.

    Raises
    ------
    RuntimeError
        Outside of a pass.

    Examples
    --------
    >>> import fastgrad as fg
    >>> x = fg.ones(2, requires_grad=True)
    >>> done = lambda: print("grad is", x.grad)
    >>> handle = x.register_hook(lambda g: fg.autograd.graph.queue_callback(done))
    >>> x.sum().backward()
    grad is tensor([1., 1.])
    """
    if not rt.current_pass():
        if queue_in_replay(callback):
            return
        raise RuntimeError("Final callbacks can only be installed during backward pass.")
    kept_by_pass().setdefault(_CALLBACKS, []).append(callback)


def _run_callbacks(kept: dict[Any, Any]) -> None:
    if callbacks := kept.get(_CALLBACKS, ()):
        call_callbacks(callbacks)


def _current_graph_task_id() -> int:
    """The number of the pass under way in this thread, -1 outside of one."""
    return rt.current_pass() or -1


def _current_autograd_node() -> Any:
    """The node at which the pass under way in this thread stands; None outside of one."""
    task = rt.current_pass()
    return rt.task_node(task) if task else None


def _current_graph_task_execution_order() -> list[Any]:
    """The nodes that the pass under way in this thread comes to, in this order and from its beginning.

    Nodes whose gradients are only captured are among them.

    Raises
    ------
    RuntimeError
        Outside of a pass.

    Examples
    --------
    >>> import fastgrad as fg
    >>> x = fg.ones(2, requires_grad=True)
    >>> y = (x * 3).sum()
    >>> show = lambda g: print([n.name() for n in fg.autograd.graph._current_graph_task_execution_order()])
    >>> handle = y.register_hook(show)
    >>> y.backward()
    ['SumBackward0', 'MulBackward0', 'torch::autograd::AccumulateGrad']
    """
    task = rt.current_pass()
    if not task:
        raise RuntimeError(
            "_current_graph_task_execution_order should only be called during the backward pass"
        )
    return rt.execution_order(task)  # type: ignore[no-any-return]


def _will_engine_execute_node(node: Any) -> bool:
    """Whether the pass under way in this thread runs a node."""
    task = rt.current_pass()
    if not task:
        raise RuntimeError("_will_engine_execute_node can only be called during the backward pass")
    return bool(rt.will_run(task, node, 0))


def _is_checkpoint_valid() -> bool:
    """Whether the pass under way in this thread runs whatever it reaches: ``backward()`` without `inputs`.

    In a pass of ``grad()`` the last of the nodes is captured and does not run.
    """
    task = rt.current_pass()
    if not task or _filtered.depth:
        return not task
    return all(rt.will_run(task, node, 0) for node in rt.execution_order(task))


# --- what compiled code asks ------------------------------------------------------------------------------------


def _apply_rules(task: int, node: Any, grads: tuple[Any, ...]) -> tuple[Any, ...]:
    """The gradients of a node's inputs, recorded; None for those that are undefined or that the pass does not want."""
    results = [None] * rt.node_field(node, _N_IN)
    for k, value in apply_rules(node, grads, lambda k: rt.will_run(task, rt.node_target(node, k), 1)):
        results[k] = value
    return tuple(results)


def _trace_rule(op: int, k: int) -> None:
    trace_recorded(OPS[op], k)


def _pass_failed(node: Any, status: int, facts: tuple[Any, ...], noted: tuple[int, ...]) -> None:
    operands, ints = noted_call(noted)
    raise_status(status, NO_NAME if node is None else node.name(), operands, ints, facts)


runtime_set_object("edge_type", GradientEdge)
runtime_set_object("run_callbacks", _run_callbacks)
runtime_set_object("apply_rules", _apply_rules)
runtime_set_object("trace_rule", _trace_rule)
runtime_set_object("pass_failed", _pass_failed)
