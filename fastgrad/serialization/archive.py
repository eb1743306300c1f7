"""The file that `fastgrad.save` writes: a zip archive, uncompressed, with a checksum of each part.

=============  ======================================================================================================
``version``    the text of `VERSION`
``data.pkl``   a pickle of the object; for a tensor's memory stands a tuple ("storage", dtype, key, device, count)
``data/<key>`` the bytes of that memory, little-endian
=============  ======================================================================================================
"""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import zipfile
from collections.abc import Callable
from typing import IO, Any

from fastgrad import dtypes
from fastgrad.functions.storage import Storage
from fastgrad.native.contracts.element_types import SUPPORTED_DTYPES
from fastgrad.serialization.parts import PACKAGE_MARK, Parts, damage_reported
from fastgrad.serialization.placement import Placement

VERSION = "1"
_VERSION_ENTRY, _OBJECT_ENTRY, _DATA = "version", "data.pkl", "data/"
_DTYPES = {dtypes.of_code(code).name: dtypes.of_code(code) for code in SUPPORTED_DTYPES}
_MAGIC = b"PK\x03\x04"


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
        # An entry has the time of its ZipInfo, which is fixed: the same object gives the same bytes.
        archive.writestr(zipfile.ZipInfo(_VERSION_ENTRY), VERSION)
        archive.writestr(zipfile.ZipInfo(_OBJECT_ENTRY), pickled.getvalue())
        for storage, key in pickler.storages.items():
            archive.writestr(zipfile.ZipInfo(_DATA + key), storage.buffer)  # type: ignore[arg-type]


def read(file: IO[bytes], placement: Placement, load: Callable[[bytes, Callable[[Any], Any]], Any]) -> Any:
    """Read the object of a file that is open for reading.

    Parameters
    ----------
    file : file object
    placement : callable
    load : callable
        Makes the object from its pickle and from the function that gives the object of a persistent id.

    Raises
    ------
    EOFError
        If the file is empty.
    pickle.UnpicklingError
        If it is no file of `write`.
    RuntimeError
        If it is damaged, or of a later version.
    """
    start = file.tell()
    magic = file.read(len(_MAGIC))
    size = file.seek(0, os.SEEK_END) - start
    file.seek(start)
    if not magic:
        raise EOFError("Ran out of input: the file is empty")
    if magic != _MAGIC:
        raise pickle.UnpicklingError(
            "not a file that fastgrad.save has written; a file of the safetensors format must have a name that ends "
            "in .safetensors"
        )
    with contextlib.ExitStack() as stack:
        with damage_reported():
            archive = stack.enter_context(zipfile.ZipFile(file))
        reader = _Reader(archive, size, placement)
        return load(reader.read(_OBJECT_ENTRY), reader.persistent_load)


class _Reader:
    """The object and the memories of an archive, read when they are asked for."""

    def __init__(self, archive: zipfile.ZipFile, size: int, placement: Placement) -> None:
        self.parts = Parts(archive, size)
        self.placement = placement
        self.storages: dict[str, Storage] = {}
        names = self.parts.names()
        if any(name.endswith(PACKAGE_MARK) for name in names):
            raise pickle.UnpicklingError(
                "the file is a package, which holds code: fastgrad.package.PackageImporter opens it, and importing "
                "from it runs that code; use it for packages that you trust"
            )
        if any(name.endswith("/data.pkl") for name in names):
            raise pickle.UnpicklingError(
                "the file was written by torch.save, whose format fastgrad does not read; in PyTorch, save the tensors "
                "with safetensors.torch.save_file and load that file"
            )
        version = self.read(_VERSION_ENTRY).decode("ascii", "replace")
        if version != VERSION:
            raise RuntimeError(
                f"the file has version {version!r} of the format, but this fastgrad reads version {VERSION!r}; "
                "update it"
            )

    def read(self, name: str) -> bytes:
        return self.parts.read(name)

    def persistent_load(self, pid: Any) -> Storage:
        """The memory that a persistent id means, read at its first occurrence."""
        if type(pid) is not tuple or [type(part) for part in pid] != [str, str, str, str, int]:
            raise pickle.UnpicklingError("a persistent id is none of a storage")
        kind, dtype_name, key, location, count = pid
        if kind != "storage":
            raise pickle.UnpicklingError(f"a persistent id is of a {kind!r} and not of a storage")
        if key not in self.storages:
            if dtype_name not in _DTYPES:
                raise pickle.UnpicklingError(
                    f"storage {key!r} is of the dtype {dtype_name!r}, which is not supported"
                )
            filled = self.parts.storage(_DATA + key, _DTYPES[dtype_name], count)
            self.storages[key] = self.placement(filled, location)
        found = self.storages[key]
        if (found.flat.dtype.name, found.flat.numel()) != (dtype_name, count):
            raise pickle.UnpicklingError(f"two descriptions of storage {key!r} differ")
        return found
