"""Norms of gradients and their clipping; parameters as vectors."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fastgrad as fg
from fastgrad.native.host.tape import record

SHAPES = ((3, 4), (0,), (1000,), (), (2, 5))
ORDERS = (2, 2.0, 1, 0, 3, 0.5, math.inf, -math.inf, "inf")


def with_gradients(lib, dtype="float32", scale=1.0, seed=0):
    """Parameters with gradients, one without, the last one's not contiguous."""
    rng = np.random.default_rng(seed)
    params = []
    for shape in SHAPES:
        p = lib.tensor(rng.standard_normal(shape).astype(dtype), requires_grad=True)
        p.grad = lib.tensor((scale * rng.standard_normal(shape)).astype(dtype))
        params.append(p)
    params[-1].grad = lib.tensor((scale * rng.standard_normal(SHAPES[-1][::-1])).astype(dtype)).t()
    return [*params, lib.ones(3, requires_grad=True)]


def gradients(params):
    return [np.array(p.grad.tolist(), np.float64) for p in params if p.grad is not None]


def parts(order, params):
    """Those with elements where PyTorch wants some: nothing has no largest magnitude."""
    return [p for p in params if p.numel()] if math.isinf(float(order)) else params


@pytest.mark.parity
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("bound", [0.5, 1e6])
def test_same_norms(order, dtype, bound):
    torch = pytest.importorskip("torch")
    tolerance = {"float64": 1e-12, "float32": 1e-5}[dtype]
    norms, results = [], []
    for lib in (fg, torch):
        params = parts(order, with_gradients(lib, dtype))
        total = lib.nn.utils.clip_grad_norm_(params, bound, order)
        assert str(total.dtype).endswith(dtype)
        assert tuple(total.shape) == ()
        norms.append(total.item())
        results.append(gradients(params))
    np.testing.assert_allclose(*norms, rtol=tolerance)
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=1e-12)


@pytest.mark.parity
@pytest.mark.parametrize("order", [2.0, 1.0, math.inf])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_same_norms_that_are_not_finite(order, bad):
    torch = pytest.importorskip("torch")
    results = []
    for lib in (fg, torch):
        params = [p for p in with_gradients(lib) if p.numel() != 0]
        params[1].grad[7] = bad
        before = gradients(params)
        with pytest.raises(RuntimeError, match=f"total norm of order {float(order)} .* is non-finite"):
            lib.nn.utils.clip_grad_norm_(params, 1.0, order, error_if_nonfinite=True)
        for a, b in zip(gradients(params), before, strict=True):
            np.testing.assert_array_equal(a, b)
        total = lib.nn.utils.clip_grad_norm_(params, 1.0, order)
        results.append([np.array(total.item()), *gradients(params)])
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_dtypes_may_mix(lib):
    params = [*with_gradients(lib, "float32"), *with_gradients(lib, "float64", seed=1)]
    expected = math.sqrt(sum((g**2).sum() for g in gradients(params)))
    before = gradients(params)
    total = lib.nn.utils.clip_grad_norm_(iter(params), 1.0)
    assert total.dtype == lib.float64
    np.testing.assert_allclose(total.item(), expected, rtol=1e-6)
    for a, b in zip(gradients(params), before, strict=True):
        np.testing.assert_allclose(a, b / (expected + 1e-6), rtol=1e-5)


def test_large_gradients_do_not_overflow():
    """Squares of float32 numbers are summed up in float64."""
    g = fg.full((100,), 1e30)
    assert fg.nn.utils.get_total_norm([g]).item() == pytest.approx(1e31, rel=1e-6)


def test_norms_without_gradients(lib):
    utils = lib.nn.utils
    assert utils.get_total_norm([]).item() == 0.0
    assert utils.clip_grad_norm_([lib.ones(2, requires_grad=True)], 1.0).item() == 0.0
    with pytest.warns(UserWarning, match="empty generator"):
        utils.clip_grad_norm_((p for p in ()), 1.0)


def test_norms_have_no_history(lib):
    x = lib.ones(3, requires_grad=True)
    y = x * 2
    total = lib.nn.utils.get_total_norm(y)
    assert not total.requires_grad
    assert total.item() == pytest.approx(math.sqrt(12))


def test_clipping_with_a_known_norm(lib):
    p = lib.ones(2, requires_grad=True)
    p.grad = lib.tensor([3.0, 4.0])
    grad = p.grad
    lib.nn.utils.clip_grads_with_norm_(p, 2.5, lib.tensor(5.0))
    assert p.grad is grad
    np.testing.assert_allclose(grad.tolist(), [1.5, 2.0], rtol=1e-6)


