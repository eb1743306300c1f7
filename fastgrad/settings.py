"""What programs say once for the whole process. Of these only the default dtype changes what is computed."""

from __future__ import annotations

from typing import Any

from fastgrad.dtypes import dtype as DType  # noqa: N812
from fastgrad.dtypes import set_default_dtype
from fastgrad.tensor.typed import BY_NAME

__all__ = [
    "are_deterministic_algorithms_enabled",
    "get_deterministic_debug_mode",
    "get_num_interop_threads",
    "is_deterministic_algorithms_warn_only_enabled",
    "is_warn_always_enabled",
    "set_default_tensor_type",
    "set_deterministic_debug_mode",
    "set_flush_denormal",
    "set_num_interop_threads",
    "set_warn_always",
    "use_deterministic_algorithms",
]

_deterministic = {"mode": False, "warn_only": False}
_kept = {"interop": 1, "warn_always": False}
_DEBUG_MODES = ("default", "warn", "error")


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Keep what a program asks for. On the CPU, results are the same in every run in any case.

    Raises
    ------
    TypeError
        If an argument is no bool.
    """
    for name, value in (("mode", mode), ("warn_only", warn_only)):
        if not isinstance(value, bool):
            raise TypeError(
                f"use_deterministic_algorithms(): argument '{name}' must be bool, not {type(value).__name__}"
            )
    _deterministic.update(mode=mode, warn_only=warn_only)


def are_deterministic_algorithms_enabled() -> bool:
    """What `use_deterministic_algorithms` was called with."""
    return _deterministic["mode"]


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """What `use_deterministic_algorithms` was called with."""
    return _deterministic["warn_only"]


def get_deterministic_debug_mode() -> int:
    """0 without `use_deterministic_algorithms`, 1 where it is to warn, else 2."""
    return 0 if not _deterministic["mode"] else 1 if _deterministic["warn_only"] else 2


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """`use_deterministic_algorithms` by a number, or by its name.

    Parameters
    ----------
    debug_mode : int or str
        0 or "default", 1 or "warn", 2 or "error".

    Raises
    ------
    TypeError
        If it is neither a number nor a name.
    RuntimeError
        If it is another one.
    """
    if not isinstance(debug_mode, (int, str)):
        raise TypeError(f"debug_mode must be str or int, but got {type(debug_mode)}")
    known: Any = _DEBUG_MODES if isinstance(debug_mode, str) else range(len(_DEBUG_MODES))
    if debug_mode not in known:
        raise RuntimeError(
            f"set_deterministic_debug_mode(): invalid value of debug_mode, expected one of "
            f"{', '.join(map(str, known))}, but got {debug_mode}"
        )
    number = known.index(debug_mode)
    use_deterministic_algorithms(number > 0, warn_only=number == 1)


def get_num_interop_threads() -> int:
    """What `set_num_interop_threads` was called with; ops run one after the other in any case."""
    return _kept["interop"]


def set_num_interop_threads(threads: int) -> None:
    """Keep a number: ops run one after the other in any case.

    Raises
    ------
    RuntimeError
        If it is no positive int.
    """
    if type(threads) is not int:
        raise RuntimeError(f"set_num_interop_threads expects an int, but got {type(threads).__name__}")
    if threads <= 0:
        raise RuntimeError("set_num_interop_threads expects a positive integer")
    _kept["interop"] = threads


def set_flush_denormal(mode: bool) -> bool:
    """False: numbers close to zero stay what they are, as on a processor that cannot flush them."""
    if not isinstance(mode, bool):
        raise RuntimeError(f"set_flush_denormal expects a bool, but got {type(mode).__name__}")
    return False


def set_warn_always(b: bool, /) -> None:
    """Keep a flag. How often a warning is shown is said to Python's module `warnings`."""
    if not isinstance(b, bool):
        raise RuntimeError(f"set_warn_always expects a bool, but got {type(b).__name__}")
    _kept["warn_always"] = b


def is_warn_always_enabled() -> bool:
    """What `set_warn_always` was called with."""
    return bool(_kept["warn_always"])


def set_default_tensor_type(t: Any, /) -> None:
    """Let functions that make tensors use the dtype of a type such as ``DoubleTensor``, or of its name.

    Raises
    ------
    TypeError
        If it is no such type, or not one of floating-point numbers.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.set_default_tensor_type(fg.DoubleTensor)
    >>> fg.ones(1).dtype
    fastgrad.float64
    >>> fg.set_default_tensor_type("torch.FloatTensor")
    """
    found = t
    if isinstance(t, str):
        module, _, name = t.rpartition(".")
        found = None if module.endswith(".cuda") else BY_NAME.get(name)
        if found is None:
            raise TypeError(
                f"invalid type object: {t!r}; fastgrad.set_default_device says where tensors are made"
            )
    dtype = getattr(found, "dtype", None)
    if not isinstance(found, type) or not isinstance(dtype, DType) or not dtype.is_floating_point:
        raise TypeError(f"only floating-point types are supported as the default type, but got {t!r}")
    set_default_dtype(dtype)
