"""Names of types for annotations."""

from __future__ import annotations

import builtins
import os
from collections.abc import Sequence
from typing import Any, TypeAlias

from fastgrad import Size, Tensor, device, dtype, layout
from fastgrad.functions.storage import Storage

__all__ = ["Device", "FileLike", "Number", "Storage"]

Number: TypeAlias = int | float | bool
Device: TypeAlias = device | str | int | None
FileLike: TypeAlias = Any
_TensorOrTensors: TypeAlias = Tensor | Sequence[Tensor]
_size: TypeAlias = Size | list[int] | tuple[int, ...]
_dtype, _device, _layout = dtype, device, layout
_int, _float, _bool = builtins.int, builtins.float, builtins.bool
PathLike = os.PathLike
