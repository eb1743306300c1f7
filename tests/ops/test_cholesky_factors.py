"""What `cholesky_inverse` and `cholesky_solve` refuse, beside PyTorch."""

from __future__ import annotations

from typing import Any

import pytest
from errors_beside import kinds_raised

import fastgrad as fg

WRONG: dict[str, Any] = {
    "zero on the diagonal": lambda lib: lib.cholesky_inverse(lib.zeros(2, 2)),
    "zero in a batch": lambda lib: lib.cholesky_inverse(lib.stack([lib.eye(3), lib.eye(3).triu(1)])),
    "inverse not square": lambda lib: lib.cholesky_inverse(lib.zeros(2, 3)),
    "inverse of a vector": lambda lib: lib.cholesky_inverse(lib.zeros(2)),
    "inverse of integers": lambda lib: lib.cholesky_inverse(lib.ones(2, 2, dtype=lib.int64)),
    "inverse of halves": lambda lib: lib.cholesky_inverse(lib.ones(2, 2, dtype=lib.float16)),
    "inverse upper": lambda lib: lib.cholesky_inverse(lib.eye(2), 1),
    "inverse of no tensor": lambda lib: lib.cholesky_inverse(None),
    "solve not square": lambda lib: lib.cholesky_solve(lib.ones(2, 1), lib.zeros(2, 3)),
    "solve of a vector": lambda lib: lib.cholesky_solve(lib.ones(2), lib.eye(2)),
    "solve of other sizes": lambda lib: lib.cholesky_solve(lib.ones(3, 1), lib.eye(2)),
    "solve of other dtypes": lambda lib: lib.cholesky_solve(lib.ones(2, 1), lib.eye(2, dtype=lib.float64)),
    "solve of integers": lambda lib: lib.cholesky_solve(
        lib.ones(2, 1, dtype=lib.int64), lib.eye(2, dtype=lib.int64)
    ),
    "solve of halves": lambda lib: lib.cholesky_solve(
        lib.ones(2, 1, dtype=lib.float16), lib.eye(2, dtype=lib.float16)
    ),
    "solve of no tensor": lambda lib: lib.cholesky_solve(lib.ones(2, 1), None),
    "solve upper": lambda lib: lib.cholesky_solve(lib.eye(2), lib.eye(2), None),
}


@pytest.mark.parity
@pytest.mark.parametrize("case", sorted(WRONG))
def test_errors_are_pytorchs(case: str) -> None:
    here, there = kinds_raised(WRONG[case])
    assert here.__name__.lstrip("_") == there.__name__.lstrip("_")


def test_the_message_names_the_element() -> None:
    factors = fg.stack([fg.eye(3), fg.diag(fg.tensor([1.0, 0.0, 0.0]))])
    with pytest.raises(fg.linalg.LinAlgError, match=r"Batch element 1\): The diagonal element 2 is zero"):
        fg.cholesky_inverse(factors)


def test_empty_matrices() -> None:
    assert fg.cholesky_inverse(fg.zeros(0, 0)).shape == (0, 0)
    assert fg.cholesky_inverse(fg.zeros(0, 3, 3)).shape == (0, 3, 3)
