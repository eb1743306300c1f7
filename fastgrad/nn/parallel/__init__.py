"""Modules that run on several GPUs, or whose gradients are reduced over several processes."""

from fastgrad.module_names import getattr_of as _getattr_of
from fastgrad.nn.parallel import scatter_gather
from fastgrad.nn.parallel.distributed import DistributedDataParallel
from fastgrad.nn.parallel.replicas import DataParallel, data_parallel
from fastgrad.nn.parallel.scatter_gather import gather, scatter

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel", "gather", "scatter", "scatter_gather"]

__getattr__ = _getattr_of(__name__, {"distributed": None})
