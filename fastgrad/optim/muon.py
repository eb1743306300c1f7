"""Muon."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from fastgrad.autograd.modes import no_grad
from fastgrad.functions.likeness import zeros_like
from fastgrad.native.build.loader import rt
from fastgrad.optim.optimizer import Optimizer
from fastgrad.optim.options import check_options, kept_tensor, scalar

_RATIOS: dict[Any, Callable[[int, int], float]] = {
    None: lambda rows, columns: math.sqrt(max(1, rows / columns)),
    "original": lambda rows, columns: math.sqrt(max(1, rows / columns)),
    "match_rms_adamw": lambda rows, columns: 0.2 * math.sqrt(max(rows, columns)),
}


def orthogonalized(g: Any, coefficients: Any, steps: int, eps: float) -> Any:
    """A matrix with the singular vectors of `g` and values near one, by steps of Newton and Schulz in bfloat16.

    Parameters
    ----------
    g : Tensor
        A matrix.
    coefficients : tuple of float
        a, b and c: a step makes ``a X + b (X X') X + c (X X')**2 X`` of X.
    steps : int
        Fewer than 100.
    eps : float
        The least norm that `g` is divided by.

    Returns
    -------
    Tensor

    Raises
    ------
    ValueError
        If `g` is no matrix, there are too many steps, or not three coefficients.
    """
    if steps >= 100:
        raise ValueError(
            f"Number of steps must be less than 100 for computational efficiency, but got {steps}"
        )
    if g.dim() != 2:
        raise ValueError(f"Input tensor gradient must be a 2D matrix, but has sizes {list(g.shape)}")
    if len(coefficients) != 3:
        raise ValueError(f"Coefficients must be a tuple of exactly 3 values, but got {len(coefficients)}")
    a, b, c = coefficients
    x = g.bfloat16()
    tall = g.shape[0] > g.shape[1]
    if tall:
        x = x.t()
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.t()
        x = (gram.addmm(gram, gram, beta=b, alpha=c)).mm(x).add(x, alpha=a)
    return x.t() if tall else x


class Muon(Optimizer):
    """Muon: momentum whose matrices are made orthogonal.

    With gradient g, momentum mu and weight decay lambda a step is::

        b = mu * b + (1 - mu) * g
        u = orthogonalized(mu * b + (1 - mu) * g)       (nesterov; else of b)
        p = p - lr * lambda * p - lr * ratio(p) * u

    It is for matrices; other parameters go to another optimizer.

    Parameters
    ----------
    params : iterable
        Parameters or groups of them, see `Optimizer`; all of two dimensions.
    lr : float or Tensor
    weight_decay, momentum : float
    nesterov : bool
    ns_coefficients : tuple of float
        Of the polynomial of the steps of Newton and Schulz.
    eps : float
        The least norm that a matrix is divided by.
    ns_steps : int
    adjust_lr_fn : str, optional
        The ratio for r rows and c columns: ``"original"``, or None, ``sqrt(max(1, r / c))``; ``"match_rms_adamw"``,
        ``0.2 * sqrt(max(r, c))``.

    Raises
    ------
    ValueError
        If there are no parameters, a setting is out of range, or a parameter is no matrix.
    TypeError
        If a parameter is no tensor.

    References
    ----------
    Jordan: Muon: An optimizer for hidden layers in neural networks, 2024. Liu et al.: Muon is Scalable for LLM
    Training, 2025.

    Examples
    --------
    >>> import fastgrad as fg
    >>> w = fg.eye(2).requires_grad_()
    >>> optimizer = fg.optim.Muon([w], lr=0.1, weight_decay=0.0)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> bool(w[0, 0] < 1)
    True
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        check_options(lr=lr)
        for name, value in (("Learning rate", lr), ("momentum", momentum), ("weight decay", weight_decay)):
            if not scalar(value) >= 0.0:
                raise ValueError(f"{name} should be >= 0 but is: {value}")
        if adjust_lr_fn not in tuple(_RATIOS):
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        super().__init__(
            params,
            {
                "lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov,
                "ns_coefficients": ns_coefficients, "eps": eps, "ns_steps": ns_steps, "adjust_lr_fn": adjust_lr_fn,
            },
        )  # fmt: skip
        for group in self.param_groups:
            for p in group["params"]:
                if p.dim() != 2:
                    raise ValueError(
                        f"Muon only supports 2D parameters whereas we found a parameter with size: {p.size()}"
                    )

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
                    self._update(group, p, grad)
        return loss

    def _update(self, group: dict[str, Any], p: Any, grad: Any) -> None:
        state = self.state[p]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = zeros_like(grad)
        lr, momentum = scalar(group["lr"]), group["momentum"]
        buffer = kept_tensor(state, "momentum_buffer").lerp_(grad, 1 - momentum)
        wanted = grad.lerp(buffer, momentum) if group["nesterov"] else buffer
        change = orthogonalized(wanted, group["ns_coefficients"], group["ns_steps"], group["eps"])
        p.mul_(1 - lr * group["weight_decay"])
        p.add_(change, alpha=-lr * _RATIOS[group["adjust_lr_fn"]](*p.shape))
