"""Written by tools/stubs.py."""

from builtins import bool as _bool, complex as _complex, float as _float, int as _int, str as _str, type as _type
from collections.abc import Callable as _Callable, Iterator as _Iterator, Sequence as _Sequence
from typing import Any as _Any, Literal as _Literal, overload as _overload

import numpy as _np

from fastgrad import return_types as _return_types
from fastgrad.dtypes import dtype as _dtype
from fastgrad.functions.matrix_functions import LowRank as _LowRank
from fastgrad.functions.memory_format import layout as _layout
from fastgrad.functions.memory_format import memory_format as _memory_format
from fastgrad.places import device as _device
from fastgrad.random import Generator as _Generator
from fastgrad.tensor import Tensor as _Tensor
from fastgrad.tensor.size import Size as _Size

class BFloat16Tensor(_Tensor): ...
class BoolTensor(_Tensor): ...
class ByteTensor(_Tensor): ...
class CharTensor(_Tensor): ...
class ComplexDoubleTensor(_Tensor): ...
class ComplexFloatTensor(_Tensor): ...
class DoubleTensor(_Tensor): ...
class FloatTensor(_Tensor): ...
from fastgrad.random import Generator as Generator
class HalfTensor(_Tensor): ...
class IntTensor(_Tensor): ...
class LongTensor(_Tensor): ...
from fastgrad.cuda.gpus import OutOfMemoryError as OutOfMemoryError
class ShortTensor(_Tensor): ...
from fastgrad.tensor import Size as Size
from fastgrad.tensor import Tensor as Tensor
__version__: _str
def abs_(self: _Tensor) -> _Tensor:
    r"""In-place form of `abs`."""
from fastgrad import accelerator as accelerator
def acos_(self: _Tensor) -> _Tensor:
    r"""In-place form of `acos`."""
def acosh_(self: _Tensor) -> _Tensor:
    r"""In-place form of `acosh`."""
def addmv_(self: _Tensor, first: _Tensor, second: _Tensor, *, beta: _Tensor | _int | _float | _complex = 1, alpha: _Tensor | _int | _float | _complex = 1) -> _Tensor:
    r"""In-place form of `addmv`."""
from fastgrad import amp as amp
def arccos_(self: _Tensor) -> _Tensor:
    r"""In-place form of `arccos`."""
def arccosh_(self: _Tensor) -> _Tensor:
    r"""In-place form of `arccosh`."""
def arcsin_(self: _Tensor) -> _Tensor:
    r"""In-place form of `arcsin`."""
def arcsinh_(self: _Tensor) -> _Tensor:
    r"""In-place form of `arcsinh`."""
def arctan_(self: _Tensor) -> _Tensor:
    r"""In-place form of `arctan`."""
def arctanh_(self: _Tensor) -> _Tensor:
    r"""In-place form of `arctanh`."""
from fastgrad.settings import are_deterministic_algorithms_enabled as are_deterministic_algorithms_enabled
def as_strided_(self: _Tensor, *operands: _Any, **named: _Any) -> _Tensor:
    r"""In-place form of `as_strided`, for tensors that require no gradient."""
from fastgrad import as_torch as as_torch
def asin_(self: _Tensor) -> _Tensor:
    r"""In-place form of `asin`."""
def asinh_(self: _Tensor) -> _Tensor:
    r"""In-place form of `asinh`."""
def atan_(self: _Tensor) -> _Tensor:
    r"""In-place form of `atan`."""
def atanh_(self: _Tensor) -> _Tensor:
    r"""In-place form of `atanh`."""
from fastgrad.amp.autocast_mode import autocast as autocast
from fastgrad.amp.switches import autocast_decrement_nesting as autocast_decrement_nesting
from fastgrad.amp.switches import autocast_increment_nesting as autocast_increment_nesting
from fastgrad import autograd as autograd
from fastgrad import backends as backends
bfloat16: _dtype
bool: _dtype
from fastgrad.dtypes import can_cast as can_cast
cdouble: _dtype
def ceil_(self: _Tensor) -> _Tensor:
    r"""In-place form of `ceil`."""
cfloat: _dtype
channels_last: _memory_format
channels_last_3d: _memory_format
def clamp_(self: _Tensor, min: _Tensor | _int | _float | _complex | None = None, max: _Tensor | _int | _float | _complex | None = None) -> _Tensor:
    r"""Bound the elements, in place."""
from fastgrad.functions.pointwise import clamp_max_ as clamp_max_
from fastgrad.functions.pointwise import clamp_min_ as clamp_min_
from fastgrad.amp.autocast_mode import clear_autocast_cache as clear_autocast_cache
def clip_(self: _Tensor, min: _Tensor | _int | _float | _complex | None = None, max: _Tensor | _int | _float | _complex | None = None) -> _Tensor:
    r"""Bound the elements, in place."""
from fastgrad.compiler import compile as compile
from fastgrad import compiler as compiler
complex128: _dtype
complex64: _dtype
from fastgrad.control import cond as cond
from fastgrad.functions.complex_numbers import conj_physical_ as conj_physical_
contiguous_format: _memory_format
def cos_(self: _Tensor) -> _Tensor:
    r"""In-place form of `cos`."""
def cosh_(self: _Tensor) -> _Tensor:
    r"""In-place form of `cosh`."""
from fastgrad import cpu as cpu
from fastgrad import cuda as cuda
from fastgrad import debug as debug
default_generator: _Generator
def deg2rad_(self: _Tensor) -> _Tensor:
    r"""In-place form of `deg2rad`."""
def detach_(self: _Tensor) -> _Tensor:
    r"""Forget the history, in place."""
from fastgrad.places import device as device
from fastgrad import distributed as distributed
from fastgrad import distributions as distributions
double: _dtype
from fastgrad.dtypes import dtype as dtype
e: _float
from fastgrad.autograd.modes import enable_grad as enable_grad
def erf_(self: _Tensor) -> _Tensor:
    r"""In-place form of `erf`."""
def erfc_(self: _Tensor) -> _Tensor:
    r"""In-place form of `erfc`."""
def exp2_(self: _Tensor) -> _Tensor:
    r"""In-place form of `exp2`."""
def exp_(self: _Tensor) -> _Tensor:
    r"""In-place form of `exp`."""
def expm1_(self: _Tensor) -> _Tensor:
    r"""In-place form of `expm1`."""
from fastgrad import fft as fft
def fill_(self: _Tensor, value: _Tensor | _int | _float | _complex) -> _Tensor:
    r"""Set all elements to a number."""
from fastgrad.dtypes import finfo as finfo
def fix_(self: _Tensor) -> _Tensor:
    r"""In-place form of `fix`."""
float: _dtype
float16: _dtype
float32: _dtype
float64: _dtype
def floor_(self: _Tensor) -> _Tensor:
    r"""In-place form of `floor`."""
def frac_(self: _Tensor) -> _Tensor:
    r"""In-place form of `frac`."""
from fastgrad import func as func
from fastgrad import futures as futures
def gcd_(self: _Tensor, other: _Tensor | _int | _float | _complex) -> _Tensor:
    r"""In-place form of `gcd`."""
from fastgrad.amp.switches import get_autocast_cpu_dtype as get_autocast_cpu_dtype
from fastgrad.amp.autocast_mode import get_autocast_dtype as get_autocast_dtype
from fastgrad.amp.switches import get_autocast_gpu_dtype as get_autocast_gpu_dtype
from fastgrad.places import get_default_device as get_default_device
from fastgrad.dtypes import get_default_dtype as get_default_dtype
from fastgrad.settings import get_deterministic_debug_mode as get_deterministic_debug_mode
from fastgrad.inspection import get_device as get_device
from fastgrad.inspection import get_device_module as get_device_module
from fastgrad.inspection import get_file_path as get_file_path
from fastgrad.cuda.precision import get_float32_matmul_precision as get_float32_matmul_precision
from fastgrad.settings import get_num_interop_threads as get_num_interop_threads
from fastgrad.native.host.threads import get_num_threads as get_num_threads
from fastgrad.random import get_rng_state as get_rng_state
half: _dtype
from fastgrad.autograd.introspect import hooks as hooks
from fastgrad import hub as hub
def i0_(self: _Tensor) -> _Tensor:
    r"""In-place form of `i0`."""
from fastgrad.dtypes import iinfo as iinfo
from fastgrad.functions.placing import index_put_ as index_put_
inf: _float
from fastgrad.autograd.modes import inference_mode as inference_mode
from fastgrad.random import initial_seed as initial_seed
from fastgrad.as_torch.installing import install_as_torch as install_as_torch
int: _dtype
int16: _dtype
int32: _dtype
int64: _dtype
int8: _dtype
from fastgrad.autograd.anomaly import is_anomaly_check_nan_enabled as is_anomaly_check_nan_enabled
from fastgrad.autograd.anomaly import is_anomaly_enabled as is_anomaly_enabled
from fastgrad.amp.switches import is_autocast_cache_enabled as is_autocast_cache_enabled
from fastgrad.amp.switches import is_autocast_cpu_enabled as is_autocast_cpu_enabled
from fastgrad.amp.autocast_mode import is_autocast_enabled as is_autocast_enabled
from fastgrad.settings import is_deterministic_algorithms_warn_only_enabled as is_deterministic_algorithms_warn_only_enabled
from fastgrad.inspection import is_distributed as is_distributed
from fastgrad.autograd.modes import is_grad_enabled as is_grad_enabled
from fastgrad.autograd.modes import is_inference as is_inference
from fastgrad.autograd.modes import is_inference_mode_enabled as is_inference_mode_enabled
from fastgrad.inspection import is_same_size as is_same_size
from fastgrad.inspection import is_storage as is_storage
from fastgrad.settings import is_warn_always_enabled as is_warn_always_enabled
from fastgrad.functions.memory_format import layout as layout
def lcm_(self: _Tensor, other: _Tensor | _int | _float | _complex) -> _Tensor:
    r"""In-place form of `lcm`."""
from fastgrad.functions.pointwise import ldexp_ as ldexp_
from fastgrad import library as library
from fastgrad import linalg as linalg
from fastgrad.serialization import load as load
from fastgrad.functions.lobpcg import lobpcg as lobpcg
def log10_(self: _Tensor) -> _Tensor:
    r"""In-place form of `log10`."""
def log1p_(self: _Tensor) -> _Tensor:
    r"""In-place form of `log1p`."""
def log2_(self: _Tensor) -> _Tensor:
    r"""In-place form of `log2`."""
def log_(self: _Tensor) -> _Tensor:
    r"""In-place form of `log`."""
from fastgrad.functions.pointwise import logit_ as logit_
long: _dtype
from fastgrad.random import manual_seed as manual_seed
from fastgrad.functions.memory_format import memory_format as memory_format
from fastgrad import multiprocessing as multiprocessing
nan: _float
from fastgrad.functions.pointwise import nan_to_num_ as nan_to_num_
from fastgrad.autograd.native_hooks import native_hook as native_hook
def neg_(self: _Tensor) -> _Tensor:
    r"""In-place form of `neg`."""
def negative_(self: _Tensor) -> _Tensor:
    r"""In-place form of `negative`."""
newaxis: None
from fastgrad import nn as nn
from fastgrad.autograd.modes import no_grad as no_grad
from fastgrad import ops as ops
from fastgrad import optim as optim
from fastgrad import overrides as overrides
from fastgrad import package as package
pi: _float
preserve_format: _memory_format
from fastgrad import profiler as profiler
from fastgrad.dtypes import promote_types as promote_types
def rad2deg_(self: _Tensor) -> _Tensor:
    r"""In-place form of `rad2deg`."""
def reciprocal_(self: _Tensor) -> _Tensor:
    r"""In-place form of `reciprocal`."""
def relu_(self: _Tensor) -> _Tensor:
    r"""In-place form of `relu`."""
from fastgrad.functions.changing import resize_as_ as resize_as_
from fastgrad import return_types as return_types
from fastgrad.functions.special import round_ as round_
def rsqrt_(self: _Tensor) -> _Tensor:
    r"""In-place form of `rsqrt`."""
from fastgrad.serialization import save as save
from fastgrad.random import seed as seed
from fastgrad import serialization as serialization
from fastgrad.autograd.anomaly import set_anomaly_enabled as set_anomaly_enabled
from fastgrad.amp.switches import set_autocast_cache_enabled as set_autocast_cache_enabled
from fastgrad.amp.switches import set_autocast_cpu_dtype as set_autocast_cpu_dtype
from fastgrad.amp.switches import set_autocast_cpu_enabled as set_autocast_cpu_enabled
from fastgrad.amp.switches import set_autocast_dtype as set_autocast_dtype
from fastgrad.amp.switches import set_autocast_enabled as set_autocast_enabled
from fastgrad.amp.switches import set_autocast_gpu_dtype as set_autocast_gpu_dtype
from fastgrad.places import set_default_device as set_default_device
from fastgrad.dtypes import set_default_dtype as set_default_dtype
from fastgrad.settings import set_default_tensor_type as set_default_tensor_type
from fastgrad.settings import set_deterministic_debug_mode as set_deterministic_debug_mode
from fastgrad.cuda.precision import set_float32_matmul_precision as set_float32_matmul_precision
from fastgrad.settings import set_flush_denormal as set_flush_denormal
from fastgrad.autograd.modes import set_grad_enabled as set_grad_enabled
from fastgrad.settings import set_num_interop_threads as set_num_interop_threads
from fastgrad.native.host.threads import set_num_threads as set_num_threads
from fastgrad.formatting import set_printoptions as set_printoptions
from fastgrad.random import set_rng_state as set_rng_state
from fastgrad.settings import set_warn_always as set_warn_always
def sigmoid_(self: _Tensor) -> _Tensor:
    r"""In-place form of `sigmoid`."""
from fastgrad import signal as signal
def sin_(self: _Tensor) -> _Tensor:
    r"""In-place form of `sin`."""
def sinc_(self: _Tensor) -> _Tensor:
    r"""In-place form of `sinc`."""
def sinh_(self: _Tensor) -> _Tensor:
    r"""In-place form of `sinh`."""
from fastgrad import special as special
def sqrt_(self: _Tensor) -> _Tensor:
    r"""In-place form of `sqrt`."""
def square_(self: _Tensor) -> _Tensor:
    r"""In-place form of `square`."""
strided: _layout
from fastgrad import summaries as summaries
from fastgrad.summaries.recording import summary as summary
from fastgrad.control import sym_float as sym_float
from fastgrad.control import sym_fresh_size as sym_fresh_size
from fastgrad.control import sym_int as sym_int
from fastgrad.control import sym_ite as sym_ite
from fastgrad.control import sym_max as sym_max
from fastgrad.control import sym_min as sym_min
from fastgrad.control import sym_not as sym_not
from fastgrad.control import sym_sqrt as sym_sqrt
from fastgrad.control import sym_sum as sym_sum
def tan_(self: _Tensor) -> _Tensor:
    r"""In-place form of `tan`."""
def tanh_(self: _Tensor) -> _Tensor:
    r"""In-place form of `tanh`."""
from fastgrad import testing as testing
def trunc_(self: _Tensor) -> _Tensor:
    r"""In-place form of `trunc`."""
from fastgrad.inspection import typename as typename
uint16: _dtype
uint32: _dtype
uint64: _dtype
uint8: _dtype
from fastgrad.settings import use_deterministic_algorithms as use_deterministic_algorithms
from fastgrad import utils as utils
from fastgrad import version as version
from fastgrad import viz as viz
from fastgrad.func.mapping import vmap as vmap
from fastgrad.warm import warmup as warmup
from fastgrad.control import while_loop as while_loop
def xlogy_(self: _Tensor, other: _Tensor | _int | _float | _complex) -> _Tensor:
    r"""In-place form of `xlogy`."""
