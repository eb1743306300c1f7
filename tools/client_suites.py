"""Run the own tests of libraries that stand on PyTorch, from their source distributions, on fastgrad.

``python tools/client_suites.py`` needs the libraries (extra `clients`) and pip; it prints a table, and ends with 1 if
fewer tests of a library pass than `docs/clients.json` says. Names of libraries as arguments choose among them;
``--write`` keeps what was found there, and in the table of `docs/porting.md`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree


class Suite(NamedTuple):
    """Tests in a source distribution: which these are in words, which files, and what else pytest gets."""

    requirement: str
    which: str
    files: tuple[str, ...]
    options: tuple[str, ...] = ()


SUITES = {
    "einops": Suite("einops==0.8.2", "all", ("einops/tests",)),
    "skorch": Suite(
        "skorch==1.4.0",
        "data, history, regressors, scoring, utilities",
        tuple(
            f"skorch/tests/test_{name}.py"
            for name in ("dataset", "history", "regressor", "scoring", "setter", "toy", "utils")
        ),
    ),
    "ignite": Suite(
        "pytorch-ignite==0.5.5",
        "metrics, on one process",
        ("tests/ignite/metrics",),
        ("-k", "not distrib and not rouge and not bleu and not clip"),
    ),
    "opacus": Suite(
        "opacus==1.6.0",
        "accountants, layers, loaders, schedulers, validators",
        (
            *(f"opacus/tests/{name}" for name in ("schedulers", "validators")),
            *(
                f"opacus/tests/{name}_test.py"
                for name in (
                    "accountants", "batch_memory_manager", "dpdataloader", "grad_samples/embedding",
                    "grad_samples/group_norm", "grad_samples/layer_norm", "grad_samples/linear",
                    "gradient_accumulation", "module_validator", "per_sample_gradients_utils", "poisson",
                )
            ),
        ),
    ),
    "torchviz": Suite("torchviz==0.0.3", "all", ("test/test.py",)),
}  # fmt: skip
LIMIT = 900
"""Seconds for the tests of a library."""
ROOT = Path(__file__).parents[1]
RECORD, PAGE = ROOT / "docs" / "clients.json", ROOT / "docs" / "porting.md"
BEGIN, END = "<!-- tests of libraries: written by tools/client_suites.py -->\n", "<!-- end -->"
ATTRIBUTES = {"failed": "failures", "errors": "errors", "skipped": "skipped"}
"""Of a report of pytest's."""
OUTCOMES = ("passed", *ATTRIBUTES)


def unpacked(requirement: str, folder: Path) -> Path:
    """The folder of a source distribution, downloaded and unpacked."""
    download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-binary", ":all:", "--no-deps"]
    subprocess.run([*download, "--dest", str(folder), requirement], check=True)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return next(path for path in folder.iterdir() if path.is_dir())


def outcomes(suite: Suite) -> dict[str, int]:
    """How many tests ended how."""
    with tempfile.TemporaryDirectory() as scratch:
        root = unpacked(suite.requirement, Path(scratch))
        report = root / "report.xml"
        alias = [sys.executable, "-m", "fastgrad.as_torch", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        plain = [
            "-o",
            "addopts=",
            "-o",
            "filterwarnings=default",
            "--continue-on-collection-errors",
            "--tb=no",
        ]
        command = [*alias, *plain, f"--junitxml={report}", *suite.options, *suite.files]
        environment = os.environ | {"EINOPS_TEST_BACKENDS": "torch", "MPLBACKEND": "agg"}
        subprocess.run(command, cwd=root, env=environment, timeout=LIMIT, check=False)
        found = ElementTree.parse(report).getroot().find("testsuite")
        assert found is not None
        counts = {name: int(found.attrib[key]) for name, key in ATTRIBUTES.items()}
        return {"passed": int(found.attrib["tests"]) - sum(counts.values())} | counts


def recorded() -> dict[str, dict[str, int]]:
    """What the last run that was kept found, by libraries."""
    return json.loads(RECORD.read_text("utf-8"))["suites"]  # type: ignore[no-any-return]


def table(found: dict[str, dict[str, int]]) -> str:
    """What was found, as the documentation shows it."""
    lines = ["| library | which tests | pass | fail | do not start | are skipped |", "| --- " * 6 + "|"]
    for name, counts in found.items():
        suite = SUITES[name]
        cells = (suite.requirement.replace("==", " "), suite.which, *(f"{counts[o]:,}" for o in OUTCOMES))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def write(found: dict[str, dict[str, int]]) -> None:
    """Keep what was found, with what it was found on, and show it in the documentation."""
    everything = recorded() | found
    machine = {"python": platform.python_version(), "machine": f"{platform.system()} {platform.machine()}"}
    kept = {**machine, "suites": {name: everything[name] for name in SUITES if name in everything}}
    RECORD.write_text(json.dumps(kept, indent=2) + "\n", "utf-8")
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    PAGE.write_text(before + BEGIN + table(kept["suites"]) + rest[rest.index(END) :], "utf-8")


def main(arguments: list[str]) -> int:
    """Run the suites and print the table; 1 if a library lost tests."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="libraries, all of them by default")
    parser.add_argument("--write", action="store_true", help="keep what was found")
    chosen = parser.parse_args(arguments)
    found = {name: outcomes(SUITES[name]) for name in chosen.names or SUITES}
    print(table(found))
    before = recorded()
    lost = [n for n in found if n in before and found[n]["passed"] < before[n]["passed"]]
    for name in lost:
        print(f"{name}: {found[name]['passed']} tests pass, {before[name]['passed']} did before")
    if chosen.write:
        write(found)
    return int(bool(lost))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
