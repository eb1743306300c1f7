"""Adamax."""

from __future__ import annotations

from typing import Any

from fastgrad.ops.optim import adamax_step
from fastgrad.optim.formula_steps import FormulaOptimizer
from fastgrad.optim.options import check_betas, check_options, check_range


class Adamax(FormulaOptimizer):
    """Adamax: steps along the averaged gradient, each element scaled by the largest of its fading magnitudes.

    With gradient g, betas b1 and b2 and weight decay lambda the t-th step is::

        g = g + lambda * p
        m = b1 * m + (1 - b1) * g
        u = max(b2 * u, |g| + eps)
        p = p - lr / (1 - b1**t) * m / u

    Parameters
    ----------
    params : iterable
        Parameters or groups of them, see `Optimizer`.
    lr : float or Tensor
    betas : tuple of float
    eps, weight_decay : float
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
    Kingma, Ba: Adam: A Method for Stochastic Optimization, ICLR 2015, section 7.1.

    Examples
    --------
    >>> import fastgrad as fg
    >>> w = fg.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = fg.optim.Adamax([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w.detach()
    tensor([ 0.9000, -1.9000])
    """

    _op = adamax_step

    def __init__(
        self,
        params: Any,
        lr: Any = 2e-3,
        betas: tuple[Any, Any] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_options(lr=lr)
        check_range("learning rate", lr)
        check_range("epsilon value", eps)
        check_betas(betas)
        check_range("weight_decay value", weight_decay)
        super().__init__(
            params,
            {
                "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "foreach": foreach,
                "maximize": maximize, "differentiable": differentiable, "capturable": capturable,
            },
        )  # fmt: skip
