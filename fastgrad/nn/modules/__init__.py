"""Layers and what they are made of."""

from fastgrad.nn.modules.activation import (
    ELU,
    GELU,
    Hardtanh,
    LeakyReLU,
    LogSigmoid,
    LogSoftmax,
    Mish,
    PReLU,
    ReLU,
    ReLU6,
    Sigmoid,
    SiLU,
    Softmax,
    Softplus,
    Tanh,
)
from fastgrad.nn.modules.attention import MultiheadAttention
from fastgrad.nn.modules.batchnorm import BatchNorm1d, BatchNorm2d
from fastgrad.nn.modules.container import ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential
from fastgrad.nn.modules.conv import Conv1d, Conv2d, ConvTranspose1d, ConvTranspose2d
from fastgrad.nn.modules.distance import CosineSimilarity, PairwiseDistance
from fastgrad.nn.modules.dropout import Dropout, Dropout1d, Dropout2d
from fastgrad.nn.modules.flatten import Flatten, Unflatten
from fastgrad.nn.modules.linear import Bilinear, Identity, Linear
from fastgrad.nn.modules.loss import (
    BCELoss,
    BCEWithLogitsLoss,
    CrossEntropyLoss,
    HuberLoss,
    KLDivLoss,
    L1Loss,
    MSELoss,
    NLLLoss,
    SmoothL1Loss,
)
from fastgrad.nn.modules.module import Module
from fastgrad.nn.modules.normalization import GroupNorm, LayerNorm, RMSNorm
from fastgrad.nn.modules.pooling import (
    AdaptiveAvgPool1d,
    AdaptiveAvgPool2d,
    AvgPool1d,
    AvgPool2d,
    MaxPool1d,
    MaxPool2d,
)
from fastgrad.nn.modules.rnn import GRU, LSTM, RNN, RNNBase
from fastgrad.nn.modules.rnn_cells import GRUCell, LSTMCell, RNNCell, RNNCellBase
from fastgrad.nn.modules.sparse import Embedding
from fastgrad.nn.modules.transformer import TransformerEncoder, TransformerEncoderLayer

__all__ = [
    "ELU",
    "GELU",
    "GRU",
    "LSTM",
    "RNN",
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AvgPool1d",
    "AvgPool2d",
    "BCELoss",
    "BCEWithLogitsLoss",
    "BatchNorm1d",
    "BatchNorm2d",
    "Bilinear",
    "Conv1d",
    "Conv2d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "CosineSimilarity",
    "CrossEntropyLoss",
    "Dropout",
    "Dropout1d",
    "Dropout2d",
    "Embedding",
    "Flatten",
    "GRUCell",
    "GroupNorm",
    "Hardtanh",
    "HuberLoss",
    "Identity",
    "KLDivLoss",
    "L1Loss",
    "LSTMCell",
    "LayerNorm",
    "LeakyReLU",
    "Linear",
    "LogSigmoid",
    "LogSoftmax",
    "MSELoss",
    "MaxPool1d",
    "MaxPool2d",
    "Mish",
    "Module",
    "ModuleDict",
    "ModuleList",
    "MultiheadAttention",
    "NLLLoss",
    "PReLU",
    "PairwiseDistance",
    "ParameterDict",
    "ParameterList",
    "RMSNorm",
    "RNNBase",
    "RNNCell",
    "RNNCellBase",
    "ReLU",
    "ReLU6",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "SmoothL1Loss",
    "Softmax",
    "Softplus",
    "Tanh",
    "TransformerEncoder",
    "TransformerEncoderLayer",
    "Unflatten",
]
