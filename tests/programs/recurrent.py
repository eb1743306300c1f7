"""An LSTM and a GRU that count; gradients clipped by norm."""

import numpy as np
import torch

nn = torch.nn
rng = np.random.default_rng(3)


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(7, 6, padding_idx=0)
        self.lstm = nn.LSTM(6, 5, num_layers=2, batch_first=True, bidirectional=True)
        self.gru = nn.GRU(10, 4)
        self.out = nn.Linear(4, 1)

    def forward(self, x):
        h, (_, c) = self.lstm(self.embed(x))
        h, last = self.gru(h.transpose(0, 1))
        return self.out(last[0]).squeeze(-1) + c.mean()


net = Counter().double()
with torch.no_grad():
    for p in net.parameters():
        p.copy_(torch.from_numpy(rng.standard_normal(tuple(p.shape)) * 0.4))
x = torch.from_numpy(rng.integers(0, 7, (8, 6)))
y = (x == 3).sum(1).double()
optimizer = torch.optim.RMSprop(net.parameters(), lr=1e-2, centered=True)
result = []
for _ in range(6):
    optimizer.zero_grad()
    loss = nn.functional.smooth_l1_loss(net(x), y)
    loss.backward()
    norm = nn.utils.clip_grad_norm_(net.parameters(), 0.5)
    optimizer.step()
    result += [loss.item(), norm.item()]
result += net.embed.weight.grad[0].tolist()
