"""Dropout: of elements, and of whole channels."""

from __future__ import annotations

import math
from typing import Any

from fastgrad import random
from fastgrad.functions.arguments import as_flag, as_float, need_tensor
from fastgrad.functions.creation import ones
from fastgrad.functions.plans import planned, warn
from fastgrad.functions.public import public
from fastgrad.native.build.loader import rt
from fastgrad.native.contracts.records import TENSOR
from fastgrad.native.host.tables import BY_NAME
from fastgrad.nn.functional.windows import remembered
from fastgrad.ops.call import apply, float_bits

_DROPOUT = BY_NAME["dropout"].id
_NUMEL = TENSOR.fields["numel"][0]
_field = rt.field
_SATURATION = -1.7580993408473766  # what `selu` tends to
_ALL = 1 << 32  # probabilities are counted in units of one over this


def probability(name: str, p: Any) -> float:
    """A probability, from a number or a tensor of one element; ValueError if it is none."""
    chance = as_float(name, "p", p)
    if not 0.0 <= chance <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    return chance


def drawn(input: Any, p: float) -> tuple[Any, Any]:
    """The input with elements dropped, and the mask of those that stay.

    The kernel draws the seed and the offset which are zero here.
    """
    if random.batches.under_way():
        input = random.batches.operand(input)
    found: tuple[Any, Any] = apply(_DROPOUT, 1, 0, input, 0, 0, *_scaling(p), -1, -1)
    return found


def _dropped(input: Any, p: float) -> Any:
    return drawn(input, p)[0]


@remembered
def _scaling(p: float) -> tuple[int, int]:
    """How often elements stay, as a kernel counts it, and what they are multiplied by."""
    scale = 0.0 if p == 1.0 else 1.0 / (1.0 - p)
    return round((1.0 - p) * _ALL), float_bits(scale)


