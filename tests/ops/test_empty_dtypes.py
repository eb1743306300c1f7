"""Tensors without elements are refused for the same dtypes as others, and their results have the same dtypes."""

from __future__ import annotations

from typing import Any

import pytest

import fastgrad as fg

DTYPES = ["float32", "float16", "int64", "uint8", "bool", "complex64", "complex128"]
UNARY = [
    "abs", "bitwise_not", "ceil", "digamma", "erf", "erfc", "erfinv", "exp", "frac", "i0", "lgamma", "logit", "neg",
    "relu", "sign", "signbit", "sqrt", "deg2rad",
]  # fmt: skip
BINARY = [
    "atan2", "bitwise_and", "bitwise_left_shift", "copysign", "floor_divide", "fmax", "fmod", "gcd", "hypot", "lcm",
    "lt", "maximum", "pow", "remainder", "xlogy", "add", "eq",
]  # fmt: skip


def outcome(lib: Any, name: str, dtype: str, size: int, *, strided: bool = False) -> Any:
    x = lib.ones(size, 2, dtype=getattr(lib, dtype))
    x = x[:, ::2] if strided else x
    try:
        out = getattr(lib, name)(x) if name in UNARY else getattr(lib, name)(x, x)
    except Exception as error:
        return type(error)
    return str(out.dtype).partition(".")[2]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", UNARY + BINARY)
def test_as_tensors_with_elements(name: str, dtype: str) -> None:
    wanted = outcome(fg, name, dtype, 1)
    assert outcome(fg, name, dtype, 0) == outcome(fg, name, dtype, 0, strided=True) == wanted


ALIKE = [n for n in UNARY + BINARY if n != "bitwise_not"]  # of which PyTorch's `~` raises another class
LACKING = {("sign", "bool")}


@pytest.mark.parity
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ALIKE)
def test_as_in_pytorch(name: str, dtype: str) -> None:
    torch = pytest.importorskip("torch")
    mine, theirs = (outcome(lib, name, dtype, 0) for lib in (fg, torch))
    if isinstance(theirs, type):
        assert isinstance(mine, type)
        assert issubclass(mine, theirs)
    elif isinstance(mine, str):
        assert mine == theirs
    else:
        assert (name, dtype) in LACKING, f"raises {mine}, PyTorch gives {theirs}"


def test_operators_and_changes_in_place() -> None:
    with pytest.raises(TypeError, match="integer and Boolean"):
        ~fg.zeros(0)
    with pytest.raises(NotImplementedError, match="ComplexFloat"):
        fg.zeros(0, dtype=fg.complex64).abs_()
    assert fg.zeros(0, 3, dtype=fg.complex64).abs().dtype is fg.float32
    x = fg.zeros(0, requires_grad=True)
    x.erf().sum().backward()
    assert x.grad.shape == (0,)
