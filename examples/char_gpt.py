"""Train a small GPT on the characters of Python's own documentation, and let it write.

    python examples/char_gpt.py

The text is `pydoc_data.topics`, 465,000 characters of English prose that come with Python.
"""

from __future__ import annotations

import math
import pydoc_data.topics

import common
import matplotlib.pyplot as plt
import models

import fastgrad as fg
import fastgrad.nn.functional as F
from fastgrad import nn, optim


class Text:
    """A text as character numbers, the last tenth of it to test on."""

    def __init__(self, text: str) -> None:
        self.letters = sorted(set(text))
        numbers = {letter: k for k, letter in enumerate(self.letters)}
        whole = fg.tensor([numbers[letter] for letter in text])
        split = len(text) * 9 // 10
        self.train, self.test = whole[:split], whole[split:]

    def batch(self, part: fg.Tensor, size: int, context: int) -> tuple[fg.Tensor, fg.Tensor]:
        """Random pieces (size, context) and the characters that follow each of theirs."""
        starts = fg.randint(0, len(part) - context, (size, 1)) + fg.arange(context)
        return part[starts], part[starts + 1]


def loss_of(model: nn.Module, inputs: fg.Tensor, targets: fg.Tensor) -> fg.Tensor:
    """The mean cross entropy of the next characters."""
    logits = model(inputs)
    return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


def held_out_loss(model: models.GPT, text: Text, batch: int, rounds: int = 8) -> float:
    """The loss on the test text, the mean of some batches."""
    with fg.no_grad():
        pieces = (text.batch(text.test, batch, model.context) for _ in range(rounds))
        return sum(loss_of(model, *piece).item() for piece in pieces) / rounds


def optimizer_for(
    model: nn.Module, rate: float, steps: int
) -> tuple[optim.Optimizer, optim.lr_scheduler.LambdaLR]:
    """AdamW with weight decay on matrices alone; the rate rises over a tenth of the steps, then falls as a cosine."""
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimizer = optim.AdamW(groups, lr=rate, betas=(0.9, 0.99))
    warm = max(steps // 10, 1)

    def factor(step: int) -> float:
        if step < warm:
            return (step + 1) / warm
        return 0.1 + 0.45 * (1 + math.cos(math.pi * (step - warm) / max(steps - warm, 1)))

    return optimizer, optim.lr_scheduler.LambdaLR(optimizer, factor)


def train(
    model: models.GPT, text: Text, steps: int, batch: int, rate: float
) -> tuple[list[float], list[tuple[int, float]]]:
    """Train; the loss of each step, and that on the test text every now and then."""
    optimizer, schedule = optimizer_for(model, rate, steps)
    losses: list[float] = []
    tests: list[tuple[int, float]] = []
    every = max(steps // 10, 1)
    for step, said in common.track(range(steps), steps, "step"):
        optimizer.zero_grad()
        loss = loss_of(model, *text.batch(text.train, batch, model.context))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        if (step + 1) % every == 0:
            tests.append((step + 1, held_out_loss(model, text, batch)))
        said.update(loss=f"{losses[-1]:.3f}", **({"test": f"{tests[-1][1]:.3f}"} if tests else {}))
    return losses, tests


def write(model: models.GPT, text: Text, start: str, length: int, temperature: float = 0.8) -> str:
    """Continue a text, one character after the other."""
    numbers = fg.tensor([[text.letters.index(letter) for letter in start]])
    with fg.no_grad():
        for _ in range(length):
            logits = model(numbers[:, -model.context :])[:, -1] / temperature
            following = fg.multinomial(F.softmax(logits, -1), 1)
            numbers = fg.cat((numbers, following), 1)
    return "".join(text.letters[k] for k in numbers[0].tolist())


def main(arguments: list[str] | None = None) -> float:
    """Train, draw the loss, print a sample. Returns the last loss on the test text."""
    parser = common.parser(__doc__, "char_gpt.png")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--context", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--rate", type=float, default=2e-3, help="the highest learning rate (default 0.002)")
    parser.add_argument("--sample", type=int, default=400, help="characters to write at the end")
    given = parser.parse_args(arguments)
    fg.manual_seed(given.seed)
    text = Text("\n".join(pydoc_data.topics.topics.values()))
    model = models.GPT(len(text.letters), given.context, given.layers, given.width, given.heads)
    count = sum(p.numel() for p in model.parameters())
    common.console.print(f"{count:,} parameters, {len(text.train):,} characters to train on")
    losses, tests = train(model, text, given.steps, given.batch, given.rate)
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    axes.plot(losses, alpha=0.45, linewidth=0.8, label="training text, each step")
    axes.plot(*zip(*tests, strict=True), "o-", label="test text")
    axes.set(xlabel="step", ylabel="cross entropy of the next character", title="A character-level GPT")
    axes.legend()
    common.saved(figure, given.out)
    common.console.rule("what it writes")
    common.console.print(write(model, text, "The ", given.sample), markup=False, highlight=False)
    return tests[-1][1]


if __name__ == "__main__":
    main()
