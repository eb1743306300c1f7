"""What the sources promise about themselves: sizes, and who may need a compiler."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import fastgrad

pytestmark = pytest.mark.static

PACKAGE = Path(fastgrad.__file__).parent
FILES = {path.relative_to(PACKAGE).as_posix(): path for path in sorted(PACKAGE.rglob("*.py"))}

MAX_FILE = 600
MAX_FUNCTION = 60  # without the docstring
MAX_LINE = 120

# Files beyond the limit, with a limit of their own and why they are not cut.
LONG_FILES: dict[str, tuple[int, str]] = {}

# Functions beyond the limit, in the same way.
LONG_FUNCTIONS = {
    "kernels/cpu/reduce.py:_sums": (
        85,
        "four loops that share their constants; as separate makers each would repeat them",
    ),
    "native/launch/elementwise.py:elementwise_slow": (
        90,
        "owns what it made until the end; parts would have to hand it over",
    ),
}

# The rooms of `native` that are compiled, and so import Numba; of the others only the compiler does.
COMPILED = (
    "base", "memory", "objects", "tensors", "launch", "graph", "shapes", "dispatch", "backward", "python",
)  # fmt: skip


@cache
def source(name: str) -> str:
    return FILES[name].read_text(encoding="utf-8")


@cache
def tree(name: str) -> ast.Module:
    return ast.parse(source(name), name)


# --- sizes ----------------------------------------------------------------------------------------------


def functions(name: str) -> Iterator[tuple[str, int]]:
    """Every function with the number of its lines, docstring aside."""
    for node in ast.walk(tree(name)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0]
            documented = ast.get_docstring(node) is not None
            docstring = first.end_lineno - first.lineno + 1 if documented else 0
            yield f"{name}:{node.name}", node.end_lineno - node.lineno + 1 - docstring


def test_files_are_short():
    lengths = {name: len(source(name).splitlines()) for name in FILES}
    long = {n: k for n, k in lengths.items() if k > LONG_FILES.get(n, (MAX_FILE,))[0]}
    assert not long, "split these files by what they do"


def test_functions_are_short():
    lengths = dict(pair for name in FILES for pair in functions(name))
    long = {n: k for n, k in lengths.items() if k > LONG_FUNCTIONS.get(n, (MAX_FUNCTION,))[0]}
    assert not long, "split these functions"


def test_lines_are_short():
    counts = {name: sum(len(line) > MAX_LINE for line in source(name).splitlines()) for name in FILES}
    long = {name: count for name, count in counts.items() if count}
    assert not long, f"these files have lines of more than {MAX_LINE} characters"


def test_exceptions_are_still_needed():
    lengths = {name: len(source(name).splitlines()) for name in FILES}
    lengths |= dict(pair for name in FILES for pair in functions(name))
    limits = dict.fromkeys(LONG_FILES, MAX_FILE) | dict.fromkeys(LONG_FUNCTIONS, MAX_FUNCTION)
    unneeded = [name for name, limit in limits.items() if lengths.get(name, 0) <= limit]
    assert not unneeded, "these are short by now, or gone: take them off the lists"


PYTORCHS = {
    "_ConvNd",
    "_current_autograd_node",
    "_current_graph_task_execution_order",
    "_current_graph_task_id",
    "_is_checkpoint_valid",
    "_will_engine_execute_node",
}
"""What programs know by PyTorch's names for them."""


def test_private_names_stay_in_their_module():
    modules = {name.rpartition("/")[2].removesuffix(".py") for name in FILES}
    found = [
        f"{name}, line {node.lineno}: {alias.name}"
        for name in FILES
        for node in ast.walk(tree(name))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.name.startswith("_") and alias.name not in modules | PYTORCHS | {"__version__"}
    ]
    assert not found, "what another module needs has a public name"


# --- frames ---------------------------------------------------------------------------------------------


def bound_to_words(function: ast.FunctionDef) -> set[str]:
    """Names that a function gives to plain words: ``x = words(...)``."""
    return {
        target.id
        for node in ast.walk(function)
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.value.func) == "words"
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def functions_of(*folders: str) -> Iterator[tuple[str, ast.FunctionDef]]:
    for name in FILES:
        if name.startswith(folders):
            for node in ast.walk(tree(name)):
                if isinstance(node, ast.FunctionDef):
                    yield f"{name}:{node.name}", node


def test_native_functions_say_what_they_take_and_give():
    silent = [
        f"{name}:{function.name}"
        for name in FILES
        if name.startswith("native/")
        for function in ast.walk(tree(name))
        if isinstance(function, ast.FunctionDef)
        and any(ast.unparse(d).startswith("native") for d in function.decorator_list)
        and not ast.get_docstring(function)
    ]
    assert not silent


