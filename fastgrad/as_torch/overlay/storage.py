"""The memory of tensors."""

from fastgrad.functions.storage import Storage as UntypedStorage

__all__ = ["UntypedStorage"]
