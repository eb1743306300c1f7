"""Decoders and whole transformers, against PyTorch; encoders are in test_attention.py."""

from __future__ import annotations

import copy
import pickle
import warnings
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import fastgrad as fg

RNG = np.random.default_rng(11)
CAUSAL = np.where(np.tri(4, dtype=bool), 0, -np.inf)
ACROSS = np.where(RNG.random((4, 5)) < 0.3, -np.inf, 0.0)
ACROSS[:, 0] = 0
PADDED = np.arange(5) >= np.array([5, 3, 4])[:, None]
TGT_PADDED = np.arange(4) >= np.array([4, 3, 2])[:, None]

MASKS: dict[str, dict[str, Any]] = {
    "none": {},
    "causal": {"tgt_mask": CAUSAL},
    "bool": {"tgt_mask": CAUSAL < 0, "memory_mask": ACROSS < 0},
    "both": {"tgt_mask": CAUSAL, "memory_mask": ACROSS, "tgt_is_causal": True},
    "padding": {"tgt_key_padding_mask": TGT_PADDED, "memory_key_padding_mask": PADDED},
    "everything": {
        "tgt_mask": CAUSAL < 0, "memory_mask": ACROSS < 0, "tgt_key_padding_mask": TGT_PADDED,
        "memory_key_padding_mask": PADDED,
    },
}  # fmt: skip


@pytest.fixture(params=["fastgrad", pytest.param("torch", marks=pytest.mark.parity)])
def lib(request: pytest.FixtureRequest) -> ModuleType:
    return pytest.importorskip(request.param)


def converted(lib: ModuleType, value: Any) -> Any:
    return lib.tensor(value) if isinstance(value, np.ndarray) else value


def options(lib: ModuleType, activation: str, **more: Any) -> dict[str, Any]:
    chosen = lib.tanh if activation == "tanh" else lib.nn.GELU() if activation == "GELU()" else activation
    return {"dropout": 0.0, "activation": chosen, "dtype": lib.float64, **more}


def compare(make: Any, inputs: list[np.ndarray], masks: dict[str, Any]) -> None:
    """Output and all gradients of the modules that `make` builds, with the same state."""
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says that it will not use nested tensors
        theirs, ours = make(torch), make(fg)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    state = {
        k: v.numpy() + 0.1 * np.sin(np.arange(v.numel()).reshape(v.shape))
        for k, v in theirs.state_dict().items()
    }
    found = []
    for lib, module in ((torch, theirs), (fg, ours)):
        module.load_state_dict({k: lib.tensor(v) for k, v in state.items()})
        leaves = [lib.tensor(x, requires_grad=True) for x in inputs]
        out = module(*leaves, **{k: converted(lib, v) for k, v in masks.items()})
        (out * out * out).sum().backward()
        found.append([out.detach(), *(t.grad for t in (*leaves, *module.parameters()))])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(other.numpy(), one.numpy(), rtol=1e-8, atol=1e-9)


def batches(batch_first: bool, *lengths: int) -> list[np.ndarray]:
    made = [RNG.standard_normal((n, 3, 8)) for n in lengths]
    return [x.swapaxes(0, 1).copy() if batch_first else x for x in made]


@pytest.mark.parity
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("norm_first", [False, True])
def test_decoders_as_torch(norm_first: bool, batch_first: bool):
    for activation, bias in (("relu", True), ("gelu", False), ("tanh", True), ("GELU()", True)):

        def make(lib: ModuleType, activation: str = activation, bias: bool = bias) -> Any:
            layer = lib.nn.TransformerDecoderLayer(
                8,
                2,
                16,
                batch_first=batch_first,
                norm_first=norm_first,
                bias=bias,
                **options(lib, activation),
            )
            if activation == "GELU()":  # PyTorch's copies of such a layer have relu instead
                return layer
            return lib.nn.TransformerDecoder(layer, 2, lib.nn.LayerNorm(8, dtype=lib.float64))

        for masks in MASKS.values() if activation == "relu" else [MASKS["causal"]]:
            compare(make, batches(batch_first, 4, 5), masks)


@pytest.mark.parity
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("norm_first", [False, True])
def test_transformers_as_torch(norm_first: bool, batch_first: bool):
    def make(lib: ModuleType) -> Any:
        return lib.nn.Transformer(
            8, 2, 2, 1, 16, batch_first=batch_first, norm_first=norm_first, **options(lib, "gelu")
        )

    source = {
        "src_mask": np.where(np.tri(5, dtype=bool), 0, -np.inf),
        "src_key_padding_mask": np.where(PADDED, -np.inf, 0),
    }
    for masks in ({}, MASKS["both"], {**MASKS["causal"], **source}, {"src_key_padding_mask": PADDED}):
        compare(make, batches(batch_first, 5, 4), masks)


@pytest.mark.parity
def test_sequences_without_a_batch_as_torch():
    def make(lib: ModuleType) -> Any:
        return lib.nn.Transformer(8, 2, 1, 1, 16, **options(lib, "relu"))

    compare(make, [RNG.standard_normal((5, 8)), RNG.standard_normal((4, 8))], {"tgt_mask": CAUSAL})


