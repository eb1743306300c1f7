"""The demo: its data, its training, its hooks, and the page that it writes."""

from __future__ import annotations

import math
import re
from collections import Counter
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

import fastgrad as fg
import fastgrad.nn.functional as F
from fastgrad import cli

pytest.importorskip("rich")
pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")

from fastgrad.demo import data, gradients, model, train
from fastgrad.viz.style import HOOK_COLOURS, ON_COLOUR

VOID = {"img", "meta", "link", "br", "hr", "wbr"}


class Page(HTMLParser):
    """Collects elements and their attributes, and sees that tags are balanced."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def digits():
    return data.load()


@pytest.fixture
def page(tmp_path, capsys):
    path = tmp_path / "report.html"
    assert cli.main(["demo", "--epochs", "2", "--quick", "--report", str(path)]) == cli.EXIT_OK
    printed = capsys.readouterr().out
    assert re.search(r"test accuracy +\d\d\.\d\d%", printed)
    assert re.search(r"steps per second +[\d,]+", printed)
    assert re.search(r"calling a hook +\d+\.\d\d ± \d+\.\d\d us", printed)
    assert "report.html" in printed
    return path.read_text(encoding="utf-8")


def test_page_is_whole_and_self_contained(page):
    parsed = Page(page)
    assert page.startswith("<!DOCTYPE html>")
    assert not parsed.open
    assert parsed.all("html")[0]["lang"] == "en"
    assert "//" not in re.sub(r'"data:[^"]*"', "", page)
    assert not parsed.all("script")
    assert not parsed.all("link")
    for _, attributes in parsed.elements:
        for name in ("src", "href", "xlink:href"):
            assert (attributes.get(name) or "#").startswith(("#", "data:image/png;base64,"))


def test_page_is_accessible(page):
    parsed = Page(page)
    pictures = parsed.all("svg")
    assert len(pictures) == 6
    assert all(attributes["role"] == "img" for attributes in pictures)
    assert page.count("<svg") == len(re.findall(r"<svg [^>]*><title>[^<]{40,}</title>", page))
    assert len(parsed.all("img")) == 24
    assert all(re.fullmatch(r"A handwritten \d, read as \d", image["alt"]) for image in parsed.all("img"))
    assert len(parsed.all("h1")) == 1
    ids = Counter(attributes["id"] for _, attributes in parsed.elements if "id" in attributes)
    assert max(ids.values()) == 1
    assert set(re.findall(r'(?:href="|url\()#([^")]+)', page)) <= set(ids)


def test_figures_follow_the_theme(page):
    # Every marker colour of the figures has become a variable of the page.
    assert "var(--series-3)" in page
    assert not re.search(r"#0[0-9]0[0-9]0[0-9]\b", page)
    # So has every colour of the graph but those of hooks.
    graph = page[page.index('class="plot graph"') :]
    colours = set(re.findall(r'"(#[0-9a-f]{6})"', graph[: graph.index("</svg>")]))
    assert colours == {ON_COLOUR, *(HOOK_COLOURS[kind] for kind in ("tensor", "node_pre", "node_post"))}
    variables = set(re.findall(r"var\((--[\w-]+)\)", page))
    assert all(page.count(f"{name}: ") >= 1 for name in variables)


def test_graph_shows_the_hooks_of_the_training(page):
    graph = page[page.index('class="plot graph"') :]
    titles = re.findall(r"<g><title>([^<]*)</title>", graph[: graph.index("</svg>")])
    assert {title.split("\n")[0] for title in titles} >= {"weight 1", "bias 2", "NllLossBackward0"}
    assert sum("tensor hook: GradientRecorder._on_weight" in title for title in titles) == 3
    assert sum("pre-hook: GradientRecorder._before_node" in title for title in titles) == 3


def test_words_of_tables_are_not_cut(page):
    assert "overflow-wrap: anywhere" not in page
    assert re.search(r"th \{[^}]*white-space: nowrap", page)


def test_digits_are_those_of_scikit_learn(digits):
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    read_pixels, read_labels = data.read_digits()
    np.testing.assert_array_equal(read_pixels, pixels)
    np.testing.assert_array_equal(read_labels, labels)
    assert len(digits.train_y) + len(digits.test_y) == 1797
    assert len(digits.test_y) == len(digits.test_x) == len(digits.test_images) == 359


def test_split_is_fixed_and_fair(digits):
    again = data.load()
    np.testing.assert_array_equal(digits.test_x, again.test_x)
    shares = np.bincount(digits.test_y) / np.bincount(np.concatenate([digits.train_y, digits.test_y]))
    np.testing.assert_allclose(shares, data.TEST_SHARE, atol=0.005)


def test_inputs_are_standardised(digits):
    assert digits.train_x.dtype == np.float32
    np.testing.assert_allclose(digits.train_x.mean(0), 0, atol=1e-5)
    deviations = digits.train_x.std(0)
    np.testing.assert_allclose(deviations[deviations > 0], 1, atol=1e-4)


def test_accuracy_is_above_97_percent(digits):
    assert train.train(train.Settings(), digits).test_accuracies[-1] > 0.97


def test_a_seed_fixes_the_result(digits):
    runs = [train.train(train.Settings(epochs=1, seed=seed), digits) for seed in (3, 3, 4)]
    assert runs[0].losses == runs[1].losses != runs[2].losses
    assert runs[0].gradients == runs[1].gradients


def test_a_timing_is_a_median_and_never_negative():
    assert gradients.Timing.of([5.0, 1.0, 2.0, 3.0, 4.0]) == gradients.Timing(3.0, 1.0)
    assert gradients.Timing.of([-2.0, -1.0, 4.0]) == gradients.Timing(0.0, 1.5)


def test_what_hooks_cost_leaves_the_first_round_out(monkeypatch: pytest.MonkeyPatch):
    """Time stands still but for what steps say that they take: a lot in the first turn of each kind, then little."""
    now, seen = [0.0], []
    monkeypatch.setattr(gradients.time, "perf_counter", lambda: now[0])

    def step(watch: Any) -> None:
        kind = "plain" if watch is None else type(watch.__self__).__name__
        first = seen.count(kind) < 2
        seen.append(kind)
        now[0] += (
            1.0 if first else {"plain": 1e-3, "SilentHooks": 1.006e-3, "GradientRecorder": 1.03e-3}[kind]
        )

    cost = gradients.measure_hooks(step, model.init_layers((4, 3), 0), rounds=3, steps=2)
    timings = (cost.plain, cost.called, cost.recording)
    assert [(round(t.median, 3), round(t.spread, 3)) for t in timings] == [
        (1000.0, 0.0),
        (2.0, 0.0),
        (10.0, 0.0),
    ]
    assert cost.hooks == 3
    assert cost.step_share == pytest.approx(0.03)


def test_hooks_record_the_gradients_that_arrive():
    layers = model.init_layers((4, 5, 3), seed=0)
    x, y = fg.randn(6, 4), fg.tensor([0, 1, 2, 0, 1, 2])
    with gradients.GradientRecorder(layers) as recorder:
        outputs = []
        logits = model.forward(
            layers, x, lambda index, output: (recorder.watch(index, output), outputs.append(output))
        )
        outputs[0].retain_grad()
        F.cross_entropy(logits, y).backward()
    for index, layer in enumerate(layers):
        weight, bias = (math.sqrt((p.grad.numpy().astype(float) ** 2).sum()) for p in layer[1:])
        assert recorder.norms["weight"][index] == [pytest.approx(weight, rel=1e-5)]
        assert recorder.norms["bias"][index] == [pytest.approx(bias, rel=1e-5)]
    arriving = math.sqrt((outputs[0].grad.numpy().astype(float) ** 2).sum())
    assert recorder.norms["output"][0] == [pytest.approx(arriving, rel=1e-5)]

    # Outside the context the weights are left alone.
    F.cross_entropy(model.forward(layers, x), y).backward()
    assert len(recorder.norms["weight"][0]) == 1
