"""Recurrent layers and cells: against torch over their options, and against their own steps."""

from __future__ import annotations

import itertools
import warnings
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import fastgrad as fg
from fastgrad import nn

RNG = np.random.default_rng(0)
KINDS = ("RNN", "GRU", "LSTM")
STATES = {"RNN": 1, "GRU": 1, "LSTM": 2}


@pytest.fixture(scope="module")
def torch() -> ModuleType:
    return pytest.importorskip("torch")


def same_module(torch: ModuleType, kind: str, *args: Any, **options: Any) -> tuple[Any, Any]:
    """The same module in both libraries: names, text, and then parameters."""
    theirs, ours = (getattr(lib.nn, kind)(*args, dtype=lib.float64, **options) for lib in (torch, fg))
    assert repr(theirs) == repr(ours)
    state = {k: RNG.standard_normal(tuple(v.shape)) for k, v in theirs.state_dict().items()}
    assert {k: tuple(v.shape) for k, v in ours.state_dict().items()} == {k: v.shape for k, v in state.items()}
    assert list(state) == list(ours.state_dict())
    theirs.load_state_dict({k: torch.tensor(v) for k, v in state.items()})
    ours.load_state_dict({k: fg.tensor(v) for k, v in state.items()})
    return theirs, ours


def flat(value: Any) -> list[Any]:
    return [x for part in value for x in flat(part)] if isinstance(value, tuple) else [value]


def run(
    lib: ModuleType, module: Any, x: np.ndarray, states: list[np.ndarray], pair: bool
) -> list[np.ndarray]:
    """Results and all gradients of a call."""
    leaf = lib.tensor(x, requires_grad=True)
    first = [lib.tensor(s, requires_grad=True) for s in states]
    hx = () if not states else (tuple(first),) if pair else (first[0],)
    results = flat(module(leaf, *hx))
    sum((r * r).sum() + r.sum() for r in results).backward()
    leaves = [leaf, *first, *module.parameters()]
    return [r.detach().numpy() for r in results] + [p.grad.numpy() for p in leaves]


def assert_same(theirs: list[np.ndarray], ours: list[np.ndarray]) -> None:
    assert len(theirs) == len(ours)
    for a, b in zip(theirs, ours, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-9 * max(1.0, np.abs(a).max()))


# --- against torch -------------------------------------------------------------------------------------------------


@pytest.mark.parity
@pytest.mark.parametrize("layout", ["TNI", "NTI", "TI"])
@pytest.mark.parametrize("given", [False, True], ids=["zeros", "states"])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("num_layers", [1, 3])
@pytest.mark.parametrize(
    ("kind", "special"),
    [("RNN", {}), ("RNN", {"nonlinearity": "relu"}), ("GRU", {}), ("LSTM", {}), ("LSTM", {"proj_size": 2})],
    ids=str,
)
def test_layers_as_torch(torch, kind, special, num_layers, bidirectional, bias, given, layout):
    options = {
        "num_layers": num_layers,
        "bidirectional": bidirectional,
        "bias": bias,
        "batch_first": layout == "NTI",
    }
    modules = same_module(torch, kind, 4, 3, **options, **special)
    sizes = {"T": 5, "N": 2, "I": 4}
    x = RNG.standard_normal(tuple(sizes[d] for d in layout))
    count = num_layers * (1 + bidirectional)
    widths = (special.get("proj_size", 3), 3)[: STATES[kind]]
    batch = () if layout == "TI" else (2,)
    states = [RNG.standard_normal((count, *batch, w)) for w in widths] if given else []
    assert_same(
        *(run(lib, m, x, states, kind == "LSTM") for lib, m in zip((torch, fg), modules, strict=True))
    )


@pytest.mark.parity
@pytest.mark.parametrize("batch", [(), (2,)], ids=["one", "batch"])
@pytest.mark.parametrize("given", [False, True], ids=["zeros", "states"])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    ("kind", "special"),
    [("RNNCell", {}), ("RNNCell", {"nonlinearity": "relu"}), ("GRUCell", {}), ("LSTMCell", {})],
    ids=str,
)
def test_cells_as_torch(torch, kind, special, bias, given, batch):
    modules = same_module(torch, kind, 4, 3, bias=bias, **special)
    x = RNG.standard_normal((*batch, 4))
    count = 2 if kind == "LSTMCell" else 1
    states = [RNG.standard_normal((*batch, 3)) for _ in range(count)] if given else []
    assert_same(*(run(lib, m, x, states, count == 2) for lib, m in zip((torch, fg), modules, strict=True)))


