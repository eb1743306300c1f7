"""Training with differential privacy: gradients of each sample, clipped, and noise; what it costs."""

import warnings

import torch
from opacus import GradSampleModule, PrivacyEngine
from opacus.accountants import RDPAccountant
from opacus.validators import ModuleValidator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

warnings.simplefilter("ignore")
x = (torch.arange(48.0).reshape(12, 4) * 37 % 11) / 11
y = torch.arange(12) % 2


def model():
    net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2))
    with torch.no_grad():
        for p in net.parameters():
            p.copy_((torch.arange(float(p.numel())).reshape(p.shape) * 7 % 5 - 2) / 5)
    return net


sampled = GradSampleModule(model())
nn.functional.cross_entropy(sampled(x), y).backward()
for name, p in sampled.named_parameters():
    print(name, tuple(p.grad_sample.shape), p.grad_sample.norm().item().__round__(4))
sampled.remove_hooks()

for clipping in ("flat", "per_layer"):
    net = model()
    engine = PrivacyEngine()
    norm = 0.5 if clipping == "flat" else [0.5] * 4
    net, optimizer, loader = engine.make_private(
        module=net,
        optimizer=torch.optim.SGD(net.parameters(), lr=0.1),
        data_loader=DataLoader(TensorDataset(x, y), batch_size=4),
        noise_multiplier=0.0,
        max_grad_norm=norm,
        clipping=clipping,
        poisson_sampling=False,
    )
    for features, labels in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(features), labels)
        loss.backward()
        optimizer.step()
        print(clipping, round(loss.item(), 4))

accountant = RDPAccountant()
for _ in range(10):
    accountant.step(noise_multiplier=1.1, sample_rate=0.05)
print(round(accountant.get_epsilon(delta=1e-5), 4))

layers = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8))
print(ModuleValidator.validate(layers, strict=False))
print(ModuleValidator.fix(layers))
