"""Sparse relatives of softmax, and losses of them."""

import torch
from entmax import entmax15, entmax15_loss, entmax_bisect, sparsemax, sparsemax_loss

x = (torch.arange(15, dtype=torch.float32) * 0.37).sin().view(3, 5).mul(2).requires_grad_()
weights = torch.arange(15, dtype=torch.float32).cos().view(3, 5)
for function in (sparsemax, entmax15, entmax_bisect):
    y = function(x, dim=-1)
    print(function.__name__, y.detach(), torch.autograd.grad((y * weights).sum(), x)[0])
for function in (sparsemax_loss, entmax15_loss):
    loss = function(x, torch.tensor([1, 2, 3])).sum()
    print(function.__name__, loss.detach(), torch.autograd.grad(loss, x)[0])
alpha = torch.tensor(1.3, requires_grad=True)
entmax_bisect(x, alpha)[0, 0].backward()
print(alpha.grad)
