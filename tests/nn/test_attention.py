"""Scaled dot-product attention beyond the op table's samples, attention in several heads, transformer encoders."""

from __future__ import annotations

import itertools
import math
import warnings
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import fastgrad as fg
from fastgrad import nn
from fastgrad.nn.functional import multi_head_attention_forward, scaled_dot_product_attention

RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def torch() -> ModuleType:
    return pytest.importorskip("torch")


def tensors(lib: ModuleType, arrays: Any, requires_grad: bool = True) -> list[Any]:
    return [lib.tensor(a, requires_grad=requires_grad) for a in arrays]


def reference(q: Any, k: Any, v: Any, mask: Any, causal: bool, scale: float) -> Any:
    """The formula, by ops that the op table tests."""
    groups = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(groups, 1) for x in (k, v))
    scores = q @ k.transpose(-2, -1) * scale
    if mask is not None:
        scores = scores + mask
    if causal:
        scores = fg.where(fg.ones(*scores.shape[-2:], dtype=fg.bool).tril(), scores, -math.inf)
    return scores.softmax(-1) @ v


# --- the op: sizes on both sides of strips, chunks and blocks ------------------------------------------------------

SIZES = [
    # queries, keys, width: one of each, tails of every kind, more than one block of queries and of keys
    (1, 1, 1), (1, 130, 3), (130, 1, 5), (7, 9, 16), (8, 32, 17), (9, 33, 33), (64, 128, 32), (65, 129, 8),
    (130, 260, 20), (200, 70, 64),
    # too small for blocks
    (4, 4, 4), (3, 9, 5), (16, 1, 16), (1, 16, 16),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("swapped", [False, True], ids=["heads first", "positions first"])
@pytest.mark.parametrize(("heads", "groups"), [(2, 2), (4, 2)])
@pytest.mark.parametrize("kind", ["full", "causal", "masked", "masked causal"])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_the_op_is_the_formula(sizes, kind, heads, groups, swapped, dtype):
    n_queries, n_keys, width = sizes
    shapes = [(2, n_queries, heads, width), (2, n_keys, groups, width), (2, n_keys, groups, width)]
    arrays = [RNG.standard_normal(s if swapped else (s[0], s[2], s[1], s[3])).astype(dtype) for s in shapes]
    mask = None
    if "masked" in kind:
        mask = RNG.standard_normal((2, 1, n_queries, n_keys))
        mask[RNG.random(mask.shape) < 0.2] = -np.inf
        mask[..., 0] = 0.0  # at least one key for each query
        mask = fg.tensor(mask.astype(dtype))
    direction = fg.tensor(RNG.standard_normal((2, heads, n_queries, width)).astype(dtype))
    results = []
    for one_op in (True, False):
        leaves = tensors(fg, arrays)
        q, k, v = (x.transpose(1, 2) if swapped else x for x in leaves)
        if one_op:
            out = scaled_dot_product_attention(
                q, k, v, mask, is_causal="causal" in kind, scale=0.3, enable_gqa=heads != groups
            )
            assert out.grad_fn.name() == "ScaledDotProductFlashAttentionForCpuBackward0"
            assert out.stride() == q.stride() or 1 in q.shape
        else:
            out = reference(q, k, v, mask, "causal" in kind, 0.3)
        out.backward(direction)
        results.append([out.detach(), *(x.grad for x in leaves)])
    scale = math.sqrt(max(n_queries, n_keys)) * (1e-13 if dtype == "float64" else 1e-5)
    for ours, theirs in zip(*results, strict=True):
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=10 * scale, atol=10 * scale)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("kind", ["full", "causal", "masked", "by bools"])
@pytest.mark.parametrize("sizes", [(4, 4, 4), (9, 33, 33), (1, 16, 16), (70, 5, 2)], ids=str)
def test_three_dimensions_without_gradients(torch, sizes, kind, dtype):
    n_queries, n_keys, width = sizes
    arrays = [RNG.standard_normal((3, n, width)).astype(dtype) for n in (n_queries, n_keys, n_keys)]
    masks = {
        "masked": RNG.standard_normal((3, n_queries, n_keys)).astype(dtype),
        "by bools": np.arange(n_keys) < RNG.integers(1, n_keys + 1, (n_queries, 1)),
    }

    def run(lib: ModuleType, requires_grad: bool) -> Any:
        mask = lib.tensor(masks[kind]) if kind in masks else None
        operands = tensors(lib, arrays, requires_grad)
        out = lib.nn.functional.scaled_dot_product_attention(*operands, mask, is_causal=kind == "causal")
        return out, out.detach().numpy()

    tolerance = {"float32": 1e-5, "float64": 1e-12, "float16": 5e-3}[dtype]
    wanted = run(torch, False)[1]
    for requires_grad in (False, True):
        out, found = run(fg, requires_grad)
        assert (out.grad_fn is not None) == requires_grad
        np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


