"""The cache of compiled code: object files named by what they were made from.

The folder is keyed by the versions of Python, Numba, llvmlite and NumPy and by the CPU; a file's name holds a hash
of the sources it was compiled from. Files are written under a temporary name and renamed, so that concurrent
processes and crashes never leave half a file; a lock file lets one process compile while the others wait.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import llvmlite
import llvmlite.binding as llvm
import numpy as np

from fastgrad import flags

STALE_LOCK = 300.0  # seconds after which a lock is taken to be left by a process that died


def root() -> Path:
    """The folder that holds everything, of this and of other versions."""
    if flags.CACHE:
        return Path(flags.CACHE)
    base = os.environ.get("XDG_CACHE_HOME") or (
        os.path.expanduser("~/Library/Caches") if sys.platform == "darwin" else os.path.expanduser("~/.cache")
    )
    return Path(base) / "fastgrad"


def _numba_version() -> str:
    """Numba's version without importing it, nor the slow `importlib.metadata`."""
    spec = importlib.util.find_spec("numba")
    if spec is None or spec.origin is None:
        raise ImportError("fastgrad needs numba: pip install numba")
    return hash_texts((Path(spec.origin).parent / "_version.py").read_bytes())


def environment_key() -> str:
    """What object code depends on besides the sources."""
    features = llvm.get_host_cpu_features().flatten()
    parts = (
        ".".join(map(str, sys.version_info[:3])), _numba_version(), llvmlite.__version__, np.__version__,
        llvm.get_default_triple(), llvm.get_host_cpu_name(), features,
    )  # fmt: skip
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=8).hexdigest()


_folder: Path | None = None


def folder() -> Path:
    """The folder for this environment; a temporary one where the cache cannot be written."""
    global _folder
    if _folder is None:
        candidate = root() / environment_key()
        try:
            candidate.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=candidate):
                pass
        except OSError:
            if not candidate.is_dir():
                candidate = Path(tempfile.mkdtemp(prefix="fastgrad-"))
        _folder = candidate
    return _folder


def hash_texts(*texts: str | bytes) -> str:
    """A short hash of sources."""
    digest = hashlib.blake2b(digest_size=12)
    for text in texts:
        digest.update(text.encode() if isinstance(text, str) else text)
        digest.update(b"\0")
    return digest.hexdigest()


def hash_package(*names: str) -> str:
    """A hash of the Python files of folders (or of files) of the package, named relative to it."""
    package = Path(__file__).parents[2]
    texts: list[bytes] = []
    for name in names:
        path = package / name
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            texts.append(file.relative_to(package).as_posix().encode())
            texts.append(file.read_bytes())
    return hash_texts(*texts)


def get(name: str, compile_code: Callable[[], bytes]) -> bytes:
    """The object code called `name`, from the cache or else from `compile_code`, which then fills the cache."""
    path = folder() / f"{name}.o"
    try:
        return path.read_bytes()
    except OSError:
        pass
    with _lock(path.with_suffix(".lock")):
        try:
            return path.read_bytes()  # another process was first
        except OSError:
            pass
        code = compile_code()
        _write(path, code)
        return code


def _write(path: Path, code: bytes) -> None:
    with contextlib.suppress(OSError):
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        with os.fdopen(handle, "wb") as file:
            file.write(code)
        os.replace(temporary, path)


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[None]:
    mine = False
    while not mine:
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            mine = True
        except FileExistsError:
            try:
                age = time.time() - path.stat().st_mtime
            except OSError:
                continue
            if age > STALE_LOCK or path.with_suffix(".o").exists():
                break
            time.sleep(0.05)
        except OSError:
            break  # a folder that cannot be written: compile without a lock
    try:
        yield
    finally:
        if mine:
            with contextlib.suppress(OSError):
                path.unlink()
