"""What is made of the calls between processes: communication hooks, averaging of models, uneven inputs."""

from fastgrad.distributed.algorithms import ddp_comm_hooks
from fastgrad.distributed.algorithms.join import Join, Joinable, JoinHook
from fastgrad.module_names import getattr_of as _getattr_of

__all__ = ["Join", "JoinHook", "Joinable", "ddp_comm_hooks"]

__getattr__ = _getattr_of(__name__, {"model_averaging": None})
