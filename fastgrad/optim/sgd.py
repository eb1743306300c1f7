"""Stochastic gradient descent."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import Any

from fastgrad.autograd.modes import enable_grad
from fastgrad.functions.creation import zeros_like
from fastgrad.native.loader import TensorBase, rt
from fastgrad.ops.call import apply
from fastgrad.ops.registry import BY_NAME

_STEP = BY_NAME["sgd_step"].id
NESTEROV, MAXIMIZE, FIRST = 1, 2, 4


def _bits(value: float) -> int:
    return int(struct.unpack("<q", struct.pack("<d", value))[0])


class SGD:
    """Stochastic gradient descent, with momentum if asked for.

    With gradient g, momentum mu, dampening tau and weight decay lambda a step is::

        g = g + lambda * p
        b = mu * b + (1 - tau) * g      (the first time b = g)
        p = p - lr * b                  (Nesterov: p - lr * (g + mu * b))

    Parameters
    ----------
    params : iterable of Tensor
    lr, momentum, dampening, weight_decay : float
    nesterov, maximize : bool

    Raises
    ------
    ValueError
        If there are no parameters, or a setting is out of range.
    TypeError
        If a parameter is no tensor.

    Examples
    --------
    >>> import fastgrad as fg
    >>> w = fg.tensor([1.0], requires_grad=True)
    >>> optimizer = fg.optim.SGD([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w.detach()
    tensor([0.8000])
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        if isinstance(params, TensorBase):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors, but got a Tensor"
            )
        self.params = list(params)
        if not self.params:
            raise ValueError("optimizer got an empty parameter list")
        for p in self.params:
            if not isinstance(p, TensorBase):
                raise TypeError(
                    f"optimizer can only optimize Tensors, but one of the params is {type(p).__name__}"
                )
            if not p.is_leaf:
                raise ValueError("can't optimize a non-leaf Tensor")
        for name, value in (
            ("learning rate", lr),
            ("momentum value", momentum),
            ("weight_decay value", weight_decay),
        ):
            if value < 0.0:
                raise ValueError(f"Invalid {name}: {value}")
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        self.lr = lr
        self.momentum = momentum
        self.dampening = dampening
        self.weight_decay = weight_decay
        self.nesterov = nesterov
        self.maximize = maximize
        self._buffers: dict[int, Any] = {}

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters, or set them to zero."""
        for p in self.params:
            if set_to_none:
                rt.set_grad(p, None)
            elif p.grad is not None:
                p.grad.detach_().zero_()

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters that have a gradient.

        Parameters
        ----------
        closure : callable, optional
            Computes the loss again; what it returns is returned.
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        fresh: list[Any] = []
        known: list[Any] = []
        for k, p in enumerate(self.params):
            g = rt.get_grad(p)
            if g is None:
                continue
            if not self.momentum:
                known += (p, g, None)
            elif k in self._buffers:
                known += (p, g, self._buffers[k])
            else:
                self._buffers[k] = zeros_like(p.detach())
                fresh += (p, g, self._buffers[k])
        self._update(fresh, FIRST)
        self._update(known, 0)
        return loss

    def _update(self, tensors: list[Any], flags: int) -> None:
        if not tensors:
            return
        flags |= (NESTEROV if self.nesterov else 0) | (MAXIMIZE if self.maximize else 0)
        mode = rt.set_mode(0)
        try:
            apply(
                _STEP, len(tensors), -1, *tensors,
                _bits(self.lr), _bits(self.momentum), _bits(self.dampening), _bits(self.weight_decay), flags,
            )  # fmt: skip
        finally:
            rt.set_mode(mode)

    def __repr__(self) -> str:
        names = ("lr", "momentum", "dampening", "weight_decay", "nesterov", "maximize")
        return f"SGD({', '.join(f'{n}={getattr(self, n)}' for n in names)})"
