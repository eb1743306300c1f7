"""Operations and parameters of a network."""

import torch
import torch.nn as nn
from thop import clever_format, profile

model = nn.Sequential(
    nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2)
)
macs, params = profile(model, inputs=(torch.randn(1, 3, 8, 8),), verbose=False)
print(macs, params, clever_format([macs, params], "%.3f"))
