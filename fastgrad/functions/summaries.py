"""Running products, differences, integrals, covariances, and sums without NaN."""

from __future__ import annotations

from typing import Any

from fastgrad import dtypes, return_types
from fastgrad.functions import elementwise
from fastgrad.functions.arguments import as_dims, as_index, is_tensor, need_tensor
from fastgrad.functions.complex_numbers import complex as complex_of
from fastgrad.functions.complex_numbers import conj, real
from fastgrad.functions.creation import full, ones
from fastgrad.functions.index import where
from fastgrad.functions.plans import planned
from fastgrad.functions.public import public
from fastgrad.functions.reduce import amax, amin
from fastgrad.functions.shape import cat, existing, narrow, reshape, wrapped
from fastgrad.functions.statistics import norm
from fastgrad.native.host.tables import BY_NAME
from fastgrad.ops.call import invoke


@public()
@planned
def cumprod(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """Running products along a dimension.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.cumprod(fg.tensor([1.0, 2.0, 3.0]), 0)
    tensor([1., 2., 6.])
    """
    need_tensor("cumprod", input)
    if dtype is not None:
        input = input.to(dtype)
    if not input.dtype.inexact:
        out = invoke(BY_NAME["cumprod_integers"], (input,), wrapped("cumprod", dim, input.dim()), 0)
        return out if dtype is None else out.to(dtype)
    return invoke(BY_NAME["products_before"], (input,), wrapped("cumprod", dim, input.dim()), 0) * input


@public()
@planned
def nansum(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The sum over dimensions in which NaN counts as zero. See `sum`.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.nansum(fg.tensor([1.0, float("nan"), 2.0]))
    tensor(3.)
    """
    if need_tensor("nansum", input).dtype.is_floating_point:
        input = elementwise.masked_fill(input, elementwise.isnan(input), 0.0)
    return input.sum(dim, keepdim, dtype=dtype)


@public()
@planned
def nanmean(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The mean over dimensions of what is not NaN. See `mean`."""
    if not need_tensor("nanmean", input).dtype.is_floating_point:
        raise RuntimeError(
            f"nanmean(): expected input to have floating point dtype but got {input.dtype.type_name}"
        )
    count = elementwise.logical_not(elementwise.isnan(input.detach())).sum(dim, keepdim)
    return nansum(input, dim, keepdim, dtype=dtype) / count


@public()
@planned
def count_nonzero(input: Any, dim: Any = None) -> Any:
    """How many elements are not zero, over all or some dimensions."""
    dims = as_dims("count_nonzero", dim)
    return (need_tensor("count_nonzero", input) != 0).sum(dims or None)


@public()
@planned
def aminmax(input: Any, *, dim: Any = None, keepdim: bool = False) -> return_types.aminmax:
    """The smallest and the largest value, over all dimensions or one.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.aminmax(fg.tensor([1.0, 3.0, 2.0])).max
    tensor(3.)
    """
    if need_tensor("aminmax", input).numel() == 0 and dim is None:
        raise RuntimeError(
            "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity."
        )
    if input.is_complex():
        raise NotImplementedError(f"aminmax(): not implemented for '{input.dtype.type_name}'")
    dims = as_dims("aminmax", dim)
    return return_types.aminmax._make((amin(input, dims, keepdim), amax(input, dims, keepdim)))


# --- differences and integrals ---------------------------------------------------------------------------------


@public()
@planned
def diff(input: Any, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """Differences between neighbours along a dimension, taken `n` times.

    Parameters
    ----------
    input : Tensor
    n : int
    dim : int
    prepend, append : Tensor, optional
        What stands before and behind the input along the dimension.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.diff(fg.tensor([1, 3, 6]))
    tensor([2, 3])
    """
    need_tensor("diff", input)
    if input.dim() == 0:
        raise RuntimeError("diff(): diff expects input to be at least one-dimensional")
    d, n = wrapped("diff", dim, input.dim()), as_index("diff", "n", n)
    if n < 0:
        raise RuntimeError(f"diff(): order must be non-negative but got {n}")
    if n == 0:
        return input.clone()
    parts = [x for x in (prepend, input, append) if x is not None]
    x = cat(parts, d) if len(parts) > 1 else input
    for _ in range(min(n, x.shape[d])):
        size = max(x.shape[d] - 1, 0)
        after, before = narrow(x, d, min(1, x.shape[d]), size), narrow(x, d, 0, size)
        x = after != before if x.dtype is dtypes.bool_ else after - before
    return x


@public(method=False)
def gradient(input: Any, *, spacing: Any = None, dim: Any = None, edge_order: int = 1) -> tuple[Any, ...]:
    """Derivatives along dimensions, estimated from neighbours: of second order inside, of `edge_order` at the ends.

    Parameters
    ----------
    input : Tensor
        Values of a function at the places of a grid.
    spacing : float, or sequence of float or of Tensor, optional
        How far neighbours are apart, in each dimension or in all, or the coordinates of the places in each.
    dim : int or sequence of int, optional
        Dimensions, all if None.
    edge_order : int
        1 or 2.

    Returns
    -------
    tuple of Tensor
        For each dimension, of the shape of the input.

    Raises
    ------
    RuntimeError
        If there are too few places, `edge_order` is another one, or `spacing` does not fit.

    Notes
    -----
    With the distances ``a`` to the place before and ``b`` to the one behind, ``(a^2 f(x + b) + (b^2 - a^2) f(x) - b^2
    f(x - a)) / (a b (a + b))`` (B. Fornberg, Mathematics of Computation 51 (1988)).

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.gradient(fg.tensor([1.0, 4.0, 9.0, 16.0]))
    (tensor([3., 4., 6., 7.]),)
    """
    need_tensor("gradient", input)
    if input.dtype is dtypes.uint8:
        raise RuntimeError("gradient(): uint8 input is not supported; convert it, for instance with .int()")
    if edge_order not in (1, 2):
        raise RuntimeError(
            f"gradient(): only edge_order=1 and edge_order=2 are supported, not {edge_order!r}"
        )
    ndim = input.dim()
    dims = range(ndim) if dim is None else [wrapped("gradient", d, ndim) for d in as_dims("gradient", dim)]
    if len(set(dims)) != len(dims):
        raise RuntimeError(f"gradient(): a dim appears multiple times in the list of dims {tuple(dims)}")
    if isinstance(spacing, (tuple, list)):
        if len(spacing) != len(dims):
            raise RuntimeError(
                f"gradient(): expected spacing to be unspecified, a number, or a list of length {len(dims)}, one for "
                f"each dimension, but got {len(spacing)}"
            )
        steps = list(spacing)
    else:
        steps = [1.0 if spacing is None else spacing] * len(dims)
    return tuple(_slope(input, d, step, edge_order) for d, step in zip(dims, steps, strict=True))


def _slope(x: Any, d: int, step: Any, edge_order: int) -> Any:
    """The derivative along a dimension."""
    n = x.shape[d]
    if n < edge_order + 1:
        raise RuntimeError(
            f"gradient(): expected each dimension size to be at least edge_order+1 = {edge_order + 1}, but got {n}"
        )
    if is_tensor(step):
        if step.shape != (n,):
            raise RuntimeError(
                f"gradient(): expected coordinates of dimension {d} to have the shape ({n},), but got "
                f"{tuple(step.shape)}"
            )
        apart = reshape(diff(step), [-1 if k == d else 1 for k in range(x.dim())])
    else:
        if isinstance(step, (bool, str)) or not isinstance(step, (int, float)):
            raise TypeError(f"gradient(): spacing must be numbers or tensors, not {type(step).__name__}")
        apart = full(
            [n - 1 if k == d else 1 for k in range(x.dim())], step, dtype=dtypes.float64, device=x.device
        )
        apart = apart.to(x.dtype if x.is_floating_point() or x.is_complex() else dtypes.get_default_dtype())

    def at(t: Any, first: int, count: int) -> Any:
        return narrow(t, d, first, count)

    def end(place: int, inwards: int) -> Any:
        """The derivative at an end, from there inwards."""
        near = at(x, place, 1), at(x, place + inwards, 1)
        gap = min(place, n - 2)
        a = at(apart, gap, 1)
        if edge_order == 1:
            return (near[1] - near[0]) / a * inwards
        b, far = at(apart, gap + inwards, 1), at(x, place + 2 * inwards, 1)
        whole = a + b
        return (
            near[1] * (whole / (a * b)) - near[0] * ((a + whole) / (a * whole)) - far * (a / (b * whole))
        ) * inwards

    parts = [end(0, 1)]
    if n > 2:
        a, b = at(apart, 0, n - 2), at(apart, 1, n - 2)
        before, here, behind = at(x, 0, n - 2), at(x, 1, n - 2), at(x, 2, n - 2)
        inside = behind * (a / (b * (a + b))) + here * ((b - a) / (a * b)) - before * (b / (a * (a + b)))
        parts.append(inside)
    return cat([*parts, end(n - 1, -1)], d)


def _areas(name: str, y: Any, x: Any, dx: Any, dim: int) -> tuple[Any, int]:
    """The areas of the trapezoids between neighbours, and their dimension."""
    d = existing(name, dim, need_tensor(name, y, "y").dim())
    size = max(y.shape[d] - 1, 0)
    pairs = narrow(y, d, 0, size) + narrow(y, d, min(1, y.shape[d]), size)
    if x is None:
        return pairs * (1.0 if dx is None else dx) / 2.0, d
    need_tensor(name, x, "x", 2)
    if x.dim() == 1 and y.dim() > 1:
        x = x.reshape([-1 if k == d else 1 for k in range(y.dim())])
    return pairs * diff(x, 1, d - y.dim() + x.dim()) / 2.0, d


@public("trapz", method=False)
def trapezoid(y: Any, x: Any = None, *, dx: Any = None, dim: int = -1) -> Any:
    """The integral of samples along a dimension, by trapezoids.

    Parameters
    ----------
    y : Tensor
    x : Tensor, optional
        Where the samples were taken; else they have the distance `dx`, 1 if not given.
    dx : number, optional
    dim : int

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.trapezoid(fg.tensor([1.0, 2.0, 3.0]))
    tensor(4.)
    """
    areas, d = _areas("trapezoid", y, x, dx, dim)
    return areas.sum(d)


@public(method=False)
def cumulative_trapezoid(y: Any, x: Any = None, *, dx: Any = None, dim: int = -1) -> Any:
    """The running integral of samples along a dimension. See `trapezoid`."""
    areas, d = _areas("cumulative_trapezoid", y, x, dx, dim)
    return areas.cumsum(d)


# --- covariances ---------------------------------------------------------------------------------------------------


@public()
def cov(input: Any, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Any:
    """The covariances of variables, which are rows.

    Parameters
    ----------
    input : Tensor
        A matrix of observations as columns, or a vector of them.
    correction : int
    fweights, aweights : Tensor, optional
        How often each observation counts, and how much.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.cov(fg.tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    if need_tensor("cov", input).dim() > 2:
        raise RuntimeError(
            f"cov(): expected input to have two or fewer dimensions but got an input with {input.dim()}"
        )
    x = input.reshape(1, -1) if input.dim() < 2 else input
    x = x if x.dtype.inexact else x.to(dtypes.get_default_dtype())
    given = [w for w in (fweights, aweights) if w is not None]
    weights = None
    for w in given:
        if not is_tensor(w) or w.dim() > 1 or w.numel() != x.shape[1]:
            raise RuntimeError("cov(): expected weights to be vectors with a number for each observation")
        weights = w if weights is None else weights * w
    if weights is None:
        total, mean = x.shape[1], x.mean(1, True)
    else:
        total = weights.sum()
        mean = (x * weights).sum(1, True) / total
    if aweights is None or correction == 0:
        factor = total - correction
    else:
        factor = total - correction * (weights * aweights).sum() / total
    centered = x - mean
    scaled = centered if weights is None else centered * weights
    divisor = elementwise.clamp(factor, 0) if is_tensor(factor) else max(factor, 0)
    out = (centered @ conj(scaled.t())) / divisor
    return out.reshape(()) if out.numel() == 1 else out


@public()
def corrcoef(input: Any) -> Any:
    """The correlations of variables, which are rows: covariances of what is scaled to the deviation 1."""
    c = cov(need_tensor("corrcoef", input))
    if c.dim() == 0:
        return c / c
    deviation = elementwise.sqrt(real(c.diagonal()))
    scaled = c / deviation.unsqueeze(1) / deviation
    if scaled.is_complex():
        return complex_of(*(elementwise.clamp(part, -1, 1) for part in (scaled.real, scaled.imag)))
    return elementwise.clamp(scaled, -1, 1)


@public()
def renorm(input: Any, p: float, dim: int, maxnorm: float) -> Any:
    """The slices along a dimension scaled down to the norm `maxnorm` of order `p` where theirs is larger."""
    if need_tensor("renorm", input).dim() < 2:
        raise RuntimeError(f"renorm(): input needs at least 2 dimensions, got {input.dim()} dimensions")
    d = wrapped("renorm", dim, input.dim())
    length = norm(input, p, [k for k in range(input.dim()) if k != d], True)
    factor = maxnorm / (length + 1e-7)
    return input * where(length > maxnorm, factor, ones((), dtype=input.dtype, device=input.device))
