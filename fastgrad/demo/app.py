"""What ``fastgrad demo`` runs: training under a progress bar, a summary, and the report."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from fastgrad.demo import data, train
from fastgrad.demo.gradients import Timing
from fastgrad.demo.train import Run, Settings

SHOW_EVERY = 10


def run(settings: Settings, report_path: Path, timing_rounds: int = 15) -> Run:
    """Train, print what came of it, and write the report.

    Parameters
    ----------
    settings : Settings
        How to train.
    report_path : Path
        Where the report goes.
    timing_rounds : int
        How often the steps with and without hooks take turns when the hooks are timed.

    Raises
    ------
    OSError
        If the report cannot be written.
    ValueError
        If the batch size exceeds the training set.
    """
    console = Console(highlight=False)
    digits = data.load()
    console.print(
        f"Training {' - '.join(map(str, settings.sizes))} on {len(digits.train_y):,} handwritten digits; "
        f"{len(digits.test_y)} more are kept for the test."
    )
    result = _train(settings, digits, console)
    with console.status("Timing the hooks"):
        train.finish(result, digits, timing_rounds)
    with console.status("Drawing the report"):
        # matplotlib takes a while to import; the training should not wait for it.
        from fastgrad.demo import report

        page = report.render(result, digits)
        report_path.write_text(page, encoding="utf-8")
    console.print(_summary(result))
    console.print(f"Report: {report_path.absolute()}", soft_wrap=True)
    return result


def _train(settings: Settings, digits: data.Digits, console: Console) -> Run:
    steps = len(digits.train_y) // settings.batch_size * settings.epochs
    columns = (
        BarColumn(),
        TextColumn("step {task.completed}/{task.total}"),
        TextColumn("loss {task.fields[loss]:.4f}"),
        TextColumn("test accuracy {task.fields[accuracy]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("", total=steps, loss=float("nan"), accuracy="-")

        def show(done: int, loss: float, accuracy: float | None) -> None:
            if accuracy is not None:
                bar.update(task, completed=done, loss=loss, accuracy=f"{accuracy:.2%}")
            elif done % SHOW_EVERY == 1:
                bar.update(task, completed=done, loss=loss)

        return train.train(settings, digits, show)


def _shown(timing: Timing) -> str:
    return f"{timing.median:.2f} ± {timing.spread:.2f} us"


def _summary(result: Run) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    table.add_column(style="bold", justify="right")
    table.add_column(style="dim")
    epochs, batch = result.settings.epochs, result.settings.batch_size
    after = f"after {epochs} epoch{'s' if epochs > 1 else ''}"
    table.add_row("test accuracy", f"{result.test_accuracies[-1]:.2%}", after)
    table.add_row("steps per second", f"{result.steps_per_second:,.0f}", "hooks included")
    cost = result.hook_cost
    if cost is not None:
        table.add_row("a step without hooks", f"{cost.plain.median:.0f} us", f"batch of {batch}")
        table.add_row("calling a hook", _shown(cost.called), "one that does nothing")
        table.add_row(
            "recording a norm",
            _shown(cost.recording),
            f"{cost.hooks} hooks a step: {cost.step_share:.1%} of it",
        )
    return table
