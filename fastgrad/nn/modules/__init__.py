"""Layers and what they are made of."""

from fastgrad.nn.modules.container import ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential
from fastgrad.nn.modules.module import Module

__all__ = ["Module", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]
