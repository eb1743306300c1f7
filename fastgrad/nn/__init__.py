"""Neural networks: modules, and the functions that they are made of in `fastgrad.nn.functional`."""

from fastgrad.nn import functional, init, modules, utils
from fastgrad.nn.modules import *  # noqa: F403 - `modules` lists its names; they are these
from fastgrad.nn.parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter

__all__ = [
    *modules.__all__,
    "Buffer",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "functional",
    "init",
    "modules",
    "utils",
]
