"""Functions that are called before they are there: what calls them is lowered once, and right for each filling."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from numba import njit, types

from fastgrad.kernels.compile import _function
from fastgrad.kernels.cpu import elementwise
from fastgrad.kernels.dtypes import ELEMENTS, INLINE, KERNEL
from fastgrad.native.base.holes import Filled, compiled, hole
from fastgrad.native.base.intrinsics import words
from fastgrad.native.build.compiler import compile_unit
from fastgrad.native.build.loader import load_object
from fastgrad.native.contracts.element_types import BOOL, COMPLEX64, FLOAT32, FLOAT64
from fastgrad.native.contracts.entries import Export
from fastgrad.native.contracts.frames.elementwise import FLAT, STRIDED
from fastgrad.ops.kernel_table import KERNELS

ROWS = {kernel.name: kernel for kernel in KERNELS}


def inlined(text: str):
    scope: dict[str, object] = {}
    exec(text, scope)
    return njit(**INLINE)(scope["function"])


FUNCTIONS = {
    FLOAT64: ["x + y", "x * y - 1", "x if x > y else -y"],
    FLOAT32: ["x - y", "x / y"],
    COMPLEX64: ["x * y", "y"],
    BOOL: ["x & y", "x != y"],
}
VALUES = {FLOAT64: (1.5, -2.25), FLOAT32: (3.5, 2.0), COMPLEX64: (1 + 2j, 3 - 1j), BOOL: (True, False)}


@pytest.mark.parametrize("dtype", FUNCTIONS)
def test_one_caller_calls_whatever_fills_it(dtype: int):
    element = ELEMENTS[dtype]
    pointer, load, store = element.pointer, element.load, element.store
    made = [
        compiled(inlined(f"def function(x, y):\n    return {f}\n"), (element.scalar,) * 2)
        for f in FUNCTIONS[dtype]
    ]
    [kind] = {m.signature.return_type for m in made}
    called = hole((element.scalar,) * 2, kind, njit(**INLINE))

    @njit(**KERNEL)
    def caller(frame):
        f = words(frame)
        store(pointer(f[2]), 0, called(load(pointer(f[0]), 0), load(pointer(f[1]), 0)))

    x, y = (np.array([v], element.name) for v in VALUES[dtype])
    for k, (text, function) in enumerate(zip(FUNCTIONS[dtype], made, strict=True)):
        name = f"hole_{dtype}_{k}"
        filled = Filled(called.overloads[(element.scalar,) * 2], function)
        code = compile_unit(name, [Export(name, caller)], options=KERNEL, filled=[filled])
        out = np.zeros(1, element.name)
        frame = np.array([a.ctypes.data for a in (x, y, out)], np.int64)
        address = load_object(code)(f"fastgrad_{name}")
        ctypes.CFUNCTYPE(None, ctypes.c_int64)(address)(frame.ctypes.data)
        assert out[0] == eval(text, {"x": x[0], "y": y[0]})
    assert len(caller.overloads) == 1


def test_what_is_not_filled_is_an_error():
    called = hole((types.float64,), types.float64, njit(**INLINE))

    @njit(**KERNEL)
    def caller(frame):
        called(float(frame))
        words(frame)[0] = int(called(1.0))

    with pytest.raises(RuntimeError, match=r"refers to .*hole.*, which is not to be found"):
        compile_unit("unfilled", [Export("unfilled", caller)], options=KERNEL)


@pytest.mark.parametrize(("one", "other"), [("add", "maximum"), ("exp", "sin"), ("mul_da", "div_da")])
@pytest.mark.parametrize("layout", [FLAT, STRIDED])
def test_kernels_with_the_same_loops_share_them(one: str, other: str, layout: int):
    found = [_function(ROWS[name].builder)(ROWS[name], FLOAT64, layout) for name in (one, other)]
    (first, _, more), (second, _, others) = found
    assert first is second
    assert [f.hole.fndesc.llvm_func_name for f in more["filled"]] == [
        f.hole.fndesc.llvm_func_name for f in others["filled"]
    ]
    assert more["filled"][0].function is not others["filled"][0].function
    again = elementwise.build(ROWS[one], FLOAT32, layout)[0]
    assert again is not first
