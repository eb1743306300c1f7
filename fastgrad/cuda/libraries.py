"""Finding NVIDIA's libraries: in their wheels, or where the system has them."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable


def load(name: str, files: tuple[str, ...], missing: str) -> Callable[[str], int]:
    """The function that gives the addresses of the functions of a library.

    Parameters
    ----------
    name : str
        As NVIDIA's wheels are asked for it.
    files : tuple of str
        What the system may call it.
    missing : str
        What to say if it is nowhere.

    Raises
    ------
    ImportError
        If it is nowhere.
    """
    library = _open(name, files, missing)

    def address(function: str) -> int:
        return ctypes.cast(getattr(library, function), ctypes.c_void_p).value or 0

    return address


def _open(name: str, files: tuple[str, ...], missing: str) -> ctypes.CDLL:
    with contextlib.suppress(ImportError, RuntimeError):
        from cuda.pathfinder import load_nvidia_dynamic_lib

        return ctypes.CDLL(load_nvidia_dynamic_lib(name).abs_path)
    for file in files:
        with contextlib.suppress(OSError):
            return ctypes.CDLL(file)
    raise ImportError(missing)
