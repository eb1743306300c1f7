"""Modules whose gradients are reduced over several processes."""

from fastgrad.module_names import getattr_of as _getattr_of
from fastgrad.nn.parallel.distributed import DistributedDataParallel

__all__ = ["DistributedDataParallel"]

__getattr__ = _getattr_of(__name__, {"distributed": None})
