"""Neural networks: modules, and the functions that they are made of in `fastgrad.nn.functional`."""

from fastgrad.nn import functional, init, modules
from fastgrad.nn.modules import (
    GRU,
    LSTM,
    RNN,
    GRUCell,
    LSTMCell,
    Module,
    ModuleDict,
    ModuleList,
    ParameterDict,
    ParameterList,
    RNNBase,
    RNNCell,
    RNNCellBase,
    Sequential,
)
from fastgrad.nn.parameter import Buffer, Parameter

__all__ = [
    "GRU",
    "LSTM",
    "RNN",
    "Buffer",
    "GRUCell",
    "LSTMCell",
    "Module",
    "ModuleDict",
    "ModuleList",
    "Parameter",
    "ParameterDict",
    "ParameterList",
    "RNNBase",
    "RNNCell",
    "RNNCellBase",
    "Sequential",
    "functional",
    "init",
    "modules",
]
