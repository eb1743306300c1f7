"""What distributions share: parameters of one shape, probabilities and logits, properties computed once."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Number
from typing import Any

import fastgrad as fg
from fastgrad.nn import functional

linalg = fg.linalg
euler_constant = 0.57721566490153286060

__all__ = [
    "broadcast_all", "clamp_probs", "euler_constant", "lazy_property", "logits_to_probs", "probs_to_logits",
    "tril_matrix_to_vec", "vec_to_tril_matrix",
]  # fmt: skip


def is_scalar(value: Any) -> bool:
    """Whether a parameter is a number, not a tensor."""
    return isinstance(value, Number)


def broadcast_all(*values: Any) -> tuple[Any, ...]:
    """Numbers and tensors as tensors of one shape; numbers get the dtype and the device of the tensors.

    Raises
    ------
    ValueError
        If a value is neither.

    Examples
    --------
    >>> import fastgrad as fg
    >>> from fastgrad.distributions.utils import broadcast_all
    >>> [tuple(x.shape) for x in broadcast_all(fg.zeros(2), 1.0)]
    [(2,), (2,)]
    """
    for value in values:
        if not fg.is_tensor(value) and not is_scalar(value):
            raise ValueError(
                "Input arguments must all be instances of Number, torch.Tensor or objects implementing "
                f"__torch_function__; here a Number or a Tensor, but got {type(value).__name__}"
            )
    found = next((v for v in values if fg.is_tensor(v)), None)
    kind = fg.get_default_dtype() if found is None else found.dtype
    where = None if found is None else found.device
    made = [v if fg.is_tensor(v) else fg.tensor(v, dtype=kind, device=where) for v in values]
    return tuple(fg.broadcast_tensors(*made))


def standard_normal(shape: Any, like: Any) -> Any:
    """Normal numbers of a shape, of the dtype and on the device of a tensor."""
    return fg.randn(tuple(shape), dtype=like.dtype, device=like.device)


def uniform(shape: Any, like: Any) -> Any:
    """Uniform numbers in [0, 1), likewise."""
    return fg.rand(tuple(shape), dtype=like.dtype, device=like.device)


def open_uniform(shape: Any, like: Any) -> Any:
    """Uniform numbers in (0, 1), likewise: from the smallest normal number on."""
    return uniform(shape, like).clamp(min=fg.finfo(like.dtype).tiny)


def sum_rightmost(value: Any, count: int) -> Any:
    """The sum over the last dimensions, so many of them."""
    return value if count == 0 else value.reshape(*value.shape[: value.dim() - count], -1).sum(-1)


def logits_to_probs(logits: Any, is_binary: bool = False) -> Any:
    """Probabilities of log odds, or of logarithms up to a constant along the last dimension."""
    return fg.sigmoid(logits) if is_binary else fg.softmax(logits, dim=-1)


def clamp_probs(probs: Any) -> Any:
    """Probabilities kept from 0 and 1 by the resolution of their dtype."""
    eps = fg.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs: Any, is_binary: bool = False) -> Any:
    """Log odds, or logarithms, of probabilities that are kept from 0 and 1."""
    kept = clamp_probs(probs)
    return fg.log(kept) - fg.log1p(-kept) if is_binary else fg.log(kept)


class lazy_property:  # noqa: N801 - PyTorch's name
    """A property that is computed when first read, with gradients recorded, and replaces itself by its value."""

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        self.__doc__ = wrapped.__doc__

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        with fg.enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


def _lower(n: int, diag: int, device: Any) -> Any:
    """Row and column of the elements of a triangle, row by row."""
    return fg.tril_indices(n, n, diag, device=device)


def tril_matrix_to_vec(mat: Any, diag: int = 0) -> Any:
    """The lower triangle of square matrices up to diagonal `diag`, row by row, as vectors.

    Raises
    ------
    ValueError
        If there is no such diagonal.
    """
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    rows, columns = _lower(n, diag, mat.device)
    return mat.reshape(*mat.shape[:-2], n * n).index_select(-1, rows * n + columns)


def vec_to_tril_matrix(vec: Any, diag: int = 0) -> Any:
    """The square matrices whose lower triangles up to diagonal `diag` are given, row by row; zero elsewhere.

    Raises
    ------
    ValueError
        If there is no triangle of so many elements.
    """
    length = vec.shape[-1]
    n = (-(1 + 2 * diag) + ((1 + 2 * diag) ** 2 + 8 * length + 4 * abs(diag) * (diag + 1)) ** 0.5) / 2
    if round(n) - n > fg.finfo(vec.dtype).eps:
        raise ValueError(
            f"The size of last dimension is {length} which cannot be expressed as "
            "the lower triangular part of a square D x D matrix."
        )
    size = round(n)
    rows, columns = _lower(size, diag, vec.device)
    flat = fg.zeros((*vec.shape[:-1], size * size), dtype=vec.dtype, device=vec.device)
    places = (rows * size + columns).expand(vec.shape)
    return flat.scatter(-1, places, vec).reshape(*vec.shape[:-1], size, size)


def one_hot(index: Any, count: int, like: Any) -> Any:
    """Vectors that are one at an index and zero elsewhere, of the dtype of a tensor."""
    return functional.one_hot(index, count).to(like.dtype)
