"""What a second run of a function needs to have as it was in the first one."""

from __future__ import annotations

from fastgrad.native.build.loader import ContextBase, rt
from fastgrad.native.contracts.flags import AUTOCAST_STATE


def autocast_now() -> ContextBase:
    """A context in which autocast is as it is now."""
    on = rt.get_mode() & AUTOCAST_STATE
    modes = ContextBase()
    modes._on, modes._off = on, AUTOCAST_STATE & ~on
    return modes
