"""Parts of tensors that several processes share, of which there are none."""

from __future__ import annotations

from fastgrad.as_torch.absent import absent_function

__all__ = ["compute_local_shape_and_global_offset"]

compute_local_shape_and_global_offset = absent_function(
    "torch.distributed.tensor._utils", "compute_local_shape_and_global_offset"
)
