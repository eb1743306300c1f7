"""Helpers around parameters and their gradients."""

from fastgrad.module_names import getattr_of as _getattr_of
from fastgrad.nn.utils import rnn
from fastgrad.nn.utils.clip_grad import (
    clip_grad_norm_,
    clip_grad_value_,
    clip_grads_with_norm_,
    get_total_norm,
)
from fastgrad.nn.utils.convert_parameters import parameters_to_vector, vector_to_parameters
from fastgrad.nn.utils.weight_norm import remove_weight_norm, weight_norm

__all__ = [
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "get_total_norm",
    "parameters_to_vector",
    "remove_weight_norm",
    "rnn",
    "vector_to_parameters",
    "weight_norm",
]

__getattr__ = _getattr_of(__name__)
