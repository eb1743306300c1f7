"""Hooks that are compiled code: a function on arrays, and around it what makes these of the words of a frame.

What such a function raises, it reports: Numba's description of the exception, which `errors.exception_of_code` reads.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from numba import njit, types
from numba.core import errors
from numba.extending import intrinsic
from numba.np import arrayobj

from fastgrad.kernels.dtypes import BASE, KERNEL
from fastgrad.kernels.specialise import specialised
from fastgrad.native.base import frames
from fastgrad.native.base.intrinsics import I64, WORDS, address_of, call_kernel, words
from fastgrad.native.base.pipeline import HookCompiler
from fastgrad.native.build.compiler import UndefinedError, compile_unit
from fastgrad.native.contracts.element_types import (
    BOOL,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
)
from fastgrad.native.contracts.entries import Export
from fastgrad.native.contracts.frame import HOOK_RAISED, REPORT
from fastgrad.native.contracts.frames.hooks import HOOK
from fastgrad.native.contracts.python_types import READS, REPLACES, TAKES_LEAF

SCALARS = {
    BOOL: types.boolean, UINT8: types.uint8, INT32: types.int32, INT64: types.int64, FLOAT32: types.float32,
    FLOAT64: types.float64, INT8: types.int8, INT16: types.int16, UINT16: types.uint16, UINT32: types.uint32,
    UINT64: types.uint64,
}  # fmt: skip
OPTIONS: dict[str, Any] = {**BASE, "pipeline_class": HookCompiler}
"""Numba options of a hook: no memory management."""
AT_N, AT_SIZES, AT_STATE = (HOOK.offset(name) for name in ("n", "sizes", "n_state"))

REFUSED = ("NRT_", "numba_", "_numba_", "Py", "_Py", "GOMP", "omp_")
"""What code may refer to only where Numba or the GIL is there."""


def build(kernel: Any, dtype: int, layout_class: int) -> tuple[Callable[..., None], dict[str, Any]]:
    """The kernel that calls what was compiled for a hook, at an address in its frame."""

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.hook(frame)
        call_kernel(f.code, address_of(f))

    return run, KERNEL


_WRAPPER = f"""
declare i32 @{{symbol}}(ptr, ptr, i64)
define void @fastgrad_{{name}}(i64 %frame) {{{{
  %result = alloca ptr
  %info = alloca ptr
  store ptr null, ptr %info
  %code = call i32 @{{symbol}}(ptr %result, ptr %info, i64 %frame)
  %raised = icmp sgt i32 %code, 0
  br i1 %raised, label %report, label %end
report:
  %at = add i64 %frame, {HOOK.offset("status")}
  %place = inttoptr i64 %at to ptr
  %address = load i64, ptr %place
  %kind = inttoptr i64 %address to ptr
  store i64 {HOOK_RAISED}, ptr %kind
  %first = getelementptr i64, ptr %kind, i64 {REPORT.fields["first"][0]}
  %what = load ptr, ptr %info
  %word = ptrtoint ptr %what to i64
  store i64 %word, ptr %first
  %second = getelementptr i64, ptr %kind, i64 {REPORT.fields["second"][0]}
  %from = inttoptr i64 %frame to ptr
  %own = load i64, ptr %from
  store i64 %own, ptr %second
  br label %end
end:
  ret void
}}}}"""
assert HOOK.offset("code") == 0
assert REPORT.fields["kind"][0] == 0


def _array(element: types.Type, rank: int, readonly: bool) -> Any:
    """A function of compiled code that makes an array of an address and the address of its sizes, and its type."""
    kind = types.Array(element, rank, "C", readonly=readonly)

    @intrinsic
    def array(context: Any, address: Any, sizes: Any) -> Any:
        def emit(inner: Any, builder: Any, _signature: Any, args: Any) -> Any:
            made = inner.make_array(kind)(inner, builder)
            word = inner.get_value_type(I64)
            shape = [builder.load(builder.gep(args[1], [word(k)])) for k in range(rank)]
            memory = inner.get_data_type(element)
            itemsize = word(inner.get_abi_sizeof(memory))
            strides = [itemsize] * rank
            for k in range(rank - 2, -1, -1):
                strides[k] = builder.mul(strides[k + 1], shape[k + 1])
            data = builder.inttoptr(args[0], memory.as_pointer())
            arrayobj.populate_array(
                made, data=data, shape=shape, strides=strides, itemsize=itemsize, meminfo=None
            )
            return made._getvalue()

        return kind(I64, WORDS), emit

    return array, kind


def _around(function: Any, arrays: list[Any], second: bool, state: bool, rank: int) -> Callable[..., None]:
    """The function of a frame that calls a function of arrays."""
    sizes = AT_SIZES if rank else AT_N
    x, out, kept = arrays

    def of_one(frame):  # type: ignore[no-untyped-def]
        f = frames.hook(frame)
        function(x(f.x, words(address_of(f) + sizes)))

    def of_one_and_state(frame):  # type: ignore[no-untyped-def]
        f = frames.hook(frame)
        function(x(f.x, words(address_of(f) + sizes)), kept(f.state, words(address_of(f) + AT_STATE)))

    def of_two(frame):  # type: ignore[no-untyped-def]
        f = frames.hook(frame)
        at = words(address_of(f) + sizes)
        function(x(f.x, at), out(f.out, at))

    def of_two_and_state(frame):  # type: ignore[no-untyped-def]
        f = frames.hook(frame)
        at = words(address_of(f) + sizes)
        function(x(f.x, at), out(f.out, at), kept(f.state, words(address_of(f) + AT_STATE)))

    if second:
        return of_two_and_state if state else of_two
    return of_one_and_state if state else of_one


def compile_hook(
    name: str,
    function: Callable[..., Any],
    dtype: int,
    access: int,
    rank: int,
    state_dtype: int,
    *,
    checks: bool,
) -> bytes:
    """Compile a hook to an object file with one export, `name`. With `checks` indices are looked at.

    Raises
    ------
    TypeError, RuntimeError
        With what Numba says.
    """
    options = {**OPTIONS, "boundscheck": checks}
    own = function.__name__
    try:
        decorated = specialised(function, {}, njit(**options), {})
        x, x_type = _array(SCALARS[dtype], rank or 1, access in (READS, REPLACES))
        out, out_type = _array(SCALARS[dtype], rank or 1, False)
        state, state_type = _array(SCALARS[max(state_dtype, 0)], 1, False)
        second = access in (REPLACES, TAKES_LEAF)
        taken = [x_type, *([out_type] if second else []), *([state_type] if state_dtype >= 0 else [])]
        decorated.compile(tuple(taken))
        [made] = decorated.overloads.values()
        if made.signature.return_type != types.none:
            raise TypeError(
                f"native hook '{own}' must not return anything, but returns {made.signature.return_type}: it changes "
                "its array in place, or writes to the one that it is given"
            )
        around = _around(decorated, [x, out, state], second, state_dtype >= 0, rank)
        return compile_unit(name, [Export(name, around)], options=options, wrapper=_WRAPPER, refused=REFUSED)
    except UndefinedError as error:
        raise RuntimeError(f"native hook '{own}' cannot be compiled: it needs {error}; {_HINT}") from None
    except errors.NumbaError as error:
        text = str(error)
        kind = (
            TypeError if isinstance(error, errors.TypingError) and not _MEMORY.search(text) else RuntimeError
        )
        hint = f"{_HINT}\n" if _MEMORY.search(text) else ""
        raise kind(
            f"native hook '{own}' cannot be compiled{_place(function, text)}: {hint}Numba says: {text}"
        ) from None


_HINT = (
    "a native hook makes no arrays (not by `a * b` or a method either), prints nothing and does without np.random and "
    "np.linalg: write loops over elements, and keep numbers in the state"
)
_MEMORY = re.compile("NRT required|_ol_array_allocate|ol_np_empty")


def _place(function: Any, text: str) -> str:
    """Where in the source the trouble is, as far as the text of an error says so."""
    file = function.__code__.co_filename
    name = re.escape(file.rpartition("/")[2])
    found = re.findall(rf'File "[^"]*{name}", line (\d+)|{name} \((\d+)\)', text)
    return f" (line {found[-1][0] or found[-1][1]} of {file})" if found else ""
