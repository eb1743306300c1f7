"""What is made of the calls between processes: communication hooks."""

from fastgrad.distributed.algorithms import ddp_comm_hooks
from fastgrad.module_names import getattr_of as _getattr_of

__all__ = ["ddp_comm_hooks"]

__getattr__ = _getattr_of(__name__)
