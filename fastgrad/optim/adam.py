"""Adam and AdamW."""

from __future__ import annotations

from typing import Any, ClassVar

from fastgrad.ops.optim import adam_step
from fastgrad.optim.formula_steps import FormulaOptimizer
from fastgrad.optim.options import check_betas, check_options, check_range


class Adam(FormulaOptimizer):
    """Adam: steps along the averaged gradient, each element scaled by its averaged square.

    With gradient g, betas b1 and b2 and weight decay lambda the t-th step is::

        g = g + lambda * p                            (decoupled: p = p - lr * lambda * p)
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * g**2
        p = p - lr * m / (1 - b1**t) / (sqrt(v / (1 - b2**t)) + eps)

    AMSGrad takes in place of v the largest v so far.

    Parameters
    ----------
    params : iterable
        Parameters or groups of them, see `Optimizer`.
    lr : float or Tensor
    betas : tuple of float
    eps, weight_decay : float
    amsgrad, maximize : bool
    decoupled_weight_decay : bool
        Whether weights decay apart from the gradient, as in AdamW.
    foreach, fused, capturable : bool
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
    Kingma, Ba: Adam: A Method for Stochastic Optimization, ICLR 2015. Reddi, Kale, Kumar: On the Convergence of Adam
    and Beyond, ICLR 2018 (AMSGrad).

    Examples
    --------
    >>> import fastgrad as fg
    >>> w = fg.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = fg.optim.Adam([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w.detach()
    tensor([ 0.9000, -1.9000])
    """

    _op = adam_step
    _added: ClassVar[dict[str, Any]] = FormulaOptimizer._added | {
        "amsgrad": False,
        "decoupled_weight_decay": False,
        "fused": None,
    }

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: tuple[Any, Any] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        check_options(foreach=foreach, fused=fused, differentiable=differentiable, lr=lr)
        check_range("learning rate", lr)
        check_range("epsilon value", eps)
        check_betas(betas)
        check_range("weight_decay value", weight_decay)
        super().__init__(
            params,
            {
                "lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad,
                "maximize": maximize, "foreach": foreach, "capturable": capturable, "differentiable": differentiable,
                "fused": fused, "decoupled_weight_decay": decoupled_weight_decay,
            },
        )  # fmt: skip

    def _absent(self, group: dict[str, Any]) -> tuple[str, ...]:
        return () if group["amsgrad"] else ("max_exp_avg_sq",)


class AdamW(Adam):
    """Adam with decoupled weight decay: weights decay by lr * weight_decay, whatever the gradients are.

    Parameters
    ----------
    params : iterable
        Parameters or groups of them, see `Optimizer`.
    lr : float or Tensor
    betas : tuple of float
    eps, weight_decay : float
    amsgrad, maximize : bool
    foreach, fused, capturable : bool
        Change nothing, see `Adam`.
    differentiable : bool
        Whether autograd records the steps.

    Raises
    ------
    ValueError
        If there are no parameters, or a setting is out of range.

    References
    ----------
    Loshchilov, Hutter: Decoupled Weight Decay Regularization, ICLR 2019.

    Examples
    --------
    >>> import fastgrad as fg
    >>> w = fg.tensor([1.0], requires_grad=True)
    >>> optimizer = fg.optim.AdamW([w], lr=0.1, weight_decay=0.5)
    >>> (w * 0).sum().backward()
    >>> optimizer.step()
    >>> w.detach()
    tensor([0.9500])
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: tuple[Any, Any] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize, capturable=capturable,
            differentiable=differentiable, fused=fused, decoupled_weight_decay=True,
        )  # fmt: skip

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:  # whatever a checkpoint says
            group["decoupled_weight_decay"] = True
