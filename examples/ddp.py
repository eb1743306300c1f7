"""Train the GPT of `char_gpt.py` on several ranks with compressed gradients: how little may be sent?

    fastgrad launch -n 2 examples/ddp.py

Each rank reads other pieces of the text. The gradients are averaged as they are, as float16, and by PowerSGD of several
ranks of approximation; the picture shows how many times fewer bytes are sent, and what loss that ends with.
"""

from __future__ import annotations

import pydoc_data.topics
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import common
import matplotlib.pyplot as plt
import models
from char_gpt import Text, held_out_loss, loss_of, optimizer_for

import fastgrad as fg
import fastgrad.distributed as dist
from fastgrad import nn
from fastgrad.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from fastgrad.nn.parallel import DistributedDataParallel


def steps_of(count: int, what: str) -> Iterator[tuple[int, dict[str, str]]]:
    """The steps; the first rank shows how far they are."""
    if dist.get_rank() == 0:
        return common.track(range(count), count, what)
    silent: Iterable[tuple[int, dict[str, str]]] = ((step, {}) for step in range(count))
    return iter(silent)


def train(
    model: models.GPT, text: Text, given: Any, what: str, state: object, hook: Callable[..., Any]
) -> float:
    """Train on all ranks; the loss on the test text at the end."""
    parallel = DistributedDataParallel(model)
    parallel.register_comm_hook(state, hook)
    optimizer, schedule = optimizer_for(model, given.rate, given.steps)
    fg.manual_seed(given.seed + dist.get_rank())  # other pieces on each rank
    for _, said in steps_of(given.steps, what):
        optimizer.zero_grad()
        loss = loss_of(parallel, *text.batch(text.train, given.batch, model.context))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        said["loss"] = f"{loss.item():.3f}"
    fg.manual_seed(given.seed)  # the same pieces to test on
    return held_out_loss(model, text, given.batch)


def main(arguments: list[str] | None = None) -> dict[str, tuple[float, float]]:
    """Train with each kind of compression. Returns how many times less each sends, and its last loss."""
    parser = common.parser(__doc__, "ddp.png")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=8, help="pieces of text on each rank (default 8)")
    parser.add_argument("--context", type=int, default=64)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--rate", type=float, default=4e-3, help="the highest learning rate (default 0.004)")
    parser.add_argument("--ranks", type=int, nargs="*", default=[1, 2, 4, 8], help="of approximations")
    given = parser.parse_args(arguments)
    dist.init_process_group("mpi")
    text = Text("\n".join(pydoc_data.topics.topics.values()))
    kinds: dict[str, tuple[Any, Callable[..., Any]]] = {
        "as they are": (None, default_hooks.allreduce_hook),
        "float16": (None, default_hooks.fp16_compress_hook),
    }
    for rank in given.ranks:
        state = powerSGD_hook.PowerSGDState(None, rank, start_powerSGD_iter=max(2, given.steps // 10))
        kinds[f"PowerSGD of rank {rank}"] = (state, powerSGD_hook.powerSGD_hook)
    found = {}
    for what, (state, hook) in kinds.items():
        fg.manual_seed(given.seed)
        model = models.GPT(len(text.letters), given.context, given.layers, given.width, given.heads)
        loss = train(model, text, given, what, state, hook)
        rate = 2.0 if what == "float16" else 1.0 if state is None else state.compression_stats()[0]
        found[what] = (rate, loss)
        if dist.get_rank() == 0:
            common.console.print(f"{what}: {rate:.1f} times less is sent, test loss {loss:.3f}")
    if dist.get_rank() == 0:
        draw(found, given.out)
    dist.destroy_process_group()
    return found


def draw(found: dict[str, tuple[float, float]], out: Any) -> None:
    """Compression against loss."""
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for what, (rate, loss) in found.items():
        axes.plot(rate, loss, "o")
        axes.annotate(what, (rate, loss), textcoords="offset points", xytext=(6, 6))
    axes.set(
        xscale="log",
        xlabel="times less that is sent",
        ylabel="cross entropy on the test text",
        title="Compressed gradients on several ranks",
    )
    axes.margins(x=0.25, y=0.15)
    common.saved(figure, out)


if __name__ == "__main__":
    main()
