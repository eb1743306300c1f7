"""Pools of graphs that are gone: what they still hold when there is no memory left."""

from __future__ import annotations

from fastgrad.native.base.c_calls import function_at
from fastgrad.native.base.intrinsics import caster, native_once
from fastgrad.native.contracts.cuda import ARENA

arena_at = caster(ARENA)
wait_for_all = function_at("")


@native_once
def free_pools(g):
    """Wait for what graphs that are gone are still at, so that their pools can be given back; whether there is one."""
    left = False
    arena = g.arenas
    while arena != 0:
        left = left or arena_at(arena).leaving != 0
        arena = arena_at(arena).next
    if not left or wait_for_all(g.cuCtxSynchronize) != 0:
        return False
    arena = g.arenas
    while arena != 0:
        a = arena_at(arena)
        if a.leaving != 0:
            a.graphs = 0
            a.leaving = 0
        arena = a.next
    return True
