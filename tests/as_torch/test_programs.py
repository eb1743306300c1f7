"""Programs in the style of PyTorch's documentation, unchanged: they run, and print what PyTorch prints."""

from __future__ import annotations

from pathlib import Path

import pytest
from alias_running import ALIAS, output, started

FOLDER = Path(__file__).parent / "programs"
PROGRAMS = {
    "mnist": ("--epochs", "2"),
    "vae": (),
    "dcgan": (),
    "gpt": ("--compile=False",),
    "gpt-compiled": (),
    "word_language_model": (),
    "word_language_model-GRU": ("--model", "GRU"),
    "word_language_model-Transformer": ("--model", "Transformer"),
    "time_sequence_prediction": (),
    "regression": (),
}


def command(name, tmp_path):
    more = ("--save-model", tmp_path / "model.pt") if name == "mnist" else ()
    return (FOLDER / f"{name.partition('-')[0]}.py", *PROGRAMS[name], *more)


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name, tmp_path):
    assert output(*ALIAS, *command(name, tmp_path))


@pytest.mark.parity
@pytest.mark.parametrize("name", [name for name in PROGRAMS if not name.endswith("-compiled")])
def test_program_prints_what_pytorch_prints(name, tmp_path):
    printed = output("-P", *command(name, tmp_path))
    assert output(*ALIAS, *command(name, tmp_path)) == printed


def test_compiled_programs_print_the_same(tmp_path):
    printed = [output(*ALIAS, *command(name, tmp_path)) for name in ("gpt", "gpt-compiled")]
    assert printed[0] == printed[1]


def test_nothing_is_missing_for_them():
    done = started(*ALIAS, "--check", FOLDER)
    assert done.returncode == 0, done.stdout
