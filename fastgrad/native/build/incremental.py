"""What compiling the runtime leaves for the next time: the functions that Numba lowered, see `native.base.lowered`, and
the machine code of its parts.

They lie beside the folder of compiled code, one file for each environment, under the same checks. Whoever edits a
function of the runtime waits for that function, and for LLVM to make the part that it is in. Users never read the file.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from fastgrad import flags
from fastgrad.native.base.lowered import Store
from fastgrad.native.build import cache, sealed
from fastgrad.native.build.machine_code import MachineCode, Settings, of_each

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
    return Store({}, {}) if data is None else Store.of_bytes(zlib.decompress(data))


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
    if store.changed:
        with sealed.Draft(path) as draft:
            draft.take()
            if draft.mine:
                draft.keep(sealed.seal(key, zlib.compress(store.to_bytes(), 1)))


def machine_codes(modules: Sequence[bytes], settings: Settings) -> list[MachineCode]:
    """The machine code of the modules of a unit, given as bitcode: what is kept of it, and the rest made now."""
    store = Store.active
    if store is None:
        return of_each(modules, settings)
    whole = repr(settings._replace(out_of_line=sorted(settings.out_of_line)))
    maker = cache.hash_package("native/build")
    keys = [cache.hash_texts(maker, whole, module) for module in modules]
    missing = {key: module for key, module in zip(keys, modules, strict=True) if key not in store.codes}
    known = store.codes | dict(
        zip(missing, map(tuple, of_each(list(missing.values()), settings)), strict=True)
    )
    store.used_codes = {key: known[key] for key in keys}
    return [MachineCode(*known[key]) for key in keys]
