"""An activation of the user's own as an autograd.Function, with second derivatives."""

import numpy as np
import torch


class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, beta):
        s = torch.sigmoid(beta * x)
        ctx.save_for_backward(x, s)
        ctx.beta = beta
        return x * s

    @staticmethod
    def backward(ctx, grad):
        x, s = ctx.saved_tensors
        s = torch.sigmoid(ctx.beta * x)
        return grad * (s + ctx.beta * x * s * (1 - s)), None


x = torch.tensor(np.linspace(-3, 3, 7), requires_grad=True)
y = Swish.apply(x, 1.5)
(g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
(h,) = torch.autograd.grad((g * g).sum(), x)
result = y.tolist() + g.tolist() + h.tolist()
result.append(float(torch.autograd.gradcheck(lambda t: Swish.apply(t, 1.5), x)))
