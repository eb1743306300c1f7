"""What tests of sentences that fastgrad shares with PyTorch run in."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest


@pytest.fixture(params=["fastgrad", pytest.param("torch", marks=pytest.mark.parity)])
def lib(request: pytest.FixtureRequest) -> ModuleType:
    """The library; for sentences that are PyTorch's too, both of them."""
    found = pytest.importorskip(request.param)
    if request.param == "torch":
        found.set_num_threads(1)
    return found


@pytest.fixture
def ones(lib: ModuleType) -> Callable[..., Any]:
    """Makes a leaf of ones that requires grad."""
    return lambda *sizes: lib.ones(*(sizes or (2,)), requires_grad=True)
