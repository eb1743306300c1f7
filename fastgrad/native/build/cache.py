"""The cache of compiled code: object files named by what they were made from.

The folder is keyed by everything besides the sources that code depends on: the versions of Python, Numba, llvmlite and
NumPy, and the CPU; a file's name holds a hash of the sources it was compiled from. `sealed` says how files are written,
checked and locked. What a wheel was built with lies in the package and is looked up first. A folder in which others can
write is not used, and where nothing can be kept, code is compiled for the process alone; both are said on stderr, once.
"""

from __future__ import annotations

import functools
import importlib.machinery
import importlib.util
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import llvmlite
import llvmlite.binding as llvm
import numpy as np

from fastgrad import flags
from fastgrad.native.build import notices, processors, sealed
from fastgrad.native.build.digests import blake2b

# --- names -----------------------------------------------------------------------------------------------------


def root() -> Path | None:
    """The folder that holds everything, of this and of other versions; None if the user has no home."""
    if flags.CACHE:
        return Path(flags.CACHE).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):  # such a value is to be ignored, says the specification
        base = os.path.expanduser("~/Library/Caches" if sys.platform == "darwin" else "~/.cache")
    return Path(base) / "fastgrad" if os.path.isabs(base) else None


def _numba_version() -> str:
    """Numba's version without importing it, nor the slow `importlib.metadata`."""
    spec = importlib.util.find_spec("numba")
    if spec is None or spec.origin is None:
        raise ImportError("fastgrad needs numba: pip install numba")
    return hash_texts((Path(spec.origin).parent / "_version.py").read_bytes())


@functools.cache
def environment_key() -> str:
    """What object code depends on besides the sources."""
    parts = (
        str(sealed.FORMAT), ".".join(map(str, sys.version_info[:3])), importlib.machinery.EXTENSION_SUFFIXES[0],
        _numba_version(), llvmlite.__version__, np.__version__,
        llvm.get_default_triple(), *processors.host(),
    )  # fmt: skip
    return blake2b("\n".join(parts).encode(), digest_size=8).hexdigest()


def hash_texts(*texts: str | bytes) -> str:
    """A short hash of sources."""
    digest = blake2b(digest_size=12)
    for text in texts:
        digest.update(text.encode() if isinstance(text, str) else text)
        digest.update(b"\0")
    return digest.hexdigest()


def hash_package(*names: str) -> str:
    """A hash of the Python files of folders (or of files) of the package, named relative to it."""
    package = str(Path(__file__).parents[2])
    texts: list[str | bytes] = []
    for name in names:
        path = os.path.join(package, name)
        for file in sorted(_sources(path)) if os.path.isdir(path) else [path]:
            texts.append(file[len(package) + 1 :].replace(os.sep, "/"))
            with open(file, "rb", buffering=0) as source:
                texts.append(source.read())
    return hash_texts(*texts)


def _sources(folder: str) -> Iterator[str]:
    """The Python files below a folder."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                yield entry.path
            elif entry.is_dir(follow_symlinks=False):
                yield from _sources(entry.path)


# --- the folder ------------------------------------------------------------------------------------------------


class Place(NamedTuple):
    """Where files are; without a folder, why there is none."""

    folder: Path | None
    trouble: str = ""


def place() -> Place:
    """The folder for this environment, made if need be."""
    base = root()
    if base is None:
        return Place(None, "there is no home folder; FASTGRAD_CACHE can name another")
    folder = base / environment_key()
    try:
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        sealed.need_private(folder.stat())
    except OSError as error:
        return Place(None, str(error))
    except sealed.UnusableError as reason:
        notices.say_once(f"the cache {folder} is not used: {reason}")
        return Place(None, "the cache is not used")
    return Place(folder)


def trouble() -> str:
    """Why nothing can be kept, or empty: tried by making a file."""
    folder, reason = place()
    if folder is None:
        return reason
    with sealed.Draft(folder / f"probe-{os.getpid()}") as draft:
        while not draft.mine:
            draft.take()
        return draft.trouble


# --- getting code ----------------------------------------------------------------------------------------------

COMPILING = threading.RLock()
# Numba and llvmlite have locks of their own, and a state that is between two others while they work. A child that was
# forked then could never compile, nor load what is compiled, so a fork waits.
os.register_at_fork(
    before=COMPILING.acquire, after_in_parent=COMPILING.release, after_in_child=COMPILING.release
)


class Unit(NamedTuple):
    """The code of a unit, whether it was compiled just now, and if so, why it could not be kept, or empty."""

    code: bytes
    compiled: bool = False
    trouble: str = ""


def get(name: str, what: str, compile_code: Callable[[], bytes], seconds: float = 0.0) -> Unit:
    """The code of a unit, from the cache or else from `compile_code`, which then fills the cache.

    Parameters
    ----------
    name : str
        Its name, which holds a hash of what it is made from.
    what : str
        What messages call it.
    compile_code : callable
        Compiles it.
    seconds : float, optional
        How long that is likely to take.
    """
    built_in = _of_package(name)
    if built_in is not None:
        return Unit(built_in)
    folder, reason = place()
    if folder is None:
        with notices.compiling(what, f"not kept: {reason}", seconds), COMPILING:
            return Unit(compile_code(), True, reason)
    path, key = folder / f"{name}.o", f"{environment_key()}/{name}"
    damage = ""
    with sealed.Draft(path) as draft:
        while (found := _read(path, key)).code is None and not draft.mine:
            damage = found.damage or damage
            draft.take()
            if not draft.mine and draft.waited > 1:
                notices.say_waiting(what)
        if found.code is not None:
            return Unit(found.code)
        reason = draft.trouble
        kept = f"not kept: {reason}" if reason else f"once; kept in {folder.parent}"
        if damage:
            notices.say_once(f"{path} is not used: {damage}; compiling {what} anew")
        with notices.compiling(what, "" if damage else kept, seconds), COMPILING:
            code = compile_code()
        draft.keep(sealed.seal(key, code))
        if draft.trouble and not reason:
            notices.say_once(f"compiled code is not kept: {draft.trouble}", "not kept")
        return Unit(code, True, draft.trouble)


def has(name: str) -> bool:
    """Whether the cache, or the package itself, has the code of a unit."""
    if _of_package(name) is not None:
        return True
    folder = place().folder
    return folder is not None and _read(folder / f"{name}.o", f"{environment_key()}/{name}").code is not None


class _Kept(NamedTuple):
    """What is kept of a unit: its code, or None and perhaps what is wrong with the file."""

    code: bytes | None
    damage: str = ""


PACKAGED = Path(__file__).parents[2] / "compiled"
"""Code that came with the installation, in folders like those of the cache."""


def packaged() -> Path:
    """The folder of what was compiled when the package was built, if it was for such a machine."""
    return PACKAGED / environment_key()


def _of_package(name: str) -> bytes | None:
    """The code of a unit that was compiled when the package was built, if it fits this machine."""
    return _read(packaged() / f"{name}.o", f"{environment_key()}/{name}").code


def _read(path: Path, key: str) -> _Kept:
    try:
        return _Kept(sealed.read(path, key))
    except sealed.UnusableError as reason:
        return _Kept(None, str(reason))
