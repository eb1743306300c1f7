"""Functions of neural networks, with the names and arguments of PyTorch's ``nn.functional``."""

from fastgrad.nn.functional.activations import (
    elu,
    gelu,
    hardtanh,
    leaky_relu,
    log_softmax,
    logsigmoid,
    mish,
    prelu,
    relu,
    relu6,
    sigmoid,
    silu,
    softmax,
    softplus,
    tanh,
)
from fastgrad.nn.functional.attention import scaled_dot_product_attention
from fastgrad.nn.functional.convolution import conv1d, conv2d, conv_transpose1d, conv_transpose2d
from fastgrad.nn.functional.distance import cosine_similarity, pairwise_distance
from fastgrad.nn.functional.dropout import dropout, dropout1d, dropout2d
from fastgrad.nn.functional.linear import bilinear, linear
from fastgrad.nn.functional.losses import cross_entropy, nll_loss
from fastgrad.nn.functional.multi_head import multi_head_attention_forward
from fastgrad.nn.functional.normalization import batch_norm, group_norm, layer_norm, normalize, rms_norm
from fastgrad.nn.functional.padding import pad
from fastgrad.nn.functional.pair_losses import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    huber_loss,
    kl_div,
    l1_loss,
    mse_loss,
    smooth_l1_loss,
)
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
from fastgrad.nn.functional.sparse import embedding, one_hot

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "avg_pool1d",
    "avg_pool2d",
    "batch_norm",
    "bilinear",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "conv1d",
    "conv2d",
    "conv_transpose1d",
    "conv_transpose2d",
    "cosine_similarity",
    "cross_entropy",
    "dropout",
    "dropout1d",
    "dropout2d",
    "elu",
    "embedding",
    "gelu",
    "group_norm",
    "hardtanh",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "linear",
    "log_softmax",
    "logsigmoid",
    "max_pool1d",
    "max_pool1d_with_indices",
    "max_pool2d",
    "max_pool2d_with_indices",
    "mish",
    "mse_loss",
    "multi_head_attention_forward",
    "nll_loss",
    "normalize",
    "one_hot",
    "pad",
    "pairwise_distance",
    "prelu",
    "relu",
    "relu6",
    "rms_norm",
    "scaled_dot_product_attention",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
    "softmax",
    "softplus",
    "tanh",
]
