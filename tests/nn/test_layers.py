"""Every layer beside torch's: values and gradients over its options, names, shapes, errors, initial values."""

from __future__ import annotations

import copy
import gc
import math
from typing import Any

import numpy as np
import pytest

import fastgrad as fg

from .layer_testing import LayerCase, assert_alike, build, results, state_for

rng = np.random.default_rng(0)


def r(*sizes: int) -> np.ndarray:
    return rng.standard_normal(sizes)


def signs(*sizes: int) -> np.ndarray:
    return np.asarray(rng.integers(0, 2, sizes) * 2 - 1)


ELEMENTWISE = (
    "Identity ReLU ReLU6 GELU SiLU Mish Tanh Sigmoid Softplus LeakyReLU ELU Hardtanh LogSigmoid PReLU Flatten "
    "CELU SELU GLU Hardshrink Hardswish Softshrink Softsign Tanhshrink"
)
CASES = [
    *(LayerCase("Linear", (r(*s),), (3, 5), {"bias": b}) for b in (True, False)
      for s in ((4, 3), (3,), (2, 4, 3), (2, 2, 4, 3), (0, 3))),
    LayerCase("Bilinear", (r(2, 3), r(2, 4)), (3, 4, 5)),
    LayerCase("Bilinear", (r(2, 2, 3), r(2, 2, 4)), (3, 4, 5), {"bias": False}),
    LayerCase("Bilinear", (r(3), r(4)), (3, 4, 5)),
    *(LayerCase(name, (3 * r(2, 3, 4),)) for name in ELEMENTWISE.split()),
    LayerCase("Flatten", (r(2, 3, 4),), (0, 1)),
    LayerCase("Unflatten", (r(2, 6),), (1, (2, 3))),
    LayerCase("Unflatten", (r(2, 6),), (1, (2, -1))),
    LayerCase("GELU", (3 * r(3, 4),), (), {"approximate": "tanh"}),
    LayerCase("Softplus", (3 * r(3, 4),), (2.0, 1.0)),
    LayerCase("LeakyReLU", (r(3, 4),), (0.2,)),
    LayerCase("ELU", (r(3, 4),), (0.2,)),
    LayerCase("Hardtanh", (r(3, 4),), (-0.5, 0.7)),
    LayerCase("PReLU", (r(2, 3, 4),), (3, 0.1)),
    LayerCase("CELU", (r(3, 4),), (0.5,)),
    LayerCase("GLU", (r(2, 6, 3),), (1,)),
    LayerCase("Hardshrink", (r(3, 4),), (0.2,)),
    LayerCase("Softshrink", (r(3, 4),), (0.2,)),
    LayerCase("Threshold", (r(3, 4),), (0.1, 2.0)),
    LayerCase("RReLU", (r(3, 4),), (0.1, 0.4), training=False),
    LayerCase("RReLU", (r(3, 4),), (0.25, 0.25)),
    LayerCase("Softmin", (r(3, 4),), (1,)),
    LayerCase("Softmax2d", (r(2, 3, 2, 2),)),
    LayerCase("Softmax2d", (r(3, 2, 2),)),
    LayerCase("Softmax", (r(3, 4),), (1,)),
    LayerCase("LogSoftmax", (r(3, 4),), (-1,)),
    *(LayerCase("LayerNorm", (r(5, 3, 4),), (shape,), k) for shape in (4, (3, 4))
      for k in ({}, {"elementwise_affine": False}, {"bias": False}, {"eps": 0.1})),
    *(LayerCase("RMSNorm", (r(5, 3, 4),), (shape,), k) for shape in (4, (3, 4))
      for k in ({}, {"elementwise_affine": False}, {"eps": 0.1})),
    *(LayerCase("GroupNorm", (r(*s),), (g, 4), k) for s, g in (((5, 4, 3), 2), ((5, 4, 3, 2), 4), ((5, 4), 1))
      for k in ({}, {"affine": False}, {"eps": 0.1})),
    *(LayerCase(f"BatchNorm{1 if len(s) < 4 else 2}d", (r(*s),), (4,), k, training, calls=2)
      for s in ((5, 4), (5, 4, 3), (5, 4, 3, 2)) for training in (True, False)
      for k in ({}, {"affine": False}, {"bias": False}, {"momentum": None}, {"track_running_stats": False},
                {"eps": 0.1, "momentum": 0.3})),
    *(LayerCase("Embedding", (np.array([[1, 2], [1, 4]]),), (6, 3), k)
      for k in ({}, {"padding_idx": 1}, {"padding_idx": -2}, {"scale_grad_by_freq": True}, {"max_norm": 1.0},
                {"max_norm": 1.0, "norm_type": 1.0})),
    LayerCase("CosineSimilarity", (r(3, 4), r(3, 4))),
    LayerCase("CosineSimilarity", (r(3, 4), r(1, 4)), (), {"dim": 0}),
    LayerCase("PairwiseDistance", (r(3, 4), r(3, 4))),
    LayerCase("PairwiseDistance", (r(3, 4), r(3, 4)), (), {"p": 1.0, "keepdim": True}),
    LayerCase("Dropout", (r(3, 4),), training=False),
    LayerCase("Dropout1d", (r(3, 4, 2),), training=False),
    LayerCase("Dropout2d", (r(3, 4, 2, 2),), (0.3, True), training=False),
    LayerCase("Dropout", (r(3, 4),), (1.0,)),
    LayerCase("Dropout2d", (r(3, 4, 2, 2),), (0.0,)),
    *(LayerCase(name, (r(4, 3), signs(4, 3)), (), k) for name in ("HingeEmbeddingLoss", "SoftMarginLoss")
      for k in ({}, {"reduction": "sum"})),
    LayerCase("MarginRankingLoss", (r(5), r(5), signs(5)), (0.3,)),
    LayerCase("CosineEmbeddingLoss", (r(5, 3), r(5, 3), signs(5)), (-0.3,)),
    LayerCase("CosineEmbeddingLoss", (r(3), r(3), signs()), (), {"reduction": "none"}),
    *(LayerCase("MultiMarginLoss", (r(4, 3), np.array([0, 2, 1, 1])), (), k, second=False)
      for k in ({}, {"p": 2, "margin": 0.5}, {"weight": np.array([0.5, 1.0, 2.0])}, {"reduction": "none"})),
    LayerCase("MultiLabelMarginLoss", (r(2, 4), np.array([[3, 0, -1, 1], [-1, 0, 2, 1]])), second=False),
    LayerCase("MultiLabelMarginLoss", (r(4), np.array([1, 2, -1, 0])), (), {"reduction": "none"}, second=False),
    *(LayerCase("MultiLabelSoftMarginLoss", (r(2, 4), np.array([[1, 0, 1, 1], [0, 0, 0, 1]])), (), k)
      for k in ({}, {"weight": np.array([0.5, 1.0, 2.0, 1.5])})),
    *(LayerCase("PoissonNLLLoss", (np.abs(r(6)) + 0.5, np.array([0, 1, 2, 5, 9, 1])), (), k)
      for k in ({}, {"full": True}, {"log_input": False, "eps": 0.1})),
    *(LayerCase("GaussianNLLLoss", (r(4, 3), r(4, 3), np.square(r(*s)) + 0.1), (), k)
      for s in ((4, 3), (4, 1), (4,)) for k in ({}, {"full": True, "eps": 0.5, "reduction": "sum"})),
    *(LayerCase("TripletMarginLoss", (r(4, 3), r(4, 3), r(4, 3)), (), k)
      for k in ({}, {"margin": 3.0, "p": 1.0, "swap": True}, {"reduction": "none"})),
    LayerCase("TripletMarginWithDistanceLoss", (r(4, 3), r(4, 3), r(4, 3)), (), {"swap": True}),
    *(LayerCase(f"{kind}Pad{rank}d", (r(2, 3, *(4, 5, 4)[:rank]),), (padding, *value))
      for kind, value in (("Constant", (0.5,)), ("Zero", ()), ("Replication", ()), ("Circular", ()))
      for rank in (1, 2, 3) for padding in (2, tuple(range(2 * rank))[:2] * rank)),
    *(LayerCase(f"ReflectionPad{rank}d", (r(2, 3, *(4, 5, 4)[:rank]),), ((1, 2) * rank,), second=False)
      for rank in (1, 2, 3)),
    LayerCase("PixelShuffle", (r(2, 8, 2, 3),), (2,)),
    LayerCase("PixelUnshuffle", (r(2, 2, 4, 6),), (2,)),
    LayerCase("ChannelShuffle", (r(2, 6, 4),), (3,)),
    LayerCase("Upsample", (r(2, 3, 4),), (), {"scale_factor": 2}),
    LayerCase("Upsample", (r(2, 3, 4, 5),), (), {"size": (3, 7), "mode": "bicubic", "align_corners": True}),
    LayerCase("Upsample", (r(1, 2, 2, 3, 4),), (), {"scale_factor": (2, 1.5, 1), "mode": "trilinear"}),
    LayerCase("UpsamplingNearest2d", (r(2, 3, 4, 5),), (), {"scale_factor": 1.5}),
    LayerCase("UpsamplingBilinear2d", (r(2, 3, 4, 5),), ((7, 6),)),
    *(LayerCase("BatchNorm3d", (r(2, 3, 2, 3, 2),), (3,), {}, training) for training in (True, False)),
    *(LayerCase(f"InstanceNorm{rank}d", (r(*batch, 3, *(4, 2, 3)[:rank]),), (3,), k, training, calls=2)
      for rank in (1, 2, 3) for batch in ((2,), ()) for training in (True, False)
      for k in ({}, {"affine": True, "eps": 0.1}, {"affine": True, "track_running_stats": True, "momentum": 0.3})),
    *(LayerCase("LocalResponseNorm", (r(2, 5, *rest),), (size,), k) for size in (2, 3) for rest in ((4,), (3, 2))
      for k in ({}, {"alpha": 0.5, "beta": 0.5, "k": 2.0})),
    *(LayerCase(name, (r(2, 3, 2, 2, 2),), (p,), training=p != 0.5) for p in (0.0, 0.5, 1.0)
      for name in ("Dropout3d", "AlphaDropout", "FeatureAlphaDropout")),
    LayerCase("Unfold", (r(2, 3, 5, 6),), ((2, 3),), {"dilation": (2, 1), "padding": 1, "stride": (1, 2)}),
    LayerCase("Unfold", (r(3, 5, 6),), (2,)),
    LayerCase("Fold", (r(2, 12, 12),), ((4, 5), 2)),
    LayerCase("Fold", (r(2, 12, 9),), ((4, 5), (2, 3)), {"padding": (1, 0), "stride": (2, 1), "dilation": (1, 1)}),
    LayerCase("Fold", (r(12, 12),), ((4, 5), 2)),
    *(LayerCase(name, (r(*batch, 2, 5, 6, 4),), args, k) for batch in ((2,), ())
      for name, args, k in (
          ("MaxPool3d", (2,), {}), ("MaxPool3d", ((2, 3, 2), 2, 1), {"ceil_mode": True, "dilation": (1, 1, 2)}),
          ("AvgPool3d", (2,), {}), ("AvgPool3d", ((2, 3, 2), 2, 1), {"ceil_mode": True, "count_include_pad": False}),
          ("AvgPool3d", (3, 2, 1), {"ceil_mode": True}), ("AvgPool3d", (2,), {"divisor_override": 3}),
          ("AdaptiveAvgPool3d", ((2, None, 3),), {}), ("AdaptiveAvgPool3d", (2,), {}))),
    LayerCase("AdaptiveMaxPool1d", (r(2, 3, 7),), (3,), second=False),
    LayerCase("AdaptiveMaxPool2d", (r(2, 3, 7, 6),), ((3, None),), second=False),
    LayerCase("AdaptiveMaxPool2d", (r(3, 6, 6),), (3,), second=False),
    LayerCase("AdaptiveMaxPool3d", (r(1, 2, 3, 4, 5),), ((2, 4, 3),), second=False),
    *(LayerCase(f"LPPool{rank}d", (np.abs(r(2, 3, *(5, 6, 4)[:rank])) + 0.1,), (p, 2), k)
      for rank in (1, 2, 3) for p, k in ((2, {}), (3.0, {"stride": 1}), (float("inf"), {}))),
    LayerCase("MaxUnpool1d", (r(1, 2, 3), np.array([[[0, 2, 5], [1, 3, 4]]])), (2,)),
    LayerCase("MaxUnpool2d", (r(1, 1, 2, 2), np.array([[[[0, 3], [9, 14]]]])), (2,)),
    LayerCase("MaxUnpool3d", (r(1, 1, 1, 2, 2), np.array([[[[[0, 3], [9, 14]]]]])), (2,)),
]  # fmt: skip


