"""Packages: archives that hold code together with the objects that need it.

**A package runs code.** `PackageImporter` runs the code of modules that are imported from it, and loading a pickle
imports the modules that it needs. Open packages that you trust, no others; `fastgrad.load` refuses them.

The format is that of ``torch.package``.
"""

from fastgrad.package import analyze
from fastgrad.package.analyze import is_from_package
from fastgrad.package.errors import EmptyMatchError, PackagingError
from fastgrad.package.file_structure_representation import Directory
from fastgrad.package.glob_group import GlobGroup
from fastgrad.package.importer import (
    Importer,
    ObjMismatchError,
    ObjNotFoundError,
    OrderedImporter,
    sys_importer,
)
from fastgrad.package.package_exporter import PackageExporter
from fastgrad.package.package_importer import PackageImporter

__all__ = [
    "Directory",
    "EmptyMatchError",
    "GlobGroup",
    "Importer",
    "ObjMismatchError",
    "ObjNotFoundError",
    "OrderedImporter",
    "PackageExporter",
    "PackageImporter",
    "PackagingError",
    "analyze",
    "is_from_package",
    "sys_importer",
]
