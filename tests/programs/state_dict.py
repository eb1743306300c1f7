"""Saving and restoring: a model and an optimizer go on as if nothing had happened."""

import copy

import numpy as np
import torch

nn = torch.nn
rng = np.random.default_rng(8)


def make():
    return nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6), nn.ELU(), nn.Linear(6, 1)).double()


model = make()
with torch.no_grad():
    for p in model.parameters():
        p.copy_(torch.from_numpy(rng.standard_normal(tuple(p.shape)) * 0.5))
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
x, y = (torch.from_numpy(rng.standard_normal(s)) for s in ((12, 4), (12, 1)))


def train(model, optimizer, steps):
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.huber_loss(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


result = train(model, optimizer, 5)
kept = copy.deepcopy({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
result += [*kept["model"], str(sorted(kept["optimizer"]["state"][0]))]
result.append(str(kept["optimizer"]["param_groups"][0]["params"]))
straight = train(model, optimizer, 5)
other = make()
again = torch.optim.Adam(other.parameters(), lr=0.5)
result.append(str(other.load_state_dict(kept["model"])))
again.load_state_dict(kept["optimizer"])
assert train(other, again, 5) == straight
result += straight
try:
    other.load_state_dict({"0.weight": torch.zeros(1), "unknown": torch.zeros(1)})
except RuntimeError as error:
    result += [line.strip() for line in str(error).splitlines()]
