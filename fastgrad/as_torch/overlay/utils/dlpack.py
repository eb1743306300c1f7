"""Tensors as capsules of DLPack, by the functions of old."""

from __future__ import annotations

import enum
from typing import Any

from fastgrad.functions.arguments import need_tensor
from fastgrad.functions.sharing import from_dlpack

__all__ = ["from_dlpack", "to_dlpack"]


_DEVICES = {
    "kDLCPU": 1, "kDLCUDA": 2, "kDLCUDAHost": 3, "kDLOpenCL": 4, "kDLVulkan": 7, "kDLMetal": 8, "kDLVPI": 9,
    "kDLROCM": 10, "kDLROCMHost": 11, "kDLExtDev": 12, "kDLCUDAManaged": 13, "kDLOneAPI": 14, "kDLWebGPU": 15,
    "kDLHexagon": 16, "kDLMAIA": 17,
}  # fmt: skip
DLDeviceType = enum.IntEnum("DLDeviceType", _DEVICES)  # type: ignore[misc]
"""Kinds of devices, as ``dlpack.h`` numbers them."""


def to_dlpack(tensor: Any) -> Any:
    """A capsule over the memory of a tensor, for one library to take over."""
    return need_tensor("to_dlpack", tensor).__dlpack__()
