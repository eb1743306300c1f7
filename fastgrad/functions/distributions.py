"""Methods that fill a tensor in place with random numbers of a distribution.

All draw from a `fastgrad.Generator`: the one given, else the default one. What they write has no gradient, and the
gradient of what it replaces is zero, so that a change in place of a tensor with history is recorded as such.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fastgrad import dtypes
from fastgrad.functions import elementwise
from fastgrad.functions.arguments import as_float, as_index, is_tensor, need_tensor
from fastgrad.functions.complex_numbers import view_as_complex
from fastgrad.functions.creation import allocate, empty, number_parts
from fastgrad.functions.data import values_of, write_values
from fastgrad.functions.public import public
from fastgrad.functions.shape import reshape
from fastgrad.native.contracts.element_types import BOOL, FLOAT64, real_of
from fastgrad.native.host.tables import BY_NAME
from fastgrad.random import Generator, fill_integers, fill_normal, fill_uniform, integer_range


@public(package=False)
def uniform_(input: Any, *bounds: float, generator: Generator | None = None, **named: float) -> Any:
    """Fill a tensor with numbers of the uniform distribution on [from, to), in place.

    Parameters
    ----------
    input : Tensor
        Of a floating or complex dtype; of complex numbers both parts are drawn.
    *bounds : float
        ``from`` and ``to``, by default 0 and 1, also by these names.
    generator : Generator, optional

    Returns
    -------
    Tensor
        `input`.

    Raises
    ------
    RuntimeError
        If ``from > to`` or their difference is not finite.
    NotImplementedError
        If the dtype is neither floating nor complex.

    Examples
    --------
    >>> import fastgrad as fg
    >>> x = fg.empty(1000).uniform_(2, 3)
    >>> bool((x >= 2).all() and (x < 3).all())
    True
    """
    interval = {"from": 0.0, "to": 1.0} | _interval("uniform_", ("from", "to"), bounds, named)
    fresh = _fresh("uniform_", input)
    low, high = (as_float("uniform_", name, bound) for name, bound in interval.items())
    fresh = fill_uniform(fresh, low, high, generator)
    return _assign("uniform_", "UniformBackward0", input, _whole(fresh, input))


@public(package=False)
def normal_(input: Any, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None) -> Any:
    """Fill a tensor with numbers of the normal distribution, in place.

    Parameters
    ----------
    input : Tensor
        Of a floating or complex dtype; both parts of a complex number have the mean, and each half of the variance.
    mean, std : float
    generator : Generator, optional

    Returns
    -------
    Tensor
        `input`.

    Raises
    ------
    RuntimeError
        If `std` is negative.
    NotImplementedError
        If the dtype is neither floating nor complex.
    """
    fresh = _fresh("normal_", input)
    mean, std = as_float("normal_", "mean", mean), as_float("normal_", "std", std)
    fresh = fill_normal(fresh, mean, std * 0.5**0.5 if input.is_complex() else std, generator)
    return _assign("normal_", "NormalBackward0", input, _whole(fresh, input))


@public(package=False)
def random_(input: Any, *bounds: Any, generator: Generator | None = None, **named: Any) -> Any:
    """Fill a tensor with integers, each with the same probability, in place.

    Parameters
    ----------
    input : Tensor
    *bounds : int
        ``to``, or ``from`` and ``to``, also by these names: integers from ``from`` (0 if not given) up to, but not
        including, ``to``. Without ``to`` up to the largest integer that the dtype holds; of floating dtypes up to
        ``2**24`` or ``2**53``, below which they hold every integer.
    generator : Generator, optional

    Returns
    -------
    Tensor
        `input`.

    Raises
    ------
    RuntimeError
        If there is no integer between the bounds, or the dtype does not hold all of them.
    NotImplementedError
        For complex numbers.

    Examples
    --------
    >>> import fastgrad as fg
    >>> sorted(set(fg.empty(100).random_(3).tolist()))
    [0.0, 1.0, 2.0]
    """
    if need_tensor("random_", input).is_complex():
        raise NotImplementedError(
            f"random_(): not implemented for '{input.dtype.type_name}'; fill its parts, x.real and x.imag"
        )
    names = ("from", "to") if len(bounds) == 2 or (bounds and "to" in named) else ("to",)
    interval = _interval("random_", names, bounds, named)
    low, high = interval.get("from"), interval.get("to")
    low = 0 if low is None else as_index("random_", "from", low)
    high = integer_range(input)[1] if high is None else as_index("random_", "to", high)
    if not low < high:
        raise RuntimeError(f"random_(): expects 'from' to be less than 'to', but got from={low} >= to={high}")
    fresh = empty(tuple(input.shape), dtype=input.dtype, device=input.device)
    fresh = fill_integers(fresh, low, high, generator)
    return _assign("random_", f"RandomBackward{2 - len(interval)}", input, fresh)


@public(package=False)
def bernoulli_(input: Any, p: Any = 0.5, *, generator: Generator | None = None) -> Any:
    """Fill a tensor with ones, each with probability `p`, and zeros, in place.

    Parameters
    ----------
    input : Tensor
    p : float or Tensor
        From 0 to 1; a tensor of a floating dtype gives one for each element, and is broadcast.
    generator : Generator, optional

    Returns
    -------
    Tensor
        `input`.

    Raises
    ------
    RuntimeError
        If a probability is not in [0, 1], or `p` does not broadcast to the sizes of `input`.
    NotImplementedError
        If `p` is a tensor of another dtype.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.empty(3).bernoulli_(fg.tensor([0.0, 1.0, 0.0]))
    tensor([0., 1., 0.])
    """
    need_tensor("bernoulli_", input)
    if is_tensor(p):
        if not p.dtype.is_floating_point:
            raise NotImplementedError(
                f"bernoulli_(): argument 'p' must be a tensor of a floating dtype, not '{p.dtype.type_name}'"
            )
        chances: Any = values_of(p.detach().expand(tuple(input.shape)))
    else:
        number_parts(p, "bernoulli_")
        chances = np.float64(p)
    if not np.all((chances >= 0) & (chances <= 1)):
        shown = p if not is_tensor(p) else "a tensor with elements outside"
        raise RuntimeError(f"bernoulli_(): expects p to be in [0, 1], but got p={shown}")
    return _assign_numpy(
        "bernoulli_",
        f"BernoulliBackward{1 if is_tensor(p) else 2}",
        input,
        _uniform(input, generator) < chances,
    )


@public(package=False)
def exponential_(input: Any, lambd: float = 1.0, *, generator: Generator | None = None) -> Any:
    """Fill a tensor with numbers of the exponential distribution, ``lambd exp(-lambd x)``, in place.

    Parameters
    ----------
    input : Tensor
        Of a floating dtype.
    lambd : float
        The rate, greater than 0.
    generator : Generator, optional

    Returns
    -------
    Tensor
        `input`.

    Raises
    ------
    RuntimeError
        If `lambd` is not positive, or the dtype is not floating.
    """
    _need_continuous("exponential_", "Exponential", input)
    lambd = as_float("exponential_", "lambd", lambd)
    _need_positive("exponential_", "lambda", lambd)
    return _assign_numpy(
        "exponential_", "ExponentialBackward0", input, -np.log(1 - _uniform(input, generator)) / lambd
    )


@public(package=False)
def geometric_(input: Any, p: float, *, generator: Generator | None = None) -> Any:
    """Fill a tensor with numbers of the geometric distribution, ``p (1 - p)**(k - 1)`` for k = 1, 2, ..., in place.

    Parameters
    ----------
    input : Tensor
        Of a numeric dtype.
    p : float
        The probability of success, between 0 and 1.
    generator : Generator, optional

    Returns
    -------
    Tensor
        `input`.

    Raises
    ------
    RuntimeError
        If `p` is not between 0 and 1.
    NotImplementedError
        If the dtype is bool.
    """
    if need_tensor("geometric_", input).dtype.code == BOOL:
        raise NotImplementedError("geometric_(): not implemented for 'Bool'")
    p = as_float("geometric_", "p", p)
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_(): expects p to be in (0, 1), but got p={p}")
    trials = np.ceil(np.log(1 - _uniform(input, generator)) / math.log1p(-p))
    return _assign_numpy("geometric_", "GeometricBackward0", input, np.maximum(trials, 1))


@public(package=False)
def log_normal_(
    input: Any, mean: float = 1.0, std: float = 2.0, *, generator: Generator | None = None
) -> Any:
    """Fill a tensor with numbers whose logarithm is normally distributed, in place.

    Parameters
    ----------
    input : Tensor
        Of a floating dtype.
    mean, std : float
        Of the logarithm.
    generator : Generator, optional

    Returns
    -------
    Tensor
        `input`.

    Raises
    ------
    RuntimeError
        If `std` is not positive.
    NotImplementedError
        If the dtype is not floating.
    """
    _need_floating("log_normal_", input)
    mean, std = as_float("log_normal_", "mean", mean), as_float("log_normal_", "std", std)
    _need_positive("log_normal_", "std", std)
    exponents = _doubles(input)
    exponents = fill_normal(exponents, mean, std, generator)
    return _assign_numpy("log_normal_", "LogNormalBackward0", input, np.exp(exponents.numpy()))


@public(package=False)
def cauchy_(
    input: Any, median: float = 0.0, sigma: float = 1.0, *, generator: Generator | None = None
) -> Any:
    """Fill a tensor with numbers of the Cauchy distribution, ``sigma / (pi ((x - median)**2 + sigma**2))``, in place.

    Parameters
    ----------
    input : Tensor
        Of a floating dtype.
    median : float
    sigma : float
        Half the width at half the height, greater than 0.
    generator : Generator, optional

    Returns
    -------
    Tensor
        `input`.

    Raises
    ------
    RuntimeError
        If `sigma` is not positive, or the dtype is not floating.
    """
    _need_continuous("cauchy_", "Cauchy", input)
    median, sigma = as_float("cauchy_", "median", median), as_float("cauchy_", "sigma", sigma)
    _need_positive("cauchy_", "sigma", sigma)
    angles = np.pi * (_uniform(input, generator) - 0.5)
    return _assign_numpy("cauchy_", "CauchyBackward0", input, median + sigma * np.tan(angles))


# --- what they share -------------------------------------------------------------------------------------------


def _interval(
    name: str, names: tuple[str, ...], bounds: tuple[Any, ...], named: dict[str, Any]
) -> dict[str, Any]:
    """Bounds by PyTorch's names for them, one of which is a keyword of Python."""
    given = dict(zip(names, bounds, strict=False))
    if len(bounds) > len(names) or given.keys() & named.keys() or named.keys() - {"from", "to"}:
        raise TypeError(
            f"{name}(): expected bounds ({', '.join(names)}), but got {bounds} and the keywords {sorted(named)}"
        )
    return given | named


