"""The package opt_einsum, which fastgrad does not use."""

from __future__ import annotations

from typing import Any

enabled: bool = False
strategy: str | None = None


def is_available() -> bool:
    """False: `torch.einsum` chooses its order itself."""
    return False


def get_opt_einsum() -> Any:
    """None."""
    return
