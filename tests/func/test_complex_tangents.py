"""Tangents of complex tensors: those of PyTorch, over all ops that take complex numbers, and of derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from complex_cases import X, cases, pairs, reals

import fastgrad as fg
import fastgrad.autograd.forward_ad as fwAD  # noqa: N812 - its usual name
from fastgrad import func
from fastgrad.autograd import Function, functional, gradcheck

# Of powers of mixed operands PyTorch drops the imaginary part of what the real one adds.
WRONG_IN_PYTORCH = {"pow.rc", "pow.cr"}


def numbers(t: Any) -> np.ndarray:
    t = t.detach()
    return t.resolve_conj().resolve_neg().numpy()


def tangents_like(arrays: list[np.ndarray], seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    made = []
    for a in arrays:
        t = rng.standard_normal(a.shape)
        made.append(t + 1j * rng.standard_normal(a.shape) if a.dtype.kind == "c" else t)
    return made


def dual(package: Any, fw: Any, function: Any, arrays: list[np.ndarray], along: list[np.ndarray]) -> Any:
    """The tangent of what a function gives of duals; None where there is none."""
    with fw.dual_level():
        operands = [
            fw.make_dual(package.tensor(a), package.tensor(t)) for a, t in zip(arrays, along, strict=True)
        ]
        tangent = fw.unpack_dual(function(package, *operands)).tangent
        return None if tangent is None else numbers(tangent)


@pytest.mark.parity
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(cases().keys() - WRONG_IN_PYTORCH))
def test_duals_are_pytorchs(name: str):
    torch = pytest.importorskip("torch")
    import torch.autograd.forward_ad as their_fw

    function, arrays = cases()[name]
    along = tangents_like(arrays, 5)
    theirs, ours = dual(torch, their_fw, function, arrays, along), dual(fg, fwAD, function, arrays, along)
    if theirs is None or ours is None:
        assert ours is theirs
        return
    np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.filterwarnings("ignore:Casting complex values")
@pytest.mark.parametrize("name", sorted(cases().keys() - {"0 ** c"}))  # which has derivatives nowhere
def test_duals_are_differences(name: str):
    function, arrays = cases()[name]
    along, step = tangents_like(arrays, 5), 1e-6
    beyond, before = (
        function(fg, *(fg.tensor(a + h * t) for a, t in zip(arrays, along, strict=True)))
        for h in (step, -step)
    )
    ours = dual(fg, fwAD, function, arrays, along)
    if not beyond.dtype.inexact:
        assert ours is None
        return
    assert ours.dtype == beyond.dtype.numpy
    differences = (beyond - before).numpy() / (2 * step)
    np.testing.assert_allclose(ours, differences, rtol=1e-6, atol=1e-6)


@pytest.mark.parity
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(cases().keys() - WRONG_IN_PYTORCH))
def test_tangents_of_tangents_are_pytorchs(name: str):
    torch = pytest.importorskip("torch")
    function, arrays = cases()[name]
    first, second = tangents_like(arrays, 5), tangents_like(arrays, 6)

    def twice(package: Any) -> tuple[Any, Any]:
        one, two = (tuple(map(package.tensor, t)) for t in (first, second))

        def inner(*xs: Any) -> Any:
            return package.func.jvp(lambda *ys: function(package, *ys), xs, one)[1]

        return package.func.jvp(inner, tuple(map(package.tensor, arrays)), two)

    theirs = twice(torch)
    for a, b in zip(twice(fg), theirs, strict=True):
        np.testing.assert_allclose(numbers(a), numbers(b), rtol=1e-8, atol=1e-8)


def test_gradients_of_tangents():
    z, t = fg.tensor(X, requires_grad=True), fg.tensor(tangents_like([X], 5)[0], requires_grad=True)

    def tangent(v: Any, w: Any) -> Any:
        return func.jvp(lambda u: u.sin() * u.conj() / u.abs(), (v,), (w,))[1]

    assert gradcheck(tangent, (z, t))
    assert gradcheck(lambda v: v.sin() * v.conj(), (z,), check_forward_ad=True)
    assert gradcheck(lambda v: v.abs() * v.angle(), (z,), check_forward_ad=True)
    with pytest.raises(RuntimeError, match="forward"):
        gradcheck(Twice.apply, (z,), check_forward_ad=True)


class Twice(Function):
    """Twice a tensor, with a wrong tangent if it is complex."""

    @staticmethod
    def forward(x: Any) -> Any:
        return x * 2

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 2

    @staticmethod
    def jvp(ctx: Any, t: Any) -> Any:
        return t.conj() * 2


def test_custom_functions_get_complex_tangents():
    z = fg.tensor(pairs(3))
    np.testing.assert_allclose(func.jvp(Twice.apply, (z,), (z,))[1].numpy(), 2 * z.numpy().conj())


def test_other_ways_to_tangents():
    z, t = pairs(4), pairs(4)

    def f(v: Any) -> Any:
        return v.exp() * v.conj()

    wanted = np.exp(z) * (z.conj() * t + t.conj())
    x, along = fg.tensor(z), fg.tensor(t)
    np.testing.assert_allclose(func.linearize(f, x)[1](along).numpy(), wanted)
    np.testing.assert_allclose(functional.jvp(f, x, along)[1].numpy(), wanted)
    values, tangents = func.vmap(lambda v, w: func.jvp(f, (v,), (w,)))(x, along)
    np.testing.assert_allclose(values.numpy(), f(x).numpy())
    np.testing.assert_allclose(tangents.numpy(), wanted)
    parts = func.jacfwd(lambda v: fg.view_as_real(f(fg.view_as_complex(v))))(fg.view_as_real(x))
    back = func.jacrev(lambda v: fg.view_as_real(f(fg.view_as_complex(v))))(fg.view_as_real(x))
    np.testing.assert_allclose(parts.numpy(), back.numpy())
    pushed = np.einsum("ipjq,jq->ip", parts.numpy(), fg.view_as_real(along).numpy())
    np.testing.assert_allclose(pushed @ [1, 1j], wanted)


def test_what_is_empty_strided_or_without_dimensions():
    for z in (pairs(0, 3), pairs(4, 6)[::2, ::-1].T, pairs()):
        x = fg.tensor(np.ascontiguousarray(z))
        _, tangent = func.jvp(lambda v: v * v, (x,), (x,))
        assert tangent.dtype is fg.complex128
        np.testing.assert_allclose(tangent.numpy(), 2 * z * z)
    view = fg.tensor(pairs(4, 6))[::2, ::3]
    np.testing.assert_allclose(func.jvp(fg.square, (view,), (view,))[1].numpy(), 2 * view.numpy() ** 2)


def test_real_tangents_of_complex_tensors():
    z, r = fg.tensor(pairs(3)), fg.tensor(reals(3), requires_grad=True)
    wanted = 2 * z.numpy() * r.detach().numpy()
    np.testing.assert_allclose(func.jvp(fg.square, (z,), (r.detach(),))[1].numpy(), wanted)
    with fwAD.dual_level():
        tangent = fwAD.unpack_dual(fwAD.make_dual(z, r) ** 2).tangent
    np.testing.assert_allclose(tangent.detach().numpy(), wanted)
    tangent.abs().sum().backward()
    assert r.grad.dtype is fg.float64


Z = fg.tensor([1 + 2j, 3 - 1j])
MISUSE = {
    "complex tangent of a real tensor": lambda lib, z: lib.func.linearize(lib.sin, z.real)[1](z),
    "sizes": lambda lib, z: lib.func.jvp(lib.sin, (z,), (z[:1],)),
    "integers": lambda lib, z: lib.func.jvp(lib.sin, (z,), (lib.ones(2, dtype=lib.int64),)),
    "none": lambda lib, z: lib.func.jvp(lib.sin, (z,), (None,)),
    "linearized": lambda lib, z: lib.func.linearize(lib.sin, z)[1](z.real),
    "jacfwd": lambda lib, z: lib.func.jacfwd(lib.sin)(z),
    "jacfwd to complex": lambda lib, z: lib.func.jacfwd(lambda x: (x, x * 1j))(z.real),
    "jacrev": lambda lib, z: lib.func.jacrev(lib.sin)(z),
    "jacrev to complex": lambda lib, z: lib.func.jacrev(lambda x: {"a": x * 1j})(z.real),
    "hessian": lambda lib, z: lib.func.hessian(lambda x: x.abs().sum())(z),
    "second argument": lambda lib, z: lib.func.jacrev(lambda a, b: a * b.abs(), argnums=(0, 1))(z.real, z),
    "product with a real vector": lambda lib, z: lib.autograd.functional.jvp(lib.sin, z, z.real),
    "gradient of another kind": lambda lib, z: lib.autograd.functional.vjp(lib.sin, z, z.real),
    "complex gradient": lambda lib, z: lib.autograd.functional.vjp(lib.sin, z.real, z),
    "jacobian": lambda lib, z: lib.autograd.functional.jacobian(lib.sin, z),
}


@pytest.mark.parity
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MISUSE)
def test_pytorch_refuses_the_same(name: str):
    torch = pytest.importorskip("torch")
    with pytest.raises(Exception) as theirs:  # noqa: PT011 - whichever it is, the next line wants it
        MISUSE[name](torch, torch.tensor(Z.tolist()))
    with pytest.raises(theirs.type) as ours:
        MISUSE[name](fg, Z)
    assert ours.type is theirs.type


@pytest.mark.parametrize("name", MISUSE)
def test_misuse(name: str):
    with pytest.raises((RuntimeError, ValueError), match=r"complex|size|Tensor|dtype"):
        MISUSE[name](fg, Z)


@pytest.mark.parametrize(
    "kinds", [("float32", "complex64"), ("complex128", "complex64"), ("complex64", "float64")]
)
def test_tangents_of_other_dtypes_are_refused(kinds: tuple[str, str]):
    x, t = (fg.ones(2, dtype=getattr(fg, kind)) for kind in kinds)
    with fwAD.dual_level(), pytest.raises(RuntimeError, match=rf"dtype.*\.to\(fastgrad\.{kinds[0]}\)"):
        fwAD.make_dual(x, t)


def test_jacobians_by_columns():
    x = fg.tensor(pairs(2))
    found = functional.jacobian(lambda v: v * v, x, vectorize=True, strategy="forward-mode")
    np.testing.assert_allclose(found.numpy(), np.diag(2 * x.numpy()))
