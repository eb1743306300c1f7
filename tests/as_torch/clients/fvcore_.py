"""Parameters of a network, and smooth losses."""

import torch
import torch.nn as nn
from fvcore.nn import giou_loss, parameter_count, parameter_count_table, sigmoid_focal_loss, smooth_l1_loss
from fvcore.nn.weight_init import c2_xavier_fill

model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Linear(4, 2))
c2_xavier_fill(model[0])
print(dict(parameter_count(model)))
print(parameter_count_table(model))
x = torch.arange(6, dtype=torch.float32).sin()
print(
    smooth_l1_loss(x, x * 0.5, beta=0.1, reduction="sum"),
    sigmoid_focal_loss(x, (x > 0).float(), alpha=0.25).mean(),
)
print(giou_loss(torch.tensor([[0.0, 0, 2, 2]]), torch.tensor([[1.0, 1, 3, 3]])))
