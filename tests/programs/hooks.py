"""Hooks of every kind in one model; what they saw, in order."""

import numpy as np
import torch

nn = torch.nn
log = []


def note(kind):
    def hook(*arguments):
        log.append(kind)

    return hook


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, x, scale=1.0):
        h = torch.relu(self.a(x)) * scale
        if h.requires_grad:
            h.register_hook(note("h"))
        return self.b(h)


net = Net().double()
rng = np.random.default_rng(5)
with torch.no_grad():
    for p in net.parameters():
        p.copy_(torch.from_numpy(rng.standard_normal(tuple(p.shape))))
net.register_forward_pre_hook(
    lambda m, args, kwargs: (args, {"scale": kwargs["scale"] * 2}), with_kwargs=True
)
net.register_forward_hook(lambda m, args, out: out + 1)
net.a.register_full_backward_pre_hook(note("a.pre"))
net.a.register_full_backward_hook(note("a.full"))
net.b.register_full_backward_hook(lambda m, gi, go: (gi[0] * 3,))
net.b.register_full_backward_hook(note("b.full"))
handles = [p.register_post_accumulate_grad_hook(note(n)) for n, p in net.named_parameters()]
handles[0].remove()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
optimizer.register_step_pre_hook(note("step.pre"))
optimizer.register_step_post_hook(note("step.post"))
x = torch.from_numpy(rng.standard_normal((5, 3))).requires_grad_()
x.register_hook(lambda g: g * 10)
loss = net(x, scale=0.5).pow(2).mean()
loss.backward()
optimizer.step()
result = [*log, loss.item(), *x.grad.flatten().tolist(), *(p.grad.sum().item() for p in net.parameters())]
