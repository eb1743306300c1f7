"""Importers, and what is told about packages; what is said of PyTorch's too runs on both libraries."""

from __future__ import annotations

import collections
import importlib
import importlib.resources
import io
import os.path
import pickle
import sys
import threading
import zipfile

import numpy as np
import pytest

import fastgrad as fg
from fastgrad.package import PackageExporter, PackageImporter, PackagingError, analyze
from fastgrad.package.file_structure_representation import Directory
from fastgrad.package.find_file_dependencies import find_files_source_depends_on
from fastgrad.package.graph import DiGraph


def exported(package, project):
    def fill(e):
        e.intern("proj.**")
        e.extern("extlib")
        e.save_module("proj.model")

    file = io.BytesIO()
    with package.PackageExporter(file) as e:
        fill(e)
    file.seek(0)
    return package.PackageImporter(file)


def test_python_s_own(package):
    own = package.sys_importer
    assert own.import_module("os.path") is os.path
    assert own.get_name(collections.OrderedDict) == ("collections", "OrderedDict")
    assert own.get_name(pickle.Pickler.dump, "Pickler.dump")[1] == "Pickler.dump"
    assert own.whichmodule(threading.Thread, "Thread") == "threading"
    with pytest.raises(package.ObjNotFoundError, match=r"was not found as .*<locals>"):
        own.get_name(lambda: 1)


def test_objects_are_found_where_they_come_from(package, project):
    importer = exported(package, project)
    packaged = importer.import_module("proj.model").M
    import proj.model

    assert importer.get_name(packaged) == ("proj.model", "M")
    with pytest.raises(
        package.ObjMismatchError, match=r"importer lists 'sys_importer' before the importer for"
    ):
        importer.get_name(proj.model.M)
    with pytest.raises(package.ObjMismatchError, match="the current Python environment"):
        package.sys_importer.get_name(packaged)
    both = package.OrderedImporter(importer, package.sys_importer)
    assert both.get_name(packaged) == both.get_name(proj.model.M) == ("proj.model", "M")
    with pytest.raises(package.ObjNotFoundError, match="in any of the importers"):
        both.get_name(lambda: 1)


def test_the_first_importer_that_has_a_module(package, project):
    importer = exported(package, project)
    both = package.OrderedImporter(importer, package.sys_importer)
    assert both.import_module("proj.helper") is importer.import_module("proj.helper")
    assert both.import_module("collections") is collections
    # In the package `proj.sub` is no module of its own, but there because of `proj.sub.deep`.
    assert both.import_module("proj.sub") is importlib.import_module("proj.sub")
    with pytest.raises(ModuleNotFoundError):
        both.import_module("surely_not_there")
    assert both.whichmodule(importer.import_module("proj.model").M, "M").endswith("proj.model")


def test_an_importer_of_one_s_own(package):
    class Own(package.Importer):
        def __init__(self):
            self.modules = {"own": collections}

        def import_module(self, name):
            return self.modules[name]

    class Nameless:
        pass

    Nameless.__module__ = None
    assert Own().whichmodule(Nameless, "Nameless") == "__main__"
    collections.Nameless = Nameless
    try:
        assert Own().whichmodule(Nameless, "Nameless") == "own"
    finally:
        del collections.Nameless
    with pytest.raises(TypeError):
        package.Importer()


# --- of fastgrad alone -------------------------------------------------------------------------------------------


def test_sources():
    found = find_files_source_depends_on
    assert found("import a, b.c as d\nimport a", "p") == [("a", None), ("b.c", None)]
    assert found("from a import b, c\nfrom . import d\nfrom .e import *\nfrom ..f import g", "p.q") == [
        ("a", "b"), ("a", "c"), ("p.q", "d"), ("p.q.e", None), ("p.f", "g"),
    ]  # fmt: skip
    assert found("__import__('a.b')\n__import__('c', fromlist=['d', '*'])", "p") == [
        ("a.b", None), ("a", None), ("c", "d"), ("c", None),
    ]  # fmt: skip
    assert found("__import__('c', {}, {}, ['d'], 1)\n__import__(name)\n__import__(5)\n__import__()", "p") == [
        ("p.c", "d")
    ]
    assert found("f(__import__('x'), y.__import__('z'))", "p") == [("x", None)]
    with pytest.raises(ImportError):
        found("from ... import a", "p")
    with pytest.raises(SyntaxError):
        found("def", "p")


