"""Stochastic gradient descent."""

from __future__ import annotations

from typing import Any, ClassVar

from fastgrad.autograd.modes import enable_grad
from fastgrad.functions.likeness import empty_like
from fastgrad.native.build.loader import rt
from fastgrad.native.contracts.ops import FIRST_STEP, MAXIMIZE
from fastgrad.ops.optim import sgd_step
from fastgrad.ops.optim_formulas import direction
from fastgrad.optim.formula_steps import FormulaOptimizer
from fastgrad.optim.options import check_options, check_range


class SGD(FormulaOptimizer):
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
        Whether autograd records the steps.

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

    _op = sgd_step
    _counted = ()
    _added: ClassVar[dict[str, Any]] = {
        "nesterov": False,
        "maximize": False,
        "foreach": None,
        "differentiable": False,
        "fused": False,
    }

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

    def _step_group(self, group: dict[str, Any]) -> None:
        fresh: list[Any] = []
        known: list[Any] = []
        heavy = group["momentum"] != 0
        for p in group["params"]:
            grad = rt.get_grad(p)
            if grad is None:
                continue
            if not heavy:
                known += (p, grad)
                continue
            state = self.state[p]
            buffer = state.get("momentum_buffer")
            if buffer is not None:
                known += (p, grad, buffer)
            elif group["differentiable"]:
                with enable_grad():
                    self._first_step(group, p, grad)
            else:
                fresh += (p, grad, empty_like(p))
        self._run(sgd_step, fresh, group, flags=FIRST_STEP, recorded=False)
        # Only now: a step that failed leaves no buffer that nobody has written.
        for p, buffer in zip(fresh[::3], fresh[2::3], strict=True):
            self.state[p]["momentum_buffer"] = buffer
        self._run(sgd_step, known, group, () if heavy else ("momentum_buffer",))

    def _first_step(self, group: dict[str, Any], p: Any, grad: Any) -> None:
        """The step that makes a buffer, as autograd records it: the buffer is a constant."""
        flags = MAXIMIZE if group["maximize"] else 0
        d = direction(grad, p.clone(), group["weight_decay"], flags)
        buffer = d.detach().clone()
        p.copy_(p.clone() - group["lr"] * (d + group["momentum"] * buffer if group["nesterov"] else buffer))
        self.state[p]["momentum_buffer"] = buffer.clone()
