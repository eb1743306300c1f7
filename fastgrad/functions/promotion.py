"""The dtype that an op over several operands gives."""

from __future__ import annotations

from typing import Any

from fastgrad import dtypes
from fastgrad.dtypes import dtype as DType  # noqa: N812
from fastgrad.functions.arguments import need_tensor
from fastgrad.functions.public import public
from fastgrad.native.build.loader import TensorBase
from fastgrad.native.contracts.element_types import complex_of


@public(method=False)
def result_type(tensor1: Any, tensor2: Any) -> DType:
    """The dtype that an op over two operands gives.

    Operands of a higher category (floats, integers, truth values) decide. Within one, tensors with dimensions outrank
    those without, and these outrank numbers.

    Parameters
    ----------
    tensor1, tensor2 : Tensor or number

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.result_type(fg.tensor([1, 2]), 1.0)
    fastgrad.float32
    >>> fg.result_type(fg.ones(2), fg.tensor(1.0, dtype=fg.float64))
    fastgrad.float32
    """
    (rank1, d1), (rank2, d2) = _ranked(1, tensor1), _ranked(2, tensor2)
    if rank1 != rank2:
        higher, lower = (d1, d2) if rank1 < rank2 else (d2, d1)
        if _category(higher) >= _category(lower):
            return higher
        if higher.is_floating_point:
            return dtypes.ALL[complex_of(higher.code)]
    return dtypes.promote_types(d1, d2)


def _ranked(position: int, value: Any) -> tuple[int, DType]:
    """How much an operand counts in promotion, 0 the most, and its dtype."""
    if isinstance(value, TensorBase):
        return (0 if value.dim() else 1), value.dtype  # type: ignore[attr-defined]
    if isinstance(value, complex):
        return 2, dtypes.ALL[complex_of(dtypes.get_default_dtype().code)]
    if isinstance(value, (bool, int, float)):
        kind = bool if isinstance(value, bool) else int if isinstance(value, int) else None
        return 2, dtypes.get_default_dtype() if kind is None else dtypes.as_dtype(kind)
    raise TypeError(
        f"result_type(): argument 'tensor{position}' must be Tensor or Number, not {type(value).__name__}"
    )


def _category(d: DType) -> int:
    return 3 if d.is_complex else 2 if d.is_floating_point else int(d is not dtypes.bool_)


@public(method=False)
def is_floating_point(input: Any) -> bool:
    """Whether the dtype of a tensor is a floating-point one."""
    return need_tensor("is_floating_point", input).dtype.is_floating_point  # type: ignore[no-any-return]


@public()
def is_signed(input: Any) -> bool:
    """Whether the dtype of a tensor has numbers below zero."""
    return need_tensor("is_signed", input).dtype.is_signed  # type: ignore[no-any-return]


@public(method=False)
def is_complex(input: Any) -> bool:
    """Whether the dtype of a tensor is a complex one."""
    return need_tensor("is_complex", input).dtype.is_complex  # type: ignore[no-any-return]


@public()
def is_nonzero(input: Any) -> bool:
    """Whether the only element of a tensor is not zero.

    Raises
    ------
    RuntimeError
        If it has more than one element, or none.
    """
    if need_tensor("is_nonzero", input).numel() != 1:
        count = "no values" if input.numel() == 0 else "more than one value"
        raise RuntimeError(f"Boolean value of Tensor with {count} is ambiguous")
    return bool(input)
