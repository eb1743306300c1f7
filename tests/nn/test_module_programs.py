"""Programs with modules print the same in fastgrad and in PyTorch."""

from __future__ import annotations

from types import ModuleType

import pytest

from tests.nn.module_programs import load, run

PROGRAMS = load()


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(lib: ModuleType, name: str):
    source, printed = PROGRAMS[name]
    assert run(lib, source) == printed
