"""Packages that were damaged or made to do harm, and arguments of all kinds."""

from __future__ import annotations

import contextlib
import gc
import io
import linecache
import os
import pickle
import random
import sys
import threading
import types
import weakref
import zipfile

import pytest
from threads import in_threads, switching

import fastgrad as fg
from fastgrad.package import (
    GlobGroup,
    OrderedImporter,
    PackageExporter,
    PackageImporter,
    PackagingError,
    sys_importer,
)

ALLOWED = (
    RuntimeError,
    pickle.UnpicklingError,
    ImportError,
    ValueError,
    TypeError,
    SyntaxError,
    EOFError,
    NameError,
)
"""What a damaged package may raise: no MemoryError, nothing that ends the process."""


def write(fill, **options):
    file = io.BytesIO()
    with PackageExporter(file, **options) as e:
        fill(e)
    return file


def sample():
    def fill(e):
        e.save_source_string("p", "from . import m\nfrom .m import x", is_package=True)
        e.save_source_string("p.m", "import json\nx = json.loads('[1, 2]')")
        e.save_pickle("res", "a.pkl", {"x": fg.arange(20.0), "layer": fg.nn.Linear(2, 2)})
        e.save_text("res", "a.txt", "text")

    return write(fill).getvalue()


def use(data):
    importer = PackageImporter(io.BytesIO(data))
    importer.import_module("p")
    importer.load_pickle("res", "a.pkl")
    return importer.load_text("res", "a.txt")


@pytest.mark.parametrize("seed", range(8))
def test_changed_bytes(seed):
    rng = random.Random(seed)
    data = sample()
    for _ in range(40):
        changed = bytearray(data)
        for _ in range(rng.randrange(1, 4)):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        with contextlib.suppress(*ALLOWED):
            assert use(bytes(changed)) == "text"  # some bytes mean nothing


def test_every_cut():
    data = sample()
    for length in range(0, len(data), 37):
        with pytest.raises(RuntimeError):
            PackageImporter(io.BytesIO(data[:length]))


def test_two_files_of_one_name():
    file = io.BytesIO(sample())
    with zipfile.ZipFile(file, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("archive/p/m.py", "x = 'other'")
    with pytest.raises(RuntimeError, match="two of its parts have one name"):
        PackageImporter(file)


def test_other_archives():
    saved = io.BytesIO()
    fg.save(fg.ones(2), saved)
    with pytest.raises(RuntimeError, match="no package"):
        PackageImporter(saved)
    for content in (b"", b"no archive", b"PK\x03\x04" + bytes(100)):
        with pytest.raises(RuntimeError, match="corrupted"):
            PackageImporter(io.BytesIO(content))


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="a device of Unix")
def test_a_device_that_never_ends():
    with pytest.raises(RuntimeError, match="/dev/zero is corrupted: it is empty"):
        PackageImporter("/dev/zero")


def test_inconsistent_modules():
    def archive(**files):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as target:
            for name, content in {".data/extern_modules": "json\n", **files}.items():
                target.writestr(f"archive/{name}", content)
        return out

    with pytest.raises(ImportError, match="m is not a package, but has submodules"):
        PackageImporter(archive(**{"m.py": "", "m/inner.py": ""}))
    with pytest.raises(ImportError, match="marked external"):
        PackageImporter(archive(**{"json/decoder.py": ""}))
    with pytest.raises(RuntimeError, match="corrupted"):
        PackageImporter(archive(**{".data/extern_modules": b"\xff\xfe"}))
    other = "big" if sys.byteorder == "little" else "little"
    with pytest.raises(NotImplementedError, match=f"{other}-endian"):
        PackageImporter(archive(byteorder=other))
    importer = PackageImporter(archive(**{"m/a.txt": "", "m.py": "x = 1"}))
    assert importer.import_module("m").x == 1
    with pytest.raises(TypeError, match="'m' is not a package"):
        importer.load_text("m", "a.txt")