def test_queries_without_keys_get_zeros_and_give_none():
    arrays = [RNG.standard_normal((1, 1, n, 4)) for n in (3, 5, 5)]
    for place in ("one op", "composed"):
        q, k, v = tensors(fg, arrays)
        operands = (q, k, v) if place == "one op" else (q[0], k[0], v[0])
        mask = fg.ones(3, 5, dtype=fg.bool)
        mask[1] = False
        out = scaled_dot_product_attention(*operands, mask).reshape(3, 4)
        out.sum().backward()
        assert (out[1] == 0).all()
        assert (out[0] != 0).all()
        assert (q.grad[0, 0, 1] == 0).all()
        assert (q.grad[0, 0, 0] != 0).all()
        assert not k.grad.isnan().any()
        assert not v.grad.isnan().any()


def test_nan_and_inf_spread_to_their_own_queries():
    q, k, v = (fg.ones(1, 1, 3, 4) for _ in range(3))
    q[0, 0, 1, 2] = math.nan
    out = scaled_dot_product_attention(q, k, v)[0, 0]
    assert out[1].isnan().all()
    assert not out[0].isnan().any()
    assert not out[2].isnan().any()
    k[0, 0, 2, 0] = math.inf
    assert scaled_dot_product_attention(k, k, v)[0, 0].isnan().all()


@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"scale": -0.7}, {"scale": 0.0}], ids=str)
@pytest.mark.parametrize("groups", [1, 2])
def test_derivatives_of_first_and_second_order(options, groups):
    q, k, v = (
        fg.tensor(RNG.standard_normal((1, h, n, 3)), requires_grad=True)
        for h, n in ((2, 4), (groups, 5), (groups, 5))
    )

    def f(q, k, v):
        return scaled_dot_product_attention(q, k, v, enable_gqa=True, **options)

    assert fg.autograd.gradcheck(f, (q, k, v))
    assert fg.autograd.gradgradcheck(f, (q, k, v))


def test_derivatives_with_a_mask_that_has_one():
    q, k, v = (fg.tensor(RNG.standard_normal((1, 2, 3, 2)), requires_grad=True) for _ in range(3))
    mask = fg.tensor(RNG.standard_normal((2, 3, 3)), requires_grad=True)
    assert fg.autograd.gradcheck(scaled_dot_product_attention, (q, k, v, mask))
    assert fg.autograd.gradgradcheck(scaled_dot_product_attention, (q, k, v, mask))
    hidden = fg.tensor(np.where(np.tri(3, dtype=bool), 0.5, -np.inf))
    assert fg.autograd.gradgradcheck(lambda *x: scaled_dot_product_attention(*x, hidden), (q, k, v))


def test_only_the_wanted_gradients_arrive():
    for wanted in itertools.product((False, True), repeat=3):
        operands = [fg.ones(1, 1, 3, 4, requires_grad=w) for w in wanted]
        out = scaled_dot_product_attention(*operands)
        assert out.requires_grad == any(wanted)
        if any(wanted):
            out.sum().backward()
        assert [x.grad is not None for x in operands] == list(wanted)


