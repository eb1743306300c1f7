"""How long processes wait for each other."""

from __future__ import annotations

from fastgrad.distributed.groups import default_pg_timeout

__all__ = ["default_pg_timeout"]
