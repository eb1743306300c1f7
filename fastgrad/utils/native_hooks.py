"""Native hooks that are ready to use: each function makes a new one, whose `state` tells what it has done.

They are compiled code like all of `fastgrad.native_hook`, and can be read as examples of it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fastgrad.autograd.native_hooks import native_hook
from fastgrad.dtypes import float64
from fastgrad.functions.creation import tensor, zeros

__all__ = ["clip_value", "gradient_noise", "norm_statistics", "sgd"]


def _clip_value(grad: Any, state: Any) -> None:
    limit = state[0]
    clipped = 0
    for i in range(grad.size):
        if grad[i] > limit:
            grad[i] = limit
            clipped += 1
        elif grad[i] < -limit:
            grad[i] = -limit
            clipped += 1
    state[1] += clipped


def clip_value(limit: float) -> Any:
    """A hook that limits each element of a gradient: ``min(max(g, -limit), limit)``.

    Parameters
    ----------
    limit : float
        Not negative.

    Returns
    -------
    NativeHook
        Its state, float64: the limit, and how many elements it has changed.

    Raises
    ------
    ValueError
        If the limit is negative or NaN.

    Examples
    --------
    >>> import fastgrad as fg
    >>> x = fg.tensor([1.0, 2.0], requires_grad=True)
    >>> hook = fg.utils.native_hooks.clip_value(1.0)
    >>> _ = x.register_hook(hook)
    >>> (x * x).sum().backward()
    >>> x.grad
    tensor([1., 1.])
    >>> hook.state[1].item()
    2.0
    """
    if not limit >= 0:
        raise ValueError(f"clip_value(): expected a limit that is not negative, not {limit!r}")
    return native_hook(_clip_value, tensor([limit, 0.0], dtype=float64))


def _mixed(counter: Any) -> Any:
    """A number of 64 bits for a counter: a step of SplitMix64."""
    z = np.uint64(counter) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def _unit(bits: Any) -> Any:
    """A float64 in (0, 1] of the upper 53 bits."""
    return (np.float64(bits >> np.uint64(11)) + 1.0) * (1.0 / 9007199254740992.0)


def _gradient_noise(grad: Any, state: Any) -> None:
    std = state[0]
    key = _mixed(np.uint64(state[1]) + np.uint64(1))
    first = np.uint64(state[2])
    for i in range(grad.size):
        at = (first + np.uint64(i)) * np.uint64(2) + np.uint64(1)
        radius = math.sqrt(-2.0 * math.log(_unit(_mixed(at ^ key))))
        angle = 2.0 * math.pi * _unit(_mixed((at + np.uint64(1)) ^ key))
        grad[i] += std * radius * math.cos(angle)
    state[2] += grad.size


def gradient_noise(std: float, seed: int = 0) -> Any:
    """A hook that adds normal noise to a gradient, the same in every program with the same seed.

    Element `i` of a gradient gets the number ``count + i`` of a sequence that the seed names, by a counter that is
    mixed (SplitMix64) and the transform of Box and Muller.

    Parameters
    ----------
    std : float
        The standard deviation.
    seed : int, default 0
        From 0 to 2**53.

    Returns
    -------
    NativeHook
        Its state, float64: the deviation, the seed, and how many numbers it has drawn. Setting that back draws the
        same numbers again.

    Raises
    ------
    ValueError
        If the deviation is negative or the seed out of range.

    Examples
    --------
    >>> import fastgrad as fg
    >>> x = fg.zeros(3, requires_grad=True)
    >>> hook = fg.utils.native_hooks.gradient_noise(0.1, seed=1)
    >>> _ = x.register_hook(hook)
    >>> x.sum().backward()
    >>> hook.state[2].item()
    3.0
    """
    if not std >= 0:
        raise ValueError(f"gradient_noise(): expected a deviation that is not negative, not {std!r}")
    if not 0 <= seed <= 1 << 53:
        raise ValueError(f"gradient_noise(): expected a seed from 0 to 2**53, not {seed!r}")
    return native_hook(_gradient_noise, tensor([std, float(seed), 0.0], dtype=float64))


def _norm_statistics(grad: Any, state: Any) -> None:
    total = 0.0
    largest = 0.0
    for i in range(grad.size):
        value = np.float64(grad[i])
        total += value * value
        if abs(value) > largest or value != value:
            largest = abs(value)
    norm = math.sqrt(total)
    state[0] += 1
    state[1] = norm
    state[2] += norm
    state[3] += total
    if norm > state[4] or norm != norm:
        state[4] = norm
    state[5] = largest


def norm_statistics() -> Any:
    """A hook that measures gradients and leaves them as they are.

    Returns
    -------
    NativeHook
        Its state, float64: how many gradients there were; the Euclidean norm of the last one; the sum of norms; that
        of their squares; the largest norm; the largest absolute element of the last gradient.

    Examples
    --------
    >>> import fastgrad as fg
    >>> x = fg.tensor([3.0, 4.0], requires_grad=True)
    >>> hook = fg.utils.native_hooks.norm_statistics()
    >>> _ = x.register_hook(hook)
    >>> (x * x / 2).sum().backward()
    >>> hook.state[:2].tolist()
    [1.0, 5.0]
    """
    return native_hook(_norm_statistics, zeros(6, dtype=float64), access="read")


def _sgd(param: Any, grad: Any, state: Any) -> None:
    lr, momentum, weight_decay = state[0], state[1], state[2]
    for i in range(param.size):
        step = np.float64(grad[i]) + weight_decay * np.float64(param[i])
        if momentum != 0.0 and state.size > 3:
            step += momentum * state[3 + i]
            state[3 + i] = step
        param[i] -= lr * step


def sgd(param: Any, lr: float, momentum: float = 0.0, weight_decay: float = 0.0) -> Any:
    """A post-accumulate hook that makes a step of stochastic gradient descent as soon as a leaf has its gradient.

    With ``d = g + weight_decay * p``, ``v = momentum * v + d``: ``p -= lr * v``, computed in float64.

    Parameters
    ----------
    param : Tensor
        The leaf that it is for: its size is that of the momentum, and the hook is registered on it.
    lr, momentum, weight_decay : float

    Returns
    -------
    NativeHook
        Its state, float64: the three numbers, which may be changed between passes, then with a momentum `v`. The
        gradient stays.

    Examples
    --------
    >>> import fastgrad as fg
    >>> p = fg.ones(2, requires_grad=True)
    >>> hook = fg.utils.native_hooks.sgd(p, lr=0.5)
    >>> (p * 3).sum().backward()
    >>> p
    tensor([-0.5000, -0.5000], requires_grad=True)
    """
    state = zeros(3 + (param.numel() if momentum else 0), dtype=float64)
    state[:3] = tensor([lr, momentum, weight_decay], dtype=float64)
    hook = native_hook(_sgd, state, access="leaf")
    param.register_post_accumulate_grad_hook(hook)
    return hook
