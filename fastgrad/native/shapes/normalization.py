"""Normalisation of images that lie row by row, or with their channels last."""

from __future__ import annotations

from fastgrad.native.base.failures import fail
from fastgrad.native.base.intrinsics import native, stack_frame, words
from fastgrad.native.contracts.frames.framed import NORM
from fastgrad.native.contracts.limits import ATTR_WORDS
from fastgrad.native.contracts.ops import ROWS_OF_CHANNELS
from fastgrad.native.contracts.status import INTERNAL
from fastgrad.native.launch.launch import op_record
from fastgrad.native.shapes.framed import framed

N, C, S, LAST = map(NORM.names_of("integers").index, ("n", "c", "s", "channels_last"))

# Each part reads its channels of every place: fewer than this are too short a run of memory.
LEAST_CHANNELS = 32
MOST_PARTS = 8


@native
def normalised(op, n, ins, n_attrs, attrs, outs):
    """An op over four extents; returns the number of outputs or a negative status.

    With channels last, an image is rows of channels, one for each place: to a kernel, as many images as there are
    places, of one element for each channel. Kernels of groups of channels are told.
    """
    if n_attrs <= LAST or n_attrs > ATTR_WORDS:
        return fail(INTERNAL, n_attrs, LAST)
    if attrs[LAST] == 0:
        return framed(op, n, ins, n_attrs, attrs, outs, 0)
    if not op_record(op).flags & ROWS_OF_CHANNELS:
        return framed(op, n, ins, n_attrs, attrs, outs, 1)
    settings = words(stack_frame())
    for k in range(n_attrs):
        settings[k] = attrs[k]
    settings[N] = attrs[N] * attrs[S]
    settings[S] = 1
    settings[LAST] = max(LEAST_CHANNELS, -(-attrs[C] // MOST_PARTS))
    return framed(op, n, ins, n_attrs, settings, outs, 1)
