"""Imports within packages do what Python's own do: the same sources, in a package and in a folder."""

from __future__ import annotations

import importlib
import io
import random
import sys
import threading
import types

import pytest

from fastgrad.package import PackageExporter, PackageImporter

NAMES = ["q", "q.a", "q.b", "q.s", "q.s.c", "q.s.d", "w"]


def is_package(name):
    return any(other.startswith(name + ".") for other in NAMES)


def source(rng, name):
    """A module that imports others while it runs, and may catch what that raises."""
    lines = []
    for k in range(rng.randrange(4)):
        target = rng.choice([*NAMES, "json", "os.path", "nope", "q.nope"])
        outer, _, last = target.rpartition(".")
        kinds = [
            f"import {target}", f"import {target} as v{k}", f"from {target} import *", f"from {target} import z",
            f"v{k} = __import__({target!r})", f"v{k} = __import__({target!r}, fromlist=['c', 'z'])",
        ]  # fmt: skip
        if outer:
            kinds += [f"from {outer} import {last}", f"from {outer} import {last} as v{k}"]
        if name != "w":
            kinds += [
                "from . import a", "from . import c, d", "from .. import b", "from ..s import c", "from .s.c import z",
                "from .c import z", "from .a import *", f"v{k} = __import__('a', globals(), locals(), [], 1)",
            ]  # fmt: skip
        chosen = rng.choice(kinds)
        if rng.random() < 0.25:
            chosen = f"try:\n    {chosen}\nexcept ImportError as e:\n    error{k} = type(e).__name__"
        lines.append(chosen)
    lines.insert(rng.randrange(len(lines) + 1), f"z = {name!r}")
    if rng.random() < 0.3:
        lines.insert(0, "__all__ = ['z', 'c']")
    return "\n".join(lines) + "\n"


def shown(load, name):
    """What a module has after it was imported, or the class of what came instead."""

    def plain(value):
        return value.__name__.rpartition(">.")[2] if isinstance(value, types.ModuleType) else value

    try:
        module = load(name)
    except Exception as error:
        return type(error).__name__
    return {key: plain(value) for key, value in vars(module).items() if not key.startswith("__")}


@pytest.mark.parametrize("seed", range(0, 400, 10))
def test_as_python_does(seed, tmp_path, monkeypatch):
    for part in range(10):
        rng = random.Random(seed + part)
        sources = {name: source(rng, name) for name in NAMES}
        folder = tmp_path / str(part)
        file = io.BytesIO()
        with PackageExporter(file) as e:
            e.add_dependency("json")
            e.add_dependency("os")
            for name, text in sources.items():
                e.save_source_string(name, text, is_package=is_package(name), dependencies=False)
                path = folder / (name.replace(".", "/") + ("/__init__.py" if is_package(name) else ".py"))
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
        target = rng.choice(NAMES)
        with monkeypatch.context() as patch:
            patch.syspath_prepend(folder)
            patch.setattr(sys, "dont_write_bytecode", True)
            importlib.invalidate_caches()
            expected = shown(importlib.import_module, target)
            for name in [name for name in sys.modules if name.partition(".")[0] in ("q", "w")]:
                del sys.modules[name]
        assert shown(PackageImporter(file).import_module, target) == expected, sources


def test_threads_get_one_module():
    file = io.BytesIO()
    with PackageExporter(file) as e:
        e.save_source_string("p", "from . import a", is_package=True)
        e.save_source_string("p.a", "import time\ntime.sleep(0.01)\nx = object()")
    importer = PackageImporter(file)
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(importer.import_module("p.a").x)) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(set(map(id, found))) == 1


def test_what_an_import_may_leave_behind():
    file = io.BytesIO()
    with PackageExporter(file) as e:
        e.save_source_string("p", "", is_package=True)
        e.save_source_string("p.bad", "1 / 0")
    before = set(sys.modules)
    importer = PackageImporter(file)
    with pytest.raises(ZeroDivisionError):
        importer.import_module("p.bad")
    assert sorted(importer.modules) == ["p", "torch_package_importer"]
    assert set(sys.modules) == before
