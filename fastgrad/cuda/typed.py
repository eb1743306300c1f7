"""The older names of GPUs' tensors of a dtype: ``cuda.FloatTensor``, ``cuda.LongTensor``, ..."""

from __future__ import annotations

from fastgrad.tensor.typed import by_name

BY_NAME = by_name("cuda")
globals().update(BY_NAME)
