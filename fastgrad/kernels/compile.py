"""Compiling a row of the kernel table when it is first used: from declaration to address."""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fastgrad.native.build import cache
from fastgrad.native.build.loader import CompileNotice, load_object
from fastgrad.native.contracts.element_types import DTYPES

# What every kernel is made with; the modules that its builder stands on come besides.
_COMMON = (
    "native/base/intrinsics.py", "native/base/pipeline.py", "native/build/compiler.py", "native/contracts/frames.py",
    "native/contracts/limits.py", "native/contracts/record.py", "native/contracts/element_types.py",
)  # fmt: skip
_IMPORT = re.compile(r"^\s*from fastgrad\.kernels(?:\.(\w+))? import ([^(\n]+|\([^)]*\))", re.M)


@functools.cache
def sources_key(module: str) -> str:
    """What the kernels of a builder in `module` depend on: the sources of the modules that it imports, and theirs."""
    folder = Path(__file__).parent
    found, waiting = set(), [module]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        for imported, names in _IMPORT.findall((folder / f"{name}.py").read_text(encoding="utf-8")):
            waiting.extend([imported] if imported else re.findall(r"\w+", names))
    return cache.hash_package(*_COMMON, *(f"kernels/{name}.py" for name in sorted(found)))


def unit_name(kernel: Any, dtype: int, layout_class: int) -> str:
    """The name of a kernel's object file: readable, and unique by content."""
    parts: list[str | bytes] = [
        sources_key(kernel.builder.partition(":")[0]),
        kernel.builder,
        repr(sorted(kernel.options.items(), key=str)),
    ]
    if kernel.requires:
        parts.append(repr(_function(kernel.requires)()))
    if kernel.formula is not None:
        code = kernel.formula.__code__
        parts += [code.co_code, repr(code.co_consts), repr(code.co_names)]
    form = ("flat", "strided", "inplace", "other")[layout_class]
    return f"{kernel.name}-{DTYPES[dtype]}-{form}-{cache.hash_texts(*parts)}"


def object_code(kernel: Any, dtype: int, layout_class: int) -> bytes:
    """Object code of a kernel, from the cache or compiled now. The symbol is ``fastgrad_<unit name>``."""
    name = unit_name(kernel, dtype, layout_class)

    def compile_now() -> bytes:
        CompileNotice.tell(f"kernel {kernel.name} ({DTYPES[dtype]})")
        from fastgrad.native.build.compiler import compile_unit
        from fastgrad.native.contracts.entries import Export

        function, options = _function(kernel.builder)(kernel, dtype, layout_class)
        return compile_unit(name, [Export(symbol(name), function)], options=options)

    return cache.get(name, compile_now)


def symbol(name: str) -> str:
    """The export of a unit: a name that LLVM's text form takes without quotes."""
    return name.replace("-", "_")


def _function(reference: str) -> Callable[..., Any]:
    """The function ``module:name`` of this package."""
    module, name = reference.split(":")
    return getattr(importlib.import_module(f"fastgrad.kernels.{module}"), name)  # type: ignore[no-any-return]


def compile_kernel(kernel: Any, dtype: int, layout_class: int) -> int:
    """The address of a kernel in this process."""
    code = object_code(kernel, dtype, layout_class)
    return load_object(code)(f"fastgrad_{symbol(unit_name(kernel, dtype, layout_class))}")
