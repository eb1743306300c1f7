"""Functions of neural networks, with the names and arguments of PyTorch's ``nn.functional``."""

from fastgrad.nn.functional.activations import log_softmax, relu, sigmoid, softmax, tanh
from fastgrad.nn.functional.convolution import conv1d, conv2d, conv_transpose1d, conv_transpose2d
from fastgrad.nn.functional.losses import cross_entropy, mse_loss, nll_loss
from fastgrad.nn.functional.padding import pad
from fastgrad.nn.functional.pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    avg_pool1d,
    avg_pool2d,
    max_pool1d,
    max_pool1d_with_indices,
    max_pool2d,
    max_pool2d_with_indices,
)

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "avg_pool1d",
    "avg_pool2d",
    "conv1d",
    "conv2d",
    "conv_transpose1d",
    "conv_transpose2d",
    "cross_entropy",
    "log_softmax",
    "max_pool1d",
    "max_pool1d_with_indices",
    "max_pool2d",
    "max_pool2d_with_indices",
    "mse_loss",
    "nll_loss",
    "pad",
    "relu",
    "sigmoid",
    "softmax",
    "tanh",
]
