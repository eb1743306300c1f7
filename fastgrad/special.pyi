"""Written by tools/stubs.py."""

from builtins import bool as _bool, complex as _complex, float as _float, int as _int, str as _str, type as _type
from collections.abc import Callable as _Callable, Iterator as _Iterator, Sequence as _Sequence
from typing import Any as _Any, Literal as _Literal, overload as _overload

import numpy as _np

from fastgrad.dtypes import dtype as _dtype
from fastgrad.functions.memory_format import layout as _layout
from fastgrad.functions.memory_format import memory_format as _memory_format
from fastgrad.places import device as _device
from fastgrad.random import Generator as _Generator
from fastgrad.tensor import Tensor as _Tensor
from fastgrad.tensor.size import Size as _Size

def airy_ai(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""Airy's function Ai; NaN at both infinities, as in PyTorch."""
def bessel_j0(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""The Bessel function of the first kind of order 0."""
def bessel_j1(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""The Bessel function of the first kind of order 1."""
def bessel_y0(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""The Bessel function of the second kind of order 0; NaN for negative numbers."""
def bessel_y1(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""The Bessel function of the second kind of order 1; NaN for negative numbers."""
def chebyshev_polynomial_t(input: _Tensor | _int | _float | _complex, n: _Tensor | _int | _float | _complex) -> _Tensor:
    r"""Chebyshev's polynomials of the first kind, by order and point."""
def chebyshev_polynomial_u(input: _Tensor | _int | _float | _complex, n: _Tensor | _int | _float | _complex) -> _Tensor:
    r"""Chebyshev's polynomials of the second kind, by order and point."""
def chebyshev_polynomial_v(input: _Tensor | _int | _float | _complex, n: _Tensor | _int | _float | _complex) -> _Tensor:
    r"""Chebyshev's polynomials of the third kind, by order and point."""
def chebyshev_polynomial_w(input: _Tensor | _int | _float | _complex, n: _Tensor | _int | _float | _complex) -> _Tensor:
    r"""Chebyshev's polynomials of the fourth kind, by order and point."""
def digamma(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""The derivative of the logarithm of the gamma function; NaN at negative whole numbers."""
def entr(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""``-input * log(input)``, 0 at zero and minus infinity for negative numbers."""
def erf(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""The error function, ``2 / sqrt(pi)`` times the integral of ``exp(-t ** 2)`` from 0 to the input."""
def erfc(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""``1 - erf(input)``, exact where that is small."""
def erfcx(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""``exp(input ** 2) * erfc(input)``."""
def erfinv(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""The number whose error function is the input; NaN beyond 1."""
def exp2(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""``2 ** input``."""
def expit(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""The logistic function, ``1 / (1 + exp(-input))``."""
def expm1(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""``exp(input) - 1``, exact near zero."""
def gammainc(input: _Tensor | _int | _float | _complex, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
    r"""The regularised lower incomplete gamma function: that of `input` up to `other`, over the whole one."""
def gammaincc(input: _Tensor | _int | _float | _complex, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
    r"""The regularised upper incomplete gamma function: that of `input` from `other` on, over the whole one."""
def gammaln(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""The logarithm of the absolute value of the gamma function."""
def hermite_polynomial_h(input: _Tensor | _int | _float | _complex, n: _Tensor | _int | _float | _complex) -> _Tensor:
    r"""Hermite's polynomials, those of physics, by order and point."""
def hermite_polynomial_he(input: _Tensor | _int | _float | _complex, n: _Tensor | _int | _float | _complex) -> _Tensor:
    r"""Hermite's polynomials, those of probability, by order and point."""
def i0(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""The modified Bessel function of the first kind of order 0."""
def i0e(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""``exp(-|input|) * i0(input)``."""
def i1(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""The modified Bessel function of the first kind of order 1."""
def i1e(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""``exp(-|input|) * i1(input)``."""
def laguerre_polynomial_l(input: _Tensor | _int | _float | _complex, n: _Tensor | _int | _float | _complex) -> _Tensor:
    r"""Laguerre's polynomials, by order and point."""
def legendre_polynomial_p(input: _Tensor | _int | _float | _complex, n: _Tensor | _int | _float | _complex) -> _Tensor:
    r"""Legendre's polynomials, by order and point."""
def log1p(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""``log(1 + input)``, exact near zero."""
def log_ndtr(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""The logarithm of the probability that the normal distribution has below the input."""
@_overload
def log_softmax(input: _Tensor, dim: _int, *, dtype: _dtype | None = None) -> _Tensor:
    r"""The logarithm of `softmax`, without overflow."""
@_overload
def log_softmax(input: _Tensor, axis: _int, *, dtype: _dtype | None = None) -> _Tensor:
    r"""The logarithm of `softmax`, without overflow."""
def logit(input: _Tensor, eps: _float | None = None) -> _Tensor:
    r"""``log(input / (1 - input))``, the inverse of `sigmoid`."""
@_overload
def logsumexp(input: _Tensor, dim: _int | _Sequence[_int] | None, keepdim: _bool = False) -> _Tensor:
    r"""``log(sum(exp(input)))`` along one or more dimensions, without overflow."""
@_overload
def logsumexp(input: _Tensor, axis: _int | _Sequence[_int] | None, keepdims: _bool = False) -> _Tensor:
    r"""``log(sum(exp(input)))`` along one or more dimensions, without overflow."""
def modified_bessel_i0(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""The modified Bessel function of the first kind of order 0."""
def modified_bessel_i1(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""The modified Bessel function of the first kind of order 1."""
def modified_bessel_k0(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""The modified Bessel function of the second kind of order 0; NaN for negative numbers."""
def modified_bessel_k1(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""The modified Bessel function of the second kind of order 1; NaN for negative numbers."""
def multigammaln(input: _Tensor, p: _int) -> _Tensor:
    r"""The logarithm of the gamma function of `p` dimensions."""
def ndtr(input: _Tensor) -> _Tensor:
    r"""The probability that the normal distribution has below the input, element by element."""
def ndtri(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""The number below which the normal distribution has the probability `input`."""
def polygamma(n: _int, input: _Tensor) -> _Tensor:
    r"""The `n`-th derivative of `digamma`."""
def psi(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""The derivative of the logarithm of the gamma function; NaN at negative whole numbers."""
def round(input: _Tensor, *, decimals: _int = 0) -> _Tensor:
    r"""The nearest integer, the even one of two; with `decimals` that many digits behind the point."""
def scaled_modified_bessel_k0(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""``exp(input) * modified_bessel_k0(input)``."""
def scaled_modified_bessel_k1(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""``exp(input) * modified_bessel_k1(input)``."""
def shifted_chebyshev_polynomial_t(input: _Tensor | _int | _float | _complex, n: _Tensor | _int | _float | _complex) -> _Tensor:
    r"""Chebyshev's polynomials of the first kind, at 2 x - 1, by order and point."""
def shifted_chebyshev_polynomial_u(input: _Tensor | _int | _float | _complex, n: _Tensor | _int | _float | _complex) -> _Tensor:
    r"""Chebyshev's polynomials of the second kind, at 2 x - 1, by order and point."""
def shifted_chebyshev_polynomial_v(input: _Tensor | _int | _float | _complex, n: _Tensor | _int | _float | _complex) -> _Tensor:
    r"""Chebyshev's polynomials of the third kind, at 2 x - 1, by order and point."""
def shifted_chebyshev_polynomial_w(input: _Tensor | _int | _float | _complex, n: _Tensor | _int | _float | _complex) -> _Tensor:
    r"""Chebyshev's polynomials of the fourth kind, at 2 x - 1, by order and point."""
def sinc(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""``sin(pi input) / (pi input)``, and 1 at zero."""
@_overload
def softmax(input: _Tensor, dim: _int, *, dtype: _dtype | None = None) -> _Tensor:
    r"""``exp(x) / sum(exp(x))`` along a dimension."""
@_overload
def softmax(input: _Tensor, axis: _int, *, dtype: _dtype | None = None) -> _Tensor:
    r"""``exp(x) / sum(exp(x))`` along a dimension."""
def spherical_bessel_j0(input: _Tensor, *, out: _Tensor | None = None) -> _Tensor:
    r"""The spherical Bessel function of the first kind of order 0, ``sin(input) / input``."""
def xlog1py(input: _Tensor | _int | _float | _complex, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
    r"""``input * log1p(other)``, and 0 where `input` is 0."""
def xlogy(input: _Tensor | _int | _float | _complex, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
    r"""``input * log(other)``, and 0 where `input` is 0."""
def zeta(input: _Tensor | _int | _float | _complex, other: _Tensor | _int | _float | _complex, *, out: _Tensor | None = None) -> _Tensor:
    r"""The zeta function of Hurwitz, the sum of ``(other + k) ** -input`` over ``k = 0, 1, ...``."""
