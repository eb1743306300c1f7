"""Finding NVIDIA's libraries: in their wheels, or where the system has them."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
from collections.abc import Callable
from pathlib import Path


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
    with contextlib.suppress(ImportError):
        return found(files)
    raise ImportError(missing)


def found(files: tuple[str, ...]) -> ctypes.CDLL:
    """The first library of some that the system has, or else NVIDIA's wheels.

    Raises
    ------
    ImportError
        If none is there.
    """
    spec = importlib.util.find_spec("nvidia")  # no package of its own: each wheel adds a folder
    folders = (spec.submodule_search_locations if spec else None) or ()
    wheels = (path for folder in folders for file in files for path in Path(folder).glob(f"*/lib/{file}"))
    for file in (*files, *map(str, wheels)):
        with contextlib.suppress(OSError):
            return ctypes.CDLL(file)
    raise ImportError(f"found none of {', '.join(files)}")
