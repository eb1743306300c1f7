"""Rprop."""

from __future__ import annotations

from typing import Any

from fastgrad.functions.likeness import full_like
from fastgrad.ops.optim import rprop_step
from fastgrad.optim.formula_steps import FormulaOptimizer
from fastgrad.optim.options import check_options, check_pair, check_range, in_both_parts, scalar


class Rprop(FormulaOptimizer):
    """Rprop: steps whose sizes grow while an element of the gradient keeps its sign, and shrink where it changes.

    With gradient g, that of the step before h, and step sizes s, which begin with `lr`, a step is::

        s = s * etaplus where g * h > 0, s * etaminus where g * h < 0, within `step_sizes`
        g = 0 where g * h < 0
        p = p - sign(g) * s

    Parameters
    ----------
    params : iterable
        Parameters or groups of them, see `Optimizer`.
    lr : float or Tensor
        The first size of all steps.
    etas : tuple of float
        The factors (etaminus, etaplus).
    step_sizes : tuple of float
        The smallest and the largest size of a step.
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
    Riedmiller, Braun: A Direct Adaptive Method for Faster Backpropagation Learning: The RPROP Algorithm, ICNN 1993.

    Examples
    --------
    >>> import fastgrad as fg
    >>> w = fg.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = fg.optim.Rprop([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w.detach()
    tensor([ 0.9000, -1.9000])
    """

    _op = rprop_step

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_options(lr=lr)
        check_range("learning rate", lr)
        down, up = check_pair("eta values", etas)
        if not 0.0 < down < 1.0 < up:
            raise ValueError(f"Invalid eta values: {down}, {up}; they must be between 0 and 1, and above 1")
        check_pair("step_sizes", step_sizes)
        super().__init__(
            params,
            {
                "lr": lr, "etas": etas, "step_sizes": step_sizes, "foreach": foreach, "maximize": maximize,
                "differentiable": differentiable, "capturable": capturable,
            },
        )  # fmt: skip

    def _init_state(self, group: dict[str, Any], p: Any, state: dict[str, Any]) -> None:
        state["step_size"] = full_like(p, in_both_parts(p, scalar(group["lr"])))
        super()._init_state(group, p, state)
