"""Optimizers that several processes share.

They stand above `fastgrad.optim`; nothing else of `fastgrad.distributed` uses them.
"""

from fastgrad.distributed.optim.post_localSGD_optimizer import PostLocalSGDOptimizer
from fastgrad.distributed.optim.utils import as_functional_optim
from fastgrad.distributed.optim.zero_redundancy_optimizer import ZeroRedundancyOptimizer
from fastgrad.module_names import getattr_of as _getattr_of

__all__ = ["PostLocalSGDOptimizer", "ZeroRedundancyOptimizer", "as_functional_optim"]

__getattr__ = _getattr_of(__name__)
