"""A spiral, and the gradient of where it ends."""

import torch
import torch.nn as nn
from torchdiffeq import odeint, odeint_adjoint


class Spiral(nn.Module):
    def __init__(self):
        super().__init__()
        self.A = nn.Parameter(torch.tensor([[-0.1, 2.0], [-2.0, -0.1]], dtype=torch.float64))

    def forward(self, t, y):
        return torch.mm(y**3, self.A)


y0, t = torch.tensor([[2.0, 0.0]], dtype=torch.float64), torch.linspace(0.0, 1.0, 4, dtype=torch.float64)
for method in ("dopri5", "rk4", "euler", "midpoint", "adaptive_heun"):
    print(method, odeint(Spiral(), y0, t, method=method)[-1])
func = Spiral()
odeint(func, y0, t)[-1].sum().backward()
print(func.A.grad)

func, y0 = Spiral(), y0.requires_grad_()
odeint_adjoint(func, y0, t)[-1].sum().backward()
print(y0.grad, func.A.grad)