def test_the_op_keeps_no_weights():
    q, k, v = (fg.ones(1, 1, 512, 8, requires_grad=True) for _ in range(3))
    before = fg.debug.live()["bytes"]
    out = scaled_dot_product_attention(q, k, v)
    kept = fg.debug.live()["bytes"] - before
    assert out.requires_grad
    assert kept < 512 * 512  # 512 x 512 weights of 4 bytes would be four times as much


def test_dropout_zeroes_weights_and_scales_the_others():
    weights = scaled_dot_product_attention(
        fg.zeros(1, 1, 50, 1), fg.zeros(1, 1, 200, 1), fg.eye(200).reshape(1, 1, 200, 200), dropout_p=0.25
    )
    kept = weights != 0
    assert abs(float(kept.float().mean()) - 0.75) < 0.02
    np.testing.assert_allclose(weights[kept].numpy(), 1 / 200 / 0.75, rtol=1e-5)
    same = [fg.zeros(1, 1, 4, 4) for _ in range(3)]
    assert (scaled_dot_product_attention(*same, dropout_p=1.0) == 0).all()


def test_a_replay_computes_anew():
    from fastgrad.native.host.tape import record

    q, k, v = (fg.randn(1, 2, 9, 5) for _ in range(3))
    with record() as tape:
        out = scaled_dot_product_attention(q, k, v, is_causal=True)
    expected = scaled_dot_product_attention(q + 1, k, v * 2, is_causal=True)
    q.add_(1)
    v.mul_(2)
    tape.replay()
    assert (out == expected).all()


def test_saved_tensor_hooks_see_what_it_saves():
    seen = []
    q, k, v = (fg.randn(1, 1, 3, 4, requires_grad=True) for _ in range(3))
    with fg.autograd.graph.saved_tensors_hooks(lambda x: seen.append(x.shape) or x.clone(), lambda x: x):
        out = scaled_dot_product_attention(q, k, v)
    assert seen == [(1, 1, 3, 4)] * 3 + [(1, 1, 3), (1, 1, 3, 4)]
    out.sum().backward()
    assert q.grad is not None


# --- several heads -------------------------------------------------------------------------------------------------


def pair(torch: ModuleType, kind: str, *args: Any, **options: Any) -> tuple[Any, Any]:
    """The same module in both libraries, with the same random parameters."""
    theirs, ours = (getattr(lib.nn, kind)(*args, dtype=lib.float64, **options) for lib in (torch, fg))
    return same_state(torch, theirs, ours)


def same_state(torch: ModuleType, theirs: Any, ours: Any) -> tuple[Any, Any]:
    state = {k: RNG.standard_normal(tuple(v.shape)) for k, v in theirs.state_dict().items()}
    assert list(state) == list(ours.state_dict())
    theirs.load_state_dict({k: torch.tensor(v) for k, v in state.items()})
    ours.load_state_dict({k: fg.tensor(v) for k, v in state.items()})
    return theirs, ours


def assert_same(results: list[list[Any]]) -> None:
    theirs, ours = results
    assert len(theirs) == len(ours)
    for a, b in zip(theirs, ours, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-9 * max(1.0, np.abs(a).max()))


HIDDEN = RNG.random((6, 4, 5)) < 0.3
HIDDEN[..., 0] = False
PADDED = np.arange(5)[None] >= np.array([[5], [3], [4]])
BIAS = RNG.standard_normal((4, 5))
MASKS: dict[str, dict[str, Any]] = {
    "none": {},
    "2d": {"attn_mask": HIDDEN[0]},
    "3d": {"attn_mask": HIDDEN},
    "added": {"attn_mask": np.where(HIDDEN[1], -np.inf, BIAS)},
    "padding": {"key_padding_mask": PADDED},
    "added both": {"attn_mask": BIAS, "key_padding_mask": np.where(PADDED, -np.inf, 0.0)},
}


