"""Every loss beside torch's: values and gradients over its options and reductions; errors and warnings."""

from __future__ import annotations

import gc
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import fastgrad as fg

from .layer_testing import LayerCase, assert_alike, results

rng = np.random.default_rng(1)
pytestmark = pytest.mark.filterwarnings("ignore:reduction. 'mean' divides")


def r(*sizes: int) -> np.ndarray:
    return rng.standard_normal(sizes)


def u(*sizes: int) -> np.ndarray:
    return rng.uniform(0.1, 0.9, sizes)


CLASSES = np.array([0, 2, 1])


def with_reductions(name: str, inputs: tuple[np.ndarray, ...], **kwargs: Any) -> list[LayerCase]:
    return [LayerCase(name, inputs, (), {**kwargs, "reduction": k}) for k in ("mean", "sum", "none")]


CASES = [
    *with_reductions("L1Loss", (r(3, 4), r(3, 4))),
    *with_reductions("MSELoss", (r(3, 4), r(3, 4))),
    *with_reductions("SmoothL1Loss", (r(3, 4), r(3, 4))),
    *with_reductions("SmoothL1Loss", (r(3, 4), r(3, 4)), beta=0.3),
    *with_reductions("SmoothL1Loss", (r(3, 4), r(3, 4)), beta=0.0),
    *with_reductions("HuberLoss", (r(3, 4), r(3, 4))),
    *with_reductions("HuberLoss", (r(3, 4), r(3, 4)), delta=0.3),
    *with_reductions("KLDivLoss", (r(3, 4), u(3, 4))),
    *with_reductions("KLDivLoss", (r(3, 4), r(3, 4)), log_target=True),
    LayerCase("KLDivLoss", (r(3, 4), u(3, 4)), (), {"reduction": "batchmean"}),
    *with_reductions("BCELoss", (u(3, 4), u(3, 4))),
    *with_reductions("BCELoss", (u(3, 4), u(3, 4)), weight=u(4)),
    *with_reductions("BCEWithLogitsLoss", (r(3, 4), u(3, 4))),
    *with_reductions("BCEWithLogitsLoss", (r(3, 4), u(3, 4)), weight=u(4)),
    *with_reductions("BCEWithLogitsLoss", (r(3, 4), u(3, 4)), pos_weight=u(4)),
    *with_reductions("BCEWithLogitsLoss", (r(3, 4), u(3, 4)), weight=u(3, 4), pos_weight=u(4)),
    *with_reductions("NLLLoss", (r(3, 4), CLASSES)),
    *with_reductions("NLLLoss", (r(3, 4), CLASSES), weight=u(4), ignore_index=2),
    *with_reductions("CrossEntropyLoss", (r(3, 4), CLASSES)),
    *with_reductions("CrossEntropyLoss", (r(3, 4), CLASSES), weight=u(4), label_smoothing=0.1),
    *with_reductions("CrossEntropyLoss", (r(3, 4), CLASSES), ignore_index=1),
    *with_reductions("CrossEntropyLoss", (r(3, 4), u(3, 4))),
    *with_reductions("CrossEntropyLoss", (r(2, 4, 3), np.array([[0, 1, 2], [3, 0, 1]]))),
]


@pytest.fixture(scope="module")
def torch():
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    gc.freeze()  # torch stays: collections need not look at it
    return torch


@pytest.mark.parity
@pytest.mark.parametrize("case", CASES, ids=str)
def test_loss(torch, case: LayerCase):
    buffers = {k: v for k, v in case.kwargs.items() if isinstance(v, np.ndarray)}
    assert_alike(results(fg, case, buffers), results(torch, case, buffers))


@pytest.mark.parity
@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "huber_loss"])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_weights_of_elements(torch, name: str, reduction: str):
    x, t, w = r(3, 4), r(3, 4), u(3, 4)
    ours, theirs = (
        getattr(k.nn.functional, name)(
            k.tensor(x), k.tensor(t), weight=k.tensor(w), reduction=reduction
        ).numpy()
        for k in (fg, torch)
    )
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)


@pytest.mark.parity
def test_extremes_of_probabilities(torch):
    """Where logarithms are infinite the loss is cut off, and its gradient is large but finite."""
    x, t = np.array([0.0, 1.0, 0.0, 1.0]), np.array([1.0, 0.0, 0.0, 1.0])

    def run(k: Any) -> list[float]:
        leaf = k.tensor(x, requires_grad=True)
        out = k.nn.functional.binary_cross_entropy(leaf, k.tensor(t), reduction="none")
        return [*out.tolist(), *k.autograd.grad(out.sum(), leaf)[0].tolist()]

    np.testing.assert_allclose(run(fg), run(torch), rtol=1e-8)


