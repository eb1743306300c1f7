"""What compiling the runtime leaves for the next time: the functions that Numba lowered, see `native.base.lowered`.

They lie beside the folder of compiled code, one file for each environment, under the same checks. Whoever edits a
function of the runtime waits for that function, and for LLVM. Users never read the file.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Iterator
from pathlib import Path

from fastgrad import flags
from fastgrad.native.base.lowered import Store
from fastgrad.native.build import cache, sealed

COMMON = ("native/contracts", "native/base")
"""What every function may depend on without a word in its own key."""


def _path() -> Path | None:
    folder = cache.place().folder
    if folder is None:
        return None
    return folder.parent / f"lowered-{folder.name}{'-debug' if flags.DEBUG else ''}"


def _read(path: Path, key: str) -> Store:
    try:
        data = sealed.read(path, key)
    except sealed.UnusableError:  # of other sources, or damaged: all is lowered anew
        data = None
    return Store({}) if data is None else Store.of_bytes(zlib.decompress(data))


@contextlib.contextmanager
def lowered_functions() -> Iterator[None]:
    """Within it functions of the runtime are lowered only if nothing is kept of them; afterwards it is."""
    path = _path()
    if path is None:
        yield
        return
    key = f"{cache.environment_key()}/{cache.hash_package(*COMMON)}"
    Store.active = store = _read(path, key)
    try:
        yield
    finally:
        Store.active = None
    if store.lowered:
        with sealed.Draft(path) as draft:
            draft.take()
            if draft.mine:
                draft.keep(sealed.seal(key, zlib.compress(store.to_bytes(), 1)))
