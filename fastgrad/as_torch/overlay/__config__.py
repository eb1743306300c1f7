"""How the library was built."""

from __future__ import annotations

import fastgrad as fg

__all__ = ["parallel_info", "show"]


def show() -> str:
    """Versions of fastgrad and of what it stands on."""
    return "\n".join(f"{name} {version}" for name, version in fg.debug.environment()["versions"].items())


def parallel_info() -> str:
    """How many threads run an op."""
    return f"threads of an op: {fg.get_num_threads()}"
