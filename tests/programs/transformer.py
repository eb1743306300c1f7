"""A transformer encoder layer with a mask, trained by AdamW with a cosine schedule."""

import numpy as np
import torch

nn = torch.nn
rng = np.random.default_rng(4)
layer = nn.TransformerEncoderLayer(
    8, 2, dim_feedforward=16, dropout=0.0, batch_first=True, norm_first=True
).double()
head = nn.Linear(8, 4).double()
parameters = [*layer.parameters(), *head.parameters()]
with torch.no_grad():
    for p in parameters:
        p.copy_(torch.from_numpy(rng.standard_normal(tuple(p.shape)) * 0.3))
x = torch.from_numpy(rng.standard_normal((3, 5, 8)))
y = torch.from_numpy(rng.integers(0, 4, (3, 5)))
mask = torch.triu(torch.ones(5, 5), diagonal=1).bool()
padding = torch.tensor([[False] * 5, [False] * 4 + [True], [False] * 3 + [True] * 2])
optimizer = torch.optim.AdamW(parameters, lr=1e-2, weight_decay=0.1)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10)
result = []
for _ in range(6):
    optimizer.zero_grad()
    logits = head(layer(x, src_mask=mask, src_key_padding_mask=padding))
    loss = nn.functional.cross_entropy(logits.permute(0, 2, 1), y.masked_fill(padding, -100))
    loss.backward()
    optimizer.step()
    schedule.step()
    result += [loss.item(), schedule.get_last_lr()[0]]
