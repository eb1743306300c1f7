"""A small network learns what a larger one says: KL divergence, frozen parameters, in-place ops."""

import numpy as np
import torch

nn, F = torch.nn, torch.nn.functional
rng = np.random.default_rng(10)
teacher = (
    nn.Sequential(nn.Linear(6, 12), nn.ReLU(inplace=True), nn.Linear(12, 5)).double().requires_grad_(False)
)
student = nn.Sequential(nn.Linear(6, 4), nn.LeakyReLU(0.1), nn.Linear(4, 5)).double()
with torch.no_grad():
    for p in [*teacher.parameters(), *student.parameters()]:
        p.copy_(torch.from_numpy(rng.standard_normal(tuple(p.shape)) * 0.5))
x = torch.from_numpy(rng.standard_normal((10, 6)))
optimizer = torch.optim.SGD([p for p in student.parameters() if p.requires_grad], lr=0.3)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.5, total_steps=8, cycle_momentum=False)
result = []
for _ in range(8):
    with torch.no_grad():
        target = F.softmax(teacher(x) / 2, dim=1)
    loss = F.kl_div(F.log_softmax(student(x) / 2, dim=1), target, reduction="batchmean") * 4
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_value_(student.parameters(), 0.05)
    optimizer.step()
    schedule.step()
    result += [loss.item(), optimizer.param_groups[0]["lr"]]
result += [p.requires_grad for p in teacher.parameters()]
