"""Callables that run as captured graphs of CUDA: what `fastgrad.cuda.make_graphed_callables` makes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from fastgrad.autograd import Function, grad
from fastgrad.autograd.function import once_differentiable
from fastgrad.cuda.graphs import CUDAGraph, graph, graph_pool_handle, graphed_by, usual_stream
from fastgrad.cuda.selection import synchronize
from fastgrad.cuda.streams import stream
from fastgrad.functions.likeness import empty_like
from fastgrad.nn import Module
from fastgrad.nn.modules.pytree import children, is_container, rebuilt
from fastgrad.tensor import Tensor

_NAME = "make_graphed_callables()"


def leaves(value: Any) -> list[Any]:
    """What is in no container any more, in order."""
    if not is_container(value):
        return [value]
    return [leaf for item in children(value) for leaf in leaves(item)]


def _refilled(value: Any, found: Iterator[Any]) -> Any:
    """A value with other leaves."""
    if not is_container(value):
        return next(found)
    return rebuilt(value, [_refilled(item, found) for item in children(value)])


class _Piece:
    """A callable with its graphs, and the tensors that these read and write.

    Attributes
    ----------
    inputs : tuple of Tensor
        What the callable reads: the arguments, from the first on, and a module's parameters.
    outputs, grads : tuple of Tensor
        What it gives, and where the gradients of that come from; None for an output without one.
    grad_inputs : tuple of Tensor
        Gradients of the inputs; None for an input without one.
    """

    outputs: tuple[Any, ...]
    grads: tuple[Any, ...]
    grad_inputs: tuple[Any, ...]

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.function, self.args = function, args
        arguments = leaves(args)
        self.n_args = len(arguments)
        self.parameters = tuple(function.parameters()) if isinstance(function, Module) else ()
        self.inputs = (*arguments, *self.parameters)
        self.forward, self.backward = CUDAGraph(), CUDAGraph()
        self.form: Any = None

    def differentiated(
        self, outputs: list[Any], grads: tuple[Any, ...], allow_unused: bool
    ) -> tuple[Any, ...]:
        """Gradients of the inputs that require some."""
        return grad(  # type: ignore[no-any-return]
            tuple(o for o in outputs if o.requires_grad),
            tuple(i for i in self.inputs if i.requires_grad),
            tuple(g for g in grads if g is not None),
            allow_unused=allow_unused,
        )

    def called(self) -> list[Any]:
        """The outputs of a call with the sample arguments."""
        self.form = self.function(*self.args)
        outputs = leaves(self.form)
        for output in outputs:
            if not isinstance(output, Tensor):
                raise TypeError(
                    f"{_NAME}: a callable may return tensors alone, but got {type(output).__name__}"
                )
        return outputs

    def warm_up(self, allow_unused: bool) -> None:
        """Run forward and backward once as they are."""
        outputs = self.called()
        grads = _room_for_grads(outputs)
        if any(g is not None for g in grads):
            self.differentiated(outputs, grads, allow_unused)

    def capture_forward(self, pool: Any) -> list[Any]:
        """Capture a call; its outputs, with their history."""
        with graph(self.forward, pool=pool):
            outputs = self.called()
        self.outputs = tuple(o.detach() for o in outputs)
        self.form = _refilled(self.form, iter([None] * len(outputs)))
        return outputs

    def capture_backward(self, outputs: list[Any], pool: Any, allow_unused: bool) -> None:
        """Capture the pass backward from these outputs."""
        self.grads = _room_for_grads(outputs)
        found: Iterator[Any] = iter(())
        if any(g is not None for g in self.grads):
            with graph(self.backward, pool=pool):
                found = iter(self.differentiated(outputs, self.grads, allow_unused))
        self.grad_inputs = tuple(next(found, None) if i.requires_grad else None for i in self.inputs)

    def __call__(self, *args: Any) -> Any:
        given = leaves(args)
        if len(given) != self.n_args:
            raise TypeError(f"a graphed callable was made for {self.n_args} tensors, but got {len(given)}")
        for k, (mine, other) in enumerate(zip(self.inputs, given, strict=False)):
            if not isinstance(other, Tensor):
                raise TypeError(f"a graphed callable takes tensors alone, but got {type(other).__name__}")
            if mine.shape != other.shape or mine.dtype is not other.dtype:
                raise RuntimeError(
                    f"a graphed callable was made for tensor {k} of sizes {list(mine.shape)} and {mine.dtype}, but "
                    f"got {list(other.shape)} and {other.dtype}"
                )
        outputs = _Graphed.apply(self, *given, *self.parameters)
        return _refilled(self.form, iter(outputs))


def _room_for_grads(outputs: list[Any]) -> tuple[Any, ...]:
    return tuple(empty_like(o) if o.requires_grad else None for o in outputs)


class _Graphed(Function):
    """A callable as one node: its forward and its backward are graphs."""

    @staticmethod
    def forward(ctx: Any, piece: _Piece, *inputs: Any) -> Any:
        for mine, other in zip(piece.inputs[: piece.n_args], inputs, strict=False):
            if mine.data_ptr() != other.data_ptr() or mine.stride() != other.stride():
                mine.copy_(other)
        piece.forward.replay()
        ctx.piece = piece
        ctx.set_materialize_grads(False)
        outputs = tuple(o.detach() for o in piece.outputs)
        ctx.mark_non_differentiable(*(o for o, g in zip(outputs, piece.grads, strict=True) if g is None))
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Any) -> Any:
        piece = ctx.piece
        for mine, other in zip(piece.grads, grads, strict=True):
            if mine is not None and other is None:
                mine.zero_()
            elif mine is not None and (
                mine.data_ptr() != other.data_ptr() or mine.stride() != other.stride()
            ):
                mine.copy_(other)
        piece.backward.replay()
        return (None, *(None if g is None else g.detach() for g in piece.grad_inputs))


def _check(function: Any, args: Any) -> None:
    """Raise for what cannot be captured."""
    if isinstance(function, Module):
        if function._backward_hooks or function._forward_hooks or function._forward_pre_hooks:
            raise AssertionError(
                "Modules must not have hooks registered at the time they are passed. However, registering hooks on "
                "modules after passing them through make_graphed_callables is allowed."
            )
        if any(b.requires_grad for b in function.buffers()):
            raise AssertionError(
                "In any :class:`~fastgrad.nn.Module` passed to make_graphed_callables, only parameters may be "
                "trainable. All buffers must have ``requires_grad=False``."
            )
    elif not callable(function):
        raise TypeError(f"{_NAME}: expected a callable or a module, but got {type(function).__name__}")
    if not isinstance(args, (tuple, list)):
        raise TypeError(f"{_NAME}: sample_args has to be a tuple of tensors, but got {type(args).__name__}")
    if not all(isinstance(leaf, Tensor) for leaf in leaves(tuple(args))):
        raise AssertionError(
            "sample_args for each callable must contain only Tensors. Other types are not allowed."
        )


def _installed(function: Any, piece: _Piece) -> Any:
    """What the caller gets: a module whose ``forward`` runs the graphs in the mode that it is in now, or a function."""
    if not isinstance(function, Module):
        return piece
    training, before = function.training, function.forward

    def forward(*args: Any) -> Any:
        return piece(*args) if function.training == training else before(*args)

    function.forward = forward  # type: ignore[method-assign]
    piece.function = before
    return function


@graphed_by
def make(callables: Any, sample_args: Any, num_warmup_iters: int, allow_unused_input: bool, pool: Any) -> Any:
    """See `fastgrad.cuda.make_graphed_callables`."""
    alone = not isinstance(callables, tuple)
    functions, samples = ((callables,), (sample_args,)) if alone else (callables, sample_args)
    if not isinstance(samples, (tuple, list)) or len(samples) != len(functions):
        raise ValueError(
            f"{_NAME}: expected a tuple of sample_args for each of the {len(functions)} callables"
        )
    if isinstance(num_warmup_iters, bool) or not isinstance(num_warmup_iters, int):
        raise TypeError(
            f"{_NAME}: num_warmup_iters has to be an int, but got {type(num_warmup_iters).__name__}"
        )
    for function, args in zip(functions, samples, strict=True):
        _check(function, args)
    pieces = [_Piece(function, tuple(args)) for function, args in zip(functions, samples, strict=True)]
    synchronize()
    with stream(usual_stream()):
        for piece in pieces:
            for _ in range(num_warmup_iters):
                piece.warm_up(allow_unused_input)
    synchronize()
    # In the order in which they will run, as they share memory.
    shared = graph_pool_handle() if pool is None else pool
    made = [piece.capture_forward(shared) for piece in pieces]
    for piece in reversed(pieces):
        piece.capture_backward(made.pop(), shared, allow_unused_input)
    found = tuple(_installed(function, piece) for function, piece in zip(functions, pieces, strict=True))
    return found[0] if alone else found
