"""Complex numbers in the simulation of the GPU, and constants of them in kernels: two floats of NumPy.

Their arithmetic is that of `kernels.complex_types`, which compiled kernels have. NumPy's own complex numbers take a
float beside one for a number with an imaginary part, of which infinities make NaN.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np


class Complex:
    """A complex number; `part` is the type of both parts."""

    __slots__ = ("imag", "real")
    __array_ufunc__ = None  # NumPy's numbers leave operators to this class
    __hash__ = None  # type: ignore[assignment]
    part: ClassVar[Any]

    def __init__(self, real: Any, imag: Any = 0) -> None:
        if isinstance(real, Complex):
            real, imag = real.real, real.imag
        self.real, self.imag = self.part(real), self.part(imag)

    def _with(self, other: Any) -> tuple[Any, Any, Any]:
        """The type of a result, and the other operand's parts, of which a float has one."""
        if isinstance(other, Complex):
            wider = self if self.part is np.float64 else other
            return type(wider), other.real, other.imag
        return type(self), self.part(other), None

    def __add__(self, other: Any) -> Any:
        kind, c, d = self._with(other)
        return kind(self.real + c, self.imag if d is None else self.imag + d)

    def __sub__(self, other: Any) -> Any:
        kind, c, d = self._with(other)
        return kind(self.real - c, self.imag if d is None else self.imag - d)

    def __mul__(self, other: Any) -> Any:
        kind, c, d = self._with(other)
        a, b = self.real, self.imag
        return kind(a * c, b * c) if d is None else kind(a * c - b * d, a * d + b * c)

    def __truediv__(self, other: Any) -> Any:
        """By the ratio of the smaller part of the divisor to the larger one (Smith 1962)."""
        kind, c, d = self._with(other)
        a, b = self.real, self.imag
        if d is None:
            return kind(a / c, b / c)
        first = abs(c) >= abs(d)
        low, high = (d, c) if first else (c, d)
        ratio = kind.part(0) if high == 0 else low / high
        u, v = (kind.part(1), ratio) if first else (ratio, kind.part(1))
        whole = high + low * ratio
        return kind((a * u + b * v) / whole, (b * u - a * v) / whole)

    def __rtruediv__(self, other: Any) -> Any:
        return type(self)(other) / self

    def __rsub__(self, other: Any) -> Any:
        return type(self)(self.part(other) - self.real, -self.imag)

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> Any:
        return type(self)(-self.real, -self.imag)

    def __eq__(self, other: Any) -> Any:
        _, c, d = self._with(other)
        return (self.real == c) & (self.imag == (0 if d is None else d))

    def __ne__(self, other: Any) -> Any:
        return not self == other

    def __bool__(self) -> bool:
        return bool(self != 0)

    def __float__(self) -> float:
        return float(self.real)

    def __int__(self) -> int:
        return int(self.real)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.real}, {self.imag})"


class Complex64(Complex):
    """Of two float32."""

    __slots__ = ()
    part = np.float32


class Complex128(Complex):
    """Of two float64."""

    __slots__ = ()
    part = np.float64


def make(re: Any, im: Any) -> Complex:
    """The complex number of two floats of one type."""
    return Complex64(re, im) if isinstance(re, np.float32) else Complex128(re, im)


def real(x: Any) -> Any:
    """The first part."""
    return x.real


def imag(x: Any) -> Any:
    """The second part."""
    return x.imag
