"""RAdam."""

from __future__ import annotations

from typing import Any, ClassVar

from fastgrad.ops.optim import radam_step
from fastgrad.optim.formula_steps import FormulaOptimizer
from fastgrad.optim.options import check_betas, check_options, check_range


class RAdam(FormulaOptimizer):
    """RAdam: Adam whose adaptive scale waits until its variance is known, and is rectified then.

    With gradient g, betas b1 and b2 and weight decay lambda the t-th step is::

        g = g + lambda * p                            (decoupled: p = p - lr * lambda * p)
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * g**2
        R = 2 / (1 - b2) - 1,  r = R - 2 * t * b2**t / (1 - b2**t)
        s = sqrt((r - 4) * (r - 2) * R / ((R - 4) * (R - 2) * r)) * sqrt(1 - b2**t) / (sqrt(v) + eps)   (1 if r <= 5)
        p = p - lr * m / (1 - b1**t) * s

    Parameters
    ----------
    params : iterable
        Parameters or groups of them, see `Optimizer`.
    lr : float or Tensor
    betas : tuple of float
    eps, weight_decay : float
    decoupled_weight_decay : bool
        Whether weights decay apart from the gradient, as in AdamW.
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
    Liu, Jiang, He, Chen, Liu, Gao, Han: On the Variance of the Adaptive Learning Rate and Beyond, ICLR 2020.

    Examples
    --------
    >>> import fastgrad as fg
    >>> w = fg.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = fg.optim.RAdam([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w.detach()
    tensor([ 0.8000, -1.6000])
    """

    _op = radam_step
    _added: ClassVar[dict[str, Any]] = FormulaOptimizer._added | {"decoupled_weight_decay": False}

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: tuple[Any, Any] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_options(lr=lr)
        check_range("learning rate", lr)
        check_range("epsilon value", eps)
        check_betas(betas)
        check_range("weight_decay value", weight_decay)
        super().__init__(
            params,
            {
                "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
                "foreach": foreach, "capturable": capturable, "decoupled_weight_decay": decoupled_weight_decay,
                "differentiable": differentiable,
            },
        )  # fmt: skip
