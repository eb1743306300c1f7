"""Run the own tests of libraries that stand on PyTorch, from their source distributions, on fastgrad.

``python tools/client_suites.py`` needs the libraries (extra `clients`) and pip; it prints a table, and ends with 1 if
fewer tests of a library pass than `SUITES` says. Names of libraries as arguments choose among them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree


class Suite(NamedTuple):
    """Tests in a source distribution: which files, what else pytest gets, and how many pass at least."""

    requirement: str
    files: tuple[str, ...]
    options: tuple[str, ...] = ()
    passing: int = 0


SUITES = {
    "einops": Suite("einops==0.8.2", ("einops/tests",), passing=59),
    "skorch": Suite(
        "skorch==1.4.0",
        tuple(
            f"skorch/tests/test_{name}.py"
            for name in ("dataset", "history", "regressor", "scoring", "setter", "toy", "utils")
        ),
        passing=284,
    ),
    "ignite": Suite(
        "pytorch-ignite==0.5.5",
        ("tests/ignite/metrics",),
        ("-k", "not distrib and not rouge and not bleu and not clip"),
        passing=2572,
    ),
    "opacus": Suite(
        "opacus==1.6.0",
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
        passing=56,
    ),
}  # fmt: skip
LIMIT = 900
"""Seconds for the tests of a library."""
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


def main(names: list[str]) -> int:
    """Run the suites and print the table; 1 if a library lost tests."""
    lost = []
    rows = []
    for name in names or SUITES:
        counts = outcomes(SUITES[name])
        rows.append(f"| {SUITES[name].requirement} | " + " | ".join(str(counts[o]) for o in OUTCOMES) + " |")
        if counts["passed"] < SUITES[name].passing:
            lost.append(f"{name}: {counts['passed']} tests pass, {SUITES[name].passing} did before")
    print("\n".join(["| library | " + " | ".join(OUTCOMES) + " |", "| --- " * 5 + "|", *rows, *lost]))
    return int(bool(lost))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
