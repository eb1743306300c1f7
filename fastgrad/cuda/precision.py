"""How exactly float32 matrices are multiplied on GPUs. On the CPU it is always with all bits."""

from __future__ import annotations

import warnings

from fastgrad.cuda import gpus

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


__all__ = ["get_float32_matmul_precision", "set_float32_matmul_precision"]