def test_clipping_is_a_change(lib):
    p = lib.ones(2, requires_grad=True)
    p.grad = lib.tensor([3.0, 4.0])
    for clip in (lib.nn.utils.clip_grad_norm_, lib.nn.utils.clip_grad_value_):
        before = p.grad._version
        clip([p], 1.0)
        assert p.grad._version > before


def test_captured_clipping():
    p = fg.ones(2, requires_grad=True)
    p.grad = fg.tensor([3.0, 4.0])
    with record() as tape:
        total = fg.nn.utils.clip_grad_norm_([p], 1.0)
    p.grad.copy_(fg.tensor([6.0, 8.0]))
    tape.replay()
    assert total.item() == 10.0
    np.testing.assert_allclose(p.grad.tolist(), [0.6, 0.8], rtol=1e-6)


@pytest.mark.parity
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_same_values(dtype):
    torch = pytest.importorskip("torch")
    results = []
    for lib in (fg, torch):
        params = with_gradients(lib, dtype)
        params[2].grad[7] = math.nan
        params[2].grad[8] = -math.inf
        lib.nn.utils.clip_grad_value_(params, 0.3)
        lib.nn.utils.clip_grad_value_(params[0], 0.2)
        results.append(gradients(params))
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a, b)


def test_integer_tensors_have_no_norm():
    with pytest.raises(NotImplementedError, match=r"norm_part\(\): .*float32 or float64"):
        fg.nn.utils.get_total_norm([fg.ones(2, dtype=fg.int64)])


# --- vectors -----------------------------------------------------------------------------------------------------


def test_parameters_to_vector(lib):
    a, b = lib.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True), lib.tensor(5.0, requires_grad=True)
    vector = lib.nn.utils.parameters_to_vector(iter([a, b]))
    assert vector.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]
    (vector * lib.tensor([1.0, 2.0, 3.0, 4.0, 5.0])).sum().backward()
    assert a.grad.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert b.grad.tolist() == 5.0


def test_vector_to_parameters(lib):
    a, b = lib.zeros(2, 2, requires_grad=True), lib.zeros((), requires_grad=True)
    vector = lib.tensor([1.0, 2.0, 3.0, 4.0, 5.0])
    lib.nn.utils.vector_to_parameters(vector, [a, b])
    assert a.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert b.tolist() == 5.0
    assert a.is_leaf
    assert a.requires_grad
    vector[0] = 7.0
    assert a[0, 0].item() == 7.0
    with pytest.raises(TypeError, match="but got: list"):
        lib.nn.utils.vector_to_parameters([1.0], [a])


@pytest.mark.parity
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("order", [2, 1, 3, 0, math.inf, -math.inf])
def test_complex_gradients_count_by_magnitudes(order, dtype):
    """Beside real ones, as in layers over transforms of signals."""
    torch = pytest.importorskip("torch")
    found = []
    for lib in (fg, torch):
        z, x = (lib.ones(2, dtype=d, requires_grad=True) for d in (getattr(lib, dtype), lib.float32))
        z.grad, x.grad = lib.tensor([3 + 4j, 1j], dtype=z.dtype), lib.tensor([0.5, -2.0])
        total = lib.nn.utils.clip_grad_norm_([z, x], 0.7, order)
        found.append((str(total.dtype).rpartition(".")[2], total.item(), z.grad.tolist(), x.grad.tolist()))
    assert found[0][0] == found[1][0]
    for ours, theirs in zip(found[0][1:], found[1][1:], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_a_gradient_that_is_a_conjugate_is_scaled_in_place():
    z = fg.ones(1, dtype=fg.complex64, requires_grad=True)
    memory = fg.tensor([3 + 4j])
    z.grad = memory.conj()
    fg.nn.utils.clip_grad_norm_(z, 1.0)
    np.testing.assert_allclose(z.grad.tolist(), [0.6 - 0.8j], rtol=1e-5)
    np.testing.assert_allclose(memory.tolist(), [0.6 + 0.8j], rtol=1e-5)


@pytest.mark.parity
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_gradients_of_halves_alone(dtype):
    torch = pytest.importorskip("torch")
    found = []
    for lib in (fg, torch):
        w = lib.ones(3, dtype=getattr(lib, dtype), requires_grad=True)
        w.grad = lib.full((3,), 3.0, dtype=w.dtype)
        total = lib.nn.utils.clip_grad_norm_(w, 1.0)
        found.append((str(total.dtype).rpartition(".")[2], total.item(), w.grad.tolist()))
    assert found[0] == found[1]


def test_a_norm_that_is_no_tensor_is_refused():
    with pytest.raises(TypeError, match="argument 'total_norm'"):
        fg.nn.utils.clip_grads_with_norm_([fg.ones(1, requires_grad=True)], 1.0, 3.0)
