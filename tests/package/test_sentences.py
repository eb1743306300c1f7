"""The sentences of docs/package.md, one test for each number."""

from __future__ import annotations

import importlib.resources
import inspect
import io
import pickle
import re
import sys
import traceback
import zipfile
from pathlib import Path

import pytest

import fastgrad as fg
from fastgrad import package as fg_package

pytestmark = pytest.mark.filterwarnings("ignore:TypedStorage is deprecated:UserWarning")


def records(file):
    """The files of an archive, without those that only the format needs."""
    with zipfile.ZipFile(file) as archive:
        return {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}


def write(fill, **options):
    """`export` for sentences of fastgrad alone."""
    file = io.BytesIO()
    with fg_package.PackageExporter(file, **options) as exporter:
        fill(exporter)
    file.seek(0)
    return file


def changed(file, change):
    """A copy of an archive whose files were changed: `change` gets a dict from names to bytes."""
    with zipfile.ZipFile(file) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    change(parts)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return out


# --- what is saved -----------------------------------------------------------------------------------------------


def test_p1_pickles(lib, package, export):
    weight = lib.nn.Parameter(lib.ones(2, 3).t())
    noted = lib.ones(2)
    noted.note = "here"
    given = {"weight": weight, "noted": noted, "numbers": [1, 2.5, None, (3,)], "dtype": lib.float64}
    for protocol in (3, 4):
        file = export(lambda e, p=protocol: e.save_pickle("res", "a.pkl", given, pickle_protocol=p))
        found = package.PackageImporter(file).load_pickle("res", "a.pkl")
        assert type(found["weight"]) is lib.nn.Parameter
        assert found["weight"].stride() == weight.stride()
        assert found["weight"].requires_grad
        assert lib.equal(found["weight"], weight)
        assert found["noted"].note == "here"
        assert (found["numbers"], found["dtype"]) == (given["numbers"], lib.float64)


def test_p2_shared_memory(lib, package, export):
    x = lib.arange(6.0)

    def fill(e):
        e.save_pickle("res", "a.pkl", [x, x[2:]])
        e.save_pickle("res", "b.pkl", x[1:])

    file = export(fill)
    assert len([name for name in records(file) if name.endswith(".storage")]) == 1
    file.seek(0)
    whole, part = package.PackageImporter(file).load_pickle("res", "a.pkl")
    whole.mul_(10)
    assert part.tolist() == [20.0, 30.0, 40.0, 50.0]


def test_p3_texts_and_bytes(package, export):
    def fill(e):
        e.save_text("res", "a.txt", "grüß")
        e.save_binary("res.inner", "b.bin", b"\x00\xff")

    importer = package.PackageImporter(export(fill))
    assert importer.load_text("res", "a.txt") == "grüß"
    assert importer.load_binary("res.inner", "b.bin") == b"\x00\xff"
    with pytest.raises(RuntimeError, match=r"res/b\.bin"):
        importer.load_binary("res", "b.bin")


def test_p4_code(package, export, project):
    def fill(e):
        e.deny("proj.**")
        e.save_module("proj.helper")
        e.save_source_string("text", "x = 1")
        e.save_source_file("one", str(project / "proj" / "helper.py"))
        e.save_source_file("all", str(project / "proj" / "sub"))

    importer = package.PackageImporter(export(fill))
    assert importer.import_module("proj.helper").triple(2) == 6
    assert importer.import_module("text").x == 1
    assert importer.import_module("one").triple(3) == 9
    assert importer.import_module("all.deep").up(1) == 2


def test_p5_without_dependencies(export, project):
    def fill(e):
        e.save_module("proj.model", dependencies=False)
        e.save_source_string("text", "import extlib", dependencies=False)
        e.save_source_file("file", str(project / "proj" / "model.py"), dependencies=False)
        assert e.interned_modules() == ["file", "proj.model", "text"]
        assert e.externed_modules() == []

    export(fill)


