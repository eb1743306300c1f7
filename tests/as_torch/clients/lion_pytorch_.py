"""An optimizer that steps by signs."""

import torch
from lion_pytorch import Lion

model = torch.nn.Linear(4, 2)
with torch.no_grad():
    for p in model.parameters():
        p.copy_(torch.arange(p.numel(), dtype=torch.float32).sin().view_as(p))
optimizer = Lion(model.parameters(), lr=1e-2, weight_decay=1e-2)
x = torch.arange(12, dtype=torch.float32).cos().view(3, 4)
for _ in range(4):
    optimizer.zero_grad()
    loss = model(x).square().sum()
    loss.backward()
    optimizer.step()
    print(round(loss.item(), 5))
