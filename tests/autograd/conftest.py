"""What tests of sentences that fastgrad shares with PyTorch run in."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest


@pytest.fixture
def ones(lib: ModuleType) -> Callable[..., Any]:
    """Makes a leaf of ones that requires grad."""
    return lambda *sizes: lib.ones(*(sizes or (2,)), requires_grad=True)
