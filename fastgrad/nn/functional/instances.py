"""Normalisation of each channel of each sample, and of each element by its neighbours in other channels."""

from __future__ import annotations

import math
from typing import Any

from fastgrad.functions.arguments import as_flag, as_float, as_index, need_optional, need_tensor
from fastgrad.functions.autocasting import full_precision_on_gpus
from fastgrad.functions.creation import arange
from fastgrad.functions.plans import planned
from fastgrad.nn.functional.normalization import batch_norm, group_norm
from fastgrad.nn.functional.padding import pad
from fastgrad.nn.functional.pooling import avg_pool2d


def instance_norm(
    input: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """``(x - mean) / sqrt(var + eps) * weight + bias`` for each channel of each sample (Ulyanov et al. 2016).

    Parameters
    ----------
    input : Tensor
        Of shape (N, C, ...).
    running_mean, running_var : Tensor, optional
        Of shape (C,). With `use_input_stats` they move by `momentum` towards the means over the batch of mean and
        unbiased variance, in place; otherwise they are what is used.
    weight, bias : Tensor, optional
        Of shape (C,).
    use_input_stats : bool
        Whether mean and variance (without correction) of the sample are used.
    momentum, eps : float

    Raises
    ------
    ValueError
        If a channel has one element only and its statistics are used.
    RuntimeError
        If shapes or dtypes do not fit, or running statistics are missing where they are used.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.nn.functional.instance_norm(fg.tensor([[[1.0, 2.0, 3.0]]]))
    tensor([[[-1.2247,  0.0000,  1.2247]]])
    """
    sizes = tuple(need_tensor("instance_norm", input).shape)
    for k, (called, x) in enumerate((("running_mean", running_mean), ("running_var", running_var))):
        need_optional("instance_norm", x, called, k + 2)
    if len(sizes) < 2:
        raise RuntimeError(
            f"instance_norm(): expected input of shape (N, C, ...), but got shape {list(sizes)}"
        )
    if not as_flag("instance_norm", "use_input_stats", use_input_stats):
        if running_mean is None or running_var is None:
            raise RuntimeError(
                "instance_norm(): Expected running_mean and running_var to be defined when "
                "use_input_stats is false"
            )
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    if math.prod(sizes[2:]) == 1:
        raise ValueError(f"Expected more than 1 spatial element when training, got input size {list(sizes)}")
    if running_mean is None and running_var is None:
        return group_norm(input, sizes[1], weight, bias, eps)
    n = sizes[0]
    repeated = [None if x is None else x.repeat(n) for x in (running_mean, running_var, weight, bias)]
    mean, var, scale, shift = repeated
    out = batch_norm(input.reshape(1, n * sizes[1], *sizes[2:]), mean, var, scale, shift, True, momentum, eps)
    for running, moved in ((running_mean, mean), (running_var, var)):
        if running is not None and moved is not None:
            running.copy_(moved.detach().reshape(n, sizes[1]).mean(0))
    return out.reshape(sizes)


@planned
@full_precision_on_gpus
def cross_map_lrn(input: Any, size: int, alpha: float, beta: float, k: float) -> Any:
    """What `fastgrad.nn.CrossMapLRN2d` does: see there."""
    name = "CrossMapLRN2d"
    if need_tensor(name, input).ndim != 4:
        raise ValueError(f"{name}: Expected input to be 4D, got {input.ndim}D instead.")
    size = as_index(name, "size", size)
    if size < 1:
        raise ValueError(f"{name}: size must be at least 1, but got {size}")
    alpha, beta, k = as_float(name, "alpha", alpha), as_float(name, "beta", beta), as_float(name, "k", k)
    channels = arange(input.shape[1], device=input.device)
    ahead = (size + 1) // 2  # how many channels a sum reaches ahead, its own among them
    apart = channels.unsqueeze(0) - channels.unsqueeze(1)
    counted = (apart < ahead) & ((apart > -ahead) | (channels == 0))
    squares = (input * input).flatten(2)
    sums = (counted.to(input.dtype) @ squares).reshape(input.shape)
    return input * (sums * (alpha / size) + k).pow(-beta)


def local_response_norm(
    input: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Any:
    """``x / (k + alpha mean(x**2))**beta``, the mean being over `size` neighbouring channels (Krizhevsky et al. 2012).

    Parameters
    ----------
    input : Tensor
        Of shape (N, C, ...), with at least 3 dimensions. Beyond the first and last channel there are zeros.
    size : int
    alpha, beta, k : float

    Raises
    ------
    ValueError
        If there are less than 3 dimensions.
    """
    name = "local_response_norm"
    if need_tensor(name, input).ndim < 3:
        raise ValueError(f"Expected 3D or higher dimensionality input (got {input.ndim} dimensions)")
    if input.numel() == 0:
        return input
    size = as_index(name, "size", size)
    alpha, beta, k = as_float(name, "alpha", alpha), as_float(name, "beta", beta), as_float(name, "k", k)
    squares = (input * input).reshape(input.shape[0], 1, input.shape[1], -1)
    means = avg_pool2d(pad(squares, (0, 0, size // 2, (size - 1) // 2)), (size, 1), stride=1)
    return input / (means.reshape(input.shape) * alpha + k).pow(beta)