def test_p6_names_of_files(export):
    def twice(e):
        e.save_text("res", "a.txt", "x")
        e.save_text("res", "a.txt", "y")

    with pytest.raises(AssertionError, match=r"res/a\.txt"):
        export(twice)
    with pytest.raises(ValueError, match="must be only a file name"):
        export(lambda e: e.save_text("res", "inner/a.txt", "x"))


def test_p7_whole_or_not(tmp_path):
    path = tmp_path / "model.pt"
    path.write_bytes(b"before")
    with fg_package.PackageExporter(path) as e:
        e.save_text("res", "a.txt", "x")
        assert path.read_bytes() == b"before"
    assert fg_package.PackageImporter(path).load_text("res", "a.txt") == "x"
    whole = path.read_bytes()
    with pytest.raises(KeyError), fg_package.PackageExporter(path) as e:
        raise KeyError
    with pytest.raises(fg_package.PackagingError), fg_package.PackageExporter(path) as e:
        e.add_dependency("unknown")
    assert path.read_bytes() == whole
    assert [p.name for p in tmp_path.iterdir()] == ["model.pt"]


# --- what is needed ----------------------------------------------------------------------------------------------


def test_p8_imports(export, project):
    source = (
        "import proj.sub.deep\nfrom .helper import triple\nraise SystemExit\n"
        "def f():\n    from proj import model\n    __import__('extlib')\n    from collections import OrderedDict\n"
    )

    def fill(e):
        e.intern("proj.**")
        e.extern("**")
        e.save_source_string("proj.new", source)
        assert e.interned_modules() == ["proj.helper", "proj.model", "proj.new", "proj.sub.deep"]
        assert e.externed_modules() == ["collections", "extlib", "json"]

    export(fill)


def test_p9_modules_of_pickles(export, project):
    import proj.model

    def fill(e):
        e.intern("proj.model")
        e.extern("**")
        for protocol in (3, 4):
            e.save_pickle("res", f"{protocol}.pkl", [proj.model.M(), len], pickle_protocol=protocol)
        assert e.interned_modules() == ["proj.model"]
        assert "builtins" in e.externed_modules()

    export(fill)


def test_p10_the_first_pattern_decides(package, export, project):
    def fill(e):
        e.extern("extlib")
        e.mock("extlib")
        e.intern("proj.model")
        e.mock("proj.sub.deep")
        e.deny("proj.model")
        e.intern("proj.**")
        e.add_dependency("proj.model")
        assert e.interned_modules() == ["proj.helper", "proj.model"]
        assert e.mocked_modules() == ["proj.sub.deep"]
        assert e.externed_modules() == ["extlib", "json"]
        assert e.denied_modules() == []

    importer = package.PackageImporter(export(fill))
    assert importer.import_module("proj.model").extlib.foo() == "real"


def test_p11_patterns(package):
    group = package.GlobGroup(["a.*", "b*.**"], exclude="a.no")
    names = ["a", "a.x", "a.x.y", "a.no", "b", "bee.c.d", "cb"]
    assert [n for n in names if group.matches(n)] == ["a.x", "b", "bee.c.d"]
    assert package.GlobGroup("a/**", separator="/").matches("a/b/c.txt")
    with pytest.raises(ValueError, match="entire path segment"):
        package.GlobGroup("a**")


def test_p12_external_by_themselves(package, export):
    def fill(e):
        e.save_source_string("m", "import os.path, json, torch")
        assert e.externed_modules() == ["json", "os.path", "torch"]

    export(fill)
    for name in ("sys", "io"):
        with pytest.raises(package.PackagingError, match=name):
            export(lambda e, name=name: e.add_dependency(name))


