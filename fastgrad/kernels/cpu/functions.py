"""Functions of users on arrays in compiled code: what makes arrays of the words of a frame, what they may refer to,
what is said where they cannot be compiled, and what is reported where they raise.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from numba import njit, types
from numba.core import errors
from numba.extending import intrinsic
from numba.np import arrayobj

from fastgrad.kernels.dtypes import BASE
from fastgrad.kernels.specialise import specialised
from fastgrad.native.base.intrinsics import I64, WORDS
from fastgrad.native.base.pipeline import HookCompiler
from fastgrad.native.build.compiler import UndefinedError
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
from fastgrad.native.contracts.frame import REPORT, Frame

SCALARS = {
    BOOL: types.boolean, UINT8: types.uint8, INT32: types.int32, INT64: types.int64, FLOAT32: types.float32,
    FLOAT64: types.float64, INT8: types.int8, INT16: types.int16, UINT16: types.uint16, UINT32: types.uint32,
    UINT64: types.uint64,
}  # fmt: skip
OPTIONS: dict[str, Any] = {**BASE, "pipeline_class": HookCompiler}
"""Numba options of such a function: no memory management."""

REFUSED = ("NRT_", "numba_", "_numba_", "Py", "_Py", "GOMP", "omp_")
"""What code may refer to only where Numba or the GIL is there."""


def reporting(declared: Frame, kind: int) -> str:
    """What of a function leaves its unit: a kernel that reports, as `kind`, what the function raises.

    A report has Numba's description of the exception, which `errors.exception_of_code` reads, and the first word of the
    frame.
    """
    return f"""
declare i32 @{{symbol}}(ptr, ptr, i64)
define void @fastgrad_{{name}}(i64 %frame) {{{{
  %result = alloca ptr
  %info = alloca ptr
  store ptr null, ptr %info
  %code = call i32 @{{symbol}}(ptr %result, ptr %info, i64 %frame)
  %raised = icmp sgt i32 %code, 0
  br i1 %raised, label %report, label %end
report:
  %at = add i64 %frame, {declared.offset("status")}
  %place = inttoptr i64 %at to ptr
  %address = load i64, ptr %place
  %kind = inttoptr i64 %address to ptr
  store i64 {kind}, ptr %kind
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


assert REPORT.fields["kind"][0] == 0


def array_of(element: types.Type, places: tuple[int, ...], readonly: bool) -> Any:
    """A function of compiled code that makes an array of an address and of words among which its sizes are, and its
    type. `places` says at which of the words the sizes are.
    """
    rank = len(places)
    kind = types.Array(element, rank, "C", readonly=readonly)

    @intrinsic
    def array(context: Any, address: Any, sizes: Any) -> Any:
        def emit(inner: Any, builder: Any, _signature: Any, args: Any) -> Any:
            made = inner.make_array(kind)(inner, builder)
            word = inner.get_value_type(I64)
            shape = [builder.load(builder.gep(args[1], [word(k)])) for k in places]
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


def compiled(
    what: str,
    function: Callable[..., Any],
    options: dict[str, Any],
    taken: Sequence[types.Type],
    results: str,
) -> Any:
    """A copy of a function that Numba has compiled for arguments of some types.

    Raises
    ------
    TypeError
        If it returns something; `results` says where its results are.
    """
    made = specialised(function, {}, njit(**options), {})
    made.compile(tuple(taken))
    [overload] = made.overloads.values()
    if overload.signature.return_type != types.none:
        raise TypeError(
            f"{what} must not return anything, but returns {overload.signature.return_type}: {results}"
        )
    return made


_HINT = (
    "{what} makes no arrays (not by `a * b` or a method either), prints nothing and does without np.random and "
    "np.linalg: write loops over elements, and keep {kept}"
)
_MEMORY = re.compile("NRT required|_ol_array_allocate|ol_np_empty")


@contextlib.contextmanager
def explained(
    what: str, function: Any, kind: str = "a native hook", kept: str = "numbers in the state"
) -> Iterator[None]:
    """Say of `what` why it cannot be compiled: a TypeError where Numba finds no types, else a RuntimeError."""
    hint = _HINT.format(what=kind, kept=kept)
    try:
        yield
    except UndefinedError as error:
        raise RuntimeError(f"{what} cannot be compiled: it needs {error}; {hint}") from None
    except errors.NumbaError as error:
        text = str(error)
        memory = bool(_MEMORY.search(text))
        raised = TypeError if isinstance(error, errors.TypingError) and not memory else RuntimeError
        raise raised(
            f"{what} cannot be compiled{_place(function, text)}: {hint + chr(10) if memory else ''}Numba says: {text}"
        ) from None


def _place(function: Any, text: str) -> str:
    """Where in the source the trouble is, as far as the text of an error says so."""
    file = function.__code__.co_filename
    name = re.escape(file.rpartition("/")[2])
    found = re.findall(rf'File "[^"]*{name}", line (\d+)|{name} \((\d+)\)', text)
    return f" (line {found[-1][0] or found[-1][1]} of {file})" if found else ""
