"""What is kept of lowered functions: what an edit makes anew, and that the rest is what it was."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys
import textwrap
from pathlib import Path

import llvmlite.binding as llvm
import pytest

from fastgrad import native
from fastgrad.native.base import lowered
from fastgrad.native.base.intrinsics import runtime
from fastgrad.native.build import incremental, machine_code, processors

pytestmark = pytest.mark.static

SAMPLE = """
from fastgrad.native.base.intrinsics import native, native_inline, words
from fastgrad.native.base.pyapi import raises, type_error

BIAS = 5
TABLE = (1, 2, 3)
wrong = raises(type_error, "no such thing")


@native_inline
def twice(x):
    return x * 2


@native
def larger(x):
    return max(twice(x), BIAS) + TABLE[2]


@native
def kernel(frame):
    words(frame)[0] = larger(words(frame)[1])
    if words(frame)[1] < 0:
        wrong()
"""

PROGRAM = """
import ctypes, hashlib, os, sys
sys.path.insert(0, sys.argv[1])
from fastgrad.native.base.lowered import Memory, Store
from fastgrad.native.build.compiler import compile_unit
from fastgrad.native.build.loader import load_object
from fastgrad.native.contracts.entries import Export
path = os.path.join(sys.argv[1], "kept")
store = Store.of_bytes(open(path, "rb").read()) if os.path.exists(path) else Store({}, {})
names, save = [], Memory.save_overload
def spy(self, signature, result):
    names.append(self.dispatcher.py_func.__name__)
    save(self, signature, result)
Memory.save_overload = spy
import sample
Store.active = store
code = compile_unit("sample", [Export("sample", sample.kernel)])
Store.active = None
assert store.lowered == len(names)
open(path, "wb").write(store.to_bytes())
frame = (ctypes.c_int64 * 2)(0, 21)
ctypes.CFUNCTYPE(None, ctypes.c_int64)(load_object(code)("fastgrad_sample"))(ctypes.addressof(frame))
mine = [name for name in names if name in ("twice", "larger", "kernel", "set_exception")]
print(frame[0], hashlib.sha256(code).hexdigest(), *mine)
"""


def compiled(folder: Path, source: str) -> tuple[int, str, list[str]]:
    """What the sample gives, a digest of its code, and which of its functions were lowered; by a new process."""
    (folder / "sample.py").write_text(source)
    done = subprocess.run(
        [sys.executable, "-B", "-c", PROGRAM, str(folder)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    value, digest, *names = done.stdout.split()
    return int(value), digest, names


def test_an_edit_lowers_what_it_changes(tmp_path: Path):
    value, digest, names = compiled(tmp_path, SAMPLE)
    assert (value, sorted(names)) == (45, ["kernel", "larger", "set_exception", "twice"])
    assert compiled(tmp_path, SAMPLE) == (45, digest, [])
    assert compiled(tmp_path, "# a line more\n" + SAMPLE) == (45, digest, [])
    value, _, names = compiled(tmp_path, SAMPLE.replace("x * 2", "x * 3"))
    assert (value, names) == (66, ["twice"])
    value, _, names = compiled(tmp_path, SAMPLE.replace("BIAS = 5", "BIAS = 50"))
    assert (value, names) == (53, ["twice", "larger"])  # of `twice` only the last form is kept
    value, _, names = compiled(tmp_path, SAMPLE.replace("(1, 2, 3)", "(1, 2, 9)"))
    assert (value, names) == (51, ["larger"])
    value, _, names = compiled(tmp_path, SAMPLE.replace("no such thing", "nothing of that sort"))
    assert (value, sorted(names)) == (45, ["kernel", "larger", "set_exception"])


def test_another_type_of_a_result_lowers_the_caller(tmp_path: Path):
    compiled(tmp_path, SAMPLE)
    value, _, names = compiled(tmp_path, SAMPLE.replace("return x * 2", "return x * 2.5"))
    assert value == 55
    assert {"twice", "larger"} <= set(names)


# --- descriptions ----------------------------------------------------------------------------------------------


def made(source: str, **names: object) -> object:
    """A function ``f`` from its text."""
    scope = {"__name__": "somewhere", "runtime": runtime, **names}
    exec(textwrap.dedent(source), scope)
    return scope["f"]


BASE = "def f(x, y=1):\n    return x + y + C"


@pytest.mark.parametrize(
    ("source", "c"),
    [
        (BASE.replace("x + y", "x - y"), 1), (BASE.replace("y=1", "y=2"), 1), (BASE, 2), (BASE, 1.0), (BASE, True),
        (BASE, (1,)), (BASE, max), (BASE.replace("f(x", "f(z").replace("x +", "z +"), 1),
    ],
)  # fmt: skip
def test_what_a_function_depends_on_shows(source: str, c: object):
    assert lowered.described_function(made(source, C=c)) != lowered.described_function(made(BASE, C=1))
    assert lowered.described_function(made("\n\n" + BASE, C=1)) == lowered.described_function(made(BASE, C=1))


def test_a_module_shows_by_what_is_read_of_it():
    source = "def f(x):\n    return x + string.digits"
    import string

    text = lowered.described_function(made(source, string=string))
    assert "0123456789" in text
    assert "abcdef" not in text


def test_two_functions_of_one_name_have_no_identity():
    first, second = made(BASE, C=1), made(BASE, C=1)
    lowered.identity(first)
    with pytest.raises(lowered.UnknownError):
        lowered.identity(second)
    assert lowered.number_of(second) is None


def test_cells_are_part_of_an_identity():
    source = "def outer(k):\n    def g(x):\n        return x + k\n    return g\nf = outer"
    outer = made(source)
    assert callable(outer)
    assert lowered.identity(outer(1)) != lowered.identity(outer(2))
    with pytest.raises(lowered.UnknownError):
        lowered.identity(outer(object()))


def test_every_function_of_the_runtime_is_kept():
    """What cannot be described is lowered after each edit, and so is what calls it."""
    names = [module.name for module in pkgutil.walk_packages(native.__path__, "fastgrad.native.")]
    modules = [importlib.import_module(name) for name in names]
    values = [value for module in modules for value in vars(module).values()]
    functions = {id(value): value.py_func for value in values if lowered._is_dispatcher(value)}
    assert len(functions) > 500
    for function in functions.values():
        lowered.described_function(function)  # raises where it cannot tell


def test_machine_code_is_made_of_changed_parts_alone(monkeypatch):
    parts = [
        llvm.parse_assembly(f"define i32 @fastgrad_{name}() {{ ret i32 {value} }}").as_bitcode()
        for name, value in (("a", 1), ("b", 2), ("b", 3))
    ]
    settings = machine_code.Settings(*processors.host(), kernels=False, out_of_line=frozenset(("x", "y")))
    asked, make = [], incremental.of_each

    def spy(modules, settings):
        asked.append(len(modules))
        return make(modules, settings)

    monkeypatch.setattr(incremental, "of_each", spy)
    store = lowered.Store({}, {})
    for chosen, made in ((parts[:2], 2), (parts[:2], 0), (parts[::2], 1)):
        monkeypatch.setattr(lowered.Store, "active", store)
        codes = incremental.machine_codes(chosen, settings)
        assert store.changed == (made > 0)
        assert codes == make(chosen, settings)
        store = lowered.Store.of_bytes(store.to_bytes())
    assert asked == [2, 0, 1]
