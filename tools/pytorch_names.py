"""Write ``fastgrad/pytorch_names.txt``: PyTorch's public names by modules, for messages about those that are missing.

``python tools/pytorch_names.py`` needs PyTorch.
"""

from __future__ import annotations

import importlib
import types
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FILE = Path(__file__).parent.parent / "fastgrad" / "pytorch_names.txt"
PLACES = {
    "": "accelerator amp autograd backends compiler cuda distributed distributions export fft func futures fx hub jit "
    "library linalg masked monitor multiprocessing nested nn onnx optim overrides package profiler random sparse "
    "special testing utils",
    "autograd.": "forward_ad functional graph profiler",
    "nn.": "functional init parallel utils",
    "nn.utils.": "parametrizations parametrize prune rnn stateless",
    "optim.": "lr_scheduler swa_utils",
    "utils.": "checkpoint data hooks",
}
MODULES = [before + name for before, names in PLACES.items() for name in names.split()]
IMPORTED = {"torch", "log", "fwAD", "annotations", "TYPE_CHECKING"}
"""What modules import under such names."""


def public(module: Any) -> Iterator[str]:
    """The names that a module offers, without what it merely imports."""
    listed = set(getattr(module, "__all__", ()))
    for name in dir(module):
        found = getattr(module, name, None)
        other = isinstance(found, types.ModuleType) and not found.__name__.startswith("torch")
        if other or name.startswith("_") or name in IMPORTED:
            continue
        home = getattr(found, "__module__", None) or ""
        own = home.startswith("torch") or not (callable(found) or isinstance(found, type))
        if name in listed or (own and not home.startswith("torch.testing._internal")):
            yield name


def main() -> None:
    """Write the file."""
    warnings.simplefilter("ignore")  # some names warn when they are read
    torch = importlib.import_module("torch")
    lines = [f"Tensor: {' '.join(n for n in dir(torch.Tensor) if not n.startswith('_'))}"]
    for path in ["", *MODULES]:
        module = importlib.import_module(f"torch.{path}" if path else "torch")
        lines.append(f"{path}: {' '.join(public(module))}")
    FILE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
