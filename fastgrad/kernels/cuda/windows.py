"""How the windows of a convolution lie, seen from what is computed: numbers of 32 bits.

Along each dimension, place i and tap k of a window meet the element ``begin + i * step + k * reach`` of what is
gathered from, or a zero outside of it. A convolution reads its image so. Its transpose would divide by the stride; but
of the places that leave the same rest, all meet the same taps, and what they meet is a convolution of stride 1. So its
places fall into *classes*, one for each rest down and across, each with an `Axis` of its own and no tap that meets
nothing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fastgrad.kernels.cuda.device import Element, quotient

NOWHERE = np.int32(-(1 << 31))
"""A place that, however far a tap reaches, is outside."""


class Axis(NamedTuple):
    """One dimension.

    Attributes
    ----------
    size
        Of what is gathered from.
    places
        Of what is computed.
    begin, step
        What the first tap of the first place meets, and how much further the next place is.
    taps, reach
        Of a window, and how much further the next tap is.
    first, every
        Which taps of the weight these are.
    shift, spread
        Where the first place is in what is computed, and how much further the next one.
    """

    size: Any
    places: Any
    begin: Any
    step: Any
    taps: Any
    reach: Any
    first: Any
    every: Any
    shift: Any
    spread: Any


def parted(a, b):
    """``a // b`` and the rest, of numbers from 0 on."""
    q = quotient(np.uint32(a), np.uint32(b))
    return np.int32(q), np.int32(np.uint32(a) - np.uint32(q * np.uint32(b)))


def rounded_up(a, b):
    """``a / b``, rounded up."""
    q, _ = parted(np.int32(a + b - 1), b)
    return q


def forwards(size, out, kernel, stride, padding, dilation):
    """The axis of a convolution, all of whose numbers are words of a frame."""
    one, none = np.int32(1), np.int32(0)
    return Axis(
        np.int32(size), np.int32(out), np.int32(-padding), np.int32(stride), np.int32(kernel), np.int32(dilation),
        none, one, none, one,
    )  # fmt: skip


def classes_of(size, stride):
    """How many classes the places of a transpose fall into."""
    return np.int32(min(stride, size))


def backwards(size, out, kernel, stride, padding, dilation, rest):
    """The axis of a transpose, for the places that leave a rest."""
    one, s, k, d = np.int32(1), np.int32(stride), np.int32(kernel), np.int32(dilation)
    top = np.int32(rest + np.int32(padding))
    _, wanted = parted(top, s)
    _, each = parted(d, s)
    # Of the taps that meet these places: every how many is one, and the first.
    every, left = one, each
    while left != 0:
        left, every = _further(left, each, s), np.int32(every + 1)
    first, left = np.int32(0), np.int32(0)
    while first < every and left != wanted:
        left, first = _further(left, each, s), np.int32(first + 1)
    found = first < every and first < k
    taps = rounded_up(np.int32(k - first), every) if found else np.int32(0)
    before = np.int32(first * d)
    begin, _ = parted(np.int32(top - before if top >= before else before - top), s)
    reach, _ = parted(np.int32(every * d), s)
    return Axis(
        np.int32(out), rounded_up(np.int32(np.int32(size) - rest), s),
        np.int32(begin if top >= before else -begin), one, taps, np.int32(-reach), first, every, rest, s,
    )  # fmt: skip


def _further(left, each, stride):
    """A rest, so much further."""
    at = np.int32(left + each)
    return np.int32(at - stride) if at >= stride else at


def meeting(element: Element) -> Any:
    """``meet(s, place, tap)``: what a place, by `placed`, meets by a tap, by `reaching`, or else zero."""
    load_where = element.load_where

    def meet(s, place, tap):
        row, column = np.int32(place[1] + tap[1]), np.int32(place[2] + tap[2])
        inside = (np.uint32(row) < np.uint32(s.down.size)) & (np.uint32(column) < np.uint32(s.across.size))
        return load_where(place[0], np.int32(place[3] + tap[0]), inside)

    return meet


def first_of(s, i, j, there):
    """The row and column that the first tap of a place meets. A place that is not there meets nothing."""
    row = np.int32(s.down.begin + np.int32(i * s.down.step)) if there else NOWHERE
    return row, np.int32(s.across.begin + np.int32(j * s.across.step))


def placed(s, start, row, column):
    """A place of the image that begins at an address: that, what the first tap meets, and how far behind it is."""
    return start, row, column, np.int32(np.int32(row * s.across.size) + column)


def reaching(s, channel, k, l, there):
    """Of a tap: how much further it is than the first one of the first channel, in all, down and across.

    One that is not there meets nothing.
    """
    down, across = np.int32(k * s.down.reach), np.int32(l * s.across.reach)
    further = np.int32(np.int32(channel * s.plane) + np.int32(np.int32(down * s.across.size) + across))
    return further, down, across if there else NOWHERE


def places_of(down, across):
    """How many places of an image there are."""
    return np.int32(down.places * across.places)


def place_at(number, down, across):
    """The image, and the place down and across, of one of the places of all images."""
    n, place = parted(number, places_of(down, across))
    i, j = parted(place, across.places)
    return n, i, j


def term_at(number, down, across):
    """The channel, and the tap down and across, of one of what a window meets."""
    c, tap = parted(number, np.int32(down.taps * across.taps))
    k, l = parted(tap, across.taps)
    return c, k, l
