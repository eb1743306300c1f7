"""Pickles of packages: objects are found by importers, and what is fastgrad's has PyTorch's name."""

from __future__ import annotations

import io
import pickle
import pickletools
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import IO, Any

from fastgrad import dtypes
from fastgrad.functions.memory_format import layout, memory_format
from fastgrad.functions.storage import Storage
from fastgrad.nn import Module
from fastgrad.overrides.asking import Overridable
from fastgrad.package import layers, names, tensors
from fastgrad.package.importer import Importer, ObjMismatchError, ObjNotFoundError, attribute
from fastgrad.serialization import torch_names
from fastgrad.serialization.torch_names import StorageKind
from fastgrad.tensor import Tensor

_Base: Any = pickle._Pickler  # the one in C does not let names be written otherwise


class PackagePickler(_Base):
    """A pickler for the objects of one package.

    Parameters
    ----------
    file : file object
    importer : Importer
        Finds classes and functions.
    protocol : int
        3 or 4.
    aside : callable
        Takes an object, and gives the persistent id that stands for it or None.
    """

    dispatch = _Base.dispatch.copy()

    def __init__(
        self, file: IO[bytes], importer: Importer, protocol: int, aside: Callable[[Any], Any]
    ) -> None:
        super().__init__(file, protocol=protocol)
        self._importer = importer
        self._aside = aside

    def persistent_id(self, obj: Any) -> Any:
        """What stands for an object that is kept elsewhere."""
        return self._aside(obj)

    def reducer_override(self, obj: Any) -> Any:
        """How objects of fastgrad are written that PyTorch writes in its own way."""
        if isinstance(obj, Tensor) and type(obj).__reduce_ex__ is Tensor.__reduce_ex__:
            return torch_names.call_of(obj.__reduce_ex__(self.proto))
        if type(obj) in (dtypes.dtype, layout, memory_format, StorageKind, Overridable):
            return "named"  # by `save_global`
        if isinstance(obj, Module) and names.torch_name(type(obj)):
            made: Any = obj.__reduce_ex__(self.proto)
            return (*made[:2], made[2] | layers.added_state(obj), *made[3:])
        return torch_names.reduced_value(obj)

    def save_global(self, obj: Any, name: str | None = None) -> None:
        """Write where an object is found."""
        module_name, found = names.torch_name(obj) or self._find(obj, name)
        outer, _, last = found.rpartition(".")
        if self.proto >= 4:
            self.save(module_name)
            self.save(found)
            self.write(pickle.STACK_GLOBAL)
        elif outer:
            parent = attribute(self._importer.import_module(module_name), outer)
            self.save_reduce(getattr, (parent, last))
        else:
            self.write(pickle.GLOBAL + f"{module_name}\n{found}\n".encode())
        self.memoize(obj)

    dispatch[FunctionType] = save_global

    def _find(self, obj: Any, name: str | None) -> tuple[str, str]:
        try:
            return self._importer.get_name(obj, name)
        except (ObjNotFoundError, ObjMismatchError) as error:
            raise pickle.PicklingError(f"Can't pickle {obj}: {error}") from error


class PackageUnpickler(pickle.Unpickler):
    """An unpickler that finds classes and functions with the importer of a package.

    Parameters
    ----------
    importer : Importer
    data : bytes
    persistent : callable
        Gives the object of a persistent id.
    """

    def __init__(self, importer: Importer, data: bytes, persistent: Callable[[Any], Any]) -> None:
        super().__init__(io.BytesIO(data))
        self._importer = importer
        self._persistent = persistent

    def persistent_load(self, pid: Any) -> Any:
        """The object of a persistent id."""
        return self._persistent(pid)

    def find_class(self, module_name: str, name: str) -> Any:
        """The class or function of a name."""
        known = tensors.READ.get((module_name, name))
        if known is not None:
            return known
        return names.object_of(self._importer.import_module(module_name), module_name, name)


def storage_or_reduced(obj: Any) -> bool:
    """Whether an object goes aside: memory of a tensor, or what has a way of its own into packages."""
    return type(obj) is Storage or (not isinstance(obj, type) and hasattr(type(obj), "__reduce_package__"))


def globals_of(data: bytes) -> Iterator[tuple[str, str]]:
    """The modules and names that a pickle asks for, in its order."""
    recent: list[str] = []  # the last two texts: the operands of STACK_GLOBAL
    memo: dict[int, Any] = {}
    last: Any = None
    for opcode, argument, _ in pickletools.genops(data):
        if opcode.name == "GLOBAL":
            module, _, name = str(argument).partition(" ")
            yield module, name
        elif opcode.name == "STACK_GLOBAL" and len(recent) == 2:
            yield recent[0], recent[1]
        if opcode.name == "MEMOIZE":
            memo[len(memo)] = last
            continue
        last = memo.get(int(argument or 0)) if "GET" in opcode.name else argument
        if isinstance(last, str):
            recent = [*recent[-1:], last]