BAD_LAYERS: dict[str, tuple[type[Exception], str, Any]] = {
    "mode": (ValueError, "Unrecognized RNN mode", lambda nn: nn.RNNBase("X", 2, 2)),
    "dropout": (ValueError, "dropout should be a number", lambda nn: nn.LSTM(2, 2, dropout=1.5)),
    "dropout type": (ValueError, "dropout should be a number", lambda nn: nn.LSTM(2, 2, dropout=True)),
    "bias": (TypeError, "bias should be of type bool, got: int", lambda nn: nn.GRU(2, 2, bias=1)),
    "batch_first": (TypeError, "batch_first should be of type bool", lambda nn: nn.GRU(2, 2, batch_first=0)),
    "input_size type": (TypeError, "input_size should be of type int", lambda nn: nn.RNN(2.0, 2)),
    "hidden_size type": (TypeError, "hidden_size should be of type int", lambda nn: nn.RNN(2, 2.0)),
    "input_size": (ValueError, "input_size must be greater than zero", lambda nn: nn.LSTM(0, 2)),
    "hidden_size": (ValueError, "hidden_size must be greater than zero", lambda nn: nn.LSTM(2, 0)),
    "num_layers": (
        ValueError,
        "num_layers must be greater than zero",
        lambda nn: nn.LSTM(2, 2, num_layers=0),
    ),
    "projection": (
        ValueError,
        "proj_size should be a positive integer",
        lambda nn: nn.LSTM(2, 2, proj_size=-1),
    ),
    "large projection": (ValueError, "smaller than hidden_size", lambda nn: nn.LSTM(2, 2, proj_size=2)),
    "projected GRU": (ValueError, "only supported for LSTM", lambda nn: nn.GRU(2, 2, proj_size=1)),
    "projected RNN": (ValueError, "only supported for LSTM", lambda nn: nn.RNN(2, 2, proj_size=1)),
    "nonlinearity": (ValueError, "Unknown nonlinearity 'x'", lambda nn: nn.RNN(2, 2, nonlinearity="x")),
}
BAD_CALLS: dict[str, tuple[type[Exception], str, Any]] = {
    "dims": (
        ValueError,
        "LSTM: Expected input to be 2D or 3D, got 1D",
        lambda lib, z: lib.nn.LSTM(2, 2)(z(2)),
    ),
    "GRU dims": (
        ValueError,
        "GRU: Expected input to be 2D or 3D",
        lambda lib, z: lib.nn.GRU(2, 2)(z(1, 1, 1, 2)),
    ),
    "dtype": (
        ValueError,
        "does not match weight dtype",
        lambda lib, z: lib.nn.RNN(2, 2)(z(3, 4, 2, dtype=lib.float64), z(1, 4, 2, dtype=lib.float64)),
    ),
    "features": (RuntimeError, "Expected 2, got 5", lambda lib, z: lib.nn.GRU(2, 2)(z(3, 4, 5))),
    "no steps": (RuntimeError, "larger than 0", lambda lib, z: lib.nn.LSTM(2, 2)(z(0, 4, 2))),
    "hx dims": (RuntimeError, "should also be 3-D", lambda lib, z: lib.nn.GRU(2, 2)(z(3, 4, 2), z(4, 2))),
    "unbatched": (RuntimeError, "should also be 2-D", lambda lib, z: lib.nn.RNN(2, 2)(z(3, 2), z(1, 4, 2))),
    "pair dims": (
        RuntimeError,
        "hx and cx should also be 3-D",
        lambda lib, z: lib.nn.LSTM(2, 2)(z(3, 4, 2), (z(4, 2), z(4, 2))),
    ),
    "hx sizes": (
        RuntimeError,
        r"Expected hidden size \(1, 4, 2\), got \[1, 3, 2\]",
        lambda lib, z: lib.nn.GRU(2, 2)(z(3, 4, 2), z(1, 3, 2)),
    ),
    "cx sizes": (
        RuntimeError,
        r"Expected hidden\[1\] size \(1, 4, 2\), got \[1, 4, 3\]",
        lambda lib, z: lib.nn.LSTM(2, 2)(z(3, 4, 2), (z(1, 4, 2), z(1, 4, 3))),
    ),
    "cell dims": (
        ValueError,
        "Expected input to be 1D or 2D",
        lambda lib, z: lib.nn.RNNCell(2, 2)(z(1, 1, 2)),
    ),
    "cell hx": (
        ValueError,
        "to be 1D or 2D, got 3D",
        lambda lib, z: lib.nn.GRUCell(2, 2)(z(1, 2), z(1, 1, 2)),
    ),
    "cell pair": (
        ValueError,
        r"Expected hx\[1\] to be 1D or 2D",
        lambda lib, z: lib.nn.LSTMCell(2, 2)(z(1, 2), (z(1, 2), z(1, 1, 2))),
    ),
    "cell features": (RuntimeError, "got 3 expected 2", lambda lib, z: lib.nn.LSTMCell(2, 2)(z(1, 3))),
    "cell batch": (
        RuntimeError,
        "1 doesn't match hidden",
        lambda lib, z: lib.nn.GRUCell(2, 2)(z(1, 2), z(3, 2)),
    ),
    "cell nonlinearity": (
        RuntimeError,
        "Unknown nonlinearity: x",
        lambda lib, z: lib.nn.RNNCell(2, 2, nonlinearity="x")(z(1, 2)),
    ),
}


