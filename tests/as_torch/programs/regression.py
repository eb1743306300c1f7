"""A line through the powers of numbers: gradients by backward, steps by hand."""

from itertools import count

import torch
import torch.nn.functional as F

POLY_DEGREE = 4
W_target = torch.tensor([[0.5], [-1.0], [2.0], [0.25]])
b_target = torch.tensor([1.5])


def make_features(x):
    """[x, x^2, x^3, x^4] in columns."""
    x = x.unsqueeze(1)
    return torch.cat([x**i for i in range(1, POLY_DEGREE + 1)], 1)


def f(x):
    return x.mm(W_target) + b_target.item()


def poly_desc(W, b):
    result = "y = "
    for i, w in enumerate(W):
        result += f"{w:+.2f} x^{i + 1} "
    return result + f"{b[0]:+.2f}"


def get_batch(number, batch_size=32):
    x = make_features(torch.sin(torch.arange(batch_size, dtype=torch.get_default_dtype()) * 0.7 + number))
    return x, f(x)


fc = torch.nn.Linear(W_target.size(0), 1)
torch.nn.init.constant_(fc.weight, 0.1)
torch.nn.init.zeros_(fc.bias)
for batch_idx in count(1):
    batch_x, batch_y = get_batch(batch_idx)
    fc.zero_grad()
    output = F.smooth_l1_loss(fc(batch_x), batch_y)
    loss = output.item()
    output.backward()
    for param in fc.parameters():
        param.data.add_(-0.1 * param.grad)
    if loss < 1e-3 or batch_idx == 200:
        break
print(f"Loss: {loss:.6f} after {batch_idx} batches")
print("==> Learned function:\t" + poly_desc(fc.weight.view(-1), fc.bias))
print("==> Actual function:\t" + poly_desc(W_target.view(-1), b_target))
