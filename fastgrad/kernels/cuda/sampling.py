"""Samples by rejection on the CUDA device: the CPU's functions of `kernels.cpu.sampling`, a thread for each element.

The random numbers are those of the CPU, and so are the samples, but for rounding. All is float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fastgrad.kernels.cpu import sampling
from fastgrad.kernels.cuda.builder import Body
from fastgrad.kernels.cuda.device import Target, block, thread
from fastgrad.kernels.cuda.filling import block_words
from fastgrad.kernels.specialise import specialised
from fastgrad.native.contracts.element_types import FLOAT64, INT64

THREADS = 256


def _drawing(target: Target, draw: Any) -> Any:
    """One of the CPU's functions for this target, with the functions of float64 there."""
    m = target.elements[FLOAT64].math
    cospi = m.cospi

    def cosine(turn):
        return cospi(2.0 * turn)

    names = {name: getattr(m, name) for name in ("log", "log1p", "exp", "sqrt", "floor", "fma")}
    names |= {"block_words": target.made(block_words), "cosine": target.made(cosine)}
    return specialised(draw, names, target.decorate, {})


def _build(draw: Any, two: bool, dtype: int, target: Target, threads: int, smallest: float = -np.inf) -> Body:
    load, store, key_of = (
        target.elements[dtype].load,
        target.elements[dtype].store,
        target.elements[INT64].load,
    )
    sample, least = _drawing(target, draw), np.float64(smallest)

    def one(f, i):
        if two:
            return sample(
                np.float64(load(f.x.data, i)), np.float64(load(f.p.data, i)), key_of(f.keys.data, i)
            )
        return sample(np.float64(load(f.x.data, i)), key_of(f.keys.data, i))

    def run(f):
        i = np.int64(block()) * threads + thread()
        if i < f.x.numel:
            value = one(f, i)
            store(f.out, i, least if value < least else value)

    return Body(run, ("x.numel",), threads, threads, repeats=0, resident=512)  # these ops have no integers


def standard_gamma(
    kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS
) -> Body:
    """Gamma distributed numbers of a shape and of scale 1."""
    return _build(sampling.gamma_sample, False, dtype, target, threads, sampling.SMALLEST[dtype])


def poisson(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """Counts of a rate."""
    return _build(sampling.poisson_sample, False, dtype, target, threads)


def binomial(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """Successes among so many trials."""
    return _build(sampling.binomial_sample, True, dtype, target, threads)
