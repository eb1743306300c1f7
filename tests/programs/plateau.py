"""A rate that falls when nothing improves; weight norm; parameter groups that are added later."""

import numpy as np
import torch

nn = torch.nn
rng = np.random.default_rng(9)
layer = nn.utils.parametrizations.weight_norm(nn.Linear(3, 4).double())
bias = nn.Parameter(torch.zeros(4, dtype=torch.float64))
with torch.no_grad():
    for p in layer.parameters():
        p.copy_(torch.from_numpy(rng.standard_normal(tuple(p.shape))))
optimizer = torch.optim.SGD(layer.parameters(), lr=0.2)
optimizer.add_param_group({"params": [bias], "lr": 0.01, "momentum": 0.5})
schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.1, patience=1, threshold=1e-2)
x = torch.from_numpy(rng.standard_normal((9, 3)))
y = torch.from_numpy(rng.standard_normal((9, 4)))
result = [n for n, _ in layer.named_parameters()]
for _ in range(12):
    loss = nn.functional.l1_loss(layer(x) + bias, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step(loss.item())
    result += [loss.item(), *(g["lr"] for g in optimizer.param_groups)]
nn.utils.parametrize.remove_parametrizations(layer, "weight")
result += [n for n, _ in layer.named_parameters()]
result += nn.utils.parameters_to_vector(layer.parameters()).tolist()
