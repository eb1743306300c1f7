"""Which inputs matter: attributions of a small network."""

import torch
import torch.nn as nn
from captum.attr import (
    DeepLift,
    FeatureAblation,
    GuidedBackprop,
    InputXGradient,
    IntegratedGradients,
    LayerConductance,
    LayerGradCam,
    Occlusion,
    Saliency,
)


class ToyModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin1, self.relu, self.lin2 = nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 2)
        self.lin1.weight = nn.Parameter(torch.arange(-4.0, 5.0).view(3, 3))
        self.lin1.bias = nn.Parameter(torch.zeros(1, 3))
        self.lin2.weight = nn.Parameter(torch.arange(-3.0, 3.0).view(2, 3))
        self.lin2.bias = nn.Parameter(torch.ones(1, 2))

    def forward(self, input):
        return self.lin2(self.relu(self.lin1(input)))


model = ToyModel()
model.eval()
input = torch.tensor([[0.5, 0.25, 1.0], [0.1, 0.9, -0.3]])
baseline = torch.zeros(2, 3)
attributions, delta = IntegratedGradients(model).attribute(
    input, baseline, target=0, return_convergence_delta=True
)
print("IG", attributions, delta.abs().max() < 1e-3)
attributions, delta = DeepLift(model).attribute(input, baseline, target=0, return_convergence_delta=True)
print("DeepLift", attributions, delta)
for kind in (Saliency, InputXGradient, GuidedBackprop, FeatureAblation):
    print(kind.__name__, kind(model).attribute(input, target=1))
print("Occlusion", Occlusion(model).attribute(input, sliding_window_shapes=(1,), target=0))
print("LayerConductance", LayerConductance(model, model.lin1).attribute(input, baselines=baseline, target=0))
conv = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8, 2))
with torch.no_grad():
    for i, p in enumerate(conv.parameters()):
        p.copy_((torch.arange(p.numel(), dtype=torch.float32) + i).sin().view_as(p))
print("GradCam", LayerGradCam(conv, conv[0]).attribute(torch.ones(1, 1, 4, 4), target=0))
