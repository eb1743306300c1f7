"""Transforms from all real numbers onto constrained sets.

`biject_to` looks up bijections, `transform_to` others as well, which are cheaper or steadier, such as softmax.

Examples
--------
>>> import fastgrad as fg
>>> from fastgrad.distributions import constraints, transform_to
>>> transform_to(constraints.positive)(fg.tensor([-1.0, 0.0]))
tensor([0.3679, 1.0000])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastgrad.distributions import constraints, transforms
from fastgrad.distributions.utils import is_scalar

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]


class ConstraintRegistry:
    """A table from classes of constraints to functions that make a transform for one."""

    def __init__(self) -> None:
        self._registry: dict[type, Callable[[Any], Any]] = {}

    def register(self, constraint: Any, factory: Any = None) -> Any:
        """Say what makes the transform for a constraint, or for a class of constraints; also a decorator.

        Raises
        ------
        TypeError
            If `constraint` is none.
        """
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        kind = type(constraint) if isinstance(constraint, constraints.Constraint) else constraint
        if not isinstance(kind, type) or not issubclass(kind, constraints.Constraint):
            raise TypeError(
                f"Expected constraint to be either a Constraint subclass or instance, but got {constraint}"
            )
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint: Any) -> Any:
        try:
            factory = self._registry[type(constraint)]
        except KeyError:
            raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints") from None
        return factory(constraint)


biject_to, transform_to = ConstraintRegistry(), ConstraintRegistry()


def _both(*found: Any) -> Callable[[Any], Any]:
    def register(factory: Any) -> Any:
        for constraint in found:
            biject_to.register(constraint, factory)
            transform_to.register(constraint, factory)
        return factory

    return register


@_both(constraints.real)
def _real(constraint: Any) -> Any:
    return transforms.identity_transform


@biject_to.register(constraints.independent)
def _biject_independent(constraint: Any) -> Any:
    base = biject_to(constraint.base_constraint)
    return transforms.IndependentTransform(base, constraint.reinterpreted_batch_ndims)


@transform_to.register(constraints.independent)
def _transform_independent(constraint: Any) -> Any:
    base = transform_to(constraint.base_constraint)
    return transforms.IndependentTransform(base, constraint.reinterpreted_batch_ndims)


@_both(constraints.positive, constraints.nonnegative)
def _positive(constraint: Any) -> Any:
    return transforms.ExpTransform()


@_both(constraints.greater_than, constraints.greater_than_eq)
def _greater(constraint: Any) -> Any:
    affine = transforms.AffineTransform(constraint.lower_bound, 1)
    return transforms.ComposeTransform([transforms.ExpTransform(), affine])


@_both(constraints.less_than)
def _less(constraint: Any) -> Any:
    affine = transforms.AffineTransform(constraint.upper_bound, -1)
    return transforms.ComposeTransform([transforms.ExpTransform(), affine])


@_both(constraints.interval, constraints.half_open_interval)
def _interval(constraint: Any) -> Any:
    low, high = constraint.lower_bound, constraint.upper_bound
    if is_scalar(low) and is_scalar(high) and low == 0 and high == 1:
        return transforms.SigmoidTransform()
    return transforms.ComposeTransform(
        [transforms.SigmoidTransform(), transforms.AffineTransform(low, high - low)]
    )


@biject_to.register(constraints.simplex)
def _biject_simplex(constraint: Any) -> Any:
    return transforms.StickBreakingTransform()


@transform_to.register(constraints.simplex)
def _transform_simplex(constraint: Any) -> Any:
    return transforms.SoftmaxTransform()


@transform_to.register(constraints.lower_cholesky)
def _lower_cholesky(constraint: Any) -> Any:
    return transforms.LowerCholeskyTransform()


@transform_to.register(constraints.positive_semidefinite)
@transform_to.register(constraints.positive_definite)
def _positive_definite(constraint: Any) -> Any:
    return transforms.PositiveDefiniteTransform()


@_both(constraints.corr_cholesky)
def _corr_cholesky(constraint: Any) -> Any:
    return transforms.CorrCholeskyTransform()


@biject_to.register(constraints.cat)
def _biject_cat(constraint: Any) -> Any:
    parts = [biject_to(c) for c in constraint.cseq]
    return transforms.CatTransform(parts, constraint.dim, constraint.lengths)


@transform_to.register(constraints.cat)
def _transform_cat(constraint: Any) -> Any:
    parts = [transform_to(c) for c in constraint.cseq]
    return transforms.CatTransform(parts, constraint.dim, constraint.lengths)


@biject_to.register(constraints.stack)
def _biject_stack(constraint: Any) -> Any:
    return transforms.StackTransform([biject_to(c) for c in constraint.cseq], constraint.dim)


@transform_to.register(constraints.stack)
def _transform_stack(constraint: Any) -> Any:
    return transforms.StackTransform([transform_to(c) for c in constraint.cseq], constraint.dim)
