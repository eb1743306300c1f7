"""A unit in several object files: that calls from part to part give what they gave in one, and what fails is said."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import llvmlite.binding as llvm
import pytest

from fastgrad.native.build import machine_code, processors
from fastgrad.native.build.machine_code import EXPORTED, MachineCode, Settings, of_bitcode, of_each

pytestmark = pytest.mark.static

ROOMS = {
    "near.py": """
from fastgrad.native.base.intrinsics import native, native_inline, native_once, words
from other.far import counted, half, small, sums, back

@native_once
def known(x):
    return x + 1000

@native
def kernel(frame):
    f = words(frame)
    f[0] = sums(f[1], f[2])
    f[3] = small(f[1])
    f[4] = back(f[1])
    f[5] = 1 if half(f[2]) == 2.5 else 0
    counted()
    f[6] = counted()
""",
    "other/__init__.py": "",
    "other/far.py": """
from fastgrad.native.base.intrinsics import native, native_inline, native_once, runtime

@native_inline
def small(x):
    return x * 3

@native_once
def sums(x, y):
    return small(x) + y

@native_once
def half(x):
    return x / 2

@native_once
def back(x):
    from_here = sums(x, 1)
    return known(from_here)

@native_once
def counted():
    runtime().launches += 1
    return runtime().launches
""",
}
PROGRAM = """
import ctypes, sys
sys.path.insert(0, sys.argv[1])
import other.far, near
other.far.known = near.known
from fastgrad.native.base import intrinsics
from fastgrad.native.build import compiler, machine_code
from fastgrad.native.build.loader import load_object
from fastgrad.native.contracts.entries import Export
rooms, cores = eval(sys.argv[2]), int(sys.argv[3])
machine_code._cores = lambda: cores
def wrappers(symbols):
    return compiler._kernels(exports, symbols, compiler.KERNEL)
exports = [Export("sample", near.kernel)]
codes = compiler.compile_parts("sample", exports, rooms, wrappers)
frame = (ctypes.c_int64 * 7)(0, 14, 5, 0, 0, 0, 0)
ctypes.CFUNCTYPE(None, ctypes.c_int64)(load_object(*codes)("fastgrad_sample"))(ctypes.addressof(frame))
print(len(codes), *frame)
"""


def run(folder: Path, rooms: tuple[tuple[str, ...], ...], cores: int) -> list[int]:
    """How many parts there were, and what the sample left in its frame; by a new process."""
    for name, text in ROOMS.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    command = [sys.executable, "-B", "-c", PROGRAM, str(folder), repr(rooms), str(cores)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    return [int(word) for word in done.stdout.split()]


@pytest.mark.parametrize("cores", [1, 2])
def test_parts_give_what_the_whole_gives(tmp_path: Path, cores: int):
    whole = run(tmp_path, (), cores)
    assert whole == [1, 47, 14, 5, 42, 1043, 1, 2]
    assert run(tmp_path, (("other",),), cores) == [1 + machine_code.IN_PARTS, *whole[1:]]


# --- machine code ----------------------------------------------------------------------------------------------

SETTINGS = Settings(*processors.host(), kernels=False, out_of_line=frozenset())


def bitcode(name: str, body: str = "ret i64 7") -> bytes:
    return llvm.parse_assembly(f"define i64 @{EXPORTED}{name}() {{ {body} }}").as_bitcode()


def test_side_by_side_gives_the_same_bytes(monkeypatch: pytest.MonkeyPatch):
    modules = [bitcode("a"), bitcode("b", "ret i64 8")]
    monkeypatch.setattr(machine_code, "_cores", lambda: 2)
    made = of_each(modules, SETTINGS)
    assert made == [of_bitcode(module, SETTINGS) for module in modules]
    assert made[0].code != made[1].code


def test_what_is_not_held_is_named():
    text = "declare void @elsewhere()\ndefine void @fastgrad_c() { call void @elsewhere() ret void }"
    made = of_bitcode(llvm.parse_assembly(text).as_bitcode(), SETTINGS)
    assert isinstance(made, MachineCode)
    assert made.undefined == ["elsewhere"]


def test_a_worker_that_fails_is_an_error(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]):
    monkeypatch.setattr(machine_code, "_cores", lambda: 2)
    with pytest.raises(RuntimeError, match="a process that made machine code failed"):
        of_each([bitcode("a"), b"no bitcode"], SETTINGS)
    assert "bitcode" in capfd.readouterr().err.lower()
