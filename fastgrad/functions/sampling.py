"""Random tensors of given distributions, and draws without replacement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastgrad import dtypes, random
from fastgrad.functions import elementwise
from fastgrad.functions.arguments import as_flag, as_float, as_index, as_sequence, is_tensor, need_tensor
from fastgrad.functions.creation import allocate, created, device_code, standard
from fastgrad.functions.plans import planned
from fastgrad.functions.public import public
from fastgrad.functions.reduce import cumsum
from fastgrad.functions.sorting import topk
from fastgrad.native.build.loader import rt
from fastgrad.native.contracts.element_types import INT64
from fastgrad.native.contracts.frames.filling import INTEGERS, PERMUTATION, UNIFORM
from fastgrad.native.contracts.frames.framed import SHUFFLE_PASSES
from fastgrad.native.contracts.limits import HOST
from fastgrad.native.contracts.status import NO_PROBABILITY, REASONS
from fastgrad.native.host.tables import BY_NAME
from fastgrad.ops.call import DEVICE_FIELD, apply
from fastgrad.random import fill, fill_normal

_PROBABILITIES, _RANDOM, _SHUFFLE = (BY_NAME[name].id for name in ("probabilities", "random", "shuffle"))


def _uniform(sizes: Any, like: Any, generator: Any) -> Any:
    where = rt.field(like, DEVICE_FIELD)
    return standard("uniform", UNIFORM, like.dtype.code, tuple(sizes), where, generator)


_NO_PROBABILITY = REASONS[NO_PROBABILITY].text


def probabilities(input: Any, message: str) -> Any:
    """A tensor without its history; RuntimeError with a message if an element is no probability."""
    try:
        return apply(_PROBABILITIES, 1, 0, input)
    except RuntimeError as error:
        if _NO_PROBABILITY in str(error) and input.device.type == "cpu":  # a GPU may mean an op before
            raise RuntimeError(message) from None
        raise


@public()
@planned
def bernoulli(input: Any, p: float | None = None, *, generator: Any = None) -> Any:
    """Ones with the probabilities that the elements are, and zeros.

    Parameters
    ----------
    input : Tensor
        Floating point, from 0 to 1.
    p : float, optional
        One probability instead of the elements.
    generator : Generator, optional

    Returns
    -------
    Tensor
        Of the dtype of `input`, without history.

    Raises
    ------
    RuntimeError
        If a probability lies outside of [0, 1].
    """
    need_tensor("bernoulli", input)
    if not input.dtype.is_floating_point:
        raise RuntimeError(
            f"bernoulli(): expected probabilities of a floating-point dtype, but got {input.dtype.name}"
        )
    if p is not None and not 0.0 <= p <= 1.0:
        raise RuntimeError(f"bernoulli(): expected p to lie in [0, 1], but got p={p}")
    chance = p
    if p is None:
        chance = probabilities(input, "bernoulli(): Expected p_in >= 0 && p_in <= 1 for every element")
    return (_uniform(input.shape, input, generator) < chance).to(input.dtype)


@public(method=False)
def normal(
    mean: Any = 0.0,
    std: Any = 1.0,
    size: Any = None,
    *,
    generator: Any = None,
    dtype: Any = None,
    device: Any = None,
) -> Any:
    """Normally distributed numbers with means and standard deviations element by element.

    Parameters
    ----------
    mean, std : float or Tensor
    size : tuple of int, optional
        Needed where both are numbers.
    generator : Generator, optional
    dtype, device : optional
        Where both are numbers.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.normal(0.0, 1.0, (2, 3)).shape
    fastgrad.Size([2, 3])
    """
    tensors = [x.detach() for x in (mean, std) if is_tensor(x)]
    if not tensors and size is None:
        raise TypeError("normal(): argument 'size' is required where mean and std are numbers")
    if size is not None and any(t.dim() for t in tensors):
        raise TypeError(
            "normal(): argument 'size' is not taken where mean or std is a tensor with dimensions"
        )
    if not is_tensor(mean):
        mean = as_float("normal", "mean", mean)
    if not is_tensor(std):
        std = as_float("normal", "std", std)
    if is_tensor(std) and std.numel() and float(std.detach().amin()) < 0:
        raise RuntimeError("normal(): expects all elements of std >= 0.0")
    if not is_tensor(std) and std < 0:
        raise RuntimeError(f"normal(): expects std >= 0.0, but found std {std}")
    shape = (
        as_sequence("normal", size, "size", 3)
        if size is not None
        else tuple(sum(t * 0 for t in tensors).shape)
    )
    kind = tensors[0].dtype if tensors else dtypes.as_dtype(dtype or dtypes.get_default_dtype())
    out = allocate("normal", kind.code, shape, tensors[0].device.code if tensors else device_code(device))
    if not tensors:
        out = fill_normal(out, mean, std, generator)
        return out
    out = fill_normal(out, 0.0, 1.0, generator)
    return out * (std.detach() if is_tensor(std) else std) + (mean.detach() if is_tensor(mean) else mean)


@public(method=False)
@planned
def randperm(n: int, *, generator: Any = None, dtype: Any = None, device: Any = None) -> Any:
    """The integers from 0 to ``n - 1`` in random order.

    Parameters
    ----------
    n : int
    generator : Generator, optional
    dtype : dtype, default int64
    device : optional

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.randperm(4).sort().values
    tensor([0, 1, 2, 3])
    """
    count = as_index("randperm", "n", n)
    if count < 0:
        raise RuntimeError(f"randperm(): n must be non-negative, got {count}")
    order = _permutations((count,), device_code(device), generator)
    return order if dtype is None else order.to(dtype)


def _permutations(sizes: Sequence[int], where: int, generator: Any) -> Any:
    """Of int64; the last of the sizes is their length. The host draws words as it shuffles, other devices before."""
    if random.batches.under_way():
        return random.batches.made(lambda s: _permutations(s, where, generator), sizes)
    kind, length = (PERMUTATION if where == HOST else INTEGERS), sizes[-1]
    drawn = length if where == HOST else 0  # integers from 0 to 0 are whole words
    if generator is None:
        out = created("randperm", _RANDOM, INT64, sizes, where, kind, drawn, 0)
    else:
        out = fill(kind, allocate("randperm", INT64, sizes, where), generator, drawn, 0)
    if where == HOST:
        return out
    room = 2 * out.numel()
    return apply(_SHUFFLE, 1, 0, out, length, room, SHUFFLE_PASSES, -1, 1, room)[0]


@public()
def multinomial(input: Any, num_samples: int, replacement: bool = False, *, generator: Any = None) -> Any:
    """Draw indices of rows with probabilities in proportion to the elements.

    Parameters
    ----------
    input : Tensor
        Floating point, of one or two dimensions, not negative.
    num_samples : int
        Draws from each row.
    replacement : bool
        Whether an index may be drawn again.
    generator : Generator, optional

    Returns
    -------
    Tensor
        Of dtype int64.

    Raises
    ------
    RuntimeError
        If there are too few categories, or weights are negative, infinite, NaN or all zero.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.multinomial(fg.tensor([0.0, 1.0]), 3, replacement=True)
    tensor([1, 1, 1])
    """
    as_flag("multinomial", "replacement", replacement)
    weights = _checked_weights(input, num_samples, replacement)
    if not replacement:
        # The least of exponential times divided by the weights: draws without replacement (Efraimidis, Spirakis 2006).
        times = -elementwise.log(1.0 - _uniform(weights.shape, weights, generator)) / weights
        return topk(times, num_samples, -1, largest=False).indices
    sums = cumsum(weights, -1)
    points = _uniform((*weights.shape[:-1], num_samples), weights, generator) * sums[..., -1:]
    place = (sums.unsqueeze(-2) <= points.unsqueeze(-1)).to(dtypes.int64).sum(-1)
    last = (weights > 0).to(dtypes.int64).cumsum(-1).argmax(-1, keepdim=True)  # rounding must not draw a zero
    return place.minimum(last.expand(place.shape))


def _checked_weights(input: Any, num_samples: int, replacement: bool) -> Any:
    need_tensor("multinomial", input)
    if input.dim() not in (1, 2) or not input.dtype.is_floating_point:
        raise RuntimeError(
            "multinomial(): expected weights of one or two dimensions and a floating-point dtype, but got "
            f"{list(input.shape)} of {input.dtype.name}"
        )
    count = as_index("multinomial", "num_samples", num_samples)
    if count <= 0:
        raise RuntimeError(f"multinomial(): cannot sample n_sample <= 0 samples, but got {count}")
    if not replacement and count > input.shape[-1]:
        raise RuntimeError(
            f"multinomial(): cannot sample n_sample > prob_dist.size(-1) samples without replacement: {count} of "
            f"{input.shape[-1]}"
        )
    weights = input.detach().to(dtypes.float64)
    sums = weights.sum(-1)
    if weights.numel() and not (float(weights.amin()) >= 0 and float(sums.amax()) < float("inf")):
        raise RuntimeError("multinomial(): probability tensor contains either `inf`, `nan` or element < 0")
    needed = 1 if replacement else count
    if weights.numel() and int((weights > 0).to(dtypes.int64).sum(-1).amin()) < needed:
        raise RuntimeError(
            f"multinomial(): invalid multinomial distribution: fewer than {needed} weights of a row are above zero"
        )
    return weights
