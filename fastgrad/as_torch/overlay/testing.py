"""The older name of `assert_close`."""

from __future__ import annotations

from typing import Any

import fastgrad as fg

__all__ = ["assert_allclose"]


def assert_allclose(
    actual: Any, expected: Any, rtol: float | None = None, atol: float | None = None,
    equal_nan: bool = True, msg: str = "",
) -> None:  # fmt: skip
    """Raise if values differ by more than rounding; numbers and sequences count as tensors."""
    if not isinstance(actual, fg.Tensor):
        actual = fg.tensor(actual)
    if not isinstance(expected, fg.Tensor):
        expected = fg.tensor(expected, dtype=actual.dtype)
    fg.testing.assert_close(
        actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan, check_device=True, check_dtype=False,
        check_stride=False, msg=msg or None,
    )  # fmt: skip