@pytest.mark.parity
@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize("need", ["none", "mean", "each"])
@pytest.mark.parametrize("dims", [{}, {"kdim": 6, "vdim": 3}], ids=["packed", "separate"])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    "longer", [{}, {"add_bias_kv": True}, {"add_zero_attn": True, "add_bias_kv": True}], ids=str
)
@pytest.mark.parametrize("layout", ["LNE", "NLE", "LE"])
def test_several_heads_as_torch(torch, layout, longer, bias, dims, need, masks):
    modules = pair(
        torch, "MultiheadAttention", 8, 2, bias=bias, batch_first=layout == "NLE", **dims, **longer
    )
    widths = (8, dims.get("kdim", 8), dims.get("vdim", 8))
    sizes = {"L": (4, 5, 5), "N": (3, 3, 3), "E": widths}
    arrays = [RNG.standard_normal(tuple(sizes[d][k] for d in layout)) for k in range(3)]
    given = dict(MASKS[masks])
    if layout == "LE":
        given = {
            k: v[:2] if v.ndim == 3 else v[1] if k == "key_padding_mask" else v for k, v in given.items()
        }
    results = []
    for lib, module in zip((torch, fg), modules, strict=True):
        leaves = tensors(lib, arrays)
        options = {k: lib.tensor(v) for k, v in given.items()}
        out, weights = module(
            *leaves, **options, need_weights=need != "none", average_attn_weights=need == "mean"
        )
        loss = (out * out).sum() + out.sum()
        if weights is not None:
            loss = loss + (weights * weights).sum()
        loss.backward()
        values = [out] if weights is None else [out, weights]
        gradients = [x.grad for x in (*leaves, *module.parameters())]
        results.append([x.detach().numpy() for x in values] + [g.numpy() for g in gradients])
    assert_same(results)


@pytest.mark.parity
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_self_attention_with_a_causal_hint_as_torch(torch, padded, need_weights, batch_first):
    modules = pair(torch, "MultiheadAttention", 8, 2, batch_first=batch_first)
    x = RNG.standard_normal((3, 5, 8) if batch_first else (5, 3, 8))
    results = []
    for lib, module in zip((torch, fg), modules, strict=True):
        leaf = lib.tensor(x, requires_grad=True)
        out, _ = module(
            leaf, leaf, leaf, attn_mask=lib.tensor(~np.tri(5, dtype=bool)), is_causal=True,
            key_padding_mask=lib.tensor(PADDED) if padded else None, need_weights=need_weights,
        )  # fmt: skip
        (out * out).sum().backward()
        results.append(
            [out.detach().numpy(), leaf.grad.numpy(), *(p.grad.numpy() for p in module.parameters())]
        )
    assert_same(results)


@pytest.mark.parity
def test_the_function_as_torch(torch):
    weights = [RNG.standard_normal(s) for s in ((24, 8), (24,), (8, 8), (8,))]
    arrays = [RNG.standard_normal((n, 3, 8)) for n in (4, 5, 5)]
    static = RNG.standard_normal((6, 7, 4))
    results = []
    for lib in (torch, fg):
        q, k, v, w, b, out_w, out_b, s = tensors(lib, [*arrays, *weights, static])
        forward = lib.nn.functional.multi_head_attention_forward
        out, probabilities = forward(
            q, k, v, 8, 2, w, b, None, None, False, 0.5, out_w, out_b, training=False, static_k=s, static_v=s
        )
        (out * out).sum().backward()
        grads = [x.grad.numpy() for x in (q, w, out_w, out_b, s)]
        results.append([out.detach().numpy(), probabilities.detach().numpy(), *grads])
    assert_same(results)


def test_the_layer_starts_as_torch_does():
    layer = nn.MultiheadAttention(64, 4, add_bias_kv=True)
    bound = math.sqrt(6 / (3 * 64 + 64))
    assert 0.9 * bound < float(layer.in_proj_weight.abs().max()) <= bound
    assert (layer.in_proj_bias == 0).all()
    assert (layer.out_proj.bias == 0).all()
    assert 0 < float(layer.bias_k.std()) < 0.5
    assert nn.MultiheadAttention(8, 2, bias=False).in_proj_bias is None


