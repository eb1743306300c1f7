"""Communication hooks of `nn.parallel.DistributedDataParallel` that are ready."""

from __future__ import annotations

from enum import Enum
from typing import Any

from fastgrad.distributed.algorithms.ddp_comm_hooks import (
    ddp_zero_hook,
    debugging_hooks,
    default_hooks,
    optimizer_overlap_hooks,
    post_localSGD_hook,
    powerSGD_hook,
    quantization_hooks,
)
from fastgrad.module_names import getattr_of as _getattr_of

__all__ = [
    "DDPCommHookType",
    "ddp_zero_hook",
    "debugging_hooks",
    "default_hooks",
    "optimizer_overlap_hooks",
    "post_localSGD_hook",
    "powerSGD_hook",
    "quantization_hooks",
    "register_ddp_comm_hook",
]


class DDPCommHookType(Enum):
    """The hooks that `register_ddp_comm_hook` knows by name; the rank of those that have one."""

    ALLREDUCE = (default_hooks.allreduce_hook, None)
    FP16_COMPRESS = (default_hooks.fp16_compress_hook, None)
    BF16_COMPRESS = (default_hooks.bf16_compress_hook, None)
    QUANTIZE_PER_TENSOR = (quantization_hooks.quantization_pertensor_hook, None)
    QUANTIZE_PER_CHANNEL = (quantization_hooks.quantization_perchannel_hook, None)
    POWER_SGD = (powerSGD_hook.powerSGD_hook, 1)
    POWER_SGD_RANK2 = (powerSGD_hook.powerSGD_hook, 2)
    BATCHED_POWER_SGD = (powerSGD_hook.batched_powerSGD_hook, 1)
    BATCHED_POWER_SGD_RANK2 = (powerSGD_hook.batched_powerSGD_hook, 2)
    NOOP = (debugging_hooks.noop_hook, None)


def register_ddp_comm_hook(comm_hook_type: DDPCommHookType, model: Any, state: Any = None) -> None:
    """Register a hook by name.

    Parameters
    ----------
    comm_hook_type : DDPCommHookType
    model : DistributedDataParallel
    state : ProcessGroup, optional
        Over which is reduced; None for all ranks.
    """
    if not isinstance(comm_hook_type, DDPCommHookType):
        raise TypeError(
            "register_ddp_comm_hook(): argument 'comm_hook_type' must be DDPCommHookType, not "
            f"{type(comm_hook_type).__name__}"
        )
    hook, rank = comm_hook_type.value
    if rank is not None:
        state = powerSGD_hook.PowerSGDState(state, matrix_approximation_rank=rank)
    model.register_comm_hook(state, hook)


__getattr__ = _getattr_of(__name__)
