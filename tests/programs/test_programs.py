"""Programs written for PyTorch run unchanged on fastgrad but for the name they import, and give the same numbers."""

from __future__ import annotations

import importlib
import sys
import types
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parent
PROGRAMS = sorted(p.stem for p in FOLDER.glob("*.py") if p.stem not in ("__init__", "test_programs"))


def result_of(name: str, library: str) -> list[Any]:
    """What a program leaves in `result` when `torch` is the given library."""
    text = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    if library != "torch":
        text = text.replace("import torch.utils.checkpoint\n", f"import {library}.utils.checkpoint\n")
        text = text.replace("import torch\n", f"import {library} as torch\n")
    module = types.ModuleType(f"program_{name}_{library}")
    sys.modules[module.__name__] = module  # classes that are copied are found by the name of their module
    try:
        exec(compile(text, f"{name} on {library}", "exec"), module.__dict__)
    finally:
        del sys.modules[module.__name__]
    return list(module.result)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_runs(name: str):
    result = result_of(name, "fastgrad")
    assert len(result) > 5
    assert all(value == value for value in result), "NaN"


@pytest.mark.parity
@pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_gives_the_numbers_of_pytorch(name: str):
    torch = importlib.import_module("torch")
    torch.set_num_threads(1)
    ours, theirs = result_of(name, "fastgrad"), result_of(name, "torch")
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        if isinstance(b, float):
            assert a == pytest.approx(b, rel=1e-9, abs=1e-11)
        else:
            assert str(a).replace("fastgrad", "torch") == str(b)
