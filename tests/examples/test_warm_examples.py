"""In a cache that `fastgrad warmup` has filled, no example waits for a compiler."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

import fastgrad as fg
from fastgrad import flags, warm
from fastgrad.kernels.compile import cell_name, unit_name
from fastgrad.native.build import cache
from fastgrad.ops.kernel_table import KERNELS
from tests.asked import EXAMPLE, asked
from tests.runtime.test_cache import seed

pytestmark = pytest.mark.slow
pytest.importorskip("matplotlib")

EXAMPLES = Path(__file__).parents[2] / "examples"
FUSED_STEP = "fused_step.py --layers 2 --width 32 --steps 2"
COMMANDS = (
    "mnist.py --model mlp --epochs 1 --digits 500",
    "mnist.py --model cnn --epochs 1 --digits 500",
    "mnist.py --model lstm --epochs 1 --digits 500",
    "grad_cam.py --epochs 1 --digits 500",
    "char_gpt.py --layers 1 --width 16 --heads 2 --batch 2 --context 16 --steps 3 --sample 20",
    FUSED_STEP,
)


def asked_by(command: str, folder: Path, **environment: str) -> dict[str, bool]:
    """The kernels that an example asks for, by the names of their files, and which of them were compiled then."""
    script, *arguments = shlex.split(command)
    argv = [str(EXAMPLES / script), *arguments, "--out", str(folder / "picture.png")]
    units = asked(EXAMPLE.format(argv=argv, folder=str(EXAMPLES)), folder, **environment)
    return {name: compiled for name, compiled in units.items() if not name.startswith("runtime")}


@pytest.mark.parametrize("command", COMMANDS)
def test_what_an_example_asks_for_is_what_warmup_compiles(command, tmp_path):
    if "fused" not in command and "gpt" not in command:
        pytest.importorskip("mlxtend")
    names = set(asked_by(command, tmp_path))
    assert len(names) > 10
    assert names <= {unit_name(KERNELS[kernel], dtype, form) for kernel, dtype, form in warm.cells()}


def test_what_the_demo_asks_for_is_what_warmup_compiles(tmp_path):
    pytest.importorskip("sklearn")
    report = str(tmp_path / "report.html")
    units = asked(
        f"from fastgrad import cli; cli.main(['demo', '--quick', '--report', {report!r}])", tmp_path
    )
    names = {name for name in units if not name.startswith("runtime")}
    assert len(names) > 10
    assert names <= {unit_name(KERNELS[kernel], dtype, form) for kernel, dtype, form in warm.cells()}


def test_an_example_compiles_nothing_in_a_warm_cache(tmp_path, monkeypatch):
    names = asked_by(FUSED_STEP, tmp_path)
    cells = [
        cell_name(KERNELS[kernel], dtype, form)
        for kernel, dtype, form in warm.cells()
        if unit_name(KERNELS[kernel], dtype, form) in names
    ]
    monkeypatch.setattr(flags, "CACHE", str(tmp_path / "cache"))
    seed(tmp_path / "cache" / cache.environment_key())

    # But for one kernel, which shows that the count is one.
    fg.warmup(only=cells[1:])
    compiled = asked_by(FUSED_STEP, tmp_path, FASTGRAD_CACHE=flags.CACHE)
    assert [name.rpartition("-")[0] for name in compiled if compiled[name]] == cells[:1]
    compiled = asked_by(FUSED_STEP, tmp_path, FASTGRAD_CACHE=flags.CACHE)
    assert set(compiled) == set(names)
    assert not any(compiled.values())
