"""Makes `ranks` known, and gives tests a group of this process alone."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # ranks, in every import mode
pytest.register_assert_rewrite("ranks")


@pytest.fixture
def alone() -> Iterator[None]:
    """A group of this process alone."""
    pytest.importorskip("mpi4py")
    import fastgrad.distributed as dist

    dist.init_process_group("mpi")
    yield
    dist.destroy_process_group()