@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"])
def test_other_sizes_warn_and_broadcast(lib, name: str):
    x, t = lib.tensor(r(3, 4)), lib.tensor(r(4))
    with pytest.warns(UserWarning, match="target size"):
        out = getattr(lib.nn.functional, name)(x, t)
    assert out.shape == ()


def test_the_mean_of_a_divergence_warns(lib):
    with pytest.warns(UserWarning, match="batchmean"):
        lib.nn.functional.kl_div(lib.zeros(2, 2), lib.ones(2, 2))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("reduction", ["none", "sum", "mean", "batchmean"])
@pytest.mark.parametrize("log_target", [False, True])
@pytest.mark.parametrize("shape", [(3, 4), (4,), ()], ids=str)
@pytest.mark.filterwarnings("ignore:reduction")
def test_divergences_without_gradients(
    torch, dtype: str, reduction: str, log_target: bool, shape: tuple[int, ...]
):
    x, t = r(3, 4).astype(dtype), np.abs(r(*shape)).astype(dtype)

    def run(lib: ModuleType, requires_grad: bool) -> Any:
        a = lib.tensor(x).requires_grad_(requires_grad)
        return lib.nn.functional.kl_div(a, lib.tensor(t), reduction=reduction, log_target=log_target)

    tolerance = 1e-5 if dtype == "float32" else 1e-12
    wanted = run(torch, False).numpy()
    for requires_grad in (False, True):
        found = run(fg, requires_grad)
        assert found.requires_grad == requires_grad
        np.testing.assert_allclose(found.detach().numpy(), wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize(("shapes", "dim"), [
    (((3, 4), (3, 4)), 1), (((3, 4), (3, 4)), -2), (((2, 3, 4), (3, 4)), 1), (((5,), (5,)), 0), (((3, 1), (1, 4)), 0),
    (((0, 3), (0, 3)), 1), (((3, 0), (3, 0)), 1),
])  # fmt: skip
def test_similarities_without_gradients(torch, dtype: str, shapes: Any, dim: int):
    arrays = [r(*shape) for shape in shapes]
    if arrays[0].size > 4:
        arrays[0].reshape(-1)[:4] = 0, 1e-12, -3e3, 1e-9
    number = torch.float32 if dtype == "bfloat16" else getattr(torch, dtype)

    def run(lib: ModuleType, kind: Any, requires_grad: bool) -> Any:
        a, b = (lib.tensor(x).to(getattr(lib, dtype)).to(kind).requires_grad_(requires_grad) for x in arrays)
        return lib.nn.functional.cosine_similarity(a, b, dim).detach().to(lib.float64).numpy()

    wanted = run(torch, number, False)
    tolerance = {"float32": 1e-6, "float64": 1e-14, "bfloat16": 2e-2}[dtype]
    for requires_grad in (False, True):
        np.testing.assert_allclose(
            run(fg, getattr(fg, dtype), requires_grad), wanted, rtol=tolerance, atol=tolerance
        )
    with pytest.raises(IndexError):
        fg.nn.functional.cosine_similarity(fg.ones(2), fg.ones(2), 3)


@pytest.mark.parametrize("name", ["smooth_l1_loss", "huber_loss"])
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_losses_with_a_number_take_halves(torch, name: str, reduction: str):
    x, t = r(3, 4), r(3, 4)

    def run(lib: ModuleType) -> Any:
        a = lib.tensor(x).to(lib.bfloat16).requires_grad_()
        out = getattr(lib.nn.functional, name)(a, lib.tensor(t).to(lib.bfloat16), reduction=reduction)
        out.sum().backward()
        assert out.dtype == a.grad.dtype == lib.bfloat16
        return [value.detach().to(lib.float32).numpy() for value in (out, a.grad)]

    for found, wanted in zip(run(fg), run(torch), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=2e-2, atol=1e-2)


def test_deprecated_arguments(lib):
    with pytest.warns(UserWarning, match="reduction='sum'"):
        loss = lib.nn.MSELoss(size_average=False)
    assert loss.reduction == "sum"


@pytest.mark.parametrize(
    "name", ["l1_loss", "kl_div", "mse_loss", "smooth_l1_loss", "huber_loss", "nll_loss", "cross_entropy"]
)
def test_unknown_reduction(lib, name: str):
    target = lib.tensor([0, 1]) if name in ("nll_loss", "cross_entropy") else lib.ones(2, 2)
    with pytest.raises(ValueError, match="average"):
        getattr(lib.nn.functional, name)(lib.ones(2, 2), target, reduction="average")


@pytest.mark.parametrize("name", ["smooth_l1_loss", "huber_loss", "mse_loss"])
def test_gradients_keep_nan(name: str) -> None:
    x = fg.tensor([float("nan"), 0.25, 5.0], requires_grad=True)
    getattr(fg.nn.functional, name)(x, fg.zeros(3), reduction="sum").backward()
    assert x.grad.isnan().tolist() == [True, False, False]
