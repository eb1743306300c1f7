"""ASGD."""

from __future__ import annotations

from typing import Any

from fastgrad.ops.optim import asgd_rate, asgd_step
from fastgrad.optim.formula_steps import FormulaOptimizer
from fastgrad.optim.options import check_options, check_range, scalar, zero_steps


class ASGD(FormulaOptimizer):
    """Averaged stochastic gradient descent.

    With gradient g and weight decay lambda the t-th step is::

        g = g + lambda * p
        p = (1 - lambd * eta) * p - eta * g
        a = a + mu * (p - a)
        eta = lr / (1 + lambd * lr * t)**alpha
        mu = 1 / max(1, t - t0)

    where eta begins with `lr` and mu with 1. The average a is ``state[p]["ax"]``.

    Parameters
    ----------
    params : iterable
        Parameters or groups of them, see `Optimizer`.
    lr : float or Tensor
    lambd, alpha, t0, weight_decay : float
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
    Polyak, Juditsky: Acceleration of Stochastic Approximation by Averaging, SIAM J. Control Optim. 30, 1992.

    Examples
    --------
    >>> import fastgrad as fg
    >>> w = fg.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = fg.optim.ASGD([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w.detach()
    tensor([ 0.8000, -1.6000])
    """

    _op = asgd_step
    _counted = ("step", "eta", "mu")

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_options(lr=lr)
        check_range("learning rate", lr)
        check_range("weight_decay value", weight_decay)
        super().__init__(
            params,
            {
                "lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay, "foreach": foreach,
                "maximize": maximize, "differentiable": differentiable, "capturable": capturable,
            },
        )  # fmt: skip

    def _init_state(self, group: dict[str, Any], p: Any, state: dict[str, Any]) -> None:
        state["eta"] = zero_steps(p, scalar(group["lr"]))
        state["mu"] = zero_steps(p, 1.0)
        super()._init_state(group, p, state)

    def _step_groups(self) -> None:
        """The steps of all groups, with the rates that those before left, and then the next rates."""
        gathered = [(group, self._gather(group, asgd_step.tensors)) for group in self.param_groups]
        for group, tensors in gathered:
            self._run(asgd_step, tensors, group)
        size = len(asgd_step.tensors)
        for group, tensors in gathered:
            rates = [t for k, t in enumerate(tensors) if k % size >= size - len(asgd_rate.tensors)]
            self._run(asgd_rate, rates, group, recorded=False)
