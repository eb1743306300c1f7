"""Ops of users: formulas over scalars, and functions of Python with PyTorch's interface."""

from fastgrad.library.formulas import ElementwiseOp, elementwise
from fastgrad.module_names import getattr_of as _getattr_of
from fastgrad.ops.vocabulary import c, m

__all__ = ["ElementwiseOp", "c", "elementwise", "m"]

__getattr__ = _getattr_of(__name__)
