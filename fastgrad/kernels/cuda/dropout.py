"""Kernels of dropout on the CUDA device. The mask is the CPU's: a block of the stream makes four of its elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastgrad.kernels.cuda.builder import Body
from fastgrad.kernels.cuda.device import Target, block, float_of, thread
from fastgrad.kernels.cuda.filling import block_words
from fastgrad.kernels.cuda.places import part_of
from fastgrad.native.contracts.element_types import BOOL

THREADS = 256
WIDTH = 4  # elements of a block of the stream


def forward(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """Elements times ``scale`` with a probability, else times zero; the second output is the mask.

    Where there is no address of a first one, the mask alone is drawn.
    """
    e, keep = target.elements[dtype], target.elements[BOOL].store
    load, store, cast = e.load, e.store, e.constant
    zero = cast(0)

    def one(f, i, word, scale):
        if i < f.x.numel:
            kept = word < np.uint64(f.threshold)
            if f.out != 0:
                store(f.out, i, load(f.x.data, i) * (scale if kept else zero))
            keep(f.mask, i, kept)

    def run(f):
        at = np.int64(block()) * threads + thread()
        if at * WIDTH < f.x.numel:
            scale = cast(float_of(f.scale))
            words = block_words(f.seed, f.offset + at)
            one(f, at * WIDTH, words[0], scale)
            one(f, at * WIDTH + 1, words[1], scale)
            one(f, at * WIDTH + 2, words[2], scale)
            one(f, at * WIDTH + 3, words[3], scale)

    return Body(run, ("x.numel",), threads * WIDTH, threads)


def again(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """The same with a mask that exists."""
    e, kept = target.elements[dtype], target.elements[BOOL].load
    load, store, cast, per_block = e.load, e.store, e.constant, threads * WIDTH
    zero = cast(0)

    def run(f):
        i, end = part_of(f.x.numel, per_block)
        scale = cast(float_of(f.scale))
        while i < end:
            store(f.out, i, load(f.x.data, i) * (scale if kept(f.mask.data, i) else zero))
            i += threads

    return Body(run, ("x.numel",), per_block, threads)
