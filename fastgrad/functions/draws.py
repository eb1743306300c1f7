"""Samples whose parameters are tensors: gamma, Dirichlet, Poisson and binomial distributions."""

from __future__ import annotations

from typing import Any

from fastgrad import dtypes
from fastgrad.functions.arguments import need_tensor
from fastgrad.functions.creation import allocate
from fastgrad.functions.public import public
from fastgrad.native.host.tables import BY_NAME
from fastgrad.ops.call import apply, invoke
from fastgrad.random import fill_integers


def _drawn(name: str, x: Any, generator: Any, *more: Any) -> Any:
    """A sampler's results, element by element, each with a key of its own from a generator."""
    if not x.dtype.is_floating_point:
        raise NotImplementedError(
            f"{name}(): not implemented for '{x.dtype.type_name}'; convert it to a floating-point dtype first"
        )
    keys = allocate(name, dtypes.int64.code, tuple(x.shape), x.device.code)
    fill_integers(keys, -(1 << 63), 1 << 63, generator)
    return apply(BY_NAME[name].id, 2 + len(more), 0, x, keys, *more, -1)


@public(method=False)
def poisson(input: Any, generator: Any = None) -> Any:
    """Counts of the Poisson distribution, each with the rate that an element is.

    Parameters
    ----------
    input : Tensor
        Floating point, not negative.
    generator : Generator, optional

    Returns
    -------
    Tensor
        Of the dtype and shape of `input`.

    Raises
    ------
    RuntimeError
        If a rate is negative.
    NotImplementedError
        If the dtype is not floating.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.poisson(fg.zeros(2))
    tensor([0., 0.])
    """
    need_tensor("poisson", input)
    if input.numel() and bool((input.detach() < 0).any()):
        raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
    return _drawn("poisson", input, generator)


@public(method=False)
def binomial(count: Any, prob: Any, generator: Any = None) -> Any:
    """How many of so many trials succeed.

    Parameters
    ----------
    count : Tensor
        Trials: floating point; whole numbers.
    prob : Tensor
        The probability of success, of the same dtype; shapes broadcast.
    generator : Generator, optional

    Returns
    -------
    Tensor
        Of the dtype of both; NaN where a parameter is out of its range.

    Raises
    ------
    ValueError
        If the dtypes differ, or are not floating.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.binomial(fg.tensor([5.0, 7.0]), fg.tensor(1.0))
    tensor([5., 7.])
    """
    need_tensor("binomial", count, "count")
    need_tensor("binomial", prob, "prob", 2)
    if not count.dtype.is_floating_point or prob.dtype is not count.dtype:
        raise ValueError(
            "binomial only supports floating-point dtypes for count and prob, one for both, but got "
            f"{count.dtype} and {prob.dtype}"
        )
    n, p = _broadcast(count, prob)
    return _drawn("binomial", n, generator, p)


def _broadcast(*tensors: Any) -> list[Any]:
    from fastgrad.functions.arrangement import broadcast_tensors

    return list(broadcast_tensors(*tensors))


def standard_gamma(alpha: Any, generator: Any = None) -> Any:
    """Numbers of the gamma distribution with the shapes that the elements are, and with scale 1.

    Differentiable: by the implicit derivative of a sample by its shape.
    """
    return _drawn("_standard_gamma", need_tensor("_standard_gamma", alpha, "alpha"), generator)


def standard_gamma_grad(alpha: Any, sample: Any) -> Any:
    """How samples of the gamma distribution move with its shape, their place among all samples held."""
    return invoke(BY_NAME["_standard_gamma_grad"], (alpha, sample))


def sample_dirichlet(concentration: Any, generator: Any = None) -> Any:
    """Points of the simplex of the Dirichlet distribution, without history."""
    gammas = _drawn("_standard_gamma", concentration.detach().to(dtypes.float64), generator)
    made = (gammas / gammas.sum(-1, keepdim=True)).to(concentration.dtype)
    return made.clamp(min=dtypes.finfo(concentration.dtype).tiny)


def dirichlet_grad(x: Any, alpha: Any, total: Any) -> Any:
    """How elements of samples of the Dirichlet distribution move with their concentration, over ``1 - x``."""
    return invoke(BY_NAME["_dirichlet_grad"], (x, alpha, total))
