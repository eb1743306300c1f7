"""What runs elsewhere: the jobs call scripts that are there, and the scripts are ones."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

import fastgrad

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted(p for p in (ROOT / ".ci").iterdir() if p.name != "environment")


@pytest.mark.parametrize("script", [*SCRIPTS, ROOT / ".ci" / "environment"], ids=lambda p: p.name)
def test_scripts_are_ones(script):
    subprocess.run(["bash", "-n", str(script)], check=True)
    if script in SCRIPTS:
        assert os.access(script, os.X_OK)
        assert script.read_text().startswith("#!/usr/bin/env bash\n")


def test_what_runs_bodies_of_kernels_is_marked():
    for path in (ROOT / "tests" / "cuda").glob("test_*.py"):
        text = path.read_text("utf-8")
        runs = re.search(r"\.simulator\b|^from (cuda_comparing|cuda_simulator) import", text, re.MULTILINE)
        assert bool(runs) == ("pytestmark = pytest.mark.cudasim" in text), path.name


def test_jobs_call_scripts_alone():
    for workflow in (ROOT / ".github" / "workflows").glob("*.yml"):
        commands = re.findall(r"^\s*-? ?run: (.+)$", workflow.read_text(), re.MULTILINE)
        assert commands
        for command in commands:
            found = re.fullmatch(r"bash \.ci/([a-z]+)( gpu)?", command)
            assert found, command
            assert (ROOT / ".ci" / found[1]) in SCRIPTS


def test_everything_is_called_at_once():
    lines = re.findall(r"(?:bash \.ci/|side_by_side )([a-z ]+)", (ROOT / ".ci" / "run").read_text())
    called = " ".join(lines).split()
    assert {p.name for p in SCRIPTS} == {"run", *called}
    assert [name for name in called if name != "run"] == [
        "suite", "processors", "debug", "oldest", "parity", "mpi", "clients", "steps", "lint", "docs", "package",
        "bench", "screens", "cuda",
    ]  # fmt: skip


def test_no_fork_reaches_a_machine_of_the_projects():
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    job = text[text.index("\n  cuda:\n") :]
    assert "github.event.pull_request.head.repo.full_name == github.repository" in job
    assert "pull_request_target" not in text
    assert text.count("self-hosted") == 1


def test_workflows_are_linted_by_a_version_that_is_named():
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    (need,) = (d for d in groups["lint"] if d.startswith("actionlint"))
    assert re.fullmatch(r"[a-z-]+==[\d.]+", need)
    command = re.search(r'"\$venv/bin/actionlint".*', (ROOT / ".ci" / "lint").read_text())[0]
    config = re.search(r"-config-file (\S+)", command)[1]
    assert command.endswith(" .github/workflows/*.yml")
    assert "labels: [gpu]" in (ROOT / config).read_text()


def test_what_is_published_is_trusted_by_its_workflow():
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    build, publish = text.split("\n  publish:\n")
    assert "id-token" not in build
    assert "id-token: write" in publish
    assert "name: pypi" in publish
    assert "password" not in publish
    assert "github.ref_type == 'tag'" in publish
    assert "pull_request" not in text


def test_versions_are_the_same_everywhere():
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {fastgrad.__version__}\n" in citation
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    page = (ROOT / "docs" / "versions.md").read_text()
    oldest = re.search(r">=([\d.]+)", project["requires-python"])[1]
    assert f"| Python | {oldest} to " in page
    for name in ("NumPy", "Numba"):
        (need,) = (d for d in project["dependencies"] if d.startswith(name.lower()))
        version = need.partition(">=")[2]
        assert f"| {name} | {version} and newer |" in page
        assert f'"{name.lower()}=={version}.*"' in (ROOT / ".ci" / "oldest").read_text()
    pythons = re.search(r"python: \[(.*)\]", (ROOT / ".github" / "workflows" / "ci.yml").read_text())[1]
    tested = [p.strip(' "') for p in pythons.split(",")]
    assert f"| Python | {tested[0]} to {tested[-1]} |" in page
