"""Layers and what they are made of."""

from fastgrad.nn.modules.container import ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential
from fastgrad.nn.modules.module import Module
from fastgrad.nn.modules.rnn import GRU, LSTM, RNN, RNNBase
from fastgrad.nn.modules.rnn_cells import GRUCell, LSTMCell, RNNCell, RNNCellBase

__all__ = [
    "GRU",
    "LSTM",
    "RNN",
    "GRUCell",
    "LSTMCell",
    "Module",
    "ModuleDict",
    "ModuleList",
    "ParameterDict",
    "ParameterList",
    "RNNBase",
    "RNNCell",
    "RNNCellBase",
    "Sequential",
]