@pytest.fixture(params=["fastgrad", pytest.param("torch", marks=pytest.mark.parity)])
def lib(request: pytest.FixtureRequest) -> ModuleType:
    return pytest.importorskip(request.param)


@pytest.mark.parametrize("case", BAD_LAYERS)
def test_bad_options(case, lib):
    kind, text, call = BAD_LAYERS[case]
    with pytest.raises(kind, match=text) as caught:
        call(lib.nn)
    assert type(caught.value) is kind


@pytest.mark.parametrize("case", BAD_CALLS)
def test_bad_input(case, lib):
    kind, text, call = BAD_CALLS[case]
    with pytest.raises(kind, match=text) as caught:
        call(lib, lib.zeros)
    assert type(caught.value) is kind


def test_dropout_without_a_further_layer_warns(lib):
    with pytest.warns(UserWarning, match="num_layers greater than 1"):
        lib.nn.GRU(2, 2, dropout=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lib.nn.GRU(2, 2, dropout=0.5, num_layers=2)


# --- against themselves --------------------------------------------------------------------------------------------


def cell_of(layer: Any, suffix: str) -> Any:
    cell = getattr(nn, type(layer).__name__ + "Cell")(layer.input_size, layer.hidden_size, dtype=fg.float64)
    cell.load_state_dict(
        {k.removesuffix(suffix): v for k, v in layer.state_dict().items() if k.endswith(suffix)}
    )
    return cell


@pytest.mark.parametrize("kind", KINDS)
def test_a_layer_is_its_cell_step_by_step(kind):
    layer = getattr(nn, kind)(4, 3, bidirectional=True, dtype=fg.float64)
    x = fg.tensor(RNG.standard_normal((5, 2, 4)))
    output, last = layer(x)
    for direction, suffix in enumerate(("_l0", "_l0_reverse")):
        state, outputs = None, []
        for step in range(5)[:: -1 if direction else 1]:
            state = cell_of(layer, suffix)(x[step], state)
            outputs.append(state[0] if kind == "LSTM" else state)
        expected = fg.stack(outputs[:: -1 if direction else 1])
        ours = output[..., 3 * direction : 3 * direction + 3]
        np.testing.assert_allclose(ours.detach().numpy(), expected.detach().numpy(), rtol=1e-12)
        for a, b in zip(flat(last), flat(state), strict=True):
            np.testing.assert_allclose(a[direction].detach().numpy(), b.detach().numpy(), rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batch_first", [False, True])
def test_layouts_hold_the_same(kind, batch_first):
    layer = getattr(nn, kind)(4, 3, batch_first=batch_first, dtype=fg.float64)
    x = fg.tensor(RNG.standard_normal((5, 4)))
    output, last = layer(x)
    batched, last_batched = layer(x.unsqueeze(0 if batch_first else 1))
    assert batched.shape == ((1, 5, 3) if batch_first else (5, 1, 3))
    assert (output == batched.reshape(5, 3)).all()
    for a, b in zip(flat(last), flat(last_batched), strict=True):
        assert (a == b.squeeze(1)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_parameters_start_uniformly(kind):
    layer = getattr(nn, kind)(64, 100)
    for parameter in layer.parameters():
        assert 0.09 < float(parameter.abs().max()) <= 0.1
        assert abs(float(parameter.mean())) < 0.02
    before = layer.weight_ih_l0.clone()
    layer.reset_parameters()
    assert (layer.weight_ih_l0 != before).any()
    assert [len(group) for group in layer.all_weights] == [4]
    layer.flatten_parameters()


@pytest.mark.parametrize("kind", KINDS)
def test_dropout_lies_between_layers_in_training(kind):
    layer = getattr(nn, kind)(4, 3, num_layers=2, dropout=0.5)
    x = fg.randn(5, 2, 4)
    assert (layer(x)[0] != layer(x)[0]).any()
    layer.eval()
    assert (layer(x)[0] == layer(x)[0]).all()
    # All is dropped: the second layer sees zeros, whatever comes in.
    layer = getattr(nn, kind)(4, 3, num_layers=2, dropout=1.0)
    assert (layer(x)[0] == layer(x * 2)[0]).all()


@pytest.mark.parametrize("kind", KINDS)
def test_second_derivatives(kind):
    layer = getattr(nn, kind)(2, 2, dtype=fg.float64)
    x = fg.tensor(RNG.standard_normal((3, 1, 2)), requires_grad=True)
    h = fg.tensor(RNG.standard_normal((1, 1, 2)), requires_grad=True)

    def f(x, h):
        output, last = layer(x, (h, h * 2) if kind == "LSTM" else h)
        return output, *flat(last)

    assert fg.autograd.gradgradcheck(f, (x, h))


def test_parameters_of_other_dtypes_and_copies():
    layer = nn.LSTM(4, 3).double()
    assert layer(fg.zeros(5, 2, 4, dtype=fg.float64))[0].dtype is fg.float64
    other = nn.LSTM(4, 3, dtype=fg.float64)
    other.load_state_dict(layer.state_dict())
    x = fg.tensor(RNG.standard_normal((5, 2, 4)))
    assert (layer(x)[0] == other(x)[0]).all()


def test_results_do_not_depend_on_what_ran_before():
    for kind, direction in itertools.product(KINDS, (False, True)):
        layer = getattr(nn, kind)(4, 3, bidirectional=direction)
        x = fg.randn(5, 2, 4)
        first = layer(x)[0]
        layer(fg.randn(7, 3, 4))
        assert (layer(x)[0] == first).all()


# --- sequences of different lengths --------------------------------------------------------------------------------


@pytest.mark.parity
@pytest.mark.parametrize("given", [False, True], ids=["zeros", "states"])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("lengths", [[5, 3, 1], [2, 5, 3], [4, 4, 4]], ids=str)
@pytest.mark.parametrize(
    ("kind", "special"), [("RNN", {}), ("GRU", {}), ("LSTM", {}), ("LSTM", {"proj_size": 2})]
)
def test_packed_sequences_as_torch(torch, kind, special, lengths, bidirectional, given):
    modules = same_module(torch, kind, 4, 3, num_layers=2, bidirectional=bidirectional, **special)
    x = RNG.standard_normal((3, 6, 4))
    widths = (special.get("proj_size", 3), 3)[: STATES[kind]]
    first = [RNG.standard_normal((2 * (1 + bidirectional), 3, w)) for w in widths]
    results = []
    for lib, module in zip((torch, fg), modules, strict=True):
        rnn = lib.nn.utils.rnn
        leaf = lib.tensor(x, requires_grad=True)
        states = [lib.tensor(s, requires_grad=True) for s in first]
        packed = rnn.pack_padded_sequence(leaf, lengths, batch_first=True, enforce_sorted=lengths[0] == 5)
        hx = () if not given else (tuple(states),) if kind == "LSTM" else (states[0],)
        output, last = module(packed, *hx)
        padded, got = rnn.pad_packed_sequence(output, batch_first=True, padding_value=0.5, total_length=7)
        assert got.tolist() == lengths
        values = [output.data, padded, *flat(last)]
        sum((v * v).sum() for v in values).backward()
        leaves = [leaf, *(states if given else []), *module.parameters()]
        results.append([v.detach().numpy() for v in values] + [p.grad.numpy() for p in leaves])
    assert_same(*results)


@pytest.mark.parametrize("kind", KINDS)
def test_packed_sequences_are_those_sequences(kind):
    layer = getattr(nn, kind)(4, 3, bidirectional=True, dtype=fg.float64)
    rnn = nn.utils.rnn
    parts = [fg.tensor(RNG.standard_normal((n, 4))) for n in (2, 5, 3)]
    output, last = layer(rnn.pack_sequence(parts, enforce_sorted=False))
    for k, (x, ours) in enumerate(zip(parts, rnn.unpack_sequence(output), strict=True)):
        alone, end = layer(x)
        np.testing.assert_allclose(ours.detach().numpy(), alone.detach().numpy(), rtol=1e-12)
        for a, b in zip(flat(last), flat(end), strict=True):
            np.testing.assert_allclose(a[:, k].detach().numpy(), b.detach().numpy(), rtol=1e-12)


def test_packing_and_padding(lib):
    rnn = lib.nn.utils.rnn
    x = lib.arange(24).reshape(4, 3, 2)
    packed = rnn.pack_padded_sequence(x, [2, 4, 3], enforce_sorted=False)
    assert packed.batch_sizes.tolist() == [3, 3, 2, 1]
    assert packed.sorted_indices.tolist() == [1, 2, 0]
    assert packed.unsorted_indices.tolist() == [2, 0, 1]
    assert packed.data[:, 0].tolist() == [2, 4, 0, 8, 10, 6, 14, 16, 20]
    assert packed.to(lib.float64).data.dtype is lib.float64
    padded, lengths = rnn.pad_packed_sequence(packed, padding_value=-1)
    assert lengths.tolist() == [2, 4, 3]
    assert padded[:, 0, 0].tolist() == [0, 6, -1, -1]
    parts = [lib.ones(2), lib.ones(3) * 2]
    assert rnn.pad_sequence(parts, batch_first=True, padding_value=7).tolist() == [[1, 1, 7], [2, 2, 2]]
    assert rnn.pad_sequence(parts, padding_side="left").tolist() == [[0, 2], [1, 2], [1, 2]]
    assert [p.tolist() for p in rnn.unpad_sequence(lib.ones(3, 2), lib.tensor([3, 1]))] == [[1, 1, 1], [1]]


BAD_PACKS: dict[str, tuple[type[Exception], str, Any]] = {
    "order": (RuntimeError, "sorted in decreasing order", lambda r, x: r.pack_padded_sequence(x, [2, 3, 4])),
    "count": (RuntimeError, "equal to batch_size", lambda r, x: r.pack_padded_sequence(x, [4, 3])),
    "zero": (RuntimeError, "greater than 0", lambda r, x: r.pack_padded_sequence(x, [4, 3, 0])),
    "dims": (IndexError, "[dD]im", lambda r, x: r.pack_padded_sequence(x[0, 0], [1])),
    "type": (TypeError, "must be Tensor", lambda r, x: r.pack_padded_sequence([1], [1])),
    "total": (
        ValueError,
        "at least the length of the longest",
        lambda r, x: r.pad_packed_sequence(r.pack_padded_sequence(x, [4, 3, 1]), total_length=3),
    ),
    "nothing": (RuntimeError, "empty list", lambda r, x: r.pad_sequence([])),
    "number": (RuntimeError, "Expected iterable", lambda r, x: r.pad_sequence(3)),
    "side": (RuntimeError, "padding_side", lambda r, x: r.pad_sequence([x], padding_side="top")),
}


@pytest.mark.parametrize("case", BAD_PACKS)
def test_bad_packs(case, lib):
    kind, text, call = BAD_PACKS[case]
    with pytest.raises(kind, match=text) as caught:
        call(lib.nn.utils.rnn, lib.zeros(4, 3, 2))
    assert type(caught.value) is kind


def test_a_pack_of_no_tensor():
    with pytest.raises(TypeError, match=r"to\(\): argument 'data' \(position 1\) must be Tensor, not tuple"):
        nn.utils.rnn.PackedSequence((2, 3), fg.ones(2)).to(fg.float64)


def test_lengths_beyond_the_input_are_refused():
    """In torch they read what lies behind."""
    with pytest.raises(RuntimeError, match="length of 5 is more than the 4 steps"):
        nn.utils.rnn.pack_padded_sequence(fg.zeros(4, 3, 2), [5, 3, 1])


@pytest.mark.parametrize("sizes", [[2, 3], [3, 3], [0, 2], [2, -1]], ids=str)
def test_batch_sizes_that_do_not_fit_are_refused(lib, sizes):
    packed = lib.nn.utils.rnn.PackedSequence(lib.zeros(4, 4), lib.tensor(sizes))
    with pytest.raises(RuntimeError):
        lib.nn.GRU(4, 3)(packed)


def test_rows_behind_the_last_step_stay_aside(lib):
    data = lib.ones(6, 4, requires_grad=True)
    output, last = lib.nn.GRU(4, 3)(lib.nn.utils.rnn.PackedSequence(data, lib.tensor([2, 1])))
    assert tuple(output.data.shape) == (3, 3)
    last.sum().backward()
    assert (data.grad != 0).any(1).tolist() == [True, True, True, False, False, False]


@pytest.mark.parametrize("name", ["double", "float", "half", "long", "int", "short", "char", "byte", "cpu"])
def test_packed_sequences_are_converted_by_name(name: str):
    packed = nn.utils.rnn.pack_sequence([fg.ones(2, 3), fg.ones(1, 3)])
    found = getattr(packed, name)()
    assert isinstance(found, nn.utils.rnn.PackedSequence)
    assert found.data.dtype == getattr(packed.data, name)().dtype
    assert found.batch_sizes.tolist() == [2, 1]
