"""What a second run of a function needs to have as it was in the first one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from fastgrad.native.build.loader import ContextBase, rt
from fastgrad.native.contracts.flags import AUTOCAST
from fastgrad.random import get_rng_state, set_rng_state


def autocast_now() -> ContextBase:
    """A context in which autocast is as it is now."""
    on = rt.get_mode() & AUTOCAST
    modes = ContextBase()
    modes._on, modes._off = on, AUTOCAST & ~on
    return modes


@contextlib.contextmanager
def rng_state(state: Any) -> Iterator[None]:
    """A state of the default generator for the time of a block; None leaves it alone."""
    if state is None:
        yield
        return
    before = get_rng_state()
    set_rng_state(state)
    try:
        yield
    finally:
        set_rng_state(before)