def test_directories_do_not_follow_links(tmp_path):
    folder = tmp_path / "package"
    (folder / ".data").mkdir(parents=True)
    (folder / ".data" / "extern_modules").write_text("\n")
    (folder / "res").mkdir()
    (folder / "res" / "b.txt").write_text("here")
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    (folder / "res" / "a.txt").symlink_to(secret)
    with pytest.raises(FileNotFoundError, match=r"res/a\.txt"):
        PackageImporter(folder).load_text("res", "a.txt")
    assert PackageImporter(folder).load_text("res", "b.txt") == "here"
    with pytest.raises(RuntimeError, match="is no package"):
        PackageImporter(tmp_path)


def test_wrong_arguments():
    for f in (None, 5, object()):
        with pytest.raises(AttributeError, match="expected a path"):
            PackageExporter(f)
        with pytest.raises(AttributeError, match="expected a path"):
            PackageImporter(f)
    for importer in (None, 5, [5], "abc"):
        with pytest.raises(TypeError, match=r"[Ii]mporter"):
            PackageExporter(io.BytesIO(), importer=importer)
    for pattern in (None, 5, [None]):
        with pytest.raises(TypeError, match="expected a pattern to be a str"):
            GlobGroup(pattern)
    with pytest.raises(TypeError, match="not a Importer"):
        OrderedImporter(sys_importer, None)
    importer = PackageImporter(write(lambda e: e.save_text("res", "a.txt", "x")))
    for name, error in ((None, TypeError), (5, TypeError), ("", ValueError), ("a..b", ImportError)):
        with pytest.raises(error):
            importer.import_module(name)
    for package in (None, 5, fg):
        with pytest.raises(ImportError, match="no module of the package"):
            importer.load_text(package, "a.txt")
    for resource in (None, 5, b"a.txt"):
        with pytest.raises(TypeError):
            importer.load_text("res", resource)


def test_wrong_arguments_of_saving():
    e = PackageExporter(io.BytesIO())
    for bad in (None, 5, b"x"):
        for call in (
            lambda bad=bad: e.save_module(bad), lambda bad=bad: e.add_dependency(bad),
            lambda bad=bad: e.save_source_string(bad, ""), lambda bad=bad: e.save_source_string("m", bad),
            lambda bad=bad: e.save_pickle(bad, "a", 1), lambda bad=bad: e.save_text("res", "a", bad),
            lambda bad=bad: e.save_text(bad, "a", "x"), lambda bad=bad: e.save_source_file(bad, __file__),
        ):  # fmt: skip
            with pytest.raises(TypeError):
                call()
    with pytest.raises(TypeError, match="bytes"):
        e.save_binary("res", "a", "text")
    with pytest.raises(AssertionError, match="protocols 3 and 4, got 5"):
        e.save_pickle("res", "a", 1, pickle_protocol=5)
    with pytest.raises(FileNotFoundError):
        e.save_source_file("m", "/surely/not/there.py")
    e.close()
    for call in (e.close, lambda: e.save_text("res", "a", "x"), lambda: e.save_module("json")):
        with pytest.raises(RuntimeError, match="the package is closed"):
            call()


def test_classes_and_modules_that_lie(monkeypatch):
    class Liar:
        __module__ = 5

    answering = types.ModuleType("answering")
    answering.__getattr__ = lambda name: 1 / 0
    monkeypatch.setitem(sys.modules, "answering", answering)
    with pytest.raises(pickle.PicklingError, match="was not found as"):
        write(lambda e: e.save_pickle("res", "a.pkl", Liar()))
    assert not fg.package.is_from_package(Liar())


def test_objects_without_a_way():
    made = types.ModuleType("made_for_a_test")
    exec("class A:\n    pass\nclass B:\n    class C:\n        pass\n", vars(made))
    sys.modules["made_for_a_test"] = made
    try:
        with pytest.raises(PackagingError, match="Module had no __file__ defined"):
            write(lambda e: (e.intern("**"), e.save_pickle("res", "a.pkl", made.A())))
        file = write(lambda e: (e.extern("**"), e.save_pickle("res", "a.pkl", [made.A(), made.B.C()])))
        found = PackageImporter(file).load_pickle("res", "a.pkl")
        assert [type(x) for x in found] == [made.A, made.B.C]
    finally:
        del sys.modules["made_for_a_test"]
    for obj in (lambda: 1, (i for i in ())):
        with pytest.raises((pickle.PicklingError, TypeError)):
            write(lambda e, obj=obj: e.save_pickle("res", "a.pkl", obj))


