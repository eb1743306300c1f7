"""A project of a few modules to be packaged, and the package modules of both libraries."""

from __future__ import annotations

import importlib
import io
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

PROJECT = {
    "proj/__init__.py": "",
    "proj/helper.py": "def triple(x):\n    return 3 * x\n",
    "proj/model.py": "import json\nimport extlib\nfrom . import helper\nfrom proj.sub import deep\n\n\n"
    "class M:\n    def __init__(self):\n        self.v = helper.triple(1)\n\n"
    "    def up(self):\n        return deep.up(self.v)\n",
    "proj/sub/__init__.py": "",
    "proj/sub/deep.py": "def up(x):\n    return x + 1\n",
    "extlib.py": "def foo():\n    return 'real'\n\n\nclass Thing:\n    pass\n",
}


@pytest.fixture
def project(tmp_path, monkeypatch) -> Iterator[Any]:
    """The folder of the project; its modules can be imported, and are forgotten afterwards."""
    folder = tmp_path / "sources"
    for name, text in PROJECT.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(folder)
    importlib.invalidate_caches()
    before = set(sys.modules)
    yield folder
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in ("proj", "extlib"):
            del sys.modules[name]


@pytest.fixture
def package(lib) -> ModuleType:
    """The library's module of packages; see `lib`."""
    return importlib.import_module(f"{lib.__name__}.package")


@pytest.fixture
def export(package) -> Callable[..., io.BytesIO]:
    """Writes a package: what is called with the exporter fills it."""

    def write(fill: Callable[[Any], Any], **options: Any) -> io.BytesIO:
        file = io.BytesIO()
        with package.PackageExporter(file, **options) as exporter:
            fill(exporter)
        file.seek(0)
        return file

    return write
