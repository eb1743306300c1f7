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


OVER_ROWS: dict[str, Any] = {
    "sort": lambda lib, x: lib.sort(x(0, 3)),
    "topk": lambda lib, x: lib.topk(x(0, 3), 2),
    "kthvalue": lambda lib, x: lib.kthvalue(x(0, 3), 2),
    "median": lambda lib, x: lib.median(x(0, 3), 1),
    "unique": lambda lib, x: lib.unique(x(0)),
    "max": lambda lib, x: lib.max(x(0, 3), 1),
    "argmax": lambda lib, x: lib.argmax(x(0, 3), 1),
    "aminmax": lambda lib, x: lib.aminmax(x(0, 3), dim=1),
    "bincount": lambda lib, x: lib.bincount(x(0)),
    "dot": lambda lib, x: lib.dot(x(0), x(0)),
    "cumsum": lambda lib, x: lib.cumsum(x(0, 3), 1),
    "cummax": lambda lib, x: lib.cummax(x(0, 3), 1),
    "max_pool1d": lambda lib, x: lib.nn.functional.max_pool1d(x(0, 2, 6), 2),
    "max_pool2d": lambda lib, x: lib.nn.functional.max_pool2d(x(0, 2, 6, 6), 2),
    "max_pool3d": lambda lib, x: lib.nn.functional.max_pool3d(x(0, 2, 6, 6, 6), 2),
    "avg_pool2d": lambda lib, x: lib.nn.functional.avg_pool2d(x(0, 2, 6, 6), 2),
    "adaptive_max_pool2d": lambda lib, x: lib.nn.functional.adaptive_max_pool2d(x(0, 2, 6, 6), 2),
    "adaptive_avg_pool2d": lambda lib, x: lib.nn.functional.adaptive_avg_pool2d(x(0, 2, 6, 6), 2),
    "matmul": lambda lib, x: lib.matmul(x(0, 3), x(3, 4)),
    "linear": lambda lib, x: lib.nn.functional.linear(x(0, 3), x(4, 3)),
    "conv2d": lambda lib, x: lib.nn.functional.conv2d(x(0, 2, 5, 5), x(3, 2, 3, 3)),
    "softmax": lambda lib, x: lib.softmax(x(0, 3), 1),
    "logsumexp": lambda lib, x: lib.logsumexp(x(0, 3), 1),
    "mean": lambda lib, x: lib.mean(x(0, 3), 1),
    "layer_norm": lambda lib, x: lib.nn.functional.layer_norm(x(0, 3), (3,)),
}
"""Functions of ``x(*sizes)``, which gives a tensor whose sizes of zero may be others."""


def over_rows(lib: Any, name: str, dtype: str, rows: int) -> Any:
    def x(*sizes: int) -> Any:
        return lib.ones(*(n or rows for n in sizes), dtype=getattr(lib, dtype))

    try:
        OVER_ROWS[name](lib, x)
    except Exception as error:
        return type(error)
    return None


@pytest.mark.parity
@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != "float16"])
@pytest.mark.parametrize("name", OVER_ROWS)
def test_other_functions_refuse_what_pytorch_refuses(name: str, dtype: str) -> None:
    torch = pytest.importorskip("torch")
    theirs, of_elements, mine = (
        over_rows(torch, name, dtype, 0),
        *(over_rows(fg, name, dtype, n) for n in (2, 0)),
    )
    if of_elements is None:
        assert mine is None
    elif theirs is not None:
        assert mine is of_elements
