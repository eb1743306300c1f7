"""Where the names of PyTorch's modules are found: in which modules of fastgrad, and which are classes."""

from __future__ import annotations

import functools
import importlib
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

FILE = Path(__file__).parent / "pytorch_classes.txt"
"""PyTorch's modules and their classes; written by ``tools/pytorch_classes.py``."""
PACKAGE, OVERLAY = "fastgrad", "fastgrad.as_torch.overlay"
EXCEPTION_MARK = "!"
"""What follows the name of a class there that is an exception."""

_ELSEWHERE = {
    "_tensor": "",
    "autograd.anomaly_mode": "autograd",
    "autograd.grad_mode": "",
    "cuda.amp.autocast_mode": "cuda.amp",
    "cuda.amp.grad_scaler": "cuda.amp",
    "functional": "",
    "nn.modules.adaptive": "nn.modules.adaptive_softmax",
    "nn.modules.channelshuffle": "nn.modules.shuffling",
    "nn.modules.fold": "nn.modules",
    "nn.modules.instancenorm": "nn.modules.instances",
    "nn.modules.pixelshuffle": "nn.modules.shuffling",
    "optim._adafactor": "optim.adafactor",
    "optim._muon": "optim.muon",
    "optim.adamw": "optim.adam",
    "profiler.profiler": "profiler",
    "signal.windows.windows": "signal.windows",
    "testing._comparison": "testing.comparison",
    "testing._creation": "testing.creation",
    "utils.data._utils.collate": "utils.data.collate",
}
"""Modules of PyTorch's that have another name here."""
_BACK = {here: there for there, here in _ELSEWHERE.items()}


class _Known(NamedTuple):
    """What PyTorch has."""

    modules: frozenset[str]
    classes: dict[str, frozenset[str]]
    exceptions: frozenset[tuple[str, str]]


@functools.cache
def known() -> _Known:
    """PyTorch's modules, their classes, and which of these are exceptions."""
    classes: dict[str, frozenset[str]] = {}
    exceptions: set[tuple[str, str]] = set()
    for line in FILE.read_text().splitlines():
        path, _, names = line.partition(":")
        found = names.split()
        classes[path] = frozenset(name.rstrip(EXCEPTION_MARK) for name in found)
        exceptions.update((path, name[:-1]) for name in found if name.endswith(EXCEPTION_MARK))
    return _Known(frozenset(classes), classes, frozenset(exceptions))


@functools.cache
def places(path: str) -> tuple[ModuleType, ...]:
    """The modules that answer for a module of PyTorch, which is named without ``torch.``; none if there is none.

    The first is fastgrad's own; the other one has what programs ask PyTorch about and fastgrad has no use for.
    """
    if path not in known().modules:
        return ()
    names = (_ELSEWHERE.get(path, path), PACKAGE), (path, OVERLAY)
    found = (_imported(".".join(filter(None, (root, inside)))) for inside, root in names)
    return tuple(module for module in found if module is not None)


def answered(path: str) -> bool:
    """Whether there are such modules, and the packages that they need."""
    try:
        return bool(places(path))
    except ImportError:
        return False


def torch_path(module: str) -> str | None:
    """What PyTorch calls a module of fastgrad, without ``torch.``; None if it has no such module."""
    root, _, path = module.partition(".")
    if root != PACKAGE:
        return None
    return path if path in known().modules else _BACK.get(path)


def _imported(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if name == missing or name.startswith(f"{missing}."):
            return None
        raise
