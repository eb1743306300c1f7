"""The older names of GPUs' tensors of a dtype: ``torch.cuda.FloatTensor``, ..."""

from fastgrad.tensor.typed import by_name

_TYPES = by_name("cuda")
globals().update(_TYPES)

__all__ = [*_TYPES]
