"""Tensors that several processes share. There are none; programs name them when they are imported."""

from __future__ import annotations

from fastgrad.as_torch.absent import absent_function
from fastgrad.as_torch.overlay.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard

_NAMES = ("distribute_module", "distribute_tensor")
globals().update({name: absent_function("torch.distributed.tensor", name) for name in _NAMES})

__all__ = ["Partial", "Placement", "Replicate", "Shard", *_NAMES]
