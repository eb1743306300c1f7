"""Calls between processes that give new tensors, as compiled programs make them; here, `distributed.nn` has such."""

from __future__ import annotations

from fastgrad.as_torch.absent import absent_function

_MODULE = "torch.distributed._functional_collectives"
_NAMES = (
    "all_gather_tensor", "all_gather_tensor_autograd", "all_reduce", "all_to_all_single", "all_to_all_single_autograd",
    "broadcast", "permute_tensor", "reduce_scatter_tensor", "reduce_scatter_tensor_autograd", "wait_tensor",
)  # fmt: skip
globals().update({name: absent_function(_MODULE, name) for name in _NAMES})

__all__ = list(_NAMES)
