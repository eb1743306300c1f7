"""Layer, root-mean-square, group and batch normalisation, and vectors of length one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fastgrad.autograd.modes import is_grad_enabled
from fastgrad.dtypes import FLOATING, finfo
from fastgrad.functions.arguments import as_flag, as_float, as_index, as_sequence, need_tensor
from fastgrad.functions.elementwise import clamp
from fastgrad.functions.plans import planned
from fastgrad.functions.public import public
from fastgrad.functions.shape import expand_as
from fastgrad.functions.statistics import norm
from fastgrad.native.build.loader import rt
from fastgrad.native.contracts.frames.framed import AS_BEFORE
from fastgrad.native.contracts.records import TENSOR
from fastgrad.native.host.tables import BY_NAME
from fastgrad.nn.functional.windows import remembered
from fastgrad.ops.call import apply, float_bits

# Without and with weight; the kernels' integers are eps and four extents, see `kernels.normalization`.
_LAYER, _RMS, _GROUP, _BATCH, _FIXED = (
    (BY_NAME[f"{name}.plain"].id, BY_NAME[name].id)
    for name in ("layer_norm", "rms_norm", "group_norm", "batch_norm", "batch_norm_fixed")
)
_LIKE_INPUT = -1
_NONE = (0,)  # sizes of statistics that are not taken
_EPS = {d.code: finfo(d).eps for d in FLOATING}
_DTYPE, _NDIM = TENSOR.fields["dtype"][0], TENSOR.fields["ndim"][0]
_field = rt.field
_AFFINE = ("weight", "bias")
_CHANNELS = ("running_mean", "running_var", *_AFFINE)


_bits = remembered(float_bits)


def _run(
    name: str, ops: tuple[int, int], operands: tuple[Any, ...], eps: Any, integers: tuple[int, ...]
) -> Any:
    """The normalised input, by the op without or with weight.

    Its integers are eps, extents and what else is set, and what the sizes of input, means and deviations are.
    """
    bits = _bits(as_float(name, "eps", eps))
    return apply(ops[operands[1] is not None], len(operands), 0, *operands, bits, *integers)[0]


def _rows(
    name: str, input: Any, normalized_shape: Sequence[int], weight: Any, bias: Any = None
) -> tuple[int, ...]:
    """The integers of what consists of rows; RuntimeError if weight or bias do not fit."""
    sizes = rt.sizes(need_tensor(name, input))
    last = as_sequence(name, normalized_shape, "normalized_shape", 2)
    found = _row_integers(name, sizes, last)
    if weight is not None or bias is not None:
        _need_like_rows(name, last, weight, bias)
    return found


def _need_like_rows(name: str, last: tuple[int, ...], *affine: Any) -> None:
    """Refuse weight or bias of other sizes than those of rows."""
    for k, x in enumerate(affine):
        if x is not None and rt.sizes(need_tensor(name, x, _AFFINE[k], 3 + k)) != last:
            which = _AFFINE[k]
            raise RuntimeError(
                f"{name}(): Expected {which} to be of same shape as normalized_shape, but got {which} of shape "
                f"{list(x.shape)} and normalized_shape = {list(last)}"
            )


@remembered
def _row_integers(name: str, sizes: tuple[int, ...], last: tuple[int, ...]) -> tuple[int, ...]:
    """The integers of what consists of rows; RuntimeError if the sizes do not end with those of rows."""
    k = len(sizes) - len(last)
    if not last or k < 0 or sizes[k:] != last:
        if not last:
            raise RuntimeError(
                f"{name}(): Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one "
                "element, but got normalized_shape = []"
            )
        stars = ", ".join(["*", *map(str, last)])
        raise RuntimeError(
            f"{name}(): Given normalized_shape={list(last)}, expected input with shape [{stars}], but got input of "
            f"size {list(sizes)}"
        )
    rows = (len(sizes), *sizes[:k], *(1,) * len(last))
    statistics = (*rows, AS_BEFORE) if name == "layer_norm" else (1, *_NONE, *rows)
    return math.prod(sizes[:k]), 1, math.prod(last), 1, 0, _LIKE_INPUT, *statistics


@public(method=False)
@planned
def layer_norm(
    input: Any, normalized_shape: Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    """``(x - mean) / sqrt(var + eps) * weight + bias`` over the last dimensions (Ba, Kiros, Hinton 2016).

    Parameters
    ----------
    input : Tensor
    normalized_shape : sequence of int
        The sizes of the last dimensions, over which mean and variance (without correction) are taken.
    weight, bias : Tensor, optional
        Of that shape.
    eps : float

    Returns
    -------
    Tensor

    Raises
    ------
    RuntimeError
        If shapes or dtypes do not fit.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.nn.functional.layer_norm(fg.tensor([[1.0, 2.0, 3.0]]), (3,))
    tensor([[-1.2247,  0.0000,  1.2247]])
    """
    integers = _rows("layer_norm", input, normalized_shape, weight, bias)
    return _run("layer_norm", _LAYER, (input, weight, bias), eps, integers)


@public(method=False)
@planned
def rms_norm(
    input: Any, normalized_shape: Sequence[int], weight: Any = None, eps: float | None = None
) -> Any:
    """``x / sqrt(mean(x**2) + eps) * weight`` over the last dimensions (Zhang, Sennrich 2019).

    Parameters
    ----------
    input : Tensor
    normalized_shape : sequence of int
        The sizes of the last dimensions.
    weight : Tensor, optional
        Of that shape.
    eps : float, optional
        The spacing of numbers at 1 in the dtype of `input`, if not given.

    Raises
    ------
    RuntimeError
        If shapes or dtypes do not fit.
    """
    integers = _rows("rms_norm", input, normalized_shape, weight)
    if eps is None:
        eps = _EPS.get(_field(input, _DTYPE), 0.0)
    return _run("rms_norm", _RMS, (input, weight), eps, integers)


def _channels_last(x: Any) -> int:
    """Whether images have their channels last; as in PyTorch, signals are taken row by row."""
    return rt.channels_last(x) if _field(x, _NDIM) in (4, 5) else 0  # type: ignore[no-any-return]


def _need_several(sizes: Sequence[int]) -> None:
    """Refuse to take the variance of one value."""
    if math.prod((sizes[0], *sizes[2:])) == 1:
        raise ValueError(
            f"Expected more than 1 value per channel when training, got input size {list(sizes)}"
        )


@public(method=False)
@planned
def group_norm(input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    """`layer_norm` over groups of channels (Wu, He 2018).

    Parameters
    ----------
    input : Tensor
        Of shape (N, C, ...).
    num_groups : int
        Divides C.
    weight, bias : Tensor, optional
        Of shape (C,).
    eps : float

    Raises
    ------
    RuntimeError
        If shapes or dtypes do not fit.
    ValueError
        If a group has one element only.
    """
    sizes = rt.sizes(need_tensor("group_norm", input))
    if len(sizes) < 2:
        raise RuntimeError(
            f"group_norm(): Expected at least 2 dimensions for input tensor but received {len(sizes)}"
        )
    num_groups = as_index("group_norm", "num_groups", num_groups)
    integers = _group_integers(sizes, num_groups, _channels_last(input))
    _need_channels("group_norm", sizes[1], 3, _AFFINE, weight, bias)
    return _run("group_norm", _GROUP, (input, weight, bias), eps, integers)


@remembered
def _group_integers(sizes: tuple[int, ...], num_groups: int, last: int) -> tuple[int, ...]:
    """The integers of groups of channels; refuses what cannot be divided, and groups of one element."""
    n, channels = sizes[:2]
    if num_groups <= 0 or channels % num_groups:
        raise RuntimeError(
            "group_norm(): Expected number of channels in input to be divisible by num_groups, but got input of shape "
            f"{list(sizes)} and num_groups={num_groups}"
        )
    _need_several([n * channels // num_groups, num_groups, *sizes[2:]])
    extents = (n, num_groups, channels // num_groups, math.prod(sizes[2:]), last)
    return *extents, _LIKE_INPUT, 2, n, num_groups, AS_BEFORE


def _need_channels(name: str, channels: int, position: int, names: tuple[str, ...], *tensors: Any) -> None:
    """Refuse what is no vector of an element for each channel; `position` is that of the first."""
    for k, x in enumerate(tensors):
        if x is not None and rt.sizes(need_tensor(name, x, names[k], position + k)) != (channels,):
            which = names[k]
            raise RuntimeError(
                f"{name}(): expected {which} to be a vector of size equal to the number of channels in input, "
                f"{channels}, but got {which} of shape {list(x.shape)}"
            )


@planned
def batch_norm(
    input: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """``(x - mean) / sqrt(var + eps) * weight + bias`` for each channel (Ioffe, Szegedy 2015).

    Parameters
    ----------
    input : Tensor
        Of shape (N, C, ...).
    running_mean, running_var : Tensor or None
        Of shape (C,). In training they move by `momentum` towards mean and unbiased variance of the batch, in place;
        otherwise they are what is used.
    weight, bias : Tensor, optional
        Of shape (C,).
    training : bool
        Whether mean and variance (without correction) of the batch are used.
    momentum, eps : float

    Raises
    ------
    RuntimeError
        If shapes or dtypes do not fit, or running statistics are missing outside of training.
    ValueError
        If a channel has one element only, in training.
    """
    sizes = rt.sizes(need_tensor("batch_norm", input))
    if sizes == (0,) and weight is None and bias is None:  # there is nothing to normalise, as in PyTorch
        return input.clone()
    if len(sizes) < 2:
        raise RuntimeError(f"batch_norm(): expected input of shape (N, C, ...), but got shape {list(sizes)}")
    if as_flag("batch_norm", "training", training):
        _need_several(sizes)
    elif running_mean is None or running_var is None:
        raise RuntimeError(
            "batch_norm(): expected running_mean and running_var to be defined when training=False"
        )
    _need_channels("batch_norm", sizes[1], 2, _CHANNELS, running_mean, running_var, weight, bias)
    _need_constant("running_mean", running_mean)
    _need_constant("running_var", running_var)
    rate = as_float("batch_norm", "momentum", momentum)
    integers = _batch_integers(sizes, training, _channels_last(input), rate)
    if not training:
        operands = (input, weight, bias, running_mean, running_var)
        return _run("batch_norm", _FIXED, operands, eps, integers)
    means, variances = _to_write(running_mean), _to_write(running_var)
    out = _run("batch_norm", _BATCH, (input, weight, bias, means, variances), eps, integers)
    if means is not running_mean:
        running_mean.copy_(means)
    if variances is not running_var:
        running_var.copy_(variances)
    return out


@remembered
def _batch_integers(sizes: tuple[int, ...], training: bool, last: int, momentum: float) -> tuple[int, ...]:
    """The integers of batches, for which statistics are taken in training only."""
    extents = (sizes[0], 1, sizes[1], math.prod(sizes[2:]), last)
    statistics = (1, sizes[1], AS_BEFORE) if training else (1, *_NONE, AS_BEFORE)
    return *extents, float_bits(momentum), _LIKE_INPUT, *statistics


def _need_constant(which: str, running: Any) -> None:
    """Refuse statistics that a gradient is wanted of."""
    if running is not None and running.requires_grad and is_grad_enabled():
        raise RuntimeError(
            f"batch_norm(): the function is not differentiable with respect to argument {which!r}, which requires grad"
        )


def _to_write(running: Any) -> Any:
    """Statistics as a kernel can write them: neighbours in memory, in a copy where they are not."""
    return running if running is None else running.contiguous()


@planned
def normalize(input: Any, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Any = None) -> Any:
    """``x / max(|x|_p, eps)`` along a dimension.

    Raises
    ------
    NotImplementedError
        If `out` is given.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.nn.functional.normalize(fg.tensor([3.0, 4.0]), dim=0)
    tensor([0.6000, 0.8000])
    """
    if out is not None:
        raise NotImplementedError("normalize(): argument 'out' is not supported; use the returned tensor")
    return input / expand_as(clamp(norm(input, p, dim, keepdim=True), min=eps), input)
