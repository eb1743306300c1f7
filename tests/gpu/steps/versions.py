"""What the machine has."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Iterator

import fastgrad as fg
from tests.gpu.steps.machine import Machine, Row, output_of

PACKAGES = (
    "fastgrad", "numba", "numba-cuda", "llvmlite", "numpy", "cuda-core", "cuda-bindings", "nvidia-cublas", "torch",
)  # fmt: skip


def run(machine: Machine) -> Iterator[Row]:
    yield Row("python", platform.python_version())
    for name in PACKAGES:
        try:
            yield Row(name, importlib.metadata.version(name))
        except importlib.metadata.PackageNotFoundError:
            yield Row(name, "not installed")
    properties = fg.cuda.get_device_properties(0)
    yield Row("GPU", properties.name)
    yield Row("capability", ".".join(map(str, fg.cuda.get_device_capability(0))))
    yield Row("memory", round(properties.total_memory / 2**30, 1), "GiB")
    _, text = output_of(
        ["nvidia-smi", "--query-gpu=name,driver_version,clocks.sm,power.limit", "--format=csv"], 20
    )
    yield Row("nvidia-smi", text.strip().splitlines()[-1] if text.strip() else "")
