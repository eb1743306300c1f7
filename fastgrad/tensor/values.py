"""The elements as Python and NumPy read them."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from fastgrad.dtypes import bfloat16
from fastgrad.functions import sharing
from fastgrad.functions.data import elements_of, values_of
from fastgrad.native.build.loader import rt
from fastgrad.native.contracts.flags import GRAD_ENABLED, REQUIRES_GRAD
from fastgrad.native.contracts.records import TENSOR
from fastgrad.ops.conjugates import is_turned
from fastgrad.tensor.methods import Methods

_DEVICE, _NUMEL = TENSOR.fields["device"][0], TENSOR.fields["numel"][0]
_field, _item = rt.field, rt.item


def _real(value: Any, kind: str) -> Any:
    """A number as a real one, which `kind` of numbers is to hold."""
    if not isinstance(value, builtins.complex):
        return value
    if value.imag != 0:
        raise RuntimeError(f"value cannot be converted to type {kind} without overflow")
    return value.real


class Values(Methods):
    """Elements, read."""

    __slots__ = ()

    def item(self) -> Any:
        """The only element, as a Python number."""
        return _item(self)

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers."""
        return values_of(self).tolist()

    def numpy(self, *, force: builtins.bool = False) -> np.ndarray:
        """A NumPy array over the same memory.

        Parameters
        ----------
        force : bool
            Detach, copy from another device, and resolve conjugates, where needed.

        Raises
        ------
        RuntimeError
            If the tensor requires grad, gradients are on, or it is a view of conjugates, and `force` is not set.
        TypeError
            If it is on another device and `force` is not set, or of dtype bfloat16, which NumPy does not know.
        """
        if force:
            return self._elements()
        if rt.flags_of(self) & REQUIRES_GRAD and rt.get_mode() & GRAD_ENABLED:
            raise RuntimeError(
                "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
            )
        if is_turned(self):
            bit, name = ("conjugate", "conj") if self.is_complex() else ("negative", "neg")
            raise RuntimeError(
                f"Can't call numpy() on Tensor that has {bit} bit set. Use tensor.resolve_{name}().numpy() instead."
            )
        if _field(self, _DEVICE) != 0:
            raise TypeError(
                f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() to copy it first."
            )
        return self._elements()

    def _elements(self) -> np.ndarray:
        if self.dtype is bfloat16:
            raise TypeError(
                "Got unsupported ScalarType BFloat16: NumPy has no such dtype. Use Tensor.float() first."
            )
        return elements_of(self)

    def __array__(self, dtype: Any = None, copy: builtins.bool | None = None) -> np.ndarray:
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            if copy is False:
                raise ValueError(
                    f"a cast from {array.dtype} to {np.dtype(dtype)} needs a copy, but copy=False was given"
                )
            return array.astype(dtype)
        return array.copy() if copy else array

    def __array_wrap__(
        self, array: np.ndarray, context: Any = None, return_scalar: builtins.bool = False
    ) -> Any:
        return sharing.from_numpy(np.asarray(array))

    __array_priority__ = 1000

    def _scalar(self) -> Any:
        if _field(self, _NUMEL) != 1:
            raise TypeError(
                f"only one element tensors can be converted to Python scalars, but this has {self.numel()}"
            )
        return _item(self)

    def __bool__(self) -> builtins.bool:
        if _field(self, _NUMEL) != 1:
            count = "no values" if self.numel() == 0 else "more than one value"
            raise RuntimeError(f"Boolean value of Tensor with {count} is ambiguous")
        return _item(self) != 0  # type: ignore[no-any-return]

    def _holds_somewhere(self) -> builtins.bool:
        """Whether any element is not zero; within `vmap` any of the whole batch, which functions may not ask."""
        return bool(self.any())  # type: ignore[attr-defined]

    def __float__(self) -> builtins.float:
        return builtins.float(_real(self._scalar(), "double"))

    def __complex__(self) -> builtins.complex:
        return builtins.complex(self._scalar())

    def __int__(self) -> builtins.int:
        return builtins.int(_real(self._scalar(), "int64_t"))

    def __index__(self) -> builtins.int:
        if self.dtype.inexact or self.numel() != 1:
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return builtins.int(self.item())
