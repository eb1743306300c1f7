"""RMSprop."""

from __future__ import annotations

from typing import Any, ClassVar

from fastgrad.ops.optim import rmsprop_step
from fastgrad.optim.formula_steps import FormulaOptimizer
from fastgrad.optim.options import check_options, check_range


class RMSprop(FormulaOptimizer):
    """RMSprop: each element of the gradient divided by the root of its averaged square.

    With gradient g, smoothing alpha, momentum mu and weight decay lambda a step is::

        g = g + lambda * p
        v = alpha * v + (1 - alpha) * g**2
        a = alpha * a + (1 - alpha) * g          (centered: v - a**2 in place of v below)
        b = mu * b + g / (sqrt(v) + eps)
        p = p - lr * b

    Parameters
    ----------
    params : iterable
        Parameters or groups of them, see `Optimizer`.
    lr : float or Tensor
    alpha, eps, weight_decay, momentum : float
    centered, maximize : bool
    capturable, foreach : bool
        Change nothing: a step is one compiled call in any case, and counts steps by itself.
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
    Tieleman, Hinton: Lecture 6.5 of Neural Networks for Machine Learning, 2012; centered: Graves, Generating Sequences
    With Recurrent Neural Networks, 2013.

    Examples
    --------
    >>> import fastgrad as fg
    >>> w = fg.tensor([1.0], requires_grad=True)
    >>> optimizer = fg.optim.RMSprop([w], lr=0.01)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w.detach()
    tensor([0.9000])
    """

    _op = rmsprop_step
    _added: ClassVar[dict[str, Any]] = FormulaOptimizer._added | {"momentum": 0, "centered": False}

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_options(foreach=foreach, differentiable=differentiable, lr=lr)
        check_range("learning rate", lr)
        check_range("epsilon value", eps)
        check_range("momentum value", momentum)
        check_range("weight_decay value", weight_decay)
        check_range("alpha value", alpha)
        super().__init__(
            params,
            {
                "lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered,
                "weight_decay": weight_decay, "capturable": capturable, "foreach": foreach, "maximize": maximize,
                "differentiable": differentiable,
            },
        )  # fmt: skip

    def _absent(self, group: dict[str, Any]) -> tuple[str, ...]:
        heavy = () if group["momentum"] > 0 else ("momentum_buffer",)
        return heavy if group["centered"] else (*heavy, "grad_avg")