def test_graphs():
    graph = DiGraph()
    for edge in ("ab", "bc", "ad", "dc", "ce", "xe"):
        graph.add_edge(*edge)
    graph.add_node("a", first=1)
    graph.add_node("a", second=2)
    assert graph.nodes["a"] == {"first": 1, "second": 2}
    assert list(graph) == ["a", "b", "c", "d", "e", "x"]
    assert "a" in graph
    assert "z" not in graph
    assert [] not in graph
    assert (list(graph.successors("a")), list(graph.predecessors("c"))) == (["b", "d"], ["b", "d"])
    assert sorted(graph.all_paths("a", "c").edges) == [("a", "b"), ("a", "d"), ("b", "c"), ("d", "c")]
    assert list(graph.all_paths("b", "d")) == []
    assert graph.first_path("e") == ["a", "b", "c", "e"]
    for look in (graph.successors, graph.predecessors):
        with pytest.raises(ValueError, match="z is not in the digraph"):
            look("z")


def test_trees():
    root = Directory("root", True)
    root._add("a/b.txt")
    root._add("z.txt")
    assert root.has_file("a")
    assert not root.has_file("a/b.txt/c")
    assert str(root) == "─── root\n    ├── a\n    │   └── b.txt\n    └── z.txt\n"


def test_the_first_use_of_broken_modules(project):
    exporter = PackageExporter(io.BytesIO())
    exporter.intern("proj.**")
    exporter.save_module("proj.model")
    with pytest.raises(PackagingError) as caught:
        exporter.close()
    assert analyze.find_first_use_of_broken_modules(caught.value) == {"extlib": ["proj.model", "extlib"]}
    with pytest.raises(AssertionError, match="PackagingError"):
        analyze.find_first_use_of_broken_modules(ValueError())


def test_traced_modules(project):
    import proj.model

    assert sys.getprofile() is None
    assert analyze.trace_dependencies(lambda m: m.up(), [(proj.model.M(),)]) == [
        __name__,
        "proj.model",
        "proj.sub.deep",
    ]
    with pytest.raises(KeyError):
        analyze.trace_dependencies({}.__getitem__, [(1,)])
    assert sys.getprofile() is None


def test_resources_within_resources():
    file = io.BytesIO()
    with PackageExporter(file) as e:
        e.save_source_string("p", "", is_package=True)
        e.save_binary("p.data.inner", "x.bin", b"\x01\r\n")
    importer = PackageImporter(file)
    files = importlib.resources.files(importer.import_module("p"))
    inner = files / "data" / "inner"
    assert (files.joinpath("data").is_dir(), inner.is_file(), inner.joinpath("x.bin").is_file()) == (
        True,
        False,
        True,
    )
    assert inner.joinpath("x.bin").read_bytes() == b"\x01\r\n"
    with inner.joinpath("x.bin").open("r", encoding="ascii") as text:
        assert text.read() == "\x01\n"
    with inner.joinpath("x.bin").open("rb") as data:
        assert data.read() == b"\x01\r\n"
    with pytest.raises(ValueError, match="opened as"):
        inner.joinpath("x.bin").open("w")
    with pytest.raises(FileNotFoundError):
        inner.joinpath("y.bin").read_text()
    assert importer.get_resource_reader("not_there") is None
    with importlib.resources.as_file(inner.joinpath("x.bin")) as path:
        assert path.read_bytes() == b"\x01\r\n"


def test_a_class_itself_with_a_way_of_its_own(project):
    (project / "proj" / "own.py").write_text(
        "class Own:\n    def __reduce_package__(self, exporter):\n        return back, ()\n\n\n"
        "def back(importer):\n    return 5\n"
    )
    import proj.own

    file = io.BytesIO()
    with PackageExporter(file) as e:
        e.intern("proj.**")
        e.save_pickle("res", "a.pkl", [proj.own.Own(), proj.own.Own])
    importer = PackageImporter(file)
    assert importer.load_pickle("res", "a.pkl") == [5, importer.import_module("proj.own").Own]


