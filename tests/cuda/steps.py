"""A step of training on a GPU, and what replays of it ask of the driver."""

from __future__ import annotations

import itertools

import numpy as np

import fastgrad as fg
import fastgrad.nn.functional as F
from fastgrad.native.host.tape import record

OPTIMIZERS = {
    "sgd": lambda p: fg.optim.SGD(p, lr=0.1),
    "momentum": lambda p: fg.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
    "adam": lambda p: fg.optim.Adam(p, lr=0.01),
    "adamw": lambda p: fg.optim.AdamW(p, lr=0.01),
}
ONE_CALL = {"cuGraphLaunch": 1}


def settle():
    """Let graphs that were dropped go: the device looks when it makes another one."""
    for gpu in range(fg.cuda.device_count()):
        x = fg.ones(2, device=f"cuda:{gpu}")
        with record() as tape:
            x.add_(1)
            x.add_(1)
        tape.replay()
        fg.cuda.synchronize(gpu)
        del tape


def calls_of(driver, function):
    """What a function asks of the driver, but for the context that is current."""
    before = driver.calls.copy()
    function()
    return {name: n for name, n in (driver.calls - before).items() if not name.startswith("cuCtx")}


def make_model(name, loss="mse", p=0.0):
    """A step of training of a small net, the same at every call: parameters, the step and the number of steps."""
    rng = np.random.default_rng(0)
    sizes = (8, 16, 16, 4)
    values = [rng.standard_normal((a, b)) / a**0.5 for a, b in itertools.pairwise(sizes)]
    values += [np.zeros(b) for b in sizes[1:]]
    params = [fg.tensor(v.astype(np.float32), device="cuda", requires_grad=True) for v in values]
    x = fg.tensor(rng.standard_normal((32, 8)).astype(np.float32), device="cuda")
    y = fg.tensor(rng.integers(0, 4, 32), device="cuda")
    optimizer = OPTIMIZERS[name](params)
    fg.manual_seed(5)

    def step():
        optimizer.zero_grad()
        h = x
        for k in range(3):
            h = h @ params[k] + params[3 + k]
            if k < 2:
                h = F.dropout(F.relu(h), p) if p else F.relu(h)
        out = F.cross_entropy(h, y) if loss == "classes" else ((h - 1.0) ** 2).mean()
        out.backward()
        optimizer.step()
        return out.detach()

    return params, step


def eager(n, *how):
    params, step = make_model(*how)
    return [step().item() for _ in range(n)], [p.tolist() for p in params]


def check_one_call(driver, n_replays, *model):
    """Replays of a tape of a step are one call each, and train as eager steps do."""
    losses, weights = eager(n_replays + 2, *model)
    params, step = make_model(*model)
    seen = [step().item()]
    with record() as tape:
        loss = step()
    seen.append(loss.item())
    for k in range(n_replays):
        calls = calls_of(driver, tape.replay)
        assert k == 0 or calls == ONE_CALL
        seen.append(loss.item())
    assert seen == losses
    assert [p.tolist() for p in params] == weights
