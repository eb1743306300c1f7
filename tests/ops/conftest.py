"""The library under test.

``FASTGRAD_OP_TABLE_LIBRARY=torch`` puts torch in fastgrad's place, which checks the table itself: its
oracles, domains and error classes must be true of torch. Messages are fastgrad's own and are not compared.
"""

from __future__ import annotations

import importlib
import os
from types import ModuleType

import pytest

LIBRARY = os.environ.get("FASTGRAD_OP_TABLE_LIBRARY", "fastgrad")


@pytest.fixture(scope="session")
def lib() -> ModuleType:
    library = importlib.import_module(LIBRARY)
    if LIBRARY == "torch":
        library.set_num_threads(1)
    return library


@pytest.fixture(scope="session")
def own_messages() -> bool:
    return LIBRARY == "fastgrad"
