"""fastgrad: automatic differentiation with PyTorch's interface and a compiled core.

Examples
--------
>>> import fastgrad as fg
>>> x = fg.tensor([1.0, 2.0], requires_grad=True)
>>> (x * x).sum().backward()
>>> x.grad
tensor([2., 4.])
"""

from importlib import import_module as _import_module
from math import e, inf, nan, pi
from typing import Any as _Any

from fastgrad._version import __version__
from fastgrad import ops
from fastgrad.dtypes import (
    bfloat16,
    bool_ as bool,
    can_cast,
    dtype,
    finfo,
    float16,
    float32,
    float64,
    get_default_dtype,
    iinfo,
    int8,
    int16,
    int32,
    int64,
    promote_types,
    set_default_dtype,
    uint8,
    uint16,
    uint32,
    uint64,
)
from fastgrad.tensor import Size, Tensor
from fastgrad.tensor.typed import BY_NAME as _TENSOR_TYPES
from fastgrad.formatting import set_printoptions
from fastgrad.places import device, get_default_device, set_default_device
from fastgrad.functions.memory_format import (
    channels_last,
    channels_last_3d,
    contiguous_format,
    layout,
    memory_format,
    preserve_format,
    strided,
)
from fastgrad.functions.public import PACKAGE
from fastgrad import (
    accelerator,
    amp,
    autograd,
    backends,
    compiler,
    cuda,
    debug,
    linalg,
    nn,
    optim,
    profiler,
    serialization,
    special,
    utils,
    version,
)
from fastgrad.compiler import compile
from fastgrad.autograd.anomaly import is_anomaly_check_nan_enabled, is_anomaly_enabled
from fastgrad.autograd.introspect import hooks
from fastgrad.autograd.native_hooks import native_hook
from fastgrad.autograd.modes import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from fastgrad.native.host.threads import get_num_threads, set_num_threads
from fastgrad.random import (
    Generator,
    default_generator,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)
from fastgrad.amp import autocast, get_autocast_dtype, is_autocast_cache_enabled, is_autocast_enabled
from fastgrad.serialization import load, save
from fastgrad.cuda import OutOfMemoryError
from fastgrad.cuda import amp as _amp  # noqa: F401 - `cuda.amp`
from fastgrad.cuda.precision import get_float32_matmul_precision, set_float32_matmul_precision
from fastgrad.warm import warmup


newaxis = None
half = float16
float = float32
double = float64
short = int16
int = int32
long = int64


def is_tensor(obj: object) -> object:
    """Whether an object is a tensor."""
    return isinstance(obj, Tensor)


globals().update(PACKAGE)
globals().update(_TENSOR_TYPES)
_IN_PLACE = (
    "abs_", "acos_", "acosh_", "addmv_", "asin_", "asinh_", "atan_", "atanh_", "ceil_", "clamp_",
    "clamp_max_", "clamp_min_", "clip_", "cos_", "cosh_", "deg2rad_", "detach_", "erf_", "erfc_", "exp2_",
    "exp_", "expm1_", "fill_", "floor_", "frac_", "gcd_", "i0_", "lcm_", "ldexp_", "log10_", "log1p_",
    "log2_", "log_", "logit_", "nan_to_num_", "neg_", "rad2deg_", "reciprocal_", "relu_", "resize_as_",
    "round_", "rsqrt_", "sigmoid_", "sin_", "sinc_", "sinh_", "sqrt_", "square_", "tan_", "tanh_", "trunc_",
    "xlogy_", "zero_", "as_strided_",
)  # fmt: skip
globals().update((_name, getattr(Tensor, _name)) for _name in _IN_PLACE)

__all__ = [
    "Generator",
    "OutOfMemoryError",
    "Size",
    "Tensor",
    "__version__",
    "accelerator",
    "amp",
    "autocast",
    "autograd",
    "backends",
    "bfloat16",
    "compile",
    "compiler",
    "cuda",
    "bool",
    "channels_last",
    "channels_last_3d",
    "contiguous_format",
    "debug",
    "default_generator",
    "device",
    "double",
    "can_cast",
    "dtype",
    "e",
    "enable_grad",
    "finfo",
    "float",
    "float16",
    "float32",
    "float64",
    "get_default_device",
    "get_autocast_dtype",
    "get_default_dtype",
    "get_float32_matmul_precision",
    "get_num_threads",
    "get_rng_state",
    "half",
    "hooks",
    "native_hook",
    "inference_mode",
    "initial_seed",
    "int",
    "int8",
    "int16",
    "int32",
    "int64",
    "is_anomaly_check_nan_enabled",
    "is_anomaly_enabled",
    "is_autocast_cache_enabled",
    "is_autocast_enabled",
    "is_grad_enabled",
    "is_inference",
    "is_inference_mode_enabled",
    "is_tensor",
    "iinfo",
    "inf",
    "linalg",
    "load",
    "layout",
    "memory_format",
    "preserve_format",
    "profiler",
    "long",
    "manual_seed",
    "nan",
    "newaxis",
    "nn",
    "no_grad",
    "ops",
    "optim",
    "pi",
    "promote_types",
    "save",
    "seed",
    "serialization",
    "set_default_device",
    "set_default_dtype",
    "set_float32_matmul_precision",
    "set_grad_enabled",
    "set_num_threads",
    "set_printoptions",
    "special",
    "strided",
    "set_rng_state",
    "testing",
    "uint16",
    "uint32",
    "uint64",
    "uint8",
    "utils",
    "version",
    "viz",
    "warmup",
    *PACKAGE,
    *_TENSOR_TYPES,
    *_IN_PLACE,
]


def __getattr__(name: str) -> _Any:
    if name in ("testing", "viz"):  # few programs draw pictures, or test
        return _import_module(f"fastgrad.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