def test_p13_no_pattern_matches(package, export, project):
    def fill(e):
        e.extern("numpy")
        e.save_source_string("m", "import extlib, proj.helper, numpy")

    with pytest.raises(package.PackagingError) as caught:
        export(fill)
    lines = [line.strip() for line in str(caught.value).splitlines()]
    start = lines.index("* Module did not match against any action pattern. Extern, mock, or intern it.")
    assert lines[start + 1 : start + 3] == ["extlib", "proj.helper"]


def test_p14_denied(package, export, project):
    def fill(e):
        e.deny("extlib")
        e.save_source_string("m", "import extlib")
        assert e.denied_modules() == ["extlib"]

    with pytest.raises(package.PackagingError, match=r"Module was denied by a pattern\.\n +extlib"):
        export(fill)


def test_p15_mocked_and_used(package, export, project):
    import extlib

    def fill(e):
        e.mock("extlib")
        e.save_pickle("res", "a.pkl", extlib.Thing())

    with pytest.raises(package.PackagingError, match=r"mocked out, but is still being used(.|\n)*Thing"):
        export(fill)


def test_p16_extensions(package, export):
    def fill(e):
        e.intern("numpy.**")
        e.add_dependency("numpy._core._multiarray_umath")

    with pytest.raises(package.PackagingError, match="Module is a C extension module"):
        export(fill)


def test_p17_nothing_matched(package, export, project):
    for register in ("extern", "mock", "intern"):
        with pytest.raises(package.EmptyMatchError, match=r"GlobGroup\(include=zzz, exclude=\(\)\)"):
            export(lambda e, register=register: getattr(e, register)("zzz", allow_empty=False))

    def used(e):
        e.extern("extlib", allow_empty=False)
        e.save_source_string("m", "import extlib")

    export(used)


def test_p18_not_there(export):
    def fill(e):
        e.save_source_string("m", "try:\n    import surely_not_there\nexcept ImportError:\n    pass\n")
        assert list(e.dependency_graph.nodes) == ["m"]

    export(fill)


def test_p19_questions(export, project):
    def fill(e):
        e.intern("proj.**")
        e.mock("extlib")
        e.save_module("proj.model")
        assert e.interned_modules() == ["proj.helper", "proj.model", "proj.sub.deep"]
        assert e.mocked_modules() == ["extlib"]
        assert e.externed_modules() == ["json"]
        assert e.denied_modules() == []
        assert e.get_rdeps("extlib") == ["proj.model"]
        assert e.get_rdeps("unknown") == []
        assert '"proj.model" -> "proj.helper";' in e.dependency_graph_string()
        assert e.dependency_graph_string().startswith("digraph G {")

    export(fill)


def test_p20_ways(package, export, project):
    def fill(e):
        e.intern("proj.**")
        e.save_source_string("m", "import proj.model")

    with pytest.raises(package.PackagingError, match=r"A path to extlib: m -> proj\.model -> extlib"):
        export(fill, debug=True)
    with pytest.raises(package.PackagingError, match="debug=True"):
        export(fill)


def test_p21_all_paths(project):
    def fill(e):
        e.intern("proj.**")
        e.mock("extlib")
        e.save_source_string("m", "import proj.model, json")
        edges = [line for line in e.all_paths("m", "extlib").splitlines() if "->" in line]
        assert edges == ['"m" -> "proj.model";', '"proj.model" -> "extlib";']
        assert "->" not in e.all_paths("extlib", "m")
        with pytest.raises(ValueError, match="unknown"):
            e.all_paths("unknown", "m")

    write(fill)


# --- hooks -------------------------------------------------------------------------------------------------------


def all_hooks(exporter, log):
    """Hooks of all kinds that log the kind and the name."""
    return {
        kind: getattr(exporter, f"register_{kind}_hook")(lambda e, name, kind=kind: log.append((kind, name)))
        for kind in ("extern", "intern", "mock")
    }


def test_p22_arguments(export, project):
    seen = []

    def fill(e):
        e.mock("extlib")
        handle = e.register_mock_hook(lambda *args: seen.append(args) or 5)
        assert isinstance(handle.id, int)
        e.add_dependency("extlib")
        seen.append(e)

    export(fill)
    assert seen[1] == (seen[0], "extlib")


