"""A picture of a backward graph."""

import torch
from torchviz import make_dot

model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))
dot = make_dot(model(torch.ones(1, 2)).mean(), params=dict(model.named_parameters()))
source = dot.source
print(
    sorted(part.split("]")[0] for part in source.split('label="')[1:] if "Backward" in part)
    or source.count("Backward")
)
