"""Adagrad."""

from __future__ import annotations

from typing import Any, ClassVar

from fastgrad.functions.likeness import full_like
from fastgrad.ops.optim import adagrad_step
from fastgrad.optim.formula_steps import FormulaOptimizer
from fastgrad.optim.options import check_options, check_range, in_both_parts


class Adagrad(FormulaOptimizer):
    """Adagrad: each element of the gradient divided by the root of the sum of its squares.

    With gradient g, decay eta of the learning rate and weight decay lambda the t-th step is::

        g = g + lambda * p
        s = s + g**2
        p = p - lr / (1 + (t - 1) * eta) * g / (sqrt(s) + eps)

    Parameters
    ----------
    params : iterable
        Parameters or groups of them, see `Optimizer`.
    lr : float or Tensor
    lr_decay, weight_decay, initial_accumulator_value, eps : float
    foreach, fused : bool, optional
        Change nothing: a step is one compiled call in any case.
    maximize : bool
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
    Duchi, Hazan, Singer: Adaptive Subgradient Methods for Online Learning and Stochastic Optimization, JMLR 2011.

    Examples
    --------
    >>> import fastgrad as fg
    >>> w = fg.tensor([1.0], requires_grad=True)
    >>> optimizer = fg.optim.Adagrad([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w.detach()
    tensor([0.9000])
    """

    _op = adagrad_step
    _added: ClassVar[dict[str, Any]] = {
        "foreach": None,
        "maximize": False,
        "differentiable": False,
        "fused": None,
    }

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_options(foreach=foreach, fused=fused, differentiable=differentiable, lr=lr)
        check_range("learning rate", lr)
        check_range("lr_decay value", lr_decay)
        check_range("weight_decay value", weight_decay)
        check_range("initial_accumulator_value value", initial_accumulator_value)
        check_range("epsilon value", eps)
        super().__init__(
            params,
            {
                "lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay,
                "initial_accumulator_value": initial_accumulator_value, "foreach": foreach, "maximize": maximize,
                "differentiable": differentiable, "fused": fused,
            },
        )  # fmt: skip
        for group in self.param_groups:
            for p in group["params"]:
                self._init_state(group, p, self.state[p])

    def _init_state(self, group: dict[str, Any], p: Any, state: dict[str, Any]) -> None:
        state["sum"] = full_like(p, in_both_parts(p, self.defaults["initial_accumulator_value"]))
        super()._init_state(group, p, state)
