"""Saving objects to files, and loading them without running what a file asks for.

`save` writes an archive of `serialization.archive`, or one that PyTorch reads (`torch_archive`), or, to names that end
in ``.safetensors``, the safetensors format. `load` tells by the first bytes what it has, `torch_legacy` included.
"""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import warnings
from collections.abc import Callable
from typing import IO, Any

from fastgrad.serialization import archive, restricted, tensors, torch_archive, torch_legacy
from fastgrad.serialization.files import is_path, need_readable, replacing
from fastgrad.serialization.parts import MAGIC, PACKAGE_MARK, Parts, name_of_file
from fastgrad.serialization.placement import Placement, placement_of
from fastgrad.serialization.restricted import (
    add_safe_globals,
    clear_safe_globals,
    get_safe_globals,
    safe_globals,
)

__all__ = ["add_safe_globals", "clear_safe_globals", "get_safe_globals", "load", "safe_globals", "save"]

_PROTOCOLS: dict[str, tuple[int, ...]] = {"fastgrad": (4, 5), "torch": (2,), "safetensors": (0,)}
"""The formats by name, with the protocols of pickles that they have."""
_ENV_WEIGHTS_ONLY, _ENV_NO_WEIGHTS_ONLY = "TORCH_FORCE_WEIGHTS_ONLY_LOAD", "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"
_TRUE = ("1", "y", "yes", "true")


def save(
    obj: Any,
    f: str | os.PathLike[str] | IO[bytes],
    pickle_module: Any = pickle,
    pickle_protocol: int | None = None,
    *,
    format: str | None = None,  # noqa: A002 - the name that PyTorch's users know from other libraries
) -> None:
    """Save an object to a file.

    Tensors keep values, dtype, strides, ``requires_grad``, class and attributes, and those that share memory share it
    when they are loaded; each memory is saved as a whole, also where a tensor shows a part of it. History, ``grad`` and
    hooks are not saved, and tensors with history become leaves.

    A path is written all or not: until the new file is complete and on the disk, the old one stays.

    Parameters
    ----------
    obj : object
        Anything that can be pickled; for safetensors a dict from str to tensors, of which the file keeps shapes,
        dtypes and values alone; for PyTorch what `load` reads with ``weights_only=True``.
    f : str, PathLike or file object
        A file object must be open for writing of bytes.
    pickle_module : module
        Only `pickle` is supported.
    pickle_protocol : int, optional
        4, the default, or 5; PyTorch's format has 2 alone.
    format : {"fastgrad", "torch", "safetensors"}, optional
        What to write: by default safetensors to a path that ends in ``.safetensors``, fastgrad's own format to others.
        ``torch.load`` reads what "torch" writes, with ``weights_only=True``.

    Raises
    ------
    AttributeError
        If `f` is neither a path nor a file object.
    pickle.PicklingError
        If PyTorch's format cannot hold the object.
    RuntimeError
        If the folder of `f` does not exist.
    ValueError
        If the protocol is not supported.

    Warns
    -----
    UserWarning
        If a tensor, other than a parameter, has hooks.

    Examples
    --------
    >>> import io, fastgrad as fg
    >>> file = io.BytesIO()
    >>> fg.save({"weight": fg.ones(2), "epoch": 3}, file)
    >>> _ = file.seek(0)
    >>> fg.load(file)
    {'weight': tensor([1., 1.]), 'epoch': 3}
    """
    _need_pickle("save", pickle_module)
    if format is not None and format not in list(_PROTOCOLS):
        raise ValueError(
            f"save(): expected format to be None or one of {', '.join(_PROTOCOLS)}, but got {format!r}"
        )
    protocols = _PROTOCOLS[format or "fastgrad"]
    if pickle_protocol is None:
        pickle_protocol = protocols[0]
    elif pickle_protocol not in protocols:
        raise ValueError(
            f"save(): expected pickle_protocol to be {' or '.join(map(str, protocols))}, but got {pickle_protocol}"
        )
    if not is_path(f):
        if not hasattr(f, "write"):
            raise AttributeError(
                f"save(): expected 'f' to be string, path, or a file-like object with a 'write' attribute, but got "
                f"{type(f).__name__}"
            )
        if format == "safetensors":
            raise ValueError("save(): format='safetensors' needs a path, but got a file object")
        _write(f, obj, pickle_protocol, format)  # type: ignore[arg-type]
        return
    if format == "safetensors" or (format is None and os.fspath(f).endswith(tensors.SUFFIX)):
        tensors.save_file(obj, f)
        return
    with replacing(f) as temporary, open(temporary, "wb") as file:
        _write(file, obj, pickle_protocol, format)


def _write(file: IO[bytes], obj: Any, protocol: int, kind: str | None) -> None:
    if kind == "torch":
        torch_archive.write(file, obj)
    else:
        archive.write(file, obj, protocol)


