"""Writing packages of code, pickled objects and other files."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import platform
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from fastgrad.functions.storage import Storage
from fastgrad.module_names import is_torch
from fastgrad.package import names, tensors
from fastgrad.package.actions import Action, Actions, Pattern
from fastgrad.package.errors import NOT_IMPLICIT, EmptyMatchError, PackagingError, PackagingErrorReason
from fastgrad.package.find_file_dependencies import find_files_source_depends_on
from fastgrad.package.graph import DiGraph, dot
from fastgrad.package.importer import Importer, OrderedImporter, sys_importer
from fastgrad.package.mangling import demangle, is_mangled
from fastgrad.package.output import Output
from fastgrad.package.package_importer import file_name
from fastgrad.package.pickling import PackagePickler, globals_of, storage_or_reduced
from fastgrad.package.records import EXTERN, need_inside
from fastgrad.package.sources import source_of, sources_within, why_missing
from fastgrad.serialization.files import is_path

_MOCKED = """\
from _mock import MockedObject


def __getattr__(attr: str):
    return MockedObject(__name__ + "." + attr, _suppress_err=True)
"""
_PROVIDED = {"torch_package_importer": Action.SKIP, "_mock": Action.KEEP_MOCK}


class PackageExporter(Actions):
    """Writes a package: the code of modules, pickled objects with the code that they need, texts and other files.

    What is saved is scanned for modules that it needs, and what happens with each of these is said by patterns:
    `intern` puts it into the package, `extern` leaves it to the environment that imports the package, `mock` puts a
    module there whose names exist but cannot be used, `deny` refuses it. The first pattern that matches decides.
    Modules of fastgrad, of PyTorch and of the standard library, other than ``sys`` and ``io``, are external by
    themselves. A module that no pattern matches is an error.

    Used as a context manager, it writes the package at the end of the block, unless the block raises.

    Parameters
    ----------
    f : str, PathLike or file object
        Where the package goes. A path has it when all of it is written; until then what was there stays. A file
        object must be open for writing of bytes.
    importer : Importer or sequence of Importer
        Finds modules and the objects of pickles. For those that came from a package it must contain that package's
        `PackageImporter`.
    debug : bool
        Whether errors say by which path each module came in.

    Attributes
    ----------
    dependency_graph : DiGraph
        What was saved and needed so far.

    Raises
    ------
    TypeError
        If `importer` is none.
    AttributeError
        If `f` is neither a path nor a file object.

    Examples
    --------
    >>> import io, fastgrad as fg
    >>> from fastgrad.package import PackageExporter, PackageImporter
    >>> file = io.BytesIO()
    >>> with PackageExporter(file) as exporter:
    ...     exporter.save_pickle("weights", "first.pkl", fg.ones(2))
    >>> PackageImporter(file).load_pickle("weights", "first.pkl")
    tensor([1., 1.])
    """

    def __init__(
        self,
        f: str | os.PathLike[str] | IO[bytes],
        importer: Importer | Sequence[Importer] = sys_importer,
        debug: bool = False,
    ) -> None:
        if not is_path(f) and not hasattr(f, "write"):
            raise AttributeError(
                f"PackageExporter(): expected a path, or a file object that is open for writing, but got "
                f"{type(f).__name__}"
            )
        if isinstance(importer, Importer):
            self.importer = importer
        elif isinstance(importer, Sequence):
            self.importer = OrderedImporter(*importer)
        else:
            raise TypeError(
                f"importer arg should be an Importer or a sequence of Importers, got {type(importer)} instead."
            )
        super().__init__()
        self.debug = debug
        self.dependency_graph = DiGraph()
        self._unique_id = 0
        self._reduced: dict[int, tuple[Any, Any]] = {}
        self._writing = False
        self._output = Output(f)
        self._storages = tensors.Writer(self._output.write)

    # --- code -------------------------------------------------------------------------------------------------

    def save_module(self, module_name: str, dependencies: bool = True) -> None:
        """Put a module into the package, whatever patterns say.

        Parameters
        ----------
        module_name : str
        dependencies : bool
            Whether modules that it imports are needed, too.

        Raises
        ------
        ModuleNotFoundError
            If there is none.
        """
        if not isinstance(module_name, str):
            raise TypeError("save_module() expects a string input, did you perhaps mean to pass `__name__`?")
        self._need_open("save_module", True)
        self._need(demangle(module_name), self._intern(module_name, dependencies))

    def save_source_file(self, module_name: str, file_or_directory: str, dependencies: bool = True) -> None:
        """Put files into the package as the code of modules.

        Parameters
        ----------
        module_name : str
        file_or_directory : str
            A file; or a directory, all Python files of which become modules within `module_name`.
        dependencies : bool
            Whether modules that they import are needed, too.
        """
        self._need_open("save_source_file", True)
        path = Path(file_or_directory)
        found = [(module_name, path, path.name == "__init__.py")]
        if path.is_dir():
            found = sources_within(module_name, path)
        read = [(name, file.read_bytes().decode("utf-8"), is_package) for name, file, is_package in found]
        for name, source, is_package in read:  # all, before any is looked for because another one imports it
            self._add_source(name, source, is_package)
        if dependencies:
            for name, source, is_package in read:
                self._need(name, self._imports_of(name, source, is_package))

    def save_source_string(
        self, module_name: str, src: str, is_package: bool = False, dependencies: bool = True
    ) -> None:
        """Put a text into the package as the code of a module.

        Parameters
        ----------
        module_name : str
        src : str
        is_package : bool
            Whether the module may have others within it.
        dependencies : bool
            Whether modules that it imports are needed, too.
        """
        self._need_open("save_source_string", True)
        self._add_source(module_name, src, is_package)
        if dependencies:
            self._need(module_name, self._imports_of(module_name, src, is_package))

    def add_dependency(self, module_name: str, dependencies: bool = True) -> None:
        """Say that a module is needed; patterns say what happens with it.

        Parameters
        ----------
        module_name : str
        dependencies : bool
            If it goes into the package, whether modules that it imports are needed, too.
        """
        self._need_open("add_dependency", True)
        if not isinstance(module_name, str):
            raise TypeError(
                f"add_dependency(): expected module_name to be a str, but got {type(module_name).__name__}"
            )
        self._need(None, [module_name], dependencies)

    def _need(self, by: str | None, module_names: Iterable[str], dependencies: bool = True) -> None:
        """Modules are needed by another one, or by the user; so is what they need, depth first."""
        waiting = [(by, iter(module_names))]
        while waiting:
            by, needed = waiting[-1]
            name = next(needed, None)
            if name is None:
                waiting.pop()
                continue
            if by is not None:
                self.dependency_graph.add_edge(by, name)
            waiting.append((name, iter(self._settle(name, dependencies))))

    def _settle(self, module_name: str, dependencies: bool) -> list[str]:
        """Find out what happens with a module; gives what it needs itself."""
        if self._node(module_name).get("provided"):
            return []
        if module_name in _PROVIDED or self._is_external_by_itself(module_name):
            self._provide(module_name, action=_PROVIDED.get(module_name, Action.EXTERN))
            return []
        pattern = self._pattern_of(module_name)
        if pattern is None:
            self.dependency_graph.add_node(module_name, error=PackagingErrorReason.NO_ACTION)
            return []
        pattern.was_matched = True
        self._provide(module_name, action=pattern.action)
        if pattern.action is Action.DENY:
            self.dependency_graph.add_node(module_name, error=PackagingErrorReason.DENIED)
        return self._intern(module_name, dependencies) if pattern.action is Action.INTERN else []

    def _intern(self, module_name: str, dependencies: bool) -> list[str]:
        module = self._import_module(module_name)
        module_name = demangle(module_name)
        is_package = hasattr(module, "__path__")
        source = source_of(module)
        if source is None:
            reason, context = why_missing(module)
            self._provide(module_name, action=Action.INTERN, is_package=is_package)
            self.dependency_graph.add_node(module_name, error=reason, error_context=context)
            return []
        self._add_source(module_name, source, is_package)
        return self._imports_of(module_name, source, is_package) if dependencies else []

    def _add_source(self, module_name: str, source: str, is_package: bool) -> None:
        if not isinstance(module_name, str) or not isinstance(source, str):
            raise TypeError(
                f"expected the name of a module and its source to be str, but got {type(module_name).__name__} and "
                f"{type(source).__name__}"
            )
        need_inside(module_name.replace(".", "/"))
        self._provide(module_name, action=Action.INTERN, source=source, is_package=is_package)

    def _imports_of(self, module_name: str, source: str, is_package: bool) -> list[str]:
        package = module_name if is_package else module_name.rpartition(".")[0]
        try:
            imports = find_files_source_depends_on(source, package)
        except (SyntaxError, ValueError, ImportError, RecursionError) as error:
            self.dependency_graph.add_node(
                module_name, error=PackagingErrorReason.DEPENDENCY_RESOLUTION_FAILED, error_context=str(error)
            )
            return []
        needed: dict[str, None] = {}
        for outer, name in imports:
            # What is imported from a module may be a module itself; then the outer one need not be there.
            for candidate in (f"{outer}.{name}", outer) if name else (outer,):
                if self._exists(candidate):
                    needed[candidate] = None
                    break
        return list(needed)

    def _node(self, name: str) -> dict[str, Any]:
        return self.dependency_graph.nodes.get(name, {})

    def _provide(self, name: str, **attributes: Any) -> None:
        """It is settled what happens with a module; until now it may have been unknown."""
        if self._node(name).get("error") is PackagingErrorReason.NO_ACTION:
            del self._node(name)["error"]
        self.dependency_graph.add_node(name, provided=True, **attributes)

    def _pattern_of(self, module_name: str) -> Pattern | None:
        return next((p for p in self._patterns if p.group.matches(module_name)), None)

    @staticmethod
    def _is_external_by_itself(module_name: str) -> bool:
        top = module_name.partition(".")[0]
        return top in ("torch", "fastgrad") or (top not in NOT_IMPLICIT and top in sys.stdlib_module_names)

    def _import_module(self, module_name: str) -> Any:
        try:
            return self.importer.import_module(module_name)
        except ModuleNotFoundError as error:
            if not is_mangled(module_name):
                raise
            raise ModuleNotFoundError(
                f"Module not found: '{module_name}'. Make sure the PackageImporter that created this module is present "
                "in `self.importer`",
                name=module_name,
            ) from error

    def _exists(self, module_name: str) -> bool:
        if is_torch(module_name):
            with contextlib.suppress(ModuleNotFoundError):  # PyTorch may be there, and have it
                names.module_of(module_name)
                return True
        try:
            self._import_module(module_name)
        except RecursionError:
            raise
        except Exception:  # noqa: BLE001 - what cannot be imported here is not needed for what runs here
            return False
        return True

    # --- objects and files ------------------------------------------------------------------------------------

    def save_pickle(
        self, package: str, resource: str, obj: Any, dependencies: bool = True, pickle_protocol: int = 3
    ) -> None:
        """Pickle an object into the package.

        Tensors are written as PyTorch writes them, layers under its names. Classes and functions are found by the
        exporter's importer.

        Parameters
        ----------
        package : str
            The module that the pickle lies beside.
        resource : str
            Its name.
        obj : object
        dependencies : bool
            Whether the modules of its classes and functions are needed.
        pickle_protocol : int
            3 or 4.

        Raises
        ------
        pickle.PicklingError
            If the importer finds another object under a name, or none.
        AssertionError
            If the protocol is another, or there is such a file.
        """
        self._need_open("save_pickle", True)
        if pickle_protocol not in (3, 4):
            raise AssertionError(
                f"save_pickle(): packages are written with pickle protocols 3 and 4, got {pickle_protocol}"
            )
        filename = self._filename(package, resource)
        buffer = io.BytesIO()
        PackagePickler(buffer, self.importer, pickle_protocol, self._aside).dump(obj)
        data = buffer.getvalue()
        node = f"<{package}.{resource}>"
        self._provide(node, action=Action.INTERN, is_pickle=True)
        if dependencies:
            self._add_globals(node, data, f"resource - `{resource}` in package `{package}`")
        self._output.write(filename, data)

    def _add_globals(self, node: str, data: bytes, place: str) -> None:
        asked: dict[str, list[str]] = {}
        for module_name, name in globals_of(data):
            asked.setdefault(module_name, []).append(name)
        for module_name, found in asked.items():
            self.dependency_graph.add_edge(node, module_name)
            pattern = None if self._is_external_by_itself(module_name) else self._pattern_of(module_name)
            if pattern is None or pattern.action is not Action.MOCK:
                self.add_dependency(module_name)
                continue
            self._provide(module_name, action=Action.MOCK)
            self.dependency_graph.add_node(
                module_name,
                error=PackagingErrorReason.MOCKED_BUT_STILL_USED,
                error_context=f"Object(s) '{found}' from module `{module_name}` was mocked out during packaging but is "
                f"being used in {place}.",
            )

    def _aside(self, obj: Any) -> Any:
        if not storage_or_reduced(obj):
            return None
        if type(obj) is Storage:
            with self._output.lock:
                return self._storages.persistent_id(obj)
        if id(obj) not in self._reduced:  # the object stays there, and so its id is its own
            made = obj.__reduce_package__(self)  # may pickle others, which take numbers
            if type(made) is not tuple or len(made) != 2:
                raise pickle.PicklingError(
                    f"save_pickle(): expected {type(obj).__name__}.__reduce_package__ to return a tuple of a function "
                    f"and its arguments, but got {type(made).__name__}"
                )
            with self._output.lock:
                self._reduced[id(obj)] = obj, ("reduce_package", len(self._reduced), *made)
        return self._reduced[id(obj)][1]

    def save_text(self, package: str, resource: str, text: str) -> None:
        """Put a text into the package.

        Parameters
        ----------
        package : str
            The module that it lies beside.
        resource : str
            Its name.
        text : str
        """
        if not isinstance(text, str):
            raise TypeError(f"save_text(): expected text to be a str, but got {type(text).__name__}")
        self.save_binary(package, resource, text.encode("utf-8"))

    def save_binary(self, package: str, resource: str, binary: bytes) -> None:
        """Put bytes into the package.

        Parameters
        ----------
        package : str
            The module that they lie beside.
        resource : str
            The name of the file.
        binary : bytes
        """
        self._need_open("save_binary", False)
        if not isinstance(binary, (bytes, bytearray, memoryview)):
            raise TypeError(f"save_binary(): expected binary to be bytes, but got {type(binary).__name__}")
        self._output.write(self._filename(package, resource), bytes(binary))

    @staticmethod
    def _filename(package: str, resource: str) -> str:
        if not isinstance(package, str):
            raise TypeError(f"expected the name of a package to be a str, but got {type(package).__name__}")
        return f"{package.replace('.', '/')}/{file_name(resource)}"

    def get_unique_id(self) -> str:
        """A text that is given once for this package."""
        found = str(self._unique_id)
        self._unique_id += 1
        return found

    # --- questions --------------------------------------------------------------------------------------------

    def externed_modules(self) -> list[str]:
        """The modules that stay external, as far as is known, in alphabetical order."""
        return self._with_action(Action.EXTERN)

    def interned_modules(self) -> list[str]:
        """The modules that go into the package, as far as is known, in alphabetical order."""
        return self._with_action(Action.INTERN)

    def mocked_modules(self) -> list[str]:
        """The modules that are mocked, as far as is known, in alphabetical order."""
        return self._with_action(Action.MOCK)

    def denied_modules(self) -> list[str]:
        """The modules that are denied and needed, as far as is known, in alphabetical order."""
        return self._with_action(Action.DENY)

    def _with_action(self, action: Action) -> list[str]:
        nodes = self.dependency_graph.nodes.items()
        return sorted(
            name for name, node in nodes if node.get("action") is action and "is_pickle" not in node
        )

    def get_rdeps(self, module_name: str) -> list[str]:
        """What needs a module; empty if it is not known."""
        graph = self.dependency_graph
        return list(graph.predecessors(module_name)) if module_name in graph else []

    def all_paths(self, src: str, dst: str) -> str:
        """How one module needs another one: the part of the graph between them, in Graphviz's language.

        Parameters
        ----------
        src, dst : str

        Returns
        -------
        str

        Raises
        ------
        ValueError
            If one of them is not known.
        """
        return self.dependency_graph.all_paths(src, dst).to_dot()

    def dependency_graph_string(self) -> str:
        """What needs what, in Graphviz's language."""
        return dot(self.dependency_graph.edges)

    # --- the end ----------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Write the package; nothing can be saved afterwards.

        Raises
        ------
        PackagingError
            If a module that is needed cannot be packaged.
        EmptyMatchError
            If a pattern with ``allow_empty=False`` has matched no module.
        """
        self._need_open("close", True)
        try:
            self._validate()
            self._writing = True
            self._write_modules()
            self._output.write(EXTERN, "\n".join(self._externs()) + "\n")
            self._output.write(".data/python_version", platform.python_version())
        except BaseException as error:
            self._output.abandon(error)
            raise
        self._output.finish()

    def _validate(self) -> None:
        if any("error" in node for node in self.dependency_graph.nodes.values()):
            raise PackagingError(self.dependency_graph, self.debug)
        for pattern in self._patterns:
            if not pattern.allow_empty and not pattern.was_matched:
                raise EmptyMatchError(
                    f"Exporter did not match any modules to {pattern.group}, which was marked as allow_empty=False"
                )

    def _write_modules(self) -> None:
        for name, node in self.dependency_graph.nodes.items():
            action = node["action"]
            for hook in self.hooks_of(action):
                hook(self, name)
            if action in (Action.MOCK, Action.KEEP_MOCK) and "_mock.py" not in self._output:
                self._output.write("_mock.py", (Path(__file__).parent / "_mock.py").read_bytes())
            if action is Action.MOCK:
                self._write_source(name, _MOCKED, hasattr(self._import_module(name), "__path__"))
            elif action is Action.INTERN and "is_pickle" not in node:
                self._write_source(name, node["source"], node["is_package"])

    def _write_source(self, name: str, source: str, is_package: bool) -> None:
        self._output.write(
            name.replace(".", "/") + ("/__init__.py" if is_package else ".py"), source.encode("utf-8")
        )

    def _externs(self) -> list[str]:
        nodes = self.dependency_graph.nodes.items()
        return [name for name, node in nodes if node["action"] is Action.EXTERN]

    def _need_open(self, method: str, changes_modules: bool) -> None:
        if not self._output.is_open:
            raise RuntimeError(f"{method}(): the package is closed; nothing can be added to it")
        if self._writing and changes_modules:
            raise RuntimeError(
                f"{method}(): the package is being written, and its modules are settled; hooks may save texts and "
                "bytes, everything else comes before close()"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
        elif self._output.is_open:
            self._output.abandon(error)
