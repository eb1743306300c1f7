"""Compiling a row of the kernel table when it is first used: from declaration to address."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from fastgrad import flags
from fastgrad.kernels.keys import by_value
from fastgrad.kernels.programs import APPLY, Program
from fastgrad.native.build import cache
from fastgrad.native.build.interrupts import Uninterrupted
from fastgrad.native.build.loader import load_object
from fastgrad.native.contracts.element_types import DTYPES
from fastgrad.native.contracts.frame import REPORT
from fastgrad.native.contracts.frames import FRAMES
from fastgrad.native.contracts.frames.hooks import HOOK as FRAME_OF_HOOKS

# What every kernel is made with; the modules that its builder imports come besides, and of `kernels` theirs.
_COMMON = (
    "native/base/intrinsics.py", "native/base/pipeline.py", "native/base/single_assignment.py",
    "native/base/raw_library.py", "native/build/compiler.py", "native/build/machine_code.py",
    "native/contracts/limits.py", "native/contracts/record.py", "native/contracts/element_types.py",
)  # fmt: skip
_IMPORT = re.compile(
    r"^\s*from fastgrad\.(kernels(?:\.cpu|\.cuda)?|native\.\w+(?:\.frames)?)(?:\.(\w+))? import ([^(\n]+|\([^)]*\))",
    re.M,
)


def imported(text: str) -> list[str]:
    """The files of the package that the source of a module of `kernels` imports."""
    files = []
    for folder, module, names in _IMPORT.findall(text):
        modules = [module] if module else re.findall(r"\w+", names)
        files += [f"{folder.replace('.', '/')}/{m}.py" for m in modules]
    return files


@functools.cache
def sources_key(*modules: str, common: tuple[str, ...] = _COMMON) -> str:
    """What the kernels of a builder in files of the package depend on: their sources, those of the modules that they
    import, and theirs; and `common` ones.
    """
    package = Path(__file__).parents[1]
    found, waiting = set(common), list(modules)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        if name.startswith("kernels/"):
            waiting += imported((package / name).read_text(encoding="utf-8"))
    return cache.hash_package(*sorted(found))


def unit_name(kernel: Any, dtype: int, layout_class: int) -> str:
    """The name of a kernel's object file: readable, and unique by content."""
    required = _function(kernel.requires)() if kernel.requires else None
    sources = sources_key(f"kernels/cpu/{kernel.builder.partition(':')[0]}.py")
    known = stand_in if "function" in kernel.options else None
    key = cache.hash_texts(sources, by_value((*declared(kernel, layout_class), required), known))
    return f"{cell_name(kernel, dtype, layout_class)}-{key}"


def declared(kernel: Any, layout_class: int) -> tuple[Any, ...]:
    """What a row of the table says that code depends on, for `by_value`."""
    return (
        kernel.builder, kernel.inputs, kernel.frame(layout_class).layout(), tuple(sorted(kernel.elements.items())),
        tuple(sorted(kernel.options.items())), kernel.formula,
    )  # fmt: skip


def cell_name(kernel: Any, dtype: int, layout_class: int) -> str:
    """A kernel for a dtype and a layout class by name, as in ``exp-float32-flat``."""
    return f"{kernel.name}-{DTYPES[dtype]}-{('flat', 'strided', 'inplace', 'other')[layout_class]}"


KERNEL_SECONDS = 1.0  # that compiling most of them takes; for messages


def unit(kernel: Any, dtype: int, layout_class: int) -> tuple[str, cache.Unit]:
    """The name of a kernel's unit, and the unit, from the cache or compiled now. It has one export, `symbol`."""
    name = unit_name(kernel, dtype, layout_class)

    @Uninterrupted()  # formulas are compiled where their kernel is built
    def compile_now() -> bytes:
        from fastgrad.native.base.intrinsics import CASTS
        from fastgrad.native.build.compiler import compile_unit
        from fastgrad.native.contracts.entries import Export

        function, options, *more = _function(kernel.builder)(kernel, dtype, layout_class)
        others = dict(*more)
        CASTS.clear()
        with others.pop("within", contextlib.nullcontext()):
            code = compile_unit(name, [Export(symbol(name), function)], options=options, **others)
        # Its key covers the frame that the row names, and no other; records of its own stand in its sources.
        foreign = CASTS & {frame.name for frame in FRAMES} - {kernel.frame(layout_class).name, REPORT.name}
        if foreign:
            raise RuntimeError(f"kernel {kernel.name} reads a frame that its row does not name: {foreign}")
        return code

    return name, cache.get(name, f"kernel {kernel.name} ({DTYPES[dtype]})", compile_now, KERNEL_SECONDS)


FUSED_SECONDS = 2.0  # the same for a fused one


def fused_name(program: Program, kernels: Mapping[str, Any]) -> str:
    """The name of the object file of a fused kernel; `kernels` are the rows of the table that the program names."""
    used = sorted({(i.about[0], i.about[2]) for i in program.code if i.kind == APPLY})
    formulas = tuple((name, *declared(kernels[str(name)], int(form))) for name, form in used)
    return f"fused-{cache.hash_texts(sources_key('kernels/cpu/fused.py'), repr(program), by_value(formulas))}"


