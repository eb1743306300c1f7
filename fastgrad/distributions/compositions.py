"""`Transform`, and those that are made of others."""

from __future__ import annotations

import functools
import operator
import weakref
from collections.abc import Sequence
from typing import Any

import fastgrad as fg
from fastgrad.distributions import constraints
from fastgrad.distributions.utils import (
    sum_rightmost,
)


class Transform:
    """A function with an inverse (or a right inverse) and the logarithm of its Jacobian determinant.

    Subclasses say `domain` and `codomain`, whether they are `bijective`, and write ``_call``, ``_inverse`` and
    `log_abs_det_jacobian`.

    Parameters
    ----------
    cache_size : int
        1 to remember the last pair of input and output, so that the inverse of an output costs nothing; else 0.
    """

    bijective = False
    domain: Any
    codomain: Any

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        self._cache_size = cache_size
        self._inv: Any = None
        self._cached: Any = (None, None)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_inv": None}

    @property
    def event_dim(self) -> int:
        """How many of the last dimensions it maps as one, if there are as many before as after."""
        if self.domain.event_dim != self.codomain.event_dim:
            raise ValueError("Please use either .domain.event_dim or .codomain.event_dim")
        return int(self.domain.event_dim)

    @property
    def inv(self) -> Any:
        """The inverse, whose inverse is this."""
        found = None if self._inv is None else self._inv()
        if found is None:
            found = _InverseTransform(self)
            self._inv = weakref.ref(found)
        return found

    @property
    def sign(self) -> Any:
        """The sign of the derivative, of bijections of numbers."""
        raise NotImplementedError(f"{type(self).__name__} has no sign")

    def with_cache(self, cache_size: int = 1) -> Any:
        """The same with another size of the cache."""
        if self._cache_size == cache_size:
            return self
        if type(self).__init__ is Transform.__init__:
            return type(self)(cache_size=cache_size)
        raise NotImplementedError(f"{type(self)}.with_cache is not implemented")

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __call__(self, x: Any) -> Any:
        if self._cache_size == 0:
            return self._call(x)
        before, after = self._cached
        if x is before:
            return after
        y = self._call(x)
        self._cached = x, y
        return y

    def _inv_call(self, y: Any) -> Any:
        if self._cache_size == 0:
            return self._inverse(y)
        before, after = self._cached
        if y is after:
            return before
        x = self._inverse(y)
        self._cached = x, y
        return x

    def _call(self, x: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__}._call")

    def _inverse(self, y: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__}._inverse")

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The logarithm of the absolute value of the Jacobian determinant at an input, given the output."""
        raise NotImplementedError(f"{type(self).__name__}.log_abs_det_jacobian")

    def __repr__(self) -> str:
        return type(self).__name__ + "()"

    def forward_shape(self, shape: Any) -> Any:
        """The shape of the output."""
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        """The shape of the input."""
        return shape


class _InverseTransform(Transform):
    """The inverse of a transform, which it holds."""

    def __init__(self, transform: Any) -> None:
        super().__init__(transform._cache_size)
        self._inv = transform

    @property
    def domain(self) -> Any:  # type: ignore[override]
        return self._inv.codomain

    @property
    def codomain(self) -> Any:  # type: ignore[override]
        return self._inv.domain

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return bool(self._inv.bijective)

    @property
    def sign(self) -> Any:
        return self._inv.sign

    @property
    def inv(self) -> Any:
        return self._inv

    def __getstate__(self) -> dict[str, Any]:
        return dict(vars(self))

    def with_cache(self, cache_size: int = 1) -> Any:
        return self.inv.with_cache(cache_size).inv

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _InverseTransform) and self._inv == other._inv

    __hash__ = Transform.__hash__

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inv!r})"

    def __call__(self, x: Any) -> Any:
        return self._inv._inv_call(x)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Any) -> Any:
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self._inv.forward_shape(shape)


class ComposeTransform(Transform):
    """Transforms one after the other.

    Parameters
    ----------
    parts : list of Transform
    cache_size : int
    """

    def __init__(self, parts: Sequence[Any], cache_size: int = 0) -> None:
        parts = [part.with_cache(cache_size) for part in parts] if cache_size else list(parts)
        super().__init__(cache_size)
        self.parts = parts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    __hash__ = Transform.__hash__

    @property
    def domain(self) -> Any:  # type: ignore[override]
        if not self.parts:
            return constraints.real
        found, event_dim = self.parts[0].domain, self.parts[-1].codomain.event_dim
        for part in reversed(self.parts):
            event_dim = max(
                event_dim + part.domain.event_dim - part.codomain.event_dim, part.domain.event_dim
            )
        extra = event_dim - found.event_dim
        return constraints.independent(found, extra) if extra > 0 else found

    @property
    def codomain(self) -> Any:  # type: ignore[override]
        if not self.parts:
            return constraints.real
        found, event_dim = self.parts[-1].codomain, self.parts[0].domain.event_dim
        for part in self.parts:
            event_dim = max(
                event_dim + part.codomain.event_dim - part.domain.event_dim, part.codomain.event_dim
            )
        extra = event_dim - found.event_dim
        return constraints.independent(found, extra) if extra > 0 else found

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return all(part.bijective for part in self.parts)

    @property
    def sign(self) -> Any:
        return functools.reduce(operator.mul, (part.sign for part in self.parts), 1)

    @property
    def inv(self) -> Any:
        found = None if self._inv is None else self._inv()
        if found is None:
            found = ComposeTransform([part.inv for part in reversed(self.parts)])
            self._inv, found._inv = weakref.ref(found), weakref.ref(self)
        return found

    def with_cache(self, cache_size: int = 1) -> Any:
        return self if self._cache_size == cache_size else ComposeTransform(self.parts, cache_size)

    def __call__(self, x: Any) -> Any:
        for part in self.parts:
            x = part(x)
        return x

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        if not self.parts:
            return fg.zeros_like(x)
        values = [x]
        for part in self.parts[:-1]:
            values.append(part(values[-1]))
        values.append(y)
        event_dim, terms = self.domain.event_dim, []
        for part, before, after in zip(self.parts, values[:-1], values[1:], strict=True):
            term = part.log_abs_det_jacobian(before, after)
            terms.append(sum_rightmost(term, event_dim - part.domain.event_dim))
            event_dim += part.codomain.event_dim - part.domain.event_dim
        return functools.reduce(operator.add, terms)

    def forward_shape(self, shape: Any) -> Any:
        return functools.reduce(lambda s, part: part.forward_shape(s), self.parts, shape)

    def inverse_shape(self, shape: Any) -> Any:
        return functools.reduce(lambda s, part: part.inverse_shape(s), reversed(self.parts), shape)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(\n    " + ",\n    ".join(map(repr, self.parts)) + "\n)"


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """A transform that maps some of the dimensions to the left of what it maps as one with it.

    Parameters
    ----------
    base_transform : Transform
    reinterpreted_batch_ndims : int
    cache_size : int
    """

    def __init__(self, base_transform: Any, reinterpreted_batch_ndims: int, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return IndependentTransform(self.base_transform, self.reinterpreted_batch_ndims, cache_size)

    @property
    def domain(self) -> Any:  # type: ignore[override]
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @property
    def codomain(self) -> Any:  # type: ignore[override]
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return bool(self.base_transform.bijective)

    @property
    def sign(self) -> Any:
        return self.base_transform.sign

    def _call(self, x: Any) -> Any:
        if x.dim() < self.domain.event_dim:
            raise ValueError("Too few dimensions on input")
        return self.base_transform(x)

    def _inverse(self, y: Any) -> Any:
        if y.dim() < self.codomain.event_dim:
            raise ValueError("Too few dimensions on input")
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_transform!r}, {self.reinterpreted_batch_ndims})"

    def forward_shape(self, shape: Any) -> Any:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self.base_transform.inverse_shape(shape)


class ReshapeTransform(Transform):
    """Other sizes for the last dimensions, of as many elements.

    Parameters
    ----------
    in_shape, out_shape : Size
    cache_size : int

    Raises
    ------
    ValueError
        If the numbers of elements differ.
    """

    bijective = True

    def __init__(self, in_shape: Any, out_shape: Any, cache_size: int = 0) -> None:
        self.in_shape, self.out_shape = fg.Size(in_shape), fg.Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError("in_shape, out_shape have different numbers of elements")
        super().__init__(cache_size)

    @property
    def domain(self) -> Any:  # type: ignore[override]
        return constraints.independent(constraints.real, len(self.in_shape))

    @property
    def codomain(self) -> Any:  # type: ignore[override]
        return constraints.independent(constraints.real, len(self.out_shape))

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return ReshapeTransform(self.in_shape, self.out_shape, cache_size)

    def _batch(self, x: Any, event: Any) -> Any:
        return tuple(x.shape[: x.dim() - len(event)])

    def _call(self, x: Any) -> Any:
        return x.reshape(self._batch(x, self.in_shape) + tuple(self.out_shape))

    def _inverse(self, y: Any) -> Any:
        return y.reshape(self._batch(y, self.out_shape) + tuple(self.in_shape))

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return fg.zeros(self._batch(x, self.in_shape), dtype=x.dtype, device=x.device)

    @staticmethod
    def _replaced(shape: Any, old: Any, new: Any) -> Any:
        if len(shape) < len(old):
            raise ValueError("Too few dimensions on input")
        cut = len(shape) - len(old)
        if tuple(shape[cut:]) != tuple(old):
            raise ValueError(f"Shape mismatch: expected {tuple(shape[cut:])} but got {tuple(old)}")
        return fg.Size((*shape[:cut], *new))

    def forward_shape(self, shape: Any) -> Any:
        return self._replaced(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self._replaced(shape, self.out_shape, self.in_shape)


class _Parted(Transform):
    """Transforms of the parts of a tensor along a dimension."""

    def __init__(self, tseq: Sequence[Any], dim: int, cache_size: int) -> None:
        if not all(isinstance(t, Transform) for t in tseq):
            raise AssertionError("All elements of tseq must be Transform instances")
        super().__init__(cache_size)
        self.transforms = [t.with_cache(cache_size) for t in tseq] if cache_size else list(tseq)
        self.dim = dim

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return all(t.bijective for t in self.transforms)

    def _parts(self, x: Any) -> list[Any]:
        raise NotImplementedError

    def _need(self, value: Any) -> Any:
        if not -value.dim() <= self.dim < value.dim():
            raise AssertionError(f"Expected dim to be in [{-value.dim()}, {value.dim()}), got {self.dim}")
        return value


class CatTransform(_Parted):
    """Transforms of runs of elements along a dimension.

    Parameters
    ----------
    tseq : list of Transform
    dim : int
    lengths : list of int, optional
        Of the runs; 1 each by default.
    cache_size : int
    """

    def __init__(self, tseq: Sequence[Any], dim: int = 0, lengths: Any = None, cache_size: int = 0) -> None:
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise AssertionError(
                f"Expected lengths ({len(self.lengths)}) to match transforms ({len(self.transforms)})"
            )

    @property
    def event_dim(self) -> int:
        return int(max(t.event_dim for t in self.transforms))

    @property
    def length(self) -> int:
        """Of all runs together."""
        return sum(self.lengths)

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _parts(self, x: Any) -> list[Any]:
        if self._need(x).shape[self.dim] != self.length:
            raise AssertionError(f"Expected size {self.length} along dim, got {x.shape[self.dim]}")
        starts = [sum(self.lengths[:k]) for k in range(len(self.lengths))]
        return [x.narrow(self.dim, s, n) for s, n in zip(starts, self.lengths, strict=True)]

    def _call(self, x: Any) -> Any:
        pairs = zip(self.transforms, self._parts(x), strict=True)
        return fg.cat([t(part) for t, part in pairs], dim=self.dim)

    def _inverse(self, y: Any) -> Any:
        pairs = zip(self.transforms, self._parts(y), strict=True)
        return fg.cat([t.inv(part) for t, part in pairs], dim=self.dim)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        terms = []
        for t, before, after in zip(self.transforms, self._parts(x), self._parts(y), strict=True):
            term = t.log_abs_det_jacobian(before, after)
            terms.append(sum_rightmost(term, self.event_dim - t.event_dim))
        dim = self.dim - x.dim() if self.dim >= 0 else self.dim
        dim += self.event_dim
        return fg.cat(terms, dim=dim) if dim < 0 else functools.reduce(operator.add, terms)

    @property
    def domain(self) -> Any:  # type: ignore[override]
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @property
    def codomain(self) -> Any:  # type: ignore[override]
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)


class StackTransform(_Parted):
    """Transforms of the slices along a dimension.

    Parameters
    ----------
    tseq : list of Transform
    dim : int
    cache_size : int
    """

    def __init__(self, tseq: Sequence[Any], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(tseq, dim, cache_size)

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return StackTransform(self.transforms, self.dim, cache_size)

    def _parts(self, x: Any) -> list[Any]:
        if self._need(x).shape[self.dim] != len(self.transforms):
            raise AssertionError(f"Expected size {len(self.transforms)} along dim, got {x.shape[self.dim]}")
        return [x.select(self.dim, k) for k in range(x.shape[self.dim])]

    def _call(self, x: Any) -> Any:
        pairs = zip(self.transforms, self._parts(x), strict=True)
        return fg.stack([t(part) for t, part in pairs], dim=self.dim)

    def _inverse(self, y: Any) -> Any:
        pairs = zip(self.transforms, self._parts(y), strict=True)
        return fg.stack([t.inv(part) for t, part in pairs], dim=self.dim)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        triples = zip(self.transforms, self._parts(x), self._parts(y), strict=True)
        return fg.stack([t.log_abs_det_jacobian(a, b) for t, a, b in triples], dim=self.dim)

    @property
    def domain(self) -> Any:  # type: ignore[override]
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @property
    def codomain(self) -> Any:  # type: ignore[override]
        return constraints.stack([t.codomain for t in self.transforms], self.dim)
