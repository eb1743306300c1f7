"""Packing saved tensors as float32 and as NumPy arrays, and checkpointing."""

import numpy as np
import torch
import torch.utils.checkpoint

packed = []


def pack(t):
    packed.append(tuple(t.shape))
    return t.detach().numpy().copy()


def unpack(a):
    return torch.from_numpy(a)


x = torch.tensor(np.linspace(0.1, 1.0, 6).reshape(2, 3), requires_grad=True)
with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
    y = (x.exp() * x.sin()).sum() + (x @ x.t()).tanh().sum()
y.backward()
result = [*x.grad.flatten().tolist(), str(packed)]

checkpoint = torch.utils.checkpoint.checkpoint
layer = torch.nn.Linear(3, 3).double()
with torch.no_grad():
    layer.weight.copy_(torch.arange(9.0).reshape(3, 3) / 9)
    layer.bias.zero_()
calls = []


def block(t):
    calls.append(1)
    return torch.tanh(layer(t)) * t


x.grad = None
z = checkpoint(block, checkpoint(block, x, use_reentrant=False), use_reentrant=False)
z.sum().backward()
result += [len(calls), *x.grad.flatten().tolist(), *layer.weight.grad.flatten().tolist()]
