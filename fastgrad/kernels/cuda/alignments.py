"""Connectionist temporal classification on the CUDA device: a block for each sequence, whose threads share its states.

States, alpha and beta are those of `kernels.cpu.ctc`. One time follows the other; in between the threads wait.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fastgrad.kernels.cuda.builder import Body
from fastgrad.kernels.cuda.device import Target, barrier, barrier_any, block, thread, where
from fastgrad.kernels.cuda.reports import reporting
from fastgrad.kernels.cuda.teams import TOGETHER, folding
from fastgrad.native.contracts.element_types import INT64

THREADS = 256


def _sequences(target: Target, threads: int) -> tuple[Any, Any, Any, Any]:
    """What is known of sequences: ``has_steps(f)``, ``has_sequence(f, i)``, ``label(f, start, s)`` and ``skips(...)``.

    The first two say whether what integers, lengths and labels say can be; if not, that is reported.
    """
    word, report = target.elements[INT64].load, reporting(target)

    def has_steps(f):
        if f.first < 0 or f.count < 0 or f.first > f.n - f.count or f.blank < 0 or f.blank >= f.classes:
            report(f, f.blank, f.classes)
            return False
        return True

    def has_lengths(f, length, labels, start):
        if length < 0 or length > f.times:
            report(f, length, f.times + 1)
            return False
        if labels < 0 or 2 * labels + 1 > f.states:
            report(f, labels, (f.states + 1) >> 1)
            return False
        if start < 0 or start > f.targets.numel - labels:
            report(f, start, f.targets.numel - labels + 1)
            return False
        return True

    def has_sequence(f, length, labels, start):
        """All threads of the block call it, and get the same."""
        if not has_lengths(f, length, labels, start):
            return False
        wrong, s = False, np.int64(thread())
        while s < labels:
            k = word(f.targets.data, start + s)
            if k < 0 or k >= f.classes:
                report(f, k, f.classes)
                wrong = True
            s += threads
        return not barrier_any(wrong)

    def label(f, start, s):
        """The class of a state."""
        return word(f.targets.data, start + (s >> 1)) if s & 1 else f.blank

    def skips(f, start, s):
        """Whether a state can follow the last one but one: a label that is not the one before."""
        return s > 1 and s & 1 and label(f, start, s) != label(f, start, s - 2)

    return has_steps, has_sequence, label, skips


def _log_sum(target: Target, dtype: int) -> Any:
    """``log(exp(a) + exp(b) + exp(c))``."""
    element = target.elements[dtype]
    exp, log, maximum, nothing = (
        element.math.exp,
        element.math.log,
        element.math.maximum,
        element.constant(-np.inf),
    )

    def log_sum(a, b, c):
        most = maximum(maximum(a, b), c)
        if most == nothing:
            return most
        return log(exp(a - most) + exp(b - most) + exp(c - most)) + most

    return log_sum


def forward(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """The loss of each sequence, and alpha."""
    e, word, log_sum = target.elements[dtype], target.elements[INT64].load, _log_sum(target, dtype)
    load, store, zero, nothing = e.load, e.store, e.constant(0), e.constant(-np.inf)
    has_steps, has_sequence, label, skips = _sequences(target, threads)

    def alpha_of(f, row, start, s, at):
        """Of the first row, and of others."""
        own = load(f.log_probs.data, row + label(f, start, s))
        if at < 0:
            return own if s < 2 else nothing
        one = load(f.alpha, at + s - 1) if s > 0 else nothing
        two = load(f.alpha, at + s - 2) if skips(f, start, s) else nothing
        return log_sum(load(f.alpha, at + s), one, two) + own

    def steps(f, i, length, start, states):
        t = np.int64(0)
        while t < f.times:
            now = (i * f.times + t) * f.states
            before = now - f.states if t > 0 else np.int64(-1)
            s = np.int64(thread())
            while s < f.states:
                value = nothing
                if t < length and s < states:
                    value = alpha_of(f, (t * f.n + i) * f.classes, start, s, before)
                store(f.alpha, now + s, value)
                s += threads
            barrier()
            t += 1

    def run(f):
        if not has_steps(f):
            return
        i = f.first + block()
        length, labels, start = (
            word(f.layout.data, 3 * i), word(f.layout.data, 3 * i + 1), word(f.layout.data, 3 * i + 2)
        )  # fmt: skip
        if not has_sequence(f, length, labels, start):
            return
        steps(f, i, length, start, 2 * labels + 1)
        if thread() != 0:
            return
        if length == 0:
            store(f.loss, i, zero if labels == 0 else -nothing)
            return
        last = (i * f.times + length - 1) * f.states + 2 * labels
        label_before = load(f.alpha, last - 1) if labels > 0 else nothing
        store(f.loss, i, -log_sum(load(f.alpha, last), label_before, nothing))

    return Body(run, ("count",), 1, threads)


def _betas(target: Target, dtype: int, label: Any, skips: Any, threads: int) -> Any:
    """``betas(f, now, after, row, start, states, last)``: what alignments behind a step come to, of all states."""
    e, log_sum = target.elements[dtype], _log_sum(target, dtype)
    load, store, zero, nothing = e.load, e.store, e.constant(0), e.constant(-np.inf)

    def betas(f, now, after, row, start, states, last):
        s = np.int64(thread())
        while s < states:
            if last:
                value = zero if s >= states - 2 else nothing
            else:
                first = load(f.beta, after + s + 1) if s + 1 < states else nothing
                second = nothing
                if s + 2 < states and skips(f, start, s + 2):
                    second = load(f.beta, after + s + 2)
                value = log_sum(load(f.beta, after + s), first, second)
            store(f.beta, now + s, value + load(f.log_probs.data, row + label(f, start, s)))
            s += threads

    return betas


def _gradients(target: Target, dtype: int, label: Any, threads: int) -> Any:
    """``gradients(f, i, row, alpha, beta, start, labels)``: those of all classes at a step of a sequence."""
    e, word = target.elements[dtype], target.elements[INT64].load
    load, store, exp, log, maximum = e.load, e.store, e.math.exp, e.math.log, e.math.maximum
    zero, one, nothing = e.constant(0), e.constant(1), e.constant(-np.inf)

    def share(a, most):
        return where(a == most, one, exp(a - most))

    def combine(a, b, c, d):
        """A pair stands for ``b exp(a)``, and a is the largest of its terms."""
        most = maximum(a, c)
        return most, b * share(a, most) + d * share(c, most)

    fold = folding(target, combine, (dtype, dtype), threads)

    def gradient(f, i, own, both):
        """Of a class whose logarithm is `own`, if `both` is that of what alignments come to."""
        return (exp(own) - exp(both + load(f.loss.data, i) - own)) * load(f.grad.data, i)

    def of_blank(f, alpha, beta, start, states):
        a, b, s = nothing, zero, np.int64(thread())
        while s < states:
            if label(f, start, s) == f.blank:
                a, b = combine(a, b, load(f.alpha.data, alpha + s) + load(f.beta, beta + s), one)
            s += threads
        a, b = fold(a, b, TOGETHER)
        return a + log(b)

    def of_label(f, alpha, beta, start, labels, mine, k):
        """Of the class of a label, if that is its first one; else less than nothing, and not to be written."""
        a, b, j = nothing, zero, np.int64(0)
        while j < labels:
            if word(f.targets.data, start + j) == k:
                if j < mine:
                    return a, False
                s = 2 * j + 1
                a, b = combine(a, b, load(f.alpha.data, alpha + s) + load(f.beta, beta + s), one)
            j += 1
        return a + log(b), True

    def gradients(f, i, row, alpha, beta, start, labels):
        k = np.int64(thread())
        while k < f.classes:
            store(f.out, row + k, gradient(f, i, load(f.log_probs.data, row + k), nothing))
            k += threads
        barrier()
        total = of_blank(f, alpha, beta, start, 2 * labels + 1)
        if thread() == 0:
            store(f.out, row + f.blank, gradient(f, i, load(f.log_probs.data, row + f.blank), total))
        mine = np.int64(thread())
        while mine < labels:
            k = word(f.targets.data, start + mine)
            if k != f.blank:
                total, first = of_label(f, alpha, beta, start, labels, mine, k)
                if first:
                    store(f.out, row + k, gradient(f, i, load(f.log_probs.data, row + k), total))
            mine += threads

    return gradients


def backward(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """The gradient with regard to what a logarithm of a softmax was of, as PyTorch has it.

    What the states of a class come to is added up by the thread of the first one of them, and by the whole block for
    the blank, of which there are many.
    """
    e, word = target.elements[dtype], target.elements[INT64].load
    load, store, zero, infinite = e.load, e.store, e.constant(0), e.constant(np.inf)
    has_steps, has_sequence, label, skips = _sequences(target, threads)
    betas, gradients = _betas(target, dtype, label, skips, threads), _gradients(target, dtype, label, threads)

    def clear(f, row):
        k = np.int64(thread())
        while k < f.classes:
            store(f.out, row + k, zero)
            k += threads

    def run(f):
        if not has_steps(f):
            return
        i = f.first + block()
        length, labels, start = (
            word(f.layout.data, 3 * i), word(f.layout.data, 3 * i + 1), word(f.layout.data, 3 * i + 2)
        )  # fmt: skip
        if not has_sequence(f, length, labels, start):
            return
        ignored = f.zero_infinity != 0 and load(f.loss.data, i) == infinite
        t = f.times - 1
        while t >= 0:
            row = (t * f.n + i) * f.classes
            if t >= length or ignored:
                clear(f, row)
            else:
                now, after = (2 * i + (t & 1)) * f.states, (2 * i + 1 - (t & 1)) * f.states
                betas(f, now, after, row, start, 2 * labels + 1, t == length - 1)
                barrier()
                gradients(f, i, row, (i * f.times + t) * f.states, now, start, labels)
            t -= 1

    return Body(run, ("count",), 1, threads, resident=512)
