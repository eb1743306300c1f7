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
from fastgrad.nn.functional.distance import cosine_similarity, pairwise_distance
from fastgrad.nn.functional.dropout import dropout, dropout1d, dropout2d
from fastgrad.nn.functional.linear import bilinear, linear
from fastgrad.nn.functional.losses import cross_entropy, nll_loss
from fastgrad.nn.functional.multi_head import multi_head_attention_forward
from fastgrad.nn.functional.normalization import batch_norm, group_norm, layer_norm, normalize, rms_norm
from fastgrad.nn.functional.pair_losses import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    huber_loss,
    kl_div,
    l1_loss,
    mse_loss,
    smooth_l1_loss,
)
from fastgrad.nn.functional.sparse import embedding, one_hot

__all__ = [
    "batch_norm",
    "bilinear",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
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
    "mish",
    "mse_loss",
    "multi_head_attention_forward",
    "nll_loss",
    "normalize",
    "one_hot",
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
