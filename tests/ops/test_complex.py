"""Complex numbers: values, promotion, gradients and printing against PyTorch; gradients against finite differences."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
from complex_cases import X, cases, pairs, reals

import fastgrad as fg


def resolved(t: Any) -> np.ndarray:
    t = t.detach()
    return t.resolve_conj().resolve_neg().numpy() if hasattr(t, "resolve_neg") else t.numpy()


def weights(t: Any) -> np.ndarray:
    shape = tuple(t.shape)
    return pairs(*shape) if t.is_complex() else reals(*shape)


@pytest.mark.parity
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", cases())
def test_as_pytorch(name: str):
    """Values, gradients and gradients of gradients."""
    torch = pytest.importorskip("torch")
    function, arrays = cases()[name]
    theirs = [torch.tensor(a, requires_grad=True) for a in arrays]
    ours = [fg.tensor(a, requires_grad=True) for a in arrays]
    a, b = function(torch, *theirs), function(fg, *ours)
    assert resolved(a).dtype == resolved(b).dtype
    np.testing.assert_allclose(resolved(b), resolved(a), rtol=1e-10, atol=1e-10)
    assert a.requires_grad == b.requires_grad
    if not a.requires_grad:
        return
    g = weights(a)
    first = torch.autograd.grad(a, theirs, torch.tensor(g), create_graph=True)
    plain = fg.autograd.grad(b, ours, fg.tensor(g), retain_graph=True)
    recorded = fg.autograd.grad(b, ours, fg.tensor(g), create_graph=True)
    for x, y, z in zip(first, plain, recorded, strict=True):
        assert resolved(x).dtype == resolved(y).dtype
        np.testing.assert_allclose(resolved(y), resolved(x), rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(resolved(z), resolved(x), rtol=1e-8, atol=1e-8)
    _compare_second(torch, first, recorded, theirs, ours)


def _compare_second(torch: Any, first: Any, recorded: Any, theirs: list[Any], ours: list[Any]) -> None:
    which = [k for k in range(len(first)) if first[k].requires_grad and recorded[k].requires_grad]
    if not which:
        return
    v = [weights(first[k]) for k in which]
    second = torch.autograd.grad(
        [first[k] for k in which], theirs, [torch.tensor(w) for w in v], allow_unused=True
    )
    found = fg.autograd.grad([recorded[k] for k in which], ours, [fg.tensor(w) for w in v], allow_unused=True)
    for k, (x, y) in enumerate(zip(second, found, strict=True)):
        zero = np.zeros(ours[k].shape)
        np.testing.assert_allclose(
            zero if y is None else resolved(y), zero if x is None else resolved(x), rtol=1e-7, atol=1e-7
        )


REFUSED = {
    "lt": lambda lib, x: x < x,
    "maximum": lambda lib, x: lib.maximum(x, x),
    "max": lambda lib, x: x.max(),
    "argmax": lambda lib, x: x.argmax(),
    "sort": lambda lib, x: lib.sort(x),
    "clamp": lambda lib, x: lib.clamp(x, 0),
    "floor": lambda lib, x: x.floor(),
    "round": lambda lib, x: x.round(),
    "sign": lambda lib, x: x.sign(),
    "floor_divide": lambda lib, x: x // x,
    "remainder": lambda lib, x: x % x,
    "atan2": lambda lib, x: lib.atan2(x, x),
    "relu": lambda lib, x: lib.relu(x),
    "backward": lambda lib, x: (x.clone().requires_grad_() * 2).sum().backward(),
    "real result in place": lambda lib, x: x.real.clone().mul_(x),
    "float": lambda lib, x: float(x[0, 0]),
    "imag of real": lambda lib, x: x.real.imag,
    "view_as_real of real": lambda lib, x: lib.view_as_real(x.real),
    "view_as_complex": lambda lib, x: lib.view_as_complex(x.real),
    "complex": lambda lib, x: lib.complex(x.real, x.real.to(lib.float32)),
    "full": lambda lib, x: lib.full((2,), 1j, dtype=lib.float32),
    "fill_": lambda lib, x: x.real.clone().fill_(1j),
    "dtype": lambda lib, x: lib.tensor([1j], dtype=lib.float32),
    "mixed product": lambda lib, x: x @ x.real.t(),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str):
    with pytest.raises((RuntimeError, TypeError, NotImplementedError)):
        REFUSED[name](fg, fg.tensor(X))


def test_promotion_with_numbers():
    half, single, double = (fg.ones(2, dtype=d) for d in (fg.float16, fg.float32, fg.float64))
    assert (single * 1j).dtype is fg.complex64 is (half * 1j).dtype
    assert (double * 1j).dtype is fg.complex128 is (fg.ones(2, dtype=fg.complex64) + double).dtype
    assert (fg.arange(2) * 1j).dtype is fg.complex64
    assert (fg.ones(2, dtype=fg.complex64) * fg.tensor(1.0, dtype=fg.float64)).dtype is fg.complex64
    assert fg.promote_types(fg.complex64, fg.float64) is fg.complex128
    assert fg.result_type(single, 1j) is fg.complex64
    assert fg.can_cast(fg.float64, fg.complex64)
    assert not fg.can_cast(fg.complex64, fg.float64)


def test_gradients_of_real_numbers_are_real():
    x = fg.tensor([1.0, -2.0], requires_grad=True)
    (x * (2 + 3j)).abs().sum().backward()
    assert x.grad.dtype is fg.float32
    np.testing.assert_allclose(x.grad.numpy(), np.array([1, -1]) * abs(2 + 3j), rtol=1e-6)


def test_gradcheck():
    z = fg.tensor(pairs(3), requires_grad=True)
    assert fg.autograd.gradcheck(lambda z: ((z * z.conj()).abs() + z.exp().real, z.sgn()), z)
    assert fg.autograd.gradgradcheck(lambda z: z.tanh() * z.conj() + z**2.5, z)
    assert fg.autograd.gradcheck(lambda z: z @ z, z, fast_mode=True)

    class Wrong(fg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1j

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 1j

    assert not fg.autograd.gradcheck(Wrong.apply, z, raise_exception=False)


def test_views_share_memory():
    z = fg.zeros(2, dtype=fg.complex64)
    z.real.fill_(3)
    z.imag = fg.tensor([1.0, 2.0])
    assert z.tolist() == [3 + 1j, 3 + 2j]
    pairs_ = fg.view_as_real(z)
    pairs_[0, 1] = 7
    assert z[0].item() == 3 + 7j
    assert fg.view_as_complex(pairs_).data_ptr() == z.data_ptr()


def test_large_products():
    for dtype, tolerance in (("complex64", 1e-4), ("complex128", 1e-12)):
        a, b = pairs(2, 70, 80, dtype=dtype), pairs(2, 80, 90, dtype=dtype)
        x, y = fg.tensor(a), fg.tensor(b)
        np.testing.assert_allclose((x @ y).numpy(), a @ b, rtol=tolerance, atol=tolerance)
        swapped = y[0].t() @ x[0].t()
        np.testing.assert_allclose(swapped.numpy(), b[0].T @ a[0].T, rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(
            (x[0] @ y[0, :, 1]).numpy(), a[0] @ b[0, :, 1], rtol=tolerance, atol=tolerance
        )


def test_special_values():
    inf, nan = float("inf"), float("nan")
    z = fg.tensor([complex(inf, nan), complex(nan, 1), 0j])
    assert z.isinf().tolist() == [True, False, False]
    assert z.isnan().tolist() == [True, True, False]
    assert z.abs()[0].item() == inf
    assert z.sgn()[2].item() == 0
    zero = fg.tensor([0j], requires_grad=True)
    zero.abs().sum().backward()
    assert zero.grad.item() == 0
    assert (fg.tensor([0j]) ** 0).item() == 1
    gone = fg.tensor([complex(-inf, inf), complex(-inf, nan), complex(-inf, 1)]).exp()
    assert gone.tolist() == [0, 0, 0]
    assert fg.tensor([complex(1, inf), complex(-1e3, inf)]).exp().isnan().all()
    assert fg.logaddexp(fg.tensor(-inf + 0j), fg.tensor(complex(-inf, 0))).item().real == -inf
    assert fg.logaddexp(fg.tensor(-inf + 0j), fg.tensor(2 + 1j)).item() == 2 + 1j
    assert fg.logaddexp(fg.tensor(1000 + 0j), fg.tensor(-1000 + 1j)).item() == 1000
    assert fg.logaddexp(fg.tensor(complex(nan, 0)), fg.tensor(1j)).isnan().item()
    assert fg.logaddexp(fg.tensor(complex(-inf, nan)), fg.tensor(1j)).isnan().item()
    np.testing.assert_allclose(
        fg.logaddexp(fg.tensor(1.0), fg.tensor(2j)).item(), np.log(np.e + np.exp(2j)), rtol=1e-6
    )
    with pytest.raises(RuntimeError, match="value cannot be converted"):
        fg.addmm(fg.ones(2, 2), fg.ones(2, 2), fg.ones(2, 2), alpha=1j)
    large = fg.tensor([1000 + 1j, 1000])
    np.testing.assert_allclose(large.logsumexp(0).item(), 1000 + np.log(np.exp(1j) + 1), rtol=1e-6)
    assert fg.tensor([complex(-inf, 0), 0]).logsumexp(0).item() == 0
    assert fg.tensor([complex(-inf, 0)]).logsumexp(0).item().real == -inf
    assert fg.zeros(2, 0, dtype=fg.complex64).logsumexp(1).real.tolist() == [-inf, -inf]


def test_powers_in_place_in_the_widest_dtype():
    z = fg.tensor(X)
    np.testing.assert_allclose(z.clone().float_power_(2).numpy(), X**2)
    np.testing.assert_allclose(z.clone().float_power_(fg.tensor([2.0])).numpy(), X**2)
    for x, exponent in (
        (z.to(fg.complex64), 2),
        (fg.ones(2, dtype=fg.float64), 2j),
        (fg.ones(3, 4, dtype=fg.float64), z),
    ):
        with pytest.raises(RuntimeError, match="requires dtype ComplexDouble"):
            x.float_power_(exponent)


def test_empty_and_strided():
    assert (fg.zeros(0, 3, dtype=fg.complex64) * 2j).shape == (0, 3)
    assert fg.zeros(0, dtype=fg.complex128).sum().item() == 0
    a = pairs(4, 6)
    t = fg.tensor(a)[::2, 1::2]
    np.testing.assert_allclose((t * t + 1j).numpy(), a[::2, 1::2] ** 2 + 1j)
    np.testing.assert_allclose(fg.tensor(a).t().exp().numpy(), np.exp(a.T))


def test_creation_and_exchange(tmp_path: Any):
    assert fg.tensor(1 + 2j).dtype is fg.complex64
    assert fg.tensor([1, 2j]).tolist() == [1, 2j]
    assert (
        fg.full((2,), 1j).tolist() == [1j, 1j] == fg.full_like(fg.zeros(2, dtype=fg.complex64), 1j).tolist()
    )
    assert complex(fg.tensor(2j)) == 2j
    assert fg.eye(2, dtype=fg.complex64)[1, 1].item() == 1
    a = pairs(3)
    shared = fg.from_numpy(a)
    a[0] = 5
    assert shared[0].item() == 5
    assert np.from_dlpack(shared).dtype == np.complex128
    fg.manual_seed(0)
    drawn = fg.randn(20000, dtype=fg.complex128)
    assert abs(drawn.var().item() - 1) < 0.05
    fg.save({"z": shared}, tmp_path / "z.pt")
    fg.testing.assert_close(fg.load(tmp_path / "z.pt")["z"], shared)
    made = fg.testing.make_tensor(3, dtype=fg.complex64, device="cpu", requires_grad=True)
    assert made.is_complex()
    assert made.requires_grad
    assert not made.is_conj()
    with pytest.raises(AssertionError):
        fg.testing.assert_close(fg.tensor([1 + 1j]), fg.tensor([1 + 2j]))


def test_casts_warn():
    z = fg.tensor([1 + 2j])
    with pytest.warns(UserWarning, match="discards the imaginary part"):
        assert z.to(fg.float32).tolist() == [1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert z.bool().tolist() == [True]
        assert z.cdouble().dtype is fg.complex128


@pytest.mark.parity
def test_prints_as_pytorch():
    torch = pytest.importorskip("torch")
    values = ([1 + 2j], [1j, -2.5 - 1j], [[1e5 + 1j, 1], [2, 3]], [complex("nan")], 3 + 4j, [], [1e-6j])
    for data in values:
        for dtype in ("complex64", "complex128"):
            theirs = repr(torch.tensor(data, dtype=getattr(torch, dtype))).replace("torch.", "fastgrad.")
            assert repr(fg.tensor(data, dtype=getattr(fg, dtype))) == theirs


def test_captured_and_compiled_passes():
    """A pass by a plan, and one again, give the gradients of the first one."""
    a, b = fg.tensor(X, requires_grad=True), fg.tensor(pairs(4, 2))

    def gradient() -> np.ndarray:
        a.grad = None
        (a @ b).abs().sum().backward()
        return a.grad.numpy().copy()

    expected = gradient()
    with fg.autograd.compiled():
        for _ in range(3):
            np.testing.assert_array_equal(gradient(), expected)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_isclose_compares_both_parts(dtype):
    a = fg.tensor(
        [1 + 1j, 1 + 1j, 1 + 1j, complex(math.nan, 1), complex(math.inf, 1)], dtype=getattr(fg, dtype)
    )
    b = fg.tensor([1 + 2j, 1 + 1.0000001j, 2 + 1j, complex(math.nan, 2), complex(math.inf, 1)], dtype=a.dtype)
    assert fg.isclose(a, b).tolist() == [False, True, False, False, True]
    assert fg.isclose(a, b, equal_nan=True).tolist() == [False, True, False, True, True]
    assert not fg.allclose(a, b)
