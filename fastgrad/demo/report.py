"""The report: one HTML page that carries its pictures and styles and opens from disk."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from importlib import resources
from typing import Any

import numpy as np

from fastgrad._version import __version__
from fastgrad.debug import environment
from fastgrad.demo import figures
from fastgrad.demo.data import Digits
from fastgrad.demo.gradients import HookCost
from fastgrad.demo.train import Run
from fastgrad.markup import escaped

SHOWN_MISTAKES = 10
SHOWN_DIGITS = 24

# Nothing may be fetched: the page is complete.
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"

GRADIENT_PANELS = (
    ("weight", "Of the weights", "Seen by a tensor hook on each weight"),
    ("output", "Of the layers’ outputs", "Seen by a pre-hook on the node that made each output"),
    ("bias", "Of the biases", "Seen by a hook on the same node, in what it passes on"),
)


def render(run: Run, digits: Digits) -> str:
    """Render a finished run as a page.

    Parameters
    ----------
    run : Run
        With its logits, its graph and the hooks' cost filled in.
    digits : Digits
        The data that it was trained on.

    Returns
    -------
    str
        A complete HTML document without references to anything outside.
    """
    style = resources.files("fastgrad.demo").joinpath("style.css").read_text(encoding="utf-8")
    sections = (
        _learning(run),
        _gradients(run),
        _hooks(run.hook_cost) if run.hook_cost else "",
        _digits(run, digits),
        _graph(run),
        _tables(run, digits),
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="color-scheme" content="light dark">
<title>fastgrad demo: handwritten digits</title>
<style>
{style}</style>
</head>
<body>
{_header(run, digits)}
<main>
{"".join(sections)}</main>
<footer><p>Written by <code>fastgrad demo</code>, fastgrad {__version__},
on {datetime.now():%d %B %Y at %H:%M}.</p></footer>
</body>
</html>
"""


def _header(run: Run, digits: Digits) -> str:
    accuracy = run.test_accuracies[-1]
    read = round(accuracy * len(digits.test_y))
    cost = run.hook_cost
    cards = [
        ("of the test digits read correctly", f"{accuracy * 100:.2f} <small>%</small>"),
        ("training steps per second, hooks included", f"{run.steps_per_second:,.0f}"),
        (f"for {len(run.losses):,} steps of training", f"{run.seconds:.2f} <small>s</small>"),
    ]
    if cost:
        cards.append(("added to a step by calling one hook", f"{cost.called.median:.2f} <small>µs</small>"))
    items = "".join(f"<div><dt>{label}</dt><dd>{value}</dd></div>\n" for label, value in cards)
    return f"""<header>
<p class="kicker">fastgrad demo</p>
<h1>{read} of {len(digits.test_y)} unseen handwritten digits read correctly</h1>
<p class="lede">A network of {" – ".join(map(str, run.settings.sizes))} units learned from
{len(digits.train_y):,} digits of 8 × 8 pixels. Hooks on its weights and on the nodes of its backward graph
wrote down the gradients in every step.</p>
<dl class="cards">
{items}</dl>
</header>"""


def _section(title: str, lead: str, body: str) -> str:
    return f"<section>\n<h2>{title}</h2>\n<p>{lead}</p>\n{body}\n</section>\n"


def _panel(title: str, note: str, picture: str) -> str:
    return (
        f'<figure class="panel"><figcaption><strong>{title}</strong><span>{note}</span></figcaption>\n'
        f"{picture}</figure>\n"
    )


def _learning(run: Run) -> str:
    steps = np.arange(1, len(run.losses) + 1) / run.steps_per_epoch
    epochs = np.arange(1, len(run.test_losses) + 1)
    by_epoch = np.asarray(run.losses).reshape(-1, run.steps_per_epoch).mean(1)
    loss = figures.curves(
        epochs,
        {"training, mean of the epoch": by_epoch, "test": run.test_losses},
        ylabel="cross-entropy",
        background=[(steps, run.losses)],
        log=True,
    )
    accuracy = figures.curves(
        epochs,
        {"training": run.train_accuracies, "test": run.test_accuracies},
        ylabel="read correctly",
        percent=True,
    )
    loss_text = (
        f"Line chart of the loss. Over {len(epochs)} epochs the training loss goes from {by_epoch[0]:.3f} to "
        f"{by_epoch[-1]:.3f} and the test loss from {run.test_losses[0]:.3f} to {run.test_losses[-1]:.3f}."
    )
    accuracy_text = (
        f"Line chart of the accuracy. Over {len(epochs)} epochs it goes from {run.train_accuracies[0]:.1%} "
        f"to {run.train_accuracies[-1]:.1%} on the training set and from {run.test_accuracies[0]:.1%} to "
        f"{run.test_accuracies[-1]:.1%} on the test set."
    )
    panels = _panel(
        "Loss", "Every training step in the background", figures.to_svg(loss, "loss", loss_text)
    ) + _panel("Accuracy", "After every epoch", figures.to_svg(accuracy, "accuracy", accuracy_text))
    lead = (
        f"Stochastic gradient descent in batches of {run.settings.batch_size}. The training inputs carry "
        "noise, drawn anew in every epoch; accuracies are taken without it."
    )
    return _section("Learning", lead, f'<div class="panels two">\n{panels}</div>')


