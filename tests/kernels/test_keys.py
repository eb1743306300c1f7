"""The keys of kernels: they change with every value that a formula reads, and with nothing else."""

from __future__ import annotations

import ast
import ctypes
import dis
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastgrad as fg
from fastgrad.kernels import compile as compilation
from fastgrad.kernels.compile import compile_kernel, unit_name
from fastgrad.kernels.keys import by_value, globals_read, need_values
from fastgrad.native.contracts.element_types import ANY_NUMBER, BOOL, FLOAT32, FLOAT64
from fastgrad.native.contracts.frames import FLAT, STRIDED
from fastgrad.native.host.tables import BY_NAME
from fastgrad.ops import activations, kernel_table, optim_formulas
from fastgrad.ops.kernel_table import KERNELS, Kernel, check_formula
from fastgrad.ops.registry import elementwise
from fastgrad.ops.vocabulary import c, m

pytestmark = pytest.mark.static

PACKAGE = Path(fg.__file__).parent

SLOPE = 2.0
PAIR = (1.0, 3)


def shifted(x):
    return x + c(SLOPE)


def formula(x, by=4.0):
    return shifted(x) * c(PAIR[1]) + c(by)


def row(formula: Callable[..., Any], **options: Any) -> Kernel:
    """A row for a formula of x, in a table of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel_table, "KERNELS", [])
        patch.setattr(kernel_table, "runtime_set", lambda *_: None)  # the row's number is that of another
        return Kernel("probe", "elementwise:build", formula, inputs=("x",), **options)


def key(formula: Callable[..., Any], **options: Any) -> str:
    return unit_name(row(formula, **options), FLOAT32, FLAT)


def value_of(formula: Callable[..., Any], x: float) -> float:
    """What the compiled loop makes of a number."""
    address = compile_kernel(row(formula), FLOAT64, FLAT)
    source, out = np.array([x]), np.zeros(1)
    frame = np.array([1, out.ctypes.data, source.ctypes.data], np.int64)
    ctypes.CFUNCTYPE(None, ctypes.c_int64)(address)(frame.ctypes.data)
    return float(out[0])


# --- what changes a key ----------------------------------------------------------------------------------------


def test_a_changed_global_is_compiled_anew(monkeypatch):
    before = key(formula)
    assert value_of(formula, 1.0) == (1 + 2) * 3 + 4
    monkeypatch.setitem(globals(), "PAIR", (1.0, 5))
    assert key(formula) != before
    assert value_of(formula, 1.0) == (1 + 2) * 5 + 4
    monkeypatch.undo()
    assert key(formula) == before
    assert value_of(formula, 1.0) == (1 + 2) * 3 + 4


def test_a_changed_global_of_a_function_that_is_called(monkeypatch):
    before = key(formula)
    monkeypatch.setitem(globals(), "SLOPE", 7.0)
    assert key(formula) != before
    assert value_of(formula, 1.0) == (1 + 7) * 3 + 4


def test_a_changed_function(monkeypatch):
    before = key(formula)
    monkeypatch.setitem(globals(), "shifted", lambda x: x - c(SLOPE))
    assert key(formula) != before
    assert value_of(formula, 1.0) == (1 - 2) * 3 + 4


def test_a_changed_default(monkeypatch):
    before = key(formula)
    monkeypatch.setattr(formula, "__defaults__", (5.0,))
    assert key(formula) != before
    assert value_of(formula, 1.0) == (1 + 2) * 3 + 5


def test_a_changed_keyword_default():
    def make(by):
        def formula(x, *, by=by):
            return x

        return formula

    assert key(make(1.0)) == key(make(1.0)) != key(make(2.0))


def test_a_changed_cell():
    def make(by, function):
        def formula(x):
            return function(x) * c(by)

        return formula

    def twice(x):
        return x + x

    assert key(make(1.0, twice)) == key(make(1.0, twice))
    assert len({key(make(1.0, twice)), key(make(2.0, twice)), key(make(1.0, shifted))}) == 3
    assert value_of(make(3.0, twice), 2.0) == 12
    assert value_of(make(3.0, shifted), 2.0) == 12
    assert value_of(make(5.0, shifted), 2.0) == 20


def test_a_changed_constant_of_an_op(monkeypatch):
    kernel = BY_NAME["gelu_tanh"].kernel
    names = {unit_name(kernel, FLOAT32, FLAT)}
    for name in ("CUBIC", "SQRT_2_OVER_PI"):
        with monkeypatch.context() as patch:
            patch.setattr(activations, name, 0.25)
            names.add(unit_name(kernel, FLOAT32, FLAT))
            patch.setattr(activations, "SELU_ALPHA", 0.5)  # selu's alone
            assert unit_name(kernel, FLOAT32, FLAT) in names
    assert len(names) == 3


def test_the_code_changes_the_key():
    variants = [
        lambda x: x + c(1), lambda x: x - c(1), lambda x: x + c(2), lambda x: x + c(1.0), lambda x: x + c(True),
        lambda x: x + c(0.0), lambda x: x + c(-0.0), lambda x: m.exp(x), lambda x: m.log(x), lambda x: x,
        lambda x: (lambda y: y + c(1))(x), lambda x: (lambda y: y + c(2))(x), lambda x: x in (1, 2),
    ]  # fmt: skip
    assert len({key(f) for f in variants}) == len(variants)


def test_options_change_the_key():
    variants = [{}, {"elements": {"out": BOOL}}, {"elements": {"x": BOOL}}, {"upper": True}, {"upper": 1}]
    assert len({key(shifted, **options) for options in variants}) == len(variants)


@pytest.mark.parametrize(
    "values",
    [
        (1, 1.0, True, "1", b"1", np.float32(1), np.float64(1), np.int64(1), (1,), ((1,),), None),
        (0.0, -0.0, 0, False, (), "", float("inf"), -float("inf"), float("nan")),
        ((1, 2), (2, 1), (1, (2,)), ((1,), 2), ("1", 2), ("1,2",), frozenset({1, 2})),
        (("a, b",), ("a", "b"), ("a,", "b")),
        (np.float32(0.1), 0.1, np.float64(0.1), float(np.float32(0.1))),
    ],
)
def test_other_values_have_other_texts(values):
    kinds = {(type(v), repr(v)) for v in values}
    # A NumPy number is told from a Python one: they are other types to the compiler.
    assert len({by_value(v) for v in values}) == len(kinds)


# --- what does not ---------------------------------------------------------------------------------------------

NAMES = """
import hashlib
from fastgrad.kernels.compile import unit_name
from fastgrad.ops.kernel_table import KERNELS
names = [unit_name(kernel, dtype, form) for kernel in KERNELS for dtype, form in kernel.cells()]
print(hashlib.sha256("\\n".join(names).encode()).hexdigest(), len(names), len(set(names)))
"""


def test_every_process_has_the_same_keys():
    printed = set()
    for seed in ("0", "1", "4242"):
        path = os.pathsep.join([str(PACKAGE.parent), os.environ.get("PYTHONPATH", "")])
        variables = {**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", NAMES],
            env=variables,
            capture_output=True,
            text=True,
            timeout=240,
            check=True,
        )
        printed.add(done.stdout)
    [line] = printed
    _, count, different = line.split()
    assert count == different


def test_sets_have_one_text_in_every_process():
    script = "from fastgrad.kernels.keys import by_value; print(by_value(frozenset('abcdefgh')))"
    printed = {
        subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, timeout=240, check=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(PACKAGE.parent), *sys.path]), "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2", "3")
    }  # fmt: skip
    assert len(printed) == 1


def test_a_docstring_does_not_matter():
    def plain(x):
        return x + c(1)

    def documented(x):
        """What it says."""
        return x + c(1)

    def better(x):
        """What it says is better."""
        return x + c(1)

    assert key(documented) == key(better)
    assert value_of(documented, 1.0) == value_of(plain, 1.0) == 2


def test_other_globals_do_not_matter(monkeypatch):
    before = key(formula)
    monkeypatch.setitem(globals(), "exp", 3.0)
    monkeypatch.setitem(globals(), "m", None)  # the loop has its own
    assert key(formula) == before


# --- what is refused -------------------------------------------------------------------------------------------

TABLE = {1: 2}


def reads_table(x):
    return x * TABLE[1]


def test_a_formula_that_no_key_can_hold_is_refused():
    """When it is declared, and nothing stays behind."""

    def calls(x):
        return reads_table(x)

    rows = len(KERNELS)
    for bad, reads in (
        (reads_table, "which reads `TABLE`, a builtins.dict"),
        (calls, "`reads_table`, which reads"),
    ):
        with pytest.raises(TypeError, match=f"key of kernel 'unheard_of' cannot hold.* {reads}"):
            elementwise("unheard_of")(bad)
    assert len(KERNELS) == rows
    assert "unheard_of" not in BY_NAME


@pytest.mark.parametrize(
    "value",
    [[1], {1}, object(), np.zeros(2), np, len, int, 1j, np.complex64(1)],
    ids=lambda v: type(v).__name__,
)
def test_values_that_are_refused(value):
    def formula(x):
        return value

    with pytest.raises(TypeError, match=r"which reads `value`, a \w"):
        Kernel("unheard_of", "elementwise:build", formula, inputs=("x",))
    exec("def formula(x, y=value): return x", scope := {"value": value})
    with pytest.raises(TypeError, match=r"which reads `its defaults`, a \w"):
        need_values(scope["formula"])


def test_keys_can_hold_what_formulas_of_the_package_read():
    for declared in KERNELS:
        if declared.formula is not None:
            check_formula(declared.name, declared.formula)


def test_a_function_that_calls_itself_is_refused():
    def down(x):
        return down(x)

    with pytest.raises(TypeError, match="which reads `down`, which calls itself"):
        need_values(down)


def test_a_value_that_comes_later_is_looked_at_later():
    def formula(x):
        return x * later

    declared = row(formula)
    later = [1]
    with pytest.raises(TypeError, match=r"which reads `later`, a builtins\.list"):
        unit_name(declared, FLOAT32, FLAT)


# --- what they are made of -------------------------------------------------------------------------------------


def test_globals_are_those_that_the_interpreter_loads():
    functions = [k.formula for k in KERNELS if k.formula is not None]
    functions += [test_a_changed_global_is_compiled_anew, key, value_of, formula]
    for function in functions:
        loaded = {i.argval for i in dis.get_instructions(function) if i.opname == "LOAD_GLOBAL"}
        assert set(globals_read(function)) == {n for n in loaded if n in function.__globals__} - {"m", "c"}
    many = "".join(f"    y = a{k}\n" for k in range(300))  # beyond what one byte counts
    exec(f"def long():\n{many}", scope := {f"a{k}": k for k in range(0, 300, 7)})
    assert len(globals_read(scope["long"])) == 43


def modules_of(node: ast.AST) -> list[str]:
    """Files of the package that an import statement, wherever it stands, may name."""
    if isinstance(node, ast.Import):
        assert not any(alias.name.startswith("fastgrad") for alias in node.names)
        return []
    if not isinstance(node, ast.ImportFrom):
        return []
    assert node.level == 0
    names = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
    files = [f"{name.removeprefix('fastgrad.').replace('.', '/')}.py" for name in names if "fastgrad" in name]
    return [name for name in files if (PACKAGE / name).is_file()]


def test_a_key_covers_what_a_builder_imports():
    for path in (PACKAGE / "kernels").rglob("*.py"):
        if path.name == "compile.py":  # calls the builders
            continue
        text = path.read_text(encoding="utf-8")
        found = {name for node in ast.walk(ast.parse(text)) for name in modules_of(node)}
        assert set(compilation.imported(text)) == found, path.name


def test_the_key_of_an_optimizer_covers_its_formula_and_its_flags(monkeypatch):
    hashed: list[set[str]] = []
    monkeypatch.setattr(compilation.cache, "hash_package", lambda *names: hashed.append(set(names)) or "")
    compilation.sources_key.__wrapped__("kernels/cpu/optim.py")
    [names] = hashed
    assert {"kernels/cpu/optim.py", "kernels/steps.py", "kernels/vecmath.py"} <= names
    assert "kernels/cpu/conv.py" not in names
    monkeypatch.undo()
    kernel = BY_NAME["adam_step"].kernel
    before = unit_name(kernel, FLOAT32, FLAT)
    monkeypatch.setattr(optim_formulas, "MAXIMIZE", 64)
    assert unit_name(kernel, FLOAT32, FLAT) != before


def test_a_cell_has_a_name_of_its_own():
    kernel = BY_NAME["add"].kernel
    assert kernel.dtypes[1:] == ANY_NUMBER
    assert (
        len({unit_name(kernel, *cell) for cell in kernel.cells()})
        == len(kernel.cells())
        == 3 * len(kernel.dtypes)
    )
    assert unit_name(kernel, FLOAT32, STRIDED).startswith("add-float32-strided-")
