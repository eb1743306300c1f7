"""Permutations on the CUDA device: those that the CPU's shuffle makes of the same words, without its order.

The shuffle (`kernels.cpu.random`) puts i into its order at time i: element t goes to a place up to its own, and what
stood there moves to t. So what stands in a place at last is the last element that was sent there, or, if none was, what
moved in when it was its own turn: of the place that it was sent to itself, the last element that was sent there before
that time; and if there is none, one looks on from there. Of an element it is known from its word alone where it was
sent, so all threads look at once.

One launch clears the heads of lists, one of each place; the next one puts each element on the list of the place that it
was sent to, in whatever order threads come; the last one finds for each place the element that stands there, by going
through lists for the latest element before a time. A list of place p has about ``log(n / p)`` elements, one on average,
and two lists are enough for most places. What is found does not depend on how lists are ordered.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fastgrad.kernels.cpu.random import HALF, LOW, scaled_integer
from fastgrad.kernels.cuda.builder import Body
from fastgrad.kernels.cuda.device import Target, exchange
from fastgrad.kernels.cuda.places import part_of
from fastgrad.native.contracts.cuda import STEPPED
from fastgrad.native.contracts.element_types import INT64

THREADS = 256
CLEAR, LINK = 0, 1  # launches; the third one finds
NONE = -1


def build(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """The numbers of each row in random order, by a word for each element."""
    load, store, none = target.elements[INT64].load, target.elements[INT64].store, NONE

    def first_of_row(f, at):
        return np.int64(0) if f.length == f.words.numel else at - at % f.length

    def sent_to(f, at, first):
        """The place that an element is sent to, of those from the first of its row to its own."""
        word = np.uint64(load(f.words.data, at))
        return scaled_integer(word >> HALF, word & LOW, first, at + np.int64(1))

    def latest(f, place, before):
        """The last element that was sent to a place before a time, or none."""
        found, element = np.int64(none), load(f.room, place)
        while element != none:
            if found < element < before:
                found = element
            element = load(f.room, f.words.numel + element)
        return found

    def at_last(f, place):
        first = first_of_row(f, place)
        found = latest(f, place, f.words.numel)
        while found == none:  # an element that was sent to its own place would have been found there
            before, place = place, sent_to(f, place, first)
            found = latest(f, place, before)
        return found - first

    def run(f):
        at, end = part_of(f.words.numel, threads)
        if at < end:
            if f.step == CLEAR:
                store(f.room, at, np.int64(none))
            elif f.step == LINK:
                place = sent_to(f, at, first_of_row(f, at))
                store(f.room, f.words.numel + at, exchange(f.room, place, at))
            else:
                store(f.out, at, at_last(f, at))

    return Body(run, ("words.numel",), threads, threads, STEPPED, steps="launches")