@pytest.mark.parity
def test_first_weights_are_drawn_as_those_of_torch():
    torch = pytest.importorskip("torch")
    made = []
    for lib in (fg, torch):
        lib.manual_seed(7)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made.append(lib.nn.Transformer(8, 2, 1, 2, 16).state_dict())
    for name, value in made[1].items():
        spread = value.numpy().std()
        assert abs(made[0][name].numpy().std() - spread) <= 0.35 * spread, name


@pytest.mark.parity
def test_printed_as_torch():
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = torch.nn.Transformer(8, 2, 1, 2, 16, bias=False)
    expected = repr(theirs).replace("NonDynamicallyQuantizableLinear", "Linear")
    assert repr(fg.nn.Transformer(8, 2, 1, 2, 16, bias=False)) == expected


def test_copies_keep_activations_that_are_modules():
    """PyTorch's decoder layers have `relu` when they are copied or unpickled."""
    layer = fg.nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0, activation=fg.nn.GELU())
    x = fg.randn(4, 1, 8)
    for again in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert again(x, x).tolist() == layer(x, x).tolist()
        assert isinstance(again.activation, fg.nn.GELU)


def test_hooks_run_in_order(lib: ModuleType):
    layer = lib.nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0, norm_first=True)
    log: list[str] = []
    for name, module in layer.named_children():
        module.register_forward_pre_hook(lambda m, a, name=name: log.append(name))
        module.register_full_backward_hook(lambda m, gi, go, name=name: log.append(f"-{name}"))
    layer(lib.ones(4, 1, 8).requires_grad_(), lib.ones(5, 1, 8)).sum().backward()
    forward = [
        "norm1", "self_attn", "dropout1", "norm2", "multihead_attn", "dropout2", "norm3", "linear1", "dropout",
        "linear2", "dropout3",
    ]  # fmt: skip
    assert log == forward + [f"-{name}" for name in reversed(forward)]


def test_other_encoders_and_decoders(lib: ModuleType):
    seen: list[Any] = []

    class Custom(lib.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.matrix = lib.nn.Parameter(lib.zeros(3, 3))

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            seen.append(sorted(kwargs))
            return args[0] * 2

    model = lib.nn.Transformer(8, 2, custom_encoder=Custom(), custom_decoder=Custom())
    assert (model.encoder.matrix != 0).any()  # drawn anew
    assert model(lib.ones(5, 1, 8), lib.ones(4, 1, 8)).shape == (4, 1, 8)
    assert seen == [
        ["is_causal", "mask", "src_key_padding_mask"],
        [
            "memory_is_causal", "memory_key_padding_mask", "memory_mask", "tgt_is_causal", "tgt_key_padding_mask",
            "tgt_mask",
        ],
    ]  # fmt: skip


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_square_subsequent_masks(lib: ModuleType):
    make = lib.nn.Transformer.generate_square_subsequent_mask
    for n, dtype in ((0, lib.float32), (1, lib.float64), (4, lib.float32)):
        mask = make(n, dtype=dtype)
        assert mask.dtype == dtype
        np.testing.assert_array_equal(mask.numpy(), np.where(np.tri(n, dtype=bool), 0, -np.inf))
    assert lib.nn.Transformer(8, 2, 1, 1, 8).generate_square_subsequent_mask(2).shape == (2, 2)


def test_copies_and_pickles(lib: ModuleType):
    layer = lib.nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0)
    x, y = lib.ones(4, 1, 8), lib.ones(5, 1, 8)
    expected = layer(x, y).tolist()
    for again in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert again(x, y).tolist() == expected
        assert again.activation is layer.activation


BAD: dict[str, tuple[type[Exception], str, Any]] = {
    "batches": (RuntimeError, "batch number", lambda lib, m, x: m(x, lib.ones(4, 3, 8))),
    "features": (RuntimeError, "feature number", lambda lib, m, x: m(x, x[..., :4])),
    "dims": (AssertionError, "query should be", lambda lib, m, x: m(x[None], x[None])),
    "activation": (
        RuntimeError, "relu/gelu, not tanh", lambda lib, m, x: lib.nn.TransformerDecoderLayer(8, 2, activation="tanh")
    ),
    "heads": (AssertionError, "divisible", lambda lib, m, x: lib.nn.Transformer(8, 3)),
    "mask": (RuntimeError, "2D attn_mask", lambda lib, m, x: m(x, x, tgt_mask=lib.ones(3, 3))),
    "memory mask": (RuntimeError, "2D attn_mask", lambda lib, m, x: m(x, x[:3], memory_mask=lib.ones(3, 3))),
    "size": (TypeError, "int|str", lambda lib, m, x: m.generate_square_subsequent_mask("3")),
    "negative": (RuntimeError, "negative", lambda lib, m, x: m.generate_square_subsequent_mask(-1)),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("case", BAD)
def test_bad_input(lib: ModuleType, case: str):
    kind, text, call = BAD[case]
    model = lib.nn.Transformer(8, 2, 1, 1, 8)
    with pytest.raises(kind, match=text):
        call(lib, model, lib.ones(5, 2, 8))


def test_no_layer_to_copy():
    for bad in (None, 3, fg.ones(2), fg.nn.Linear):
        with pytest.raises(TypeError, match="decoder_layer"):
            fg.nn.TransformerDecoder(bad, 2)
    with pytest.raises(TypeError):
        fg.nn.Transformer(8, 2, 1, 1, 8)(None, None)
