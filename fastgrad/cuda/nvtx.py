"""Marks and ranges that NVIDIA's profilers (Nsight Systems, Nsight Compute) show beside launches.

They need a library of NVIDIA's, ``libnvToolsExt`` of a toolkit before CUDA 13 or ``libnvtx3interop`` of the wheel
``nvidia-nvtx``. Without a profiler around the process they cost a call of that library.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Iterator
from typing import Any

from fastgrad.cuda import libraries

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]

_FILES = ("libnvToolsExt.so.1", "libnvtx3interop.so.1")
_SIGNATURES: dict[str, tuple[Any, ...]] = {  # the result's type, and those of the arguments
    "nvtxRangePushA": (ctypes.c_int, ctypes.c_char_p),
    "nvtxRangePop": (ctypes.c_int,),
    "nvtxRangeStartA": (ctypes.c_uint64, ctypes.c_char_p),
    "nvtxRangeEnd": (None, ctypes.c_uint64),
    "nvtxMarkA": (None, ctypes.c_char_p),
}


@functools.cache
def _function(name: str) -> Any:
    try:
        library = libraries.found(_FILES)
    except ImportError:
        raise RuntimeError(
            f"NVTX functions not installed: neither {' nor '.join(_FILES)} was found; pip install nvidia-nvtx"
        ) from None
    function = getattr(library, name)
    function.restype, *function.argtypes = _SIGNATURES[name]
    return function


def _text(name: str, msg: Any) -> bytes:
    if not isinstance(msg, str):
        raise TypeError(f"{name}(): argument 'msg' must be str, not {type(msg).__name__}")
    return msg.encode()


def range_push(msg: str) -> int:
    """Begin a range within those that this thread is in; how many these are, from 0 on, or a negative number where
    nobody looks.

    Parameters
    ----------
    msg : str
        What profilers show.

    Raises
    ------
    RuntimeError
        If there is no library; so everywhere here.

    Examples
    --------
    >>> import fastgrad as fg
    >>> depth = fg.cuda.nvtx.range_push("forward")  # doctest: +SKIP
    >>> depth = fg.cuda.nvtx.range_pop()  # doctest: +SKIP
    """
    text = _text("range_push", msg)
    return int(_function("nvtxRangePushA")(text))


def range_pop() -> int:
    """End the range that was begun last on this thread; how many are left around it."""
    return int(_function("nvtxRangePop")())


def range_start(msg: str) -> int:
    """Begin a range that any thread may end; what `range_end` takes."""
    text = _text("range_start", msg)
    return int(_function("nvtxRangeStartA")(text))


def range_end(range_id: int) -> None:
    """End a range that `range_start` began."""
    if isinstance(range_id, bool) or not isinstance(range_id, int):
        raise TypeError(f"range_end(): argument 'range_id' must be int, not {type(range_id).__name__}")
    _function("nvtxRangeEnd")(range_id)


def mark(msg: str) -> None:
    """Show that something happened now."""
    text = _text("mark", msg)
    _function("nvtxMarkA")(text)


@contextlib.contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """A block, or a function that it decorates, that is shown as a range; its name is ``msg.format(*args, **kwargs)``.

    Examples
    --------
    >>> import fastgrad as fg
    >>> with fg.cuda.nvtx.range("step {}", 3):  # doctest: +SKIP
    ...     fg.ones(2).sum()
    """
    range_push(_text("range", msg).decode().format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