def test_one_memory_seen_as_two_dtypes():
    x = fg.arange(4.0)
    file = io.BytesIO()
    with PackageExporter(file) as e:
        e.save_pickle("res", "a.pkl", [x, x.view(fg.int32)])
    found, bits = PackageImporter(file).load_pickle("res", "a.pkl", map_location="cpu")
    found.fill_(1.0)
    assert bits.tolist() == [0x3F800000] * 4


@pytest.mark.parametrize("order", [1, -1])
def test_memories_of_one_address_and_several_lengths(order):
    array = np.arange(10.0)
    given = [fg.from_numpy(array[:5]), fg.from_numpy(array)][::order]
    file = io.BytesIO()
    with PackageExporter(file) as e:
        e.save_pickle("res", "a.pkl", given)
    found = PackageImporter(file).load_pickle("res", "a.pkl")
    assert [x.tolist() for x in found] == [x.tolist() for x in given]


def test_a_storage_without_elements_is_one_object():
    held = fg.functions.storage.Storage.of(fg.ones(0))
    file = io.BytesIO()
    with PackageExporter(file) as e:
        e.save_pickle("res", "a.pkl", [held, held])
        e.save_pickle("res", "b.pkl", held)
    one, same = PackageImporter(file).load_pickle("res", "a.pkl")
    assert one is same
    with zipfile.ZipFile(file) as archive:
        assert [name for name in archive.namelist() if name.endswith(".storage")] == [
            "archive/.data/0.storage"
        ]


NESTED = """
class Inner:
    def __reduce_package__(self, exporter):
        return make, ("Inner",)


class Outer:
    def __init__(self):
        self.inner = Inner()

    def __reduce_package__(self, exporter):
        exporter.save_pickle("res", "inner.pkl", self.inner)
        return make, ("Outer",)


class Wrong:
    def __reduce_package__(self, exporter):
        return self.made


def make(importer, name):
    return globals()[name]()
"""


def test_objects_that_pickle_others_while_they_are_pickled(project):
    (project / "proj" / "nested.py").write_text(NESTED)
    import proj.nested

    file = io.BytesIO()
    with PackageExporter(file) as e:
        e.intern("proj.**")
        outer = proj.nested.Outer()
        e.save_pickle("res", "a.pkl", [outer, outer.inner])
        wrong = proj.nested.Wrong()
        for wrong.made in (None, 5, "ab", (), (len,), (len, (), 3)):
            with pytest.raises(
                pickle.PicklingError, match=r"Wrong.__reduce_package__ to return a tuple of a func"
            ):
                e.save_pickle("res", "b.pkl", wrong)
    found = PackageImporter(file).load_pickle("res", "a.pkl")
    assert [type(obj).__name__ for obj in found] == ["Outer", "Inner"]


def test_subclasses_of_tensors(project):
    (project / "proj" / "kinds.py").write_text("import fastgrad as fg\n\n\nclass Own(fg.Tensor):\n    pass\n")
    import proj.kinds

    made = fg.nn.Parameter(fg.ones(2)).detach()
    made = pickle.loads(pickle.dumps(made))
    reduce = list(made.__reduce_ex__(4))
    made = reduce[0](proj.kinds.Own, *reduce[1][1:])
    made.note = "kept"
    file = io.BytesIO()
    with PackageExporter(file) as e:
        e.intern("proj.**")
        e.save_pickle("res", "a.pkl", made)
    importer = PackageImporter(file)
    found = importer.load_pickle("res", "a.pkl")
    assert type(found) is importer.import_module("proj.kinds").Own
    assert (found.tolist(), found.note) == ([1.0, 1.0], "kept")


def test_hooks_of_tensors_are_left_out_with_a_warning():
    x = fg.ones(2, requires_grad=True)
    x.register_hook(lambda g: g)
    with pytest.warns(UserWarning, match="hook"), PackageExporter(io.BytesIO()) as e:
        e.save_pickle("res", "a.pkl", x)
