"""Written by tools/stubs.py."""

from builtins import bool as _bool, complex as _complex, float as _float, int as _int, str as _str, type as _type
from collections.abc import Callable as _Callable, Iterator as _Iterator, Sequence as _Sequence
from typing import Any as _Any, Literal as _Literal, overload as _overload

import numpy as _np

from fastgrad import return_types as _return_types
from fastgrad.autograd.hooks import RemovableHandle as _RemovableHandle
from fastgrad.cuda.streams import Stream as _Stream
from fastgrad.dtypes import dtype as _dtype
from fastgrad.functions.memory_format import layout as _layout
from fastgrad.functions.memory_format import memory_format as _memory_format
from fastgrad.functions.storage import Storage as _Storage
from fastgrad.places import device as _device
from fastgrad.random import Generator as _Generator
from fastgrad.tensor.size import Size as _Size

from fastgrad.native.build.loader import TensorBase
from fastgrad.tensor.size import Size as Size

class Tensor(TensorBase):  # type: ignore[misc]
    def __init__(self, data: _Any = ...) -> None: ...
    def __add__(self, other: _Tensor | _int | _float | _complex) -> _Tensor: ...
    def __radd__(self, other: _Tensor | _int | _float | _complex) -> _Tensor: ...
    def __iadd__(self, other: _Tensor | _int | _float | _complex) -> _Tensor: ...
    def __sub__(self, other: _Tensor | _int | _float | _complex) -> _Tensor: ...
    def __rsub__(self, other: _Tensor | _int | _float | _complex) -> _Tensor: ...
    def __isub__(self, other: _Tensor | _int | _float | _complex) -> _Tensor: ...
    def __mul__(self, other: _Tensor | _int | _float | _complex) -> _Tensor: ...
    def __rmul__(self, other: _Tensor | _int | _float | _complex) -> _Tensor: ...
    def __imul__(self, other: _Tensor | _int | _float | _complex) -> _Tensor: ...
    def __truediv__(self, other: _Tensor | _int | _float | _complex) -> _Tensor: ...
    def __rtruediv__(self, other: _Tensor | _int | _float | _complex) -> _Tensor: ...
    def __itruediv__(self, other: _Tensor | _int | _float | _complex) -> _Tensor: ...
    def __floordiv__(self, other: _Tensor | _int | _float | _complex) -> _Tensor: ...
    def __rfloordiv__(self, other: _Tensor | _int | _float | _complex) -> _Tensor: ...
    def __ifloordiv__(self, other: _Tensor | _int | _float | _complex) -> _Tensor: ...
    def __mod__(self, other: _Tensor | _int | _float | _complex) -> _Tensor: ...
    def __rmod__(self, other: _Tensor | _int | _float | _complex) -> _Tensor: ...
    def __imod__(self, other: _Tensor | _int | _float | _complex) -> _Tensor: ...
    def __pow__(self, other: _Tensor | _int | _float | _complex) -> _Tensor: ...
    def __rpow__(self, other: _Tensor | _int | _float | _complex) -> _Tensor: ...
    def __and__(self, other: _Tensor | _int | _float | _complex) -> _Tensor: ...
    def __rand__(self, other: _Tensor | _int | _float | _complex) -> _Tensor: ...
    def __iand__(self, other: _Tensor | _int | _float | _complex) -> _Tensor: ...
    def __or__(self, other: _Tensor | _int | _float | _complex) -> _Tensor: ...
    def __ror__(self, other: _Tensor | _int | _float | _complex) -> _Tensor: ...
    def __ior__(self, other: _Tensor | _int | _float | _complex) -> _Tensor: ...
    def __xor__(self, other: _Tensor | _int | _float | _complex) -> _Tensor: ...
    def __rxor__(self, other: _Tensor | _int | _float | _complex) -> _Tensor: ...
    def __ixor__(self, other: _Tensor | _int | _float | _complex) -> _Tensor: ...
    def __lshift__(self, other: _Tensor | _int | _float | _complex) -> _Tensor: ...
    def __rlshift__(self, other: _Tensor | _int | _float | _complex) -> _Tensor: ...
    def __ilshift__(self, other: _Tensor | _int | _float | _complex) -> _Tensor: ...
    def __rshift__(self, other: _Tensor | _int | _float | _complex) -> _Tensor: ...
    def __rrshift__(self, other: _Tensor | _int | _float | _complex) -> _Tensor: ...
    def __irshift__(self, other: _Tensor | _int | _float | _complex) -> _Tensor: ...
    def __matmul__(self, other: _Tensor | _int | _float | _complex) -> _Tensor: ...
    def __rmatmul__(self, other: _Tensor | _int | _float | _complex) -> _Tensor: ...
    def __lt__(self, other: _Tensor | _int | _float | _complex) -> _Tensor: ...
    def __le__(self, other: _Tensor | _int | _float | _complex) -> _Tensor: ...
    def __gt__(self, other: _Tensor | _int | _float | _complex) -> _Tensor: ...
    def __ge__(self, other: _Tensor | _int | _float | _complex) -> _Tensor: ...
    def __eq__(self, other: object) -> _Tensor: ...  # type: ignore[override]
    def __ne__(self, other: object) -> _Tensor: ...  # type: ignore[override]
    def __neg__(self) -> _Tensor: ...
    def __pos__(self) -> _Tensor: ...
    def __abs__(self) -> _Tensor: ...
    def __invert__(self) -> _Tensor: ...
    def __bool__(self) -> _bool: ...
    def __int__(self) -> _int: ...
    def __float__(self) -> _float: ...
    def __index__(self) -> _int: ...
    def __len__(self) -> _int: ...
    def __hash__(self) -> _int: ...
    def __iter__(self) -> _Iterator[_Tensor]: ...
    def __getitem__(self, index: _Any) -> _Tensor: ...
    def __setitem__(self, index: _Any, value: _Any) -> None: ...
    def __contains__(self, element: object) -> _bool: ...
    @property
    def H(self) -> _Tensor: ...
    @property
    def T(self) -> _Tensor: ...
    _backward_hooks: _Any
    _base: _Any
    def _elements(self) -> _np.ndarray: ...
    _grad: _Any
    def _grad_fn_name(self) -> _str | None: ...
    def _holds_somewhere(self) -> _bool:
        r"""Whether any element is not zero; within `vmap` any of the whole batch, which functions may not ask."""
    def _is_view(self) -> _bool: ...
    _make_subclass: _Any
    _post_accumulate_grad_hooks: _Any
    _printed_plainly: _Any
    def _repr_html_(self) -> _str | None:
        r"""What notebooks show; None, for the text, if a subclass of a program has its own."""
    def _scalar(self) -> _Tensor: ...
    def _set_post_accumulate_grad_hook(self, hook: _Any) -> None:
        r"""Make `hook`, a `PostAccumulateGradHook`, the only post-accumulate hook of this leaf; None removes all."""
    _version: _Any
    def _warn_unserializable(self) -> None: ...
    def abs(self, *, out: _Tensor | None = None) -> _Tensor:
        r"""The absolute value; at zero its gradient is zero."""
    def abs_(self) -> _Tensor:
        r"""In-place form of `abs`."""
    def absolute(self, *, out: _Tensor | None = None) -> _Tensor:
        r"""The absolute value; at zero its gradient is zero."""
    def absolute_(self) -> _Tensor:
        r"""In-place form of `absolute`."""
    def acos(self, *, out: _Tensor | None = None) -> _Tensor:
        r"""The angle between 0 and pi whose cosine is the input; NaN beyond 1."""
    def acos_(self) -> _Tensor:
        r"""In-place form of `acos`."""
    def acosh(self, *, out: _Tensor | None = None) -> _Tensor:
        r"""The number, not negative, whose hyperbolic cosine is the input; NaN below 1."""
    def acosh_(self) -> _Tensor:
        r"""In-place form of `acosh`."""
    def add(self, other: _Tensor | _int | _float | _complex, *, alpha: _float = 1) -> _Tensor:
        r"""``input + alpha * other``, broadcast and promoted."""
    def add_(self, other: _Tensor | _int | _float | _complex, *, alpha: _float = 1) -> _Tensor:
        r"""``self += alpha * other``."""
    def addbmm(self, batch1: _Tensor, batch2: _Tensor, *, beta: _Tensor | _int | _float | _complex = 1, alpha: _Tensor | _int | _float | _complex = 1) -> _Tensor:
        r"""``beta * input`` plus `alpha` times the sum of the products of all pairs of matrices. See `baddbmm`."""
    def addbmm_(self, first: _Tensor, second: _Tensor, *, beta: _Tensor | _int | _float | _complex = 1, alpha: _Tensor | _int | _float | _complex = 1) -> _Tensor:
        r"""In-place form of `addbmm`."""
    def addcdiv(self, tensor1: _Tensor, tensor2: _Tensor, *, value: _Tensor | _int | _float | _complex = 1) -> _Tensor:
        r"""``input + value * tensor1 / tensor2``, broadcast and promoted. See `addcmul`."""
    def addcdiv_(self, tensor1: _Tensor, tensor2: _Tensor, *, value: _Tensor | _int | _float | _complex = 1) -> _Tensor:
        r"""In-place form of `addcdiv`."""
    def addcmul(self, tensor1: _Tensor, tensor2: _Tensor, *, value: _int | _float | _complex = 1) -> _Tensor:
        r"""``input + value * tensor1 * tensor2``, broadcast and promoted."""
    def addcmul_(self, tensor1: _Tensor, tensor2: _Tensor, *, value: _Tensor | _int | _float | _complex = 1) -> _Tensor:
        r"""In-place form of `addcmul`."""
    def addmm(self, mat1: _Tensor, mat2: _Tensor, *, beta: _float = 1, alpha: _float = 1) -> _Tensor:
        r"""``beta * input + alpha * (mat1 @ mat2)``; `input` is broadcast to the product."""
    def addmm_(self, first: _Tensor, second: _Tensor, *, beta: _Tensor | _int | _float | _complex = 1, alpha: _Tensor | _int | _float | _complex = 1) -> _Tensor:
        r"""In-place form of `addmm`."""
    def addmv(self, mat: _Tensor, vec: _Tensor, *, beta: _Tensor | _int | _float | _complex = 1, alpha: _Tensor | _int | _float | _complex = 1) -> _Tensor:
        r"""``beta * input + alpha * (mat @ vec)``. See `addmm`."""
    def addmv_(self, first: _Tensor, second: _Tensor, *, beta: _Tensor | _int | _float | _complex = 1, alpha: _Tensor | _int | _float | _complex = 1) -> _Tensor:
        r"""In-place form of `addmv`."""
    def addr(self, vec1: _Tensor, vec2: _Tensor, *, beta: _Tensor | _int | _float | _complex = 1, alpha: _Tensor | _int | _float | _complex = 1) -> _Tensor:
        r"""``beta * input + alpha * outer(vec1, vec2)``. See `addmm`."""
    def addr_(self, first: _Tensor, second: _Tensor, *, beta: _Tensor | _int | _float | _complex = 1, alpha: _Tensor | _int | _float | _complex = 1) -> _Tensor:
        r"""In-place form of `addr`."""
    def adjoint(self) -> _Tensor:
        r"""The conjugates of matrices, transposed: those of the last two dimensions."""
    @_overload
    def all(self, dim: _int | _Sequence[_int] | None = None, keepdim: _bool = False) -> _Tensor:
        r"""Whether all elements are not zero. See `sum` for the parameters."""
    @_overload
    def all(self, axis: _int | _Sequence[_int] | None = None, keepdims: _bool = False) -> _Tensor:
        r"""Whether all elements are not zero. See `sum` for the parameters."""
    def allclose(self, other: _Tensor | _int | _float | _complex, rtol: _float = 1e-05, atol: _float = 1e-08, equal_nan: _bool = False) -> _bool:
        r"""Whether all elements are close; see `isclose`."""
    @_overload
    def amax(self, dim: _int | _Sequence[_int] | None = ..., keepdim: _bool = False) -> _Tensor:
        r"""The largest value over dimensions; its gradient is shared among equals. See `sum` for the parameters."""
    @_overload
    def amax(self, axis: _int | _Sequence[_int] | None = ..., keepdims: _bool = False) -> _Tensor:
        r"""The largest value over dimensions; its gradient is shared among equals. See `sum` for the parameters."""
    @_overload
    def amin(self, dim: _int | _Sequence[_int] | None = ..., keepdim: _bool = False) -> _Tensor:
        r"""The smallest value over dimensions; its gradient is shared among equals. See `sum` for the parameters."""
    @_overload
    def amin(self, axis: _int | _Sequence[_int] | None = ..., keepdims: _bool = False) -> _Tensor:
        r"""The smallest value over dimensions; its gradient is shared among equals. See `sum` for the parameters."""
    @_overload
    def aminmax(self, *, dim: _int | _Sequence[_int] | None = None, keepdim: _bool = False) -> _return_types.aminmax:
        r"""The smallest and the largest value, over all dimensions or one."""
    @_overload
    def aminmax(self, *, axis: _int | _Sequence[_int] | None = None, keepdims: _bool = False) -> _return_types.aminmax:
        r"""The smallest and the largest value, over all dimensions or one."""
    def angle(self) -> _Tensor:
        r"""The angles of complex numbers in radians; of real ones 0, or pi where they are negative."""
    @_overload
    def any(self, dim: _int | _Sequence[_int] | None = None, keepdim: _bool = False) -> _Tensor:
        r"""Whether any element is not zero. See `sum` for the parameters."""
    @_overload
    def any(self, axis: _int | _Sequence[_int] | None = None, keepdims: _bool = False) -> _Tensor:
        r"""Whether any element is not zero. See `sum` for the parameters."""
    def apply_(self, callable: _Any) -> _Tensor:
        r"""Replace each element by what a function of Python makes of it; slow, on the CPU, and without a derivative."""
    def arccos(self, *, out: _Tensor | None = None) -> _Tensor:
        r"""The angle between 0 and pi whose cosine is the input; NaN beyond 1."""
    def arccos_(self) -> _Tensor:
        r"""In-place form of `arccos`."""
    def arccosh(self, *, out: _Tensor | None = None) -> _Tensor:
        r"""The number, not negative, whose hyperbolic cosine is the input; NaN below 1."""
    def arccosh_(self) -> _Tensor:
        r"""In-place form of `arccosh`."""
    def arcsin(self, *, out: _Tensor | None = None) -> _Tensor:
        r"""The angle between -pi/2 and pi/2 whose sine is the input; NaN beyond 1."""
    def arcsin_(self) -> _Tensor:
        r"""In-place form of `arcsin`."""
    def arcsinh(self, *, out: _Tensor | None = None) -> _Tensor:
        r"""The number whose hyperbolic sine is the input."""
    def arcsinh_(self) -> _Tensor:
        r"""In-place form of `arcsinh`."""
    def arctan(self, *, out: _Tensor | None = None) -> _Tensor:
        r"""The angle between -pi/2 and pi/2 whose tangent is the input."""
    def arctan2(self, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
        r"""The angle between -pi and pi of the point with the ordinate `input` and the abscissa `other`."""
    def arctan2_(self, other: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""In-place form of `arctan2`."""
    def arctan_(self) -> _Tensor:
        r"""In-place form of `arctan`."""
    def arctanh(self, *, out: _Tensor | None = None) -> _Tensor:
        r"""The number whose hyperbolic tangent is the input; NaN beyond 1."""
    def arctanh_(self) -> _Tensor:
        r"""In-place form of `arctanh`."""
    @_overload
    def argmax(self, dim: _int | None = None, keepdim: _bool = False) -> _Tensor:
        r"""The position of the largest value: the first of equals, a NaN before all."""
    @_overload
    def argmax(self, axis: _int | None = None, keepdims: _bool = False) -> _Tensor:
        r"""The position of the largest value: the first of equals, a NaN before all."""
    @_overload
    def argmin(self, dim: _int | None = None, keepdim: _bool = False) -> _Tensor:
        r"""The position of the smallest value. See `argmax`."""
    @_overload
    def argmin(self, axis: _int | None = None, keepdims: _bool = False) -> _Tensor:
        r"""The position of the smallest value. See `argmax`."""
    @_overload
    def argsort(self, dim: _int = -1, descending: _bool = False, stable: _bool = True) -> _Tensor:
        r"""The places of the elements of a dimension in order. See `sort`."""
    @_overload
    def argsort(self, axis: _int = -1, descending: _bool = False, stable: _bool = True) -> _Tensor:
        r"""The places of the elements of a dimension in order. See `sort`."""
    def argwhere(self) -> _Tensor:
        r"""The places of the elements that are not zero, a row for each. See `nonzero`."""
    def as_strided(self, size: _Sequence[_int], stride: _Sequence[_int], storage_offset: _int | None = None) -> _Tensor:
        r"""A view of the storage of a tensor with sizes, strides and an offset of its own."""
    def as_strided_(self, *operands: _Any, **named: _Any) -> _Tensor:
        r"""In-place form of `as_strided`, for tensors that require no gradient."""
    def as_strided_scatter(self, src: _Tensor, size: _Sequence[_int], stride: _Sequence[_int], storage_offset: _int | None = None) -> _Tensor:
        r"""A copy of a tensor in which the elements that `as_strided` would show are those of `src`."""
    def as_subclass(self, cls: _type) -> _Tensor:
        r"""A tensor of a subclass over the same memory and with the same history."""
    def asin(self, *, out: _Tensor | None = None) -> _Tensor:
        r"""The angle between -pi/2 and pi/2 whose sine is the input; NaN beyond 1."""
    def asin_(self) -> _Tensor:
        r"""In-place form of `asin`."""
    def asinh(self, *, out: _Tensor | None = None) -> _Tensor:
        r"""The number whose hyperbolic sine is the input."""
    def asinh_(self) -> _Tensor:
        r"""In-place form of `asinh`."""
    def atan(self, *, out: _Tensor | None = None) -> _Tensor:
        r"""The angle between -pi/2 and pi/2 whose tangent is the input."""
    def atan2(self, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
        r"""The angle between -pi and pi of the point with the ordinate `input` and the abscissa `other`."""
    def atan2_(self, other: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""In-place form of `atan2`."""
    def atan_(self) -> _Tensor:
        r"""In-place form of `atan`."""
    def atanh(self, *, out: _Tensor | None = None) -> _Tensor:
        r"""The number whose hyperbolic tangent is the input; NaN beyond 1."""
    def atanh_(self) -> _Tensor:
        r"""In-place form of `atanh`."""
    def backward(self, gradient: _Any = None, retain_graph: _bool | None = None, create_graph: _bool = False, inputs: _Any = None) -> None:
        r"""Add the gradients of this tensor with regard to the leaves to their ``grad``."""
    def baddbmm(self, batch1: _Tensor, batch2: _Tensor, *, beta: _int | _float | _complex = 1, alpha: _int | _float | _complex = 1) -> _Tensor:
        r"""``beta * input + alpha * bmm(batch1, batch2)``."""
    def baddbmm_(self, first: _Tensor, second: _Tensor, *, beta: _Tensor | _int | _float | _complex = 1, alpha: _Tensor | _int | _float | _complex = 1) -> _Tensor:
        r"""In-place form of `baddbmm`."""
    def bernoulli(self, p: _float | None = None, *, generator: _Generator | None = None) -> _Tensor:
        r"""Ones with the probabilities that the elements are, and zeros."""
    def bernoulli_(self, p: _float | _Tensor = 0.5, *, generator: _Generator | None = None) -> _Tensor:
        r"""Fill a tensor with ones, each with probability `p`, and zeros, in place."""
    def bfloat16(self, memory_format: _memory_format | None = None) -> _Tensor:
        r"""The tensor in bfloat16."""
    def bincount(self, weights: _Tensor | None = None, minlength: _int = 0) -> _Tensor:
        r"""How often each non-negative integer stands in a vector."""
    def bitwise_and(self, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
        r"""The bits that both integers have; of masks, where both hold."""
    def bitwise_and_(self, other: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""In-place form of `bitwise_and`."""
    def bitwise_left_shift(self, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
        r"""The bits of `input` moved up by `other` places."""
    def bitwise_left_shift_(self, other: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""In-place form of `bitwise_left_shift`."""
    def bitwise_not(self) -> _Tensor:
        r"""All bits of integers inverted; of a mask, where it does not hold."""
    def bitwise_not_(self) -> _Tensor:
        r"""In-place form of `bitwise_not`."""
    def bitwise_or(self, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
        r"""The bits that one of two integers has; of masks, where one holds."""
    def bitwise_or_(self, other: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""In-place form of `bitwise_or`."""
    def bitwise_right_shift(self, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
        r"""The bits of `input` moved down by `other` places; the sign stays."""
    def bitwise_right_shift_(self, other: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""In-place form of `bitwise_right_shift`."""
    def bitwise_xor(self, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
        r"""The bits in which two integers differ; of masks, where they do."""
    def bitwise_xor_(self, other: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""In-place form of `bitwise_xor`."""
    def bmm(self, mat2: _Tensor) -> _Tensor:
        r"""The products of two equally long batches of matrices."""
    def bool(self, memory_format: _memory_format | None = None) -> _Tensor:
        r"""The tensor as truth values."""
    def broadcast_to(self, size: _Sequence[_int]) -> _Tensor:
        r"""Expanded to sizes."""
    def byte(self, memory_format: _memory_format | None = None) -> _Tensor:
        r"""The tensor in uint8."""
    def cauchy_(self, median: _float = 0.0, sigma: _float = 1.0, *, generator: _Generator | None = None) -> _Tensor:
        r"""Fill a tensor with numbers of the Cauchy distribution, ``sigma / (pi ((x - median)**2 + sigma**2))``, in place."""
    def cdouble(self, memory_format: _memory_format | None = None) -> _Tensor:
        r"""The tensor in complex128."""
    def ceil(self) -> _Tensor: ...
    def ceil_(self) -> _Tensor:
        r"""In-place form of `ceil`."""
    def cfloat(self, memory_format: _memory_format | None = None) -> _Tensor:
        r"""The tensor in complex64."""
    def char(self, memory_format: _memory_format | None = None) -> _Tensor:
        r"""The tensor in int8."""
    def cholesky(self, upper: _bool = False) -> _Tensor:
        r"""The Cholesky decomposition. See `linalg.cholesky`."""
    def cholesky_inverse(self, upper: _bool = False) -> _Tensor:
        r"""The inverse of ``L L'``, or with `upper` of ``U' U``, by Cholesky factors."""
    def cholesky_solve(self, L: _Tensor, upper: _bool = False) -> _Tensor:
        r"""The solution X of ``L L' X = input``, or with `upper` of ``U' U X = input``."""
    @_overload
    def chunk(self, chunks: _int, dim: _int = 0) -> tuple[_Tensor, ...]:
        r"""At most `chunks` views of equal runs of a dimension."""
    @_overload
    def chunk(self, chunks: _int, axis: _int = 0) -> tuple[_Tensor, ...]:
        r"""At most `chunks` views of equal runs of a dimension."""
    def clamp(self, min: _int | _float | _complex | _Tensor | None = None, max: _int | _float | _complex | _Tensor | None = None) -> _Tensor:
        r"""``min(max(input, min), max)``, element by element."""
    def clamp_(self, min: _Tensor | _int | _float | _complex | None = None, max: _Tensor | _int | _float | _complex | None = None) -> _Tensor:
        r"""Bound the elements, in place."""
    def clamp_max(self, max: _Tensor | _int | _float | _complex | None) -> _Tensor:
        r"""The smaller of element and bound. See `clamp`."""
    def clamp_max_(self, max: _Tensor | _int | _float | _complex | None) -> _Tensor:
        r"""In-place form of `clamp_max`."""
    def clamp_min(self, min: _Tensor | _int | _float | _complex | None) -> _Tensor:
        r"""The larger of element and bound. See `clamp`."""
    def clamp_min_(self, min: _Tensor | _int | _float | _complex | None) -> _Tensor:
        r"""In-place form of `clamp_min`."""
    def clip(self, min: _int | _float | _complex | _Tensor | None = None, max: _int | _float | _complex | _Tensor | None = None) -> _Tensor:
        r"""``min(max(input, min), max)``, element by element."""
    def clip_(self, min: _Tensor | _int | _float | _complex | None = None, max: _Tensor | _int | _float | _complex | None = None) -> _Tensor:
        r"""Bound the elements, in place."""
    def clone(self, *, memory_format: _memory_format | None = None) -> _Tensor:
        r"""A copy with history, which lies in memory as the tensor does or in another memory format."""
    def combinations(self, r: _int = 2, with_replacement: _bool = False) -> _Tensor:
        r"""All combinations of `r` elements of a vector, as rows."""
    def conj(self) -> _Tensor:
        r"""The complex conjugates, as a view; of a real tensor itself."""
    def conj_physical(self) -> _Tensor:
        r"""The complex conjugates, in memory of their own; of a real tensor itself."""
    def conj_physical_(self) -> _Tensor:
        r"""In-place form of `conj_physical`."""
    def contiguous(self, memory_format: _memory_format = ...) -> _Tensor:
        r"""The tensor itself if its elements lie row by row, or in the given memory format, else a copy that does."""
    def copy_(self, source: _Tensor, non_blocking: _bool = False) -> _Tensor:
        r"""Copy the elements of another tensor, broadcast and cast."""
    def copysign(self, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
        r"""`input` with the sign of `other`, that of a zero as well."""
    def copysign_(self, other: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""In-place form of `copysign`."""
    def corrcoef(self) -> _Tensor:
        r"""The correlations of variables, which are rows: covariances of what is scaled to the deviation 1."""
    def cos(self, *, out: _Tensor | None = None) -> _Tensor:
        r"""The cosine of angles in radians."""
    def cos_(self) -> _Tensor:
        r"""In-place form of `cos`."""
    def cosh(self, *, out: _Tensor | None = None) -> _Tensor:
        r"""The hyperbolic cosine."""
    def cosh_(self) -> _Tensor:
        r"""In-place form of `cosh`."""
    @_overload
    def count_nonzero(self, dim: _int | _Sequence[_int] | None = None) -> _Tensor:
        r"""How many elements are not zero, over all or some dimensions."""
    @_overload
    def count_nonzero(self, axis: _int | _Sequence[_int] | None = None) -> _Tensor:
        r"""How many elements are not zero, over all or some dimensions."""
    def cov(self, *, correction: _int = 1, fweights: _Tensor | None = None, aweights: _Tensor | None = None) -> _Tensor:
        r"""The covariances of variables, which are rows."""
    def cpu(self, memory_format: _memory_format | None = None) -> _Tensor:
        r"""The tensor on the CPU; itself if it is there."""
    @_overload
    def cross(self, other: _Tensor, dim: _int | None = None) -> _Tensor:
        r"""The vector products of vectors of three elements."""
    @_overload
    def cross(self, other: _Tensor, axis: _int | None = None) -> _Tensor:
        r"""The vector products of vectors of three elements."""
    def cuda(self, device: _device | _str | _int | None = None, non_blocking: _bool = False, memory_format: _memory_format | None = None) -> _Tensor:
        r"""The tensor on a GPU; itself if it is there."""
    @_overload
    def cummax(self, dim: _int) -> _return_types.cummax:
        r"""The largest element so far along a dimension, and where it stands."""
    @_overload
    def cummax(self, axis: _int) -> _return_types.cummax:
        r"""The largest element so far along a dimension, and where it stands."""
    @_overload
    def cummin(self, dim: _int) -> _return_types.cummin:
        r"""The smallest element so far along a dimension, and where it stands. See `cummax`."""
    @_overload
    def cummin(self, axis: _int) -> _return_types.cummin:
        r"""The smallest element so far along a dimension, and where it stands. See `cummax`."""
    @_overload
    def cumprod(self, dim: _int, *, dtype: _dtype | None = None) -> _Tensor:
        r"""Running products along a dimension."""
    @_overload
    def cumprod(self, axis: _int, *, dtype: _dtype | None = None) -> _Tensor:
        r"""Running products along a dimension."""
    def cumprod_(self, *operands: _Any, dtype: _dtype | None = None, **named: _Any) -> _Tensor:
        r"""In-place form of `cumprod`."""
    @_overload
    def cumsum(self, dim: _int, *, dtype: _dtype | None = None) -> _Tensor:
        r"""Running sums along a dimension."""
    @_overload
    def cumsum(self, axis: _int, *, dtype: _dtype | None = None) -> _Tensor:
        r"""Running sums along a dimension."""
    def cumsum_(self, *operands: _Any, dtype: _dtype | None = None, **named: _Any) -> _Tensor:
        r"""In-place form of `cumsum`."""
    data: _Tensor
    def data_ptr(self) -> _int:
        r"""The address of the first element; 0 if there is none."""
    def deg2rad(self, *, out: _Tensor | None = None) -> _Tensor:
        r"""Angles in degrees as radians."""
    def deg2rad_(self) -> _Tensor:
        r"""In-place form of `deg2rad`."""
    def det(self) -> _Tensor:
        r"""The determinants of square matrices."""
    def detach(self) -> _Tensor:
        r"""A tensor over the same memory without history."""
    def detach_(self) -> _Tensor:
        r"""Forget the history, in place."""
    @property
    def device(self) -> _device: ...
    def diag(self, diagonal: _int = 0) -> _Tensor:
        r"""A vector as diagonal of a matrix, or the diagonal of a matrix as a copy."""
    def diag_embed(self, offset: _int = 0, dim1: _int = -2, dim2: _int = -1) -> _Tensor:
        r"""Matrices with the last dimension as their diagonal and zeros beside it."""
    def diagflat(self, offset: _int = 0) -> _Tensor:
        r"""All elements as the diagonal of a matrix."""
    def diagonal(self, offset: _int = 0, dim1: _int = 0, dim2: _int = 1) -> _Tensor:
        r"""A view of a diagonal, as last dimension."""
    def diagonal_scatter(self, src: _Tensor | _int | _float | _complex, offset: _int = 0, dim1: _int = 0, dim2: _int = 1) -> _Tensor:
        r"""A copy with `src` on a diagonal."""
    @_overload
    def diff(self, n: _int = 1, dim: _int = -1, prepend: _Tensor | None = None, append: _Tensor | None = None) -> _Tensor:
        r"""Differences between neighbours along a dimension, taken `n` times."""
    @_overload
    def diff(self, n: _int = 1, axis: _int = -1, prepend: _Tensor | None = None, append: _Tensor | None = None) -> _Tensor:
        r"""Differences between neighbours along a dimension, taken `n` times."""
    def digamma(self, *, out: _Tensor | None = None) -> _Tensor:
        r"""The derivative of the logarithm of the gamma function; NaN at negative whole numbers."""
    def digamma_(self) -> _Tensor:
        r"""In-place form of `digamma`."""
    def dim(self) -> _int:
        r"""The number of dimensions."""
    def dim_order(self, *, ambiguity_check: _bool | _Sequence[_memory_format] = False) -> tuple[_int, ...]:
        r"""The dimensions from the outermost in memory to the innermost."""
    def dist(self, other: _Tensor | _int | _float | _complex, p: _float = 2) -> _Tensor:
        r"""The norm of order `p` of the difference of two tensors."""
    def div(self, other: _Tensor | _int | _float | _complex, *, rounding_mode: _str | None = None) -> _Tensor:
        r"""``input / other``; integers give floats unless the quotient is rounded."""
    def div_(self, other: _Tensor | _int | _float | _complex, *, rounding_mode: _str | None = None) -> _Tensor:
        r"""``self /= other``, rounded if asked for."""
    def divide(self, other: _Tensor | _int | _float | _complex, *, rounding_mode: _str | None = None) -> _Tensor:
        r"""``input / other``; integers give floats unless the quotient is rounded."""
    def divide_(self, other: _Tensor | _int | _float | _complex, *, rounding_mode: _str | None = None) -> _Tensor:
        r"""``self /= other``, rounded if asked for."""
    def dot(self, tensor: _Tensor) -> _Tensor:
        r"""The sum of the products of two vectors' elements."""
    def double(self, memory_format: _memory_format | None = None) -> _Tensor:
        r"""The tensor in float64."""
    def dsplit(self, indices_or_sections: _Any) -> tuple[_Tensor, ...]:
        r"""The same along the third dimension."""
    @property
    def dtype(self) -> _dtype: ...
    def element_size(self) -> _int:
        r"""Bytes of an element."""
    def eq(self, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
        r"""Whether ``input == other``."""
    def eq_(self, other: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""In-place form of `eq`."""
    def equal(self, other: _Tensor | _int | _float | _complex) -> _bool:
        r"""Whether two tensors have the same sizes and elements; NaN equals nothing."""
    def erf(self, *, out: _Tensor | None = None) -> _Tensor:
        r"""The error function, ``2 / sqrt(pi)`` times the integral of ``exp(-t ** 2)`` from 0 to the input."""
    def erf_(self) -> _Tensor:
        r"""In-place form of `erf`."""
    def erfc(self, *, out: _Tensor | None = None) -> _Tensor:
        r"""``1 - erf(input)``, exact where that is small."""
    def erfc_(self) -> _Tensor:
        r"""In-place form of `erfc`."""
    def erfinv(self, *, out: _Tensor | None = None) -> _Tensor:
        r"""The number whose error function is the input; NaN beyond 1."""
    def erfinv_(self) -> _Tensor:
        r"""In-place form of `erfinv`."""
    def exp(self, *, out: _Tensor | None = None) -> _Tensor:
        r"""The exponential."""
    def exp2(self, *, out: _Tensor | None = None) -> _Tensor:
        r"""``2 ** input``."""
    def exp2_(self) -> _Tensor:
        r"""In-place form of `exp2`."""
    def exp_(self) -> _Tensor:
        r"""In-place form of `exp`."""
    @_overload
    def expand(self, *size: _int | _Sequence[_int]) -> _Tensor:
        r"""Dimensions of size 1 repeated without copying; -1 keeps a size."""
    @_overload
    def expand(self, size: _int | _Sequence[_int]) -> _Tensor:
        r"""Dimensions of size 1 repeated without copying; -1 keeps a size."""
    def expand_as(self, other: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""Expanded to the sizes of another tensor."""
    def expm1(self, *, out: _Tensor | None = None) -> _Tensor:
        r"""``exp(input) - 1``, exact near zero."""
    def expm1_(self) -> _Tensor:
        r"""In-place form of `expm1`."""
    def exponential_(self, lambd: _float = 1.0, *, generator: _Generator | None = None) -> _Tensor:
        r"""Fill a tensor with numbers of the exponential distribution, ``lambd exp(-lambd x)``, in place."""
    def fill(self, value: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""A tensor like `input` in which all elements are `value`, a number or a tensor without dimensions."""
    def fill_(self, value: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""Set all elements to a number."""
    def fill_diagonal_(self, fill_value: _float, wrap: _bool = False) -> _Tensor:
        r"""Set the elements whose indices are all equal to a number, in place."""
    def fix(self) -> _Tensor: ...
    def fix_(self) -> _Tensor:
        r"""In-place form of `fix`."""
    def flatten(self, start_dim: _int = 0, end_dim: _int = -1) -> _Tensor:
        r"""The dimensions from `start_dim` to `end_dim` as one."""
    @_overload
    def flip(self, *dims: _int | _Sequence[_int]) -> _Tensor:
        r"""The elements in reverse order along dimensions."""
    @_overload
    def flip(self, dims: _int | _Sequence[_int]) -> _Tensor:
        r"""The elements in reverse order along dimensions."""
    def fliplr(self) -> _Tensor:
        r"""The second dimension backwards."""
    def flipud(self) -> _Tensor:
        r"""The first dimension backwards."""
    def float(self, memory_format: _memory_format | None = None) -> _Tensor:
        r"""The tensor in float32."""
    def float_power(self, exponent: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""``input ** exponent`` in float64, or in complex128 if one of them is complex."""
    def float_power_(self, exponent: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""In-place form of `float_power`."""
    def floor(self) -> _Tensor: ...
    def floor_(self) -> _Tensor:
        r"""In-place form of `floor`."""
    def floor_divide(self, other: _Tensor | _int | _float | _complex) -> _Tensor: ...
    def floor_divide_(self, other: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""``self //= other``."""
    def fmax(self, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
        r"""The larger of two elements; NaN only if both are."""
    def fmax_(self, other: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""In-place form of `fmax`."""
    def fmin(self, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
        r"""The smaller of two elements; NaN only if both are."""
    def fmin_(self, other: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""In-place form of `fmin`."""
    def fmod(self, other: _Tensor | _int | _float | _complex) -> _Tensor: ...
    def fmod_(self, other: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""In-place form of `fmod`."""
    def frac(self, *, out: _Tensor | None = None) -> _Tensor:
        r"""What stands behind the point, with the sign of the input."""
    def frac_(self) -> _Tensor:
        r"""In-place form of `frac`."""
    def frexp(self) -> _return_types.frexp:
        r"""Significands from 0.5 on below 1, and exponents of 2: ``input = mantissa * 2 ** exponent``."""
    @_overload
    def gather(self, dim: _int, index: _Tensor) -> _Tensor:
        r"""``out[i][j] = input[index[i][j]][j]`` for dim 0, and so on for other dimensions."""
    @_overload
    def gather(self, axis: _int, index: _Tensor) -> _Tensor:
        r"""``out[i][j] = input[index[i][j]][j]`` for dim 0, and so on for other dimensions."""
    def gcd(self, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
        r"""The greatest common divisor of two integers, which is not negative."""
    def gcd_(self, other: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""In-place form of `gcd`."""
    def ge(self, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
        r"""Whether ``input >= other``."""
    def ge_(self, other: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""In-place form of `ge`."""
    def geometric_(self, p: _float, *, generator: _Generator | None = None) -> _Tensor:
        r"""Fill a tensor with numbers of the geometric distribution, ``p (1 - p)**(k - 1)`` for k = 1, 2, ..., in place."""
    def geqrf(self) -> _return_types.geqrf:
        r"""The QR decomposition by LAPACK's reflectors, for `ormqr` and `linalg.householder_product`."""
    def ger(self, vec2: _Tensor) -> _Tensor:
        r"""Another name of `outer`."""
    def get_device(self) -> _int:
        r"""The number of its GPU, -1 on the CPU."""
    grad: _Tensor | None
    @property
    def grad_fn(self) -> _Any: ...
    def greater(self, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
        r"""Whether ``input > other``."""
    def greater_(self, other: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""In-place form of `greater`."""
    def greater_equal(self, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
        r"""Whether ``input >= other``."""
    def greater_equal_(self, other: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""In-place form of `greater_equal`."""
    def gt(self, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
        r"""Whether ``input > other``."""
    def gt_(self, other: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""In-place form of `gt`."""
    def half(self, memory_format: _memory_format | None = None) -> _Tensor:
        r"""The tensor in float16."""
    def hardshrink(self, lambd: _float = 0.5) -> _Tensor:
        r"""X where its absolute value is above `lambd`, elsewhere zero."""
    @_overload
    def hash_tensor(self, dim: _int | _Sequence[_int] | None = None, *, keepdim: _bool = False, mode: _int = 0) -> _Tensor:
        r"""A number that tells tensors apart: the exclusive or of the bits of elements, over all or some dimensions."""
    @_overload
    def hash_tensor(self, axis: _int | _Sequence[_int] | None = None, *, keepdims: _bool = False, mode: _int = 0) -> _Tensor:
        r"""A number that tells tensors apart: the exclusive or of the bits of elements, over all or some dimensions."""
    def heaviside(self, values: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""0 where the input is negative, 1 where it is positive, and `values` where it is zero."""
    def heaviside_(self, values: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""In-place form of `heaviside`."""
    def histc(self, bins: _int = 100, min: _float = 0, max: _float = 0) -> _Tensor:
        r"""How many elements fall into each of `bins` equal intervals."""
    def histogram(self, bins: _int | _Tensor, *, range: _Sequence[_int | _float | _complex] | None = None, weight: _Tensor | None = None, density: _bool = False) -> _return_types.histogram:
        r"""How many elements fall between neighbouring edges."""
    def histogramdd(self, bins: _Any, *, range: _Any = None, weight: _Tensor | None = None, density: _bool = False) -> _return_types.histogramdd:
        r"""How many points fall into the cells of a grid."""
    def hsplit(self, indices_or_sections: _Any) -> tuple[_Tensor, ...]:
        r"""Equal parts, or those between places, side by side: what `hstack` joins. See `tensor_split`."""
    def hypot(self, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
        r"""``sqrt(input ** 2 + other ** 2)``, without overflow."""
    def hypot_(self, other: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""In-place form of `hypot`."""
    def i0(self, *, out: _Tensor | None = None) -> _Tensor:
        r"""The modified Bessel function of the first kind of order 0."""
    def i0_(self) -> _Tensor:
        r"""In-place form of `i0`."""
    def igamma(self, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
        r"""The regularised lower incomplete gamma function: that of `input` up to `other`, over the whole one."""
    def igamma_(self, other: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""In-place form of `igamma`."""
    def igammac(self, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
        r"""The regularised upper incomplete gamma function: that of `input` from `other` on, over the whole one."""
    def igammac_(self, other: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""In-place form of `igammac`."""
    @property
    def imag(self) -> _Tensor: ...
    @_overload
    def index_add(self, dim: _int, index: _Tensor, source: _Tensor, *, alpha: _float = 1) -> _Tensor:
        r"""A copy of `input` with ``out.select(dim, index[i]) += alpha * source.select(dim, i)``."""
    @_overload
    def index_add(self, axis: _int, index: _Tensor, source: _Tensor, *, alpha: _float = 1) -> _Tensor:
        r"""A copy of `input` with ``out.select(dim, index[i]) += alpha * source.select(dim, i)``."""
    @_overload
    def index_add_(self, dim: _int, index: _Tensor, source: _Tensor, *, alpha: _float = 1) -> _Tensor:
        r"""`index_add` in place."""
    @_overload
    def index_add_(self, axis: _int, index: _Tensor, source: _Tensor, *, alpha: _float = 1) -> _Tensor:
        r"""`index_add` in place."""
    @_overload
    def index_copy(self, dim: _int, index: _Tensor, source: _Tensor) -> _Tensor:
        r"""A copy of `input` with ``out.select(dim, index[i]) = source.select(dim, i)``."""
    @_overload
    def index_copy(self, axis: _int, index: _Tensor, source: _Tensor) -> _Tensor:
        r"""A copy of `input` with ``out.select(dim, index[i]) = source.select(dim, i)``."""
    @_overload
    def index_copy_(self, dim: _int, index: _Tensor, source: _Tensor) -> _Tensor:
        r"""`index_copy` in place."""
    @_overload
    def index_copy_(self, axis: _int, index: _Tensor, source: _Tensor) -> _Tensor:
        r"""`index_copy` in place."""
    @_overload
    def index_fill(self, dim: _int, index: _Tensor, value: _int | _float | _complex | _Tensor) -> _Tensor:
        r"""A copy of `input` with a number in the slices that the index names."""
    @_overload
    def index_fill(self, axis: _int, index: _Tensor, value: _int | _float | _complex | _Tensor) -> _Tensor:
        r"""A copy of `input` with a number in the slices that the index names."""
    @_overload
    def index_fill_(self, dim: _int, index: _Tensor, value: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""`index_fill` in place."""
    @_overload
    def index_fill_(self, axis: _int, index: _Tensor, value: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""`index_fill` in place."""
    def index_put(self, indices: _Sequence[_Tensor], values: _Tensor, accumulate: _bool = False) -> _Tensor:
        r"""A copy of `input` with values written at index tensors, as ``input[indices] = values`` writes them."""
    def index_put_(self, indices: _Tensor, values: _Tensor | _int | _float | _complex, accumulate: _bool = False) -> _Tensor:
        r"""`index_put` in place."""
    @_overload
    def index_reduce(self, dim: _int, index: _Tensor, source: _Tensor, reduce: _str, *, include_self: _bool = True) -> _Tensor:
        r"""A copy of `input`, reduced with the slices of `source` that the index sends to each place of a dimension."""
    @_overload
    def index_reduce(self, axis: _int, index: _Tensor, source: _Tensor, reduce: _str, *, include_self: _bool = True) -> _Tensor:
        r"""A copy of `input`, reduced with the slices of `source` that the index sends to each place of a dimension."""
    @_overload
    def index_reduce_(self, dim: _int, index: _Tensor, source: _Tensor, reduce: _str, *, include_self: _bool = True) -> _Tensor:
        r"""`index_reduce` in place."""
    @_overload
    def index_reduce_(self, axis: _int, index: _Tensor, source: _Tensor, reduce: _str, *, include_self: _bool = True) -> _Tensor:
        r"""`index_reduce` in place."""
    @_overload
    def index_select(self, dim: _int, index: _Tensor) -> _Tensor:
        r"""The slices of a dimension that a vector of indices names."""
    @_overload
    def index_select(self, axis: _int, index: _Tensor) -> _Tensor:
        r"""The slices of a dimension that a vector of indices names."""
    def inner(self, other: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""Sums of products over the last dimensions of two tensors; a product where one has no dimensions."""
    def int(self, memory_format: _memory_format | None = None) -> _Tensor:
        r"""The tensor in int32."""
    def inverse(self) -> _Tensor:
        r"""The inverse of square matrices. See `linalg.inv`."""
    def is_complex(self) -> _bool:
        r"""Whether the dtype is a complex one."""
    def is_conj(self) -> _bool:
        r"""Whether the elements of a tensor are conjugated when they are read: see `conj`."""
    def is_contiguous(self, memory_format: _memory_format = ...) -> _bool:
        r"""Whether elements lie in row-major order, or in the given memory format, without gaps."""
    @property
    def is_cpu(self) -> _bool: ...
    @property
    def is_cuda(self) -> _bool: ...
    def is_distributed(self) -> _bool:
        r"""False: it lives in one process."""
    def is_floating_point(self) -> _bool:
        r"""Whether the dtype is a floating-point one."""
    def is_inference(self) -> _bool:
        r"""Whether it was made in inference mode."""
    @property
    def is_ipu(self) -> _Any: ...
    @property
    def is_leaf(self) -> _bool: ...
    @property
    def is_maia(self) -> _Any: ...
    @property
    def is_meta(self) -> _bool: ...
    @property
    def is_mkldnn(self) -> _Any: ...
    @property
    def is_mps(self) -> _Any: ...
    @property
    def is_mtia(self) -> _Any: ...
    def is_neg(self) -> _bool:
        r"""Whether the elements of a tensor are negated when they are read: those of ``x.conj().imag`` are."""
    @property
    def is_nested(self) -> _Any: ...
    def is_nonzero(self) -> _bool:
        r"""Whether the only element of a tensor is not zero."""
    def is_pinned(self, device: _device | _str | _int | None = None) -> _bool:
        r"""Whether it lies in memory that `pin_memory` locked."""
    @property
    def is_quantized(self) -> _Any: ...
    def is_same_size(self, other: _Tensor | _int | _float | _complex) -> _bool:
        r"""Whether it has the sizes of another tensor."""
    def is_set_to(self, tensor: _Tensor) -> _bool:
        r"""Whether it is the same elements of the same memory, in the same order."""
    def is_shared(self) -> _bool:
        r"""Whether it lies in memory that processes share."""
    def is_signed(self) -> _bool:
        r"""Whether the dtype of a tensor has numbers below zero."""
    @property
    def is_sparse(self) -> _Any: ...
    @property
    def is_sparse_csr(self) -> _Any: ...
    @property
    def is_vulkan(self) -> _Any: ...
    @property
    def is_xla(self) -> _Any: ...
    @property
    def is_xpu(self) -> _Any: ...
    def isclose(self, other: _Tensor, rtol: _float = 1e-05, atol: _float = 1e-08, equal_nan: _bool = False) -> _Tensor:
        r"""Whether ``|input - other| <= atol + rtol |other|``, element by element."""
    def isfinite(self, *, out: _Tensor | None = None) -> _Tensor:
        r"""Whether an element is neither infinite nor NaN."""
    def isinf(self, *, out: _Tensor | None = None) -> _Tensor:
        r"""Whether an element is infinite."""
    def isnan(self, *, out: _Tensor | None = None) -> _Tensor:
        r"""Whether an element is NaN."""
    def isneginf(self) -> _Tensor:
        r"""Whether an element is minus infinity."""
    def isposinf(self) -> _Tensor:
        r"""Whether an element is infinity."""
    def isreal(self) -> _Tensor:
        r"""Whether an element is a real number, which it is if it has no imaginary part."""
    def istft(self, n_fft: _int, hop_length: _int | None = None, win_length: _int | None = None, window: _Any = None, center: _bool = True, normalized: _bool = False, onesided: _bool | None = None, length: _int | None = None, return_complex: _bool = False) -> _Tensor:
        r"""The signal whose `stft` comes nearest to the input, by overlapping pieces (Griffin and Lim, 1984)."""
    def item(self) -> _Tensor:
        r"""The only element, as a Python number."""
    @property
    def itemsize(self) -> _int: ...
    def kron(self, other: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""The Kronecker product: each element of `input` times all of `other`."""
    @_overload
    def kthvalue(self, k: _int, dim: _int = -1, keepdim: _bool = False) -> _return_types.kthvalue:
        r"""The k-th smallest element along a dimension, from 1 on, and where it stands."""
    @_overload
    def kthvalue(self, k: _int, axis: _int = -1, keepdims: _bool = False) -> _return_types.kthvalue:
        r"""The k-th smallest element along a dimension, from 1 on, and where it stands."""
    @property
    def layout(self) -> _Any: ...
    def lcm(self, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
        r"""The least common multiple of two integers, which is not negative."""
    def lcm_(self, other: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""In-place form of `lcm`."""
    def ldexp(self, other: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""``input * 2 ** other``."""
    def ldexp_(self, other: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""In-place form of `ldexp`."""
    def le(self, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
        r"""Whether ``input <= other``."""
    def le_(self, other: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""In-place form of `le`."""
    def lerp(self, end: _Tensor, weight: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""``input + weight * (end - input)``, exact at both ends."""
    def lerp_(self, end: _Tensor | _int | _float | _complex, weight: _Tensor) -> _Tensor:
        r"""In-place form of `lerp`."""
    def less(self, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
        r"""Whether ``input < other``."""
    def less_(self, other: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""In-place form of `less`."""
    def less_equal(self, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
        r"""Whether ``input <= other``."""
    def less_equal_(self, other: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""In-place form of `less_equal`."""
    def lgamma(self, *, out: _Tensor | None = None) -> _Tensor:
        r"""The logarithm of the absolute value of the gamma function."""
    def lgamma_(self) -> _Tensor:
        r"""In-place form of `lgamma`."""
    def log(self, *, out: _Tensor | None = None) -> _Tensor:
        r"""The natural logarithm; NaN for negative numbers."""
    def log10(self, *, out: _Tensor | None = None) -> _Tensor:
        r"""The logarithm to base 10."""
    def log10_(self) -> _Tensor:
        r"""In-place form of `log10`."""
    def log1p(self, *, out: _Tensor | None = None) -> _Tensor:
        r"""``log(1 + input)``, exact near zero."""
    def log1p_(self) -> _Tensor:
        r"""In-place form of `log1p`."""
    def log2(self, *, out: _Tensor | None = None) -> _Tensor:
        r"""The logarithm to base 2."""
    def log2_(self) -> _Tensor:
        r"""In-place form of `log2`."""
    def log_(self) -> _Tensor:
        r"""In-place form of `log`."""
    def log_normal_(self, mean: _float = 1.0, std: _float = 2.0, *, generator: _Generator | None = None) -> _Tensor:
        r"""Fill a tensor with numbers whose logarithm is normally distributed, in place."""
    @_overload
    def log_softmax(self, dim: _int, *, dtype: _dtype | None = None) -> _Tensor:
        r"""The logarithm of `softmax`, without overflow."""
    @_overload
    def log_softmax(self, axis: _int, *, dtype: _dtype | None = None) -> _Tensor:
        r"""The logarithm of `softmax`, without overflow."""
    def logaddexp(self, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
        r"""``log(exp(input) + exp(other))``, without overflow."""
    def logaddexp2(self, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
        r"""``log2(2 ** input + 2 ** other)``, without overflow."""
    def logaddexp2_(self, other: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""In-place form of `logaddexp2`."""
    def logaddexp_(self, other: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""In-place form of `logaddexp`."""
    @_overload
    def logcumsumexp(self, dim: _int) -> _Tensor:
        r"""``log(exp(input).cumsum(dim))`` without overflow."""
    @_overload
    def logcumsumexp(self, axis: _int) -> _Tensor:
        r"""``log(exp(input).cumsum(dim))`` without overflow."""
    def logdet(self) -> _Tensor:
        r"""The logarithms of determinants: NaN where these are real and negative. See `slogdet`."""
    def logical_and(self, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
        r"""Whether neither element is zero."""
    def logical_and_(self, other: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""In-place form of `logical_and`."""
    def logical_not(self, *, out: _Tensor | None = None) -> _Tensor:
        r"""Whether an element is zero."""
    def logical_not_(self) -> _Tensor:
        r"""In-place form of `logical_not`."""
    def logical_or(self, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
        r"""Whether an element of the two is not zero."""
    def logical_or_(self, other: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""In-place form of `logical_or`."""
    def logical_xor(self, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
        r"""Whether one element of the two, and one alone, is zero."""
    def logical_xor_(self, other: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""In-place form of `logical_xor`."""
    def logit(self, eps: _float | None = None) -> _Tensor:
        r"""``log(input / (1 - input))``, the inverse of `sigmoid`."""
    def logit_(self, eps: _int | _float | _complex | None = None) -> _Tensor:
        r"""In-place form of `logit`."""
    @_overload
    def logsumexp(self, dim: _int | _Sequence[_int] | None, keepdim: _bool = False) -> _Tensor:
        r"""``log(sum(exp(input)))`` along one or more dimensions, without overflow."""
    @_overload
    def logsumexp(self, axis: _int | _Sequence[_int] | None, keepdims: _bool = False) -> _Tensor:
        r"""``log(sum(exp(input)))`` along one or more dimensions, without overflow."""
    def long(self, memory_format: _memory_format | None = None) -> _Tensor:
        r"""The tensor in int64."""
    def lt(self, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
        r"""Whether ``input < other``."""
    def lt_(self, other: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""In-place form of `lt`."""
    def lu(self, pivot: _bool = True, get_infos: _bool = False) -> _Tensor:
        r"""The LU decomposition in one matrix and pivots, with `get_infos` also what LAPACK says. See `linalg.lu_factor`."""
    def lu_solve(self, LU_data: _Tensor, LU_pivots: _Tensor) -> _Tensor:
        r"""The solution X of ``A X = input`` by the factors of A. See `linalg.lu_solve`."""
    @property
    def mH(self) -> _Tensor: ...
    @property
    def mT(self) -> _Tensor: ...
    def map2_(self, x: _Any, y: _Any, callable: _Any) -> _Tensor:
        r"""Replace each element by what a function makes of it and of those of two other tensors. See `apply_`."""
    def map_(self, tensor: _Tensor, callable: _Any) -> _Tensor:
        r"""Replace each element by what a function makes of it and of that of another tensor. See `apply_`."""
    def masked_fill(self, mask: _Tensor, value: _int | _float | _complex | _Tensor) -> _Tensor:
        r"""A copy of `input` with `value` where the mask holds."""
    def masked_fill_(self, mask: _Tensor, value: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""Set the elements where the mask holds to a number."""
    def masked_scatter(self, mask: _Tensor, source: _Tensor) -> _Tensor:
        r"""A copy of `input` with the elements where a mask holds replaced by those of `source`, in their order."""
    def masked_scatter_(self, mask: _Tensor, source: _Tensor) -> _Tensor:
        r"""`masked_scatter` in place."""
    def masked_select(self, mask: _Tensor) -> _Tensor:
        r"""The elements where a mask holds, as a vector; both are broadcast."""
    def matmul(self, other: _Tensor) -> _Tensor:
        r"""The matrix product, with vectors as rows or columns and batches broadcast."""
    def matrix_exp(self) -> _Tensor:
        r"""The exponential of square matrices."""
    def matrix_power(self, n: _int) -> _Tensor:
        r"""A square matrix, or each of a batch, multiplied `n` times with itself; with a negative `n`, its inverse."""
    @_overload
    def max(self) -> _Tensor:
        r"""The largest element; with `dim` the largest of each row and its position; with a tensor the larger of two."""
    @_overload
    def max(self, dim: _int, keepdim: _bool = False) -> _return_types.max:
        r"""The largest element; with `dim` the largest of each row and its position; with a tensor the larger of two."""
    @_overload
    def max(self, other: _Tensor) -> _Tensor:
        r"""The largest element; with `dim` the largest of each row and its position; with a tensor the larger of two."""
    @_overload
    def max(self, axis: _int, keepdims: _bool = False) -> _return_types.max:
        r"""The largest element; with `dim` the largest of each row and its position; with a tensor the larger of two."""
    def maximum(self, other: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""The larger of two tensors' elements; NaN if either is."""
    @_overload
    def mean(self, dim: _int | _Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None) -> _Tensor:
        r"""The mean over dimensions; of floating-point tensors only. See `sum` for the parameters."""
    @_overload
    def mean(self, axis: _int | _Sequence[_int] | None = None, keepdims: _bool = False, *, dtype: _dtype | None = None) -> _Tensor:
        r"""The mean over dimensions; of floating-point tensors only. See `sum` for the parameters."""
    @_overload
    def median(self) -> _Tensor:
        r"""The median of all elements, or along a dimension with where it stands; of two the lower one."""
    @_overload
    def median(self, dim: _int, keepdim: _bool = False) -> _return_types.median:
        r"""The median of all elements, or along a dimension with where it stands; of two the lower one."""
    @_overload
    def median(self, axis: _int, keepdims: _bool = False) -> _return_types.median:
        r"""The median of all elements, or along a dimension with where it stands; of two the lower one."""
    @_overload
    def min(self) -> _Tensor:
        r"""The smallest element. See `max`."""
    @_overload
    def min(self, dim: _int, keepdim: _bool = False) -> _return_types.min:
        r"""The smallest element. See `max`."""
    @_overload
    def min(self, other: _Tensor) -> _Tensor:
        r"""The smallest element. See `max`."""
    @_overload
    def min(self, axis: _int, keepdims: _bool = False) -> _return_types.min:
        r"""The smallest element. See `max`."""
    def minimum(self, other: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""The smaller of two tensors' elements; NaN if either is."""
    def mm(self, mat2: _Tensor) -> _Tensor:
        r"""The product of two matrices."""
    @_overload
    def mode(self, dim: _int = -1, keepdim: _bool = False) -> _return_types.mode:
        r"""The most frequent element along a dimension, the smallest of several, and the last place where it stands."""
    @_overload
    def mode(self, axis: _int = -1, keepdims: _bool = False) -> _return_types.mode:
        r"""The most frequent element along a dimension, the smallest of several, and the last place where it stands."""
    def module_load(self, other: _Tensor, assign: _bool = False) -> _Tensor:
        r"""What a module has in place of this tensor when it loads another one: this one with its elements, or that."""
    def moveaxis(self, source: _Tensor, destination: _int | _Sequence[_int]) -> _Tensor:
        r"""Dimensions moved to other places, the rest in their order."""
    def movedim(self, source: _Tensor, destination: _int | _Sequence[_int]) -> _Tensor:
        r"""Dimensions moved to other places, the rest in their order."""
    def msort(self) -> _Tensor:
        r"""The elements of the first dimension in order."""
    def mul(self, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
        r"""``input * other``."""
    def mul_(self, other: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""In-place form of `mul`."""
    def multinomial(self, num_samples: _int, replacement: _bool = False, *, generator: _Generator | None = None) -> _Tensor:
        r"""Draw indices of rows with probabilities in proportion to the elements."""
    def multiply(self, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
        r"""``input * other``."""
    def multiply_(self, other: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""In-place form of `multiply`."""
    def mv(self, vec: _Tensor) -> _Tensor:
        r"""The product of a matrix and a vector."""
    def mvlgamma(self, p: _int) -> _Tensor:
        r"""The logarithm of the gamma function of `p` dimensions."""
    def mvlgamma_(self, p: _int) -> _Tensor:
        r"""In-place form of `mvlgamma`."""
    def nan_to_num(self, nan: _float | None = None, posinf: _float | None = None, neginf: _float | None = None) -> _Tensor:
        r"""The input with numbers in place of NaN and infinities."""
    def nan_to_num_(self, nan: _Tensor | _int | _float | _complex | None = None, posinf: _Tensor | _int | _float | _complex | None = None, neginf: _Tensor | _int | _float | _complex | None = None) -> _Tensor:
        r"""In-place form of `nan_to_num`."""
    @_overload
    def nanmean(self, dim: _int | _Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None) -> _Tensor:
        r"""The mean over dimensions of what is not NaN. See `mean`."""
    @_overload
    def nanmean(self, axis: _int | _Sequence[_int] | None = None, keepdims: _bool = False, *, dtype: _dtype | None = None) -> _Tensor:
        r"""The mean over dimensions of what is not NaN. See `mean`."""
    @_overload
    def nanmedian(self) -> _Tensor:
        r"""The median of what is not NaN. See `median`."""
    @_overload
    def nanmedian(self, dim: _int, keepdim: _bool = False) -> _return_types.nanmedian:
        r"""The median of what is not NaN. See `median`."""
    @_overload
    def nanmedian(self, axis: _int, keepdims: _bool = False) -> _return_types.nanmedian:
        r"""The median of what is not NaN. See `median`."""
    @_overload
    def nanquantile(self, q: _Any, dim: _int | _Sequence[_int] | None = None, keepdim: _bool = False, *, interpolation: _str = 'linear') -> _Tensor:
        r"""Quantiles of what is not NaN. See `quantile`."""
    @_overload
    def nanquantile(self, q: _Any, axis: _int | _Sequence[_int] | None = None, keepdims: _bool = False, *, interpolation: _str = 'linear') -> _Tensor:
        r"""Quantiles of what is not NaN. See `quantile`."""
    @_overload
    def nansum(self, dim: _int | _Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None) -> _Tensor:
        r"""The sum over dimensions in which NaN counts as zero. See `sum`."""
    @_overload
    def nansum(self, axis: _int | _Sequence[_int] | None = None, keepdims: _bool = False, *, dtype: _dtype | None = None) -> _Tensor:
        r"""The sum over dimensions in which NaN counts as zero. See `sum`."""
    @_overload
    def narrow(self, dim: _int, start: _Tensor | _int | _float | _complex, length: _int) -> _Tensor:
        r"""`length` positions of a dimension from `start` on."""
    @_overload
    def narrow(self, axis: _int, start: _Tensor | _int | _float | _complex, length: _int) -> _Tensor:
        r"""`length` positions of a dimension from `start` on."""
    @_overload
    def narrow_copy(self, dim: _int, start: _int, length: _int) -> _Tensor:
        r"""A copy of what `narrow` gives."""
    @_overload
    def narrow_copy(self, axis: _int, start: _int, length: _int) -> _Tensor:
        r"""A copy of what `narrow` gives."""
    @property
    def nbytes(self) -> _int: ...
    @property
    def ndim(self) -> _int: ...
    def ndimension(self) -> _int:
        r"""The number of dimensions."""
    def ne(self, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
        r"""Whether ``input != other``."""
    def ne_(self, other: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""In-place form of `ne`."""
    def neg(self, *, out: _Tensor | None = None) -> _Tensor:
        r"""The negative, ``-input``."""
    def neg_(self) -> _Tensor:
        r"""In-place form of `neg`."""
    def negative(self, *, out: _Tensor | None = None) -> _Tensor:
        r"""The negative, ``-input``."""
    def negative_(self) -> _Tensor:
        r"""In-place form of `negative`."""
    def nelement(self) -> _int:
        r"""The number of elements."""
    def new(self, *args: _Any, device: _device | _str | _int | None = None) -> _Tensor:
        r"""A tensor of this one's dtype and device, of data or of sizes whose elements are not set. Use `new_tensor`."""
    @_overload
    def new_empty(self, *size: _int | _Sequence[_int], dtype: _dtype | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False, layout: _layout | None = None, pin_memory: _bool = False) -> _Tensor:
        r"""Elements not set, in this tensor's dtype."""
    @_overload
    def new_empty(self, size: _int | _Sequence[_int], *, dtype: _dtype | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False, layout: _layout | None = None, pin_memory: _bool = False) -> _Tensor:
        r"""Elements not set, in this tensor's dtype."""
    def new_empty_strided(self, size: _int | _Sequence[_int], stride: _int | _Sequence[_int], *, dtype: _dtype | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False, layout: _layout | None = None, pin_memory: _bool = False) -> _Tensor:
        r"""A tensor with the given sizes and strides in this tensor's dtype, whose elements are not set."""
    def new_full(self, size: _int | _Sequence[_int], fill_value: _int | _float | _complex, *, dtype: _dtype | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False, layout: _layout | None = None, pin_memory: _bool = False) -> _Tensor:
        r"""One number, in this tensor's dtype."""
    @_overload
    def new_ones(self, *size: _int | _Sequence[_int], dtype: _dtype | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False, layout: _layout | None = None, pin_memory: _bool = False) -> _Tensor:
        r"""Ones in this tensor's dtype."""
    @_overload
    def new_ones(self, size: _int | _Sequence[_int], *, dtype: _dtype | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False, layout: _layout | None = None, pin_memory: _bool = False) -> _Tensor:
        r"""Ones in this tensor's dtype."""
    def new_tensor(self, data: _Any, *, dtype: _dtype | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False, layout: _layout | None = None, pin_memory: _bool = False) -> _Tensor:
        r"""A tensor of data in this tensor's dtype."""
    @_overload
    def new_zeros(self, *size: _int | _Sequence[_int], dtype: _dtype | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False, layout: _layout | None = None, pin_memory: _bool = False) -> _Tensor:
        r"""Zeros in this tensor's dtype."""
    @_overload
    def new_zeros(self, size: _int | _Sequence[_int], *, dtype: _dtype | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False, layout: _layout | None = None, pin_memory: _bool = False) -> _Tensor:
        r"""Zeros in this tensor's dtype."""
    def nextafter(self, other: _Tensor) -> _Tensor:
        r"""The next number that the dtype has, from one towards another; as steep as `input` where it moves."""
    def nextafter_(self, other: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""`nextafter` in place."""
    def nonzero(self, *, as_tuple: _bool = False) -> _Tensor | tuple[_Tensor, ...]:
        r"""The places of the elements that are not zero, in order."""
    def nonzero_static(self, *, size: _int, fill_value: _int = -1) -> _Tensor:
        r"""The first `size` places of elements that are not zero, and rows of `fill_value` where there are fewer."""
    @_overload
    def norm(self, p: _Tensor | _int | _float | _complex | _str = 'fro', dim: _int | _Sequence[_int] | None = None, keepdim: _bool = False, dtype: _dtype | None = None) -> _Tensor:
        r"""The vector norm over dimensions; "fro" and None stand for 2. See `linalg.vector_norm`."""
    @_overload
    def norm(self, p: _Tensor | _int | _float | _complex | _str = 'fro', axis: _int | _Sequence[_int] | None = None, keepdims: _bool = False, dtype: _dtype | None = None) -> _Tensor:
        r"""The vector norm over dimensions; "fro" and None stand for 2. See `linalg.vector_norm`."""
    def normal_(self, mean: _float = 0.0, std: _float = 1.0, *, generator: _Generator | None = None) -> _Tensor:
        r"""Fill a tensor with numbers of the normal distribution, in place."""
    def not_equal(self, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
        r"""Whether ``input != other``."""
    def not_equal_(self, other: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""In-place form of `not_equal`."""
    def numel(self) -> _int:
        r"""The number of elements."""
    def numpy(self, *, force: _bool = False) -> _np.ndarray:
        r"""A NumPy array over the same memory."""
    def orgqr(self, input2: _Tensor) -> _Tensor:
        r"""The first columns of a product of reflectors. See `linalg.householder_product`."""
    def ormqr(self, tau: _Tensor, other: _Tensor, left: _bool = True, transpose: _bool = False) -> _Tensor:
        r"""The product of a matrix with the orthogonal matrix Q of `geqrf`."""
    def outer(self, vec2: _Tensor) -> _Tensor:
        r"""The products of each element of a vector with each of another."""
    @property
    def output_nr(self) -> _int: ...
    @_overload
    def permute(self, *dims: _int | _Sequence[_int]) -> _Tensor:
        r"""The dimensions in another order."""
    @_overload
    def permute(self, dims: _int | _Sequence[_int]) -> _Tensor:
        r"""The dimensions in another order."""
    def pin_memory(self, device: _device | _str | _int | None = None) -> _Tensor:
        r"""A copy in memory of the host's that is locked in its place; itself if it is there."""
    def pinverse(self, rcond: _float = 1e-15) -> _Tensor:
        r"""The pseudo-inverse of matrices. See `linalg.pinv`."""
    def polygamma(self, n: _int) -> _Tensor:
        r"""See `fastgrad.polygamma`."""
    def polygamma_(self, n: _int) -> _Tensor:
        r"""In-place form of `polygamma`."""
    def positive(self) -> _Tensor:
        r"""The input itself."""
    def pow(self, exponent: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""``input ** exponent``, broadcast and promoted."""
    def pow_(self, exponent: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""``self **= exponent``."""
    def prelu(self, weight: _Tensor) -> _Tensor:
        r"""X where it is positive, elsewhere ``weight * x``."""
    @_overload
    def prod(self, dim: _int | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None) -> _Tensor:
        r"""The product over one dimension, or over all. See `sum` for the parameters."""
    @_overload
    def prod(self, axis: _int | None = None, keepdims: _bool = False, *, dtype: _dtype | None = None) -> _Tensor:
        r"""The product over one dimension, or over all. See `sum` for the parameters."""
    def put(self, index: _Tensor, source: _Tensor, accumulate: _bool = False) -> _Tensor:
        r"""A copy of `input` with elements written where indices into all its elements, row by row, point to."""
    def put_(self, index: _Tensor, source: _Tensor, accumulate: _bool = False) -> _Tensor:
        r"""`put` in place."""
    def qr(self, some: _bool = True) -> _return_types.qr:
        r"""The QR decomposition; with ``some=False`` Q is square. See `linalg.qr`."""
    @_overload
    def quantile(self, q: _float | _Tensor, dim: _int | None = None, keepdim: _bool = False, *, interpolation: _str = 'linear') -> _Tensor:
        r"""Quantiles of all elements, or along a dimension."""
    @_overload
    def quantile(self, q: _float | _Tensor, axis: _int | None = None, keepdims: _bool = False, *, interpolation: _str = 'linear') -> _Tensor:
        r"""Quantiles of all elements, or along a dimension."""
    def rad2deg(self, *, out: _Tensor | None = None) -> _Tensor:
        r"""Angles in radians as degrees."""
    def rad2deg_(self) -> _Tensor:
        r"""In-place form of `rad2deg`."""
    def random_(self, *bounds: _int | _float | _complex, generator: _Generator | None = None, **named: _Any) -> _Tensor:
        r"""Fill a tensor with integers, each with the same probability, in place."""
    def ravel(self) -> _Tensor:
        r"""All elements as one dimension."""
    @property
    def real(self) -> _Tensor: ...
    def reciprocal(self, *, out: _Tensor | None = None) -> _Tensor:
        r"""``1 / input``."""
    def reciprocal_(self) -> _Tensor:
        r"""In-place form of `reciprocal`."""
    def record_stream(self, stream: _Stream) -> None:
        r"""Say that a stream uses the tensor, which was made on another one."""
    def register_hook(self, hook: _Callable[..., _Any], *, with_tensor: _bool = False, materialize: _bool = False) -> _RemovableHandle:
        r"""Call ``hook(grad)`` whenever the gradient with regard to this tensor is computed."""
    def register_post_accumulate_grad_hook(self, hook: _Callable[..., _Any]) -> _RemovableHandle:
        r"""Call ``hook(tensor)`` after a pass has added to the ``grad`` of this leaf."""
    def relu(self, *, out: _Tensor | None = None) -> _Tensor:
        r"""``max(input, 0)``; at zero its gradient is zero."""
    def relu_(self) -> _Tensor:
        r"""In-place form of `relu`."""
    def remainder(self, other: _Tensor | _int | _float | _complex) -> _Tensor: ...
    def remainder_(self, other: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""``self %= other``."""
    @_overload
    def renorm(self, p: _float, dim: _int, maxnorm: _float) -> _Tensor:
        r"""The slices along a dimension scaled down to the norm `maxnorm` of order `p` where theirs is larger."""
    @_overload
    def renorm(self, p: _float, axis: _int, maxnorm: _float) -> _Tensor:
        r"""The slices along a dimension scaled down to the norm `maxnorm` of order `p` where theirs is larger."""
    def renorm_(self, *operands: _Any, **named: _Any) -> _Tensor:
        r"""In-place form of `renorm`."""
    @_overload
    def repeat(self, *repeats: _int | _Sequence[_int]) -> _Tensor:
        r"""The tensor so many times along each dimension; further repeats in front make new dimensions."""
    @_overload
    def repeat(self, repeats: _int | _Sequence[_int]) -> _Tensor:
        r"""The tensor so many times along each dimension; further repeats in front make new dimensions."""
    @_overload
    def repeat_interleave(self, repeats: _int | _Tensor | None = None, dim: _int | None = None, *, output_size: _int | None = None) -> _Tensor:
        r"""Each element of a dimension so many times, one behind the other."""
    @_overload
    def repeat_interleave(self, repeats: _int | _Tensor | None = None, axis: _int | None = None, *, output_size: _int | None = None) -> _Tensor:
        r"""Each element of a dimension so many times, one behind the other."""
    requires_grad: _bool
    def requires_grad_(self, requires_grad: _bool = True) -> _Tensor:
        r"""Say whether gradients are wanted; of leaves only."""
    @_overload
    def reshape(self, *shape: _int | _Sequence[_int]) -> _Tensor:
        r"""Other sizes over the same elements: a view where possible, a copy otherwise."""
    @_overload
    def reshape(self, shape: _int | _Sequence[_int]) -> _Tensor:
        r"""Other sizes over the same elements: a view where possible, a copy otherwise."""
    def reshape_as(self, other: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""In the sizes of another tensor."""
    def resize(self, *sizes: _int | _Sequence[_int]) -> _Tensor:
        r"""The same elements in other sizes, as many. Use `reshape`."""
    @_overload
    def resize_(self, *size: _int | _Sequence[_int], memory_format: _memory_format | None = None) -> _Tensor:
        r"""Other sizes in place; elements stay in the order of the memory, new ones are not set."""
    @_overload
    def resize_(self, size: _int | _Sequence[_int], *, memory_format: _memory_format | None = None) -> _Tensor:
        r"""Other sizes in place; elements stay in the order of the memory, new ones are not set."""
    def resize_as(self, tensor: _Tensor) -> _Tensor:
        r"""The same elements in the sizes of another tensor, as many. Use `reshape_as`."""
    def resize_as_(self, the_template: _Any, *, memory_format: _memory_format | None = None) -> _Tensor:
        r"""The sizes of another tensor, in place. See `resize_`."""
    def resolve_conj(self) -> _Tensor:
        r"""A copy in memory of its own of a tensor whose elements are conjugated when they are read; of others themselves."""
    def resolve_neg(self) -> _Tensor:
        r"""A copy in memory of its own of a tensor whose elements are negated when they are read; of others themselves."""
    def retain_grad(self) -> None:
        r"""Let backward passes write the gradient of this non-leaf to its ``grad``."""
    @property
    def retains_grad(self) -> _bool: ...
    def roll(self, shifts: _int | _Sequence[_int], dims: _int | _Sequence[_int] = ...) -> _Tensor:
        r"""The elements moved along dimensions; what leaves at the end comes in at the front."""
    def rot90(self, k: _int = 1, dims: _int | _Sequence[_int] = ...) -> _Tensor:
        r"""Turned by 90 degrees, `k` times, from the first of two dimensions towards the second."""
    def round(self, *, decimals: _int = 0) -> _Tensor:
        r"""The nearest integer, the even one of two; with `decimals` that many digits behind the point."""
    def round_(self, *, decimals: _int = 0) -> _Tensor:
        r"""In-place form of `round`."""
    def rsqrt(self, *, out: _Tensor | None = None) -> _Tensor:
        r"""``1 / sqrt(input)``."""
    def rsqrt_(self) -> _Tensor:
        r"""In-place form of `rsqrt`."""
    @_overload
    def scatter(self, dim: _int, index: _Tensor, src: _Tensor | _int | _float | _complex | None = None, *, value: _int | _float | _complex | None = None, reduce: _str | None = None) -> _Tensor:
        r"""A copy of `input` with ``out[index[i][j]][j] = src[i][j]`` for dim 0, and so on for other dimensions."""
    @_overload
    def scatter(self, axis: _int, index: _Tensor, src: _Tensor | _int | _float | _complex | None = None, *, value: _int | _float | _complex | None = None, reduce: _str | None = None) -> _Tensor:
        r"""A copy of `input` with ``out[index[i][j]][j] = src[i][j]`` for dim 0, and so on for other dimensions."""
    @_overload
    def scatter_(self, dim: _int, index: _Tensor, src: _Tensor | _int | _float | _complex | None = None, *, value: _Tensor | _int | _float | _complex | None = None, reduce: _str | None = None) -> _Tensor:
        r"""`scatter` in place."""
    @_overload
    def scatter_(self, axis: _int, index: _Tensor, src: _Tensor | _int | _float | _complex | None = None, *, value: _Tensor | _int | _float | _complex | None = None, reduce: _str | None = None) -> _Tensor:
        r"""`scatter` in place."""
    @_overload
    def scatter_add(self, dim: _int, index: _Tensor, src: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""A copy of `input` with ``out[index[i][j]][j] += src[i][j]`` for dim 0, and so on."""
    @_overload
    def scatter_add(self, axis: _int, index: _Tensor, src: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""A copy of `input` with ``out[index[i][j]][j] += src[i][j]`` for dim 0, and so on."""
    @_overload
    def scatter_add_(self, dim: _int, index: _Tensor, src: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""`scatter_add` in place."""
    @_overload
    def scatter_add_(self, axis: _int, index: _Tensor, src: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""`scatter_add` in place."""
    @_overload
    def scatter_reduce(self, dim: _int, index: _Tensor, src: _Tensor, reduce: _str, *, include_self: _bool = True) -> _Tensor:
        r"""A copy of `input`, reduced with the elements of `src` that the index sends to each place."""
    @_overload
    def scatter_reduce(self, axis: _int, index: _Tensor, src: _Tensor, reduce: _str, *, include_self: _bool = True) -> _Tensor:
        r"""A copy of `input`, reduced with the elements of `src` that the index sends to each place."""
    @_overload
    def scatter_reduce_(self, dim: _int, index: _Tensor, src: _Tensor | _int | _float | _complex, reduce: _str, *, include_self: _bool = True) -> _Tensor:
        r"""`scatter_reduce` in place."""
    @_overload
    def scatter_reduce_(self, axis: _int, index: _Tensor, src: _Tensor | _int | _float | _complex, reduce: _str, *, include_self: _bool = True) -> _Tensor:
        r"""`scatter_reduce` in place."""
    @_overload
    def select(self, dim: _int, index: _int) -> _Tensor:
        r"""The slice at one position of a dimension, which goes."""
    @_overload
    def select(self, axis: _int, index: _int) -> _Tensor:
        r"""The slice at one position of a dimension, which goes."""
    @_overload
    def select_scatter(self, src: _Tensor | _int | _float | _complex, dim: _int, index: _int) -> _Tensor:
        r"""A copy with `src` at one position of a dimension."""
    @_overload
    def select_scatter(self, src: _Tensor | _int | _float | _complex, axis: _int, index: _int) -> _Tensor:
        r"""A copy with `src` at one position of a dimension."""
    def set_(self, source: _Tensor | None = ...) -> _Tensor:
        r"""Let this tensor stand for the memory of another one, as a change in place."""
    def sgn(self) -> _Tensor:
        r"""``input / abs(input)``, and 0 at zero; of real numbers their signs."""
    def sgn_(self) -> _Tensor:
        r"""In-place form of `sgn`."""
    @property
    def shape(self) -> _Size: ...
    def share_memory_(self) -> _Tensor:
        r"""Move the elements into memory that processes share, where they change for all; the tensor stays the same."""
    def short(self, memory_format: _memory_format | None = None) -> _Tensor:
        r"""The tensor in int16."""
    def sigmoid(self, *, out: _Tensor | None = None) -> _Tensor:
        r"""The logistic function, ``1 / (1 + exp(-input))``."""
    def sigmoid_(self) -> _Tensor:
        r"""In-place form of `sigmoid`."""
    def sign(self) -> _Tensor:
        r"""-1, 0 or 1, as a number is negative, zero or positive; of a mask the mask."""
    def sign_(self) -> _Tensor:
        r"""In-place form of `sign`."""
    def signbit(self) -> _Tensor:
        r"""Whether the sign is negative, that of a zero as well."""
    def sin(self, *, out: _Tensor | None = None) -> _Tensor:
        r"""The sine of angles in radians."""
    def sin_(self) -> _Tensor:
        r"""In-place form of `sin`."""
    def sinc(self, *, out: _Tensor | None = None) -> _Tensor:
        r"""``sin(pi input) / (pi input)``, and 1 at zero."""
    def sinc_(self) -> _Tensor:
        r"""In-place form of `sinc`."""
    def sinh(self, *, out: _Tensor | None = None) -> _Tensor:
        r"""The hyperbolic sine."""
    def sinh_(self) -> _Tensor:
        r"""In-place form of `sinh`."""
    @_overload
    def size(self, dim: _int | None = None) -> _Tensor:
        r"""The sizes, or the size of one dimension."""
    @_overload
    def size(self, axis: _int | None = None) -> _Tensor:
        r"""The sizes, or the size of one dimension."""
    @_overload
    def slice_scatter(self, src: _Tensor | _int | _float | _complex, dim: _int = 0, start: _Tensor | _int | _float | _complex | None = None, end: _Tensor | _int | _float | _complex | None = None, step: _int = 1) -> _Tensor:
        r"""A copy with `src` at a slice of a dimension."""
    @_overload
    def slice_scatter(self, src: _Tensor | _int | _float | _complex, axis: _int = 0, start: _Tensor | _int | _float | _complex | None = None, end: _Tensor | _int | _float | _complex | None = None, step: _int = 1) -> _Tensor:
        r"""A copy with `src` at a slice of a dimension."""
    def slogdet(self) -> _return_types.slogdet:
        r"""The signs of determinants, and the logarithms of their absolute values. See `linalg.slogdet`."""
    @_overload
    def softmax(self, dim: _int, *, dtype: _dtype | None = None) -> _Tensor:
        r"""``exp(x) / sum(exp(x))`` along a dimension."""
    @_overload
    def softmax(self, axis: _int, *, dtype: _dtype | None = None) -> _Tensor:
        r"""``exp(x) / sum(exp(x))`` along a dimension."""
    @_overload
    def sort(self, dim: _int = -1, descending: _bool = False, stable: _bool = True) -> _return_types.sort:
        r"""The elements of a dimension in order, and where they stood."""
    @_overload
    def sort(self, axis: _int = -1, descending: _bool = False, stable: _bool = True) -> _return_types.sort:
        r"""The elements of a dimension in order, and where they stood."""
    @_overload
    def split(self, split_size_or_sections: _Any, dim: _int = 0) -> tuple[_Tensor, ...]:
        r"""Views of runs of a dimension: of one length (the last may be shorter), or of the lengths given."""
    @_overload
    def split(self, split_size: _Any, axis: _int = 0) -> tuple[_Tensor, ...]:
        r"""Views of runs of a dimension: of one length (the last may be shorter), or of the lengths given."""
    @_overload
    def split_with_sizes(self, split_sizes: _Sequence[_int], dim: _int = 0) -> _Tensor:
        r"""Parts of the given lengths along a dimension: `split` with a list."""
    @_overload
    def split_with_sizes(self, split_sizes: _Sequence[_int], axis: _int = 0) -> _Tensor:
        r"""Parts of the given lengths along a dimension: `split` with a list."""
    def sqrt(self, *, out: _Tensor | None = None) -> _Tensor:
        r"""The square root; NaN for negative numbers."""
    def sqrt_(self) -> _Tensor:
        r"""In-place form of `sqrt`."""
    def square(self) -> _Tensor:
        r"""The square, ``input ** 2``; of a mask one of int64, as that power is."""
    def square_(self) -> _Tensor:
        r"""In-place form of `square`."""
    @_overload
    def squeeze(self, dim: _int | _Sequence[_int] | None = None) -> _Tensor:
        r"""Without the dimensions of size 1, or without those named that have size 1."""
    @_overload
    def squeeze(self, axis: _int | _Sequence[_int] | None = None) -> _Tensor:
        r"""Without the dimensions of size 1, or without those named that have size 1."""
    def squeeze_(self, *operands: _Any, **named: _Any) -> _Tensor:
        r"""In-place form of `squeeze`, for tensors that require no gradient."""
    @_overload
    def std(self, dim: _int | _Sequence[_int] | None = None, unbiased: _Any = None, keepdim: _bool = False, *, correction: _float | None = None) -> _Tensor:
        r"""The square root of the variance; its gradient is zero where it is zero. See `var`."""
    @_overload
    def std(self, axis: _int | _Sequence[_int] | None = None, unbiased: _Any = None, keepdims: _bool = False, *, correction: _float | None = None) -> _Tensor:
        r"""The square root of the variance; its gradient is zero where it is zero. See `var`."""
    def stft(self, n_fft: _int, hop_length: _int | None = None, win_length: _int | None = None, window: _Tensor | None = None, center: _bool = True, pad_mode: _str = 'reflect', normalized: _bool = False, onesided: _bool | None = None, return_complex: _bool | None = None, align_to_window: _bool | None = None) -> _Tensor:
        r"""The Fourier transforms of pieces of a signal, each multiplied by a window."""
    def storage(self) -> _Storage:
        r"""The memory of the tensor, which others may share, as elements of its dtype."""
    def storage_offset(self) -> _int:
        r"""The first element's place in the storage, in elements."""
    @_overload
    def stride(self, dim: _int | None = None) -> _Tensor:
        r"""How many elements apart neighbours along each dimension lie in memory."""
    @_overload
    def stride(self, axis: _int | None = None) -> _Tensor:
        r"""How many elements apart neighbours along each dimension lie in memory."""
    def sub(self, other: _Tensor | _int | _float | _complex, *, alpha: _float = 1) -> _Tensor:
        r"""``input - alpha * other``, broadcast and promoted. See `add`."""
    def sub_(self, other: _Tensor | _int | _float | _complex, *, alpha: _float = 1) -> _Tensor:
        r"""``self -= alpha * other``."""
    def subtract(self, other: _Tensor | _int | _float | _complex, *, alpha: _float = 1) -> _Tensor:
        r"""``input - alpha * other``, broadcast and promoted. See `add`."""
    def subtract_(self, other: _Tensor | _int | _float | _complex, *, alpha: _float = 1) -> _Tensor:
        r"""``self -= alpha * other``."""
    @_overload
    def sum(self, dim: _int | _Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None) -> _Tensor:
        r"""The sum over dimensions."""
    @_overload
    def sum(self, axis: _int | _Sequence[_int] | None = None, keepdims: _bool = False, *, dtype: _dtype | None = None) -> _Tensor:
        r"""The sum over dimensions."""
    @_overload
    def sum_to_size(self, *size: _int | _Sequence[_int]) -> _Tensor:
        r"""The sum over the dimensions along which sizes would be broadcast to those of the tensor."""
    @_overload
    def sum_to_size(self, size: _int | _Sequence[_int]) -> _Tensor:
        r"""The sum over the dimensions along which sizes would be broadcast to those of the tensor."""
    def svd(self, some: _bool = True, compute_uv: _bool = True) -> _return_types.svd:
        r"""The singular value decomposition ``U diag(S) V'``. See `linalg.svd`."""
    def swapaxes(self, axis0: _int, axis1: _int) -> _Tensor:
        r"""Two dimensions exchanged, as `transpose` does it."""
    def swapaxes_(self, *operands: _Any, **named: _Any) -> _Tensor:
        r"""In-place form of `transpose`, for tensors that require no gradient."""
    def swapdims(self, dim0: _int, dim1: _int) -> _Tensor:
        r"""Two dimensions exchanged."""
    def swapdims_(self, *operands: _Any, **named: _Any) -> _Tensor:
        r"""In-place form of `transpose`, for tensors that require no gradient."""
    def t(self) -> _Tensor:
        r"""The transpose of a matrix; tensors of fewer dimensions as they are."""
    def t_(self, *operands: _Any, **named: _Any) -> _Tensor:
        r"""In-place form of `t`, for tensors that require no gradient."""
    def take(self, index: _Tensor) -> _Tensor:
        r"""The elements to which indices into all of them, row by row, point."""
    @_overload
    def take_along_dim(self, indices: _Tensor, dim: _int | None = None) -> _Tensor:
        r"""The elements along a dimension to which indices point, as `argsort` and `argmax` give them."""
    @_overload
    def take_along_dim(self, indices: _Tensor, axis: _int | None = None) -> _Tensor:
        r"""The elements along a dimension to which indices point, as `argsort` and `argmax` give them."""
    def tan(self, *, out: _Tensor | None = None) -> _Tensor:
        r"""The tangent of angles in radians."""
    def tan_(self) -> _Tensor:
        r"""In-place form of `tan`."""
    def tanh(self, *, out: _Tensor | None = None) -> _Tensor:
        r"""The hyperbolic tangent."""
    def tanh_(self) -> _Tensor:
        r"""In-place form of `tanh`."""
    @_overload
    def tensor_split(self, indices_or_sections: _int | _Sequence[_int] | _Tensor, dim: _int = 0) -> tuple[_Tensor, ...]:
        r"""Views of parts of a dimension: of so many, as equal as may be, or of those between places."""
    @_overload
    def tensor_split(self, indices_or_sections: _int | _Sequence[_int] | _Tensor, axis: _int = 0) -> tuple[_Tensor, ...]:
        r"""Views of parts of a dimension: of so many, as equal as may be, or of those between places."""
    @_overload
    def tile(self, *dims: _int | _Sequence[_int]) -> _Tensor:
        r"""As `repeat`; missing repeats count as 1."""
    @_overload
    def tile(self, dims: _int | _Sequence[_int]) -> _Tensor:
        r"""As `repeat`; missing repeats count as 1."""
    def to(self, *args: _Any, **kwargs: _Any) -> _Tensor:
        r"""The tensor in another dtype or on another device; itself if nothing changes."""
    def to_dense(self, dtype: _dtype | None = None, *, masked_grad: _bool | None = None) -> _Tensor:
        r"""The tensor itself, or in another dtype: all are dense."""
    def tolist(self) -> _Tensor:
        r"""The elements as nested lists of Python numbers."""
    @_overload
    def topk(self, k: _int, dim: _int = -1, largest: _bool = True, sorted: _bool = True) -> _return_types.topk:
        r"""The `k` largest (or smallest) elements of a dimension in order, and where they stood."""
    @_overload
    def topk(self, k: _int, axis: _int = -1, largest: _bool = True, sorted: _bool = True) -> _return_types.topk:
        r"""The `k` largest (or smallest) elements of a dimension in order, and where they stood."""
    def trace(self) -> _Tensor:
        r"""The sum of the diagonal of a matrix."""
    def transpose(self, dim0: _int, dim1: _int) -> _Tensor:
        r"""Two dimensions exchanged."""
    def transpose_(self, *operands: _Any, **named: _Any) -> _Tensor:
        r"""In-place form of `transpose`, for tensors that require no gradient."""
    def triangular_solve(self, A: _Tensor, upper: _bool = True, transpose: _bool = False, unitriangular: _bool = False) -> _return_types.triangular_solve:
        r"""The solution of ``A X = input`` for triangular matrices, and a copy of these. See `linalg.solve_triangular`."""
    def tril(self, diagonal: _int = 0) -> _Tensor:
        r"""The lower triangle of the last two dimensions."""
    def tril_(self, *operands: _Any, **named: _Any) -> _Tensor:
        r"""In-place form of `tril`."""
    def triu(self, diagonal: _int = 0) -> _Tensor:
        r"""The upper triangle of the last two dimensions."""
    def triu_(self, *operands: _Any, **named: _Any) -> _Tensor:
        r"""In-place form of `triu`."""
    def true_divide(self, other: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""The exact quotient. See `div`."""
    def true_divide_(self, other: _Tensor | _int | _float | _complex, *, rounding_mode: _str | None = None) -> _Tensor:
        r"""``self /= other``, rounded if asked for."""
    def trunc(self) -> _Tensor: ...
    def trunc_(self) -> _Tensor:
        r"""In-place form of `trunc`."""
    def type(self, dtype: _dtype | None = None) -> _Tensor:
        r"""The name of the tensor's type, or the tensor in another dtype, and on the device of the type that is named."""
    def type_as(self, other: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""The tensor in the dtype of another."""
    @_overload
    def unbind(self, dim: _int = 0) -> tuple[_Tensor, ...]:
        r"""All slices along a dimension, as views."""
    @_overload
    def unbind(self, axis: _int = 0) -> tuple[_Tensor, ...]:
        r"""All slices along a dimension, as views."""
    @_overload
    def unflatten(self, dim: _int, sizes: _Sequence[_int]) -> _Tensor:
        r"""One dimension as several."""
    @_overload
    def unflatten(self, axis: _int, sizes: _Sequence[_int]) -> _Tensor:
        r"""One dimension as several."""
    def unfold(self, dimension: _int, size: _int, step: _int) -> _Tensor:
        r"""Windows of a dimension, as a view; their elements are one dimension more, the last."""
    def uniform_(self, *bounds: _float, generator: _Generator | None = None, **named: _float) -> _Tensor:
        r"""Fill a tensor with numbers of the uniform distribution on [from, to), in place."""
    @_overload
    def unique(self, sorted: _bool = True, return_inverse: _bool = False, return_counts: _bool = False, dim: _int | None = None) -> _Tensor | tuple[_Tensor, ...]:
        r"""The distinct elements in order, or the distinct slices along a dimension."""
    @_overload
    def unique(self, sorted: _bool = True, return_inverse: _bool = False, return_counts: _bool = False, axis: _int | None = None) -> _Tensor | tuple[_Tensor, ...]:
        r"""The distinct elements in order, or the distinct slices along a dimension."""
    @_overload
    def unique_consecutive(self, return_inverse: _bool = False, return_counts: _bool = False, dim: _int | None = None) -> _Tensor | tuple[_Tensor, ...]:
        r"""The elements, or the slices along a dimension, that differ from the one before."""
    @_overload
    def unique_consecutive(self, return_inverse: _bool = False, return_counts: _bool = False, axis: _int | None = None) -> _Tensor | tuple[_Tensor, ...]:
        r"""The elements, or the slices along a dimension, that differ from the one before."""
    @_overload
    def unsafe_chunk(self, chunks: _int, dim: _int = 0) -> tuple[_Tensor, ...]:
        r"""Another name of `chunk`."""
    @_overload
    def unsafe_chunk(self, chunks: _int, axis: _int = 0) -> tuple[_Tensor, ...]:
        r"""Another name of `chunk`."""
    @_overload
    def unsafe_split(self, split_size: _int, dim: _int = 0) -> _Tensor:
        r"""Parts of a length along a dimension: `split`."""
    @_overload
    def unsafe_split(self, split_size: _int, axis: _int = 0) -> _Tensor:
        r"""Parts of a length along a dimension: `split`."""
    @_overload
    def unsafe_split_with_sizes(self, split_sizes: _Sequence[_int], dim: _int = 0) -> _Tensor:
        r"""Parts of the given lengths along a dimension: `split` with a list."""
    @_overload
    def unsafe_split_with_sizes(self, split_sizes: _Sequence[_int], axis: _int = 0) -> _Tensor:
        r"""Parts of the given lengths along a dimension: `split` with a list."""
    @_overload
    def unsqueeze(self, dim: _int) -> _Tensor:
        r"""With a new dimension of size 1."""
    @_overload
    def unsqueeze(self, axis: _int) -> _Tensor:
        r"""With a new dimension of size 1."""
    def unsqueeze_(self, *operands: _Any, **named: _Any) -> _Tensor:
        r"""In-place form of `unsqueeze`, for tensors that require no gradient."""
    def untyped_storage(self) -> _Storage:
        r"""The memory of the tensor as bytes: sizes and indices of the answer count them."""
    @_overload
    def var(self, dim: _int | _Sequence[_int] | None = None, unbiased: _bool | None = None, keepdim: _bool = False, *, correction: _int | _float | _complex | None = None) -> _Tensor:
        r"""The variance over dimensions, ``sum((x - mean(x))**2) / (n - correction)``."""
    @_overload
    def var(self, axis: _int | _Sequence[_int] | None = None, unbiased: _bool | None = None, keepdims: _bool = False, *, correction: _int | _float | _complex | None = None) -> _Tensor:
        r"""The variance over dimensions, ``sum((x - mean(x))**2) / (n - correction)``."""
    def vdot(self, other: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""The inner product, with the conjugates of `input`; of real vectors another name of `dot`."""
    @_overload
    def view(self, *size: _int | _Sequence[_int], dtype: _dtype | None = None) -> _Tensor:
        r"""The same memory with other sizes; raises where strides do not allow it."""
    @_overload
    def view(self, size: _int | _Sequence[_int], *, dtype: _dtype | None = None) -> _Tensor:
        r"""The same memory with other sizes; raises where strides do not allow it."""
    def view_as(self, other: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""A view in the sizes of another tensor."""
    def vsplit(self, indices_or_sections: _Any) -> tuple[_Tensor, ...]:
        r"""The same along the first dimension."""
    def where(self, condition: _Any, other: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""The tensor where the condition holds, else the other."""
    def xlogy(self, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
        r"""``input * log(other)``, and 0 where `input` is 0."""
    def xlogy_(self, other: _Tensor | _int | _float | _complex) -> _Tensor:
        r"""In-place form of `xlogy`."""
    def zero_(self) -> _Tensor:
        r"""Set all elements to zero."""

_Tensor = Tensor
