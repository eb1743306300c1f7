"""Logistic regression by gradient descent, the update written out."""

import numpy as np
import torch

rng = np.random.default_rng(0)
x = torch.tensor(rng.standard_normal((40, 3)))
y = (x @ torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64) + 0.1 > 0).double()
w = torch.zeros(3, dtype=torch.float64, requires_grad=True)
b = torch.zeros((), dtype=torch.float64, requires_grad=True)
result = []
for _ in range(25):
    p = torch.sigmoid(x @ w + b)
    loss = -(y * torch.log(p) + (1 - y) * torch.log(1 - p)).mean() + 0.01 * (w**2).sum()
    loss.backward()
    with torch.no_grad():
        for t in (w, b):
            t -= 0.5 * t.grad
            t.grad.zero_()
    result.append(loss.item())
result += [*w.tolist(), b.item()]
