"""Stochastic differential equations, here without noise, and gradients through their solvers."""

import torch
import torchsde


class Equation(torch.nn.Module):
    noise_type, sde_type = "diagonal", "ito"

    def __init__(self):
        super().__init__()
        self.drift = torch.nn.Linear(3, 3)
        with torch.no_grad():
            for p in self.parameters():
                p.copy_(torch.arange(p.numel(), dtype=torch.float32).sin().view_as(p))

    def f(self, t, y):
        return self.drift(y).tanh()

    def g(self, t, y):
        return torch.zeros_like(y)


equation, times = Equation(), torch.linspace(0, 1, 5)
start = torch.arange(12, dtype=torch.float32).cos().view(4, 3)
for solve in (torchsde.sdeint, torchsde.sdeint_adjoint):
    equation.zero_grad()
    path = solve(equation, start, times, method="euler", dt=0.25)
    path.sum().backward()
    print(solve.__name__, path[-1, 0].detach(), equation.drift.weight.grad)