def test_p23_when(package, export, project):
    log = []

    def fill(e):
        all_hooks(e, log)
        e.extern("**")
        e.save_source_string("m", "import extlib")
        assert log == []

    export(fill)
    assert log == [("intern", "m"), ("extern", "extlib")]
    log.clear()

    def raises(e):
        fill(e)
        raise KeyError

    with pytest.raises(KeyError):
        export(raises)
    with pytest.raises(package.PackagingError):
        export(lambda e: (fill(e), e.save_source_string("broken", "def")))
    assert log == []


def test_p24_order(export, project):
    log = []

    def fill(e):
        e.intern("proj.**")
        e.mock("extlib")
        all_hooks(e, log)
        e.register_intern_hook(lambda _, name: log.append(("second", name)))
        e.register_mock_hook(lambda e, name: e.save_text("notes", "mocked.txt", "proj/model.py"))
        e.save_module("proj.model")
        e.add_dependency("proj.helper")

    names = list(records(export(fill)))
    assert log == [
        ("intern", "proj.model"), ("second", "proj.model"), ("extern", "json"), ("mock", "extlib"),
        ("intern", "proj.helper"), ("second", "proj.helper"), ("intern", "proj.sub.deep"), ("second", "proj.sub.deep"),
    ]  # fmt: skip
    order = [names.index(n) for n in ("proj/model.py", "notes/mocked.txt", "extlib.py", "proj/helper.py")]
    assert order == sorted(order)


def test_p25_pickles(export):
    log = []
    export(lambda e: (all_hooks(e, log), e.save_pickle("res", "a.pkl", [1])))
    assert log == [("intern", "<res.a.pkl>")]


def test_p26_external_by_themselves(lib, export):
    log = []

    def fill(e):
        all_hooks(e, log)
        e.save_pickle("res", "a.pkl", lib.ones(1))

    export(fill)
    assert ("extern", "torch._utils") in log


def test_p27_removal(export):
    log = []

    def fill(e):
        handles = all_hooks(e, log)
        handles["extern"].remove()
        handles["extern"].remove()
        with handles["intern"]:
            e.save_source_string("m", "import json")

    export(fill)
    assert log == []


def test_p28_what_hooks_may_do(package, export):
    def fill(e):
        e.register_intern_hook(lambda e, name: e.save_text("notes", f"{name}.txt", name))
        e.save_source_string("m", "")

    assert package.PackageImporter(export(fill)).load_text("notes", "m.txt") == "m"

    def adding(e):
        e.register_intern_hook(lambda e, name: e.add_dependency("json"))
        e.save_source_string("m", "")

    with pytest.raises(RuntimeError):
        export(adding)


def test_p29_exceptions(package):
    error = KeyError("from the hook")

    def hook(e, name):
        raise error

    file = io.BytesIO()
    exporter = package.PackageExporter(file)
    exporter.register_intern_hook(hook)
    exporter.save_source_string("m", "")
    with pytest.raises(KeyError) as caught:
        exporter.close()
    assert caught.value is error
    del exporter, caught
    file.seek(0)
    with pytest.raises(RuntimeError):
        package.PackageImporter(file)


def test_p30_hooks_that_change_hooks():
    log = []

    def fill(e):
        def first(e, name):
            log.append(("first", name))
            if name == "a":
                handle.remove()
                e.register_intern_hook(lambda e, name: log.append(("new", name)))

        e.register_intern_hook(first)
        handle = e.register_intern_hook(lambda e, name: log.append(("old", name)))
        e.save_source_string("a", "")
        e.save_source_string("b", "")

    write(fill)
    assert log == [("first", "a"), ("old", "a"), ("first", "b"), ("new", "b")]


