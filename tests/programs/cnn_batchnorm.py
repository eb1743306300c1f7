"""A CNN with batch norm, dropout off in eval mode, Adam; training, then evaluation."""

import numpy as np
import torch

nn, F = torch.nn, torch.nn.functional
rng = np.random.default_rng(2)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(4)
        self.conv2 = nn.Conv2d(4, 8, 3, stride=2, bias=False)
        self.bn2 = nn.BatchNorm2d(8)
        self.drop = nn.Dropout(0.5)
        self.fc = nn.Linear(8, 3)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 2)
        x = F.relu(self.bn2(self.conv2(x)))
        x = F.adaptive_avg_pool2d(x, 1).flatten(1)
        return self.fc(self.drop(x))


net = Net().double()
with torch.no_grad():
    for p in net.parameters():
        p.copy_(torch.from_numpy(rng.standard_normal(tuple(p.shape)) * 0.5))
x = torch.from_numpy(rng.standard_normal((6, 1, 12, 12)))
y = torch.from_numpy(rng.integers(0, 3, 6))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
result = []
net.drop.p = 0.0
for _ in range(8):
    optimizer.zero_grad(set_to_none=True)
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
    result.append(loss.item())
net.drop.p = 0.5
net.eval()
with torch.no_grad():
    result += net(x).flatten().tolist()
result += net.bn1.running_mean.tolist() + net.bn2.running_var.tolist() + [net.bn1.num_batches_tracked.item()]