def compile_fused(program: Program, kernels: Mapping[str, Any]) -> int:
    """The address of a fused kernel in this process."""
    name = fused_name(program, kernels)

    @Uninterrupted()
    def compile_now() -> bytes:
        from fastgrad.native.build.compiler import compile_unit
        from fastgrad.native.contracts.entries import Export

        function, options = _function("fused:build")(program, kernels)
        return compile_unit(name, [Export(symbol(name), function)], options=options)

    with _as_raised():
        made = cache.get(name, f"a fused kernel of {len(program.code)} steps", compile_now, FUSED_SECONDS)
        return load_object(made.code)(f"fastgrad_{symbol(name)}")


def symbol(name: str) -> str:
    """The export of a unit: a name that LLVM's text form takes without quotes."""
    return name.replace("-", "_")


def _function(reference: str) -> Callable[..., Any]:
    """The function ``module:name`` of the CPU's kernels."""
    module, name = reference.split(":")
    return getattr(importlib.import_module(f"fastgrad.kernels.cpu.{module}"), name)  # type: ignore[no-any-return]


@contextlib.contextmanager
def _as_raised() -> Iterator[None]:
    """LLVM is called by way of ctypes, which makes an ArgumentError of what stops it from reading an argument.

    Where that is no fault of the argument, but a stack that is full or memory that is used up, it is raised as such.
    """
    try:
        yield
    except ctypes.ArgumentError as error:
        for kind in (RecursionError, MemoryError):
            if kind.__name__ in str(error):
                raise kind(str(error)) from error
        raise


@_as_raised()
def compile_kernel(kernel: Any, dtype: int, layout_class: int) -> int:
    """The address of a kernel in this process."""
    name, made = unit(kernel, dtype, layout_class)
    return load_object(made.code)(f"fastgrad_{symbol(name)}")


# --- hooks -----------------------------------------------------------------------------------------------------


def stand_in(value: Any) -> Any:
    """What the key of a hook, or of a function on arrays, holds for what it reads besides numbers and functions of
    Python: names of what comes with Python, NumPy and Numba, whose versions the cache knows, and functions that Numba
    compiles.
    """
    if hasattr(value, "py_func"):
        return value.py_func
    name = getattr(value, "__qualname__", getattr(value, "__name__", ""))
    module = getattr(value, "__module__", None) or ""
    if type(value) is ModuleType:
        module, name = value.__name__, "module"
    elif type(value).__name__ == "ufunc":
        module = "numpy"
    known = module.partition(".")[0] in ("math", "cmath", "numpy", "numba", "builtins", "operator")
    return (module, name) if known and name and not isinstance(value, FunctionType) else None


_loaded_hooks: dict[str, int] = {}  # addresses, by the names of units


def formula_key(what: str, *functions: Any) -> str:
    """A short text that tells formulas from others; `what` says whose they are.

    Raises
    ------
    TypeError
        If they read what no key can hold.
    """
    try:
        return cache.hash_texts(by_value(functions))[:10]
    except TypeError as error:
        raise TypeError(
            f"the key of {what} cannot hold its formula, {error}: it may read numbers, strings, tuples of them, "
            "functions, and the vocabulary `m` and `c`"
        ) from None


def function_key(what: str, *values: Any) -> str:
    """A short text that tells functions on arrays, and what is declared of them, from others.

    Raises
    ------
    TypeError
        If they read what no key can hold.
    """
    return cache.hash_texts(_text_of(what, values, "among its operands or constants"))[:10]


def _text_of(what: str, values: Any, place: str) -> str:
    """What tells functions on arrays from others; if no text does, a TypeError says what the place of changes is."""
    try:
        return by_value(values, stand_in)
    except TypeError as error:
        raise TypeError(
            f"{what} cannot be compiled, as its key cannot hold its value, {error}: it may read numbers, strings, "
            f"tuples of them and functions; what changes belongs {place}"
        ) from None


@_as_raised()
def hook_code(function: FunctionType, dtype: int, access: int, rank: int, state_dtype: int) -> int:
    """The address in this process of a hook that is a function on arrays of a dtype, compiled if need be.

    Raises
    ------
    TypeError
        If the function reads what no key can hold, or Numba finds no types for it.
    RuntimeError
        If Numba cannot compile it for another reason.
    """
    sources = sources_key("kernels/cpu/hooks.py")
    code = function.__code__
    about = (function, dtype, access, rank, state_dtype, flags.DEBUG)
    key = cache.hash_texts(
        sources, FRAME_OF_HOOKS.layout(), code.co_filename, str(code.co_firstlineno),  # what it raises names these
        _text_of(f"native hook '{function.__name__}'", about, "in its state"),
    )  # fmt: skip
    plain = re.sub(r"\W+", "_", function.__name__)
    name = f"hook-{plain}-{DTYPES[dtype]}-{key}"

    def compile_now() -> bytes:
        from fastgrad.kernels.cpu.hooks import compile_hook

        return compile_hook(symbol(name), function, dtype, access, rank, state_dtype, checks=flags.DEBUG)

    if name not in _loaded_hooks:
        made = cache.get(name, f"native hook {plain} ({DTYPES[dtype]})", compile_now, KERNEL_SECONDS)
        _loaded_hooks[name] = load_object(made.code)(f"fastgrad_{symbol(name)}")
    return _loaded_hooks[name]
