"""The demo without its data, its pictures and its extra packages: ``python -m fastgrad.demo.rehearsal``.

It asks for all the compiled code that the demo asks for, and for that of a first small network of layers. A wheel is
built with what this leaves in the cache, so that neither waits for a compiler when it is installed.
"""

from __future__ import annotations

import numpy as np

import fastgrad as fg
import fastgrad.nn.functional as F
from fastgrad import nn
from fastgrad.demo import train
from fastgrad.demo.data import CLASSES, SIDE, Digits

WIDE = 512


def digits(count: int) -> Digits:
    """Noise in the form of the demo's data: so many images for the training, and as many for the test."""
    rng = np.random.default_rng(0)
    images = rng.standard_normal((2, count, SIDE * SIDE)).astype(np.float32)
    labels = rng.integers(0, CLASSES, (2, count))
    return Digits(images[0], labels[0], images[1], labels[1], images[1].reshape(-1, SIDE, SIDE))


def run_demo() -> None:
    """Train the demo's network, as the demo does, for one epoch."""
    settings = train.Settings(epochs=1)
    data = digits(2 * settings.batch_size)
    train.finish(train.train(settings, data), data, rounds=1)


def run_layers() -> None:
    """Train layers that first programs are made of, for one step each."""
    net = nn.Sequential(
        nn.Linear(SIDE, SIDE), nn.ReLU(), nn.Dropout(), nn.LayerNorm(SIDE), nn.Linear(SIDE, CLASSES)
    )
    for optimizer in (
        fg.optim.SGD(net.parameters(), lr=0.1, momentum=0.9),
        fg.optim.Adam(net.parameters()),
        fg.optim.AdamW(net.parameters()),
    ):
        optimizer.zero_grad()
        answers = net(fg.randn(SIDE, SIDE))
        loss = F.cross_entropy(answers, fg.randint(0, CLASSES, (SIDE,))) + F.mse_loss(
            answers, fg.zeros_like(answers)
        )
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
    nn.Linear(WIDE, WIDE)(fg.randn(WIDE, WIDE)).sum().backward()  # a large product has a kernel of its own


if __name__ == "__main__":
    run_demo()
    run_layers()