@pytest.fixture(scope="module")
def torch():
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    gc.freeze()  # torch stays: collections need not look at it
    return torch


@pytest.mark.parity
@pytest.mark.parametrize("case", CASES, ids=str)
def test_layer(torch, case: LayerCase):
    state = state_for(build(torch, case))
    assert_alike(results(fg, case, state), results(torch, case, state))


SHOWN = ["ReLU", "ReLU6", "SiLU", "Mish", "LeakyReLU", "ELU", "Hardtanh", "CELU", "SELU"]


@pytest.mark.parametrize("name", [*SHOWN, "Hardsigmoid", "Hardswish"])
def test_activation_in_place(lib, name: str):
    x = lib.tensor(r(3, 4), requires_grad=True)
    plain, y = getattr(lib.nn, name)()(x), x * 1
    out = getattr(lib.nn, name)(inplace=True)(y)
    assert out is y
    assert lib.equal(out, plain)
    assert ("inplace=True" in repr(getattr(lib.nn, name)(inplace=True))) is (name in SHOWN)
    ours, wanted = (lib.autograd.grad(t.sum(), x)[0] for t in (out, plain))
    assert lib.allclose(ours, wanted, rtol=1e-12)


@pytest.mark.parametrize(
    ("name", "args", "bound"),
    [("Linear", (64, 50), 1 / 8), ("Bilinear", (64, 3, 20), 1 / 8)],
    ids=["Linear", "Bilinear"],
)
def test_initial_values_are_uniform(lib, name: str, args: tuple[int, ...], bound: float):
    layer = getattr(lib.nn, name)(*args)
    for parameter in layer.parameters():
        assert float(parameter.detach().abs().amax()) <= bound
    spread = float(layer.weight.detach().std())
    assert spread == pytest.approx(bound / math.sqrt(3), rel=0.05)


