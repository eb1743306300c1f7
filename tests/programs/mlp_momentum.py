"""An MLP trained by SGD with momentum and a step schedule."""

import numpy as np
import torch

nn = torch.nn
rng = np.random.default_rng(1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 16), nn.ReLU())
        self.head = nn.Linear(16, 3)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        self.calls += 1
        return self.head(self.body(x))


net = Net().double()
with torch.no_grad():
    for p in net.parameters():
        p.copy_(torch.from_numpy(rng.standard_normal(tuple(p.shape)) * 0.3))
x = torch.from_numpy(rng.standard_normal((32, 5)))
y = torch.from_numpy(rng.integers(0, 3, 32))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-3, nesterov=True)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=5, gamma=0.5)
criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
result = []
for _ in range(15):
    optimizer.zero_grad()
    loss = criterion(net(x), y)
    loss.backward()
    optimizer.step()
    schedule.step()
    result += [loss.item(), schedule.get_last_lr()[0]]
result.append(net.calls.item())
result.append(sum(p.numel() for p in net.parameters()))
result += [v.double().sum().item() for v in net.state_dict().values()]
