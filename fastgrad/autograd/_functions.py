"""Custom functions that PyTorch keeps under this name: `Type` and `Resize`."""

from __future__ import annotations

from typing import Any

from fastgrad.autograd.function import Function
from fastgrad.functions.arguments import multiplied, need_tensor

__all__ = ["Resize", "Type"]


class Type(Function):
    """A tensor in another dtype: ``Type.apply(tensor, dtype)``, `dtype` as `Tensor.type` takes it.

    Examples
    --------
    >>> import fastgrad as fg
    >>> Type.apply(fg.ones(2), fg.float64).dtype
    fastgrad.float64
    """

    @staticmethod
    def forward(ctx: Any, i: Any, dest_type: Any) -> Any:
        """The tensor in the dtype."""
        ctx.kind = need_tensor("Type", i, "i").type()
        return i.type(dest_type)

    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> Any:
        """The gradient in the dtype that the tensor had."""
        return grad_output.type(ctx.kind), None


class Resize(Function):
    """A tensor in other sizes of as many elements: ``Resize.apply(tensor, sizes)``.

    Examples
    --------
    >>> import fastgrad as fg
    >>> Resize.apply(fg.ones(2), (2, 1)).shape
    fastgrad.Size([2, 1])
    """

    @staticmethod
    def forward(ctx: Any, tensor: Any, sizes: Any) -> Any:
        """The tensor in the sizes."""
        ctx.sizes = tuple(need_tensor("Resize", tensor, "tensor").shape)
        wanted = multiplied("Resize", *sizes)
        if wanted != tensor.numel():
            raise RuntimeError(
                f"Resize(): sizes {list(sizes)} have {wanted} elements in total, but the tensor of sizes "
                f"{list(ctx.sizes)} has {tensor.numel()}; the number of elements cannot change"
            )
        return tensor.reshape(tuple(sizes)).clone()

    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> Any:
        """The gradient in the sizes that the tensor had."""
        return grad_output.reshape(ctx.sizes), None
