"""A convolutional autoencoder with transposed convolutions and a variational middle."""

import numpy as np
import torch

nn, F = torch.nn, torch.nn.functional
rng = np.random.default_rng(7)
encoder = nn.Sequential(
    nn.Conv2d(2, 4, 3, stride=2, padding=1),
    nn.GroupNorm(2, 4),
    nn.SiLU(),
    nn.Conv2d(4, 6, 3, stride=2, padding=1),
)
decoder = nn.Sequential(
    nn.ConvTranspose2d(3, 4, 4, stride=2, padding=1),
    nn.GELU(),
    nn.ConvTranspose2d(4, 2, 4, stride=2, padding=1),
)
model = nn.ModuleDict({"encoder": encoder, "decoder": decoder}).double()
with torch.no_grad():
    for p in model.parameters():
        p.copy_(torch.from_numpy(rng.standard_normal(tuple(p.shape)) * 0.3))
x = torch.from_numpy(rng.random((3, 2, 8, 8)))
noise = torch.from_numpy(rng.standard_normal((3, 3, 2, 2)))
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, amsgrad=True)
result = []
for _ in range(6):
    mean, logvar = model["encoder"](x).chunk(2, dim=1)
    z = mean + (0.5 * logvar).exp() * noise
    out = model["decoder"](z)
    likelihood = F.binary_cross_entropy_with_logits(out, x, reduction="sum")
    divergence = -0.5 * torch.sum(1 + logvar - mean.pow(2) - logvar.exp())
    loss = (likelihood + divergence) / len(x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    result.append(loss.item())
