"""Short programs in the documented style of libraries that stand on PyTorch: they print what they print on PyTorch."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from alias_running import ALIAS, output

pytestmark = pytest.mark.clients
FOLDER = Path(__file__).parent / "clients"
CLIENTS = sorted(path.stem.rstrip("_") for path in FOLDER.glob("*.py"))


def program(name: str) -> Path:
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    return FOLDER / f"{name}_.py"


@pytest.mark.parametrize("name", CLIENTS)
def test_client(name):
    assert output(*ALIAS, program(name))


@pytest.mark.parity
@pytest.mark.parametrize("name", CLIENTS)
def test_client_prints_what_it_prints_on_pytorch(name):
    assert output(*ALIAS, program(name)) == output(program(name))
