"""Weights of convolutions in another memory format."""

from __future__ import annotations

from typing import Any, TypeVar

from fastgrad.functions.arguments import need_type
from fastgrad.nn.modules.conv import _ConvNd
from fastgrad.nn.modules.module import Module

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]

_M = TypeVar("_M", bound=Module)


def convert_conv2d_weight_memory_format(module: _M, memory_format: Any) -> _M:
    """Lay the weights of all convolutions of images in a module out in a memory format, and nothing else.

    Parameters
    ----------
    module : Module
    memory_format : memory_format

    Returns
    -------
    Module
        `module`.

    Examples
    --------
    >>> import fastgrad as fg
    >>> model = fg.nn.Sequential(fg.nn.Conv2d(8, 4, 3))
    >>> model = fg.nn.utils.convert_conv2d_weight_memory_format(model, fg.channels_last)
    >>> model[0].weight.stride()
    (72, 1, 24, 8)
    """
    return _converted("convert_conv2d_weight_memory_format", module, memory_format, 4)


def convert_conv3d_weight_memory_format(module: _M, memory_format: Any) -> _M:
    """Lay the weights of all convolutions of volumes in a module out in a memory format, and nothing else.

    See `convert_conv2d_weight_memory_format`.
    """
    return _converted("convert_conv3d_weight_memory_format", module, memory_format, 5)


def _converted(name: str, module: _M, memory_format: Any, dims: int) -> _M:
    for each in need_type(name, module, Module, "module").modules():
        if isinstance(each, _ConvNd) and each.weight.dim() == dims:
            each.weight.data = each.weight.detach().contiguous(memory_format=memory_format)
    return module
