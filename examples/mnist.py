"""Train an MLP or a CNN on 5,000 MNIST digits.

    python examples/mnist.py --model cnn

draws the curves of the training and the test digits that the network gets wrong.
"""

from __future__ import annotations

import common
import matplotlib.pyplot as plt
import models
from matplotlib.ticker import MaxNLocator

import fastgrad as fg
import fastgrad.nn.functional as F
from fastgrad import nn, optim
from fastgrad.viz.style import SERIES, WRONG

MODELS = {"mlp": models.mlp, "cnn": models.CNN, "lstm": models.RowLSTM}


def accuracy(model: nn.Module, images: fg.Tensor, labels: fg.Tensor) -> tuple[float, fg.Tensor]:
    """The part of images that a network gets right, and its classes."""
    model.eval()
    with fg.no_grad():
        found = fg.cat([model(part).argmax(1) for part in images.split(500)])
    model.train()
    return (found == labels).float().mean().item(), found


def train(
    model: nn.Module,
    data: tuple[fg.Tensor, fg.Tensor, fg.Tensor, fg.Tensor],
    epochs: int,
    batch: int,
    rate: float,
) -> tuple[list[float], list[float]]:
    """Train with Adam and a learning rate that rises and falls; the loss of each step, the accuracy of each epoch."""
    images, labels, test_images, test_labels = data
    steps = epochs * (len(labels) // batch)
    optimizer = optim.Adam(model.parameters(), lr=rate)
    schedule = optim.lr_scheduler.OneCycleLR(optimizer, max_lr=rate, total_steps=steps)
    losses: list[float] = []
    accuracies: list[float] = []
    for _, said in common.track(range(epochs), epochs, "epoch"):
        for rows in common.batches(batch, len(labels)):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(images[rows]), labels[rows], label_smoothing=0.05)
            loss.backward()
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
        accuracies.append(accuracy(model, test_images, test_labels)[0])
        said.update(loss=f"{losses[-1]:.3f}", test=f"{accuracies[-1]:.1%}")
    return losses, accuracies


def draw(
    losses: list[float], accuracies: list[float], images: fg.Tensor, labels: fg.Tensor, found: fg.Tensor
) -> plt.Figure:
    """The curves, and test digits that were taken for others."""
    figure = plt.figure(figsize=(10, 4.4), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(1.2, 1))
    above, below = left.subplots(2, 1, sharex=True)
    above.semilogy(losses, color=SERIES[0], alpha=0.35, linewidth=0.8)
    per_epoch = len(losses) // len(accuracies)
    ends = [per_epoch * (k + 1) for k in range(len(accuracies))]
    means = [sum(losses[end - per_epoch : end]) / per_epoch for end in ends]
    above.plot(ends, means, "o-", color=SERIES[0], label="mean of an epoch")
    above.set(ylabel="training loss", title=f"{accuracies[-1]:.1%} of {len(labels)} test digits are right")
    above.legend()
    below.plot(ends, accuracies, "o-", color=SERIES[1])
    below.set(xlabel="step", ylabel="right, of test digits")
    below.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    below.yaxis.set_major_formatter(lambda value, _: f"{round(100 * value, 2):g}%")
    wrong = (found != labels).nonzero().flatten().tolist()[:20]
    right.suptitle("digits it gets wrong (its answer)")
    for axis, k in zip(right.subplots(4, 5).flat, wrong + [-1] * 20, strict=False):
        axis.set_axis_off()
        if k >= 0:
            axis.imshow(images[k, 0].numpy(), cmap="gray_r")
            axis.set_title(str(found[k].item()), fontsize=9, color=WRONG, pad=2)
    return figure


def main(arguments: list[str] | None = None) -> float:
    """Train, say how good it is, draw. Returns the accuracy on the test digits."""
    parser = common.parser(__doc__)
    parser.add_argument("--out", type=common.Path, help="where the picture goes (default mnist_MODEL.png)")
    parser.add_argument("--model", choices=tuple(MODELS), default="cnn")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rate", type=float, default=3e-3, help="the highest learning rate (default 0.003)")
    parser.add_argument("--digits", type=int, default=None, help="use only so many digits")
    parser.add_argument("--save", type=common.Path, help="write the trained weights to a .safetensors file")
    given = parser.parse_args(arguments)
    fg.manual_seed(given.seed)
    data = common.digits(given.digits, given.seed)
    model = MODELS[given.model]()
    count = sum(p.numel() for p in model.parameters())
    common.console.print(f"{given.model}: {count:,} parameters, {len(data[1])} digits to train on")
    losses, accuracies = train(model, data, given.epochs, given.batch, given.rate)
    score, found = accuracy(model, data[2], data[3])
    common.console.print(f"{score:.1%} of {len(data[3])} test digits are right")
    common.saved(
        draw(losses, accuracies, data[2], data[3], found),
        given.out or common.RESULTS / f"mnist_{given.model}.png",
    )
    if given.save:
        fg.save(model.state_dict(), given.save)
        common.console.print(f"weights: [bold]{given.save}[/]")
    return score


if __name__ == "__main__":
    main()