def test_a_kernel_reads_its_frame_by_names():
    """The parameter ``frame`` of a kernel goes to a cast of `base.frames`, and nowhere else."""
    found = []
    for place, function in functions_of("kernels/"):
        if "frame" not in {a.arg for a in function.args.args}:
            continue
        casts = {
            id(call.args[0])
            for call in ast.walk(function)
            if isinstance(call, ast.Call) and ast.unparse(call.func).startswith("frames.")
        }
        uses = [n for n in ast.walk(function) if isinstance(n, ast.Name) and n.id == "frame"]
        found += [f"{place}, line {use.lineno}" for use in uses if id(use) not in casts]
    assert not found, "cast the frame by its declaration: f = frames.<name>(frame)"
    text = source("kernels/cpu/elementwise.py")  # kernels as text
    assert "words(frame)" not in text
    assert "f[" not in text


def test_a_shape_rule_reads_the_integers_of_a_call_by_names():
    """No index of `attrs` has a number in it: ``of = integers.<name>(attrs)``, then ``of.<field>``."""
    found = [
        f"{place}, line {node.lineno}"
        for place, function in functions_of("native/")
        for node in ast.walk(function)
        if isinstance(node, ast.Subscript)
        and ast.unparse(node.value) == "attrs"
        and any(isinstance(n, ast.Constant) for n in ast.walk(node.slice))
    ]
    assert not found, "declare the integers in contracts.integers, and read them by name"


def test_what_is_launched_is_filled_in_by_names():
    """No launch gets plain words."""
    found = []
    for place, function in functions_of("native/"):
        plain = bound_to_words(function)
        for call in ast.walk(function):
            if isinstance(call, ast.Call) and ast.unparse(call.func).startswith("launch"):
                names = {n.id for a in call.args for n in ast.walk(a) if isinstance(n, ast.Name)}
                found += [f"{place}, line {call.lineno}"] * bool(names & plain)
    assert not found, "fill in a frame by its declaration: f = frames.<name>(stack_frame())"


# --- imports --------------------------------------------------------------------------------------------


def module_level(body: list[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports that run when a module is imported."""
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from module_level(node.orelse)
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for field in ("body", "orelse", "finalbody", "handlers"):
                yield from module_level(getattr(node, field, []))


@cache
def imported(name: str) -> frozenset[str]:
    """Modules that file `name` imports when it is imported, and perhaps names in them."""
    names: set[str] = set()
    for node in module_level(tree(name).body):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        else:
            assert node.level == 0, f"{name} imports relatively"
            names.add(node.module or "")
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(names)


def file_of(module: str) -> str | None:
    path = module.removeprefix("fastgrad").lstrip(".").replace(".", "/")
    for name in (f"{path}.py", f"{path}/__init__.py".lstrip("/")):
        if module.partition(".")[0] == "fastgrad" and name in FILES:
            return name
    return None


def needs(library: str) -> set[str]:
    """The files whose import brings `library` with it."""
    found = {n for n in FILES if any(m == library or m.startswith(library + ".") for m in imported(n))}
    while True:
        more = {n for n in FILES if any(file_of(m) in found for m in imported(n))}
        if more <= found:
            return found
        found |= more


def test_only_the_compiler_side_needs_numba():
    allowed = {name for name in FILES if name.startswith(tuple(f"native/{room}/" for room in COMPILED))}
    allowed |= {f"native/build/{name}.py" for name in ("compiler", "incremental", "parts")}
    allowed |= {name for name in FILES if name.startswith("kernels/")} - {"kernels/compile.py"}
    rooms = ("native/cuda/", "native/messages/")
    allowed |= {name for name in FILES if name.startswith(rooms) and not name.endswith("/unit.py")}
    assert needs("numba") <= allowed
    assert "kernels/cpu/elementwise.py" in needs("numba")  # or nothing is found at all


@pytest.mark.parametrize("library", ["scipy", "torch", "jax"])
def test_nothing_needs(library: str):
    assert not needs(library)


PROGRAM = """
import sys
import fastgrad as fg
(fg.ones(2) + 1).tolist()
print(*sorted({"numba", "scipy", "torch", "matplotlib", "rich", "sklearn"} & set(sys.modules)))
"""


def test_a_warm_start_imports_no_compiler():
    (fastgrad.ones(2) + 1).tolist()  # now the cache has what the program below needs
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(PACKAGE.parent), *sys.path])},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert result.stdout == "\n", result.stdout + result.stderr


def test_python_is_called_in_one_place():
    """Behind a call any code may have run: `base.callbacks` sees to it."""
    calls = {"py_vectorcall", "py_call_tuple"}
    found = [
        f"{name}: {node.id}"
        for name in FILES
        if name.startswith("native/") and name not in ("native/base/callbacks.py", "native/base/pyapi.py")
        for node in ast.walk(tree(name))
        if isinstance(node, ast.Name) and node.id in calls
    ]
    assert not found, "call Python by a function of base.callbacks"
