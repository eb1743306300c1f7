"""The records of blocks of a GPU's memory."""

from __future__ import annotations

from fastgrad.native.base.intrinsics import address_of, caster, malloc, memset, native
from fastgrad.native.contracts.cuda import BLOCK

block_at = caster(BLOCK)
BLOCK_BYTES = 8 * BLOCK.words


@native
def new_block(g, shelf, address, nbytes):
    """A block that stands in no bin, or zero without memory of the host's."""
    room = g.spare
    if room != 0:
        g.spare = block_at(room).next
    else:
        room = malloc(BLOCK_BYTES)
    if room != 0:
        memset(room, 0, BLOCK_BYTES)
        b = block_at(room)
        b.shelf = shelf
        b.address = address
        b.nbytes = nbytes
    return room


@native
def end_block(g, b):
    """A block is none any more: others get its record, as most that are cut become one again."""
    b.next = g.spare
    g.spare = address_of(b)
