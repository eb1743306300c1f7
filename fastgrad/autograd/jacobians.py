"""The Jacobians of a function, by finite differences, backward passes and forward mode; what `gradcheck` compares.

They are NumPy arrays in float64: a row for each element of the input, a column for each element of the output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fastgrad.autograd.engine import grad
from fastgrad.functions.complex_numbers import real_dtype, view_as_complex, view_as_real
from fastgrad.functions.creation import tensor
from fastgrad.functions.likeness import zeros_like
from fastgrad.functions.shape import stack
from fastgrad.native.build.loader import TensorBase


class Jacobians:
    """A function at a point.

    Parameters
    ----------
    func : callable
        Takes `inputs`, returns a tensor or a tuple of tensors.
    values : callable
        `func`, or what gives the same numbers without a graph that can be differentiated.
    inputs : tuple
        The point. The memory of the inputs that require grad is changed and put back.
    eps : float
        The step of finite differences.

    Attributes
    ----------
    outputs : tuple of Tensor
        What `func` returns for the inputs.
    wanted : dict
        The inputs that require grad, by their places.
    places : list of int
        The places of the outputs whose Jacobians are computed: those that require grad, or if none does, all that
        could.
    constant : bool
        Whether no output requires grad.
    """

    def __init__(
        self, func: Callable[..., Any], values: Callable[..., Any], inputs: tuple[Any, ...], eps: float
    ) -> None:
        self.func, self.values, self.inputs, self.eps = func, values, inputs, eps
        self.outputs = tensors(func(*inputs))
        self.wanted = {k: t for k, t in enumerate(inputs) if requires_grad(t)}
        self.places = [k for k, o in enumerate(self.outputs) if o.requires_grad]
        self.constant = not self.places
        if self.constant:
            self.places = [k for k, o in enumerate(self.outputs) if o.dtype.inexact]

    def numerical(self, k: int) -> list[np.ndarray]:
        """The Jacobians of the outputs by input `k`, row by row from finite differences."""
        memory = memory_of(self.wanted[k])
        found = [np.zeros((memory.size, memory_of(self.outputs[place]).size)) for place in self.places]
        for row, index in enumerate(np.ndindex(memory.shape)):
            slopes = self._slopes(memory[(*index, ...)], 1.0, f"on index {index} ")
            for jacobian, slope in zip(found, slopes, strict=True):
                jacobian[row] = slope
        return found

    def directional(self, k: int, direction: np.ndarray) -> list[np.ndarray]:
        """The derivatives of the outputs where input `k` moves in a direction."""
        memory = memory_of(self.wanted[k])
        return self._slopes(memory, direction.reshape(memory.shape), "")

    def passes(self, place: int, vectors: np.ndarray) -> Iterator[tuple[Any, ...]]:
        """The gradients of the inputs for each of the vectors as gradient of an output; None where there is no path."""
        output, inputs = self.outputs[place], list(self.wanted.values())
        for vector in vectors:
            weights = of_numbers(vector, output)
            yield grad(output, inputs, weights, retain_graph=True, allow_unused=True)

    def batched_passes(self, place: int, vectors: np.ndarray) -> tuple[Any, ...]:
        """The same for all vectors at once, which stand in front."""
        output, inputs = self.outputs[place], list(self.wanted.values())
        weights = stack([of_numbers(vector, output) for vector in vectors])
        return grad(output, inputs, weights, retain_graph=True, allow_unused=True, is_grads_batched=True)

    def tangents(self, k: int, along: Any) -> tuple[Any, ...]:
        """The derivatives of the outputs where input `k` moves along a tensor, by forward mode."""
        from fastgrad.autograd import forward_ad  # few programs need it

        moved = list(self.inputs)
        with forward_ad.dual_level():
            moved[k] = forward_ad.make_dual(self.wanted[k], along)
            outputs = tensors(self.func(*moved))
            found = [
                (outputs[place], forward_ad.unpack_dual(outputs[place]).tangent) for place in self.places
            ]
            return tuple(zeros_like(o) if t is None else t for o, t in found)

    def _slopes(self, memory: np.ndarray, direction: Any, where: str) -> list[np.ndarray]:
        """Central differences, where `memory` is that of an input or of one of its elements."""
        origin, step = memory.copy(), self.eps * direction
        try:
            memory[...] = origin - step
            before = self._evaluate(where)
            memory[...] = origin + step
            beyond = self._evaluate(where)
        finally:
            memory[...] = origin
        with np.errstate(all="ignore"):
            return [(b - a) / (2 * self.eps) for a, b in zip(before, beyond, strict=True)]

    def _evaluate(self, where: str) -> list[np.ndarray]:
        """The outputs for the inputs as they are now, flat."""
        outputs = tensors(self.values(*self.inputs))
        self._expect_same("number", where, len(self.outputs), len(outputs))
        for place in self.places:
            for what in ("shape", "dtype"):
                first, now = (getattr(found[place], what) for found in (self.outputs, outputs))
                self._expect_same(what, where, first, now)
        return [memory_of(outputs[place]).astype(np.float64).reshape(-1) for place in self.places]

    def _expect_same(self, what: str, where: str, first: Any, now: Any) -> None:
        if first != now:
            raise AssertionError(
                f"Expected `func` to return outputs with the same {what} when inputs are perturbed {where}by "
                f"{self.eps}, but got: {what}s {first} and {now}."
            )


def requires_grad(value: Any) -> bool:
    """Whether a value is a tensor that requires grad."""
    return isinstance(value, TensorBase) and value.requires_grad


def as_tuple(value: Any) -> tuple[Any, ...]:
    """A tuple or a list as a tuple, anything else as the only element of one."""
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def tensors(returned: Any) -> tuple[Any, ...]:
    """What a function returned, as a tuple of tensors."""
    outputs = as_tuple(returned)
    for k, o in enumerate(outputs):
        if not isinstance(o, TensorBase):
            raise TypeError(
                f"gradcheck(): func must return a Tensor or a tuple of Tensors, but output {k} is a {type(o).__name__}"
            )
    return outputs


def memory_of(tensor: Any) -> np.ndarray:
    """An array over the memory of a tensor, or of a copy where that holds conjugates.

    What is written to it counts as no change in place. Complex numbers are pairs of real ones, in a last dimension: a
    gradient holds the derivatives by either part, so that Jacobians by parts are all there is to compare.
    """
    alone = tensor.detach().resolve_conj().resolve_neg()
    return (view_as_real(alone) if alone.is_complex() else alone).numpy()  # type: ignore[no-any-return]


def of_numbers(values: np.ndarray, like: Any) -> Any:
    """A tensor like another one with the numbers of an array, which for complex ones are pairs."""
    if not like.is_complex():
        return tensor(values.reshape(like.shape), dtype=like.dtype)
    return view_as_complex(tensor(values.reshape((*like.shape, 2)), dtype=real_dtype(like)))
