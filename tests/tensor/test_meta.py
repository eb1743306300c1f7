"""The meta device: sizes, strides, dtypes and histories without elements."""

from __future__ import annotations

import copy
import io
import pickle

import numpy as np
import pytest
from op_cases import OP_CASES
from op_testing import as_list, by_name, exception_of, keywords, samples_of, tensors

import fastgrad as fg
from fastgrad.native.host import devices

OF_THE_HOST = {"from_numpy", "tensor.array"}  # they make arrays of NumPy between two tensors
READING = {
    "argwhere", "bincount", "embedding_bag", "embedding_bag.weighted", "getitem.advanced", "getitem.condition",
    "getitem.many", "getitem.mask", "histc", "histogram", "index_put", "index_put.accumulate", "masked_scatter",
    "nonzero", "nonzero_static", "setitem.many", "setitem.mask", "unique", "unique_consecutive",
}  # fmt: skip
"""Some of their samples ask for values: of masks, how many there are, where bins end."""


def results(case, sample):
    return as_list(case.call(fg, *tensors(fg, sample.args), **keywords(fg, sample)))


def facts(tensor):
    return tensor.shape, tensor.stride(), tensor.dtype, tensor.requires_grad


@pytest.mark.parametrize("case", by_name(c for c in OP_CASES if c.name not in OF_THE_HOST | READING))
def test_results_are_those_of_the_cpu_without_elements(case):
    for sample in samples_of(case, case.dtypes[0]):
        wanted = [facts(t) for t in results(case, sample)]
        with fg.device("meta"):
            found = results(case, sample)
        assert {t.device.type for t in found} == {"meta"}
        assert [facts(t) for t in found] == wanted


@pytest.mark.parametrize("case", by_name(c for c in OP_CASES if c.name in READING))
def test_what_follows_from_values_says_so(case):
    with fg.device("meta"):
        raised = [exception_of(results, case, sample) for sample in samples_of(case, case.dtypes[0])]
    refused = {(kind, says[:31]) for kind, says in raised if kind}
    assert refused == {(NotImplementedError, "Cannot copy out of meta tensor;")}


def test_nothing_is_allocated(lib):
    with lib.device("meta"):
        layer = lib.nn.Linear(1 << 20, 1 << 20)
    assert layer.weight.device == lib.device("meta")
    assert layer.weight.is_meta
    assert (layer.weight.is_cpu, layer.weight.is_cuda, layer.weight.get_device()) == (False, False, -1)
    assert layer(lib.empty(3, 1 << 20, device="meta")).shape == (3, 1 << 20)
    assert layer.weight.data_ptr() == layer.weight.untyped_storage().data_ptr() == 0


def test_bytes_are_not_counted():
    before = fg.debug.memory()["live"]
    fg.debug.set_memory_limit(before + 4096)
    try:
        x = fg.empty(1 << 30, 1 << 20, device="meta")
        y = x + 1
        assert fg.debug.memory()["live"] == before
    finally:
        fg.debug.set_memory_limit(None)
    assert y.nbytes == 1 << 52


@pytest.mark.parametrize(
    "read",
    [
        lambda lib, x: x.cpu(), lambda lib, x: x.to("cpu"), lambda lib, x: x[0, 0].item(), lambda lib, x: bool(x[0, 0]),
        lambda lib, x: float(x.sum()), lambda lib, x: int(x.sum()), lambda lib, x: x.tolist(),
        lambda lib, x: x.numpy(force=True), lambda lib, x: lib.ones(3, 4).copy_(x), lambda lib, x: lib.nonzero(x),
        lambda lib, x: x[x > 0], lambda lib, x: x.unique(), lambda lib, x: lib.equal(x, x),
        lambda lib, x: x + lib.ones(4),
        lambda lib, x: lib.nn.Linear(4, 2, device="meta").to("cpu"), lambda lib, x: lib.Generator("meta"),
        lambda lib, x: lib.allclose(x, x), lambda lib, x: lib.where(x > 0, x, lib.ones(3, 4)), lambda lib, x: x.item(),
        lambda lib, x: lib.cat([x, lib.ones(1, 4)]), lambda lib, x: x.share_memory_(), lambda lib, x: x.pin_memory(),
    ],
)  # fmt: skip
def test_nothing_can_be_read(lib, read):
    with pytest.raises(RuntimeError):  # of which NotImplementedError is one
        read(lib, lib.empty(3, 4, device="meta"))


def test_no_memory_is_given(lib):
    x = lib.empty(3, device="meta")
    with pytest.raises(TypeError, match="can't convert meta device type tensor to numpy"):
        x.numpy()
    with pytest.raises(TypeError):
        np.asarray(x)
    with pytest.raises(BufferError, match="Cannot pack tensors on meta"):
        x.__dlpack__()
    with pytest.raises(ValueError, match="Unknown device type meta for Dlpack"):
        x.__dlpack_device__()


def test_how_they_print(lib):
    x = lib.ones(2, 3, device="meta", requires_grad=True)
    name = lib.__name__
    shown = [
        x,
        x * 2,
        x.detach().long(),
        lib.ones(0, device="meta"),
        lib.ones((), device="meta", dtype=lib.float64),
    ]
    assert [repr(t) for t in shown] == [
        "tensor(..., device='meta', size=(2, 3), requires_grad=True)",
        "tensor(..., device='meta', size=(2, 3), grad_fn=<MulBackward0>)",
        f"tensor(..., device='meta', size=(2, 3), dtype={name}.int64)",
        "tensor(..., device='meta', size=(0,))",
        f"tensor(..., device='meta', size=(), dtype={name}.float64)",
    ]
    assert f"{lib.ones(2, device='meta').sum()}" == "tensor(..., device='meta', size=())"
    assert x.type() == f"{name}.meta.FloatTensor"