def test_initial_values_follow_from_the_seed(lib):
    lib.manual_seed(5)
    first = lib.nn.Embedding(50, 20, padding_idx=3).weight.detach()
    lib.manual_seed(5)
    assert lib.equal(first, lib.nn.Embedding(50, 20, padding_idx=3).weight.detach())
    assert not first[3].any()
    assert float(first.mean()) == pytest.approx(0, abs=0.1)
    assert float(first.std()) == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("name", ["LayerNorm", "RMSNorm", "BatchNorm1d"])
def test_norms_start_neutral(lib, name: str):
    layer = getattr(lib.nn, name)(4)
    assert lib.equal(layer.weight.detach(), lib.ones(4))
    if name != "RMSNorm":
        assert not layer.bias.detach().any()


def test_dtype_and_device_reach_the_parameters(lib):
    for layer in (
        lib.nn.Linear(2, 3, dtype=lib.float64, device="cpu"),
        lib.nn.LayerNorm(3, dtype=lib.float64),
        lib.nn.BatchNorm1d(3, dtype=lib.float64),
        lib.nn.Embedding(2, 3, dtype=lib.float64),
    ):
        assert all(p.dtype == lib.float64 for p in layer.parameters())


def test_running_statistics_move(lib):
    norm = lib.nn.BatchNorm1d(2, momentum=0.5)
    x = lib.tensor([[1.0, 2.0], [3.0, 6.0]])
    norm(x)
    assert norm.running_mean.tolist() == [1.0, 2.0]
    assert norm.running_var.tolist() == [1.5, 4.5]
    assert int(norm.num_batches_tracked) == 1
    norm.eval()
    norm(x)
    assert int(norm.num_batches_tracked) == 1
    norm.reset_running_stats()
    assert norm.running_mean.tolist() == [0.0, 0.0]
    assert int(norm.num_batches_tracked) == 0


