"""What the tests of modules share."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import pytest


@pytest.fixture
def nn(lib: ModuleType) -> ModuleType:
    """The library's `nn`."""
    return lib.nn


@pytest.fixture
def hooks(lib: ModuleType) -> ModuleType:
    """Where the global hooks are registered."""
    return importlib.import_module(f"{lib.__name__}.nn.modules.module")


@pytest.fixture
def module(nn: ModuleType) -> Any:
    """Makes a module with a forward."""

    def make(forward: Any = lambda x: x * 2) -> Any:
        class Made(nn.Module):
            def forward(self, *args, **kwargs):
                return forward(*args, **kwargs)

        return Made()

    return make
