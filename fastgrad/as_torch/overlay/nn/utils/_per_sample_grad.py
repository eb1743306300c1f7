"""Gradients of each sample of a batch, as libraries for differential privacy need them.

A module is called with `ExpandedWeight` in the place of its parameters: a function that is called with some runs on the
parameters themselves, and its derivative computes, besides the gradient of its input, what each sample of the batch
contributes to those of the parameters, by a map of the derivative over the samples.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from fastgrad.autograd import Function, grad
from fastgrad.autograd.function import once_differentiable
from fastgrad.autograd.modes import enable_grad
from fastgrad.func import functional_call, vjp, vmap
from fastgrad.func.trees import leaves_of
from fastgrad.functions.arguments import is_tensor
from fastgrad.functions.shape import stack
from fastgrad.nn import functional as F
from fastgrad.nn.modules.module import Module
from fastgrad.overrides import DisableTorchFunctionSubclass
from fastgrad.overrides.functions import prepare
from fastgrad.tensor import Tensor

__all__ = ["call_for_per_sample_grads"]

_LEAST_DIMENSIONS: dict[Callable[..., Any], int] = {
    F.linear: 2,
    F.conv1d: 3,
    F.conv2d: 4,
    F.conv3d: 5,
    F.embedding: 1,
    F.group_norm: 2,
    F.instance_norm: 3,
    F.layer_norm: 2,
}
"""The functions that treat samples apart, and how many dimensions their inputs have with one for the batch."""
_ONE_BY_ONE = {F.conv3d, F.embedding}
"""Those of them that no map has a rule for."""


def call_for_per_sample_grads(
    module: Module, *, batch_size: int | None = None, loss_reduction: str = "sum", batch_first: bool = True
) -> Callable[..., Any]:
    """A call of a module after which a pass gives parameters the gradients of each sample, as ``grad_sample``.

    Parameters with ``requires_grad`` get these, with a first dimension for the samples, and no ``grad``. They are used
    by linear layers, convolutions, embeddings and norms of layers, groups and instances.

    Parameters
    ----------
    module : Module
    batch_size : int, optional
        By default that of the tensors that are passed.
    loss_reduction : {"sum", "mean"}
        What the loss does with the losses of samples; of a mean, gradients are multiplied by the number of samples.
    batch_first : bool
        Whether samples are the first dimension of what is passed, and not the second.

    Returns
    -------
    callable

    Raises
    ------
    RuntimeError
        If an argument is wrong, or a parameter still has a ``grad_sample``. In calls, if other functions use a
        parameter, or sizes of batches differ.

    Examples
    --------
    >>> import fastgrad as fg
    >>> from fastgrad.as_torch.overlay.nn.utils._per_sample_grad import call_for_per_sample_grads
    >>> layer = fg.nn.Linear(2, 1)
    >>> call_for_per_sample_grads(layer)(fg.tensor([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
    >>> layer.weight.grad_sample
    tensor([[[1., 2.]],
    <BLANKLINE>
            [[3., 4.]]])
    """
    if loss_reduction not in ("sum", "mean"):
        raise RuntimeError(f"Expected loss_reduction argument to be sum or mean, got {loss_reduction}")
    if not isinstance(module, Module):
        raise RuntimeError(f"Module passed must be nn.Module, got {type(module).__name__}")
    if batch_size is not None and not isinstance(batch_size, int):
        raise RuntimeError(f"Batch size passed must be None or an integer, got {type(batch_size).__name__}")
    if batch_size is not None and batch_size < 1:
        raise RuntimeError(f"Batch size must be positive, got {batch_size}")
    for name, parameter in module.named_parameters():
        if getattr(parameter, "grad_sample", None) is not None:
            raise RuntimeError(
                f"the parameter {name} has gradients of samples from an earlier call, to which those of another one "
                "would be added: set its grad_sample to None first"
            )

    @functools.wraps(module.forward)
    def call(*args: Any, **kwargs: Any) -> Any:
        samples = _batch_size(args, kwargs, 0 if batch_first else 1) if batch_size is None else batch_size
        expanded = {
            name: ExpandedWeight(p, samples, loss_reduction) if p.requires_grad else p
            for name, p in module.named_parameters()
        }
        return functional_call(module, expanded, args, kwargs)

    return call


def _batch_size(args: Any, kwargs: Any, dim: int) -> int:
    sizes = {x.shape[dim] for x in leaves_of((args, kwargs)) if is_tensor(x)}
    if not sizes:
        raise RuntimeError("no tensor is passed whose size would be that of the batch: pass batch_size")
    if len(sizes) > 1:
        raise RuntimeError(f"tensors are passed with batches of {sorted(sizes)} samples: pass batch_size")
    return sizes.pop()


class ExpandedWeight(Tensor):
    """A parameter of which a function computes the gradients of each sample.

    Parameters
    ----------
    weight : Tensor
        One that requires grad; it gets the gradients.
    batch_size : int
    loss_reduction : {"sum", "mean"}
    """

    orig_weight: Any
    batch_size: int
    loss_reduction: str

    def __new__(cls, weight: Any, batch_size: int, loss_reduction: str) -> Any:
        """A tensor over the memory of the parameter."""
        if not is_tensor(weight):
            raise RuntimeError(f"Can only make Expanded Weights of Tensors, got {type(weight).__name__}")
        if not weight.requires_grad:
            raise RuntimeError("Can only build ExpandedWeights objects of tensors that requires_grad")
        made = Tensor._make_subclass(cls, weight.detach(), True)
        made.orig_weight, made.batch_size, made.loss_reduction = weight, batch_size, loss_reduction
        with DisableTorchFunctionSubclass():
            made.register_hook(_refuse)
        return made

    def __init__(self, weight: Any, batch_size: int, loss_reduction: str) -> None:
        pass

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run a function on the parameters."""
        name = getattr(func, "__name__", "")
        if name == "__get__":  # sizes and other facts
            return super().__torch_function__(func, types, args, kwargs)
        if func not in _LEAST_DIMENSIONS:
            raise RuntimeError(f"Expanded Weights encountered but cannot handle function {name}")
        return _call(func, list(args), dict(kwargs or {}))

    def add_samples(self, gradients: Any) -> None:
        """Add the gradients of samples to those that the parameter has."""
        if self.loss_reduction == "mean":
            gradients = gradients * self.batch_size
        before = getattr(self.orig_weight, "grad_sample", None)
        self.orig_weight.grad_sample = gradients if before is None else before + gradients


prepare(ExpandedWeight)  # which the library's own subclasses are not by themselves


def _refuse(gradient: Any) -> Any:
    raise RuntimeError("Expanded Weights were used by a function that cannot treat samples apart")


def _call(func: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Call a function of an input and parameters; its derivative gives these the gradients of samples."""
    name = func.__name__
    x = args.pop(0) if args else kwargs.pop("input")
    if isinstance(x, ExpandedWeight) or not is_tensor(x):
        raise RuntimeError(f"Expanded Weights need a Tensor as input of {name}, got {type(x).__name__}")
    if x.dim() < _LEAST_DIMENSIONS[func]:
        raise RuntimeError(
            f"Input does not have a batch dimension. Expanded Weights expected input of {name} of at least rank "
            f"{_LEAST_DIMENSIONS[func]}, got of rank {x.dim()}"
        )
    found: list[ExpandedWeight] = []
    places: list[int | str] = []
    for place, value in _arguments(args, kwargs):
        if isinstance(value, ExpandedWeight):
            found.append(value)
            places.append(place)
        elif is_tensor(value) and value.requires_grad:
            raise RuntimeError(
                f"Expanded Weights cannot be mixed with other tensors that require grad, in {name}"
            )
    for weight in found:
        if weight.batch_size != x.shape[0] or not x.shape[0]:
            raise RuntimeError(
                f"Expected ExpandedWeights to have batch size matching input but got input batch size of "
                f"{x.shape[0]} with ExpandedWeight of batch size {weight.batch_size}"
            )

    def run(x: Any, *weights: Any, again: bool = True) -> Any:
        inside: tuple[Any, Any] = (list(args), dict(kwargs))
        for place, weight in zip(places, weights, strict=True):
            inside[isinstance(place, str)][place] = weight
        if again and func is F.instance_norm:  # running statistics have moved
            inside[0][:2] = [None] * len(inside[0][:2])
            inside[1].update({k: None for k in ("running_mean", "running_var") if k in inside[1]})
        return func(x, *inside[0], **inside[1])

    return _PerSample.apply(run, func not in _ONE_BY_ONE, found, x, *(w.orig_weight for w in found))


def _arguments(args: list[Any], kwargs: dict[str, Any]) -> Iterator[tuple[int | str, Any]]:
    yield from enumerate(args)
    yield from kwargs.items()


class _PerSample(Function):
    @staticmethod
    def forward(
        ctx: Any,
        run: Callable[..., Any],
        mapped: bool,
        weights: list[ExpandedWeight],
        x: Any,
        *plain: Any,
    ) -> Any:
        ctx.run, ctx.mapped, ctx.weights = run, mapped, weights
        ctx.save_for_backward(x, *plain)
        return run(x, *plain, again=False)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Any) -> Any:
        x, *plain = (x.detach() for x in ctx.saved_tensors)
        of_input = None
        if ctx.needs_input_grad[3]:
            with enable_grad():
                x = x.requires_grad_()
                [of_input] = grad(ctx.run(x, *plain), x, gradient)
                x = x.detach()

        def of_sample(x: Any, of_output: Any) -> Any:
            return vjp(lambda *weights: ctx.run(x.unsqueeze(0), *weights), *plain)[1](of_output.unsqueeze(0))

        if ctx.mapped:
            found = vmap(of_sample)(x, gradient)
        else:
            samples = map(of_sample, x.unbind(), gradient.unbind())
            found = [stack(of_weight) for of_weight in zip(*samples, strict=True)]
        for weight, gradients in zip(ctx.weights, found, strict=True):
            weight.add_samples(gradients)
        return None, None, None, of_input, *[None] * len(plain)