def test_p31_no_callables():
    for kind in ("extern", "intern", "mock"):
        with pytest.raises(TypeError, match=f"register_{kind}_hook"):
            write(lambda e, kind=kind: getattr(e, f"register_{kind}_hook")(None))


# --- importing ---------------------------------------------------------------------------------------------------


def simple(**sources):
    """Fills a package with modules; ``a__b`` is ``a.b``, and the names that others are within are packages."""

    def fill(e):
        e.extern("extlib")
        names = {name.replace("__", "."): source for name, source in sources.items()}
        for name, source in names.items():
            inner = any(other.startswith(name + ".") for other in names)
            e.save_source_string(name, source, is_package=inner, dependencies=False)

    return fill


def test_p32_names(package, export, project):
    file = export(lambda e: (e.intern("proj.**"), e.extern("extlib"), e.save_module("proj.model")))
    first, second = (package.PackageImporter(io.BytesIO(file.getvalue())) for _ in range(2))
    module = first.import_module("proj.model")
    assert module.__name__ == f"{first.id()}.proj.model"
    assert module.__name__ not in sys.modules
    assert first.import_module(module.__name__) is module
    assert second.import_module("proj.model") is not module
    assert package.is_from_package(module)
    assert package.is_from_package(module.M())
    import proj.model

    assert not package.is_from_package(proj.model.M())


def test_p33_nothing_else(package, export, project):
    importer = package.PackageImporter(export(simple(a="import extlib", b="import proj.helper")))
    with pytest.raises(ModuleNotFoundError, match='No module named "extlib" in self-contained archive'):
        importer.import_module("a")
    with pytest.raises(ModuleNotFoundError, match="proj"):
        importer.import_module("b")
    needed = export(lambda e: (e.extern("extlib"), e.save_source_string("a", "import extlib")))
    assert package.PackageImporter(needed).import_module("a").extlib is sys.modules["extlib"]


def test_p34_allowed_modules(package, export, project):
    file = export(lambda e: (e.extern("extlib"), e.save_source_string("a", "import extlib, json")))
    package.PackageImporter(io.BytesIO(file.getvalue()), lambda name: name in ("json", "extlib"))
    with pytest.raises(
        ImportError, match="needs the external module 'extlib' but that module has been disallowed"
    ):
        package.PackageImporter(file, lambda name: name != "extlib")


def test_p35_imports(package, export):
    fill = simple(
        a="from . import b\nfrom .c import d\nimport a.c\nx = (b.y, d.z, a.c.d.z)",
        a__b="import a\nfrom . import c as other\ny = other.d.z + 1",
        a__c="from . import d\n__all__ = ['d']",
        a__c__d="from a import b\nfrom ..c import *\nz = 5",
    )
    assert package.PackageImporter(export(fill)).import_module("a").x == (6, 5, 5)


def test_p36_too_early():
    importer = fg_package.PackageImporter(
        write(simple(a="from b import y\nx = 1", b="from a import x\ny = 2"))
    )
    with pytest.raises(
        ImportError, match=r"partially initialized module .*a' \(most likely due to a circular"
    ):
        importer.import_module("a")


def test_p37_modules_that_raise():
    importer = fg_package.PackageImporter(write(simple(p="", p__a="x = int.missing")))
    for _ in range(2):
        with pytest.raises(AttributeError, match="missing"):
            importer.import_module("p.a")
        assert "p.a" not in importer.modules
        assert not hasattr(importer.import_module("p"), "a")


def test_p38_mocked(package, export, project):
    def fill(e):
        e.mock("extlib")
        e.save_source_string("m", "from extlib import foo\ndef f():\n    return foo()")

    module = package.PackageImporter(export(fill)).import_module("m")
    assert repr(module.foo).endswith("extlib.foo)")
    with pytest.raises(NotImplementedError, match=r"extlib\.foo' was mocked out .* used in __call__"):
        module.f()
    with pytest.raises(NotImplementedError, match="__getattr__"):
        module.foo.bar


