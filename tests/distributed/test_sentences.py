"""The sentences of docs/distributed.md: those on two ranks run in one program for each library."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import pytest
from ranks import succeed

pytest.importorskip("mpi4py")
ROOT = Path(__file__).parents[2]
SENTENCES = re.findall(
    r"^\*\*([A-Z]\d+)\*\* (.*?)(?=\n\n)",
    (ROOT / "docs/distributed.md").read_text("utf-8"),
    re.DOTALL | re.MULTILINE,
)


def is_ours(text: str) -> bool:
    return " ".join(text.split()).endswith("(fastgrad only).")


ELSEWHERE = {"G3": "test_collectives.py", "G4": "test_launching.py"}
"""Sentences about programs without a group, or before it."""


PROGRAMS = {"GCPH": "sentences.py", "JMZ": "sharing.py"}
"""On two ranks, by the letters of the sentences."""


@cache
def results(library: str, program: str, store: str) -> list[dict[str, str | None]]:
    """What failed on each rank, by the number of the sentence."""
    return json.loads(succeed(2, program, library, *([store + program] if store else [])).splitlines()[-1])


def failures(library: str, number: str, store: str = "") -> list[str | None]:
    [program] = [file for letters, file in PROGRAMS.items() if number[0] in letters]
    return [rank[number.lower()] for rank in results(library, program, store) if rank[number.lower()]]


ON_TWO_RANKS = [(n, t) for n, t in SENTENCES if n not in ELSEWHERE and n[0] in "".join(PROGRAMS)]


@pytest.mark.mpi
@pytest.mark.parametrize("number", [n for n, _ in ON_TWO_RANKS])
def test_here(number: str):
    assert failures("fastgrad", number) == []


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    pytest.importorskip("torch")
    return str(tmp_path_factory.mktemp("gloo") / "store")


@pytest.mark.mpi
@pytest.mark.parity
@pytest.mark.parametrize("number", [n for n, text in ON_TWO_RANKS if not is_ours(text)])
def test_in_pytorch(number: str, store: str):
    assert failures("torch", number, store) == []


def test_every_sentence_has_a_test():
    text = "".join(path.read_text("utf-8") for path in Path(__file__).parent.rglob("*.py"))
    for number, _ in SENTENCES:
        name = number.lower()
        assert re.search(rf"def (test_)?{name}(_\w+)?\(|\"{number}\"", text), number
