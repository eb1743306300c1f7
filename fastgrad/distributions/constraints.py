"""Sets in which parameters and samples lie, and whether elements do.

A constraint is an object with a method `check`, which gives a bool for each element, or for each event of several
dimensions where that is how the set is defined.

Examples
--------
>>> import fastgrad as fg
>>> from fastgrad.distributions import constraints
>>> constraints.positive.check(fg.tensor([-1.0, 2.0]))
tensor([False,  True])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fastgrad as fg
from fastgrad.distributions.utils import linalg

__all__ = [
    "Constraint", "MixtureSameFamilyConstraint", "boolean", "cat", "corr_cholesky", "dependent",
    "dependent_property", "greater_than", "greater_than_eq", "half_open_interval", "independent",
    "integer_interval", "interval", "is_dependent", "less_than", "lower_cholesky", "lower_triangular",
    "multinomial", "nonnegative", "nonnegative_integer", "one_hot", "positive", "positive_definite",
    "positive_integer", "positive_semidefinite", "real", "real_vector", "simplex", "square", "stack",
    "symmetric", "unit_interval",
]  # fmt: skip


class Constraint:
    """A set.

    Attributes
    ----------
    is_discrete : bool
        Whether it consists of single points.
    event_dim : int
        How many of the last dimensions are one element of the set.
    """

    is_discrete: Any = False
    event_dim: Any = 0

    def check(self, value: Any) -> Any:
        """Whether elements of a tensor lie in the set: a tensor of bool, without the `event_dim` last dimensions."""
        raise NotImplementedError(f"{type(self).__name__}.check: this constraint cannot check values")

    def __repr__(self) -> str:
        return type(self).__name__[1:] + "()"


class _Dependent(Constraint):
    """One that depends on other parameters: nothing can be checked."""

    def __init__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> None:
        self._is_discrete, self._event_dim = is_discrete, event_dim

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        if self._is_discrete is NotImplemented:
            raise NotImplementedError(".is_discrete cannot be determined statically")
        return bool(self._is_discrete)

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        if self._event_dim is NotImplemented:
            raise NotImplementedError(".event_dim cannot be determined statically")
        return int(self._event_dim)

    def __call__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> Any:
        known = self._is_discrete if is_discrete is NotImplemented else is_discrete
        return _Dependent(
            is_discrete=known, event_dim=self._event_dim if event_dim is NotImplemented else event_dim
        )

    def check(self, value: Any) -> Any:
        raise ValueError("Cannot determine validity of dependent constraint")


def is_dependent(constraint: Any) -> bool:
    """Whether a constraint depends on other parameters, so that it cannot check anything by itself."""
    return isinstance(constraint, _Dependent)


class _DependentProperty(property, _Dependent):
    """A property that gives a constraint of an instance; on the class, it is a dependent constraint itself."""

    def __init__(
        self,
        fn: Callable[[Any], Any] | None = None,
        *,
        is_discrete: Any = NotImplemented,
        event_dim: Any = NotImplemented,
    ) -> None:
        property.__init__(self, fn)
        self._is_discrete, self._event_dim = is_discrete, event_dim

    def __call__(self, fn: Any = None, **known: Any) -> Any:
        return _DependentProperty(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


class _IndependentConstraint(Constraint):
    """One whose last dimensions are one element: all of it has to hold."""

    def __init__(self, base_constraint: Any, reinterpreted_batch_ndims: int) -> None:
        if not isinstance(base_constraint, Constraint):
            raise AssertionError(f"Expected base_constraint to be a Constraint, got {type(base_constraint)}")
        if not isinstance(reinterpreted_batch_ndims, int) or reinterpreted_batch_ndims < 0:
            raise AssertionError("reinterpreted_batch_ndims must be a non-negative int")
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        return bool(self.base_constraint.is_discrete)

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        return int(self.base_constraint.event_dim) + self.reinterpreted_batch_ndims

    def check(self, value: Any) -> Any:
        result = self.base_constraint.check(value)
        if result.dim() < self.reinterpreted_batch_ndims:
            expected = self.base_constraint.event_dim + self.reinterpreted_batch_ndims
            raise ValueError(f"Expected value.dim() >= {expected} but got {value.dim()}")
        kept = result.shape[: result.dim() - self.reinterpreted_batch_ndims]
        return result.reshape(*kept, -1).all(-1)

    def __repr__(self) -> str:
        return f"{type(self).__name__[1:]}({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(Constraint):
    """That of the mixed distributions, for samples that all of them might have given."""

    def __init__(self, base_constraint: Constraint) -> None:
        if not isinstance(base_constraint, Constraint):
            raise AssertionError(f"Expected base_constraint to be a Constraint, got {type(base_constraint)}")
        self.base_constraint = base_constraint

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        return bool(self.base_constraint.is_discrete)

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        return int(self.base_constraint.event_dim)

    def check(self, value: Any) -> Any:
        result = self.base_constraint.check(value.unsqueeze(-1 - self.event_dim))
        if result.dim() < 1:
            raise ValueError(f"Expected value.dim() >= {self.event_dim + 1} but got {value.dim()}")
        return result.reshape(*result.shape[: value.dim() - self.event_dim], -1).all(-1)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_constraint!r})"


class _Boolean(Constraint):
    is_discrete = True

    def check(self, value: Any) -> Any:
        return (value == 0) | (value == 1)


class _OneHot(Constraint):
    is_discrete = True
    event_dim = 1

    def check(self, value: Any) -> Any:
        return ((value == 0) | (value == 1)).all(-1) & (value.sum(-1) == 1)


class _Bounded(Constraint):
    """What all intervals have: bounds, and a name that shows them."""

    _bounds: tuple[str, ...] = ("lower_bound", "upper_bound")

    def __init__(self, *bounds: Any, **named: Any) -> None:
        given = dict(zip(self._bounds, bounds, strict=False)) | named
        if len(bounds) > len(self._bounds) or given.keys() != set(self._bounds):
            raise TypeError(f"{type(self).__name__[1:]}(): expected {', '.join(self._bounds)}")
        vars(self).update(given)

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)}" for name in self._bounds)
        return f"{type(self).__name__[1:]}({shown})"


class _IntegerInterval(_Bounded):
    is_discrete = True
    lower_bound: Any
    upper_bound: Any

    def check(self, value: Any) -> Any:
        return (value % 1 == 0) & (self.lower_bound <= value) & (value <= self.upper_bound)


class _IntegerLessThan(_Bounded):
    is_discrete = True
    _bounds = ("upper_bound",)
    upper_bound: Any

    def check(self, value: Any) -> Any:
        return (value % 1 == 0) & (value <= self.upper_bound)


class _IntegerGreaterThan(_Bounded):
    is_discrete = True
    _bounds = ("lower_bound",)
    lower_bound: Any

    def check(self, value: Any) -> Any:
        return (value % 1 == 0) & (value >= self.lower_bound)


class _Real(Constraint):
    def check(self, value: Any) -> Any:
        return value == value


class _GreaterThan(_Bounded):
    _bounds = ("lower_bound",)
    lower_bound: Any

    def check(self, value: Any) -> Any:
        return self.lower_bound < value


class _GreaterThanEq(_Bounded):
    _bounds = ("lower_bound",)
    lower_bound: Any

    def check(self, value: Any) -> Any:
        return self.lower_bound <= value


class _LessThan(_Bounded):
    _bounds = ("upper_bound",)
    upper_bound: Any

    def check(self, value: Any) -> Any:
        return value < self.upper_bound


class _Interval(_Bounded):
    lower_bound: Any
    upper_bound: Any

    def check(self, value: Any) -> Any:
        return (self.lower_bound <= value) & (value <= self.upper_bound)


class _HalfOpenInterval(_Bounded):
    lower_bound: Any
    upper_bound: Any

    def check(self, value: Any) -> Any:
        return (self.lower_bound <= value) & (value < self.upper_bound)


class _Simplex(Constraint):
    event_dim = 1

    def check(self, value: Any) -> Any:
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _Multinomial(Constraint):
    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, x: Any) -> Any:
        return (x >= 0).all(-1) & (x.sum(-1) <= self.upper_bound)


def _each_matrix(result: Any) -> Any:
    return result.all(-1).all(-1)


class _LowerTriangular(Constraint):
    event_dim = 2

    def check(self, value: Any) -> Any:
        return _each_matrix(value.tril() == value)


class _LowerCholesky(Constraint):
    event_dim = 2

    def check(self, value: Any) -> Any:
        return _each_matrix(value.tril() == value) & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _CorrCholesky(Constraint):
    event_dim = 2

    def check(self, value: Any) -> Any:
        within = fg.finfo(value.dtype).eps * value.shape[-1] * 10  # what the rounding of a row adds up to
        norms = (value.detach() ** 2).sum(-1)
        return _LowerCholesky().check(value) & ((norms - 1).abs() < within).all(-1)


class _Square(Constraint):
    event_dim = 2

    def check(self, value: Any) -> Any:
        square_ = value.shape[-2] == value.shape[-1]
        return fg.full(tuple(value.shape[:-2]), square_, dtype=fg.bool, device=value.device)


class _Symmetric(_Square):
    def check(self, value: Any) -> Any:
        checked = super().check(value)
        if not checked.all():
            return checked
        return _each_matrix(fg.isclose(value, value.transpose(-2, -1), atol=1e-6))


class _PositiveSemidefinite(_Symmetric):
    def check(self, value: Any) -> Any:
        checked = super().check(value)
        if not checked.all():
            return checked
        return (linalg.eigvalsh(value.detach()) >= 0).all(-1)


class _PositiveDefinite(_Symmetric):
    def check(self, value: Any) -> Any:
        checked = super().check(value)
        if not checked.all():
            return checked
        return linalg.cholesky_ex(value.detach()).info == 0


class _Joined(Constraint):
    """Constraints of the parts of a tensor along a dimension."""

    def __init__(self, cseq: Any, dim: int, lengths: list[int]) -> None:
        self.cseq = list(cseq)
        if not all(isinstance(c, Constraint) for c in self.cseq):
            raise AssertionError("All elements of cseq must be Constraint instances")
        self.lengths, self.dim = lengths, dim

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        return any(c.is_discrete for c in self.cseq)


class _Cat(_Joined):
    def __init__(self, cseq: Any, dim: int = 0, lengths: Any = None) -> None:
        found = list(cseq)
        super().__init__(found, dim, [1] * len(found) if lengths is None else list(lengths))
        if len(self.lengths) != len(self.cseq):
            raise AssertionError(f"Expected lengths ({len(self.lengths)}) to match cseq ({len(self.cseq)})")

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        return max(c.event_dim for c in self.cseq)

    def check(self, value: Any) -> Any:
        _need_dim(value, self.dim)
        checks, start = [], 0
        for constraint, length in zip(self.cseq, self.lengths, strict=True):
            checks.append(constraint.check(value.narrow(self.dim, start, length)))
            start += length
        return fg.cat(checks, self.dim)


class _Stack(_Joined):
    def __init__(self, cseq: Any, dim: int = 0) -> None:
        super().__init__(cseq, dim, [])

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        dim = max(c.event_dim for c in self.cseq)
        return dim + 1 if self.dim + dim < 0 else dim

    def check(self, value: Any) -> Any:
        _need_dim(value, self.dim)
        parts = [value.select(self.dim, k) for k in range(value.shape[self.dim])]
        return fg.stack([c.check(v) for v, c in zip(parts, self.cseq, strict=False)], self.dim)


def _need_dim(value: Any, dim: int) -> None:
    if not -value.dim() <= dim < value.dim():
        raise AssertionError(f"Expected dim to be in [{-value.dim()}, {value.dim()}), got {dim}")


dependent = _Dependent()
dependent_property = _DependentProperty
independent = _IndependentConstraint
boolean = _Boolean()
one_hot = _OneHot()
nonnegative_integer = _IntegerGreaterThan(0)
positive_integer = _IntegerGreaterThan(1)
integer_interval = _IntegerInterval
real = _Real()
real_vector = independent(real, 1)
positive = _GreaterThan(0.0)
nonnegative = _GreaterThanEq(0.0)
greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
less_than = _LessThan
multinomial = _Multinomial
unit_interval = _Interval(0.0, 1.0)
interval = _Interval
half_open_interval = _HalfOpenInterval
simplex = _Simplex()
lower_triangular = _LowerTriangular()
lower_cholesky = _LowerCholesky()
corr_cholesky = _CorrCholesky()
square = _Square()
symmetric = _Symmetric()
positive_semidefinite = _PositiveSemidefinite()
positive_definite = _PositiveDefinite()
cat = _Cat
stack = _Stack