def test_p39_what_code_finds(package, export):
    def fill(e):
        e.save_source_string("m", "import torch_package_importer as own\nhere = '__torch_package__' in dir()")

    importer = package.PackageImporter(export(fill))
    module = importer.import_module("m")
    assert module.own is importer
    assert module.here


def test_p40_again(package, export, project):
    import proj.model

    def fill(e):
        e.intern("proj.**")
        e.mock("extlib")
        e.save_pickle("res", "a.pkl", proj.model.M())

    importer = package.PackageImporter(export(fill))
    found = importer.load_pickle("res", "a.pkl")

    def again(e):
        e.intern("**")
        e.save_pickle("res", "a.pkl", found)

    with pytest.raises(pickle.PicklingError):
        export(again)
    other = package.PackageImporter(export(again, importer=(importer, package.sys_importer)))
    loaded = other.load_pickle("res", "a.pkl")
    assert loaded.up() == 4
    assert type(loaded) is other.import_module("proj.model").M
    with pytest.raises(NotImplementedError, match="extlib"):
        other.import_module("proj.model").extlib.foo()


def test_p41_resources(package, export):
    def fill(e):
        e.save_source_string("p", "", is_package=True)
        e.save_text("p", "a.txt", "content")

    module = package.PackageImporter(export(fill)).import_module("p")
    files = importlib.resources.files(module)
    assert files.joinpath("a.txt").read_text(encoding="utf-8") == "content"
    assert sorted(f.name for f in files.iterdir()) == ["__init__.py", "a.txt"]
    assert files.joinpath("a.txt").is_file()
    assert not files.joinpath("b.txt").is_file()


def test_p42_structure(package, export):
    def fill(e):
        e.save_text("p.q", "a.txt", "x")
        e.save_source_string("m", "")

    importer = package.PackageImporter(export(fill))
    found = importer.file_structure(exclude="**/.data/**")
    assert isinstance(found, package.Directory)
    assert found.has_file("p/q/a.txt")
    assert not found.has_file("p/q/b.txt")
    assert found.children["p"].is_dir
    assert not found.children["m.py"].is_dir
    lines = str(importer.file_structure(include=["p/**", "m.py"])).splitlines()
    assert lines == ["─── <binary>", "    ├── p", "    │   └── q", "    │       └── a.txt", "    └── m.py"]
    assert importer.python_version() == sys.version.split()[0]


def test_p43_directories(lib, package, export, tmp_path):
    def fill(e):
        e.save_pickle("res", "a.pkl", lib.ones(3))
        e.save_source_string("m", "x = 1")

    with zipfile.ZipFile(export(fill)) as archive:
        archive.extractall(tmp_path)
    importer = package.PackageImporter(tmp_path / "archive")
    assert importer.import_module("m").x == 1
    if lib is fg:  # PyTorch's way to tensors in directories is broken
        assert importer.load_pickle("res", "a.pkl").tolist() == [1.0, 1.0, 1.0]
    assert importer.file_structure().has_file("res/a.pkl")


def test_p44_sources(package, export):
    source = "def fail():\n    raise KeyError('on this line')\n"
    module = package.PackageImporter(export(lambda e: e.save_source_string("m", source))).import_module("m")
    assert inspect.getsource(module.fail) == source
    with pytest.raises(KeyError) as caught:
        module.fail()
    assert "    raise KeyError('on this line')" in traceback.format_exception(caught.value)[-2]


REDUCED = """
class Counted:
    def __init__(self, name):
        self.name = name

    def __reduce_package__(self, exporter):
        exporter.save_text("counted", f"{exporter.get_unique_id()}.txt", self.name)
        return restore, ("0.txt",)


def restore(importer, resource):
    return Counted(importer.load_text("counted", resource))
"""