def load(
    f: str | os.PathLike[str] | IO[bytes],
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
) -> Any:
    """Load an object that `save` or ``torch.save`` wrote, or the tensors of a file that ends in ``.safetensors``.

    A path that ends in ``.safetensors.index.json`` stands for the files that it lists, which lie beside it.

    By default a file can hold tensors, parameters, dicts (also `OrderedDict`, `defaultdict` and `Counter`), lists,
    tuples, sets, numbers, texts, bytes, None, slices, ranges, sizes, dtypes and devices, and nothing of it is run.
    Files from a source that you do not trust should be loaded in no other way.

    Parameters
    ----------
    f : str, PathLike or file object
        A file object must be open for reading of bytes, and seekable.
    map_location : str, device, dict or callable, optional
        Where tensors go that were on a device: on this one, on the one that the dict has for it, or where
        ``map_location(storage, location)`` puts their memory; None from that function means where they were.
    pickle_module : module, optional
        Only `pickle` is supported.
    weights_only : bool, optional
        If False, anything can be loaded, and the file can run any code. None means True, unless the environment
        variable ``TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD`` is set to 1; ``TORCH_FORCE_WEIGHTS_ONLY_LOAD`` makes it True in
        any case.
    mmap : bool, optional
        Whether the memory of tensors is that of the file, whose pages are read when they are touched. Changes of the
        tensors do not reach the file. Needs a path, and another format than that of PyTorch before 1.6.

    Returns
    -------
    object

    Raises
    ------
    pickle.UnpicklingError
        If the file asks for what is not allowed, or is no such file.
    RuntimeError
        If it is damaged, or a tensor was on a device that is not here, or both variables are set.
    ValueError
        If `mmap` is asked for and `f` is no path.
    EOFError
        If it is empty.
    """
    _need_pickle("load", pickle_module)
    placement = placement_of(map_location)
    only = _weights_only(weights_only)
    if is_path(f):
        path = os.fspath(f)
        if path.endswith(tensors.SUFFIX):
            return tensors.load_file(path, placement, bool(mmap))
        if path.endswith(tensors.INDEX_SUFFIX):
            return tensors.load_sharded(path, placement, bool(mmap))
        with open(path, "rb") as file:
            return _load(file, placement, only, bool(mmap))
    need_readable("load", f)
    if mmap:
        raise ValueError("load(): f must be a file path in order to use the mmap argument")
    return _load(f, placement, only, False)  # type: ignore[arg-type]


def _weights_only(said: bool | None) -> bool:
    """What a call says of ``weights_only``, and what those who run the program do by PyTorch's variables."""
    with_code, without_code = (
        os.getenv(variable, "").lower() in _TRUE for variable in (_ENV_NO_WEIGHTS_ONLY, _ENV_WEIGHTS_ONLY)
    )
    if with_code and without_code:
        raise RuntimeError(
            f"load(): only one of {_ENV_WEIGHTS_ONLY} and {_ENV_NO_WEIGHTS_ONLY} can be set, but both are"
        )
    if said is None and with_code:
        warnings.warn(
            f"load(): weights_only=False, as the environment variable {_ENV_NO_WEIGHTS_ONLY} asks for it where the "
            "call does not say",
            UserWarning,
            stacklevel=3,
        )
        return False
    return without_code or said is not False


def _load(file: IO[bytes], placement: Placement, weights_only: bool, mmap: bool) -> Any:
    if not weights_only:
        return _read(file, placement, _load_anything, mmap)
    try:
        return _read(file, placement, restricted.loads, mmap)
    except pickle.UnpicklingError as error:
        raise pickle.UnpicklingError(
            f"Weights only load failed. In {name_of_file(file)}: {error}\nIf the file comes from a source that you "
            "trust, weights_only=False loads anything, and can run any code that the file asks for."
        ) from error


def _read(file: IO[bytes], placement: Placement, load: restricted.Load, mmap: bool) -> Any:
    """Read an object in the format that the first bytes tell."""
    start = file.tell()
    magic = file.read(len(torch_legacy.MAGIC))
    file.seek(start)
    if not magic:
        raise EOFError(f"Ran out of input: {name_of_file(file)} is empty")
    if magic == torch_legacy.MAGIC:
        if mmap:
            raise RuntimeError(
                f"load(): mmap=True needs a zip archive, but {name_of_file(file)} is of the format of PyTorch before "
                "1.6; leave it out, or save the file anew"
            )
        return torch_legacy.read(file, placement, load)
    if not magic.startswith(MAGIC):
        raise pickle.UnpicklingError(
            "not a file that fastgrad.save or torch.save has written; a file of the safetensors format must have a "
            f"name that ends in {tensors.SUFFIX}"
        )
    parts = Parts(file, mmap)
    with contextlib.closing(parts):
        if any(name.endswith(PACKAGE_MARK) for name in parts.entries):
            raise pickle.UnpicklingError(
                "the file is a package, which holds code: fastgrad.package.PackageImporter opens it, and importing "
                "from it runs that code; use it for packages that you trust"
            )
        folder = torch_archive.folder_of(parts)
        if folder is None:
            return archive.read(parts, placement, load)
        return torch_archive.read(parts, folder, placement, load)


def _load_anything(
    data: bytes | IO[bytes], persistent_load: Callable[[Any], Any], vocabulary: restricted.Vocabulary
) -> Any:
    class Reader(pickle.Unpickler):  # from Python 3.13 on no instance takes a method of its own
        def persistent_load(self, pid: Any) -> Any:
            return persistent_load(pid)

        def find_class(self, module: str, name: str) -> Any:
            return vocabulary.find_trusted(module, name, super().find_class)

    return Reader(io.BytesIO(data) if isinstance(data, bytes) else data).load()


def _need_pickle(name: str, module: Any) -> None:
    if module is not None and module is not pickle:
        raise NotImplementedError(
            f"{name}(): pickle_module={getattr(module, '__name__', module)} is not supported; leave it out"
        )
