"""Comparisons, tests of values and logic: elementwise ops without a derivative."""

from __future__ import annotations

from fastgrad.native.contracts.element_types import DISCRETE
from fastgrad.native.contracts.ops import NOT_DIFFERENTIABLE, OUT_BOOL
from fastgrad.ops.registry import elementwise
from fastgrad.ops.vocabulary import c, m

PREDICATE = NOT_DIFFERENTIABLE | OUT_BOOL


@elementwise("eq", flags=PREDICATE, public=True, over_complex=True)
def eq(a, b):
    """Whether ``input == other``."""
    return a == b


@elementwise("ne", flags=PREDICATE, public=("not_equal",), over_complex=True)
def ne(a, b):
    """Whether ``input != other``."""
    return a != b


@elementwise("lt", flags=PREDICATE, public=("less",))
def lt(a, b):
    """Whether ``input < other``."""
    return a < b


@elementwise("le", flags=PREDICATE, public=("less_equal",))
def le(a, b):
    """Whether ``input <= other``."""
    return a <= b


@elementwise("gt", flags=PREDICATE, public=("greater",))
def gt(a, b):
    """Whether ``input > other``."""
    return a > b


@elementwise("ge", flags=PREDICATE, public=("greater_equal",))
def ge(a, b):
    """Whether ``input >= other``."""
    return a >= b


@elementwise("isnan", flags=PREDICATE, public=True, inplace=False, over_complex=True)
def isnan(x):
    """Whether an element is NaN."""
    return x != x


@elementwise("logical_not", flags=PREDICATE, public=True, over_complex=True)
def logical_not(x):
    """Whether an element is zero."""
    return x == c(0)


@elementwise("logical_and", flags=PREDICATE, public=True, over_complex=True)
def logical_and(a, b):
    """Whether neither element is zero."""
    return (a != c(0)) & (b != c(0))


@elementwise("logical_or", flags=PREDICATE, public=True, over_complex=True)
def logical_or(a, b):
    """Whether an element of the two is not zero."""
    return (a != c(0)) | (b != c(0))


@elementwise("logical_xor", flags=PREDICATE, public=True, over_complex=True)
def logical_xor(a, b):
    """Whether one element of the two, and one alone, is zero."""
    return (a != c(0)) != (b != c(0))


@elementwise("bitwise_and", dtypes=DISCRETE, flags=NOT_DIFFERENTIABLE, public=True)
def bitwise_and(a, b):
    """The bits that both integers have; of masks, where both hold."""
    return a & b


@elementwise("bitwise_or", dtypes=DISCRETE, flags=NOT_DIFFERENTIABLE, public=True)
def bitwise_or(a, b):
    """The bits that one of two integers has; of masks, where one holds."""
    return a | b


@elementwise("bitwise_xor", dtypes=DISCRETE, flags=NOT_DIFFERENTIABLE, public=True)
def bitwise_xor(a, b):
    """The bits in which two integers differ; of masks, where they do."""
    return a ^ b


@elementwise("bitwise_not", dtypes=DISCRETE, flags=NOT_DIFFERENTIABLE, public=True)
def bitwise_not(x):
    return m.bitwise_not(x)
