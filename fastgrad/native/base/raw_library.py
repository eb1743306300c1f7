"""A function as Numba lowered it: LLVM modules, neither optimised nor made executable."""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
from numba.core.cgutils import normalize_ir_text
from numba.core.codegen import JITCodeLibrary


class _Unbound:
    """A code generator whose functions are not bound to environments: nothing compiled here is called by Numba."""

    def __init__(self, codegen: Any) -> None:
        self._codegen = codegen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codegen, name)

    def set_env(self, env_name: str, env: Any) -> None:
        pass


class RawLibrary(JITCodeLibrary):  # type: ignore[misc]
    """The LLVM modules of one function, as Numba lowered it."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.modules: list[llvm.ModuleRef] = []
        self.home = ""  # the Python module of the function
        self.callee: Any = None  # how others that are kept name the function, see `lowered`

    @property
    def codegen(self) -> Any:
        return _Unbound(self._codegen)

    def add_ir_module(self, ir_module: Any) -> None:
        self._raise_if_finalized()
        self.modules.append(llvm.parse_assembly(normalize_ir_text(str(ir_module))))

    def add_bitcode(self, module: bytes) -> None:
        """Add a module that was one of such a library."""
        self.modules.append(llvm.parse_bitcode(module))

    def finalize(self) -> None:
        self._raise_if_finalized()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        return 0
