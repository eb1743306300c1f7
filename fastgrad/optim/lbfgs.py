"""L-BFGS, with a line search for the strong Wolfe conditions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from fastgrad.autograd.modes import enable_grad, no_grad
from fastgrad.functions.likeness import zeros_like
from fastgrad.functions.shape import cat
from fastgrad.native.build.loader import rt
from fastgrad.optim.optimizer import Optimizer
from fastgrad.optim.options import as_real, check_options, check_range, scalar

DECREASE, CURVATURE = 1e-4, 0.9  # of the Wolfe conditions
LEAST_CURVATURE = 1e-10  # of a step that is remembered


class _Point(NamedTuple):
    """A step along the direction: its length, the loss there, the gradient, and its slope along the direction."""

    t: float
    loss: float
    grad: Any
    slope: float


class _Line(NamedTuple):
    """What a line search goes along: the loss of a step, the point where it starts, the direction's largest element."""

    evaluate: Callable[[float], _Point]
    start: _Point
    width: float
    tolerance: float

    def is_high(self, point: _Point) -> bool:
        """Whether the loss is not enough below that of the start for a step of this length."""
        return point.loss > self.start.loss + DECREASE * point.t * self.start.slope

    def is_flat(self, point: _Point) -> bool:
        """Whether the slope is small enough beside that of the start."""
        return abs(point.slope) <= -CURVATURE * self.start.slope


def _cubic(a: _Point, b: _Point, bounds: tuple[float, float]) -> float:
    """The least place within bounds of the cubic through two points with their slopes, or the middle."""
    if a.t > b.t:
        a, b = b, a
    if a.t != b.t:
        bend = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t)
        square = bend**2 - a.slope * b.slope
        if square >= 0:
            root = math.sqrt(square)
            below = b.slope - a.slope + 2 * root
            if below != 0:
                least = b.t - (b.t - a.t) * ((b.slope + root - bend) / below)
                return min(max(least, bounds[0]), bounds[1])
    return (bounds[0] + bounds[1]) / 2.0


def _strong_wolfe(line: _Line, t: float, most: int) -> tuple[_Point, int]:
    """A point that meets the strong Wolfe conditions, or the best one so far, and how often the loss was computed.

    Nocedal, Wright: Numerical Optimization, algorithms 3.5 and 3.6.
    """
    before, point = line.start, line.evaluate(t)
    k = 0
    while k < most:
        if line.is_high(point) or (k > 1 and point.loss >= before.loss):
            break
        if line.is_flat(point):
            return point, k + 1
        if point.slope >= 0:
            break
        farther = _cubic(before, point, (point.t + 0.01 * (point.t - before.t), 10 * point.t))
        before, point = point, line.evaluate(farther)
        k += 1
    else:
        before = line.start
    best, k = _zoom(line, [before, point], k, most)
    return best, k + 1


def _zoom(line: _Line, ends: list[_Point], k: int, most: int) -> tuple[_Point, int]:
    """Make an interval smaller until an end of it meets the conditions."""
    low = int(ends[0].loss > ends[1].loss)
    stuck = False
    while k < most and abs(ends[1].t - ends[0].t) * line.width >= line.tolerance:
        first, last = sorted(end.t for end in ends)
        t, margin = _cubic(ends[0], ends[1], (first, last)), 0.1 * (last - first)
        near = min(last - t, t - first) < margin
        if near and (stuck or t >= last or t <= first):
            t = last - margin if abs(t - last) < abs(t - first) else first + margin
            near = False
        stuck = near
        point = line.evaluate(t)
        k += 1
        if line.is_high(point) or point.loss >= ends[low].loss:
            ends[1 - low] = point
            low = int(ends[0].loss > ends[1].loss)
            continue
        done = line.is_flat(point)
        if not done and point.slope * (ends[1 - low].t - ends[low].t) >= 0:
            ends[1 - low] = ends[low]
        ends[low] = point
        if done:
            break
    return ends[low], k


