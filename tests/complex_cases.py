"""Functions of complex tensors, for tests of every device: by name, with operands; and what compares devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import fastgrad as fg

RNG = np.random.default_rng(3)


def pairs(*shape: int, dtype: str = "complex128") -> np.ndarray:
    return np.asarray(RNG.standard_normal(shape) + 1j * RNG.standard_normal(shape)).astype(dtype)


def reals(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape)


X, Y, W, R = pairs(3, 4), pairs(3, 4), pairs(3, 4), reals(3, 4)
MASK = R > 0
PLACES = np.array([[0, 2, 1, 1], [1, 0, 2, 0]])

Function = Callable[..., Any]

UNARY = (
    "neg", "exp", "log", "sqrt", "rsqrt", "reciprocal", "square", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin",
    "acos", "atan", "asinh", "acosh", "atanh", "sigmoid", "log2", "log10", "log1p", "expm1", "exp2", "sinc", "abs",
    "angle", "sgn", "conj", "real", "imag", "view_as_real", "isfinite", "isinf", "isnan", "isreal", "conj_physical",
    "logical_not", "positive", "sum", "mean", "prod", "any", "all", "var", "std", "norm",
)  # fmt: skip
BINARY = ("add", "sub", "mul", "div", "pow", "eq", "ne", "logical_and", "logical_or", "logical_xor")
NUMBERS = (2, 0.5, 1j, 2 - 1j, True)


def cases() -> dict[str, tuple[Function, list[np.ndarray]]]:
    """Functions of a library and tensors, by name, and the operands."""
    found: dict[str, tuple[Function, list[np.ndarray]]] = {}
    for name in UNARY:
        found[name] = (lambda lib, x, name=name: getattr(lib, name)(x), [X])
    for name in BINARY:
        for kinds, operands in (("", [X, Y]), (".rc", [np.abs(R), Y]), (".cr", [X, np.abs(R)])):
            found[name + kinds] = (lambda lib, x, y, name=name: getattr(lib, name)(x, y), operands)
    for k in NUMBERS:
        for kind, x in (("c", X), ("r", R)):
            found[f"{kind} + {k}"] = (lambda lib, x, k=k: x + k, [x])
            if k is not True:  # which is a mask, of which there are no differences
                found[f"{k} - {kind}"] = (lambda lib, x, k=k: k - x, [x])
            found[f"{kind} * {k}"] = (lambda lib, x, k=k: x * k, [x])
            found[f"{k} / {kind}"] = (lambda lib, x, k=k: k / x, [x])
    for k in (0, 1, 2, 3, -1, 0.5, -1.5, 2 + 1j):
        found[f"c ** {k}"] = (lambda lib, x, k=k: x**k, [X])
        found[f"{k} ** c"] = (lambda lib, x, k=k: k**x, [X])
    return found | FURTHER


FURTHER: dict[str, tuple[Function, list[np.ndarray]]] = {
    "where": (lambda lib, x, y: lib.where(lib.tensor(MASK), x, y), [X, Y]),
    "masked_fill": (lambda lib, x: x.masked_fill(lib.tensor(MASK), 1j), [X]),
    "lerp": (lambda lib, x, y, w: lib.lerp(x, y, w), [X, Y, W]),
    "lerp.number": (lambda lib, x, y: lib.lerp(x, y, 0.3), [X, Y]),
    "addcmul": (lambda lib, x, y, w: lib.addcmul(x, y, w, value=2j), [X, Y, W]),
    "addcdiv": (lambda lib, x, y, w: lib.addcdiv(x, y, w), [X, Y, W]),
    "add.alpha": (lambda lib, x, y: lib.add(x, y, alpha=2j), [X, Y]),
    "sum.dim": (lambda lib, x: x.sum(1), [X]),
    "mean.dim": (lambda lib, x: x.mean((0, 1), keepdim=True), [X]),
    "prod.dim": (lambda lib, x: x.prod(1), [X]),
    "var.dim": (lambda lib, x: x.var(0), [X]),
    "cumsum": (lambda lib, x: x.cumsum(1), [X]),
    "cumprod": (lambda lib, x: x.cumprod(1), [X]),
    "norm.3": (lambda lib, x: lib.linalg.vector_norm(x, 3, dim=1), [X]),
    "mm": (lambda lib, x, y: x @ y, [X, pairs(4, 5)]),
    "mm.columns": (lambda lib, x, y: x.t() @ y, [X, pairs(3, 5)]),
    "bmm": (lambda lib, x, y: lib.bmm(x, y), [pairs(2, 3, 4), pairs(2, 4, 2)]),
    "mv": (lambda lib, x, y: x @ y, [X, pairs(4)]),
    "dot": (lambda lib, x, y: lib.dot(x, y), [pairs(4), pairs(4)]),
    "vdot": (lambda lib, x, y: lib.vdot(x, y), [pairs(4), pairs(4)]),
    "einsum": (lambda lib, x, y: lib.einsum("ij,kj->ik", x, y), [X, pairs(5, 4)]),
    "addmm": (lambda lib, i, x, y: lib.addmm(i, x, y, beta=2, alpha=0.5), [pairs(3, 5), X, pairs(4, 5)]),
    "addmm.turned": (
        lambda lib, i, x, y: lib.addmm(i, x, y, beta=2j, alpha=1 - 1j),
        [pairs(5), X, pairs(4, 5)],
    ),
    "mH": (lambda lib, x: x.mH * 2, [X]),
    "complex": (lambda lib, x, y: lib.complex(x, y), [reals(3), reals(3)]),
    "polar": (lambda lib, x, y: lib.polar(x, y), [np.abs(reals(3)), reals(3)]),
    "view_as_complex": (lambda lib, x: lib.view_as_complex(x), [reals(3, 2)]),
    "index": (lambda lib, x: x[lib.tensor([0, 2, 0])], [X]),
    "mask": (lambda lib, x: x[lib.tensor(MASK)], [X]),
    "gather": (lambda lib, x: x.gather(0, lib.tensor(PLACES)), [X]),
    "scatter_add": (lambda lib, x, y: x.scatter_add(0, lib.tensor(PLACES), y), [X, pairs(2, 4)]),
    "index_add": (lambda lib, x, y: x.index_add(0, lib.tensor([0, 2]), y), [X, pairs(2, 4)]),
    "cat": (lambda lib, x, y: lib.cat([x, y], 1), [X, Y]),
    "stack": (lambda lib, x, y: lib.stack([x, y], 1), [X, Y]),
    "slice": (lambda lib, x: x[1:, ::2], [X]),
    "flip": (lambda lib, x: x.flip(0), [X]),
    "tril": (lambda lib, x: x.tril(), [X]),
    "transposed copy": (lambda lib, x: x.t().contiguous(), [pairs(40, 33)]),
    "to real": (lambda lib, x: x.to(lib.float64), [X]),
    "to complex": (lambda lib, x: x.to(lib.complex128), [R]),
    "in place": (lambda lib, x: x.clone().mul_(2j).add_(1).sub_(x).div_(1j), [X]),
    "fill": (lambda lib, x: x.clone().fill_(2j), [X]),
    "copy_": (lambda lib, x, y: x.clone().copy_(y), [X, Y]),
    "parts": (lambda lib, x: (x.real**2).sum() + x.imag.sum(), [X]),
    "cov": (lambda lib, x: lib.cov(x), [X]),
    "cov.weights": (lambda lib, x, w: lib.cov(x, aweights=w), [X, np.abs(R[0])]),
    "corrcoef": (lambda lib, x: lib.corrcoef(x), [X]),
    "logaddexp": (lambda lib, x, y: lib.logaddexp(x, y), [X, Y]),
    "logsumexp": (lambda lib, x: lib.logsumexp(x, 1), [X]),
    "logsumexp.dims": (lambda lib, x: lib.logsumexp(x, (0, 1), keepdim=True), [X]),
    "logsumexp.0-d": (lambda lib, x: lib.logsumexp(x, 0), [pairs()]),
    "vecdot": (lambda lib, x, y: lib.linalg.vecdot(x, y, dim=0), [X, Y]),
    "float_power": (lambda lib, x, y: lib.float_power(x, y), [X, Y]),
    "float_power.number": (lambda lib, x: lib.float_power(x, 3), [X]),
    "float_power.complex number": (lambda lib, x: lib.float_power(x, 2 - 1j), [np.abs(R)]),
    "isclose": (lambda lib, x, y: lib.isclose(x, y), [X, Y]),
}


# --- a device beside the CPU -----------------------------------------------------------------------------------

OFF = {"complex64": 3e-5, "complex128": 1e-10}


def of(array: np.ndarray, dtype: str) -> np.ndarray:
    """An operand in the dtype of a case, or in that of its parts."""
    return array.astype(
        dtype if array.dtype.kind == "c" else {"complex64": "float32", "complex128": "float64"}[dtype]
    )


def near(found: Any, wanted: Any, dtype: str, slack: float = 1) -> None:
    assert found.dtype is wanted.dtype
    found, wanted = found.detach().cpu().numpy(force=True), wanted.detach().numpy(force=True)
    if found.dtype == np.bool_:
        np.testing.assert_array_equal(found, wanted)
        return
    off = slack * OFF[dtype] * max(1.0, np.abs(wanted[np.isfinite(wanted)]).max(initial=0))
    np.testing.assert_allclose(found, wanted, rtol=slack * OFF[dtype], atol=off)


def computed(function: Any, arrays: list[np.ndarray], seed: int) -> tuple[Any, Any]:
    """What a function gives of operands, and the gradients of these."""
    operands = [fg.tensor(a, requires_grad=True) for a in arrays]
    y = function(fg, *operands)
    if not y.requires_grad:
        return y, ()
    rng = np.random.default_rng(seed)
    g = rng.standard_normal(tuple(y.shape)).astype(np.float64)
    g = g + 1j * rng.standard_normal(g.shape) if y.is_complex() else g
    return y, fg.autograd.grad(y, operands, fg.tensor(g, dtype=y.dtype))


def same(gpu: str, function: Any, arrays: list[np.ndarray], dtype: str, slack: float = 1) -> None:
    wanted, expected = computed(function, arrays, 7)
    with fg.device(gpu):
        found, got = computed(function, arrays, 7)
    assert found.device.type == gpu
    near(found, wanted, dtype, slack)
    for x, y in zip(got, expected, strict=True):
        near(x, y, dtype, 30 * slack)
