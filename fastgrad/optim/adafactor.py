"""Adafactor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastgrad.autograd.modes import no_grad
from fastgrad.dtypes import finfo
from fastgrad.functions.likeness import zeros_like
from fastgrad.native.build.loader import rt
from fastgrad.optim.optimizer import Optimizer
from fastgrad.optim.options import as_numbers, check_options, check_pair, kept_tensor, scalar, zero_steps


class Adafactor(Optimizer):
    """Adafactor: the averaged squares of a matrix's gradient are kept as means of its rows and of its columns.

    With gradient g and r = min(lr, 1 / sqrt(t)) the t-th step is::

        a = max(eps2, rms(p)) * r
        p = p - lr * weight_decay * p
        w = t**beta2_decay
        R = R + w * (mean of g**2 along rows - R),  C = C + w * (mean of g**2 along columns - C)
        v = R C / max(mean of R, eps1)              (of a vector: v = v + w * (g**2 - v))
        u = g / sqrt(max(v, eps1**2))
        p = p - a * u / max(1, rms(u) / d)

    Parameters
    ----------
    params : iterable
        Parameters or groups of them, see `Optimizer`.
    lr : float or Tensor
    beta2_decay : float
        At most 0.
    eps : tuple of float
        eps1, which is the machine epsilon of the parameter's dtype where it is None, and eps2.
    d : float
        How long a step may be; at least 1.
    weight_decay : float
    foreach : bool, optional
        Changes nothing.
    maximize : bool

    Raises
    ------
    ValueError
        If there are no parameters, or a setting is out of range.
    TypeError
        If a parameter is no tensor.

    References
    ----------
    Shazeer, Stern: Adafactor: Adaptive Learning Rates with Sublinear Memory Cost, ICML 2018.

    Examples
    --------
    >>> import fastgrad as fg
    >>> w = fg.ones(2, 2).requires_grad_()
    >>> optimizer = fg.optim.Adafactor([w], lr=0.5)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w.detach()
    tensor([[0.5000, 0.5000],
            [0.5000, 0.5000]])
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        check_options(lr=lr)
        eps1, eps2 = check_pair("eps", eps)
        for name, value, least in (
            ("Learning rate", lr, 0), ("epsilon1", 0.0 if eps1 is None else eps1, 0), ("epsilon2", eps2, 0),
            ("Clipping threshold d", d, 1), ("weight_decay", weight_decay, 0),
        ):  # fmt: skip
            if not scalar(value) >= least:
                raise ValueError(f"{name} should be >= {least} but is: {value}")
        if not beta2_decay <= 0.0:
            raise ValueError(f"beta2_decay should be <= 0 but is: {beta2_decay}")
        super().__init__(
            params,
            {
                "lr": lr, "beta2_decay": beta2_decay, "eps": eps, "d": d, "weight_decay": weight_decay,
                "foreach": foreach, "maximize": maximize,
            },
        )  # fmt: skip

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("foreach", None)
            for p in group["params"]:
                own = self.state.get(p)
                if own:
                    as_numbers(p, own, ("step",))

    def _init_state(self, group: dict[str, Any], p: Any, state: dict[str, Any]) -> None:
        grad = rt.get_grad(p)
        state["step"] = zero_steps(p)
        if grad.dim() > 1:
            *outer, rows, columns = grad.shape
            state["row_var"] = grad.new_zeros((*outer, rows, 1))
            state["col_var"] = grad.new_zeros((*outer, 1, columns))
        else:
            state["variance"] = zeros_like(grad)

    @no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters that have a gradient.

        Parameters
        ----------
        closure : callable, optional
            Computes the loss again; what it returns is returned.
        """
        loss = self._loss(closure)
        for group in self.param_groups:
            for p in group["params"]:
                grad = rt.get_grad(p)
                if grad is not None:
                    if not self.state[p]:
                        self._init_state(group, p, self.state[p])
                    self._update(group, p, -grad if group["maximize"] else grad)
        return loss

    def _update(self, group: dict[str, Any], p: Any, grad: Any) -> None:
        state, lr, (eps1, eps2) = self.state[p], scalar(group["lr"]), group["eps"]
        eps1 = finfo(p.dtype).eps if eps1 is None else eps1
        steps = kept_tensor(state, "step").add_(1).item()
        rate = max(eps2, _rms(p)) * min(lr, 1 / steps**0.5)
        if group["weight_decay"] != 0:
            p.mul_(1 - lr * group["weight_decay"])
        variance = _variance(state, grad, steps ** group["beta2_decay"], eps1)
        change = variance.clamp(min=eps1 * eps1).rsqrt() * grad
        p.add_(change, alpha=-rate / max(1.0, _rms(change) / group["d"]))


def _rms(x: Any) -> float:
    return float(x.norm(2).item()) / max(1, x.numel()) ** 0.5


def _variance(state: dict[str, Any], grad: Any, weight: float, eps: float) -> Any:
    """The averaged squares of a gradient, with these."""
    if grad.dim() <= 1:
        return kept_tensor(state, "variance").lerp_(grad * grad, weight)
    for name, dim in (("row_var", -1), ("col_var", -2)):
        kept_tensor(state, name).lerp_(grad.norm(dim=dim, keepdim=True).square() / grad.shape[dim], weight)
    rows, columns = state["row_var"], state["col_var"]
    return (rows @ columns) / rows.mean(dim=-2, keepdim=True).clamp(min=eps)
