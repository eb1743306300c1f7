"""Initial values of parameters: functions that fill a tensor in place, without history, and return it.

All take PyTorch's arguments. A `generator` makes the numbers its own; else they come from the default generator.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from fastgrad import dtypes
from fastgrad.autograd.modes import no_grad
from fastgrad.functions import creation, sharing
from fastgrad.functions.arguments import as_index, need_tensor, need_type
from fastgrad.functions.data import values_of
from fastgrad.functions.plans import warn
from fastgrad.module_names import getattr_of as _getattr_of
from fastgrad.random import Generator

_LINEAR = {
    "linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "sigmoid",
}  # fmt: skip


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor by which weights before a nonlinearity grow, so that activations keep their variance.

    Parameters
    ----------
    nonlinearity : str
        ``linear``, ``conv1d`` and its like, ``sigmoid`` (all 1), ``tanh`` (5/3), ``relu`` (sqrt(2)), ``leaky_relu``
        (``sqrt(2 / (1 + slope**2))``) or ``selu`` (3/4).
    param : float, optional
        The slope of ``leaky_relu``, by default 0.01.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If the name is unknown or the slope is no number.

    Examples
    --------
    >>> calculate_gain("leaky_relu", 1.0)
    1.0
    """
    if nonlinearity in _LINEAR:
        return 1
    if nonlinearity == "tanh":
        return 5.0 / 3
    if nonlinearity == "relu":
        return math.sqrt(2.0)
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if isinstance(slope, bool) or not isinstance(slope, (int, float)):
            raise ValueError(f"calculate_gain(): negative_slope {slope} not a valid number")
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity == "selu":
        return 3.0 / 4
    known = ", ".join(sorted([*_LINEAR, "tanh", "relu", "leaky_relu", "selu"]))
    raise ValueError(f"calculate_gain(): Unsupported nonlinearity {nonlinearity}; expected one of {known}")


