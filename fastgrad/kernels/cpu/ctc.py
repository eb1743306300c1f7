"""Connectionist temporal classification: the probability of all alignments of a sequence with its target.

The states of a target of S labels are these with blanks around each, 2 S + 1 of them. ``alpha[t, s]`` is the logarithm
of the probability of all beginnings of alignments that are in state s at time t, its own label included; beta is the
same of ends (Graves et al. 2006, "Connectionist Temporal Classification", equations 6 to 16).
"""

from __future__ import annotations

import math
from typing import Any

from numba import njit

from fastgrad.kernels.dtypes import ELEMENTS, INLINE, KERNEL
from fastgrad.kernels.reports import Builder, report_index
from fastgrad.native.base import frames
from fastgrad.native.base.intrinsics import advance, memset, words
from fastgrad.native.contracts.element_types import ITEMSIZES


@njit(**INLINE)
def _label(targets, start, blank, s):  # type: ignore[no-untyped-def]
    """The class of a state."""
    return targets[start + s // 2] if s & 1 else blank


@njit(**INLINE)
def _skips(targets, start, s):  # type: ignore[no-untyped-def]
    """Whether a state can follow the last one but one: a label that is not the one before."""
    return s > 1 and s & 1 and targets[start + s // 2] != targets[start + s // 2 - 1]


@njit(**KERNEL)
def _has_sequence(f, targets, layout, i):  # type: ignore[no-untyped-def]
    """Whether lengths and labels of a sequence are in range; if not, that is reported."""
    length, labels, start = layout[3 * i], layout[3 * i + 1], layout[3 * i + 2]
    if length < 0 or length > f.times:
        report_index(f, length, f.times + 1)
        return False
    if labels < 0 or 2 * labels + 1 > f.states:
        report_index(f, labels, (f.states + 1) // 2)
        return False
    if start < 0 or start > f.targets.numel - labels:
        report_index(f, start, f.targets.numel - labels + 1)
        return False
    for s in range(labels):
        k = targets[start + s]
        if k < 0 or k >= f.classes:
            report_index(f, k, f.classes)
            return False
    return True


@njit(**INLINE)
def _has_steps(f):  # type: ignore[no-untyped-def]
    if f.first < 0 or f.count < 0 or f.first > f.n - f.count or f.blank < 0 or f.blank >= f.classes:
        report_index(f, f.blank, f.classes)
        return False
    return True


def _log_sum(dtype: int) -> Any:
    """``log(exp(a) + exp(b) + exp(c))``."""
    element = ELEMENTS[dtype]
    exp, log = element.math.exp, element.math.log
    nothing = element.constant(-math.inf)

    @njit(**INLINE)
    def log_sum(a, b, c):  # type: ignore[no-untyped-def]
        most = max(max(a, b), c)
        if most == nothing:
            return most
        return log(exp(a - most) + exp(b - most) + exp(c - most)) + most

    return log_sum


def _log_add(dtype: int) -> Any:
    """``log(exp(a) + exp(b))``."""
    element = ELEMENTS[dtype]
    exp, log1p = element.math.exp, element.math.log1p
    nothing = element.constant(-math.inf)

    @njit(**INLINE)
    def log_add(a, b):  # type: ignore[no-untyped-def]
        most, least = max(a, b), min(a, b)
        if least == nothing:
            return most
        return most + log1p(exp(least - most))

    return log_add


def forward(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """The loss of each sequence, and alpha."""
    element = ELEMENTS[dtype]
    pointer, log_sum = element.pointer, _log_sum(dtype)
    zero, nothing = element.constant(0), element.constant(-math.inf)

    @njit(**KERNEL)
    def steps(alpha, x, targets, start, states, length, stride, f):  # type: ignore[no-untyped-def]
        for s in range(states):
            begins = s < 2
            alpha[s] = x[_label(targets, start, f.blank, s)] if begins else nothing
        for t in range(1, length):
            now, before = advance(alpha, t * f.states), advance(alpha, (t - 1) * f.states)
            row = advance(x, t * stride)
            for s in range(states):
                one = before[s - 1] if s > 0 else nothing
                two = before[s - 2] if _skips(targets, start, s) else nothing
                now[s] = log_sum(before[s], one, two) + row[_label(targets, start, f.blank, s)]

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.ctc(frame)
        targets, layout = words(f.targets.data), words(f.layout.data)
        loss = pointer(f.loss)
        if not _has_steps(f):
            return
        stride = f.n * f.classes
        for i in range(f.first, f.first + f.count):
            if not _has_sequence(f, targets, layout, i):
                return
            length, labels, start = layout[3 * i], layout[3 * i + 1], layout[3 * i + 2]
            alpha, x = (
                advance(pointer(f.alpha), i * f.times * f.states),
                advance(pointer(f.log_probs.data), i * f.classes),
            )
            for k in range(f.times * f.states):
                alpha[k] = nothing
            if length == 0:
                loss[i] = zero if labels == 0 else -nothing
                continue
            states = 2 * labels + 1
            steps(alpha, x, targets, start, states, length, stride, f)
            last = advance(alpha, (length - 1) * f.states)
            loss[i] = -log_sum(last[states - 1], last[states - 2] if labels > 0 else nothing, nothing)

    return run, KERNEL


def backward(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """The gradient with regard to what a logarithm of a softmax was of, as PyTorch has it."""
    element = ELEMENTS[dtype]
    pointer, log_sum, log_add, exp = element.pointer, _log_sum(dtype), _log_add(dtype), element.math.exp
    nothing, itemsize = element.constant(-math.inf), ITEMSIZES[dtype]
    zero = element.constant(0)

    @njit(**KERNEL)
    def betas(now, after, row, targets, start, states, last, blank):  # type: ignore[no-untyped-def]
        for s in range(states):
            value = nothing
            if last:
                if s >= states - 2:
                    value = zero
            else:
                one = after[s + 1] if s + 1 < states else nothing
                two = after[s + 2] if s + 2 < states and _skips(targets, start, s + 2) else nothing
                value = log_sum(after[s], one, two)
            now[s] = value + row[_label(targets, start, blank, s)]

    @njit(**KERNEL)
    def gradients(out, row, alpha, beta, targets, start, states, loss, g, f):  # type: ignore[no-untyped-def]
        for k in range(f.classes):
            out[k] = nothing
        for s in range(states):
            k = _label(targets, start, f.blank, s)
            out[k] = log_add(out[k], alpha[s] + beta[s])
        for k in range(f.classes):
            out[k] = (exp(row[k]) - exp(out[k] + loss - row[k])) * g

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.ctc_backward(frame)
        targets, layout = words(f.targets.data), words(f.layout.data)
        losses, grads = pointer(f.loss.data), pointer(f.grad.data)
        if not _has_steps(f):
            return
        stride, width = f.n * f.classes, f.classes * itemsize
        for i in range(f.first, f.first + f.count):
            if not _has_sequence(f, targets, layout, i):
                return
            length, labels, start = layout[3 * i], layout[3 * i + 1], layout[3 * i + 2]
            alpha, x = (
                advance(pointer(f.alpha.data), i * f.times * f.states),
                advance(pointer(f.log_probs.data), i * f.classes),
            )
            out, both = advance(pointer(f.out), i * f.classes), advance(pointer(f.beta), 2 * i * f.states)
            ignored = f.zero_infinity != 0 and losses[i] == -nothing
            states = 2 * labels + 1
            for t in range(f.times - 1, -1, -1):
                if t >= length or ignored:
                    memset(f.out + (t * stride + i * f.classes) * itemsize, 0, width)
                    continue
                now, after = advance(both, (t & 1) * f.states), advance(both, (1 - (t & 1)) * f.states)
                row = advance(x, t * stride)
                betas(now, after, row, targets, start, states, t == length - 1, f.blank)
                gradients(
                    advance(out, t * stride), row, advance(alpha, t * f.states), now, targets, start, states, losses[i],
                    grads[i], f,
                )  # fmt: skip

    return run, KERNEL
