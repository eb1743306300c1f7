"""Another name of `distributed.fsdp`. The classes are missing; programs name them when they are imported."""

from __future__ import annotations

from fastgrad.as_torch.absent import absent_function

__all__ = ["fully_shard"]

fully_shard = absent_function("torch.distributed._composable.fsdp", "fully_shard")