def test_running_statistics_move_unseen(lib):
    """The versions of running statistics stay, so that several calls may come before the passes over them."""
    norm = lib.nn.BatchNorm1d(2)
    x = lib.tensor([[0.0, 1.0], [1.0, 4.0], [2.0, 1.0]], requires_grad=True)
    versions = norm.running_mean._version, norm.running_var._version
    losses = [norm(x)[0].sum() for _ in range(2)]
    assert (norm.running_mean._version, norm.running_var._version) == versions
    for loss in losses:
        loss.backward()
    norm.eval()
    loss = norm(x)[0].sum()
    norm.running_var.fill_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_running_statistics_of_any_layout_move(lib):
    x = lib.tensor([[0.0, 1.0], [2.0, 3.0]])
    mean, var = lib.zeros(4)[::2], lib.zeros(4)[1::2]
    lib.nn.functional.batch_norm(x, mean, var, training=True, momentum=0.5)
    assert mean.tolist() == [0.5, 1.0]
    assert var.tolist() == [1.0, 1.0]
    wanted = lib.zeros(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="not differentiable with respect to argument 'running_mean'"):
        lib.nn.functional.batch_norm(x, wanted, var, training=True)


def test_batch_norm_takes_states_that_count_no_batches(lib):
    norm = lib.nn.BatchNorm1d(2)
    state = norm.state_dict()
    del state["num_batches_tracked"]
    state._metadata[""]["version"] = 1
    assert not norm.load_state_dict(state).missing_keys


