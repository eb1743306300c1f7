"""Neural networks: modules, and the functions that they are made of in `fastgrad.nn.functional`."""

from fastgrad.module_names import getattr_of as _getattr_of
from fastgrad.nn import functional, init, modules, utils
from fastgrad.nn.modules import *  # noqa: F403 - `modules` lists its names; they are these
from fastgrad.nn.parameter import Buffer, Parameter

__all__ = [*modules.__all__, "Buffer", "Parameter", "functional", "init", "modules", "utils"]

__getattr__ = _getattr_of(__name__)
