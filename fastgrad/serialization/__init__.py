"""Saving objects to files, and loading them without running what a file asks for.

`save` writes an archive of `serialization.archive`, or, to names that end in ``.safetensors``, the safetensors format.
"""

from __future__ import annotations

import io
import os
import pickle
from collections.abc import Callable
from typing import IO, Any

from fastgrad.serialization import archive, restricted, tensors
from fastgrad.serialization.files import is_path, replacing
from fastgrad.serialization.placement import Placement, placement_of
from fastgrad.serialization.restricted import (
    add_safe_globals,
    clear_safe_globals,
    get_safe_globals,
    safe_globals,
)

__all__ = ["add_safe_globals", "clear_safe_globals", "get_safe_globals", "load", "safe_globals", "save"]

DEFAULT_PROTOCOL = 4


def save(
    obj: Any,
    f: str | os.PathLike[str] | IO[bytes],
    pickle_module: Any = pickle,
    pickle_protocol: int = DEFAULT_PROTOCOL,
) -> None:
    """Save an object to a file.

    Tensors keep values, dtype, strides, ``requires_grad``, class and attributes, and those that share memory share it
    when they are loaded; each memory is saved as a whole, also where a tensor shows a part of it. History, ``grad`` and
    hooks are not saved, and tensors with history become leaves.

    A path is written all or not: until the new file is complete and on the disk, the old one stays.

    Parameters
    ----------
    obj : object
        Anything that can be pickled; for a path that ends in ``.safetensors`` a dict from str to tensors, of which
        the file keeps shapes, dtypes and values alone.
    f : str, PathLike or file object
        A file object must be open for writing of bytes.
    pickle_module : module
        Only `pickle` is supported.
    pickle_protocol : int
        4 or 5.

    Raises
    ------
    AttributeError
        If `f` is neither a path nor a file object.
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
    if pickle_protocol not in (4, 5):
        raise ValueError(f"save(): expected pickle_protocol to be 4 or 5, but got {pickle_protocol}")
    if not is_path(f):
        if not hasattr(f, "write"):
            raise AttributeError(
                f"save(): expected 'f' to be string, path, or a file-like object with a 'write' attribute, but got "
                f"{type(f).__name__}"
            )
        archive.write(f, obj, pickle_protocol)  # type: ignore[arg-type]
        return
    if os.fspath(f).endswith(tensors.SUFFIX):  # type: ignore[arg-type]
        tensors.save_file(obj, f)  # type: ignore[arg-type]
        return
    with replacing(f) as temporary, open(temporary, "wb") as file:  # type: ignore[arg-type]
        archive.write(file, obj, pickle_protocol)


def load(
    f: str | os.PathLike[str] | IO[bytes],
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = True,
    mmap: bool | None = None,
) -> Any:
    """Load an object that `save` wrote, or the tensors of a file that ends in ``.safetensors``.

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
        If False, anything can be loaded, and the file can run any code. None means True.
    mmap : bool, optional
        Not supported.

    Returns
    -------
    object

    Raises
    ------
    pickle.UnpicklingError
        If the file asks for what is not allowed, or is no such file.
    RuntimeError
        If it is damaged, or a tensor was on a device that is not here.
    EOFError
        If it is empty.
    """
    _need_pickle("load", pickle_module)
    if mmap:
        raise NotImplementedError("load(): mmap=True is not supported; leave it off")
    placement = placement_of(map_location)
    if is_path(f):
        if os.fspath(f).endswith(tensors.SUFFIX):  # type: ignore[arg-type]
            return tensors.load_file(f, placement)  # type: ignore[arg-type]
        with open(f, "rb") as file:  # type: ignore[arg-type]
            return _load(file, placement, weights_only is not False)
    for name in ("seek", "tell", "read"):
        if not hasattr(f, name):
            raise AttributeError(
                f"load(): {type(f).__name__!r} object has no attribute '{name}'. You can only load from a path, or "
                "from a file object that is seekable; read other data into an io.BytesIO first."
            )
    return _load(f, placement, weights_only is not False)  # type: ignore[arg-type]


def _load(file: IO[bytes], placement: Placement, weights_only: bool) -> Any:
    if not weights_only:
        return archive.read(file, placement, _load_anything)
    try:
        return archive.read(file, placement, restricted.loads)
    except pickle.UnpicklingError as error:
        raise pickle.UnpicklingError(
            f"Weights only load failed. {error}\nIf the file comes from a source that you trust, "
            "weights_only=False loads anything, and can run any code that the file asks for."
        ) from error


def _load_anything(data: bytes, persistent_load: Callable[[Any], Any]) -> Any:
    class Reader(pickle.Unpickler):  # from Python 3.13 on no instance takes a method of its own
        def persistent_load(self, pid: Any) -> Any:
            return persistent_load(pid)

    return Reader(io.BytesIO(data)).load()


def _need_pickle(name: str, module: Any) -> None:
    if module is not None and module is not pickle:
        raise NotImplementedError(
            f"{name}(): pickle_module={getattr(module, '__name__', module)} is not supported; leave it out"
        )
