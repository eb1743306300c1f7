"""Optimizers of many kinds, some of which write numbers before tensors."""

import warnings

import torch
import torch_optimizer

warnings.simplefilter("ignore")
x = (torch.arange(15.0).reshape(5, 3) / 3).cos()
names = (
    "AccSGD", "AdaBound", "AdaMod", "AdamP", "AggMo", "DiffGrad", "Lamb", "NovoGrad", "PID", "QHAdam", "QHM", "RAdam",
    "Ranger", "RangerQH", "RangerVA", "SGDW", "Shampoo", "SWATS", "Yogi",
)  # fmt: skip
for name in names:
    w = (torch.arange(12.0).view(3, 4) * 0.3).sin().requires_grad_()
    b = torch.ones(4, requires_grad=True)
    options = (
        {"epsilon": 1.0} if name == "Shampoo" else {}
    )  # with less, its inverses are of digits that rounding made
    optimizer = getattr(torch_optimizer, name)([w, b], lr=1e-2, **options)
    for _ in range(6):
        optimizer.zero_grad()
        loss = (x @ w + b).square().mean()
        loss.backward()
        optimizer.step()
    print(name, round(loss.item(), 4), [round(value, 3) for value in w.flatten().tolist()[:4]])
