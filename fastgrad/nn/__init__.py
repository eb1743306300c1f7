"""Neural networks: modules, and the functions that they are made of in `fastgrad.nn.functional`."""

from fastgrad.nn import functional, init, modules
from fastgrad.nn.modules import Module, ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential
from fastgrad.nn.parameter import Buffer, Parameter

__all__ = [
    "Buffer",
    "Module",
    "ModuleDict",
    "ModuleList",
    "Parameter",
    "ParameterDict",
    "ParameterList",
    "Sequential",
    "functional",
    "init",
    "modules",
]
