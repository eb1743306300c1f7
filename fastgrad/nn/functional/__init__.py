"""Functions of neural networks, with the names and arguments of PyTorch's ``nn.functional``."""

from fastgrad.nn.functional.activations import log_softmax, relu, sigmoid, softmax, tanh
from fastgrad.nn.functional.attention import scaled_dot_product_attention
from fastgrad.nn.functional.losses import cross_entropy, mse_loss, nll_loss

__all__ = [
    "cross_entropy",
    "log_softmax",
    "mse_loss",
    "nll_loss",
    "relu",
    "scaled_dot_product_attention",
    "sigmoid",
    "softmax",
    "tanh",
]
