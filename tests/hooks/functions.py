"""What native hooks of the tests are made of."""

from __future__ import annotations

import fastgrad as fg


def double(grad):
    for i in range(grad.size):
        grad[i] *= 2


def add_one(grad):
    grad += 1


def count(grad, state):
    state[0] += 1
    state[1] += grad.size


def triple_out(grad, out):
    for i in range(grad.size):
        out[i] = 3 * grad[i]


def step(param, grad, state):
    for i in range(param.size):
        param[i] -= state[0] * grad[i]


def gradient(shape=(3,), *hooks, weight=None, dtype=None):
    """The gradient of a leaf with hooks: ones, or a weight."""
    x = fg.zeros(*shape, dtype=dtype, requires_grad=True)
    for hook in hooks:
        x.register_hook(hook)
    (x if weight is None else x * weight).sum().backward()
    return x.grad