def test_p45_reduced_by_themselves(package, export, project):
    (project / "proj" / "counted.py").write_text(REDUCED)
    import proj.counted

    def fill(e):
        e.intern("proj.**")
        one = proj.counted.Counted("first")
        e.save_pickle("res", "a.pkl", [one, one])

    importer = package.PackageImporter(export(fill))
    one, same = importer.load_pickle("res", "a.pkl")
    assert one is same
    assert type(one) is importer.import_module("proj.counted").Counted
    assert one.name == "first"


# --- together with PyTorch ---------------------------------------------------------------------------------------

NET = (
    "import torch\nfrom torch import nn\nimport torch.nn.functional as F\n\n\nclass Net(nn.Module):\n"
    "    def __init__(self):\n        super().__init__()\n        self.inner = nn.Linear(2, 2)\n\n"
    "    def forward(self, x):\n        return F.relu(self.inner(x)) + torch.ones(2)\n"
)


@pytest.mark.parity
def test_p46_from_pytorch(project):
    torch = pytest.importorskip("torch")
    torch_package = pytest.importorskip("torch.package")
    (project / "proj" / "net.py").write_text(NET)
    import proj.net

    net = proj.net.Net()
    file = io.BytesIO()
    with torch_package.PackageExporter(file) as e:
        e.intern("proj.**")
        e.save_pickle("res", "net.pkl", net)
    found = fg_package.PackageImporter(file).load_pickle("res", "net.pkl")
    assert isinstance(found, fg.nn.Module)
    given = [[1.0, -2.0]]
    expected = net(torch.tensor(given)).tolist()
    assert found(fg.tensor(given)).tolist() == [pytest.approx(row) for row in expected]


@pytest.mark.parity
def test_p47_to_pytorch():
    torch = pytest.importorskip("torch")
    torch_package = pytest.importorskip("torch.package")
    net = fg.nn.Sequential(fg.nn.Linear(2, 3), fg.nn.GELU(), fg.nn.LayerNorm(3))

    def fill(e):
        e.save_pickle("res", "net.pkl", net)
        e.save_source_string("m", "def double(x):\n    return x * 2\n")

    importer = torch_package.PackageImporter(write(fill))
    found = importer.load_pickle("res", "net.pkl")
    assert isinstance(found, torch.nn.Module)
    given = [[1.0, -2.0]]
    expected = net(fg.tensor(given)).tolist()
    assert found(torch.tensor(given)).tolist() == [pytest.approx(row, rel=1e-5) for row in expected]
    assert importer.import_module("m").double(2) == 4


# --- faults ------------------------------------------------------------------------------------------------------


def sample():
    def fill(e):
        e.save_source_string("m", "import builtins\nbuiltins.touched = True")
        e.save_pickle("m_res", "a.pkl", fg.arange(100.0))

    return write(fill)


def test_p48_load_refuses():
    for weights_only in (True, False):
        with pytest.raises(pickle.UnpicklingError, match=r"package.*PackageImporter.*runs that code"):
            fg.load(sample(), weights_only=weights_only)


