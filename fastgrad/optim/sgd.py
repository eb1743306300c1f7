"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastgrad.functions.likeness import empty_like
from fastgrad.native.build.loader import rt
from fastgrad.native.contracts.ops import FIRST_STEP, MAXIMIZE, NESTEROV
from fastgrad.ops.optim import sgd_step
from fastgrad.optim.optimizer import Optimizer
from fastgrad.optim.options import check_options, check_range


class SGD(Optimizer):
    """Stochastic gradient descent, with momentum if asked for.

    With gradient g, momentum mu, dampening tau and weight decay lambda a step is::

        g = g + lambda * p
        b = mu * b + (1 - tau) * g      (the first time b = g)
        p = p - lr * b                  (Nesterov: p - lr * (g + mu * b))

    Parameters
    ----------
    params : iterable
        Parameters or groups of them, see `Optimizer`.
    lr : float or Tensor
    momentum, dampening, weight_decay : float
    nesterov, maximize : bool
    foreach, fused : bool, optional
        Change nothing: a step is one compiled call in any case.
    differentiable : bool
        Only False.

    Raises
    ------
    ValueError
        If there are no parameters, or a setting is out of range.
    TypeError
        If a parameter is no tensor.

    References
    ----------
    Sutskever, Martens, Dahl, Hinton: On the importance of initialization and momentum in deep learning, ICML 2013;
    the learning rate multiplies the whole step, as in PyTorch.

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
        params: Any,
        lr: Any = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_options(foreach=foreach, fused=fused, differentiable=differentiable, lr=lr)
        check_range("learning rate", lr)
        check_range("momentum value", momentum)
        check_range("weight_decay value", weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(
            params,
            {
                "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay,
                "nesterov": nesterov, "maximize": maximize, "foreach": foreach, "differentiable": differentiable,
                "fused": fused,
            },
        )  # fmt: skip

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for name, default in (("nesterov", False), ("maximize", False), ("foreach", None)):
                group.setdefault(name, default)
            group.setdefault("differentiable", False)
            group.setdefault("fused", False)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters that have a gradient.

        Parameters
        ----------
        closure : callable, optional
            Computes the loss again; what it returns is returned.
        """
        loss = self._loss(closure)
        for group in self.param_groups:
            fresh: list[Any] = []
            known: list[Any] = []
            momentum = group["momentum"]
            for p in group["params"]:
                grad = rt.get_grad(p)
                if grad is None:
                    continue
                if momentum == 0:
                    known += (p, grad)
                    continue
                state = self.state[p]
                buffer = state.get("momentum_buffer")
                if buffer is not None:
                    known += (p, grad, buffer)
                else:
                    buffer = state["momentum_buffer"] = empty_like(p)
                    fresh += (p, grad, buffer)
            flags = (NESTEROV if group["nesterov"] else 0) | (MAXIMIZE if group["maximize"] else 0)
            options = group["lr"], momentum, group["dampening"], group["weight_decay"]
            sgd_step(fresh, *options, flags=flags | FIRST_STEP, of=(self, group))
            absent = () if momentum else ("momentum_buffer",)
            sgd_step(known, *options, flags=flags, absent=absent, of=(self, group))
        return loss