def _gradients(run: Run) -> str:
    steps = np.arange(1, len(run.losses) + 1) / run.steps_per_epoch
    names = [layer.name for layer in run.layers]
    panels = ""
    for kind, title, note in GRADIENT_PANELS:
        # A gradient that vanishes has no place on a logarithmic axis.
        raw = [np.where(np.asarray(norms) > 0, norms, np.nan) for norms in run.gradients[kind]]
        smoothed = {
            name: figures.smooth(norms, run.steps_per_epoch)
            for name, norms in zip(names, run.gradients[kind], strict=True)
        }
        figure = figures.curves(
            steps,
            smoothed,
            ylabel="norm",
            background=[(steps, norms) for norms in raw],
            log=True,
            width=3.2,
        )
        changes = "; ".join(
            f"{name} from {values[0]:.2g} to {values[-1]:.2g}" for name, values in smoothed.items()
        )
        text = f"Line chart of gradient norms, smoothed over an epoch: {changes}."
        panels += _panel(title, note, figures.to_svg(figure, f"gradient-{kind}", text))
    lead = (
        "Euclidean norms of the gradients, layer by layer, on a logarithmic axis; faint lines are single "
        "steps, strong ones the mean over an epoch."
    )
    return _section("Gradients, as the hooks saw them", lead, f'<div class="panels">\n{panels}</div>')


def _hooks(cost: HookCost) -> str:
    rows = (
        ("A training step without hooks", cost.plain, 1, 0),
        ("One hook that does nothing: registered, called, dropped", cost.called, 1, 2),
        ("One hook that records a norm", cost.recording, 1, 2),
        (f"All {cost.hooks} recording hooks of a step", cost.recording, cost.hooks, 1),
    )
    body = "".join(
        f'<tr><th scope="row">{label}</th><td class="number">{timing.median * times:.{digits}f} '
        f"± {timing.spread * times:.{digits}f}</td></tr>\n"
        for label, timing, times, digits in rows
    )
    table = (
        '<div class="table"><table>\n<thead><tr><th scope="col">Work</th>'
        '<th scope="col" class="number">Microseconds</th></tr></thead>\n'
        f"<tbody>\n{body}</tbody></table></div>"
    )
    lead = (
        "Steps with and without hooks took turns; shown are the medians of what the rounds differ by, and half of the "
        "range in which the middle half of them lies. "
        f"The recording hooks take {cost.step_share:.1%} of a step."
    )
    return _section("What the hooks cost", lead, table)


def _digits(run: Run, digits: Digits) -> str:
    guesses = run.logits.argmax(1)
    scores = np.exp(run.logits - run.logits.max(1, keepdims=True))
    confidence = (scores / scores.sum(1, keepdims=True)).max(1)
    wrong, right = np.flatnonzero(guesses != digits.test_y), np.flatnonzero(guesses == digits.test_y)
    # The mistakes made with most conviction come first, then the right answers given with least.
    wrong = wrong[np.argsort(-confidence[wrong])][:SHOWN_MISTAKES]
    right = right[np.argsort(confidence[right])]
    items = ""
    for index in [*wrong, *right][:SHOWN_DIGITS]:
        truth, guess = int(digits.test_y[index]), int(guesses[index])
        truly = "" if truth == guess else f"<span>in fact a {truth}</span>"
        alt = f"A handwritten {truth}, read as {guess}"
        items += (
            f"<li{'' if truth == guess else ' class=miss'}>"
            f'<img src="{figures.digit_png(digits.test_images[index])}" width="8" height="8" alt="{alt}">'
            f"<b>read as {guess}</b><span>{confidence[index]:.0%} sure</span>{truly}</li>\n"
        )
    mistakes = int((guesses != digits.test_y).sum())
    lead = (
        f"The test set holds {len(guesses)} digits; {mistakes} were misread. "
        + ("The surest mistakes come first, then" if mistakes else "These are")
        + " the right answers that it hesitated over most."
    )
    return _section("Digits it had never seen", lead, f'<ul class="digits">\n{items}</ul>')


def _graph(run: Run) -> str:
    assert run.graph is not None, "finish() fills in the graph"
    text = "The backward graph of a training step: from the loss at the top to the parameters of each layer."
    lead = (
        "Drawn by <code>fastgrad.viz.graph</code>. Gradients flow from the loss at the top along the arrows to the "
        "parameters, which are tinted; a band marks each hook of the training."
    )
    body = f'<figure class="panel">{figures.graph_to_svg(run.graph, "graph", text)}</figure>'
    return _section("The backward graph", lead, body)


def _tables(run: Run, digits: Digits) -> str:
    settings = run.settings
    facts: dict[str, Any] = {
        "units": " – ".join(map(str, settings.sizes)),
        "parameters": f"{sum(a * b + b for a, b in zip(settings.sizes, settings.sizes[1:], strict=False)):,}",
        "training digits": f"{len(digits.train_y):,}",
        "test digits": f"{len(digits.test_y):,}",
        "epochs": settings.epochs,
        "batch size": settings.batch_size,
        "learning rate": settings.learning_rate,
        "input noise": settings.noise,
        "seed": settings.seed,
    }
    tables = _table("training", facts)
    for title, rows in environment().items():
        tables += _table(title, rows)
    lead = "With the same settings and versions, on the same kind of CPU, the same result comes out."
    return _section("Settings and versions", lead, f'<div class="panels tables">\n{tables}</div>')


def _table(title: str, rows: Mapping[str, Any]) -> str:
    body = "".join(
        f'<tr><th scope="row">{escaped(str(key))}</th><td>{_breakable(value)}</td></tr>\n'
        for key, value in rows.items()
    )
    caption = f"<caption>{escaped(title)}</caption>"
    return f'<div class="table"><table>{caption}\n<tbody>\n{body}</tbody></table></div>\n'


def _breakable(value: Any) -> str:
    """A value as HTML, of which a path goes on in the next line behind a slash, and a word nowhere."""
    return escaped(str(value)).replace("/", "/<wbr>")