def test_embedding_from_pretrained(lib):
    table = lib.tensor([[1.0, 2.0], [3.0, 4.0]])
    layer = lib.nn.Embedding.from_pretrained(table)
    assert not layer.weight.requires_grad
    assert layer(lib.tensor([1])).tolist() == [[3.0, 4.0]]
    assert lib.nn.Embedding.from_pretrained(table, freeze=False).weight.requires_grad


def test_layers_copy(lib):
    model = lib.nn.Sequential(lib.nn.Linear(3, 4), lib.nn.BatchNorm1d(4), lib.nn.PReLU())
    twin = copy.deepcopy(model)
    x = lib.tensor(r(5, 3)).to(lib.float32)
    assert lib.equal(model(x), twin(x))


ERRORS = [
    (lambda nn: nn.Dropout(1.5), ValueError, "between 0 and 1"),
    (lambda nn: nn.GroupNorm(3, 4), ValueError, "divisible"),
    (lambda nn: nn.Bilinear(0, 1, 1), ValueError, "in1_features"),
    (lambda nn: nn.Hardtanh(2.0, 1.0), AssertionError, "max_val"),
    (lambda nn: nn.Unflatten(1, "ab"), TypeError, "unflattened_size"),
    (lambda nn: nn.Unflatten(1, (2, 1.5)), TypeError, "unflattened_size"),
    (lambda nn: nn.Embedding(3, 2, padding_idx=3), AssertionError, "[Pp]adding_idx"),
    (lambda nn: nn.MultiMarginLoss(p=3), ValueError, "only p == 1"),
    (lambda nn: nn.PixelShuffle(2)(nn.Parameter(nn.Linear(2, 3).weight)), RuntimeError, "at least 3"),
    (lambda nn: nn.ChannelShuffle(4)(nn.Conv1d(2, 3, 1).weight), RuntimeError, "groups"),
    (lambda nn: nn.CircularPad1d(1)(nn.Linear(2, 3).bias), ValueError, "expected 2D or 3D"),
    (lambda nn: nn.InstanceNorm1d(3)(nn.Linear(2, 3).bias), ValueError, "expected 2D or 3D input"),
    (lambda nn: nn.LocalResponseNorm(2)(nn.Linear(2, 3).weight), ValueError, "3D or higher"),
    (lambda nn: nn.TripletMarginLoss(margin=0), ValueError, "margin to be greater"),
]


@pytest.mark.parametrize(("make", "kind", "text"), ERRORS, ids=[e[2] for e in ERRORS])
def test_options_that_make_no_sense(lib, make: Any, kind: type[Exception], text: str):
    with pytest.raises(kind, match=text):
        make(lib.nn)


def test_sparse_embeddings_are_refused():
    with pytest.raises(NotImplementedError, match="sparse"):
        fg.nn.Embedding(3, 2, sparse=True)


@pytest.mark.parametrize(("name", "sizes"), [("BatchNorm1d", (2, 4, 3, 2)), ("BatchNorm2d", (2, 4, 3))])
def test_batch_norm_counts_dimensions(lib, name: str, sizes: tuple[int, ...]):
    with pytest.raises(ValueError, match=r"expected .*input"):
        getattr(lib.nn, name)(4)(lib.ones(*sizes))


def test_third_derivatives_of_layer_norm_are_right():
    """torch takes the statistics of its second derivative for constants; here they are functions of the input."""
    x = fg.tensor(r(2, 4), requires_grad=True)
    w = fg.tensor(r(2, 4))

    def composed(x: Any) -> Any:
        centred = x - x.mean(1, True)
        return centred * ((centred * centred).mean(1, True) + 1e-5).rsqrt()

    def third(f: Any) -> Any:
        g = fg.autograd.grad((f(x) * w).sum(), x, create_graph=True)[0]
        h = fg.autograd.grad((g * g * w).sum(), x, create_graph=True)[0]
        return fg.autograd.grad((h * h).sum(), x)[0]

    ours = third(lambda x: fg.nn.functional.layer_norm(x, (4,)))
    assert fg.allclose(ours, third(composed), rtol=1e-8, atol=1e-8)