def _initializer(function: Callable[..., Any]) -> Callable[..., Any]:
    """An initializer: what it fills has to be a tensor, and nothing that it does is recorded."""

    @functools.wraps(function)
    def wrapper(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        need_tensor(function.__name__, tensor, "tensor")
        with no_grad():
            return function(tensor, *args, **kwargs)

    return wrapper


@_initializer
def uniform_(tensor: Any, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> Any:
    """Fill a tensor with numbers of the uniform distribution on [a, b).

    Examples
    --------
    >>> import fastgrad as fg
    >>> bool((uniform_(fg.empty(3, 5)) < 1).all())
    True
    """
    return tensor.uniform_(a, b, generator=generator)


@_initializer
def normal_(tensor: Any, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None) -> Any:
    """Fill a tensor with numbers of the normal distribution."""
    return tensor.normal_(mean, std, generator=generator)


@_initializer
def constant_(tensor: Any, val: float) -> Any:
    """Fill a tensor with one number."""
    return tensor.fill_(val)


@_initializer
def ones_(tensor: Any) -> Any:
    """Fill a tensor with ones."""
    return constant_(tensor, 1.0)


@_initializer
def zeros_(tensor: Any) -> Any:
    """Fill a tensor with zeros."""
    return tensor.zero_()


@_initializer
def trunc_normal_(
    tensor: Any,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator | None = None,
) -> Any:
    """Fill a tensor with numbers of the normal distribution under the condition that they lie in [a, b].

    Numbers outside are drawn again. Where [a, b] holds little of the distribution, proposals come from a uniform
    one and are taken with the probability that their density bears to its peak in [a, b] (Robert, Simulation of
    truncated normal variables, 1995).

    Parameters
    ----------
    tensor : Tensor
        Of a floating dtype.
    mean, std : float
        Of the distribution that is cut off.
    a, b : float
        Bounds of the values themselves, not in multiples of `std`.
    generator : Generator, optional

    Returns
    -------
    Tensor
        `tensor`.

    Raises
    ------
    RuntimeError
        If ``a > b`` or ``std <= 0``.

    Warns
    -----
    UserWarning
        If `mean` lies more than two `std` outside the bounds.

    Examples
    --------
    >>> import fastgrad as fg
    >>> w = trunc_normal_(fg.empty(100), std=0.02, a=-0.04, b=0.04)
    >>> bool((w.abs() <= 0.04).all())
    True
    """
    if not a <= b or not std > 0:
        raise RuntimeError(
            f"trunc_normal_(): expected a <= b and std > 0, but got a={a}, b={b} and std={std}"
        )
    if mean < a - 2 * std or mean > b + 2 * std:
        warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of values may be "
            "incorrect.",
            stacklevel=3,
        )
    if tensor.is_meta:
        return tensor
    dtype, where = tensor.dtype, _drawn_on(generator)
    low, high = (creation.tensor(bound, dtype=dtype, device="cpu").item() for bound in (a, b))
    covered = (math.erf((b - mean) / std / math.sqrt(2)) - math.erf((a - mean) / std / math.sqrt(2))) / 2
    peak = max(a, min(mean, b))
    first, last = max(a, peak - 9 * std), min(b, peak + 9 * std)  # beyond lies less than a float64 can show

    def draw(count: int) -> tuple[np.ndarray, np.ndarray]:
        fresh = creation.empty(count, dtype=dtype, device=where)
        if covered > 0.3:
            values = values_of(fresh.normal_(mean, std, generator=generator))
            return values, (values >= low) & (values <= high)
        values = values_of(fresh.uniform_(first, last, generator=generator))
        chances = np.exp((((peak - mean) / std) ** 2 - ((values - mean) / std) ** 2) / 2)
        drawn = creation.rand(count, dtype=dtype, generator=generator, device=where)
        return values, values_of(drawn) < chances

    out = np.empty(tensor.numel(), dtype.arithmetic)
    missing = np.arange(out.size)
    while missing.size:
        values, taken = draw(missing.size)
        out[missing[taken]] = values[taken]
        missing = missing[~taken]
    return tensor.copy_(sharing.from_numpy(out).view(tensor.shape))


@_initializer
def eye_(tensor: Any) -> Any:
    """Fill a matrix with the identity, so that a linear layer passes on as many inputs as possible.

    Raises
    ------
    ValueError
        If `tensor` does not have 2 dimensions.
    """
    _need_matrix("eye_", tensor)
    return tensor.copy_(creation.eye(*tensor.shape, dtype=tensor.dtype, device=tensor.device))


@_initializer
def dirac_(tensor: Any, groups: int = 1) -> Any:
    """Fill the weight of a convolution so that it passes on as many input channels as possible.

    Parameters
    ----------
    tensor : Tensor
        Output channels, input channels of a group, and one to three sizes of the kernel.
    groups : int
        Groups of the convolution.

    Returns
    -------
    Tensor
        `tensor`.

    Raises
    ------
    ValueError
        If the number of dimensions is not 3, 4 or 5, or `groups` does not divide the first size.

    Examples
    --------
    >>> import fastgrad as fg
    >>> dirac_(fg.empty(1, 1, 3))
    tensor([[[0., 1., 0.]]])
    """
    if tensor.ndim not in (3, 4, 5):
        raise ValueError("dirac_(): Only tensors with 3, 4, or 5 dimensions are supported")
    outputs, inputs, *kernel = tensor.shape
    if as_index("dirac_", "groups", groups) < 1 or outputs % groups:
        raise ValueError(
            f"dirac_(): dim 0 must be divisible by groups, but has {outputs} for groups={groups}"
        )
    per_group = outputs // groups
    values = np.zeros(tuple(tensor.shape), tensor.dtype.arithmetic)
    middle = tuple(size // 2 for size in kernel)
    for group in range(groups):
        for channel in range(min(per_group, inputs)):
            values[(group * per_group + channel, channel, *middle)] = 1
    return tensor.copy_(sharing.from_numpy(values))


@_initializer
def xavier_uniform_(tensor: Any, gain: float = 1.0, generator: Generator | None = None) -> Any:
    """Fill a tensor uniformly in [-a, a), ``a = gain * sqrt(6 / (fan_in + fan_out))``.

    Glorot and Bengio, Understanding the difficulty of training deep feedforward neural networks, 2010.

    Parameters
    ----------
    tensor : Tensor
        Outputs, inputs, and sizes of a kernel.
    gain : float
    generator : Generator, optional

    Returns
    -------
    Tensor
        `tensor`.

    Raises
    ------
    ValueError
        If `tensor` has fewer than 2 dimensions.
    """
    bound = math.sqrt(3.0) * _xavier_std(tensor, gain)
    return uniform_(tensor, -bound, bound, generator)


@_initializer
def xavier_normal_(tensor: Any, gain: float = 1.0, generator: Generator | None = None) -> Any:
    """Fill a tensor normally, with ``std = gain * sqrt(2 / (fan_in + fan_out))``; see `xavier_uniform_`."""
    return normal_(tensor, 0.0, _xavier_std(tensor, gain), generator)


@_initializer
def kaiming_uniform_(
    tensor: Any,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Any:
    """Fill a tensor uniformly in [-b, b), ``b = gain * sqrt(3 / fan)``.

    He et al., Delving deep into rectifiers, 2015.

    Parameters
    ----------
    tensor : Tensor
        Outputs, inputs, and sizes of a kernel.
    a : float
        The slope of ``leaky_relu``.
    mode : str
        ``fan_in`` keeps the variance of activations, ``fan_out`` that of gradients.
    nonlinearity : str
        See `calculate_gain`.
    generator : Generator, optional

    Returns
    -------
    Tensor
        `tensor`.

    Raises
    ------
    ValueError
        If `tensor` has fewer than 2 dimensions, or `mode` or `nonlinearity` is unknown.

    Warns
    -----
    UserWarning
        If `tensor` has no elements.

    Examples
    --------
    >>> import fastgrad as fg
    >>> bool((kaiming_uniform_(fg.empty(8, 6), nonlinearity="relu").abs() <= 1).all())
    True
    """
    std = _kaiming_std("kaiming_uniform_", tensor, a, mode, nonlinearity)
    bound = math.sqrt(3.0) * std
    return uniform_(tensor, -bound, bound, generator)


@_initializer
def kaiming_normal_(
    tensor: Any,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Any:
    """Fill a tensor normally, with ``std = gain / sqrt(fan)``; see `kaiming_uniform_`."""
    return normal_(tensor, 0.0, _kaiming_std("kaiming_normal_", tensor, a, mode, nonlinearity), generator)


@_initializer
def orthogonal_(tensor: Any, gain: float = 1, generator: Generator | None = None) -> Any:
    """Fill a tensor, as a matrix of its first size and the product of the others, with orthonormal rows or columns.

    A QR decomposition of normal numbers, with signs that make each orthogonal matrix as likely as any other
    (Mezzadri, How to generate random matrices from the classical compact groups, 2007).

    Parameters
    ----------
    tensor : Tensor
        With at least 2 dimensions.
    gain : float
        A factor.
    generator : Generator, optional

    Returns
    -------
    Tensor
        `tensor`.

    Raises
    ------
    ValueError
        If `tensor` has fewer than 2 dimensions.

    Examples
    --------
    >>> import fastgrad as fg
    >>> w = orthogonal_(fg.empty(2, 3, dtype=fg.float64))
    >>> bool(((w @ w.T - fg.eye(2)).abs() < 1e-12).all())
    True
    """
    if tensor.ndim < 2:
        raise ValueError("orthogonal_(): Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0 or tensor.is_meta:
        return tensor
    rows = tensor.shape[0]
    columns = tensor.numel() // rows
    room = creation.empty(rows, columns, dtype=tensor.dtype, device=_drawn_on(generator))
    numbers = values_of(room.normal_(generator=generator))
    q, r = np.linalg.qr(numbers.T if rows < columns else numbers)
    q *= np.sign(np.diagonal(r)) * gain
    out = np.ascontiguousarray(q.T if rows < columns else q)
    return tensor.copy_(sharing.from_numpy(out).view(tensor.shape))


@_initializer
def sparse_(tensor: Any, sparsity: float, std: float = 0.01, generator: Generator | None = None) -> Any:
    """Fill a matrix with normal numbers, and set a part of each column, picked at random, to zero.

    Martens, Deep learning via Hessian-free optimization, 2010.

    Parameters
    ----------
    tensor : Tensor
        With 2 dimensions.
    sparsity : float
        The part of each column that is zero.
    std : float
    generator : Generator, optional

    Returns
    -------
    Tensor
        `tensor`.

    Raises
    ------
    ValueError
        If `tensor` does not have 2 dimensions.

    Examples
    --------
    >>> import fastgrad as fg
    >>> (sparse_(fg.empty(4, 3), sparsity=0.5) == 0).sum(0)
    tensor([2, 2, 2])
    """
    _need_matrix("sparse_", tensor)
    rows, columns = tensor.shape
    tensor.normal_(0, std, generator=generator)
    if tensor.is_meta:
        return tensor
    where = _drawn_on(generator)
    drawn = creation.rand(rows, columns, dtype=dtypes.float64, generator=generator, device=where)
    keys = drawn.numpy(force=True)
    places = np.argsort(keys, axis=0, kind="stable")[: math.ceil(sparsity * rows)]
    mask = np.zeros((rows, columns), bool)
    np.put_along_axis(mask, places, True, axis=0)
    return tensor.masked_fill_(sharing.from_numpy(mask).to(tensor.device), 0)


# --- what they share -------------------------------------------------------------------------------------------


def _drawn_on(generator: Generator | None) -> Any:
    """Where numbers are drawn that the host works on: at its generator's, or on the host itself."""
    return generator.device if isinstance(generator, Generator) else "cpu"


def _need_matrix(name: str, tensor: Any) -> None:
    if tensor.ndim != 2:
        raise ValueError(f"{name}(): Only tensors with 2 dimensions are supported")


def _calculate_fan_in_and_fan_out(tensor: Any) -> tuple[int, int]:
    """How many inputs an output of a weight has, and how many outputs an input."""
    if tensor.ndim < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    outputs, inputs, *kernel = tensor.shape
    field = math.prod(kernel)
    return inputs * field, outputs * field


def _calculate_correct_fan(tensor: Any, mode: str) -> int:
    """One of the two fans, by its name."""
    modes = ["fan_in", "fan_out"]
    if mode.lower() not in modes:
        raise ValueError(f"Mode {mode} not supported, please use one of {modes}")
    return _calculate_fan_in_and_fan_out(tensor)[modes.index(mode.lower())]


def _xavier_std(tensor: Any, gain: float) -> float:
    return gain * math.sqrt(2.0 / sum(_calculate_fan_in_and_fan_out(tensor)))


def _kaiming_std(name: str, tensor: Any, a: float, mode: str, nonlinearity: str) -> float:
    need_type(name, mode, str, "mode", 3)
    if 0 in tensor.shape:
        warn("Initializing zero-element tensors is a no-op", stacklevel=4)
        return 0.0
    fan = _calculate_correct_fan(tensor, mode)
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


# --- old names -------------------------------------------------------------------------------------------------


def _deprecated(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function under its name without the underscore, as PyTorch once called it."""
    new = function.__name__
    old = new.removesuffix("_")

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        warnings.warn(
            f"`nn.init.{old}` is now deprecated in favor of `nn.init.{new}`.", FutureWarning, stacklevel=2
        )
        return function(*args, **kwargs)

    wrapper.__name__ = wrapper.__qualname__ = old
    wrapper.__doc__ = f"Deprecated name of `{new}`."
    return wrapper


uniform = _deprecated(uniform_)
normal = _deprecated(normal_)
constant = _deprecated(constant_)
eye = _deprecated(eye_)
dirac = _deprecated(dirac_)
xavier_uniform = _deprecated(xavier_uniform_)
xavier_normal = _deprecated(xavier_normal_)
kaiming_uniform = _deprecated(kaiming_uniform_)
kaiming_normal = _deprecated(kaiming_normal_)
orthogonal = _deprecated(orthogonal_)
sparse = _deprecated(sparse_)

__getattr__ = _getattr_of(__name__)