def zero_(self: _Tensor) -> _Tensor:
    r"""Set all elements to zero."""
def is_tensor(obj: object) -> _bool: ...
def abs(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""The absolute value; at zero its gradient is zero."""
def absolute(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""The absolute value; at zero its gradient is zero."""
def acos(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""The angle between 0 and pi whose cosine is the input; NaN beyond 1."""
def acosh(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""The number, not negative, whose hyperbolic cosine is the input; NaN below 1."""
def adaptive_avg_pool1d(input: _Tensor, output_size: _int | tuple[_int, ...]) -> _Tensor:
    r"""The means of `output_size` equal parts of a signal (N, C, L) or (C, L); see `adaptive_avg_pool2d`."""
def adaptive_max_pool1d(input: _Tensor, output_size: _int | _Sequence[_int]) -> tuple[_Tensor, _Tensor]:
    r"""`nn.functional.adaptive_max_pool1d` with the indices of the maxima."""
def add(input: _Tensor | _int | _float | _complex, other: _Tensor | _int | _float | _complex, *, alpha: _float = 1) -> _Tensor:
    r"""``input + alpha * other``, broadcast and promoted."""
def addbmm(input: _Tensor, batch1: _Tensor, batch2: _Tensor, *, beta: _Tensor | _int | _float | _complex = 1, alpha: _Tensor | _int | _float | _complex = 1) -> _Tensor:
    r"""``beta * input`` plus `alpha` times the sum of the products of all pairs of matrices. See `baddbmm`."""
def addcdiv(input: _Tensor, tensor1: _Tensor, tensor2: _Tensor, *, value: _Tensor | _int | _float | _complex = 1) -> _Tensor:
    r"""``input + value * tensor1 / tensor2``, broadcast and promoted. See `addcmul`."""
def addcmul(input: _Tensor, tensor1: _Tensor, tensor2: _Tensor, *, value: _int | _float | _complex = 1) -> _Tensor:
    r"""``input + value * tensor1 * tensor2``, broadcast and promoted."""
def addmm(input: _Tensor, mat1: _Tensor, mat2: _Tensor, *, beta: _float = 1, alpha: _float = 1) -> _Tensor:
    r"""``beta * input + alpha * (mat1 @ mat2)``; `input` is broadcast to the product."""
def addmv(input: _Tensor, mat: _Tensor, vec: _Tensor, *, beta: _Tensor | _int | _float | _complex = 1, alpha: _Tensor | _int | _float | _complex = 1) -> _Tensor:
    r"""``beta * input + alpha * (mat @ vec)``. See `addmm`."""
def addr(input: _Tensor, vec1: _Tensor, vec2: _Tensor, *, beta: _Tensor | _int | _float | _complex = 1, alpha: _Tensor | _int | _float | _complex = 1) -> _Tensor:
    r"""``beta * input + alpha * outer(vec1, vec2)``. See `addmm`."""
def adjoint(input: _Tensor) -> _Tensor:
    r"""The conjugates of matrices, transposed: those of the last two dimensions."""
def affine_grid_generator(theta: _Any, size: _Sequence[_int], align_corners: _bool) -> _Tensor:
    r"""The places that affine maps send those of images or volumes to: `nn.functional.affine_grid`."""
def alias_copy(*operands: _Any, **named: _Any) -> _Tensor:
    r"""A copy of what `alias` shows, with its arguments."""
@_overload
def all(input: _Tensor, dim: _int | _Sequence[_int] | None = None, keepdim: _bool = False) -> _Tensor:
    r"""Whether all elements are not zero. See `sum` for the parameters."""
@_overload
def all(input: _Tensor, axis: _int | _Sequence[_int] | None = None, keepdims: _bool = False) -> _Tensor:
    r"""Whether all elements are not zero. See `sum` for the parameters."""
def allclose(input: _Tensor, other: _Tensor | _int | _float | _complex, rtol: _float = 1e-05, atol: _float = 1e-08, equal_nan: _bool = False) -> _bool:
    r"""Whether all elements are close; see `isclose`."""
def alpha_dropout(input: _Tensor, p: _float = 0.5, training: _bool = False, inplace: _bool = False) -> _Tensor:
    r"""Elements set to the negative limit of `selu` with probability `p`; mean and variance stay."""
def alpha_dropout_(input: _Tensor, p: _float, train: _bool) -> _Tensor:
    r"""`nn.functional.alpha_dropout` in place."""
@_overload
def amax(input: _Tensor, dim: _int | _Sequence[_int] | None = ..., keepdim: _bool = False) -> _Tensor:
    r"""The largest value over dimensions; its gradient is shared among equals. See `sum` for the parameters."""
@_overload
def amax(input: _Tensor, axis: _int | _Sequence[_int] | None = ..., keepdims: _bool = False) -> _Tensor:
    r"""The largest value over dimensions; its gradient is shared among equals. See `sum` for the parameters."""
@_overload
def amin(input: _Tensor, dim: _int | _Sequence[_int] | None = ..., keepdim: _bool = False) -> _Tensor:
    r"""The smallest value over dimensions; its gradient is shared among equals. See `sum` for the parameters."""
@_overload
def amin(input: _Tensor, axis: _int | _Sequence[_int] | None = ..., keepdims: _bool = False) -> _Tensor:
    r"""The smallest value over dimensions; its gradient is shared among equals. See `sum` for the parameters."""
@_overload
def aminmax(input: _Tensor, *, dim: _int | _Sequence[_int] | None = None, keepdim: _bool = False) -> _return_types.aminmax:
    r"""The smallest and the largest value, over all dimensions or one."""
@_overload
def aminmax(input: _Tensor, *, axis: _int | _Sequence[_int] | None = None, keepdims: _bool = False) -> _return_types.aminmax:
    r"""The smallest and the largest value, over all dimensions or one."""
def angle(input: _Tensor) -> _Tensor:
    r"""The angles of complex numbers in radians; of real ones 0, or pi where they are negative."""
@_overload
def any(input: _Tensor, dim: _int | _Sequence[_int] | None = None, keepdim: _bool = False) -> _Tensor:
    r"""Whether any element is not zero. See `sum` for the parameters."""
@_overload
def any(input: _Tensor, axis: _int | _Sequence[_int] | None = None, keepdims: _bool = False) -> _Tensor:
    r"""Whether any element is not zero. See `sum` for the parameters."""
def arange(*bounds: _int | _float | _complex, step: _int | _float | _complex = 1, start: _int | _float | _complex | None = None, end: _int | _float | _complex | None = None, dtype: _dtype | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False, layout: _layout | None = None, pin_memory: _bool = False) -> _Tensor:
    r"""``start, start + step, ...`` below `end`."""
def arccos(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""The angle between 0 and pi whose cosine is the input; NaN beyond 1."""
def arccosh(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""The number, not negative, whose hyperbolic cosine is the input; NaN below 1."""
def arcsin(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""The angle between -pi/2 and pi/2 whose sine is the input; NaN beyond 1."""
def arcsinh(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""The number whose hyperbolic sine is the input."""
def arctan(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""The angle between -pi/2 and pi/2 whose tangent is the input."""
def arctan2(input: _Tensor | _int | _float | _complex, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
    r"""The angle between -pi and pi of the point with the ordinate `input` and the abscissa `other`."""
def arctanh(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""The number whose hyperbolic tangent is the input; NaN beyond 1."""
@_overload
def argmax(input: _Tensor, dim: _int | None = None, keepdim: _bool = False) -> _Tensor:
    r"""The position of the largest value: the first of equals, a NaN before all."""
@_overload
def argmax(input: _Tensor, axis: _int | None = None, keepdims: _bool = False) -> _Tensor:
    r"""The position of the largest value: the first of equals, a NaN before all."""
@_overload
def argmin(input: _Tensor, dim: _int | None = None, keepdim: _bool = False) -> _Tensor:
    r"""The position of the smallest value. See `argmax`."""
@_overload
def argmin(input: _Tensor, axis: _int | None = None, keepdims: _bool = False) -> _Tensor:
    r"""The position of the smallest value. See `argmax`."""
@_overload
def argsort(input: _Tensor, dim: _int = -1, descending: _bool = False, stable: _bool = True) -> _Tensor:
    r"""The places of the elements of a dimension in order. See `sort`."""
@_overload
def argsort(input: _Tensor, axis: _int = -1, descending: _bool = False, stable: _bool = True) -> _Tensor:
    r"""The places of the elements of a dimension in order. See `sort`."""
def argwhere(input: _Tensor) -> _Tensor:
    r"""The places of the elements that are not zero, a row for each. See `nonzero`."""
def as_strided(input: _Tensor, size: _Sequence[_int], stride: _Sequence[_int], storage_offset: _int | None = None) -> _Tensor:
    r"""A view of the storage of a tensor with sizes, strides and an offset of its own."""
def as_strided_copy(*operands: _Any, **named: _Any) -> _Tensor:
    r"""A copy of what `as_strided` shows, with its arguments."""
def as_strided_scatter(input: _Tensor, src: _Tensor, size: _Sequence[_int], stride: _Sequence[_int], storage_offset: _int | None = None) -> _Tensor:
    r"""A copy of a tensor in which the elements that `as_strided` would show are those of `src`."""
def as_tensor(data: _Any, dtype: _dtype | None = None, device: _device | _str | _int | None = None, *, layout: _layout | None = None, pin_memory: _bool = False) -> _Tensor:
    r"""A tensor of data, sharing memory where it can: with tensors and arrays of the right dtype."""
def asarray(obj: _Any, *, dtype: _dtype | None = None, device: _device | None = None, copy: _bool | None = None, requires_grad: _bool | None = None, layout: _layout | None = None, pin_memory: _bool = False) -> _Tensor:
    r"""A tensor of what an object holds, over its memory where that is possible."""
def asin(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""The angle between -pi/2 and pi/2 whose sine is the input; NaN beyond 1."""
def asinh(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""The number whose hyperbolic sine is the input."""
def atan(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""The angle between -pi/2 and pi/2 whose tangent is the input."""
def atan2(input: _Tensor | _int | _float | _complex, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
    r"""The angle between -pi and pi of the point with the ordinate `input` and the abscissa `other`."""
def atanh(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""The number whose hyperbolic tangent is the input; NaN beyond 1."""
def atleast_1d(*tensors: _Tensor | _Sequence[_Tensor]) -> _Tensor:
    r"""Tensors with one dimension at least; of several a tuple."""
def atleast_2d(*tensors: _Tensor | _Sequence[_Tensor]) -> _Tensor:
    r"""Tensors with two dimensions at least; new ones stand in front."""
def atleast_3d(*tensors: _Tensor | _Sequence[_Tensor]) -> _Tensor:
    r"""Tensors with three dimensions at least; a vector lies along the second."""
def avg_pool1d(input: _Tensor, kernel_size: _int | tuple[_int, ...], stride: _int | tuple[_int, ...] | None = None, padding: _int | tuple[_int, ...] = 0, ceil_mode: _bool = False, count_include_pad: _bool = True) -> _Tensor:
    r"""The mean of each window of a signal (N, C, L) or (C, L); see `avg_pool2d`."""
def baddbmm(input: _Tensor, batch1: _Tensor, batch2: _Tensor, *, beta: _int | _float | _complex = 1, alpha: _int | _float | _complex = 1) -> _Tensor:
    r"""``beta * input + alpha * bmm(batch1, batch2)``."""
def bartlett_window(window_length: _int, periodic: _bool = True, *, dtype: _dtype | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False, layout: _layout | None = None, pin_memory: _bool = False) -> _Tensor:
    r"""``1 - |2 k / n - 1|``; see `hann_window`."""
def batch_norm(input: _Tensor, weight: _Tensor, bias: _Tensor | None, running_mean: _Tensor | None, running_var: _Tensor | None, training: _bool, momentum: _float, eps: _float, cudnn_enabled: _bool) -> _Tensor:
    r"""`nn.functional.batch_norm` with its arguments in another order; `cudnn_enabled` changes nothing."""
def bernoulli(input: _Tensor, p: _float | None = None, *, generator: _Generator | None = None) -> _Tensor:
    r"""Ones with the probabilities that the elements are, and zeros."""
def bilinear(input1: _Tensor, input2: _Tensor, weight: _Tensor, bias: _Tensor | None = None) -> _Tensor:
    r"""``y_o = sum over i, j of input1_i weight_oij input2_j + bias_o``."""
def binary_cross_entropy_with_logits(input: _Tensor, target: _Tensor, weight: _Tensor | None = None, pos_weight: _Tensor | None = None, reduction: _int = 0) -> _Tensor:
    r"""`nn.functional.binary_cross_entropy_with_logits`, with a number for `reduction`: see `kl_div`."""
def bincount(input: _Tensor, weights: _Tensor | None = None, minlength: _int = 0) -> _Tensor:
    r"""How often each non-negative integer stands in a vector."""
def binomial(count: _Tensor, prob: _Tensor, generator: _Generator | None = None) -> _Tensor:
    r"""How many of so many trials succeed."""
def bitwise_and(input: _Tensor | _int | _float | _complex, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
    r"""The bits that both integers have; of masks, where both hold."""
def bitwise_left_shift(input: _Tensor | _int | _float | _complex, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
    r"""The bits of `input` moved up by `other` places."""
def bitwise_not(input: _Tensor) -> _Tensor:
    r"""All bits of integers inverted; of a mask, where it does not hold."""
def bitwise_or(input: _Tensor | _int | _float | _complex, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
    r"""The bits that one of two integers has; of masks, where one holds."""
def bitwise_right_shift(input: _Tensor | _int | _float | _complex, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
    r"""The bits of `input` moved down by `other` places; the sign stays."""
def bitwise_xor(input: _Tensor | _int | _float | _complex, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
    r"""The bits in which two integers differ; of masks, where they do."""
def blackman_window(window_length: _int, periodic: _bool = True, *, dtype: _dtype | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False, layout: _layout | None = None, pin_memory: _bool = False) -> _Tensor:
    r"""``0.42 - 0.5 cos(2 pi k / n) + 0.08 cos(4 pi k / n)``; see `hann_window`."""
def block_diag(*tensors: _Tensor | _Sequence[_Tensor]) -> _Tensor:
    r"""A matrix of matrices along its diagonal, with zeros beside them."""
def bmm(input: _Tensor, mat2: _Tensor) -> _Tensor:
    r"""The products of two equally long batches of matrices."""
def broadcast_shapes(*shapes: _Any) -> _Tensor:
    r"""The shape that tensors of these shapes are broadcast to."""
def broadcast_tensors(*tensors: _Tensor | _Sequence[_Tensor]) -> tuple[_Tensor, ...]:
    r"""Tensors expanded to their common shape."""
def broadcast_to(input: _Tensor, size: _Sequence[_int]) -> _Tensor:
    r"""Expanded to sizes."""
def bucketize(input: _Tensor | _int | _float | _complex, boundaries: _Tensor, *, out_int32: _bool = False, right: _bool = False) -> _Tensor:
    r"""The number of the interval between boundaries, which are in order, that each value lies in."""
def cartesian_prod(*tensors: _Tensor | _Sequence[_Tensor]) -> _Tensor:
    r"""All combinations of elements of vectors, as rows."""
@_overload
def cat(tensors: _Sequence[_Tensor], dim: _int = 0) -> _Tensor:
    r"""Tensors one behind the other along a dimension; all other sizes must agree."""
@_overload
def cat(tensors: _Sequence[_Tensor], axis: _int = 0) -> _Tensor:
    r"""Tensors one behind the other along a dimension; all other sizes must agree."""
def cdist(x1: _Tensor, x2: _Tensor, p: _float = 2.0, compute_mode: _str = 'use_mm_for_euclid_dist_if_necessary') -> _Tensor:
    r"""The distances of order `p` between all rows of two tensors."""
def ceil(input: _Tensor) -> _Tensor: ...
def celu(input: _Tensor, alpha: _float = 1.0, inplace: _bool = False) -> _Tensor:
    r"""X where it is positive, elsewhere ``alpha (exp(x / alpha) - 1)`` (Barron 2017)."""
def celu_(input: _Tensor, alpha: _float = 1.0) -> _Tensor:
    r"""`celu`, in place."""
def chain_matmul(*matrices: _Any) -> _Tensor:
    r"""The product of matrices, in the order with the fewest multiplications."""
def channel_shuffle(input: _Tensor, groups: _int) -> _Tensor:
    r"""Channels in another order: the first of each group, then the second of each, and so on (Zhang et al. 2018)."""
def cholesky(input: _Tensor, upper: _bool = False) -> _Tensor:
    r"""The Cholesky decomposition. See `linalg.cholesky`."""
def cholesky_inverse(L: _Any, upper: _bool = False) -> _Tensor:
    r"""The inverse of ``L L'``, or with `upper` of ``U' U``, by Cholesky factors."""
def cholesky_solve(input: _Tensor, L: _Tensor, upper: _bool = False) -> _Tensor:
    r"""The solution X of ``L L' X = input``, or with `upper` of ``U' U X = input``."""
@_overload
def chunk(input: _Tensor, chunks: _int, dim: _int = 0) -> tuple[_Tensor, ...]:
    r"""At most `chunks` views of equal runs of a dimension."""
@_overload
def chunk(input: _Tensor, chunks: _int, axis: _int = 0) -> tuple[_Tensor, ...]:
    r"""At most `chunks` views of equal runs of a dimension."""
def clamp(input: _Tensor, min: _int | _float | _complex | _Tensor | None = None, max: _int | _float | _complex | _Tensor | None = None) -> _Tensor:
    r"""``min(max(input, min), max)``, element by element."""
def clamp_max(input: _Tensor, max: _Tensor | _int | _float | _complex | None) -> _Tensor:
    r"""The smaller of element and bound. See `clamp`."""
def clamp_min(input: _Tensor, min: _Tensor | _int | _float | _complex | None) -> _Tensor:
    r"""The larger of element and bound. See `clamp`."""
def clip(input: _Tensor, min: _int | _float | _complex | _Tensor | None = None, max: _int | _float | _complex | _Tensor | None = None) -> _Tensor:
    r"""``min(max(input, min), max)``, element by element."""
def clone(input: _Tensor, *, memory_format: _memory_format | None = None) -> _Tensor:
    r"""A copy of a tensor, with history; see `Tensor.clone`."""
def column_stack(tensors: _Sequence[_Tensor]) -> _Tensor:
    r"""Tensors side by side, vectors as columns."""
def combinations(input: _Tensor, r: _int = 2, with_replacement: _bool = False) -> _Tensor:
    r"""All combinations of `r` elements of a vector, as rows."""
def complex(real: _Any, imag: _Any) -> _Tensor:
    r"""Complex numbers of their real and imaginary parts, which are broadcast."""
@_overload
def concat(tensors: _Sequence[_Tensor], dim: _int = 0) -> _Tensor:
    r"""Tensors one behind the other along a dimension; all other sizes must agree."""
@_overload
def concat(tensors: _Sequence[_Tensor], axis: _int = 0) -> _Tensor:
    r"""Tensors one behind the other along a dimension; all other sizes must agree."""
@_overload
def concatenate(tensors: _Sequence[_Tensor], dim: _int = 0) -> _Tensor:
    r"""Tensors one behind the other along a dimension; all other sizes must agree."""
@_overload
def concatenate(tensors: _Sequence[_Tensor], axis: _int = 0) -> _Tensor:
    r"""Tensors one behind the other along a dimension; all other sizes must agree."""
def conj(input: _Tensor) -> _Tensor:
    r"""The complex conjugates, as a view; of a real tensor itself."""
def conj_physical(input: _Tensor) -> _Tensor:
    r"""The complex conjugates, in memory of their own; of a real tensor itself."""
def constant_pad_nd(input: _Tensor, pad: _Sequence[_int], value: _float = 0) -> _Tensor:
    r"""The tensor with more elements of one value around it: `nn.functional.pad` in the mode "constant"."""
def conv1d(input: _Tensor, weight: _Tensor, bias: _Tensor | None = None, stride: _int | tuple[_int, ...] = 1, padding: _int | tuple[_int, ...] | _str = 0, dilation: _int | tuple[_int, ...] = 1, groups: _int = 1) -> _Tensor:
    r"""The convolution of signals; see `conv2d`, with one dimension less."""
def conv2d(input: _Tensor, weight: _Tensor, bias: _Tensor | None = None, stride: _int | tuple[_int, ...] = 1, padding: _int | tuple[_int, ...] | _str = 0, dilation: _int | tuple[_int, ...] = 1, groups: _int = 1) -> _Tensor:
    r"""The convolution of images, which neural networks define as the cross-correlation::"""
def conv3d(input: _Tensor, weight: _Tensor, bias: _Tensor | None = None, stride: _int | tuple[_int, ...] = 1, padding: _int | tuple[_int, ...] | _str = 0, dilation: _int | tuple[_int, ...] = 1, groups: _int = 1) -> _Tensor:
    r"""The convolution of volumes; see `conv2d`, with one dimension more."""
def conv_tbc(input: _Tensor, weight: _Tensor, bias: _Tensor, pad: _int = 0) -> _Tensor:
    r"""The convolution of sequences whose dimensions are time, batch and channels."""
def conv_transpose1d(input: _Tensor, weight: _Tensor, bias: _Tensor | None = None, stride: _int | tuple[_int, ...] = 1, padding: _int | tuple[_int, ...] = 0, output_padding: _int | tuple[_int, ...] = 0, groups: _int = 1, dilation: _int | tuple[_int, ...] = 1) -> _Tensor:
    r"""The transposed convolution of signals; see `conv_transpose2d`, with one dimension less."""
def conv_transpose2d(input: _Tensor, weight: _Tensor, bias: _Tensor | None = None, stride: _int | tuple[_int, ...] = 1, padding: _int | tuple[_int, ...] = 0, output_padding: _int | tuple[_int, ...] = 0, groups: _int = 1, dilation: _int | tuple[_int, ...] = 1) -> _Tensor:
    r"""The transpose of `conv2d` as a linear map of images: what carries gradients back through a convolution."""
def conv_transpose3d(input: _Tensor, weight: _Tensor, bias: _Tensor | None = None, stride: _int | tuple[_int, ...] = 1, padding: _int | tuple[_int, ...] = 0, output_padding: _int | tuple[_int, ...] = 0, groups: _int = 1, dilation: _int | tuple[_int, ...] = 1) -> _Tensor:
    r"""The transposed convolution of volumes; see `conv_transpose2d`, with one dimension more."""
def convolution(input: _Tensor, weight: _Tensor, bias: _Tensor | None, stride: _Sequence[_int], padding: _Sequence[_int], dilation: _Sequence[_int], transposed: _bool, output_padding: _Sequence[_int], groups: _int) -> _Tensor:
    r"""The convolution that the dimensions of the weights stand for: `nn.functional.conv1d` to `conv_transpose3d`."""
def copysign(input: _Tensor | _int | _float | _complex, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
    r"""`input` with the sign of `other`, that of a zero as well."""
def corrcoef(input: _Tensor) -> _Tensor:
    r"""The correlations of variables, which are rows: covariances of what is scaled to the deviation 1."""
def cos(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""The cosine of angles in radians."""
def cosh(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""The hyperbolic cosine."""
def cosine_embedding_loss(input1: _Tensor, input2: _Tensor, target: _Tensor, margin: _float = 0.0, reduction: _int = 0) -> _Tensor:
    r"""`nn.functional.cosine_embedding_loss`, with a number for `reduction`: see `kl_div`."""
def cosine_similarity(x1: _Tensor, x2: _Tensor, dim: _int = 1, eps: _float = 1e-08) -> _Tensor:
    r"""``sum(x1 x2) / (max(|x1|, eps) max(|x2|, eps))`` along a dimension; shapes broadcast."""
@_overload
def count_nonzero(input: _Tensor, dim: _int | _Sequence[_int] | None = None) -> _Tensor:
    r"""How many elements are not zero, over all or some dimensions."""
@_overload
def count_nonzero(input: _Tensor, axis: _int | _Sequence[_int] | None = None) -> _Tensor:
    r"""How many elements are not zero, over all or some dimensions."""
def cov(input: _Tensor, *, correction: _int = 1, fweights: _Tensor | None = None, aweights: _Tensor | None = None) -> _Tensor:
    r"""The covariances of variables, which are rows."""
@_overload
def cross(input: _Tensor, other: _Tensor, dim: _int | None = None) -> _Tensor:
    r"""The vector products of vectors of three elements."""
@_overload
def cross(input: _Tensor, other: _Tensor, axis: _int | None = None) -> _Tensor:
    r"""The vector products of vectors of three elements."""
def ctc_loss(log_probs: _Any, targets: _Any, input_lengths: _Any, target_lengths: _Any, blank: _int = 0, reduction: _int = 0, zero_infinity: _bool = False) -> _Tensor:
    r"""`nn.functional.ctc_loss`, with a number for `reduction`: see `kl_div`."""
@_overload
def cummax(input: _Tensor, dim: _int) -> _return_types.cummax:
    r"""The largest element so far along a dimension, and where it stands."""
@_overload
def cummax(input: _Tensor, axis: _int) -> _return_types.cummax:
    r"""The largest element so far along a dimension, and where it stands."""
@_overload
def cummin(input: _Tensor, dim: _int) -> _return_types.cummin:
    r"""The smallest element so far along a dimension, and where it stands. See `cummax`."""
@_overload
def cummin(input: _Tensor, axis: _int) -> _return_types.cummin:
    r"""The smallest element so far along a dimension, and where it stands. See `cummax`."""
@_overload
def cumprod(input: _Tensor, dim: _int, *, dtype: _dtype | None = None) -> _Tensor:
    r"""Running products along a dimension."""
@_overload
def cumprod(input: _Tensor, axis: _int, *, dtype: _dtype | None = None) -> _Tensor:
    r"""Running products along a dimension."""
@_overload
def cumsum(input: _Tensor, dim: _int, *, dtype: _dtype | None = None) -> _Tensor:
    r"""Running sums along a dimension."""
@_overload
def cumsum(input: _Tensor, axis: _int, *, dtype: _dtype | None = None) -> _Tensor:
    r"""Running sums along a dimension."""
@_overload
def cumulative_trapezoid(y: _Any, x: _Any = None, *, dx: _int | _float | _complex | None = None, dim: _int = -1) -> _Tensor:
    r"""The running integral of samples along a dimension. See `trapezoid`."""
@_overload
def cumulative_trapezoid(y: _Any, x: _Any = None, *, dx: _int | _float | _complex | None = None, axis: _int = -1) -> _Tensor:
    r"""The running integral of samples along a dimension. See `trapezoid`."""
def deg2rad(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""Angles in degrees as radians."""
def det(input: _Tensor) -> _Tensor:
    r"""The determinants of square matrices."""
def detach(input: _Tensor) -> _Tensor:
    r"""The same elements without their history. See `Tensor.detach`."""
def detach_copy(*operands: _Any, **named: _Any) -> _Tensor:
    r"""A copy of what `detach` shows, with its arguments."""
def diag(input: _Tensor, diagonal: _int = 0) -> _Tensor:
    r"""A vector as diagonal of a matrix, or the diagonal of a matrix as a copy."""
def diag_embed(input: _Tensor, offset: _int = 0, dim1: _int = -2, dim2: _int = -1) -> _Tensor:
    r"""Matrices with the last dimension as their diagonal and zeros beside it."""
def diagflat(input: _Tensor, offset: _int = 0) -> _Tensor:
    r"""All elements as the diagonal of a matrix."""
def diagonal(input: _Tensor, offset: _int = 0, dim1: _int = 0, dim2: _int = 1) -> _Tensor:
    r"""A view of a diagonal, as last dimension."""
def diagonal_copy(*operands: _Any, **named: _Any) -> _Tensor:
    r"""A copy of what `diagonal` shows, with its arguments."""
def diagonal_scatter(input: _Tensor, src: _Tensor | _int | _float | _complex, offset: _int = 0, dim1: _int = 0, dim2: _int = 1) -> _Tensor:
    r"""A copy with `src` on a diagonal."""
@_overload
def diff(input: _Tensor, n: _int = 1, dim: _int = -1, prepend: _Tensor | None = None, append: _Tensor | None = None) -> _Tensor:
    r"""Differences between neighbours along a dimension, taken `n` times."""
@_overload
def diff(input: _Tensor, n: _int = 1, axis: _int = -1, prepend: _Tensor | None = None, append: _Tensor | None = None) -> _Tensor:
    r"""Differences between neighbours along a dimension, taken `n` times."""
def digamma(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""The derivative of the logarithm of the gamma function; NaN at negative whole numbers."""
def dist(input: _Tensor, other: _Tensor | _int | _float | _complex, p: _float = 2) -> _Tensor:
    r"""The norm of order `p` of the difference of two tensors."""
def div(input: _Tensor | _int | _float | _complex, other: _Tensor | _int | _float | _complex, *, rounding_mode: _str | None = None) -> _Tensor:
    r"""``input / other``; integers give floats unless the quotient is rounded."""
def divide(input: _Tensor | _int | _float | _complex, other: _Tensor | _int | _float | _complex, *, rounding_mode: _str | None = None) -> _Tensor:
    r"""``input / other``; integers give floats unless the quotient is rounded."""
def dot(input: _Tensor, tensor: _Tensor) -> _Tensor:
    r"""The sum of the products of two vectors' elements."""
def dropout(input: _Tensor, p: _float, train: _bool) -> _Tensor:
    r"""`nn.functional.dropout`, which has to be told whether it is training."""
def dropout_(input: _Tensor, p: _float, train: _bool) -> _Tensor:
    r"""`dropout` in place."""
def dsplit(input: _Tensor, indices_or_sections: _Any) -> tuple[_Tensor, ...]:
    r"""The same along the third dimension."""
def dstack(tensors: _Sequence[_Tensor]) -> _Tensor:
    r"""Tensors behind each other, along the third dimension."""
def einsum(*args: _Any) -> _Tensor:
    r"""Sums of products of tensors whose dimensions have names (Einstein's notation)."""
def embedding(weight: _Tensor, indices: _Tensor, padding_idx: _int = -1, scale_grad_by_freq: _bool = False, sparse: _bool = False) -> _Tensor:
    r"""`nn.functional.embedding` with the table first; a `padding_idx` of -1 says that there is none."""
def embedding_bag(weight: _Tensor, indices: _Tensor, offsets: _Tensor, scale_grad_by_freq: _bool = False, mode: _int = 0, sparse: _bool = False, per_sample_weights: _Any = None, include_last_offset: _bool = False, padding_idx: _int | None = None) -> tuple[_Tensor, _Tensor, _Tensor, _Tensor]:
    r"""`nn.functional.embedding_bag` with the table first and a number for the mode, and what it finds on its way."""
def embedding_renorm_(input: _Tensor, indices: _Tensor, max_norm: _float, norm_type: _float) -> _Tensor:
    r"""Shorten the rows of a table that are named and longer than `max_norm`, in place and without a history."""
@_overload
def empty(*size: _int | _Sequence[_int], dtype: _dtype | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False, memory_format: _memory_format | None = None, layout: _layout | None = None, pin_memory: _bool = False) -> _Tensor:
    r"""A tensor whose elements are not set."""
@_overload
def empty(size: _int | _Sequence[_int], *, dtype: _dtype | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False, memory_format: _memory_format | None = None, layout: _layout | None = None, pin_memory: _bool = False) -> _Tensor:
    r"""A tensor whose elements are not set."""
def empty_like(input: _Tensor, *, dtype: _dtype | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False, memory_format: _memory_format | None = None, layout: _layout | None = None, pin_memory: _bool = False) -> _Tensor:
    r"""A tensor of the same sizes whose elements are not set."""
def empty_permuted(size: _int | _Sequence[_int], physical_layout: _Any, *, dtype: _dtype | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False, layout: _layout | None = None, pin_memory: _bool = False) -> _Tensor:
    r"""A tensor without gaps whose elements are not set; `physical_layout` names its dimensions from the outermost on."""
def empty_strided(size: _int | _Sequence[_int], stride: _int | _Sequence[_int], *, dtype: _dtype | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False, layout: _layout | None = None, pin_memory: _bool = False) -> _Tensor:
    r"""A tensor with the given sizes and strides whose elements are not set."""
def eq(input: _Tensor | _int | _float | _complex, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
    r"""Whether ``input == other``."""
def equal(input: _Tensor, other: _Tensor | _int | _float | _complex) -> _bool:
    r"""Whether two tensors have the same sizes and elements; NaN equals nothing."""
def erf(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""The error function, ``2 / sqrt(pi)`` times the integral of ``exp(-t ** 2)`` from 0 to the input."""
def erfc(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""``1 - erf(input)``, exact where that is small."""
def erfinv(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""The number whose error function is the input; NaN beyond 1."""
def exp(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""The exponential."""
def exp2(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""``2 ** input``."""
def expand_copy(*operands: _Any, **named: _Any) -> _Tensor:
    r"""A copy of what `expand` shows, with its arguments."""
def expm1(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""``exp(input) - 1``, exact near zero."""
def eye(n: _int, m: _int | None = None, *, dtype: _dtype | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False, layout: _layout | None = None, pin_memory: _bool = False) -> _Tensor:
    r"""A matrix with ones on its diagonal."""
def feature_alpha_dropout(input: _Tensor, p: _float = 0.5, training: _bool = False, inplace: _bool = False) -> _Tensor:
    r"""`alpha_dropout` of whole channels of an input of shape (N, C, ...)."""
def feature_alpha_dropout_(input: _Tensor, p: _float, train: _bool) -> _Tensor:
    r"""`nn.functional.feature_alpha_dropout` in place."""
def feature_dropout(input: _Tensor, p: _float, train: _bool) -> _Tensor:
    r"""Zeros in place of whole channels, which are the second dimension: `nn.functional.dropout1d` and its kind."""
def feature_dropout_(input: _Tensor, p: _float, train: _bool) -> _Tensor:
    r"""`feature_dropout` in place."""
def fill(input: _Tensor, value: _Tensor | _int | _float | _complex) -> _Tensor:
    r"""A tensor like `input` in which all elements are `value`, a number or a tensor without dimensions."""
def fix(input: _Tensor) -> _Tensor: ...
def flatten(input: _Tensor, start_dim: _int = 0, end_dim: _int = -1) -> _Tensor:
    r"""The dimensions from `start_dim` to `end_dim` as one."""
@_overload
def flip(input: _Tensor, *dims: _int | _Sequence[_int]) -> _Tensor:
    r"""The elements in reverse order along dimensions."""
@_overload
def flip(input: _Tensor, dims: _int | _Sequence[_int]) -> _Tensor:
    r"""The elements in reverse order along dimensions."""
def fliplr(input: _Tensor) -> _Tensor:
    r"""The second dimension backwards."""
def flipud(input: _Tensor) -> _Tensor:
    r"""The first dimension backwards."""
def float_power(input: _Tensor, exponent: _Tensor | _int | _float | _complex) -> _Tensor:
    r"""``input ** exponent`` in float64, or in complex128 if one of them is complex."""
def floor(input: _Tensor) -> _Tensor: ...
def floor_divide(input: _Tensor, other: _Tensor | _int | _float | _complex) -> _Tensor: ...
def fmax(input: _Tensor | _int | _float | _complex, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
    r"""The larger of two elements; NaN only if both are."""
def fmin(input: _Tensor | _int | _float | _complex, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
    r"""The smaller of two elements; NaN only if both are."""
def fmod(input: _Tensor, other: _Tensor | _int | _float | _complex) -> _Tensor: ...
def frac(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""What stands behind the point, with the sign of the input."""
def frexp(input: _Tensor) -> _return_types.frexp:
    r"""Significands from 0.5 on below 1, and exponents of 2: ``input = mantissa * 2 ** exponent``."""
@_overload
def frobenius_norm(input: _Tensor, dim: _int | _Sequence[_int], keepdim: _bool = False) -> _Tensor:
    r"""The square root of the sum of squares over one or two dimensions, or all. Use `linalg.vector_norm`."""
@_overload
def frobenius_norm(input: _Tensor, axis: _int | _Sequence[_int], keepdims: _bool = False) -> _Tensor:
    r"""The square root of the sum of squares over one or two dimensions, or all. Use `linalg.vector_norm`."""
def from_dlpack(ext_tensor: _Any, *, device: _device | _str | _int | None = None, copy: _bool | None = None) -> _Tensor:
    r"""A tensor over the memory of an object of another library that speaks DLPack."""
def from_file(filename: _Any, shared: _bool | None = None, size: _int = 0, *, dtype: _dtype | None = None, requires_grad: _bool = False) -> _Tensor:
    r"""A tensor over the content of a file, which is mapped into memory."""
def from_numpy(ndarray: _np.ndarray) -> _Tensor:
    r"""A tensor over the memory of an array: changes of one are changes of the other."""
def frombuffer(buffer: _Any, *, dtype: _dtype, count: _int = -1, offset: _int = 0, requires_grad: _bool = False) -> _Tensor:
    r"""A tensor over the memory of an object that has Python's buffer protocol, such as a `bytearray`."""
def full(size: _Sequence[_int], fill_value: _int | _float | _complex, *, dtype: _dtype | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False, layout: _layout | None = None, pin_memory: _bool = False) -> _Tensor:
    r"""A tensor filled with a number."""
def full_like(input: _Tensor, fill_value: _int | _float | _complex, *, dtype: _dtype | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False, memory_format: _memory_format | None = None, layout: _layout | None = None, pin_memory: _bool = False) -> _Tensor:
    r"""A tensor of the same sizes filled with a number; see `empty_like`."""
@_overload
def gather(input: _Tensor, dim: _int, index: _Tensor) -> _Tensor:
    r"""``out[i][j] = input[index[i][j]][j]`` for dim 0, and so on for other dimensions."""
@_overload
def gather(input: _Tensor, axis: _int, index: _Tensor) -> _Tensor:
    r"""``out[i][j] = input[index[i][j]][j]`` for dim 0, and so on for other dimensions."""
def gcd(input: _Tensor | _int | _float | _complex, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
    r"""The greatest common divisor of two integers, which is not negative."""
def ge(input: _Tensor | _int | _float | _complex, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
    r"""Whether ``input >= other``."""
def geqrf(input: _Tensor) -> _return_types.geqrf:
    r"""The QR decomposition by LAPACK's reflectors, for `ormqr` and `linalg.householder_product`."""
def ger(input: _Tensor, vec2: _Tensor) -> _Tensor:
    r"""Another name of `outer`."""
@_overload
def gradient(input: _Tensor, *, spacing: _Any = None, dim: _int | _Sequence[_int] | None = None, edge_order: _int = 1) -> tuple[_Tensor, ...]:
    r"""Derivatives along dimensions, estimated from neighbours: of second order inside, of `edge_order` at the ends."""
@_overload
def gradient(input: _Tensor, *, spacing: _Any = None, axis: _int | _Sequence[_int] | None = None, edge_order: _int = 1) -> tuple[_Tensor, ...]:
    r"""Derivatives along dimensions, estimated from neighbours: of second order inside, of `edge_order` at the ends."""
def greater(input: _Tensor | _int | _float | _complex, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
    r"""Whether ``input > other``."""
def greater_equal(input: _Tensor | _int | _float | _complex, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
    r"""Whether ``input >= other``."""
def grid_sampler(input: _Tensor, grid: _Any, interpolation_mode: _int, padding_mode: _int, align_corners: _bool) -> _Tensor:
    r"""Images or volumes at the places of a grid. See `grid_sampler_2d`."""
def grid_sampler_2d(input: _Tensor, grid: _Tensor, interpolation_mode: _int, padding_mode: _int, align_corners: _bool) -> _Tensor:
    r"""Images at the places of a grid: `nn.functional.grid_sample` with its modes as numbers."""
def grid_sampler_3d(input: _Tensor, grid: _Any, interpolation_mode: _int, padding_mode: _int, align_corners: _bool) -> _Tensor:
    r"""Volumes at the places of a grid. See `grid_sampler_2d`."""
def group_norm(input: _Tensor, num_groups: _int, weight: _Tensor | None = None, bias: _Tensor | None = None, eps: _float = 1e-05) -> _Tensor:
    r"""`layer_norm` over groups of channels (Wu, He 2018)."""
def gru(input: _Tensor, *args: _Any, **kwargs: _Any) -> tuple[_Tensor, _Tensor]:
    r"""A stack of GRU layers; called as `lstm`, with one tensor as `hx`."""
def gru_cell(input: _Tensor, hx: _Tensor, w_ih: _Tensor, w_hh: _Tensor, b_ih: _Tensor | None = None, b_hh: _Tensor | None = None) -> _Tensor:
    r"""One step of a gated recurrent unit."""
def gt(input: _Tensor | _int | _float | _complex, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
    r"""Whether ``input > other``."""
def hamming_window(window_length: _int, periodic: _bool = True, alpha: _float = 0.54, beta: _float = 0.46, *, dtype: _dtype | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False, layout: _layout | None = None, pin_memory: _bool = False) -> _Tensor:
    r"""``alpha - beta cos(2 pi k / n)``; see `hann_window`."""
def hann_window(window_length: _int, periodic: _bool = True, *, dtype: _dtype | None = None, device: _device | None = None, requires_grad: _bool = False, layout: _layout | None = None, pin_memory: _bool = False) -> _Tensor:
    r"""``(1 - cos(2 pi k / n)) / 2``, where n is the length, or one less if the window is not `periodic`."""
def hardshrink(input: _Tensor, lambd: _float = 0.5) -> _Tensor:
    r"""X where its absolute value is above `lambd`, elsewhere zero."""
@_overload
def hash_tensor(input: _Tensor, dim: _int | _Sequence[_int] | None = None, *, keepdim: _bool = False, mode: _int = 0) -> _Tensor:
    r"""A number that tells tensors apart: the exclusive or of the bits of elements, over all or some dimensions."""
@_overload
def hash_tensor(input: _Tensor, axis: _int | _Sequence[_int] | None = None, *, keepdims: _bool = False, mode: _int = 0) -> _Tensor:
    r"""A number that tells tensors apart: the exclusive or of the bits of elements, over all or some dimensions."""
def heaviside(input: _Tensor, values: _Tensor | _int | _float | _complex) -> _Tensor:
    r"""0 where the input is negative, 1 where it is positive, and `values` where it is zero."""
def hinge_embedding_loss(input: _Tensor, target: _Tensor, margin: _float = 1.0, reduction: _int = 0) -> _Tensor:
    r"""`nn.functional.hinge_embedding_loss`, with a number for `reduction`: see `kl_div`."""
def histc(input: _Tensor, bins: _int = 100, min: _float = 0, max: _float = 0) -> _Tensor:
    r"""How many elements fall into each of `bins` equal intervals."""
def histogram(input: _Tensor, bins: _int | _Tensor, *, range: _Sequence[_int | _float | _complex] | None = None, weight: _Tensor | None = None, density: _bool = False) -> _return_types.histogram:
    r"""How many elements fall between neighbouring edges."""
def histogramdd(input: _Tensor, bins: _Any, *, range: _Any = None, weight: _Tensor | None = None, density: _bool = False) -> _return_types.histogramdd:
    r"""How many points fall into the cells of a grid."""
def hsplit(input: _Tensor, indices_or_sections: _Any) -> tuple[_Tensor, ...]:
    r"""Equal parts, or those between places, side by side: what `hstack` joins. See `tensor_split`."""
def hstack(tensors: _Sequence[_Tensor]) -> _Tensor:
    r"""Tensors side by side: along the second dimension, vectors along their only one."""
def hypot(input: _Tensor | _int | _float | _complex, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
    r"""``sqrt(input ** 2 + other ** 2)``, without overflow."""
def i0(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""The modified Bessel function of the first kind of order 0."""
def igamma(input: _Tensor | _int | _float | _complex, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
    r"""The regularised lower incomplete gamma function: that of `input` up to `other`, over the whole one."""
def igammac(input: _Tensor | _int | _float | _complex, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
    r"""The regularised upper incomplete gamma function: that of `input` from `other` on, over the whole one."""
def imag(input: _Tensor) -> _Tensor:
    r"""The imaginary parts, as a view; those of a tensor with `is_conj` are one with `is_neg`."""
@_overload
def index_add(input: _Tensor, dim: _int, index: _Tensor, source: _Tensor, *, alpha: _float = 1) -> _Tensor:
    r"""A copy of `input` with ``out.select(dim, index[i]) += alpha * source.select(dim, i)``."""
@_overload
def index_add(input: _Tensor, axis: _int, index: _Tensor, source: _Tensor, *, alpha: _float = 1) -> _Tensor:
    r"""A copy of `input` with ``out.select(dim, index[i]) += alpha * source.select(dim, i)``."""
@_overload
def index_copy(input: _Tensor, dim: _int, index: _Tensor, source: _Tensor) -> _Tensor:
    r"""A copy of `input` with ``out.select(dim, index[i]) = source.select(dim, i)``."""
@_overload
def index_copy(input: _Tensor, axis: _int, index: _Tensor, source: _Tensor) -> _Tensor:
    r"""A copy of `input` with ``out.select(dim, index[i]) = source.select(dim, i)``."""
@_overload
def index_fill(input: _Tensor, dim: _int, index: _Tensor, value: _int | _float | _complex | _Tensor) -> _Tensor:
    r"""A copy of `input` with a number in the slices that the index names."""
@_overload
def index_fill(input: _Tensor, axis: _int, index: _Tensor, value: _int | _float | _complex | _Tensor) -> _Tensor:
    r"""A copy of `input` with a number in the slices that the index names."""
def index_put(input: _Tensor, indices: _Sequence[_Tensor], values: _Tensor, accumulate: _bool = False) -> _Tensor:
    r"""A copy of `input` with values written at index tensors, as ``input[indices] = values`` writes them."""
@_overload
def index_reduce(input: _Tensor, dim: _int, index: _Tensor, source: _Tensor, reduce: _str, *, include_self: _bool = True) -> _Tensor:
    r"""A copy of `input`, reduced with the slices of `source` that the index sends to each place of a dimension."""
@_overload
def index_reduce(input: _Tensor, axis: _int, index: _Tensor, source: _Tensor, reduce: _str, *, include_self: _bool = True) -> _Tensor:
    r"""A copy of `input`, reduced with the slices of `source` that the index sends to each place of a dimension."""
@_overload
def index_select(input: _Tensor, dim: _int, index: _Tensor) -> _Tensor:
    r"""The slices of a dimension that a vector of indices names."""
@_overload
def index_select(input: _Tensor, axis: _int, index: _Tensor) -> _Tensor:
    r"""The slices of a dimension that a vector of indices names."""
def inner(input: _Tensor, other: _Tensor | _int | _float | _complex) -> _Tensor:
    r"""Sums of products over the last dimensions of two tensors; a product where one has no dimensions."""
def instance_norm(input: _Tensor, weight: _Tensor, bias: _Tensor | None, running_mean: _Tensor | None, running_var: _Tensor | None, use_input_stats: _bool, momentum: _float, eps: _float, cudnn_enabled: _bool) -> _Tensor:
    r"""`nn.functional.instance_norm` with its arguments in another order; `cudnn_enabled` changes nothing."""
def inverse(input: _Tensor) -> _Tensor:
    r"""The inverse of square matrices. See `linalg.inv`."""
def is_complex(input: _Tensor) -> _bool:
    r"""Whether the dtype of a tensor is a complex one."""
def is_conj(input: _Tensor) -> _bool:
    r"""Whether the elements of a tensor are conjugated when they are read: see `conj`."""
def is_floating_point(input: _Tensor) -> _bool:
    r"""Whether the dtype of a tensor is a floating-point one."""
def is_neg(input: _Tensor) -> _bool:
    r"""Whether the elements of a tensor are negated when they are read: those of ``x.conj().imag`` are."""
def is_nonzero(input: _Tensor) -> _bool:
    r"""Whether the only element of a tensor is not zero."""
def is_signed(input: _Tensor) -> _bool:
    r"""Whether the dtype of a tensor has numbers below zero."""
def isclose(input: _Tensor, other: _Tensor, rtol: _float = 1e-05, atol: _float = 1e-08, equal_nan: _bool = False) -> _Tensor:
    r"""Whether ``|input - other| <= atol + rtol |other|``, element by element."""
def isfinite(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""Whether an element is neither infinite nor NaN."""
def isin(elements: _Tensor | _int | _float | _complex, test_elements: _Tensor | _int | _float | _complex, *, assume_unique: _bool = False, invert: _bool = False) -> _Tensor:
    r"""Whether each element is one of others."""
def isinf(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""Whether an element is infinite."""
def isnan(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""Whether an element is NaN."""
def isneginf(input: _Tensor) -> _Tensor:
    r"""Whether an element is minus infinity."""
def isposinf(input: _Tensor) -> _Tensor:
    r"""Whether an element is infinity."""
def isreal(input: _Tensor) -> _Tensor:
    r"""Whether an element is a real number, which it is if it has no imaginary part."""
def istft(input: _Tensor, n_fft: _int, hop_length: _int | None = None, win_length: _int | None = None, window: _Any = None, center: _bool = True, normalized: _bool = False, onesided: _bool | None = None, length: _int | None = None, return_complex: _bool = False) -> _Tensor:
    r"""The signal whose `stft` comes nearest to the input, by overlapping pieces (Griffin and Lim, 1984)."""
def kaiser_window(window_length: _int, periodic: _bool = True, beta: _float = 12.0, *, dtype: _dtype | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False, layout: _layout | None = None, pin_memory: _bool = False) -> _Tensor:
    r"""``I0(beta sqrt(1 - (2 k / n - 1)**2)) / I0(beta)`` with the modified Bessel function of order 0."""
def kl_div(input: _Tensor, target: _Tensor, reduction: _int = 0, *, log_target: _bool = False) -> _Tensor:
    r"""`nn.functional.kl_div`, where `reduction` is 0 for "none", as by default, 1 for "mean" or 2 for "sum"."""
def kron(input: _Tensor, other: _Tensor | _int | _float | _complex) -> _Tensor:
    r"""The Kronecker product: each element of `input` times all of `other`."""
@_overload
def kthvalue(input: _Tensor, k: _int, dim: _int = -1, keepdim: _bool = False) -> _return_types.kthvalue:
    r"""The k-th smallest element along a dimension, from 1 on, and where it stands."""
@_overload
def kthvalue(input: _Tensor, k: _int, axis: _int = -1, keepdims: _bool = False) -> _return_types.kthvalue:
    r"""The k-th smallest element along a dimension, from 1 on, and where it stands."""
def layer_norm(input: _Tensor, normalized_shape: _Sequence[_int], weight: _Tensor | None = None, bias: _Tensor | None = None, eps: _float = 1e-05) -> _Tensor:
    r"""``(x - mean) / sqrt(var + eps) * weight + bias`` over the last dimensions (Ba, Kiros, Hinton 2016)."""
def lcm(input: _Tensor | _int | _float | _complex, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
    r"""The least common multiple of two integers, which is not negative."""
def ldexp(input: _Tensor, other: _Tensor | _int | _float | _complex) -> _Tensor:
    r"""``input * 2 ** other``."""
def le(input: _Tensor | _int | _float | _complex, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
    r"""Whether ``input <= other``."""
def lerp(input: _Tensor, end: _Tensor, weight: _Tensor | _int | _float | _complex) -> _Tensor:
    r"""``input + weight * (end - input)``, exact at both ends."""
def less(input: _Tensor | _int | _float | _complex, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
    r"""Whether ``input < other``."""
def less_equal(input: _Tensor | _int | _float | _complex, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
    r"""Whether ``input <= other``."""
def lgamma(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""The logarithm of the absolute value of the gamma function."""
def linspace(start: _float, end: _float, steps: _int, *, dtype: _dtype | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False, layout: _layout | None = None, pin_memory: _bool = False) -> _Tensor:
    r"""`steps` values from `start` to `end`, equally far from each other, both ends included."""
def log(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""The natural logarithm; NaN for negative numbers."""
def log10(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""The logarithm to base 10."""
def log1p(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""``log(1 + input)``, exact near zero."""
def log2(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""The logarithm to base 2."""
@_overload
def log_softmax(input: _Tensor, dim: _int, *, dtype: _dtype | None = None) -> _Tensor:
    r"""The logarithm of `softmax`, without overflow."""
@_overload
def log_softmax(input: _Tensor, axis: _int, *, dtype: _dtype | None = None) -> _Tensor:
    r"""The logarithm of `softmax`, without overflow."""
def logaddexp(input: _Tensor | _int | _float | _complex, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
    r"""``log(exp(input) + exp(other))``, without overflow."""
def logaddexp2(input: _Tensor | _int | _float | _complex, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
    r"""``log2(2 ** input + 2 ** other)``, without overflow."""
@_overload
def logcumsumexp(input: _Tensor, dim: _int) -> _Tensor:
    r"""``log(exp(input).cumsum(dim))`` without overflow."""
@_overload
def logcumsumexp(input: _Tensor, axis: _int) -> _Tensor:
    r"""``log(exp(input).cumsum(dim))`` without overflow."""
def logdet(input: _Tensor) -> _Tensor:
    r"""The logarithms of determinants: NaN where these are real and negative. See `slogdet`."""
def logical_and(input: _Tensor | _int | _float | _complex, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
    r"""Whether neither element is zero."""
def logical_not(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""Whether an element is zero."""
def logical_or(input: _Tensor | _int | _float | _complex, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
    r"""Whether an element of the two is not zero."""
def logical_xor(input: _Tensor | _int | _float | _complex, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
    r"""Whether one element of the two, and one alone, is zero."""
def logit(input: _Tensor, eps: _float | None = None) -> _Tensor:
    r"""``log(input / (1 - input))``, the inverse of `sigmoid`."""
def logspace(start: _Tensor | _int | _float | _complex, end: _Tensor | _int | _float | _complex, steps: _int, base: _float = 10.0, *, dtype: _dtype | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False, layout: _layout | None = None, pin_memory: _bool = False) -> _Tensor:
    r"""`steps` powers of `base`, whose exponents have equal distances from `start` to `end`."""
@_overload
def logsumexp(input: _Tensor, dim: _int | _Sequence[_int] | None, keepdim: _bool = False) -> _Tensor:
    r"""``log(sum(exp(input)))`` along one or more dimensions, without overflow."""
@_overload
def logsumexp(input: _Tensor, axis: _int | _Sequence[_int] | None, keepdims: _bool = False) -> _Tensor:
    r"""``log(sum(exp(input)))`` along one or more dimensions, without overflow."""
def lstm(input: _Tensor, *args: _Any, **kwargs: _Any) -> tuple[_Tensor, _Tensor, _Tensor]:
    r"""A stack of LSTM layers; `nn.LSTM` has the weights in one module."""
def lstm_cell(input: _Tensor, hx: _Sequence[_Tensor], w_ih: _Tensor, w_hh: _Tensor, b_ih: _Tensor | None = None, b_hh: _Tensor | None = None) -> tuple[_Tensor, _Tensor]:
    r"""One step of a long short-term memory."""
def lt(input: _Tensor | _int | _float | _complex, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
    r"""Whether ``input < other``."""
def lu(input: _Tensor, pivot: _bool = True, get_infos: _bool = False) -> _Tensor:
    r"""The LU decomposition in one matrix and pivots, with `get_infos` also what LAPACK says. See `linalg.lu_factor`."""
def lu_solve(input: _Tensor, LU_data: _Tensor, LU_pivots: _Tensor) -> _Tensor:
    r"""The solution X of ``A X = input`` by the factors of A. See `linalg.lu_solve`."""
def lu_unpack(LU_data: _Tensor, LU_pivots: _Tensor, unpack_data: _bool = True, unpack_pivots: _bool = True) -> _return_types.lu_unpack:
    r"""P, L and U of what `linalg.lu_factor` gives."""
def margin_ranking_loss(input1: _Tensor, input2: _Tensor, target: _Tensor, margin: _float = 0.0, reduction: _int = 0) -> _Tensor:
    r"""`nn.functional.margin_ranking_loss`, with a number for `reduction`: see `kl_div`."""
def masked_fill(input: _Tensor, mask: _Tensor, value: _int | _float | _complex | _Tensor) -> _Tensor:
    r"""A copy of `input` with `value` where the mask holds."""
def masked_scatter(input: _Tensor, mask: _Tensor, source: _Tensor) -> _Tensor:
    r"""A copy of `input` with the elements where a mask holds replaced by those of `source`, in their order."""
def masked_select(input: _Tensor, mask: _Tensor) -> _Tensor:
    r"""The elements where a mask holds, as a vector; both are broadcast."""
def matmul(input: _Tensor, other: _Tensor) -> _Tensor:
    r"""The matrix product, with vectors as rows or columns and batches broadcast."""
def matrix_exp(input: _Tensor) -> _Tensor:
    r"""The exponential of square matrices."""
def matrix_power(input: _Tensor, n: _int) -> _Tensor:
    r"""A square matrix, or each of a batch, multiplied `n` times with itself; with a negative `n`, its inverse."""
@_overload
def max(input: _Tensor) -> _Tensor:
    r"""The largest element; with `dim` the largest of each row and its position; with a tensor the larger of two."""
@_overload
def max(input: _Tensor, dim: _int, keepdim: _bool = False) -> _return_types.max:
    r"""The largest element; with `dim` the largest of each row and its position; with a tensor the larger of two."""
@_overload
def max(input: _Tensor, other: _Tensor) -> _Tensor:
    r"""The largest element; with `dim` the largest of each row and its position; with a tensor the larger of two."""
@_overload
def max(input: _Tensor, axis: _int, keepdims: _bool = False) -> _return_types.max:
    r"""The largest element; with `dim` the largest of each row and its position; with a tensor the larger of two."""
@_overload
def max_pool1d(input: _Tensor, kernel_size: _int | tuple[_int, ...], stride: _int | tuple[_int, ...] | None = None, padding: _int | tuple[_int, ...] = 0, dilation: _int | tuple[_int, ...] = 1, ceil_mode: _bool = False, return_indices: _Literal[False] = False) -> _Tensor:
    r"""The maximum of each window of a signal (N, C, L) or (C, L); see `max_pool2d`."""
@_overload
def max_pool1d(input: _Tensor, kernel_size: _int | tuple[_int, ...], stride: _int | tuple[_int, ...] | None = None, padding: _int | tuple[_int, ...] = 0, dilation: _int | tuple[_int, ...] = 1, ceil_mode: _bool = False, *, return_indices: _Literal[True]) -> tuple[_Tensor, _Tensor]:
    r"""The maximum of each window of a signal (N, C, L) or (C, L); see `max_pool2d`."""
@_overload
def max_pool1d(input: _Tensor, kernel_size: _int | tuple[_int, ...], stride: _int | tuple[_int, ...] | None = None, padding: _int | tuple[_int, ...] = 0, dilation: _int | tuple[_int, ...] = 1, ceil_mode: _bool = False, return_indices: _bool = False) -> _Any:
    r"""The maximum of each window of a signal (N, C, L) or (C, L); see `max_pool2d`."""
def max_pool1d_with_indices(input: _Tensor, kernel_size: _int | tuple[_int, ...], stride: _int | tuple[_int, ...] | None = None, padding: _int | tuple[_int, ...] = 0, dilation: _int | tuple[_int, ...] = 1, ceil_mode: _bool = False, return_indices: _bool = False) -> tuple[_Tensor, _Tensor]:
    r"""`max_pool1d` with the indices, whatever `return_indices` says."""
@_overload
def max_pool2d(input: _Tensor, kernel_size: _int | tuple[_int, ...], stride: _int | tuple[_int, ...] | None = None, padding: _int | tuple[_int, ...] = 0, dilation: _int | tuple[_int, ...] = 1, ceil_mode: _bool = False, return_indices: _Literal[False] = False) -> _Tensor:
    r"""The maximum of each window of an image."""
@_overload
def max_pool2d(input: _Tensor, kernel_size: _int | tuple[_int, ...], stride: _int | tuple[_int, ...] | None = None, padding: _int | tuple[_int, ...] = 0, dilation: _int | tuple[_int, ...] = 1, ceil_mode: _bool = False, *, return_indices: _Literal[True]) -> tuple[_Tensor, _Tensor]:
    r"""The maximum of each window of an image."""
@_overload
def max_pool2d(input: _Tensor, kernel_size: _int | tuple[_int, ...], stride: _int | tuple[_int, ...] | None = None, padding: _int | tuple[_int, ...] = 0, dilation: _int | tuple[_int, ...] = 1, ceil_mode: _bool = False, return_indices: _bool = False) -> _Any:
    r"""The maximum of each window of an image."""
@_overload
def max_pool3d(input: _Tensor, kernel_size: _int | tuple[_int, ...], stride: _int | tuple[_int, ...] | None = None, padding: _int | tuple[_int, ...] = 0, dilation: _int | tuple[_int, ...] = 1, ceil_mode: _bool = False, return_indices: _Literal[False] = False) -> _Tensor:
    r"""The maximum of each window of a volume (N, C, D, H, W) or (C, D, H, W)."""
@_overload
def max_pool3d(input: _Tensor, kernel_size: _int | tuple[_int, ...], stride: _int | tuple[_int, ...] | None = None, padding: _int | tuple[_int, ...] = 0, dilation: _int | tuple[_int, ...] = 1, ceil_mode: _bool = False, *, return_indices: _Literal[True]) -> tuple[_Tensor, _Tensor]:
    r"""The maximum of each window of a volume (N, C, D, H, W) or (C, D, H, W)."""
@_overload
def max_pool3d(input: _Tensor, kernel_size: _int | tuple[_int, ...], stride: _int | tuple[_int, ...] | None = None, padding: _int | tuple[_int, ...] = 0, dilation: _int | tuple[_int, ...] = 1, ceil_mode: _bool = False, return_indices: _bool = False) -> _Any:
    r"""The maximum of each window of a volume (N, C, D, H, W) or (C, D, H, W)."""
def maximum(input: _Tensor, other: _Tensor | _int | _float | _complex) -> _Tensor:
    r"""The larger of two tensors' elements; NaN if either is."""
@_overload
def mean(input: _Tensor, dim: _int | _Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None) -> _Tensor:
    r"""The mean over dimensions; of floating-point tensors only. See `sum` for the parameters."""
@_overload
def mean(input: _Tensor, axis: _int | _Sequence[_int] | None = None, keepdims: _bool = False, *, dtype: _dtype | None = None) -> _Tensor:
    r"""The mean over dimensions; of floating-point tensors only. See `sum` for the parameters."""
@_overload
def median(input: _Tensor) -> _Tensor:
    r"""The median of all elements, or along a dimension with where it stands; of two the lower one."""
@_overload
def median(input: _Tensor, dim: _int, keepdim: _bool = False) -> _return_types.median:
    r"""The median of all elements, or along a dimension with where it stands; of two the lower one."""
@_overload
def median(input: _Tensor, axis: _int, keepdims: _bool = False) -> _return_types.median:
    r"""The median of all elements, or along a dimension with where it stands; of two the lower one."""
def meshgrid(*tensors: _Tensor | _Sequence[_Tensor], indexing: _Literal["ij", "xy"] | None = None) -> tuple[_Tensor, ...]:
    r"""The coordinates of a grid, as views: one tensor for each vector, along its dimension."""
@_overload
def min(input: _Tensor) -> _Tensor:
    r"""The smallest element. See `max`."""
@_overload
def min(input: _Tensor, dim: _int, keepdim: _bool = False) -> _return_types.min:
    r"""The smallest element. See `max`."""
@_overload
def min(input: _Tensor, other: _Tensor) -> _Tensor:
    r"""The smallest element. See `max`."""
@_overload
def min(input: _Tensor, axis: _int, keepdims: _bool = False) -> _return_types.min:
    r"""The smallest element. See `max`."""
def minimum(input: _Tensor, other: _Tensor | _int | _float | _complex) -> _Tensor:
    r"""The smaller of two tensors' elements; NaN if either is."""
def mm(input: _Tensor, mat2: _Tensor) -> _Tensor:
    r"""The product of two matrices."""
@_overload
def mode(input: _Tensor, dim: _int = -1, keepdim: _bool = False) -> _return_types.mode:
    r"""The most frequent element along a dimension, the smallest of several, and the last place where it stands."""
@_overload
def mode(input: _Tensor, axis: _int = -1, keepdims: _bool = False) -> _return_types.mode:
    r"""The most frequent element along a dimension, the smallest of several, and the last place where it stands."""
def moveaxis(input: _Tensor, source: _Tensor, destination: _int | _Sequence[_int]) -> _Tensor:
    r"""Dimensions moved to other places, the rest in their order."""
def movedim(input: _Tensor, source: _Tensor, destination: _int | _Sequence[_int]) -> _Tensor:
    r"""Dimensions moved to other places, the rest in their order."""
def msort(input: _Tensor) -> _Tensor:
    r"""The elements of the first dimension in order."""
def mul(input: _Tensor | _int | _float | _complex, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
    r"""``input * other``."""
def multinomial(input: _Tensor, num_samples: _int, replacement: _bool = False, *, generator: _Generator | None = None) -> _Tensor:
    r"""Draw indices of rows with probabilities in proportion to the elements."""
def multiply(input: _Tensor | _int | _float | _complex, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
    r"""``input * other``."""
def mv(input: _Tensor, vec: _Tensor) -> _Tensor:
    r"""The product of a matrix and a vector."""
def mvlgamma(input: _Tensor, p: _int) -> _Tensor:
    r"""The logarithm of the gamma function of `p` dimensions."""
def nan_to_num(input: _Tensor, nan: _float | None = None, posinf: _float | None = None, neginf: _float | None = None) -> _Tensor:
    r"""The input with numbers in place of NaN and infinities."""
@_overload
def nanmean(input: _Tensor, dim: _int | _Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None) -> _Tensor:
    r"""The mean over dimensions of what is not NaN. See `mean`."""
@_overload
def nanmean(input: _Tensor, axis: _int | _Sequence[_int] | None = None, keepdims: _bool = False, *, dtype: _dtype | None = None) -> _Tensor:
    r"""The mean over dimensions of what is not NaN. See `mean`."""
@_overload
def nanmedian(input: _Tensor) -> _Tensor:
    r"""The median of what is not NaN. See `median`."""
@_overload
def nanmedian(input: _Tensor, dim: _int, keepdim: _bool = False) -> _return_types.nanmedian:
    r"""The median of what is not NaN. See `median`."""
@_overload
def nanmedian(input: _Tensor, axis: _int, keepdims: _bool = False) -> _return_types.nanmedian:
    r"""The median of what is not NaN. See `median`."""
@_overload
def nanquantile(input: _Tensor, q: _Any, dim: _int | _Sequence[_int] | None = None, keepdim: _bool = False, *, interpolation: _str = 'linear') -> _Tensor:
    r"""Quantiles of what is not NaN. See `quantile`."""
@_overload
def nanquantile(input: _Tensor, q: _Any, axis: _int | _Sequence[_int] | None = None, keepdims: _bool = False, *, interpolation: _str = 'linear') -> _Tensor:
    r"""Quantiles of what is not NaN. See `quantile`."""
@_overload
def nansum(input: _Tensor, dim: _int | _Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None) -> _Tensor:
    r"""The sum over dimensions in which NaN counts as zero. See `sum`."""
@_overload
def nansum(input: _Tensor, axis: _int | _Sequence[_int] | None = None, keepdims: _bool = False, *, dtype: _dtype | None = None) -> _Tensor:
    r"""The sum over dimensions in which NaN counts as zero. See `sum`."""
@_overload
def narrow(input: _Tensor, dim: _int, start: _Tensor | _int | _float | _complex, length: _int) -> _Tensor:
    r"""`length` positions of a dimension from `start` on."""
@_overload
def narrow(input: _Tensor, axis: _int, start: _Tensor | _int | _float | _complex, length: _int) -> _Tensor:
    r"""`length` positions of a dimension from `start` on."""
@_overload
def narrow_copy(input: _Tensor, dim: _int, start: _int, length: _int) -> _Tensor:
    r"""A copy of what `narrow` gives."""
@_overload
def narrow_copy(input: _Tensor, axis: _int, start: _int, length: _int) -> _Tensor:
    r"""A copy of what `narrow` gives."""
def native_batch_norm(input: _Tensor, weight: _Tensor, bias: _Tensor | None, running_mean: _Tensor | None, running_var: _Tensor | None, training: _bool, momentum: _float, eps: _float) -> tuple[_Tensor, _Tensor, _Tensor]:
    r"""`nn.functional.batch_norm`, with the statistics of each channel, which have no gradient."""
def native_channel_shuffle(input: _Tensor, groups: _int) -> _Tensor:
    r"""`channel_shuffle` under another name."""
def native_dropout(input: _Tensor, p: _float, train: _bool | None) -> tuple[_Tensor, _Tensor]:
    r"""`nn.functional.dropout`, unless `train` is False, and which elements have stayed."""
def native_group_norm(input: _Tensor, weight: _Tensor, bias: _Tensor | None, N: _int, C: _int, HxW: _int, group: _int, eps: _float) -> tuple[_Tensor, _Tensor, _Tensor]:
    r"""`nn.functional.group_norm` of ``N`` images with ``C`` channels of ``HxW`` elements, with statistics of groups."""
def native_layer_norm(input: _Tensor, normalized_shape: _Sequence[_int], weight: _Tensor, bias: _Tensor | None, eps: _float) -> tuple[_Tensor, _Tensor, _Tensor]:
    r"""`nn.functional.layer_norm`, with the mean and the reciprocal deviation of each row, which have no gradient."""
def ne(input: _Tensor | _int | _float | _complex, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
    r"""Whether ``input != other``."""
def neg(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""The negative, ``-input``."""
def negative(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""The negative, ``-input``."""
def nextafter(input: _Tensor, other: _Tensor) -> _Tensor:
    r"""The next number that the dtype has, from one towards another; as steep as `input` where it moves."""
def nonzero(input: _Tensor, *, as_tuple: _bool = False) -> _Tensor | tuple[_Tensor, ...]:
    r"""The places of the elements that are not zero, in order."""
def nonzero_static(input: _Tensor, *, size: _int, fill_value: _int = -1) -> _Tensor:
    r"""The first `size` places of elements that are not zero, and rows of `fill_value` where there are fewer."""
@_overload
def norm(input: _Tensor, p: _Tensor | _int | _float | _complex | _str = 'fro', dim: _int | _Sequence[_int] | None = None, keepdim: _bool = False, dtype: _dtype | None = None) -> _Tensor:
    r"""The vector norm over dimensions; "fro" and None stand for 2. See `linalg.vector_norm`."""
@_overload
def norm(input: _Tensor, p: _Tensor | _int | _float | _complex | _str = 'fro', axis: _int | _Sequence[_int] | None = None, keepdims: _bool = False, dtype: _dtype | None = None) -> _Tensor:
    r"""The vector norm over dimensions; "fro" and None stand for 2. See `linalg.vector_norm`."""
@_overload
def norm_except_dim(v: _Any, pow: _int = 2, dim: _int = 0) -> _Tensor:
    r"""The norms of order `pow` of the slices along `dim`, which keeps its size; of -1 the norm of the whole."""
@_overload
def norm_except_dim(v: _Any, pow: _int = 2, axis: _int = 0) -> _Tensor:
    r"""The norms of order `pow` of the slices along `dim`, which keeps its size; of -1 the norm of the whole."""
def normal(mean: _float | _Tensor = 0.0, std: _float | _Tensor = 1.0, size: _Sequence[_int] | None = None, *, generator: _Generator | None = None, dtype: None = None, device: None = None, layout: _layout | None = None, pin_memory: _bool = False) -> _Tensor:
    r"""Normally distributed numbers with means and standard deviations element by element."""
def not_equal(input: _Tensor | _int | _float | _complex, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
    r"""Whether ``input != other``."""
@_overload
def nuclear_norm(input: _Tensor, dim: _Sequence[_int] | _bool = ..., keepdim: _bool = False) -> _Tensor:
    r"""The sum of the singular values of matrices. Use `linalg.matrix_norm`."""
@_overload
def nuclear_norm(input: _Tensor, axis: _Sequence[_int] | _bool = ..., keepdims: _bool = False) -> _Tensor:
    r"""The sum of the singular values of matrices. Use `linalg.matrix_norm`."""
def numel(input: _Tensor) -> _int:
    r"""The number of elements of a tensor."""
@_overload
def ones(*size: _int | _Sequence[_int], dtype: _dtype | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False, layout: _layout | None = None, pin_memory: _bool = False) -> _Tensor:
    r"""A tensor of ones."""
@_overload
def ones(size: _int | _Sequence[_int], *, dtype: _dtype | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False, layout: _layout | None = None, pin_memory: _bool = False) -> _Tensor:
    r"""A tensor of ones."""
def ones_like(input: _Tensor, *, dtype: _dtype | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False, memory_format: _memory_format | None = None, layout: _layout | None = None, pin_memory: _bool = False) -> _Tensor:
    r"""A tensor of the same sizes filled with ones; see `empty_like`."""
def orgqr(input: _Tensor, input2: _Tensor) -> _Tensor:
    r"""The first columns of a product of reflectors. See `linalg.householder_product`."""
def ormqr(input: _Tensor, tau: _Tensor, other: _Tensor, left: _bool = True, transpose: _bool = False) -> _Tensor:
    r"""The product of a matrix with the orthogonal matrix Q of `geqrf`."""
def outer(input: _Tensor, vec2: _Tensor) -> _Tensor:
    r"""The products of each element of a vector with each of another."""
def pairwise_distance(x1: _Tensor, x2: _Tensor, p: _float = 2.0, eps: _float = 1e-06, keepdim: _bool = False) -> _Tensor:
    r"""The norm of ``x1 - x2 + eps`` along the last dimension."""
def pca_lowrank(A: _Tensor, q: _int | None = None, center: _bool = True, niter: _int = 2) -> _LowRank:
    r"""An approximation of the first principal components of matrices, whose rows are samples."""
def pdist(input: _Tensor, p: _float = 2.0) -> _Tensor:
    r"""The distances of order `p` between each row of a matrix and all that come behind it."""
@_overload
def permute(input: _Tensor, *dims: _int | _Sequence[_int]) -> _Tensor:
    r"""The dimensions in another order."""
@_overload
def permute(input: _Tensor, dims: _int | _Sequence[_int]) -> _Tensor:
    r"""The dimensions in another order."""
def permute_copy(*operands: _Any, **named: _Any) -> _Tensor:
    r"""A copy of what `permute` shows, with its arguments."""
def pinverse(input: _Tensor, rcond: _float = 1e-15) -> _Tensor:
    r"""The pseudo-inverse of matrices. See `linalg.pinv`."""
def pixel_shuffle(input: _Tensor, upscale_factor: _int) -> _Tensor:
    r"""Images of shape (..., C r r, H, W) as ones of shape (..., C, H r, W r) (Shi et al. 2016)."""
def pixel_unshuffle(input: _Tensor, downscale_factor: _int) -> _Tensor:
    r"""Images of shape (..., C, H r, W r) as ones of shape (..., C r r, H, W): the inverse of `pixel_shuffle`."""
def poisson(input: _Tensor, generator: _Generator | None = None) -> _Tensor:
    r"""Counts of the Poisson distribution, each with the rate that an element is."""
def poisson_nll_loss(input: _Tensor, target: _Tensor, log_input: _bool, full: _bool, eps: _float, reduction: _int) -> _Tensor:
    r"""`nn.functional.poisson_nll_loss`, with a number for `reduction`: see `kl_div`."""
def polar(abs: _Any, angle: _Any) -> _Tensor:
    r"""Complex numbers of their absolute values and angles in radians, ``abs * exp(1j * angle)``."""
def polygamma(n: _int, input: _Tensor) -> _Tensor:
    r"""The `n`-th derivative of `digamma`."""
def positive(input: _Tensor) -> _Tensor:
    r"""The input itself."""
def pow(input: _Tensor, exponent: _Tensor | _int | _float | _complex) -> _Tensor:
    r"""``input ** exponent``, broadcast and promoted."""
def prelu(input: _Tensor, weight: _Tensor) -> _Tensor:
    r"""X where it is positive, elsewhere ``weight * x``."""
@_overload
def prod(input: _Tensor, dim: _int | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None) -> _Tensor:
    r"""The product over one dimension, or over all. See `sum` for the parameters."""
@_overload
def prod(input: _Tensor, axis: _int | None = None, keepdims: _bool = False, *, dtype: _dtype | None = None) -> _Tensor:
    r"""The product over one dimension, or over all. See `sum` for the parameters."""
def put(input: _Tensor, index: _Tensor, source: _Tensor, accumulate: _bool = False) -> _Tensor:
    r"""A copy of `input` with elements written where indices into all its elements, row by row, point to."""
def qr(input: _Tensor, some: _bool = True) -> _return_types.qr:
    r"""The QR decomposition; with ``some=False`` Q is square. See `linalg.qr`."""
@_overload
def quantile(input: _Tensor, q: _float | _Tensor, dim: _int | None = None, keepdim: _bool = False, *, interpolation: _str = 'linear') -> _Tensor:
    r"""Quantiles of all elements, or along a dimension."""
@_overload
def quantile(input: _Tensor, q: _float | _Tensor, axis: _int | None = None, keepdims: _bool = False, *, interpolation: _str = 'linear') -> _Tensor:
    r"""Quantiles of all elements, or along a dimension."""
def rad2deg(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""Angles in radians as degrees."""
@_overload
def rand(*size: _int | _Sequence[_int], generator: _Generator | None = None, dtype: _dtype | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False, layout: _layout | None = None, pin_memory: _bool = False) -> _Tensor:
    r"""Random numbers from the uniform distribution on [0, 1)."""
@_overload
def rand(size: _int | _Sequence[_int], *, generator: _Generator | None = None, dtype: _dtype | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False, layout: _layout | None = None, pin_memory: _bool = False) -> _Tensor:
    r"""Random numbers from the uniform distribution on [0, 1)."""
def rand_like(input: _Tensor, *, dtype: _dtype | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False, memory_format: _memory_format | None = None, layout: _layout | None = None, pin_memory: _bool = False) -> _Tensor:
    r"""Uniform random numbers in the sizes of a tensor; see `empty_like`."""
def randint(low: _int | None = None, high: _int | None = None, size: _int | _Sequence[_int] | None = None, *, generator: _Generator | None = None, dtype: _dtype | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False, layout: _layout | None = None, pin_memory: _bool = False) -> _Tensor:
    r"""Random integers from `low` (0 if not given) up to, not including, `high`."""
def randint_like(input: _Tensor, low: _int | None = None, high: _int | None = None, *, dtype: _dtype | None = None, device: _device | _str | _int | None = None, memory_format: _memory_format | None = None, layout: _layout | None = None, pin_memory: _bool = False) -> _Tensor:
    r"""Random integers in the sizes of a tensor; see `empty_like`."""
@_overload
def randn(*size: _int | _Sequence[_int], generator: _Generator | None = None, dtype: _dtype | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False, layout: _layout | None = None, pin_memory: _bool = False) -> _Tensor:
    r"""Random numbers from the standard normal distribution."""
@_overload
def randn(size: _int | _Sequence[_int], *, generator: _Generator | None = None, dtype: _dtype | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False, layout: _layout | None = None, pin_memory: _bool = False) -> _Tensor:
    r"""Random numbers from the standard normal distribution."""
def randn_like(input: _Tensor, *, dtype: _dtype | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False, memory_format: _memory_format | None = None, layout: _layout | None = None, pin_memory: _bool = False) -> _Tensor:
    r"""Normal random numbers in the sizes of a tensor; see `empty_like`."""
def randperm(n: _int, *, generator: _Generator | None = None, dtype: _dtype | None = None, device: None = None, layout: _layout | None = None, pin_memory: _bool = False) -> _Tensor:
    r"""The integers from 0 to ``n - 1`` in random order."""
def range(start: _float, end: _float, step: _float = 1, *, dtype: _dtype | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False, layout: _layout | None = None, pin_memory: _bool = False) -> _Tensor:
    r"""``start, start + step, ...`` up to `end`, which is the last one if it is met. Use `arange`."""
def ravel(input: _Tensor) -> _Tensor:
    r"""All elements as one dimension."""
def real(input: _Tensor) -> _Tensor:
    r"""The real parts, as a view; of a real tensor itself."""
def reciprocal(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""``1 / input``."""
def relu(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""``max(input, 0)``; at zero its gradient is zero."""
def remainder(input: _Tensor, other: _Tensor | _int | _float | _complex) -> _Tensor: ...
@_overload
def renorm(input: _Tensor, p: _float, dim: _int, maxnorm: _float) -> _Tensor:
    r"""The slices along a dimension scaled down to the norm `maxnorm` of order `p` where theirs is larger."""
@_overload
def renorm(input: _Tensor, p: _float, axis: _int, maxnorm: _float) -> _Tensor:
    r"""The slices along a dimension scaled down to the norm `maxnorm` of order `p` where theirs is larger."""
@_overload
def repeat_interleave(input: _Tensor, repeats: _int | _Tensor | None = None, dim: _int | None = None, *, output_size: _int | None = None) -> _Tensor:
    r"""Each element of a dimension so many times, one behind the other."""
@_overload
def repeat_interleave(input: _Tensor, repeats: _int | _Tensor | None = None, axis: _int | None = None, *, output_size: _int | None = None) -> _Tensor:
    r"""Each element of a dimension so many times, one behind the other."""
@_overload
def reshape(input: _Tensor, *shape: _int | _Sequence[_int]) -> _Tensor:
    r"""Other sizes over the same elements: a view where possible, a copy otherwise."""
@_overload
def reshape(input: _Tensor, shape: _int | _Sequence[_int]) -> _Tensor:
    r"""Other sizes over the same elements: a view where possible, a copy otherwise."""
def resolve_conj(input: _Tensor) -> _Tensor:
    r"""A copy in memory of its own of a tensor whose elements are conjugated when they are read; of others themselves."""
def resolve_neg(input: _Tensor) -> _Tensor:
    r"""A copy in memory of its own of a tensor whose elements are negated when they are read; of others themselves."""
def result_type(tensor1: _Tensor | _int | _float | _complex, tensor2: _Tensor | _int | _float | _complex) -> _dtype:
    r"""The dtype that an op over two operands gives."""
def rms_norm(input: _Tensor, normalized_shape: _Sequence[_int], weight: _Tensor | None = None, eps: _float | None = None) -> _Tensor:
    r"""``x / sqrt(mean(x**2) + eps) * weight`` over the last dimensions (Zhang, Sennrich 2019)."""
def rnn_relu(input: _Tensor, *args: _Any, **kwargs: _Any) -> tuple[_Tensor, _Tensor]:
    r"""A stack of layers of simple cells with the rectifier; called as `gru`."""
def rnn_relu_cell(input: _Tensor, hx: _Tensor | None, w_ih: _Tensor, w_hh: _Tensor, b_ih: _Tensor | None = None, b_hh: _Tensor | None = None) -> _Tensor:
    r"""As `rnn_tanh_cell`, with ``max(x, 0)`` in place of the hyperbolic tangent."""
def rnn_tanh(input: _Tensor, *args: _Any, **kwargs: _Any) -> tuple[_Tensor, _Tensor]:
    r"""A stack of layers of simple cells with the hyperbolic tangent; called as `gru`."""
def rnn_tanh_cell(input: _Tensor, hx: _Tensor, w_ih: _Tensor, w_hh: _Tensor, b_ih: _Tensor | None = None, b_hh: _Tensor | None = None) -> _Tensor:
    r"""One step of a simple recurrent network: ``tanh(input @ w_ih^T + b_ih + hx @ w_hh^T + b_hh)`` (Elman 1990)."""
def roll(input: _Tensor, shifts: _int | _Sequence[_int], dims: _int | _Sequence[_int] = ...) -> _Tensor:
    r"""The elements moved along dimensions; what leaves at the end comes in at the front."""
def rot90(input: _Tensor, k: _int = 1, dims: _int | _Sequence[_int] = ...) -> _Tensor:
    r"""Turned by 90 degrees, `k` times, from the first of two dimensions towards the second."""
def round(input: _Tensor, *, decimals: _int = 0) -> _Tensor:
    r"""The nearest integer, the even one of two; with `decimals` that many digits behind the point."""
def row_stack(tensors: _Sequence[_Tensor]) -> _Tensor:
    r"""Tensors below each other: along the first dimension, vectors as rows."""
def rrelu(input: _Tensor, lower: _float = 0.125, upper: _float = 0.3333333333333333, training: _bool = False, inplace: _bool = False) -> _Tensor:
    r"""X where it is positive, elsewhere x times a random number, drawn for each element (Xu et al. 2015)."""
def rrelu_(input: _Tensor, lower: _float = 0.125, upper: _float = 0.3333333333333333, training: _bool = False) -> _Tensor:
    r"""`rrelu`, in place."""
def rsqrt(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""``1 / sqrt(input)``."""
def rsub(input: _Tensor, other: _Tensor | _int | _float | _complex, *, alpha: _float = 1) -> _Tensor:
    r"""``other - alpha * input``, broadcast and promoted. See `sub`."""
def scalar_tensor(s: _float, *, dtype: _dtype | None = None, device: _device | None = None, requires_grad: _bool = False, layout: _layout | None = None, pin_memory: _bool = False) -> _Tensor:
    r"""A tensor without dimensions that holds a number, of the default dtype if none is given."""
@_overload
def scatter(input: _Tensor, dim: _int, index: _Tensor, src: _Tensor | _int | _float | _complex | None = None, *, value: _int | _float | _complex | None = None, reduce: _str | None = None) -> _Tensor:
    r"""A copy of `input` with ``out[index[i][j]][j] = src[i][j]`` for dim 0, and so on for other dimensions."""
@_overload
def scatter(input: _Tensor, axis: _int, index: _Tensor, src: _Tensor | _int | _float | _complex | None = None, *, value: _int | _float | _complex | None = None, reduce: _str | None = None) -> _Tensor:
    r"""A copy of `input` with ``out[index[i][j]][j] = src[i][j]`` for dim 0, and so on for other dimensions."""
@_overload
def scatter_add(input: _Tensor, dim: _int, index: _Tensor, src: _Tensor | _int | _float | _complex) -> _Tensor:
    r"""A copy of `input` with ``out[index[i][j]][j] += src[i][j]`` for dim 0, and so on."""
@_overload
def scatter_add(input: _Tensor, axis: _int, index: _Tensor, src: _Tensor | _int | _float | _complex) -> _Tensor:
    r"""A copy of `input` with ``out[index[i][j]][j] += src[i][j]`` for dim 0, and so on."""
@_overload
def scatter_reduce(input: _Tensor, dim: _int, index: _Tensor, src: _Tensor, reduce: _str, *, include_self: _bool = True) -> _Tensor:
    r"""A copy of `input`, reduced with the elements of `src` that the index sends to each place."""
@_overload
def scatter_reduce(input: _Tensor, axis: _int, index: _Tensor, src: _Tensor, reduce: _str, *, include_self: _bool = True) -> _Tensor:
    r"""A copy of `input`, reduced with the elements of `src` that the index sends to each place."""
def searchsorted(sorted_sequence: _Tensor, input: _Tensor | _int | _float | _complex, *, out_int32: _bool = False, right: _bool = False, side: _str | None = None, sorter: _Tensor | None = None) -> _Tensor:
    r"""Where values would have to stand in rows that are in order."""
def segment_reduce(data: _Tensor, reduce: _str, *, lengths: _Tensor | None = None, indices: None = None, offsets: _Tensor | None = None, axis: _int = 0, unsafe: _bool = False, initial: _int | _float | _complex | None = None) -> _Tensor:
    r"""Reduce pieces of a dimension to one element each."""
@_overload
def select(input: _Tensor, dim: _int, index: _int) -> _Tensor:
    r"""The slice at one position of a dimension, which goes."""
@_overload
def select(input: _Tensor, axis: _int, index: _int) -> _Tensor:
    r"""The slice at one position of a dimension, which goes."""
def select_copy(*operands: _Any, **named: _Any) -> _Tensor:
    r"""A copy of what `select` shows, with its arguments."""
@_overload
def select_scatter(input: _Tensor, src: _Tensor | _int | _float | _complex, dim: _int, index: _int) -> _Tensor:
    r"""A copy with `src` at one position of a dimension."""
@_overload
def select_scatter(input: _Tensor, src: _Tensor | _int | _float | _complex, axis: _int, index: _int) -> _Tensor:
    r"""A copy with `src` at one position of a dimension."""
def selu(input: _Tensor, inplace: _bool = False) -> _Tensor:
    r"""`elu` with the two numbers that keep mean and variance (Klambauer et al. 2017)."""
def selu_(input: _Tensor) -> _Tensor:
    r"""`selu`, in place."""
def sgn(input: _Tensor) -> _Tensor:
    r"""``input / abs(input)``, and 0 at zero; of real numbers their signs."""
def sigmoid(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""The logistic function, ``1 / (1 + exp(-input))``."""
def sign(input: _Tensor) -> _Tensor:
    r"""-1, 0 or 1, as a number is negative, zero or positive; of a mask the mask."""
def signbit(input: _Tensor) -> _Tensor:
    r"""Whether the sign is negative, that of a zero as well."""
def sin(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""The sine of angles in radians."""
def sinc(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""``sin(pi input) / (pi input)``, and 1 at zero."""
def sinh(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""The hyperbolic sine."""
def slice_copy(*operands: _Any, **named: _Any) -> _Tensor:
    r"""A copy of what `slice` shows, with its arguments."""
@_overload
def slice_scatter(input: _Tensor, src: _Tensor | _int | _float | _complex, dim: _int = 0, start: _Tensor | _int | _float | _complex | None = None, end: _Tensor | _int | _float | _complex | None = None, step: _int = 1) -> _Tensor:
    r"""A copy with `src` at a slice of a dimension."""
@_overload
def slice_scatter(input: _Tensor, src: _Tensor | _int | _float | _complex, axis: _int = 0, start: _Tensor | _int | _float | _complex | None = None, end: _Tensor | _int | _float | _complex | None = None, step: _int = 1) -> _Tensor:
    r"""A copy with `src` at a slice of a dimension."""
def slogdet(input: _Tensor) -> _return_types.slogdet:
    r"""The signs of determinants, and the logarithms of their absolute values. See `linalg.slogdet`."""
@_overload
def softmax(input: _Tensor, dim: _int, *, dtype: _dtype | None = None) -> _Tensor:
    r"""``exp(x) / sum(exp(x))`` along a dimension."""
@_overload
def softmax(input: _Tensor, axis: _int, *, dtype: _dtype | None = None) -> _Tensor:
    r"""``exp(x) / sum(exp(x))`` along a dimension."""
@_overload
def sort(input: _Tensor, dim: _int = -1, descending: _bool = False, stable: _bool = True) -> _return_types.sort:
    r"""The elements of a dimension in order, and where they stood."""
@_overload
def sort(input: _Tensor, axis: _int = -1, descending: _bool = False, stable: _bool = True) -> _return_types.sort:
    r"""The elements of a dimension in order, and where they stood."""
@_overload
def split(input: _Tensor, split_size_or_sections: _Any, dim: _int = 0) -> tuple[_Tensor, ...]:
    r"""Views of runs of a dimension: of one length (the last may be shorter), or of the lengths given."""
@_overload
def split(input: _Tensor, split_size: _Any, axis: _int = 0) -> tuple[_Tensor, ...]:
    r"""Views of runs of a dimension: of one length (the last may be shorter), or of the lengths given."""
def split_copy(*operands: _Any, **named: _Any) -> tuple[_Tensor, ...]:
    r"""A copy of what `split` shows, with its arguments."""
@_overload
def split_with_sizes(input: _Tensor, split_sizes: _Sequence[_int], dim: _int = 0) -> _Tensor:
    r"""Parts of the given lengths along a dimension: `split` with a list."""
@_overload
def split_with_sizes(input: _Tensor, split_sizes: _Sequence[_int], axis: _int = 0) -> _Tensor:
    r"""Parts of the given lengths along a dimension: `split` with a list."""
def split_with_sizes_copy(*operands: _Any, **named: _Any) -> _Tensor:
    r"""A copy of what `split_with_sizes` shows, with its arguments."""
def sqrt(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""The square root; NaN for negative numbers."""
def square(input: _Tensor) -> _Tensor:
    r"""The square, ``input ** 2``; of a mask one of int64, as that power is."""
@_overload
def squeeze(input: _Tensor, dim: _int | _Sequence[_int] | None = None) -> _Tensor:
    r"""Without the dimensions of size 1, or without those named that have size 1."""
@_overload
def squeeze(input: _Tensor, axis: _int | _Sequence[_int] | None = None) -> _Tensor:
    r"""Without the dimensions of size 1, or without those named that have size 1."""
def squeeze_copy(*operands: _Any, **named: _Any) -> _Tensor:
    r"""A copy of what `squeeze` shows, with its arguments."""
@_overload
def stack(tensors: _Sequence[_Tensor], dim: _int = 0) -> _Tensor:
    r"""Tensors of one shape along a new dimension."""
@_overload
def stack(tensors: _Sequence[_Tensor], axis: _int = 0) -> _Tensor:
    r"""Tensors of one shape along a new dimension."""
@_overload
def std(input: _Tensor, dim: _int | _Sequence[_int] | None = None, unbiased: _Any = None, keepdim: _bool = False, *, correction: _float | None = None) -> _Tensor:
    r"""The square root of the variance; its gradient is zero where it is zero. See `var`."""
@_overload
def std(input: _Tensor, axis: _int | _Sequence[_int] | None = None, unbiased: _Any = None, keepdims: _bool = False, *, correction: _float | None = None) -> _Tensor:
    r"""The square root of the variance; its gradient is zero where it is zero. See `var`."""
@_overload
def std_mean(input: _Tensor, dim: _int | _Sequence[_int] | None = None, unbiased: _Any = None, keepdim: _bool = False, *, correction: _float | None = None) -> tuple[_Tensor, _Tensor]:
    r"""The standard deviation and the mean over dimensions. See `var`."""
@_overload
def std_mean(input: _Tensor, axis: _int | _Sequence[_int] | None = None, unbiased: _Any = None, keepdims: _bool = False, *, correction: _float | None = None) -> tuple[_Tensor, _Tensor]:
    r"""The standard deviation and the mean over dimensions. See `var`."""
def stft(input: _Tensor, n_fft: _int, hop_length: _int | None = None, win_length: _int | None = None, window: _Tensor | None = None, center: _bool = True, pad_mode: _str = 'reflect', normalized: _bool = False, onesided: _bool | None = None, return_complex: _bool | None = None, align_to_window: _bool | None = None) -> _Tensor:
    r"""The Fourier transforms of pieces of a signal, each multiplied by a window."""
def sub(input: _Tensor, other: _Tensor | _int | _float | _complex, *, alpha: _float = 1) -> _Tensor:
    r"""``input - alpha * other``, broadcast and promoted. See `add`."""
def subtract(input: _Tensor, other: _Tensor | _int | _float | _complex, *, alpha: _float = 1) -> _Tensor:
    r"""``input - alpha * other``, broadcast and promoted. See `add`."""
@_overload
def sum(input: _Tensor, dim: _int | _Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None) -> _Tensor:
    r"""The sum over dimensions."""
@_overload
def sum(input: _Tensor, axis: _int | _Sequence[_int] | None = None, keepdims: _bool = False, *, dtype: _dtype | None = None) -> _Tensor:
    r"""The sum over dimensions."""
def svd(input: _Tensor, some: _bool = True, compute_uv: _bool = True) -> _return_types.svd:
    r"""The singular value decomposition ``U diag(S) V'``. See `linalg.svd`."""
def svd_lowrank(A: _Tensor, q: _int = 6, niter: _int = 2, M: _Tensor | None = None) -> _LowRank:
    r"""An approximation of the first singular values and vectors of matrices, or of ``A - M``."""
def swapaxes(input: _Tensor, axis0: _int, axis1: _int) -> _Tensor:
    r"""Two dimensions exchanged, as `transpose` does it."""
def swapdims(input: _Tensor, dim0: _int, dim1: _int) -> _Tensor:
    r"""Two dimensions exchanged."""
def t(input: _Tensor) -> _Tensor:
    r"""The transpose of a matrix; tensors of fewer dimensions as they are."""
def t_copy(*operands: _Any, **named: _Any) -> _Tensor:
    r"""A copy of what `t` shows, with its arguments."""
def take(input: _Tensor, index: _Tensor) -> _Tensor:
    r"""The elements to which indices into all of them, row by row, point."""
@_overload
def take_along_dim(input: _Tensor, indices: _Tensor, dim: _int | None = None) -> _Tensor:
    r"""The elements along a dimension to which indices point, as `argsort` and `argmax` give them."""
@_overload
def take_along_dim(input: _Tensor, indices: _Tensor, axis: _int | None = None) -> _Tensor:
    r"""The elements along a dimension to which indices point, as `argsort` and `argmax` give them."""
def tan(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""The tangent of angles in radians."""
def tanh(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""The hyperbolic tangent."""
def tensor(data: _Any, *, dtype: _dtype | None = None, device: _device | _str | None = None, requires_grad: _bool = False, layout: _layout | None = None, pin_memory: _bool = False) -> _Tensor:
    r"""A new tensor with a copy of data."""
@_overload
def tensor_split(input: _Tensor, indices_or_sections: _int | _Sequence[_int] | _Tensor, dim: _int = 0) -> tuple[_Tensor, ...]:
    r"""Views of parts of a dimension: of so many, as equal as may be, or of those between places."""
@_overload
def tensor_split(input: _Tensor, indices_or_sections: _int | _Sequence[_int] | _Tensor, axis: _int = 0) -> tuple[_Tensor, ...]:
    r"""Views of parts of a dimension: of so many, as equal as may be, or of those between places."""
def tensordot(a: _Tensor, b: _Tensor, dims: _int | _Sequence[_int] = 2) -> _Tensor:
    r"""Sums of products over dimensions of two tensors."""
def threshold(input: _Tensor, threshold: _float, value: _float, inplace: _bool = False) -> _Tensor:
    r"""X where it is above `threshold`, elsewhere `value`."""
def threshold_(input: _Tensor, threshold: _float, value: _float) -> _Tensor:
    r"""`threshold`, in place."""
@_overload
def tile(input: _Tensor, *dims: _int | _Sequence[_int]) -> _Tensor:
    r"""As `repeat`; missing repeats count as 1."""
@_overload
def tile(input: _Tensor, dims: _int | _Sequence[_int]) -> _Tensor:
    r"""As `repeat`; missing repeats count as 1."""
@_overload
def topk(input: _Tensor, k: _int, dim: _int = -1, largest: _bool = True, sorted: _bool = True) -> _return_types.topk:
    r"""The `k` largest (or smallest) elements of a dimension in order, and where they stood."""
@_overload
def topk(input: _Tensor, k: _int, axis: _int = -1, largest: _bool = True, sorted: _bool = True) -> _return_types.topk:
    r"""The `k` largest (or smallest) elements of a dimension in order, and where they stood."""
def trace(input: _Tensor) -> _Tensor:
    r"""The sum of the diagonal of a matrix."""
def transpose(input: _Tensor, dim0: _int, dim1: _int) -> _Tensor:
    r"""Two dimensions exchanged."""
def transpose_copy(*operands: _Any, **named: _Any) -> _Tensor:
    r"""A copy of what `transpose` shows, with its arguments."""
@_overload
def trapezoid(y: _Tensor, x: _Tensor | None = None, *, dx: _int | _float | _complex | None = None, dim: _int = -1) -> _Tensor:
    r"""The integral of samples along a dimension, by trapezoids."""
@_overload
def trapezoid(y: _Tensor, x: _Tensor | None = None, *, dx: _int | _float | _complex | None = None, axis: _int = -1) -> _Tensor:
    r"""The integral of samples along a dimension, by trapezoids."""
@_overload
def trapz(y: _Tensor, x: _Tensor | None = None, *, dx: _int | _float | _complex | None = None, dim: _int = -1) -> _Tensor:
    r"""The integral of samples along a dimension, by trapezoids."""
@_overload
def trapz(y: _Tensor, x: _Tensor | None = None, *, dx: _int | _float | _complex | None = None, axis: _int = -1) -> _Tensor:
    r"""The integral of samples along a dimension, by trapezoids."""
def triangular_solve(input: _Tensor, A: _Tensor, upper: _bool = True, transpose: _bool = False, unitriangular: _bool = False) -> _return_types.triangular_solve:
    r"""The solution of ``A X = input`` for triangular matrices, and a copy of these. See `linalg.solve_triangular`."""
def tril(input: _Tensor, diagonal: _int = 0) -> _Tensor:
    r"""The lower triangle of the last two dimensions."""
def tril_indices(row: _int, col: _int, offset: _int = 0, *, dtype: _dtype | None = None, device: _device | _str | _int | None = None, layout: _layout | None = None, pin_memory: _bool = False) -> _Tensor:
    r"""Where the elements of the lower triangle of a matrix stand: a row of rows, a row of columns."""
def triplet_margin_loss(anchor: _Tensor, positive: _Tensor, negative: _Tensor, margin: _float = 1.0, p: _float = 2, eps: _float = 1e-06, swap: _bool = False, reduction: _int = 0) -> _Tensor:
    r"""`nn.functional.triplet_margin_loss`, with a number for `reduction`: see `kl_div`."""
def triu(input: _Tensor, diagonal: _int = 0) -> _Tensor:
    r"""The upper triangle of the last two dimensions."""
def triu_indices(row: _int, col: _int, offset: _int = 0, *, dtype: _dtype | None = None, device: _device | _str | _int | None = None, layout: _layout | None = None, pin_memory: _bool = False) -> _Tensor:
    r"""The same of the upper triangle."""
def true_divide(input: _Tensor, other: _Tensor | _int | _float | _complex) -> _Tensor:
    r"""The exact quotient. See `div`."""
def trunc(input: _Tensor) -> _Tensor: ...
@_overload
def unbind(input: _Tensor, dim: _int = 0) -> tuple[_Tensor, ...]:
    r"""All slices along a dimension, as views."""
@_overload
def unbind(input: _Tensor, axis: _int = 0) -> tuple[_Tensor, ...]:
    r"""All slices along a dimension, as views."""
def unbind_copy(*operands: _Any, **named: _Any) -> tuple[_Tensor, ...]:
    r"""A copy of what `unbind` shows, with its arguments."""
@_overload
def unflatten(input: _Tensor, dim: _int, sizes: _Sequence[_int]) -> _Tensor:
    r"""One dimension as several."""
@_overload
def unflatten(input: _Tensor, axis: _int, sizes: _Sequence[_int]) -> _Tensor:
    r"""One dimension as several."""
def unfold_copy(*operands: _Any, **named: _Any) -> _Tensor:
    r"""A copy of what `unfold` shows, with its arguments."""
@_overload
def unique(input: _Tensor, sorted: _bool = True, return_inverse: _bool = False, return_counts: _bool = False, dim: _int | None = None) -> _Tensor | tuple[_Tensor, ...]:
    r"""The distinct elements in order, or the distinct slices along a dimension."""
@_overload
def unique(input: _Tensor, sorted: _bool = True, return_inverse: _bool = False, return_counts: _bool = False, axis: _int | None = None) -> _Tensor | tuple[_Tensor, ...]:
    r"""The distinct elements in order, or the distinct slices along a dimension."""
@_overload
def unique_consecutive(input: _Tensor, return_inverse: _bool = False, return_counts: _bool = False, dim: _int | None = None) -> _Tensor | tuple[_Tensor, ...]:
    r"""The elements, or the slices along a dimension, that differ from the one before."""
@_overload
def unique_consecutive(input: _Tensor, return_inverse: _bool = False, return_counts: _bool = False, axis: _int | None = None) -> _Tensor | tuple[_Tensor, ...]:
    r"""The elements, or the slices along a dimension, that differ from the one before."""
def unravel_index(indices: _Tensor, shape: _int | _Sequence[_int]) -> tuple[_Tensor, ...]:
    r"""The indices in each dimension of elements that are counted row by row."""
@_overload
def unsafe_chunk(input: _Tensor, chunks: _int, dim: _int = 0) -> tuple[_Tensor, ...]:
    r"""Another name of `chunk`."""
@_overload
def unsafe_chunk(input: _Tensor, chunks: _int, axis: _int = 0) -> tuple[_Tensor, ...]:
    r"""Another name of `chunk`."""
@_overload
def unsafe_split(input: _Tensor, split_size: _int, dim: _int = 0) -> _Tensor:
    r"""Parts of a length along a dimension: `split`."""
@_overload
def unsafe_split(input: _Tensor, split_size: _int, axis: _int = 0) -> _Tensor:
    r"""Parts of a length along a dimension: `split`."""
@_overload
def unsafe_split_with_sizes(input: _Tensor, split_sizes: _Sequence[_int], dim: _int = 0) -> _Tensor:
    r"""Parts of the given lengths along a dimension: `split` with a list."""
@_overload
def unsafe_split_with_sizes(input: _Tensor, split_sizes: _Sequence[_int], axis: _int = 0) -> _Tensor:
    r"""Parts of the given lengths along a dimension: `split` with a list."""
@_overload
def unsqueeze(input: _Tensor, dim: _int) -> _Tensor:
    r"""With a new dimension of size 1."""
@_overload
def unsqueeze(input: _Tensor, axis: _int) -> _Tensor:
    r"""With a new dimension of size 1."""
def unsqueeze_copy(*operands: _Any, **named: _Any) -> _Tensor:
    r"""A copy of what `unsqueeze` shows, with its arguments."""
def vander(x: _Any, N: _Any = None, increasing: _bool = False) -> _Tensor:
    r"""The powers of a vector's elements as columns, the highest first unless `increasing`."""
@_overload
def var(input: _Tensor, dim: _int | _Sequence[_int] | None = None, unbiased: _bool | None = None, keepdim: _bool = False, *, correction: _int | _float | _complex | None = None) -> _Tensor:
    r"""The variance over dimensions, ``sum((x - mean(x))**2) / (n - correction)``."""
@_overload
def var(input: _Tensor, axis: _int | _Sequence[_int] | None = None, unbiased: _bool | None = None, keepdims: _bool = False, *, correction: _int | _float | _complex | None = None) -> _Tensor:
    r"""The variance over dimensions, ``sum((x - mean(x))**2) / (n - correction)``."""
@_overload
def var_mean(input: _Tensor, dim: _int | _Sequence[_int] | None = None, unbiased: _Any = None, keepdim: _bool = False, *, correction: _float | None = None) -> tuple[_Tensor, _Tensor]:
    r"""The variance and the mean over dimensions. See `var`."""
@_overload
def var_mean(input: _Tensor, axis: _int | _Sequence[_int] | None = None, unbiased: _Any = None, keepdims: _bool = False, *, correction: _float | None = None) -> tuple[_Tensor, _Tensor]:
    r"""The variance and the mean over dimensions. See `var`."""
def vdot(input: _Tensor, other: _Tensor | _int | _float | _complex) -> _Tensor:
    r"""The inner product, with the conjugates of `input`; of real vectors another name of `dot`."""
def view_as_complex(input: _Tensor) -> _Tensor:
    r"""A view of pairs of real numbers as complex ones."""
def view_as_complex_copy(*operands: _Any, **named: _Any) -> _Tensor:
    r"""A copy of what `view_as_complex` shows, with its arguments."""
def view_as_real(input: _Tensor) -> _Tensor:
    r"""A view of complex numbers as pairs of real ones, which are a last dimension of size 2."""
def view_as_real_copy(*operands: _Any, **named: _Any) -> _Tensor:
    r"""A copy of what `view_as_real` shows, with its arguments."""
def view_copy(*operands: _Any, **named: _Any) -> _Tensor:
    r"""A copy of what `view` shows, with its arguments."""
def vsplit(input: _Tensor, indices_or_sections: _Any) -> tuple[_Tensor, ...]:
    r"""The same along the first dimension."""
def vstack(tensors: _Sequence[_Tensor]) -> _Tensor:
    r"""Tensors below each other: along the first dimension, vectors as rows."""
@_overload
def where(condition: _Tensor, input: _Tensor | _int | _float | _complex, other: _Tensor | _int | _float | _complex) -> _Tensor:
    r"""``input`` where the condition holds, else ``other``; without them the places where it holds."""
@_overload
def where(condition: _Tensor) -> tuple[_Tensor, ...]:
    r"""``input`` where the condition holds, else ``other``; without them the places where it holds."""
def xlogy(input: _Tensor | _int | _float | _complex, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
    r"""``input * log(other)``, and 0 where `input` is 0."""
@_overload
def zeros(*size: _int | _Sequence[_int], dtype: _dtype | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False, layout: _layout | None = None, pin_memory: _bool = False) -> _Tensor:
    r"""A tensor of zeros."""
@_overload
def zeros(size: _int | _Sequence[_int], *, dtype: _dtype | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False, layout: _layout | None = None, pin_memory: _bool = False) -> _Tensor:
    r"""A tensor of zeros."""
def zeros_like(input: _Tensor, *, dtype: _dtype | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False, memory_format: _memory_format | None = None, layout: _layout | None = None, pin_memory: _bool = False) -> _Tensor:
    r"""A tensor of the same sizes filled with zeros; see `empty_like`."""
