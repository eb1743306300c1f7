"""Complex numbers in compiled loops of the CPU: the type of `complex_types` for Numba."""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core.datamodel import models
from numba.core.typeconv import Conversion
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, lower_cast, register_model

from fastgrad.kernels.complex_types import Front, complex_numbers
from fastgrad.native.base.intrinsics import pointer_to

__all__ = ["COMPLEX_TYPES", "ComplexScalar", "cast", "constant", "convert", "imag", "make", "pointer", "real"]

_declared = complex_numbers(
    Front(
        types, models, Conversion.safe, AbstractTemplate, infer_global, signature, intrinsic, lower_builtin,
        lower_cast, register_model,
    )
)  # fmt: skip
ComplexScalar = _declared.scalar
COMPLEX_TYPES = _declared.kinds
"""The types by their parts."""
make, real, imag = _declared.make, _declared.real, _declared.imag
convert, constant, cast = _declared.convert, _declared.constant, _declared.cast


def pointer(part: Any) -> Any:
    """A function that makes an address a pointer to elements of this type."""
    return pointer_to(COMPLEX_TYPES[part])
