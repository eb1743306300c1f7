"""The file that `fastgrad.save` writes: a zip archive, uncompressed, with a checksum of each part.

=============  ======================================================================================================
``version``    the text of `VERSION`
``data.pkl``   a pickle of the object; for a tensor's memory stands a tuple ("storage", dtype, key, device, count)
``data/<key>`` the bytes of that memory, little-endian
=============  ======================================================================================================
"""

from __future__ import annotations

import io
import pickle
import zipfile
from typing import IO, Any

from fastgrad import dtypes
from fastgrad.functions.storage import Storage
from fastgrad.native.contracts.element_types import SUPPORTED_DTYPES
from fastgrad.serialization.parts import Memories, Parts, write_part
from fastgrad.serialization.placement import Placement
from fastgrad.serialization.restricted import OWN, Load

VERSION = "1"
_VERSION_ENTRY, _OBJECT_ENTRY, _DATA = "version", "data.pkl", "data/"
_DTYPES = {dtypes.of_code(code).name: dtypes.of_code(code) for code in SUPPORTED_DTYPES}


class _Pickler(pickle.Pickler):
    """A pickler that takes the memory of tensors aside."""

    def __init__(self, file: IO[bytes], protocol: int) -> None:
        super().__init__(file, protocol)
        self.storages: dict[Storage, str] = {}

    def persistent_id(self, obj: Any) -> Any:
        if type(obj) is not Storage:
            return None
        key = self.storages.setdefault(obj, str(len(self.storages)))
        flat = obj.flat
        return ("storage", flat.dtype.name, key, str(flat.device), flat.numel())


def write(file: IO[bytes], obj: Any, protocol: int) -> None:
    """Write an object to a file that is open for writing."""
    pickled = io.BytesIO()
    pickler = _Pickler(pickled, protocol)
    pickler.dump(obj)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        write_part(archive, _VERSION_ENTRY, VERSION.encode())
        write_part(archive, _OBJECT_ENTRY, pickled.getvalue())
        for storage, key in pickler.storages.items():
            write_part(archive, _DATA + key, storage.buffer)


def read(parts: Parts, placement: Placement, load: Load) -> Any:
    """Read the object of an archive.

    Parameters
    ----------
    parts : Parts
    placement : callable
    load : callable
        Makes the object from its pickle, the function that gives the object of a persistent id, and the vocabulary.

    Raises
    ------
    pickle.UnpicklingError
        If its pickle is none of `write`.
    RuntimeError
        If it is damaged, or of a later version.
    """
    version = parts.read(_VERSION_ENTRY).decode("ascii", "replace")
    if version != VERSION:
        raise RuntimeError(
            f"{parts.what} has version {version!r} of the format, but this fastgrad reads version {VERSION!r}; "
            "update it"
        )
    memories = Memories(placement)

    def persistent_load(pid: Any) -> Storage:
        """The memory that a persistent id means, read at its first occurrence."""
        if type(pid) is not tuple or [type(part) for part in pid] != [str, str, str, str, int]:
            raise pickle.UnpicklingError("a persistent id is none of a storage")
        kind, dtype_name, key, location, count = pid
        if kind != "storage":
            raise pickle.UnpicklingError(f"a persistent id is of a {kind!r} and not of a storage")
        if dtype_name not in _DTYPES:
            raise pickle.UnpicklingError(
                f"storage {key!r} is of the dtype {dtype_name!r}, which is not supported"
            )
        dtype = _DTYPES[dtype_name]
        return memories.get(key, dtype, count, location, lambda: parts.storage(_DATA + key, dtype, count))

    return load(parts.read(_OBJECT_ENTRY), persistent_load, OWN)
