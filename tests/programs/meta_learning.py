"""MAML: gradients through three inner steps of gradient descent."""

import numpy as np
import torch

rng = np.random.default_rng(6)
theta = [torch.tensor(rng.standard_normal(s) * 0.3, requires_grad=True) for s in ((1, 8), (8,), (8, 1), (1,))]


def forward(p, x):
    return torch.tanh(x @ p[0] + p[1]) @ p[2] + p[3]


outer = torch.optim.Adagrad(theta, lr=0.05)
result = []
for task in range(4):
    x = torch.tensor(rng.uniform(-3, 3, (10, 1)))
    y = torch.sin(x + task)
    fast = theta
    for _ in range(3):
        inner = (forward(fast, x[:5]) - y[:5]).pow(2).mean()
        gradients = torch.autograd.grad(inner, fast, create_graph=True)
        fast = [p - 0.05 * g for p, g in zip(fast, gradients, strict=True)]
    loss = (forward(fast, x[5:]) - y[5:]).pow(2).mean()
    outer.zero_grad()
    loss.backward()
    outer.step()
    result.append(loss.item())
result += [t.sum().item() for t in theta]
