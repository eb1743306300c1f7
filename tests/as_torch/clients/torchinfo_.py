"""A table of layers."""

import torch.nn as nn
from torchinfo import summary

model = nn.Sequential(
    nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(4 * 3 * 3, 10)
)
print(
    summary(
        model,
        input_size=(2, 1, 8, 8),
        col_names=("input_size", "output_size", "num_params", "mult_adds"),
        verbose=0,
    )
)
