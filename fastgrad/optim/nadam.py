"""NAdam."""

from __future__ import annotations

from typing import Any, ClassVar

from fastgrad.ops.optim import nadam_step
from fastgrad.optim.formula_steps import FormulaOptimizer
from fastgrad.optim.options import check_betas, check_options, check_range, zero_steps


class NAdam(FormulaOptimizer):
    """NAdam: Adam with Nesterov's momentum.

    With gradient g, betas b1 and b2, momentum decay psi and weight decay lambda the t-th step is::

        g = g + lambda * p                            (decoupled: p = p - lr * lambda * p)
        mu(t) = b1 * (1 - 0.96**(t * psi) / 2),  M = M * mu(t)
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * g**2
        s = mu(t + 1) * m / (1 - M * mu(t + 1)) + (1 - mu(t)) * g / (1 - M)
        p = p - lr * s / (sqrt(v / (1 - b2**t)) + eps)

    Parameters
    ----------
    params : iterable
        Parameters or groups of them, see `Optimizer`.
    lr : float or Tensor
    betas : tuple of float
    eps, weight_decay, momentum_decay : float
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
    Dozat: Incorporating Nesterov Momentum into Adam, ICLR workshop 2016.

    Examples
    --------
    >>> import fastgrad as fg
    >>> w = fg.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = fg.optim.NAdam([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w.detach()
    tensor([ 0.8944, -1.8944])
    """

    _op = nadam_step
    _counted = ("step", "mu_product")
    _added: ClassVar[dict[str, Any]] = FormulaOptimizer._added | {"decoupled_weight_decay": False}

    def __init__(
        self,
        params: Any,
        lr: Any = 2e-3,
        betas: tuple[Any, Any] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
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
        check_range("momentum_decay value", momentum_decay)
        super().__init__(
            params,
            {
                "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "momentum_decay": momentum_decay,
                "decoupled_weight_decay": decoupled_weight_decay, "maximize": maximize, "foreach": foreach,
                "capturable": capturable, "differentiable": differentiable,
            },
        )  # fmt: skip

    def _init_state(self, group: dict[str, Any], p: Any, state: dict[str, Any]) -> None:
        state["mu_product"] = zero_steps(p, 1.0)
        super()._init_state(group, p, state)
