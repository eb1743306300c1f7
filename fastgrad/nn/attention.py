"""The implementations of attention that PyTorch tells apart; here there is one for all of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Any

__all__ = ["SDPBackend", "sdpa_kernel"]


class SDPBackend(IntEnum):
    """The names that PyTorch gives to implementations of `scaled_dot_product_attention`."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextmanager
def sdpa_kernel(backends: Any, set_priority: bool = False) -> Iterator[Any]:
    """A context for programs that choose implementations of attention; the choice changes nothing.

    Parameters
    ----------
    backends : SDPBackend or list of SDPBackend
    set_priority : bool

    Raises
    ------
    AssertionError
        If `backends` is something else.

    Examples
    --------
    >>> import fastgrad as fg
    >>> from fastgrad.nn.attention import SDPBackend, sdpa_kernel
    >>> q = fg.zeros(1, 2, 4)
    >>> with sdpa_kernel(SDPBackend.MATH):
    ...     fg.nn.functional.scaled_dot_product_attention(q, q, q).shape
    fastgrad.Size([1, 2, 4])
    """
    if not isinstance(backends, (list, SDPBackend)):
        raise AssertionError(
            "Backend must be an instance of SDPBackend or a list of SDPBackend instances, got "
            f"{type(backends).__name__}"
        )
    yield {}
