"""Helpers around parameters and their gradients."""

from fastgrad.module_names import getattr_of as _getattr_of
from fastgrad.nn.utils import rnn
from fastgrad.nn.utils.clip_grad import (
    clip_grad_norm,
    clip_grad_norm_,
    clip_grad_value_,
    clip_grads_with_norm_,
    get_total_norm,
)
from fastgrad.nn.utils.convert_parameters import parameters_to_vector, vector_to_parameters
from fastgrad.nn.utils.spectral_norm import remove_spectral_norm, spectral_norm
from fastgrad.nn.utils.weight_norm import remove_weight_norm, weight_norm

__all__ = [
    "clip_grad_norm",
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "convert_conv2d_weight_memory_format",
    "convert_conv3d_weight_memory_format",
    "fuse_conv_bn_eval",
    "fuse_conv_bn_weights",
    "fuse_linear_bn_eval",
    "fuse_linear_bn_weights",
    "get_total_norm",
    "parameters_to_vector",
    "parametrizations",
    "parametrize",
    "prune",
    "remove_spectral_norm",
    "remove_weight_norm",
    "rnn",
    "skip_init",
    "spectral_norm",
    "stateless",
    "vector_to_parameters",
    "weight_norm",
]

_LATER: dict[str, str | None] = {  # few programs use these
    "convert_conv2d_weight_memory_format": "memory_format",
    "convert_conv3d_weight_memory_format": "memory_format",
    "fuse_conv_bn_eval": "fusion",
    "fuse_conv_bn_weights": "fusion",
    "fuse_linear_bn_eval": "fusion",
    "fuse_linear_bn_weights": "fusion",
    "skip_init": "init",
    **dict.fromkeys(
        ("fusion", "init", "memory_format", "parametrizations", "parametrize", "prune", "stateless"), None
    ),
}

__getattr__ = _getattr_of(__name__, _LATER)