def _need_floating(name: str, input: Any, or_complex: bool = False) -> None:
    kind = need_tensor(name, input).dtype
    if not (kind.inexact if or_complex else kind.is_floating_point):
        raise NotImplementedError(
            f"{name}(): not implemented for '{input.dtype.type_name}', only for floating dtypes; random_ and "
            "fastgrad.randint make integers"
        )


def _need_continuous(name: str, distribution: str, input: Any) -> None:
    if not need_tensor(name, input).dtype.is_floating_point:
        raise RuntimeError(
            f"{name}(): {distribution} distribution is a continuous probability distribution. dtype must be a "
            f"floating point but you specified {input.dtype.type_name}"
        )


def _need_positive(name: str, argument: str, value: float) -> None:
    if not value > 0:
        raise RuntimeError(f"{name}(): expects {argument} > 0.0, but found {argument}={value}")


def _fresh(name: str, input: Any) -> Any:
    """Memory for new numbers like those of a tensor; for complex ones pairs of real numbers."""
    _need_floating(name, input, or_complex=True)
    if input.is_complex():
        real = dtypes.ALL[real_of(input.dtype.code)]
        return empty((input.numel(), 2), dtype=real, device=input.device)
    return empty(tuple(input.shape), dtype=input.dtype, device=input.device)


def _whole(fresh: Any, like: Any) -> Any:
    """What `_fresh` gave, filled, as numbers like those of the tensor."""
    return reshape(view_as_complex(fresh), tuple(like.shape)) if like.is_complex() else fresh


def _doubles(input: Any) -> Any:
    """A new float64 tensor of the sizes of another, on the CPU, where NumPy computes on it."""
    return allocate("empty", FLOAT64, tuple(input.shape))


def _uniform(input: Any, generator: Generator | None) -> np.ndarray:
    """Numbers in [0, 1) with 53 bits, one for each element."""
    out = _doubles(input)
    out = fill_uniform(out, 0.0, 1.0, generator)
    return out.numpy()  # type: ignore[no-any-return]


def _assign_numpy(name: str, node: str, input: Any, values: Any) -> Any:
    made = empty(tuple(input.shape), dtype=input.dtype)
    write_values(made, np.broadcast_to(values, tuple(input.shape)))
    return _assign(name, node, input, made.to(device=input.device))


def _assign(name: str, node: str, input: Any, values: Any) -> Any:
    return elementwise.write(name, BY_NAME[f"assign.{node}"], input, values)
