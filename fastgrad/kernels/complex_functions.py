"""Functions of complex numbers that are made of functions of their parts: the same for every device.

What they are made of is given: functions of numbers of a device, and the vocabulary of the dtype of the parts. So the
vocabularies `kernels.complexmath` of the CPU and `kernels.cuda.complex_math` of GPUs share them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Functions = dict[str, Any]


def shared_functions(words: Any, floats: Any, part: Any, decorate: Callable[[Any], Any]) -> Functions:
    """What `m` has over complex numbers, as far as that is made of other functions.

    Parameters
    ----------
    words : object
        Has ``real imag make`` and ``where`` of parts, and of complex numbers ``length angle log sqrt power``.
    floats : object
        The vocabulary of the parts.
    part : type
        That of NumPy which makes constants of their dtype.
    decorate : callable
        What compiled code decorates functions with.
    """
    found = _parts(words, decorate) | _questions(words, floats, part, decorate)
    found |= _exponentials(words, floats, part, decorate)
    return found | _powers(words, part, decorate, found["exp"])


def _parts(words: Any, decorate: Any) -> Functions:
    real, imag, make, length = words.real, words.imag, words.make, words.length

    @decorate
    def conj(x):  # type: ignore[no-untyped-def]
        return make(real(x), -imag(x))

    @decorate
    def absolute(x):  # type: ignore[no-untyped-def]
        return length(x)

    @decorate
    def sgn(x):  # type: ignore[no-untyped-def]
        size = length(x)
        return x if size == 0 else make(real(x) / size, imag(x) / size)

    @decorate
    def of_dtype(x, other):  # type: ignore[no-untyped-def]
        return x

    return {
        "real": real, "imag": imag, "make": make, "conj": conj, "abs": absolute, "sgn": sgn, "of_dtype": of_dtype,
        "angle": words.angle, "log": words.log, "sqrt": words.sqrt,
    }  # fmt: skip


def _questions(words: Any, floats: Any, part: Any, decorate: Any) -> Functions:
    """What formulas ask of numbers, and choices."""
    real, imag, where, isinf_of, quarter = words.real, words.imag, words.where, floats.isinf, part(0.25)

    @decorate
    def isnan(x):  # type: ignore[no-untyped-def]
        return x != x

    @decorate
    def isinf(x):  # type: ignore[no-untyped-def]
        return isinf_of(real(x)) | isinf_of(imag(x))

    @decorate
    def is_small(x):  # type: ignore[no-untyped-def]
        """Whether the absolute value is below one half."""
        return real(x) * real(x) + imag(x) * imag(x) < quarter

    @decorate
    def is_at_least_zero(x):  # type: ignore[no-untyped-def]
        return (imag(x) == 0) & (real(x) >= 0)

    @decorate
    def masked_fill(x, value, condition):  # type: ignore[no-untyped-def]
        return where(condition, value, x)

    @decorate
    def logical_and(x, y):  # type: ignore[no-untyped-def]
        return x & y

    return {
        "isnan": isnan, "isinf": isinf, "is_small": is_small, "is_at_least_zero": is_at_least_zero, "where": where,
        "masked_fill": masked_fill, "logical_and": logical_and,
    }  # fmt: skip


def _exponentials(words: Any, floats: Any, part: Any, decorate: Any) -> Functions:
    real, imag, make, angle = words.real, words.imag, words.make, words.angle
    exp_of, sin_of, cos_of, log1p_of, expm1_of = (
        floats.exp,
        floats.sin,
        floats.cos,
        floats.log1p,
        floats.expm1,
    )
    one, half, two = part(1), part(0.5), part(2)

    @decorate
    def exp(x):  # type: ignore[no-untyped-def]
        scale, turn = exp_of(real(x)), imag(x)
        if turn == 0:  # so that an infinite scale leaves it zero
            return make(scale, turn)
        # Of exactly nothing no turn makes anything.
        if scale == 0 and real(x) - real(x) != 0 and turn - turn != 0:
            return make(scale, scale)
        return make(scale * cos_of(turn), scale * sin_of(turn))

    @decorate
    def log1p(x):  # type: ignore[no-untyped-def]
        re, im = real(x), imag(x)
        return make(half * log1p_of(re * (two + re) + im * im), angle(make(one + re, im)))

    @decorate
    def expm1(x):  # type: ignore[no-untyped-def]
        turn = imag(x)
        lower = sin_of(half * turn)
        grown = expm1_of(real(x))
        return make(grown * cos_of(turn) - two * lower * lower, (grown + one) * sin_of(turn))

    return {"exp": exp, "log1p": log1p, "expm1": expm1}


def _powers(words: Any, part: Any, decorate: Any, exp: Any) -> Functions:
    real, make, power, sqrt = words.real, words.make, words.power, words.sqrt
    zero, one, two, three = part(0), part(1), part(2), part(3)

    @decorate
    def reciprocal(x):  # type: ignore[no-untyped-def]
        return one / x

    @decorate
    def rsqrt(x):  # type: ignore[no-untyped-def]
        return one / sqrt(x)

    @decorate
    def sigmoid(x):  # type: ignore[no-untyped-def]
        return one / (one + exp(-x))

    @decorate
    def pow_(x, y):  # type: ignore[no-untyped-def]
        """``x**y``; squares and cubes as products, and zero to a power as zero, to the power of zero as one."""
        if y == two:
            return x * x
        if y == three:
            return x * x * x
        if x == zero:
            if real(y) > 0:
                return x
            return (
                x + one if y == zero else make(abs(real(y)) / real(x), real(y) - real(y) + real(x) / real(x))
            )
        return power(x, y)

    @decorate
    def whole_power(x, n):  # type: ignore[no-untyped-def]
        result = x
        for _ in range(1, n):
            result = result * x
        return result

    return {
        "reciprocal": reciprocal, "rsqrt": rsqrt, "sigmoid": sigmoid, "pow": pow_, "whole_power": whole_power,
    }  # fmt: skip
