"""Reading packages, and running the code in them."""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import linecache
import os
import pickle
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import IO, Any

from fastgrad.module_names import is_torch
from fastgrad.package import names, tensors
from fastgrad.package.file_structure_representation import Directory, directory_of
from fastgrad.package.glob_group import GlobPattern
from fastgrad.package.importer import Importer
from fastgrad.package.mangling import Mangler, demangle
from fastgrad.package.pickling import PackageUnpickler
from fastgrad.package.records import EXTERN, records_of
from fastgrad.package.resources import PackageResources
from fastgrad.serialization.parts import damage_reported
from fastgrad.serialization.placement import placement_of

_ALWAYS = frozenset(("builtins", "numpy", "numpy.core", "numpy.core._multiarray_umath"))
"""Modules that may be imported though the package does not list them, because PyTorch allows them."""


class PackageImporter(Importer):
    """An environment of the modules in a package.

    **Importing from a package, or loading a pickle of it, runs its code.** Open packages that you trust, no others.

    Modules that the package holds come from it, under names that no other module has; those that it lists as external
    come from Python's own environment, where ``torch`` means fastgrad. Nothing else can be imported by their code.

    Parameters
    ----------
    file_or_buffer : str, PathLike or file object
        An archive, or a directory that one was unpacked into. A file object must be open for reading of bytes, and
        seekable.
    module_allowed : callable
        Takes the name of an external module and says whether it may be imported.

    Attributes
    ----------
    modules : dict
        The modules that were imported, by name; what ``sys.modules`` is for Python's own environment.
    extern_modules : list of str
        The external modules that the package lists.

    Raises
    ------
    ImportError
        If the package needs a module that is not allowed.
    RuntimeError
        If it is damaged, or no package.

    Examples
    --------
    >>> import io
    >>> from fastgrad.package import PackageExporter, PackageImporter
    >>> file = io.BytesIO()
    >>> with PackageExporter(file) as exporter:
    ...     exporter.save_source_string("model", "double = lambda x: 2 * x")
    >>> PackageImporter(file).import_module("model").double(4)
    8
    """

    def __init__(
        self,
        file_or_buffer: str | os.PathLike[str] | IO[bytes],
        module_allowed: Callable[[str], bool] = lambda module_name: True,
    ) -> None:
        self._records, self.filename = records_of(file_or_buffer)
        self._need_byteorder()
        with damage_reported():
            lines = self._records.read(EXTERN).decode("utf-8").splitlines()
        self.extern_modules = [name for name in lines if name]
        for name in self.extern_modules:
            if not module_allowed(name):
                raise ImportError(
                    f"package '{file_or_buffer}' needs the external module '{name}' but that module has been "
                    "disallowed",
                    name=name,
                )
        self._external = frozenset(self.extern_modules)
        self._sources = self._modules_of(self._records.names())
        self._mangler = Mangler()
        weakref.finalize(self, _hide_from_tracebacks, self._mangler.prefix).atexit = False
        self._lock = threading.RLock()
        self._builtins = {**vars(builtins), "__import__": self.__import__}
        # Code of the package finds its importer under the name that it has in PyTorch.
        self.modules: dict[str, Any] = {"torch_package_importer": self}

    def _need_byteorder(self) -> None:
        if "byteorder" in self._records.names():
            order = self._records.read("byteorder").decode("ascii", "replace").strip()
            if order != sys.byteorder:
                raise NotImplementedError(
                    f"PackageImporter(): the package was written with {order}-endian tensors, which a {sys.byteorder}-"
                    "endian machine does not read; write it on a machine like this one"
                )

    # --- what is there ----------------------------------------------------------------------------------------

    def _modules_of(self, files: Iterable[str]) -> dict[str, str | None]:
        """The names of modules with their files, None for directories without ``__init__.py``."""
        found: dict[str, str | None] = {}
        for name in self.extern_modules:
            self._add_packages(name.split(".")[:-1], found)
        files = [file for file in files if not file.startswith(".data/")]
        for file in files:
            *directories, last = file.split("/")
            self._add_packages(directories, found)
            if last.endswith(".py"):
                name = ".".join([*directories, last.removesuffix(".py")]).removesuffix(".__init__")
                if self._is_external(name):
                    raise ImportError(
                        f"inconsistent module structure. package contains a module file {file} that is a subpackage "
                        "of a module marked external."
                    )
                found[name] = file
        for name, file_name in found.items():
            outer = name.rpartition(".")[0]
            if file_name and outer in found and not self._is_package(outer, found):
                raise ImportError(
                    f"inconsistent module structure. module {outer} is not a package, but has submodules"
                )
        return found

    def _add_packages(self, directories: list[str], found: dict[str, str | None]) -> None:
        for k in range(1, len(directories) + 1):
            name = ".".join(directories[:k])
            if not self._is_external(name):
                found.setdefault(name, None)

    @staticmethod
    def _is_package(name: str, found: Mapping[str, str | None]) -> bool:
        file = found[name]
        return file is None or file.endswith("/__init__.py")

    def _is_external(self, name: str) -> bool:
        parts = name.split(".")
        return any(".".join(parts[:k]) in self._external for k in range(1, len(parts) + 1))

    def id(self) -> str:
        """What the names of this importer's modules begin with; no other importer has it."""
        return self._mangler.prefix

    def python_version(self) -> str | None:
        """The version of Python that wrote the package, None if it does not say."""
        name = ".data/python_version"
        return self._records.read(name).decode("utf-8").strip() if name in self._records.names() else None

    def file_structure(self, *, include: GlobPattern = "**", exclude: GlobPattern = ()) -> Directory:
        """The files of the package as a tree.

        Parameters
        ----------
        include, exclude : str or iterable of str
            Patterns as those of `GlobGroup`, with slashes between parts.

        Returns
        -------
        Directory
        """
        return directory_of(self.filename, self._records.names(), include, exclude)

    # --- modules ----------------------------------------------------------------------------------------------

    def import_module(self, name: str, package: Any = None) -> Any:
        """The module of a name, whose code is run if it was not yet.

        Parameters
        ----------
        name : str
            In full; also as ``__name__`` of a module of this importer has it.
        package : object, optional
            Is not looked at; `importlib.import_module` has such a parameter.

        Returns
        -------
        module

        Raises
        ------
        ModuleNotFoundError
            If the package neither holds it nor lists it as external.
        """
        if not isinstance(name, str):
            raise TypeError(f"import_module(): expected name to be a str, but got {type(name).__name__}")
        if not name:
            raise ValueError("import_module(): expected the name of a module, but got ''")
        return self._load(self._mangler.demangle(name))

    def _load(self, name: str) -> Any:
        with self._lock:
            if name in self.modules:
                return self.modules[name]
            parent = name.rpartition(".")[0]
            outer = None
            if parent and not self._is_external(parent) and parent not in _ALWAYS:
                outer = self._load(parent)
                if name in self.modules:  # the code of the parent has imported it
                    return self.modules[name]
                if not hasattr(outer, "__path__"):
                    raise ModuleNotFoundError(
                        f"No module named {name!r}; {parent!r} is not a package", name=name
                    )
            if self._is_external(name) or (name in _ALWAYS and name not in self._sources):
                module = names.module_of(name) if is_torch(name) else importlib.import_module(name)
                self.modules[name] = module
            else:
                module = self._run(name)
            if outer is not None:
                setattr(outer, name.rpartition(".")[2], module)
            return module

    def _run(self, name: str) -> ModuleType:
        """Make a module of the package and run its code."""
        if name not in self._sources:
            raise ModuleNotFoundError(
                f'No module named "{name}" in self-contained archive "{self.filename}" and the module is also not in '
                f"the list of allowed external modules: {self.extern_modules}",
                name=name,
            )
        module, spec = self._made(name)
        self.modules[name] = module
        spec._initializing = True  # type: ignore[attr-defined] # what Python's message about circular imports asks
        # While the code runs, `dataclasses` looks there, and `from . import name` of others that this one imports.
        sys.modules[module.__name__] = module
        try:
            if module.__file__ is not None:
                source = self.get_source(name)
                _show_in_tracebacks(module.__file__, source)
                exec(compile(source, module.__file__, "exec", dont_inherit=True), vars(module))
        except BaseException:
            del self.modules[name]
            raise
        finally:
            spec._initializing = False  # type: ignore[attr-defined]
            sys.modules.pop(module.__name__, None)
        return module

    def _made(self, name: str) -> tuple[ModuleType, ModuleSpec]:
        file = self._sources[name]
        is_package = self._is_package(name, self._sources)
        spec = ModuleSpec(name, self, origin="<package_importer>", is_package=is_package)  # type: ignore[arg-type]
        module = ModuleType(self._mangler.mangle(name))
        vars(module).update(
            __spec__=spec,
            __loader__=self,
            __package__=spec.parent,
            __file__=self._mangler.mangle(file) if file else None,
            __cached__=None,
            __builtins__=self._builtins,
            __torch_package__=True,
        )
        if is_package:
            module.__path__ = []
        return module, spec

    def get_source(self, module_name: str) -> str:
        """The source of a module of the package; ImportError if it has none."""
        file = self._sources.get(self._mangler.demangle(module_name))
        if file is None:
            raise ImportError(f"the package has no source of {module_name}", name=module_name)
        return self._records.read(file).decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")

    def __import__(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,  # noqa: A002 - the names of the built-in function
        locals: Mapping[str, Any] | None = None,  # noqa: A002
        fromlist: Iterable[str] = (),
        level: int = 0,
    ) -> Any:
        """What ``import`` calls in the code of the package."""
        package = (globals or {}).get("__package__") or ""
        full = importlib.util.resolve_name("." * level + name, demangle(package)) if level else name
        module = self.import_module(full)
        if fromlist:
            self._import_names(module, self._mangler.demangle(full), fromlist)
            return module
        if not level:
            return self._load(self._mangler.demangle(name).partition(".")[0])
        inner = name.count(".") if name else 0  # the outermost of the modules that `name` itself speaks of
        return self._load(full.rsplit(".", inner)[0])

    def _import_names(self, module: Any, full: str, fromlist: Iterable[str]) -> None:
        """Import what of a list are modules within a module."""
        if not hasattr(module, "__path__"):
            return
        for name in fromlist:
            if name == "*":
                self._import_names(module, full, [n for n in getattr(module, "__all__", ()) if n != "*"])
            elif not hasattr(module, name):
                inside = f"{full}.{name}"
                try:
                    found = self._load(inside)
                except ModuleNotFoundError as error:
                    if error.name != inside:  # else Python says that the name cannot be imported
                        raise
                    continue
                # The module outside may have been made anew; one that is still running is found in sys.modules.
                if (
                    getattr(module, "__loader__", None) is self
                    and f"{module.__name__}.{name}" not in sys.modules
                ):
                    setattr(module, name, found)

    # --- what modules hold besides code -----------------------------------------------------------------------

    def get_resource_reader(self, fullname: str) -> PackageResources | None:
        """What `importlib.resources` reads the files beside a module with; None if it is none of this package."""
        name = self._mangler.demangle(fullname)
        if name not in self._sources or not self._is_package(name, self._sources):
            return None
        return PackageResources(self._records, name.replace(".", "/"))

    def _path(self, package: str | ModuleType, resource: str) -> str:
        module = self.import_module(package) if isinstance(package, str) else package
        name = demangle(getattr(module, "__name__", ""))
        if getattr(module, "__loader__", None) is not self:
            raise ImportError(f"{package!r} is no module of the package {self.filename}", name=name)
        if not hasattr(module, "__path__"):
            raise TypeError(f"{name!r} is not a package")
        return f"{name.replace('.', '/')}/{file_name(resource)}"

    def load_binary(self, package: str, resource: str) -> bytes:
        """The content of a file.

        Parameters
        ----------
        package : str
            The module that it lies beside.
        resource : str
            Its name.

        Returns
        -------
        bytes

        Raises
        ------
        RuntimeError, FileNotFoundError
            An exception that is both, if there is no such file.
        """
        return self._records.read(self._path(package, resource))

    def load_text(self, package: str, resource: str, encoding: str = "utf-8", errors: str = "strict") -> str:
        """The content of a file as text.

        Parameters
        ----------
        package : str
            The module that it lies beside.
        resource : str
            Its name.
        encoding, errors : str
            As in `bytes.decode`.

        Returns
        -------
        str
        """
        return self.load_binary(package, resource).decode(encoding, errors)

    def load_pickle(self, package: str, resource: str, map_location: Any = None) -> Any:
        """Load an object; modules that it needs are imported.

        Parameters
        ----------
        package : str
            The module that the pickle lies beside.
        resource : str
            Its name.
        map_location : str, device, dict or callable, optional
            Where tensors go; see `fastgrad.load`.

        Returns
        -------
        object

        Raises
        ------
        pickle.UnpicklingError
            If the pickle is damaged, or asks for what is not there.
        RuntimeError
            If the bytes of a tensor are damaged.
        """
        data = self._records.read(self._path(package, resource))
        reader = tensors.Reader(self._records.storage, placement_of(map_location))
        made: dict[Any, Any] = {}

        def persistent(pid: Any) -> Any:
            kind, *parts = pid if isinstance(pid, tuple) and pid else (None,)
            if kind == "storage":
                return reader.persistent_load(pid)
            if kind == "reduce_package" and len(parts) in (2, 3):
                *key, function, arguments = parts
                if not key:
                    return function(self, *arguments)
                if key[0] not in made:
                    made[key[0]] = function(self, *arguments)
                return made[key[0]]
            raise pickle.UnpicklingError(
                f"a persistent id is neither of a storage nor of an object, but {kind!r}"
            )

        return PackageUnpickler(self, data, persistent).load()

    def __repr__(self) -> str:
        return f"<PackageImporter {self.id()} of {self.filename}>"


def _show_in_tracebacks(file: str, source: str) -> None:
    # By content: what `linecache.lazycache` keeps would keep the importer, and so all of its modules.
    linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file


def _hide_from_tracebacks(prefix: str) -> None:
    for file in [file for file in linecache.cache if file.startswith(prefix + ".")]:
        linecache.cache.pop(file, None)


def file_name(resource: Any) -> str:
    """The name of a file beside a module; ValueError if it has a directory."""
    name: str = os.fspath(resource)
    if not isinstance(name, str):
        raise TypeError(f"expected the name of a resource to be a str, but got {type(name).__name__}")
    if os.path.split(name)[0] or "/" in name or "\\" in name:
        raise ValueError(f"{resource!r} must be only a file name")
    return name