def test_dropout_of_weights_is_for_training():
    layer = nn.MultiheadAttention(8, 2, dropout=0.5)
    x = fg.randn(6, 2, 8)
    _, weights = layer(x, x, x, average_attn_weights=False)
    assert (weights == 0).any()
    _, weights = layer.eval()(x, x, x, average_attn_weights=False)
    assert (weights != 0).all()


X = np.ones((4, 2, 8), np.float32)
BAD_CALLS: dict[str, tuple[type[Exception], str, Any]] = {
    "dims": (AssertionError, "query should be", lambda lib, m, x: m(x[0, 0], x, x)),
    "other dims": (AssertionError, "3-D", lambda lib, m, x: m(x, x[0], x)),
    "width": (AssertionError, "embedding dimension of 8", lambda lib, m, x: m(x[..., :4], x, x)),
    "keys": (AssertionError, "does not match value", lambda lib, m, x: m(x, x, x[:3])),
    "mask": (RuntimeError, "2D attn_mask", lambda lib, m, x: m(x, x, x, attn_mask=lib.ones(3, 4))),
    "masks": (RuntimeError, "3D attn_mask", lambda lib, m, x: m(x, x, x, attn_mask=lib.ones(3, 4, 4))),
    "mask dims": (AssertionError, "attn_mask", lambda lib, m, x: m(x, x, x, attn_mask=lib.ones(4))),
    "mask dtype": (
        AssertionError,
        "bool and floating",
        lambda lib, m, x: m(x, x, x, attn_mask=lib.ones(4, 4, dtype=lib.int64)),
    ),
    "padding": (
        AssertionError,
        "be 2, but got 3",
        lambda lib, m, x: m(x, x, x, key_padding_mask=lib.ones(3, 4)),
    ),
    "padding length": (
        AssertionError,
        "be 4, but got 3",
        lambda lib, m, x: m(x, x, x, key_padding_mask=lib.ones(2, 3)),
    ),
    "padding dims": (
        AssertionError,
        "key_padding_mask",
        lambda lib, m, x: m(x, x, x, key_padding_mask=lib.ones(4)),
    ),
    "causal": (RuntimeError, "attn_mask", lambda lib, m, x: m(x, x, x, is_causal=True)),
    "divisor": (AssertionError, "divisible", lambda lib, m, x: lib.nn.MultiheadAttention(8, 3)),
    "heads": (ValueError, "greater than 0", lambda lib, m, x: lib.nn.MultiheadAttention(8, 0)),
    "activation": (
        RuntimeError,
        "relu/gelu, not tanh",
        lambda lib, m, x: lib.nn.TransformerEncoderLayer(8, 2, activation="tanh"),
    ),
}


@pytest.mark.parametrize("library", ["fastgrad", pytest.param("torch", marks=pytest.mark.parity)])
@pytest.mark.parametrize("case", BAD_CALLS)
def test_bad_input(case, library):
    lib = pytest.importorskip(library)
    kind, text, call = BAD_CALLS[case]
    with pytest.raises(kind, match=text) as caught:
        call(lib, lib.nn.MultiheadAttention(8, 2), lib.tensor(X))
    assert type(caught.value) is kind


def test_masks_of_two_dtypes_warn():
    layer, x = nn.MultiheadAttention(8, 2), fg.tensor(X)
    with pytest.warns(UserWarning, match="mismatched key_padding_mask and attn_mask"):
        layer(x, x, x, key_padding_mask=fg.zeros(2, 4, dtype=fg.bool), attn_mask=fg.zeros(4, 4))


def test_a_function_without_weights_says_so():
    x = fg.tensor(X)
    for separate, missing in ((False, "in_proj_weight is None"), (True, "q_proj_weight is None")):
        with pytest.raises(AssertionError, match=missing):
            multi_head_attention_forward(
                x, x, x, 8, 2, None, None, None, None, False, 0.0, fg.eye(8), None,
                use_separate_proj_weight=separate,
            )  # fmt: skip


