"""fastgrad: automatic differentiation with PyTorch's interface and a compiled core.

Examples
--------
>>> import fastgrad as fg
>>> x = fg.tensor([1.0, 2.0], requires_grad=True)
>>> (x * x).sum().backward()
>>> x.grad
tensor([2., 4.])
"""

import gc as _gc
from contextlib import contextmanager as _contextmanager
from math import e, inf, nan, pi
from typing import Any as _Any

from fastgrad._version import __version__
from fastgrad.module_names import getattr_of as _getattr_of


@_contextmanager
def _collector_paused() -> _Any:
    """Let the garbage collector rest while modules are imported: what they define stays, so it would look in vain."""
    running = _gc.isenabled()
    _gc.disable()
    try:
        yield
    finally:
        if running:
            if not _gc.get_freeze_count():  # what was made grows old without being looked at
                _gc.freeze()
                _gc.unfreeze()
            _gc.enable()


with _collector_paused():
    from fastgrad import ops
    from fastgrad.dtypes import (
        bfloat16,
        bool_ as bool,
        can_cast,
        complex64,
        complex128,
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
    from fastgrad.functions.foreach import FOREACH as _FOREACH
    from fastgrad.functions.public import PACKAGE
    from fastgrad import autograd, compiler, cuda, debug, linalg, return_types, version
    from fastgrad.compiler import compile
    from fastgrad.autograd.anomaly import (
        is_anomaly_check_nan_enabled,
        is_anomaly_enabled,
        set_anomaly_enabled,
    )
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
    from fastgrad.cuda import OutOfMemoryError
    from fastgrad.cuda.precision import get_float32_matmul_precision, set_float32_matmul_precision

_LATER: dict[str, str | None] = dict.fromkeys(
    (
        "accelerator",
        "amp",
        "as_torch",
        "backends",
        "cpu",
        "distributed",
        "distributions",
        "fft",
        "func",
        "futures",
        "hub",
        "library",
        "multiprocessing",
        "nn",
        "optim",
        "overrides",
        "package",
        "profiler",
        "serialization",
        "signal",
        "special",
        "summaries",
        "testing",
        "utils",
        "viz",
    )
) | {
    "load": "serialization",
    "save": "serialization",
    "summary": "summaries",
    "vmap": "func",
    "warmup": "warm",
}
_LATER["install_as_torch"] = "as_torch"
_LATER |= dict.fromkeys(
    (
        "adaptive_avg_pool1d", "alpha_dropout", "avg_pool1d", "bilinear", "celu", "celu_", "channel_shuffle", "conv1d",
        "conv2d", "conv3d", "conv_tbc", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
        "cosine_similarity", "feature_alpha_dropout", "group_norm", "layer_norm", "max_pool1d",
        "max_pool1d_with_indices", "max_pool2d", "max_pool3d", "native_channel_shuffle", "pairwise_distance",
        "pixel_shuffle", "pixel_unshuffle", "rms_norm", "rrelu", "rrelu_", "selu", "selu_", "threshold",
        "threshold_",
    ),
    "nn.functional",
)  # fmt: skip
_LATER |= dict.fromkeys(
    (
        "affine_grid_generator", "constant_pad_nd", "convolution", "grid_sampler", "grid_sampler_2d", "grid_sampler_3d",
        "native_batch_norm", "native_dropout", "native_group_norm", "native_layer_norm",
    ),
    "nn.functional.native",
)  # fmt: skip
_LATER |= dict.fromkeys(
    (
        "adaptive_max_pool1d", "alpha_dropout_", "batch_norm", "binary_cross_entropy_with_logits",
        "cosine_embedding_loss", "ctc_loss", "dropout", "dropout_", "embedding", "embedding_bag", "embedding_renorm_",
        "feature_alpha_dropout_", "feature_dropout", "feature_dropout_", "hinge_embedding_loss", "instance_norm",
        "kl_div", "margin_ranking_loss", "poisson_nll_loss", "triplet_margin_loss",
    ),
    "nn.functional.numbered",
)  # fmt: skip
_LATER |= dict.fromkeys(
    (
        "cond", "sym_float", "sym_fresh_size", "sym_int", "sym_ite", "sym_max", "sym_min", "sym_not", "sym_sqrt",
        "sym_sum", "while_loop",
    ),
    "control",
)  # fmt: skip
_LATER |= dict.fromkeys(
    (
        "get_device", "get_device_module", "get_file_path", "is_distributed", "is_same_size", "is_storage", "typename",
    ),
    "inspection",
)  # fmt: skip
_LATER |= dict.fromkeys(
    (
        "are_deterministic_algorithms_enabled", "get_deterministic_debug_mode", "get_num_interop_threads",
        "is_deterministic_algorithms_warn_only_enabled", "is_warn_always_enabled", "set_default_tensor_type",
        "set_deterministic_debug_mode", "set_flush_denormal", "set_num_interop_threads", "set_warn_always",
        "use_deterministic_algorithms",
    ),
    "settings",
)  # fmt: skip
_LATER |= dict.fromkeys(("gru", "lstm", "rnn_relu", "rnn_tanh"), "nn.functional.sequences")
_LATER |= dict.fromkeys(
    (
        "autocast",
        "autocast_decrement_nesting",
        "autocast_increment_nesting",
        "clear_autocast_cache",
        "get_autocast_cpu_dtype",
        "get_autocast_dtype",
        "get_autocast_gpu_dtype",
        "is_autocast_cache_enabled",
        "is_autocast_cpu_enabled",
        "is_autocast_enabled",
        "set_autocast_cache_enabled",
        "set_autocast_cpu_dtype",
        "set_autocast_cpu_enabled",
        "set_autocast_dtype",
        "set_autocast_enabled",
        "set_autocast_gpu_dtype",
    ),
    "amp",
)
_LATER |= dict.fromkeys(("gru_cell", "lstm_cell", "rnn_relu_cell", "rnn_tanh_cell"), "functions.recurrent")
_LATER["lobpcg"] = "functions.lobpcg"
"""What is imported when a program first asks for it: modules, and functions by the modules that have them."""


newaxis = None
half = float16
float = float32
double = float64
short = int16
cfloat = complex64
cdouble = complex128
int = int32
long = int64


def is_tensor(obj: object) -> object:
    """Whether an object is a tensor."""
    return isinstance(obj, Tensor)


globals().update(PACKAGE)
globals().update(_FOREACH)
globals().update(_TENSOR_TYPES)
_IN_PLACE = (
    "abs_", "acos_", "acosh_", "addmv_", "arccos_", "arccosh_", "arcsin_", "arcsinh_", "arctan_", "arctanh_",
    "as_strided_", "asin_", "asinh_", "atan_", "atanh_", "ceil_", "clamp_", "clamp_max_", "clamp_min_", "clip_",
    "conj_physical_", "cos_", "cosh_", "deg2rad_", "detach_", "erf_", "erfc_", "exp2_", "exp_", "expm1_", "fill_",
    "fix_", "floor_", "frac_", "gcd_", "i0_", "index_put_", "lcm_", "ldexp_", "log10_", "log1p_", "log2_", "log_",
    "logit_", "nan_to_num_", "neg_", "negative_", "rad2deg_", "reciprocal_", "relu_", "resize_as_", "round_",
    "rsqrt_", "sigmoid_", "sin_", "sinc_", "sinh_", "sqrt_", "square_", "tan_", "tanh_", "trunc_", "xlogy_", "zero_",
)  # fmt: skip
globals().update((_name, getattr(Tensor, _name)) for _name in _IN_PLACE)

__all__ = [
    "Generator",
    "OutOfMemoryError",
    "Size",
    "Tensor",
    "__version__",
    "autograd",
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
    "cdouble",
    "cfloat",
    "complex64",
    "complex128",
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
    "is_grad_enabled",
    "is_inference",
    "is_inference_mode_enabled",
    "is_tensor",
    "iinfo",
    "inf",
    "linalg",
    "layout",
    "memory_format",
    "preserve_format",
    "long",
    "manual_seed",
    "nan",
    "newaxis",
    "no_grad",
    "ops",
    "pi",
    "promote_types",
    "return_types",
    "seed",
    "set_anomaly_enabled",
    "set_default_device",
    "set_default_dtype",
    "set_float32_matmul_precision",
    "set_grad_enabled",
    "set_num_threads",
    "set_printoptions",
    "strided",
    "set_rng_state",
    "uint16",
    "uint32",
    "uint64",
    "uint8",
    "version",
    *PACKAGE,
    *_LATER,
    *_TENSOR_TYPES,
    *_IN_PLACE,
]


__getattr__ = _getattr_of(__name__, _LATER)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