def test_an_exporter_that_is_dropped(tmp_path):
    exporter = PackageExporter(tmp_path / "a.pt")
    exporter.save_text("res", "a.txt", "x")
    del exporter
    assert list(tmp_path.iterdir()) == []


def test_threads_that_save_into_one_package():
    file, together = io.BytesIO(), threading.Barrier(4)
    exporter = PackageExporter(file)

    def save(k):
        together.wait()
        for n in range(10):
            exporter.save_pickle("res", f"{k}_{n}.pkl", fg.full((50,), 10.0 * k + n))

    with switching():
        in_threads(4, save)
    exporter.close()
    importer = PackageImporter(file)
    for k in range(4):
        for n in range(10):
            assert importer.load_pickle("res", f"{k}_{n}.pkl").tolist() == [10.0 * k + n] * 50


def test_closing_while_something_is_saved(tmp_path):
    exporter = PackageExporter(tmp_path / "a.pt")

    class Closing:
        def __reduce__(self):
            exporter.close()
            return len, ("",)

    with pytest.raises(
        RuntimeError, match=r"the package was closed while '\.data/0\.storage' was saved into it"
    ):
        exporter.save_pickle("res", "a.pkl", [Closing(), fg.ones(2)])
    assert PackageImporter(tmp_path / "a.pt").extern_modules == []


def test_a_part_that_could_not_be_written(monkeypatch, tmp_path):
    def interrupted(self, name, data):
        with self.open(name, "w") as part:
            part.write(data[:10])
            raise KeyboardInterrupt

    exporter = PackageExporter(tmp_path / "a.pt")
    exporter.save_text("res", "a.txt", "x")
    with monkeypatch.context() as patched:
        patched.setattr(zipfile.ZipFile, "writestr", interrupted)
        with pytest.raises(KeyboardInterrupt):
            exporter.save_pickle("res", "a.pkl", fg.arange(3000.0))
    with pytest.raises(RuntimeError, match="the package is closed"):
        exporter.save_pickle("res", "a.pkl", fg.arange(3000.0))
    with pytest.raises(RuntimeError, match="the package is closed"):
        exporter.close()
    assert list(tmp_path.iterdir()) == []


def test_an_importer_that_is_dropped():
    importer = PackageImporter(
        write(lambda e: e.save_source_string("m", "import fastgrad as fg\nx = fg.ones(3)"))
    )
    file = importer.import_module("m").__file__
    alive = weakref.ref(importer)
    assert file in linecache.cache
    del importer
    gc.collect()
    assert alive() is None
    assert file not in linecache.cache


def test_dataclasses():
    source = (
        "from __future__ import annotations\nimport dataclasses\n\n\n@dataclasses.dataclass\nclass Point:\n"
        "    x: int\n    y: int = 2\n"
    )
    importer = PackageImporter(write(lambda e: e.save_source_string("m", source)))
    module = importer.import_module("m")
    assert module.Point(1) == module.Point(1, 2)
    assert module.__name__ not in sys.modules


def test_long_chains_of_imports():
    def fill(e):
        for k in range(3000):
            e.dependency_graph.add_edge(f"m{k}", f"m{k + 1}")
        assert e.all_paths("m0", "m3000").count("->") == 3000
        assert len(e.dependency_graph.first_path("m3000")) == 3001
        e.dependency_graph.nodes.clear()

    write(fill)


def test_circular_ways():
    with pytest.raises(PackagingError, match="A path to sys: a -> b -> sys"):
        write(
            lambda e: (
                e.save_source_string("a", "import b", dependencies=False),
                e.dependency_graph.add_edge("a", "b"),
                e.save_source_string("b", "import sys"),
                e.dependency_graph.add_edge("b", "a"),
            ),
            debug=True,
        )


def test_a_pattern_that_comes_later(tmp_path, monkeypatch):
    (tmp_path / "later_module.py").write_text("x = 1\n")
    monkeypatch.syspath_prepend(tmp_path)

    def fill(e):
        e.save_source_string("m", "import later_module")
        e.intern("later_module")
        e.add_dependency("later_module")

    try:
        assert PackageImporter(write(fill)).import_module("m").later_module.x == 1
    finally:
        sys.modules.pop("later_module", None)
