"""What programs say of autocast without a block: on or off, and the dtype, until they say otherwise.

The state is part of the modes of a thread, so a block of `autocast` puts back what was there when it began.
"""

from __future__ import annotations

import threading
import warnings
from typing import Any

from fastgrad import dtypes
from fastgrad.amp.autocast_mode import KINDS, Kind, get_autocast_dtype, is_autocast_enabled, need_device
from fastgrad.functions.arguments import as_flag
from fastgrad.native.build.loader import ContextBase, rt
from fastgrad.native.contracts.flags import AUTOCAST_UNCACHED


def _kind(name: str, device_type: Any) -> Kind:
    if need_device(name, device_type) not in KINDS:
        raise RuntimeError(
            f"{name}(): there is no autocast for device type '{device_type}', only for cpu and cuda"
        )
    return KINDS[device_type]


def _older(name: str, instead: str) -> None:
    warnings.warn(
        f"fastgrad.{name} is deprecated. Please use fastgrad.{instead} instead.", DeprecationWarning, 3
    )


# --- on or off, and the dtype ------------------------------------------------------------------------------------


def set_autocast_enabled(device_type: Any = None, enabled: Any = None) -> None:
    """Switch autocast on or off in this thread for a kind of devices, with the dtype that `get_autocast_dtype` says.

    Parameters
    ----------
    device_type : str
        ``"cpu"`` or ``"cuda"``. It may be left out, as in PyTorch: then ``"cuda"`` is meant.
    enabled : bool

    Raises
    ------
    TypeError
        If they are no text and no bool.
    RuntimeError
        If there is no autocast for such devices.

    Examples
    --------
    >>> import fastgrad as fg
    >>> a = fg.ones(2, 2)
    >>> fg.set_autocast_enabled("cpu", True)
    >>> (a @ a).dtype
    fastgrad.bfloat16
    >>> fg.set_autocast_enabled("cpu", False)
    """
    name = "set_autocast_enabled"
    if enabled is None:
        device_type, enabled = "cuda", device_type
    elif device_type is None:
        device_type = "cuda"
    wanted = bool(as_flag(name, "enabled", enabled))
    kind = _kind(name, device_type)
    rt.apply_context(ContextBase, *kind.switches(get_autocast_dtype(device_type), wanted))


def set_autocast_dtype(device_type: str, dtype: dtypes.dtype) -> None:
    """Set the half dtype of autocast in this thread for a kind of devices, whether it is on or not.

    Parameters
    ----------
    device_type : str
    dtype : dtype
        float16 or bfloat16.

    Raises
    ------
    TypeError
        If they are no text and no dtype.
    RuntimeError
        If there is no autocast for such devices.
    NotImplementedError
        If it is another dtype.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.set_autocast_dtype("cpu", fg.float16)
    >>> with fg.autocast("cpu"):
    ...     (fg.ones(2, 2) @ fg.ones(2, 2)).dtype
    fastgrad.float16
    >>> fg.set_autocast_dtype("cpu", fg.bfloat16)
    """
    name = "set_autocast_dtype"
    kind = _kind(name, device_type)
    if not isinstance(dtype, dtypes.dtype):
        raise TypeError(f"{name}(): argument 'dtype' must be fastgrad.dtype, not {type(dtype).__name__}")
    if dtype not in kind.modes:
        raise NotImplementedError(f"{name}(): autocast knows float16 and bfloat16, but got {dtype}")
    rt.apply_context(ContextBase, *kind.switches(dtype, is_autocast_enabled(device_type)))


# --- the cache, which there is not -------------------------------------------------------------------------------


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Say whether converted parameters are kept. It changes nothing: they never are."""
    kept = as_flag("set_autocast_cache_enabled", "enabled", enabled)
    rt.apply_context(ContextBase, 0 if kept else AUTOCAST_UNCACHED, AUTOCAST_UNCACHED if kept else 0)


def is_autocast_cache_enabled() -> bool:
    """What programs said of a cache of converted parameters. There is none, so nothing follows from it."""
    return not rt.get_mode() & AUTOCAST_UNCACHED


class _Nesting(threading.local):
    level = 0


_nesting = _Nesting()


def autocast_increment_nesting() -> int:
    """Count one level up, for programs that have blocks of their own; the level. Blocks of `autocast` do not count."""
    _nesting.level += 1
    return _nesting.level


def autocast_decrement_nesting() -> int:
    """Count one level down; the level."""
    _nesting.level -= 1
    return _nesting.level


# --- older names -------------------------------------------------------------------------------------------------


def is_autocast_cpu_enabled() -> bool:
    """``is_autocast_enabled("cpu")``."""
    _older("is_autocast_cpu_enabled()", "is_autocast_enabled('cpu')")
    return is_autocast_enabled("cpu")


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """``set_autocast_enabled("cpu", enabled)``."""
    _older("set_autocast_cpu_enabled(enabled)", "set_autocast_enabled('cpu', enabled)")
    set_autocast_enabled("cpu", bool(as_flag("set_autocast_cpu_enabled", "enabled", enabled)))


def get_autocast_cpu_dtype() -> dtypes.dtype:
    """``get_autocast_dtype("cpu")``."""
    _older("get_autocast_cpu_dtype()", "get_autocast_dtype('cpu')")
    return get_autocast_dtype("cpu")


def set_autocast_cpu_dtype(dtype: dtypes.dtype) -> None:
    """``set_autocast_dtype("cpu", dtype)``."""
    _older("set_autocast_cpu_dtype(dtype)", "set_autocast_dtype('cpu', dtype)")
    set_autocast_dtype("cpu", dtype)


def get_autocast_gpu_dtype() -> dtypes.dtype:
    """``get_autocast_dtype("cuda")``."""
    _older("get_autocast_gpu_dtype()", "get_autocast_dtype('cuda')")
    return get_autocast_dtype("cuda")


def set_autocast_gpu_dtype(dtype: dtypes.dtype) -> None:
    """``set_autocast_dtype("cuda", dtype)``."""
    _older("set_autocast_gpu_dtype(dtype)", "set_autocast_dtype('cuda', dtype)")
    set_autocast_dtype("cuda", dtype)