@planned
def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Zeros with probability `p`, the other elements divided by ``1 - p`` (Srivastava et al. 2014).

    Which elements these are follows from the default generator alone, whatever the number of threads.

    Parameters
    ----------
    input : Tensor
    p : float
    training : bool
        Otherwise `input` is returned.
    inplace : bool
        Change `input` itself.

    Raises
    ------
    ValueError
        If `p` is no probability.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.nn.functional.dropout(fg.tensor([1.0, 2.0]), training=False)
    tensor([1., 2.])
    """
    if type(p) is not float or not 0.0 <= p <= 1.0:
        p = probability("dropout", p)
    need_tensor("dropout", input)
    if not as_flag("dropout", "training", training) or p == 0.0 or _field(input, _NUMEL) == 0:
        return input
    if inplace:
        return input.mul_(_dropped(ones(tuple(input.shape), dtype=input.dtype, device=input.device), p))
    return _dropped(input, p)


def _channels(input: Any, p: float, training: bool, inplace: bool, leading: int) -> Any:
    """Dropout with one draw for each place of the leading dimensions."""
    if input.ndim < 2:
        raise RuntimeError(
            f"feature dropout: Feature dropout requires at least 2 dimensions in the input, but got {input.ndim}"
        )
    if not as_flag("feature_dropout", "training", training) or p == 0.0 or input.numel() == 0:
        return input
    sizes = (*input.shape[:leading], *[1] * (input.ndim - leading))
    noise = _dropped(ones(sizes, dtype=input.dtype, device=input.device), p)
    return input.mul_(noise) if inplace else input * noise


@planned
def dropout1d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """`dropout` of whole channels of an input of shape (N, C, L) or (C, L).

    Raises
    ------
    ValueError
        If `p` is no probability.
    RuntimeError
        If the input has another number of dimensions.
    """
    p = probability("dropout1d", p)
    rank = need_tensor("dropout1d", input).ndim
    if rank not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {rank}D input. Note that dropout1d exists to provide "
            "channel-wise dropout on inputs with 1 spatial dimension, a channel dimension, and an optional batch "
            "dimension (i.e. 2D or 3D inputs)."
        )
    return _channels(input, p, training, inplace, rank - 1)


def dropout2d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """`dropout` of whole channels of an input of shape (N, C, H, W); see `dropout1d`."""
    p = probability("dropout2d", p)
    rank = need_tensor("dropout2d", input).ndim
    if rank == 3:
        warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout behavior is desired "
            "- input is interpreted as shape (N, C, L), where C is the channel dim. Please use dropout1d for such "
            "inputs.",
            stacklevel=2,
        )
    elif rank != 4:
        warn(
            f"dropout2d: Received a {rank}-D input to dropout2d, which is deprecated and will result in an error in a "
            "future release. To retain the behavior and silence this warning, please use dropout instead.",
            stacklevel=2,
        )
    return _channels(input, p, training, inplace, 2)


def dropout3d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """`dropout` of whole channels of an input of shape (N, C, D, H, W) or (C, D, H, W); see `dropout1d`."""
    p = probability("dropout3d", p)
    rank = need_tensor("dropout3d", input).ndim
    if rank not in (4, 5):
        warn(
            f"dropout3d: Received a {rank}-D input to dropout3d, which is deprecated and will result in an error in a "
            "future release. To retain the behavior and silence this warning, please use dropout instead. Note that "
            "dropout3d exists to provide channel-wise dropout on inputs with 3 spatial dimensions, a channel "
            "dimension, and an optional batch dimension (i.e. 4D or 5D inputs).",
            stacklevel=2,
        )
    return _channels(input, p, training, inplace, 2 if rank == 5 else 1)


def _saturated(name: str, input: Any, p: Any, training: bool, inplace: bool, sizes: tuple[int, ...]) -> Any:
    """Elements set to where `selu` saturates, so scaled and shifted that mean and variance stay."""
    p = probability(name, p)
    if not as_flag(name, "training", training) or p == 0.0 or input.numel() == 0:
        return input
    if p == 1.0:
        return input.mul_(0.0) if inplace else input * 0.0
    keep = ones(sizes, dtype=input.dtype, device=input.device).bernoulli_(1.0 - p)
    scale = 1.0 / math.sqrt((_SATURATION * _SATURATION * p + 1.0) * (1.0 - p))
    shift = (keep - 1.0) * (_SATURATION * scale) + _SATURATION * scale * p
    keep = keep * scale
    return input.mul_(keep).add_(shift) if inplace else input * keep + shift


@public(method=False)
def alpha_dropout(input: Any, p: float = 0.5, training: bool = False, inplace: bool = False) -> Any:
    """Elements set to the negative limit of `selu` with probability `p`; mean and variance stay.

    Parameters
    ----------
    input : Tensor
    p : float
    training : bool
        Otherwise `input` is returned.
    inplace : bool
        Change `input` itself.

    Raises
    ------
    ValueError
        If `p` is no probability.
    """
    sizes = tuple(need_tensor("alpha_dropout", input).shape)
    return _saturated("alpha_dropout", input, p, training, inplace, sizes)


@public(method=False)
def feature_alpha_dropout(input: Any, p: float = 0.5, training: bool = False, inplace: bool = False) -> Any:
    """`alpha_dropout` of whole channels of an input of shape (N, C, ...).

    Raises
    ------
    ValueError
        If `p` is no probability.
    RuntimeError
        If there are less than 2 dimensions.
    """
    rank = need_tensor("feature_alpha_dropout", input).ndim
    if rank < 2 and training:
        raise RuntimeError(
            "feature_alpha_dropout(): Feature dropout requires at least 2 dimensions in the input, but got "
            f"{rank}"
        )
    sizes = (*input.shape[:2], *[1] * (rank - 2))  # of what is trained: it has two dimensions
    return _saturated("feature_alpha_dropout", input, p, training, inplace, sizes)
