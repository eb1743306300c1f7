"""What programs ask PyTorch about and fastgrad has no use for. The folder has PyTorch's modules in their places.

`fastgrad.as_torch.proxies` looks here for names that fastgrad's own modules lack.
"""

from __future__ import annotations

import fastgrad as fg
from fastgrad.functions.storage import Storage

__all__ = [
    "Storage",
    "UntypedStorage",
    "compiled_with_cxx11_abi",
    "has_lapack",
    "has_mkl",
    "has_openmp",
    "is_vulkan_available",
    "legacy_contiguous_format",
]

UntypedStorage = Storage
legacy_contiguous_format = fg.contiguous_format
has_lapack, has_mkl, has_openmp = True, False, False


def is_vulkan_available() -> bool:
    """False: there is no code for it."""
    return False


def compiled_with_cxx11_abi() -> bool:
    """True, as of all current builds of PyTorch; there is no C++ here."""
    return True