def test_numbers_and_copies_go_there(lib):
    x = lib.tensor([1.0, 2.0], device="meta")
    assert (x * 2 + lib.tensor(3.0)).device.type == "meta"
    assert lib.ones(2).to("meta").shape == (2,)
    assert x.copy_(lib.ones(2)) is x
    assert lib.arange(6, device="meta").view(2, 3).t().stride() == (1, 3)
    assert lib.empty_like(x, device="cpu").device.type == "cpu"
    assert copy.deepcopy(x).is_meta
    assert lib.zeros(2, device="meta:0").device.type == "meta"


def test_random_numbers_are_left_alone(lib):
    lib.manual_seed(0)
    wanted = lib.rand(3).tolist()
    lib.manual_seed(0)
    lib.randn(4, device="meta")
    lib.nn.init.xavier_uniform_(lib.empty(3, 4, device="meta"))
    for fill in (lib.nn.init.orthogonal_, lib.nn.init.trunc_normal_, lambda t: lib.nn.init.sparse_(t, 0.5)):
        assert fill(lib.empty(3, 4, device="meta")).is_meta
    assert lib.randn(3, device="meta", generator=lib.Generator()).shape == (3,)
    assert lib.rand(3).tolist() == wanted


def test_a_model_is_made_trained_and_moved(lib):
    nn = lib.nn
    with lib.device("meta"):
        model = nn.Sequential(
            nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(72, 10)
        )
        images, targets = lib.randn(4, 3, 8, 8), lib.randint(0, 10, (4,))
        optimizer = lib.optim.AdamW(model.parameters())
        loss = nn.functional.cross_entropy(model(images), targets)
        loss.backward()
        optimizer.step()
        sequence = nn.LSTM(8, 16, 2)(lib.randn(5, 2, 8))[0]
        attended = nn.TransformerEncoderLayer(16, 4)(sequence)
    assert (loss.shape, sequence.shape, attended.shape) == ((), (5, 2, 16), (5, 2, 16))
    assert all(p.grad.is_meta and p.grad.shape == p.shape for p in model.parameters())
    assert model.to_empty(device="cpu") is model
    model.load_state_dict({k: lib.zeros(v.shape, dtype=v.dtype) for k, v in model.state_dict().items()})
    assert model(lib.ones(1, 3, 8, 8)).tolist() == [[0.0] * 10]


def test_what_is_loaded_into_it_is_lost_unless_assigned(lib):
    layer, state = lib.nn.Linear(2, 1, device="meta"), {"weight": lib.ones(1, 2), "bias": lib.ones(1)}
    with pytest.warns(UserWarning, match=r"for (weight|bias): copying from a non-meta parameter"):
        layer.load_state_dict(state)
    assert layer.weight.is_meta
    layer.load_state_dict(state, assign=True)
    assert layer(lib.ones(1, 2)).tolist() == [[3.0]]


def test_pickles(lib):
    x = lib.nn.Parameter(lib.ones(2, 3, device="meta").t())
    y = pickle.loads(pickle.dumps(x))
    assert (type(y), y.shape, y.stride(), y.requires_grad, y.is_meta) == (type(x), (3, 2), (1, 3), True, True)


@pytest.mark.parametrize("options", [{}, {"format": "torch"}], ids=["own", "torch"])
def test_files(options):
    file = io.BytesIO()
    fg.save(
        {"x": fg.ones(2, 3, device="meta").t(), "p": fg.nn.Parameter(fg.ones(2, device="meta"))},
        file,
        **options,
    )
    file.seek(0)
    found = fg.load(file)
    assert [facts(t) for t in found.values()] == [
        ((3, 2), (1, 3), fg.float32, False),
        ((2,), (1,), fg.float32, True),
    ]
    assert all(t.is_meta for t in found.values())


def test_loaded_to_the_meta_device(lib):
    file = io.BytesIO()
    lib.save({"x": lib.ones(2, 3)}, file)
    file.seek(0)
    assert lib.load(file, map_location="meta")["x"].is_meta


@pytest.mark.parity
def test_files_of_pytorch():
    torch = pytest.importorskip("torch")
    for write, read in ((torch, fg), (fg, torch)):
        file = io.BytesIO()
        options = {"format": "torch"} if write is fg else {}
        write.save({"p": write.nn.Parameter(write.ones(2, 3, device="meta").t())}, file, **options)
        file.seek(0)
        found = read.load(file)["p"]
        assert (found.is_meta, found.stride(), found.requires_grad) == (True, (1, 3), True)


@pytest.mark.parametrize(
    "arguments",
    [
        (fg.Tensor, "float32", (2,), (1,), False), (int, fg.float32, (2,), (1,), False),
        (fg.Tensor, fg.float32, [2], (1,), False), (fg.Tensor, fg.float32, (2,), (1, 1), False),
        (fg.Tensor, fg.float32, (-2,), (1,), False), (fg.Tensor, fg.float32, (1 << 70,), (1,), False),
        (fg.Tensor, fg.float32, (2,), (1,), 1), (fg.Tensor, fg.float32, (1,) * 17, (1,) * 17, False),
    ],
)  # fmt: skip
def test_pickles_that_were_tampered_with(arguments):
    from fastgrad.functions.storage import rebuild_meta

    with pytest.raises((TypeError, ValueError)):
        rebuild_meta(*arguments)


def test_compiled_calls_run_eagerly():
    doubled = fg.compile(lambda a: a * 2)
    assert doubled(fg.ones(3, device="meta")).shape == (3,)
    assert "it launches kernels on the device 'meta'" in str(fg.compile.explain(doubled))


def test_its_column_is_no_gpus():
    assert fg.ones(2, device="meta").device.code == devices.NAMES["meta"] == 7
