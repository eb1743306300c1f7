"""What can be wrong with a package that is to be written."""

from __future__ import annotations

from enum import Enum

from fastgrad.package.graph import DiGraph

NOT_IMPLICIT = ("io", "sys")
"""Modules of the standard library that are not external by themselves, for they reach far into the system."""


class PackagingErrorReason(Enum):
    """Why a module cannot be packaged."""

    IS_EXTENSION_MODULE = (
        "Module is a C extension module. Packages hold Python modules only; extern or mock it."
    )
    NO_DUNDER_FILE = "Module had no __file__ defined."
    SOURCE_FILE_NOT_FOUND = "Module had a __file__, but we could not find it in your filesystem."
    DEPENDENCY_RESOLUTION_FAILED = "Dependency resolution failed."
    NO_ACTION = "Module did not match against any action pattern. Extern, mock, or intern it."
    DENIED = "Module was denied by a pattern."
    MOCKED_BUT_STILL_USED = (
        "Module was mocked out, but is still being used in the package. Please intern or extern the mocked modules if "
        "objects are supposed to be in the package."
    )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}.{self.name}>"


class EmptyMatchError(Exception):
    """A pattern with ``allow_empty=False`` has matched no module."""


class PackagingError(Exception):
    """Modules cannot be packaged; the message has all of them, by reasons.

    Attributes
    ----------
    dependency_graph : DiGraph
    """

    def __init__(self, dependency_graph: DiGraph, debug: bool = False) -> None:
        self.dependency_graph = dependency_graph
        nodes = dependency_graph.nodes
        lines = [""]
        for reason in dict.fromkeys(node["error"] for node in nodes.values() if "error" in node):
            lines.append(f"* {reason.value}")
            for name in [name for name, node in nodes.items() if node.get("error") is reason]:
                lines.append(f"    {name}")
                context = nodes[name].get("error_context")
                if context:
                    lines.append(f"      Context: {context}")
                if name in NOT_IMPLICIT:
                    lines.append(
                        f"      Note: `{name}` is not taken from the local environment by itself, as it reaches far "
                        f'into the system. If it is needed, call PackageExporter.extern("{name}")'
                    )
                if debug:
                    lines.append(f"      A path to {name}: {' -> '.join(dependency_graph.first_path(name))}")
        if not debug:
            lines += [
                "",
                "Set debug=True when invoking PackageExporter to see where broken modules are coming from!",
            ]
        super().__init__("\n".join(lines) + "\n")
