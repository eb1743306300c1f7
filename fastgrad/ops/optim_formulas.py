# mypy: disable-error-code="no-untyped-def"
"""The formulas of optimizer steps: what becomes of one element, and the numbers that a step takes for all of them.

An update takes the elements of a group's tensors, but for those that are absent and for single numbers, then the
numbers, then the flags if it names them. It returns a tuple: the new values of what is written, in the order of the
frame. The function of the numbers takes settings, flags and single numbers by their names, and as `steps` how many
steps there were with this one; it computes in float64. So does a function of `factors`: a single number is multiplied
by what it gives in each step, in its own dtype, before the numbers are computed.

From these the kernels of every device are generated (`kernels.steps`). On tensors, they are the step that autograd
records (``differentiable=True``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from fastgrad.native.contracts.ops import DECOUPLED, FIRST_STEP, MAXIMIZE, NESTEROV
from fastgrad.ops.vocabulary import c, m


class StepFormula(NamedTuple):
    """A step as functions that devices compile.

    Attributes
    ----------
    updates : sequence of (tuple of str, callable)
        For each set of optional tensors that may be absent, in the order of the frame, the update without them.
    numbers : callable
    factors : sequence of (str, callable)
    """

    updates: Sequence[tuple[tuple[str, ...], Callable[..., Any]]]
    numbers: Callable[..., Any]
    factors: Sequence[tuple[str, Callable[..., Any]]] = ()


def direction(g, p, decay, flags):
    """The gradient as a step takes it: the other way for maximize, with the decay of weights added."""
    d = -g if flags & MAXIMIZE else g
    return d + decay * p if decay != c(0) else d


# --- SGD -------------------------------------------------------------------------------------------------------


def _sgd_plain(p, g, lr, momentum, keep, decay, flags):
    return (p - lr * direction(g, p, decay, flags),)


def _sgd_heavy(p, g, b, lr, momentum, keep, decay, flags):
    d = direction(g, p, decay, flags)
    v = d if flags & FIRST_STEP else momentum * b + keep * d
    return p - lr * (d + momentum * v if flags & NESTEROV else v), v


def _sgd_numbers(lr, momentum, dampening, weight_decay):
    return lr, momentum, 1.0 - dampening, weight_decay


SGD_FORMULA = StepFormula(((("momentum_buffer",), _sgd_plain), ((), _sgd_heavy)), _sgd_numbers)


# --- Adam and its like -----------------------------------------------------------------------------------------


def _coupled(weight_decay, flags):
    """The decay that is a part of the gradient."""
    return 0.0 if flags & DECOUPLED else weight_decay


def _shrinking(lr, weight_decay, flags):
    """What parameters are multiplied by where they decay apart from the gradient."""
    return 1.0 - lr * weight_decay if flags & DECOUPLED else 1.0


def _moments(d, average, square, w1, b2, w2):
    """The averages of the gradient and of its square."""
    return average + w1 * (d - average), b2 * square + w2 * (d * d)


def _adam(p, g, average, square, rate, shrink, w1, b2, w2, unbias, eps, decay, flags):
    average, square = _moments(direction(g, p, decay, flags), average, square, w1, b2, w2)
    return shrink * p - rate * average / (m.sqrt(square) * unbias + eps), average, square


def _amsgrad(p, g, average, square, top, rate, shrink, w1, b2, w2, unbias, eps, decay, flags):
    average, square = _moments(direction(g, p, decay, flags), average, square, w1, b2, w2)
    top = m.maximum(top, square)
    return shrink * p - rate * average / (m.sqrt(top) * unbias + eps), average, square, top


def _adam_numbers(lr, beta1, beta2, eps, weight_decay, flags, steps):
    return (
        lr / (1.0 - m.pow(beta1, steps)), _shrinking(lr, weight_decay, flags), 1.0 - beta1, beta2, 1.0 - beta2,
        1.0 / m.sqrt(1.0 - m.pow(beta2, steps)), eps, _coupled(weight_decay, flags),
    )  # fmt: skip


ADAM_FORMULA = StepFormula(((("max_exp_avg_sq",), _adam), ((), _amsgrad)), _adam_numbers)


def _adamax(p, g, average, top, rate, w1, b2, eps, decay, flags):
    d = direction(g, p, decay, flags)
    average = average + w1 * (d - average)
    top = m.maximum(b2 * top, m.abs(d) + eps)
    return p - rate * average / top, average, top


def _adamax_numbers(lr, beta1, beta2, eps, weight_decay, steps):
    return lr / (1.0 - m.pow(beta1, steps)), 1.0 - beta1, beta2, eps, weight_decay


ADAMAX_FORMULA = StepFormula((((), _adamax),), _adamax_numbers)


def _nadam(p, g, average, square, now, later, shrink, w1, b2, w2, unbias, eps, decay, flags):
    d = direction(g, p, decay, flags)
    average, square = _moments(d, average, square, w1, b2, w2)
    root = m.sqrt(square * unbias) + eps
    return shrink * p - (now * d + later * average) / root, average, square


def _nadam_momentum(steps, beta1, momentum_decay):
    return beta1 * (1.0 - 0.5 * m.pow(0.96, steps * momentum_decay))


def _nadam_numbers(lr, beta1, beta2, eps, weight_decay, momentum_decay, flags, mu_product, steps):
    mu = _nadam_momentum(steps, beta1, momentum_decay)
    following = _nadam_momentum(steps + 1.0, beta1, momentum_decay)
    return (
        lr * (1.0 - mu) / (1.0 - mu_product), lr * following / (1.0 - mu_product * following),
        _shrinking(lr, weight_decay, flags), 1.0 - beta1, beta2, 1.0 - beta2, 1.0 / (1.0 - m.pow(beta2, steps)), eps,
        _coupled(weight_decay, flags),
    )  # fmt: skip


NADAM_FORMULA = StepFormula((((), _nadam),), _nadam_numbers, (("mu_product", _nadam_momentum),))


def _radam(p, g, average, square, rate, adapts, shrink, w1, b2, w2, unbias, eps, decay, flags):
    average, square = _moments(direction(g, p, decay, flags), average, square, w1, b2, w2)
    scale = m.where(adapts > c(0), unbias / (m.sqrt(square) + eps), c(1))
    return shrink * p - rate * average * scale, average, square


def _radam_numbers(lr, beta1, beta2, eps, weight_decay, flags, steps):
    fading = m.pow(beta2, steps)
    longest = 2.0 / (1.0 - beta2) - 1.0
    length = longest - 2.0 * steps * fading / (1.0 - fading)
    adapts = length > 5.0
    below = m.where(adapts, (longest - 4.0) * (longest - 2.0) * length, 1.0)
    rect = m.sqrt(m.where(adapts, (length - 4.0) * (length - 2.0) * longest / below, 0.0))
    return (
        lr / (1.0 - m.pow(beta1, steps)), m.where(adapts, 1.0, 0.0), _shrinking(lr, weight_decay, flags), 1.0 - beta1,
        beta2, 1.0 - beta2, rect * m.sqrt(1.0 - fading), eps, _coupled(weight_decay, flags),
    )  # fmt: skip


RADAM_FORMULA = StepFormula((((), _radam),), _radam_numbers)


# --- roots of squares ------------------------------------------------------------------------------------------


def _rms_plain(p, g, square, lr, alpha, rest, eps, decay, momentum, flags):
    d = direction(g, p, decay, flags)
    square = alpha * square + rest * (d * d)
    return p - lr * (d / (m.sqrt(square) + eps)), square


def _rms_heavy(p, g, square, b, lr, alpha, rest, eps, decay, momentum, flags):
    d = direction(g, p, decay, flags)
    square = alpha * square + rest * (d * d)
    change = momentum * b + d / (m.sqrt(square) + eps)
    return p - lr * change, square, change


def _rms_centered(p, g, square, average, lr, alpha, rest, eps, decay, momentum, flags):
    d = direction(g, p, decay, flags)
    square = alpha * square + rest * (d * d)
    average = average + rest * (d - average)
    return p - lr * (d / (m.sqrt(square - average * average) + eps)), square, average


def _rms_both(p, g, square, b, average, lr, alpha, rest, eps, decay, momentum, flags):
    d = direction(g, p, decay, flags)
    square = alpha * square + rest * (d * d)
    average = average + rest * (d - average)
    change = momentum * b + d / (m.sqrt(square - average * average) + eps)
    return p - lr * change, square, change, average


def _rms_numbers(lr, alpha, eps, weight_decay, momentum):
    return lr, alpha, 1.0 - alpha, eps, weight_decay, momentum


RMSPROP_FORMULA = StepFormula(
    (
        (("momentum_buffer", "grad_avg"), _rms_plain), (("grad_avg",), _rms_heavy),
        (("momentum_buffer",), _rms_centered), ((), _rms_both),
    ),
    _rms_numbers,
)  # fmt: skip


def _adagrad(p, g, total, lr, eps, decay, flags):
    d = direction(g, p, decay, flags)
    total = total + d * d
    return p - lr * d / (m.sqrt(total) + eps), total


def _adagrad_numbers(lr, lr_decay, eps, weight_decay, steps):
    return lr / (1.0 + (steps - 1.0) * lr_decay), eps, weight_decay


ADAGRAD_FORMULA = StepFormula((((), _adagrad),), _adagrad_numbers)


def _adadelta(p, g, square, changes, lr, rho, rest, eps, decay, flags):
    d = direction(g, p, decay, flags)
    square = rho * square + rest * (d * d)
    change = m.sqrt(changes + eps) / m.sqrt(square + eps) * d
    return p - lr * change, square, rho * changes + rest * (change * change)


def _adadelta_numbers(lr, rho, eps, weight_decay):
    return lr, rho, 1.0 - rho, eps, weight_decay


ADADELTA_FORMULA = StepFormula((((), _adadelta),), _adadelta_numbers)


# --- others ----------------------------------------------------------------------------------------------------


def _rprop(p, g, before, size, down, up, least, most, flags):
    d = -g if flags & MAXIMIZE else g
    agrees = m.sign(d * before)
    factor = m.where(agrees > c(0), up, m.where(agrees < c(0), down, m.where(agrees == c(0), c(1), agrees)))
    size = m.minimum(m.maximum(size * factor, least), most)
    d = m.where(agrees < c(0), c(0), d)
    return p - m.sign(d) * size, d, size


def _rprop_numbers(etaminus, etaplus, step_size_min, step_size_max):
    return etaminus, etaplus, step_size_min, step_size_max


RPROP_FORMULA = StepFormula((((), _rprop),), _rprop_numbers)


def _asgd(p, g, average, shrink, eta, mu, decay, flags):
    p = shrink * p - eta * direction(g, p, decay, flags)
    return p, (average + (p - average) * mu if mu != c(1) else p)


def _asgd_numbers(eta, mu, lambd, weight_decay):
    return 1.0 - lambd * eta, eta, mu, weight_decay


ASGD_FORMULA = StepFormula((((), _asgd),), _asgd_numbers)


def _asgd_rates(eta, mu, next_eta, next_mu):
    return next_eta, next_mu


def _asgd_rate_numbers(lr, lambd, alpha, t0, steps):
    return lr / m.pow(1.0 + lambd * lr * steps, alpha), 1.0 / m.maximum(1.0, steps - t0)


ASGD_RATE_FORMULA = StepFormula((((), _asgd_rates),), _asgd_rate_numbers)
