"""The Python side of a backward pass: its start, the hook boundaries, its end.

The compiled sweep runs everything between two boundaries; see ``native.sweep`` for when it returns and why.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fastgrad import dtypes
from fastgrad.autograd import anomaly
from fastgrad.autograd.edges import GradientEdge, check_edge, edge_of
from fastgrad.autograd.rules import apply_rules
from fastgrad.autograd.saved import restore_saved_hooks
from fastgrad.autograd.threads import on_another_thread
from fastgrad.errors import raise_status
from fastgrad.functions.creation import full, full_like
from fastgrad.native.build.loader import TensorBase, rt, runtime_get
from fastgrad.native.contracts.flags import (
    ACCUMULATE,
    CHECK_NAN,
    CREATE_GRAPH,
    FILTERED,
    GRAD_ENABLED,
    KEEP_GRAPH,
)
from fastgrad.native.contracts.status import AT_APPLY, FAILED, NESTED_TOO_DEEP
from fastgrad.native.host import devices

_sweep, _get, _set, _current, _count = rt.sweep, rt.task_get, rt.task_set, rt.task_node, rt.task_count
GRADS, RESULTS, CAPTURES = 0, 1, 2


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
    for k, t in enumerate(wanted):
        if not isinstance(t, (TensorBase, GradientEdge)):
            raise RuntimeError(f"all inputs have to be Tensors or GradientEdges, but got {type(t).__name__}")
        if isinstance(t, TensorBase) and not t.requires_grad:  # type: ignore[attr-defined]
            raise RuntimeError(f"One of the differentiated Tensors does not require grad (inputs[{k}])")
    return wanted


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


def _root_gradient(root: Any, gradient: Any, index: int) -> Any:
    if isinstance(root, TensorBase):
        if not root.requires_grad:
            raise _no_gradient(index)
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
    return gradient if gradient.dtype is dtype else gradient.to(dtype)


def _roots(outputs: Any, gradients: Any) -> tuple[list[Any], list[Any]]:
    roots = _sequence(outputs)
    for t in roots:
        if not isinstance(t, (TensorBase, GradientEdge)):
            raise TypeError(f"expected Tensors or GradientEdges to differentiate, but got {type(t).__name__}")
    grads = _sequence(gradients) if gradients is not None else [None] * len(roots)
    if len(grads) != len(roots):
        raise RuntimeError(f"got {len(roots)} tensors and {len(grads)} gradients")
    return roots, [_root_gradient(o, g, k) for k, (o, g) in enumerate(zip(roots, grads, strict=True))]


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
    wanted = None if inputs is None else _inputs_of(inputs, "backward")
    roots, grads = _roots(tensors, grad_tensors)
    if wanted is not None:
        for t in wanted:
            if isinstance(t, TensorBase):
                rt.retain_grad(t)
    if create_graph:
        warnings.warn(
            "Using backward() with create_graph=True will create a reference cycle between the parameter and "
            "its gradient "
            "which can cause a memory leak. We recommend using autograd.grad when creating the graph to avoid this.",
            stacklevel=3,
        )
    keep = create_graph if retain_graph is None else retain_graph
    flags = ACCUMULATE | (KEEP_GRAPH if keep else 0) | (CREATE_GRAPH if create_graph else 0)
    if wanted is not None:
        flags |= FILTERED
    _run(roots, grads, flags, wanted)


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
        Not supported.
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
        raise NotImplementedError("is_grads_batched=True is not supported; call grad once for each vector")
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False."
        )
    wanted = _inputs_of(inputs, "grad")
    if not only_inputs:
        warnings.warn(
            "only_inputs argument is deprecated and is ignored now (defaults to True). To accumulate gradient for "
            "other parts of the graph, please use fastgrad.autograd.backward.",
            FutureWarning,
            stacklevel=2,
        )
    roots, grads = _roots(outputs, grad_outputs)
    keep = create_graph if retain_graph is None else retain_graph
    flags = FILTERED | (KEEP_GRAPH if keep else 0) | (CREATE_GRAPH if create_graph else 0)
    found = _run(roots, grads, flags, wanted)
    allowed = materialize_grads if allow_unused is None else allow_unused
    results = []
    for k, value in enumerate(found):
        if value is None and not allowed:
            raise RuntimeError(
                f"The differentiated Tensor at index {k} appears to not have been used in the graph. Set "
                "allow_unused=True "
                "if this is the desired behavior."
            )
        if value is None and materialize_grads:
            if isinstance(wanted[k], GradientEdge):
                raise RuntimeError("materialize_grads cannot be used when the given input is a GradientEdge")
            value = _filled_like(wanted[k], 0)
            if create_graph:
                value.requires_grad_()
        results.append(value)
    return dict(zip(inputs, results, strict=True)) if isinstance(inputs, dict) else tuple(results)


def _checked(status: int, what: str) -> None:
    if status < 0:
        raise_status(-status, what)


def _run(roots: list[Any], grads: list[Any], flags: int, wanted: list[Any] | None) -> list[Any]:
    """One pass; returns for each wanted tensor its gradient, None where it is undefined."""
    mode = rt.get_mode()
    if anomaly.state.enabled and anomaly.state.check_nan:
        flags |= CHECK_NAN
    task = rt.task_new(flags)
    if task == -NESTED_TOO_DEEP:
        return on_another_thread(lambda: _run(roots, grads, flags, wanted))  # type: ignore[no-any-return]
    _checked(task, "backward")
    balanced = False
    try:
        for k, (root, gradient) in enumerate(zip(roots, grads, strict=True)):
            if isinstance(root, TensorBase):
                status = rt.task_root_tensor(task, root, gradient)
                if status > 0:  # a view made without history
                    raise _no_gradient(k)
            else:
                status = rt.task_root(task, root.node, root.output_nr, gradient)
            _checked(status, "backward")
        _checked(rt.task_discover(task), "backward")
        captures = [] if wanted is None else [_want(task, t, bool(flags & ACCUMULATE)) for t in wanted]
        _checked(rt.task_start(task), "backward")
        event = _sweep(task)
        while event:
            _EVENTS[event](task, flags)
            event = _sweep(task)
        balanced = task not in _kept
        if not balanced:
            _run_callbacks(_kept[task].get(_CALLBACKS, ()))
        if flags & ACCUMULATE:
            return []
        return [_get(task, CAPTURES, c) if c >= 0 else None for c in captures]
    except Exception as error:
        if anomaly.state.enabled:
            anomaly.explain(rt.task_node(task), error)
        raise
    finally:
        if not balanced:
            _kept.pop(task, None)
            restore_saved_hooks(rt.pass_id(task))
        rt.set_mode(mode)
        rt.task_end(task)


def _want(task: int, value: Any, run: bool) -> int:
    if isinstance(value, TensorBase) and rt.gradient_node(value) is None:  # a view made without history
        return -1
    edge = edge_of(value)
    index: int = rt.task_want(task, edge.node, edge.output_nr, int(run))
    if index < -1:
        _checked(index + 1, "backward")
    return index


# --- what Python keeps for a pass ------------------------------------------------------------------------------

_kept: dict[int, dict[Any, Any]] = {}  # of each pass under way for which something is kept, by who keeps it
_CALLBACKS = "callbacks"


def kept_by_pass() -> dict[Any, Any]:
    """What is kept for the pass under way in this thread, under a key of whoever keeps it; it goes with the pass."""
    return _kept.setdefault(rt.current_pass(), {})


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
        raise RuntimeError("Final callbacks can only be installed during backward pass.")
    kept_by_pass().setdefault(_CALLBACKS, []).append(callback)


def _run_callbacks(callbacks: Iterable[Callable[[], Any]]) -> None:
    for callback in callbacks:  # also those that callbacks add
        callback()


def _current_graph_task_id() -> int:
    """The number of the pass under way in this thread, -1 outside of one."""
    task = rt.current_pass()
    return rt.pass_id(task) if task else -1


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


# --- where the sweep needs Python -------------------------------------------------------------------------------


def _values(task: int, which: int) -> tuple[Any, ...]:
    return tuple([_get(task, which, k) for k in range(_count(task, which))])


def _at_apply(task: int, flags: int) -> None:
    node = _current(task)
    wanted = None
    if flags & FILTERED:
        wanted = lambda k: rt.will_run(task, rt.node_target(node, k), 1)  # noqa: E731
    for k, value in apply_rules(node, _values(task, GRADS), wanted):
        _set(task, RESULTS, k, value)


def _failed(task: int, flags: int) -> None:
    node = _current(task)
    raise_status(runtime_get("status"), "backward" if node is None else node.name())


_EVENTS: dict[int, Callable[[int, int], None]] = {
    AT_APPLY: _at_apply,
    FAILED: _failed,
}
