"""How exactly float32 matrices are multiplied on GPUs. On the CPU it is always with all bits."""

from __future__ import annotations

import warnings

from fastgrad.cuda import gpus
from fastgrad.native.build.loader import runtime_set

EXACT = "highest"
_KNOWN = (EXACT, "high", "medium")
_now = [EXACT]


def get_float32_matmul_precision() -> str:
    """What `set_float32_matmul_precision` was called with, at first "highest".

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.get_float32_matmul_precision()
    'highest'
    """
    return _now[0]


def set_float32_matmul_precision(precision: str) -> None:
    """Say how exactly GPUs shall multiply float32 matrices.

    Parameters
    ----------
    precision : {"highest", "high", "medium"}
        With all bits, or else by tensor cores with factors that are rounded to TF32 (10 bits after the point).

    Raises
    ------
    RuntimeError
        If it is no str.

    Warns
    -----
    UserWarning
        If it is none of these; then nothing changes.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.set_float32_matmul_precision("high")
    >>> fg.backends.cuda.matmul.allow_tf32
    True
    >>> fg.set_float32_matmul_precision("highest")
    """
    if not isinstance(precision, str):
        raise RuntimeError(f"set_float32_matmul_precision expects a str, but got {type(precision).__name__}")
    if precision not in _KNOWN:
        warnings.warn(
            f"{precision} is not one of 'highest', 'high', or 'medium'; the current setFloat32MatmulPrecision call has "
            "no effect.",
            stacklevel=2,
        )
        return
    _now[0] = precision
    gpus.set_allow_tf32(precision != EXACT)


def products_in_tf32() -> bool:
    """Whether GPUs may round the factors of products of float32 matrices to TF32."""
    return gpus._allow_tf32


_of_convolutions: list[bool | None] = [None]


def convolutions_in_tf32() -> bool | None:
    """Whether GPUs may round the factors of convolutions of float32 to TF32; None while nobody has said so."""
    return _of_convolutions[0]


def allow_convolutions_in_tf32(allow: bool | None) -> None:
    """Say whether they may; where nobody says so, they may not.

    What is recorded of a convolution keeps what held when it was recorded.
    """
    _of_convolutions[0] = allow
    runtime_set("convolutions_in_tf32", int(bool(allow)))


__all__ = [
    "allow_convolutions_in_tf32", "convolutions_in_tf32", "get_float32_matmul_precision",
    "set_float32_matmul_precision",
]  # fmt: skip
