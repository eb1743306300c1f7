"""An inner loop whose steps are differentiated."""

import higher
import torch
import torch.nn as nn

model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
with torch.no_grad():
    for i, p in enumerate(model.parameters()):
        p.copy_((torch.arange(p.numel(), dtype=torch.float32) + i).sin().view_as(p))
opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
x, y = torch.arange(8, dtype=torch.float32).view(4, 2).sin(), torch.ones(4, 1)
with higher.innerloop_ctx(model, opt, copy_initial_weights=False) as (fmodel, diffopt):
    for _ in range(3):
        loss = ((fmodel(x) - y) ** 2).mean()
        diffopt.step(loss)
    outer = ((fmodel(x) - y) ** 2).mean()
    print([g.norm() for g in torch.autograd.grad(outer, list(fmodel.parameters(time=0)))], outer)