def test_p49_damage():
    data = sample().getvalue()
    for length in (0, 1, 100, len(data) // 2, len(data) - 1):
        with pytest.raises(RuntimeError, match="corrupted"):
            fg_package.PackageImporter(io.BytesIO(data[:length]))
    code = data.index(b"touched")
    with pytest.raises(RuntimeError, match="corrupted"):
        fg_package.PackageImporter(io.BytesIO(data[:code] + b"TOUCHED" + data[code + 7 :]))
    number = data.index(fg.tensor(50.0).numpy().tobytes())
    importer = fg_package.PackageImporter(
        io.BytesIO(data[:number] + b"\x01\x02\x03\x04" + data[number + 4 :])
    )
    with pytest.raises(RuntimeError, match="corrupted"):
        importer.load_pickle("m_res", "a.pkl")


def test_p50_names_that_lead_out(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("archive/../evil.py", "/evil.py", "archive//evil.py", "archive/a\\..\\b.py", "archive/c:x"):
        with pytest.raises(RuntimeError, match="leads out"):
            fg_package.PackageImporter(changed(sample(), lambda parts, name=name: parts.update({name: b"x"})))
    for module, resource in (
        ("..", "a"),
        ("/abs", "a"),
        ("a:b", "c"),
        ("a\\b", "c"),
        ("", "a"),
        ("res", ".."),
    ):
        with pytest.raises(ValueError, match="leads out"):
            write(lambda e, module=module, resource=resource: e.save_text(module, resource, "x"))
        if resource != "..":
            with pytest.raises(ValueError, match="leads out"):
                write(lambda e, module=module: e.save_source_string(module, "x = 1"))
    assert list(tmp_path.iterdir()) == []


def test_p51_sizes():
    file = sample()
    packed = io.BytesIO()
    with zipfile.ZipFile(file) as source, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as target:
        for name in source.namelist():
            target.writestr(name, source.read(name) + b" " * 100_000)
    with pytest.raises(RuntimeError, match="larger than the whole"):
        fg_package.PackageImporter(packed)
    small = io.BytesIO()
    with zipfile.ZipFile(file) as source, zipfile.ZipFile(small, "w", zipfile.ZIP_DEFLATED) as target:
        for name in source.namelist():
            target.writestr(name, source.read(name))
    with pytest.raises(RuntimeError, match="compressed"):
        fg_package.PackageImporter(small)
    claimed = changed(
        file, lambda parts: parts.update({"archive/m_res/a.pkl": _huge(parts["archive/m_res/a.pkl"])})
    )
    with pytest.raises(RuntimeError, match="instead of 1000000000 elements"):
        fg_package.PackageImporter(claimed).load_pickle("m_res", "a.pkl")


def _huge(data):
    """The pickle of a tensor over a storage that claims a thousand million elements."""
    return data.replace(b"Kdtq", b"J\x00\xca\x9a\x3btq", 1)


def test_p52_pickles_that_ask_too_much():
    def load(pickled):
        def fill(e):
            e.save_binary("res", "a.pkl", pickled)
            e.save_source_string("m", "import torch, torch._utils")

        return fg_package.PackageImporter(write(fill)).load_pickle("res", "a.pkl")

    with pytest.raises(pickle.UnpicklingError, match="fastgrad does not have"):
        load(b"\x80\x03ctorch\nsurely_missing\n.")
    with pytest.raises(ModuleNotFoundError, match=r"PyTorch's names mean fastgrad's"):
        load(b"\x80\x03ctorch.surely_missing\nname\n.")
    with pytest.raises(ModuleNotFoundError, match="also not in the list"):
        load(b"\x80\x03cos\nsystem\nX\x04\x00\x00\x00true\x85R.")
    with pytest.raises(pickle.UnpicklingError, match="persistent id"):
        load(b"\x80\x03X\x05\x00\x00\x00otherQ.")
    with pytest.raises(pickle.UnpicklingError, match="a storage is described by"):
        load(b"\x80\x03(X\x07\x00\x00\x00storageK\x01tQ.")

    def outside(parts):
        name = "archive/m_res/a.pkl"
        parts[name] = parts[name].replace(b"Kd\x85", b"Ke\x85", 1)

    with pytest.raises(ValueError, match="leave a memory"):
        fg_package.PackageImporter(changed(sample(), outside)).load_pickle("m_res", "a.pkl")


# --- every number ------------------------------------------------------------------------------------------------


def test_every_sentence_has_one_test():
    text = (Path(__file__).parents[2] / "docs" / "package.md").read_text()
    numbers = [int(n) for n in re.findall(r"^\*\*P(\d+)\*\*", text, re.M)]
    assert numbers == list(range(1, len(numbers) + 1))
    tests = [int(n) for n in re.findall(r"^def test_p(\d+)_", Path(__file__).read_text(), re.M)]
    assert tests == numbers
