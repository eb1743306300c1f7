"""What changes how operators take tensors that several processes share, of which there are none."""

from __future__ import annotations

from fastgrad.as_torch.absent import absent_function

__all__ = ["implicit_replication"]

implicit_replication = absent_function("torch.distributed.tensor.experimental", "implicit_replication")
