"""Take the optimizer's step inside of the backward pass, parameter by parameter, and save the memory of the gradients.

    python examples/fused_step.py

A post-accumulate hook on each parameter steps an optimizer of its own as soon as the gradient is there, and lets the
gradient go. So no two gradients need to exist at once. The weights come out the same, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable

import common
import matplotlib.pyplot as plt

import fastgrad as fg
import fastgrad.nn.functional as F
from fastgrad import nn, optim
from fastgrad.viz.style import SERIES


def network(layers: int, width: int) -> nn.Sequential:
    """Linear layers of one width, whose weights let signals through any number of them."""
    model = nn.Sequential()
    for _ in range(layers):
        linear = nn.Linear(width, width)
        nn.init.xavier_normal_(linear.weight, nn.init.calculate_gain("tanh"))
        model.append(nn.Sequential(linear, nn.Tanh()))
    return model


def usual(model: nn.Module, rate: float) -> Callable[[], None]:
    """One optimizer; what follows a backward pass."""
    optimizer = optim.SGD(model.parameters(), lr=rate, momentum=0.9)

    def after() -> None:
        optimizer.step()
        optimizer.zero_grad()

    return after


def fused(model: nn.Module, rate: float) -> Callable[[], None]:
    """An optimizer for each parameter, stepped by a hook; nothing follows a backward pass."""
    for parameter in model.parameters():
        optimizer = optim.SGD([parameter], lr=rate, momentum=0.9)

        def step(parameter: fg.Tensor, optimizer: optim.Optimizer = optimizer) -> None:
            optimizer.step()
            optimizer.zero_grad()

        parameter.register_post_accumulate_grad_hook(step)
    return lambda: None


def train(
    kind: Callable[[nn.Module, float], Callable[[], None]], given: common.argparse.Namespace
) -> tuple[list[float], list[float], list[fg.Tensor]]:
    """The loss of each step, its highest memory above the start in MiB, and the weights at the end."""
    fg.manual_seed(given.seed)
    model = network(given.layers, given.width)
    after = kind(model, given.rate)
    inputs = fg.randn(32, given.width)
    targets = fg.randn(32, given.width).tanh()
    losses, peaks = [], []
    for _, said in common.track(range(given.steps), given.steps, f"{kind.__name__:5}"):
        fg.debug.reset_peak()
        start = fg.debug.memory()["live"]
        loss = F.mse_loss(model(inputs), targets)
        loss.backward()
        after()
        losses.append(loss.item())
        del loss
        peaks.append((fg.debug.memory()["peak"] - start) / 2**20)
        said.update(loss=f"{losses[-1]:.4f}", peak=f"{peaks[-1]:.1f} MiB")
    return losses, peaks, [p.detach() for p in model.parameters()]


def main(arguments: list[str] | None = None) -> tuple[float, float]:
    """Train both ways, compare, draw. Returns the highest memory of each in MiB."""
    parser = common.parser(__doc__, "fused_step.png")
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--rate", type=float, default=3.0, help="the learning rate (default 3)")
    given = parser.parse_args(arguments)
    a_losses, a_peaks, a_weights = train(usual, given)
    b_losses, b_peaks, b_weights = train(fused, given)
    same = a_losses == b_losses and all(fg.equal(a, b) for a, b in zip(a_weights, b_weights, strict=True))
    # The first step also makes the momentum; later ones show what a step needs.
    high = max(a_peaks[1:]), max(b_peaks[1:])
    common.console.print(f"loss: {a_losses[0]:.4f} at first, {a_losses[-1]:.4f} at last")
    common.console.print(f"highest memory of a step: {high[0]:.1f} MiB, fused {high[1]:.1f} MiB")
    common.console.print(
        "the losses and the weights are the same, bit for bit" if same else "[red]the runs differ[/]"
    )
    if not same:
        raise SystemExit(1)
    common.saved(draw(a_losses, b_losses, high), given.out)
    return high


def draw(usual_losses: list[float], fused_losses: list[float], high: tuple[float, float]) -> plt.Figure:
    """The losses of both runs over each other, and what memory a step of each takes."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    left.semilogy(usual_losses, lw=5, alpha=0.4, label="usual")
    left.semilogy(fused_losses, "o", ms=2.5, label="fused")
    left.set(xlabel="step", ylabel="loss", title="The same losses and weights, bit for bit")
    left.legend()
    bars = right.bar(("usual", "fused"), high, color=SERIES[:2], width=0.6)
    right.bar_label(bars, fmt="%.1f MiB")
    right.set(title="Memory of a step above its start", ylabel="MiB")
    return figure


if __name__ == "__main__":
    main()