# --- encoders ------------------------------------------------------------------------------------------------------

ENCODER_MASKS: dict[str, dict[str, Any]] = {
    "none": {},
    "causal": {"mask": np.where(np.tri(5, dtype=bool), 0, -np.inf)},
    "other": {"mask": np.where(np.tri(5, dtype=bool).T, 0, -np.inf)},
    "padding": {"src_key_padding_mask": np.where(PADDED, -np.inf, 0.0)},
    "both": {
        "mask": np.where(np.tri(5, dtype=bool), 0, -np.inf), "src_key_padding_mask": np.where(PADDED, -np.inf, 0.0)
    },
}  # fmt: skip


@pytest.mark.parity
@pytest.mark.parametrize("masks", ENCODER_MASKS)
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu", "tanh"])
@pytest.mark.parametrize("bias", [False, True])
def test_encoders_as_torch(torch, bias, activation, batch_first, norm_first, masks):
    encoders = []
    for lib in (torch, fg):
        layer = lib.nn.TransformerEncoderLayer(
            8, 2, dim_feedforward=16, dropout=0.0, norm_first=norm_first, batch_first=batch_first, bias=bias,
            activation=lib.tanh if activation == "tanh" else activation, dtype=lib.float64,
        )  # fmt: skip
        norm = lib.nn.LayerNorm(8, dtype=lib.float64)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch says that it will not use nested tensors
            encoders.append(lib.nn.TransformerEncoder(layer, 2, norm=norm))
    x = RNG.standard_normal((3, 5, 8) if batch_first else (5, 3, 8))
    results = []
    for lib, module in zip((torch, fg), same_state(torch, *encoders), strict=True):
        leaf = lib.tensor(x, requires_grad=True)
        out = module(leaf, **{k: lib.tensor(v) for k, v in ENCODER_MASKS[masks].items()})
        (out * out * out).sum().backward()
        results.append(
            [out.detach().numpy(), leaf.grad.numpy(), *(p.grad.numpy() for p in module.parameters())]
        )
    assert_same(results)


def test_a_causal_mask_is_recognised():
    """The hint that follows from the comparison gives what the mask gives."""
    layer = nn.TransformerEncoderLayer(8, 2, dim_feedforward=16, dropout=0.0)
    encoder = nn.TransformerEncoder(layer, 1)
    x = fg.randn(5, 3, 8)
    for mask in (~fg.ones(5, 5, dtype=fg.bool).tril(), fg.full((5, 5), -math.inf).triu(1)):
        hinted, read = encoder(x, mask), encoder(x, mask, is_causal=False)
        np.testing.assert_allclose(hinted.detach().numpy(), read.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_layers_of_an_encoder_are_copies():
    layer = nn.TransformerEncoderLayer(8, 2, dim_feedforward=16)
    encoder = nn.TransformerEncoder(layer, 2)
    first, second = (m.linear1.weight for m in encoder.layers)
    assert (first == second).all()
    assert first.data_ptr() != second.data_ptr() != layer.linear1.weight.data_ptr()
    out = encoder(fg.randn(5, 3, 8))
    out.sum().backward()
    assert layer.linear1.weight.grad is None
    assert first.grad is not None


def test_dropout_of_an_encoder_layer_is_for_training():
    layer = nn.TransformerEncoderLayer(8, 2, dim_feedforward=16, dropout=0.5)
    x = fg.randn(5, 3, 8)
    assert (layer(x) != layer(x)).any()
    layer.eval()
    assert (layer(x) == layer(x)).all()


def test_second_derivatives_of_an_encoder_layer():
    layer = nn.TransformerEncoderLayer(
        4, 2, dim_feedforward=3, dropout=0.0, activation=fg.tanh, dtype=fg.float64
    )
    x = fg.tensor(RNG.standard_normal((3, 1, 4)), requires_grad=True)
    assert fg.autograd.gradgradcheck(layer, (x,))
