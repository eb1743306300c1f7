"""oneDNN, which fastgrad does not use: its switches are kept for programs that set them, and have no effect."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

enabled, deterministic, allow_tf32 = True, False, True


def is_available() -> bool:
    """False: nothing runs by it."""
    return False


@contextlib.contextmanager
def flags(enabled: bool = False, deterministic: bool = False, allow_tf32: bool = True) -> Iterator[None]:
    """A block in which nothing is different."""
    yield
