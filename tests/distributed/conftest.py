"""Makes `ranks` known; what starts MPI needs mpi4py."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # ranks, in every import mode
pytest.register_assert_rewrite("ranks")
