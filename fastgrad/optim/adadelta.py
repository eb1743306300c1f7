"""Adadelta."""

from __future__ import annotations

from typing import Any

from fastgrad.ops.optim import adadelta_step
from fastgrad.optim.formula_steps import FormulaOptimizer
from fastgrad.optim.options import check_options, check_range


class Adadelta(FormulaOptimizer):
    """Adadelta: steps in the ratio of the averaged sizes of past changes and of past gradients.

    With gradient g, smoothing rho and weight decay lambda a step is::

        g = g + lambda * p
        v = rho * v + (1 - rho) * g**2
        d = sqrt(u + eps) / sqrt(v + eps) * g
        u = rho * u + (1 - rho) * d**2
        p = p - lr * d

    Parameters
    ----------
    params : iterable
        Parameters or groups of them, see `Optimizer`.
    lr : float or Tensor
    rho, eps, weight_decay : float
    maximize : bool
    foreach, capturable : bool
        Change nothing: a step is one compiled call in any case, and counts steps by itself, so that it can be captured.
    differentiable : bool
        Whether autograd records the steps.

    Raises
    ------
    ValueError
        If there are no parameters, or a setting is out of range.
    TypeError
        If a parameter is no tensor.

    References
    ----------
    Zeiler: ADADELTA: An Adaptive Learning Rate Method, 2012.

    Examples
    --------
    >>> import fastgrad as fg
    >>> w = fg.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = fg.optim.Adadelta([w])
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w.detach()
    tensor([ 0.9968, -1.9968])
    """

    _op = adadelta_step

    def __init__(
        self,
        params: Any,
        lr: Any = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_options(lr=lr)
        check_range("learning rate", lr)
        check_range("rho value", rho)
        if rho > 1:
            raise ValueError(f"Invalid rho value: {rho}; it must be from 0 to 1")
        check_range("epsilon value", eps)
        check_range("weight_decay value", weight_decay)
        super().__init__(
            params,
            {
                "lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
                "capturable": capturable, "foreach": foreach, "differentiable": differentiable,
            },
        )  # fmt: skip