class LBFGS(Optimizer):
    """L-BFGS: steps of Newton's method, whose Hessian is known from the last steps and the changes of the gradient.

    ``step(closure)`` makes up to `max_iter` of them. All parameters are one group, and lie on one device.

    Parameters
    ----------
    params : iterable
        Parameters, see `Optimizer`.
    lr : float or Tensor
    max_iter : int
    max_eval : int, optional
        How often the loss is computed in a step; 5/4 of `max_iter` if not given.
    tolerance_grad, tolerance_change : float
        A step ends where no element of the gradient, or no change of parameters or of the loss, is larger.
    history_size : int
        How many steps are remembered.
    line_search_fn : str, optional
        ``"strong_wolfe"``

    Raises
    ------
    ValueError
        If there are no parameters or several groups, or the learning rate is out of range.
    RuntimeError
        From `step`, for another line search.

    References
    ----------
    Liu, Nocedal: On the Limited Memory BFGS Method for Large Scale Optimization, Mathematical Programming 45, 1989.

    Examples
    --------
    >>> import fastgrad as fg
    >>> w = fg.tensor([3.0, -1.0], requires_grad=True)
    >>> optimizer = fg.optim.LBFGS([w], line_search_fn="strong_wolfe")
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = ((w - 1) ** 2).sum()
    ...     loss.backward()
    ...     return loss
    >>> optimizer.step(closure).item()
    8.0
    >>> w.detach()
    tensor([1., 1.])
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        check_options(lr=lr)
        check_range("learning rate", lr)
        super().__init__(
            params,
            {
                "lr": lr, "max_iter": max_iter, "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
                "tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change, "history_size": history_size,
                "line_search_fn": line_search_fn,
            },
        )  # fmt: skip
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")

    @no_grad()
    def step(self, closure: Callable[[], Any]) -> Any:  # type: ignore[override]
        """Make the steps.

        Parameters
        ----------
        closure : callable
            Computes the loss and the gradients again.

        Returns
        -------
        Tensor
            What `closure` gave first.
        """
        evaluate = enable_grad()(closure)
        if len(self.param_groups) != 1:
            raise AssertionError(f"Expected exactly one param_group, but got {len(self.param_groups)}")
        group = self.param_groups[0]
        state = self.state[group["params"][0]]  # of all of them; loading brings it to the first one's dtype
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first = evaluate()
        state["func_evals"] += 1
        here = _Point(0.0, float(first), self._flat_grad(), 0.0)
        if not here.grad.abs().max() <= group["tolerance_grad"]:  # also where it is nan, which a step spreads
            self._iterate(evaluate, group, state, here)
        return first

    def _iterate(
        self, evaluate: Callable[[], Any], group: dict[str, Any], state: dict[str, Any], here: _Point
    ) -> None:
        lr, used, tolerance = scalar(group["lr"]), 1, group["tolerance_change"]
        for k in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            d = _direction(state, here.grad, group["history_size"])
            t = min(1.0, here.grad.abs().sum().reciprocal().item()) * lr if state["n_iter"] == 1 else lr
            state.update(d=d, t=t, prev_flat_grad=here.grad.clone(), prev_loss=here.loss)
            start = here._replace(t=0.0, slope=here.grad.dot(d).item())
            if start.slope > -tolerance:
                return
            evaluated = 0
            if group["line_search_fn"] is not None:
                if group["line_search_fn"] != "strong_wolfe":
                    raise RuntimeError(
                        f"only 'strong_wolfe' is supported as line_search_fn, but got {group['line_search_fn']!r}"
                    )
                line = _Line(self._along(evaluate, d), start, d.abs().max().item(), tolerance)
                here, evaluated = _strong_wolfe(line, t, group["max_eval"] - used)
                state["t"] = here.t
                self._move(here.t, d)
            else:
                self._move(t, d)
                if k != group["max_iter"]:
                    here = _Point(t, float(evaluate()), self._flat_grad(), 0.0)
                    evaluated = 1
            used += evaluated
            state["func_evals"] += evaluated
            if (
                k == group["max_iter"]
                or used >= group["max_eval"]
                or here.grad.abs().max() <= group["tolerance_grad"]
                or (d * state["t"]).abs().max() <= tolerance
                or abs(here.loss - start.loss) < tolerance
            ):
                return

    def _along(self, evaluate: Callable[[], Any], d: Any) -> Callable[[float], _Point]:
        """The function of a line search: the point of a step, after which the parameters are what they were."""
        params = self.param_groups[0]["params"]
        kept = [p.clone() for p in params]

        def at(t: float) -> _Point:
            self._move(t, d)
            loss = float(evaluate())
            grad = self._flat_grad()
            for p, before in zip(params, kept, strict=True):
                p.copy_(before)
            return _Point(t, loss, grad, grad.dot(d).item())

        return at

    def _flat_grad(self) -> Any:
        """The gradients of all parameters as one vector, complex ones as pairs; zeros where there is none."""
        flat = []
        for p in self.param_groups[0]["params"]:
            grad = rt.get_grad(p)
            flat.append(as_real(zeros_like(p) if grad is None else grad).reshape(-1))
        return cat(flat)

    def _move(self, t: float, d: Any) -> None:
        at = 0
        for p in map(as_real, self.param_groups[0]["params"]):
            p.add_(d[at : at + p.numel()].reshape(p.shape), alpha=t)
            at += p.numel()


def _direction(state: dict[str, Any], grad: Any, size: int) -> Any:
    """Minus the gradient times the inverse of the Hessian, as far as remembered steps tell it."""
    if state["n_iter"] == 1:
        state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1)
        return -grad
    changes, steps, ro = state["old_dirs"], state["old_stps"], state["ro"]
    change, step = grad - state["prev_flat_grad"], state["d"] * state["t"]
    curvature = change.dot(step)
    if curvature > LEAST_CURVATURE:
        if len(changes) == size:
            for memory in (changes, steps, ro):
                memory.pop(0)
        changes.append(change)
        steps.append(step)
        ro.append(1.0 / curvature)
        state["H_diag"] = curvature / change.dot(change)
    al = state.setdefault("al", [None] * size)
    q = -grad
    for i in range(len(changes) - 1, -1, -1):
        al[i] = steps[i].dot(q) * ro[i]
        q = q - al[i] * changes[i]
    q = q * state["H_diag"]
    for i in range(len(changes)):
        q = q + (al[i] - changes[i].dot(q) * ro[i]) * steps[i]
    return q
