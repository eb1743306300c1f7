"""Files of PyTorch: what `torch.save` wrote is read, and `torch.load` reads what is written in its format."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections import Counter, OrderedDict, defaultdict
from fractions import Fraction
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import fastgrad as fg

FORMS = pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
DTYPES = [
    "float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64",
    "complex128", "uint16", "uint32", "uint64",
]  # fmt: skip


@pytest.fixture
def torch() -> ModuleType:
    return pytest.importorskip("torch")


def theirs(obj: Any, zipped: bool = True, **options: Any) -> Any:
    """An object that `torch.save` wrote, read by fastgrad."""
    torch = pytest.importorskip("torch")
    file = io.BytesIO()
    torch.save(obj, file, _use_new_zipfile_serialization=zipped)
    file.seek(0)
    return fg.load(file, **options)


def ours(obj: Any) -> io.BytesIO:
    file = io.BytesIO()
    fg.save(obj, file, format="torch")
    file.seek(0)
    return file


def read_by_torch(obj: Any) -> Any:
    """An object that fastgrad wrote, read by `torch.load`."""
    torch = pytest.importorskip("torch")
    return torch.load(ours(obj), weights_only=True)


def again(obj: Any) -> Any:
    """An object that fastgrad wrote in PyTorch's format and read."""
    return fg.load(ours(obj))


def plain(obj: Any) -> Any:
    """What both libraries' objects have in common, to be compared."""
    kind = type(obj).__name__
    if kind in ("Tensor", "Parameter"):
        wide = {"bfloat16": "float32", "float16": "float32", "uint16": "int64", "uint32": "int64"}
        dtype = str(obj.dtype).partition(".")[2]
        values = obj.detach()
        if dtype in wide:
            values = values.to(getattr(fg if isinstance(obj, fg.Tensor) else values_library(), wide[dtype]))
        facts = (kind, dtype, tuple(obj.shape), obj.stride(), obj.storage_offset(), obj.requires_grad)
        return *facts, str(obj.device), values.tolist(), plain(dict(getattr(obj, "__dict__", {})))
    if isinstance(obj, dict):
        return kind, [(plain(k), plain(v)) for k, v in obj.items()], plain(getattr(obj, "_metadata", None))
    if isinstance(obj, (list, tuple)):
        return kind, [plain(v) for v in obj]
    if kind in ("dtype", "layout", "device"):
        return kind, str(obj).rpartition(".")[2]
    return kind, obj


def values_library() -> ModuleType:
    import torch

    return torch


# --- reading -------------------------------------------------------------------------------------------------------


def content(lib: Any) -> dict[str, Any]:
    """An object of everything that the format can hold, made of a library."""
    base = lib.arange(24.0).view(4, 6)
    parameter = lib.nn.Parameter(lib.ones(2))
    marked = lib.nn.Parameter(lib.ones(2), requires_grad=False)
    marked.tag = "here"
    tagged = lib.zeros(2)
    tagged.note = [1, "a"]
    return {
        **{name: lib.ones(3).to(getattr(lib, name)) for name in DTYPES},
        "base": base,
        "views": [base.t(), base[1:, ::2], base[2], base[1, 1], base[:0], base[:, :1].expand(4, 3)],
        "scalar": lib.tensor(2.5),
        "empty": lib.zeros(0, 3),
        "grad": lib.ones(2, requires_grad=True),
        "parameters": (parameter, marked),
        "tagged": tagged,
        "numbers": [1, -1, 2**40, 2**70, 1.5, True, None, 1 + 2j],
        "texts": ["", "a", "ä\n", b"", b"\x00\xff", bytearray(b"ab")],
        "nested": {"a": {1: (1, (2,)), (1, "b"): []}},
        "ordered": OrderedDict([("b", 1), ("a", 2)]),
        "counter": Counter("aab"),
        "set": {1, 2},
        "size": lib.Size([1, 2]),
        "places": [lib.device("cpu"), lib.device("cuda", 1), lib.float32, lib.int64, lib.strided],
    }


@pytest.mark.parity
@FORMS
def test_everything_that_is_read(torch: ModuleType, zipped: bool):
    found, expected = theirs(content(torch), zipped), content(torch)
    for key, value in expected.items():
        assert plain(found[key]) == plain(value), key
    assert found["base"].data_ptr() == found["views"][0].data_ptr()


@pytest.mark.parity
@FORMS
def test_shared_memory_and_objects(torch: ModuleType, zipped: bool):
    whole = torch.arange(6.0)
    found = theirs([whole, whole[2:], whole, torch.nn.Parameter(whole)], zipped)
    found[0][3] = 9
    assert found[0] is found[2]
    assert found[1].tolist() == [2, 9, 4, 5]
    assert found[3].tolist() == [0, 1, 2, 9, 4, 5]


def trained(lib: ModuleType, kind: str) -> tuple[Any, Any]:
    model = lib.nn.Sequential(
        lib.nn.Linear(2, 3), lib.nn.ReLU(), lib.nn.BatchNorm1d(3), lib.nn.Linear(3, 1)
    ).double()
    with lib.no_grad():
        for k, p in enumerate(model.parameters()):
            p.copy_(lib.arange(float(p.numel()), dtype=lib.float64).view(p.shape) / (k + 3) - 0.3)
    options = {"SGD": {"lr": 0.1, "momentum": 0.9}}.get(kind, {"lr": 0.01})
    optimizer = getattr(lib.optim, kind)(model.parameters(), **options)
    step(lib, model, optimizer)
    return model, optimizer


def step(lib: ModuleType, model: Any, optimizer: Any) -> list[float]:
    optimizer.zero_grad()
    loss = (model(lib.tensor([[1.0, 2.0], [0.5, -1.0], [3.0, 0.1]], dtype=lib.float64)) ** 2).sum()
    loss.backward()
    optimizer.step()
    return [x for p in model.parameters() for x in p.detach().flatten().tolist()]


@pytest.mark.parity
@FORMS
@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW"])
def test_training_goes_on_from_a_checkpoint_of_pytorch(torch: ModuleType, zipped: bool, kind: str):
    model, optimizer = trained(torch, kind)
    found = theirs({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}, zipped)
    other, other_optimizer = trained(fg, kind)
    other.load_state_dict(found["model"])
    other_optimizer.load_state_dict(found["optimizer"])
    assert found["model"]._metadata == model.state_dict()._metadata
    for _ in range(3):
        np.testing.assert_allclose(
            step(fg, other, other_optimizer), step(torch, model, optimizer), rtol=1e-9, atol=1e-9
        )


@pytest.mark.parity
@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW"])
def test_training_goes_on_in_pytorch(torch: ModuleType, kind: str):
    model, optimizer = trained(fg, kind)
    found = read_by_torch({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    other, other_optimizer = trained(torch, kind)
    other.load_state_dict(found["model"])
    other_optimizer.load_state_dict(found["optimizer"])
    np.testing.assert_allclose(
        step(torch, other, other_optimizer), step(fg, model, optimizer), rtol=1e-9, atol=1e-9
    )


@pytest.mark.parity
def test_what_has_no_counterpart_is_named(torch: ModuleType):
    refused = {
        "torch.nn.modules.linear.Linear": torch.nn.Linear(2, 2),
        "torch._utils._rebuild_sparse_tensor": torch.eye(2).to_sparse(),
        "torch.float8_e5m2": torch.zeros(2).to(torch.float8_e5m2),
    }
    for name, obj in refused.items():
        for weights_only in (True, False):
            with pytest.raises(pickle.UnpicklingError, match=f"GLOBAL {name} has no counterpart"):
                theirs(obj, weights_only=weights_only)


@pytest.mark.parity
@FORMS
def test_classes_that_programs_allow(torch: ModuleType, zipped: bool):
    obj = {"a": Fraction(1, 3), "t": torch.ones(2)}
    with pytest.raises(pickle.UnpicklingError, match=r"GLOBAL fractions\.Fraction was not an allowed global"):
        theirs(obj, zipped)
    with fg.serialization.safe_globals([Fraction]):
        assert theirs(obj, zipped)["a"] == Fraction(1, 3)
    found = theirs(obj, zipped, weights_only=False)
    assert (found["a"], found["t"].tolist()) == (Fraction(1, 3), [1, 1])


@pytest.mark.parity
@FORMS
def test_where_tensors_go(torch: ModuleType, zipped: bool):
    asked = []

    def remember(storage: Any, location: str) -> Any:
        asked.append((location, storage.size()))
        return storage

    found = theirs([torch.ones(3), torch.zeros(2)], zipped, map_location=remember)
    assert sorted(asked) == [("cpu", 2), ("cpu", 3)]
    assert [t.tolist() for t in found] == [[1, 1, 1], [0, 0]]
    assert theirs(torch.ones(3), zipped, map_location={"cpu": "cpu"}).tolist() == [1, 1, 1]


@pytest.mark.parity
def test_files_that_are_mapped(torch: ModuleType, tmp_path: Path):
    path = tmp_path / "a.pt"
    state = {name: torch.arange(5).to(getattr(torch, name)) for name in DTYPES} | {"empty": torch.zeros(0)}
    torch.save(state, path)
    found, expected = fg.load(path, mmap=True), torch.load(path, mmap=True)
    assert {k: plain(v) for k, v in found.items()} == {k: plain(v) for k, v in expected.items()}
    found["float32"][0] = 7
    assert fg.load(path)["float32"][0] == 0
    torch.save(state, path, _use_new_zipfile_serialization=False)
    for lib in (fg, torch):
        with pytest.raises(RuntimeError, match="mmap"):
            lib.load(path, mmap=True)


# --- writing -------------------------------------------------------------------------------------------------------


@pytest.mark.parity
def test_everything_that_is_written_for_torch(torch: ModuleType):
    found, expected = read_by_torch(content(fg)), content(fg)
    for key, value in expected.items():
        assert plain(found[key]) == plain(value), key
    assert found["base"].data_ptr() == found["views"][0].data_ptr()


@pytest.mark.parity
def test_buffers_and_modules(torch: ModuleType, tmp_path: Path):
    found = read_by_torch(fg.nn.Buffer(fg.ones(2), persistent=False))
    assert isinstance(found, torch.nn.Buffer)
    assert found.persistent is False
    back = theirs(torch.nn.Buffer(torch.ones(2)))
    assert isinstance(back, fg.nn.Buffer)
    path = tmp_path / "a.pt"
    fg.save(fg.nn.Linear(2, 2).state_dict(), path, format="torch")
    torch.nn.Linear(2, 2).load_state_dict(torch.load(path, mmap=True))


def test_what_is_written_is_read_here():
    found, expected = again(content(fg)), content(fg)
    for key, value in expected.items():
        assert plain(found[key]) == plain(value), key


def test_the_same_object_gives_the_same_bytes():
    assert ours(content(fg)).getvalue() == ours(content(fg)).getvalue()


class Sub(fg.Tensor):
    pass


@pytest.mark.parametrize(
    "obj",
    [
        Fraction(1, 3), frozenset([1]), slice(1, 2), range(3), defaultdict(list), len, int, SimpleNamespace(a=1),
        Sub(2), fg.nn.Linear(2, 2), np.float64(1), Sub,
    ],
    ids=lambda obj: type(obj).__name__,
)  # fmt: skip
def test_what_pytorch_would_not_read_is_not_written(obj: Any, tmp_path: Path):
    path = tmp_path / "a.pt"
    with pytest.raises((pickle.PicklingError, TypeError), match=r"save\(\): format='torch' holds"):
        fg.save({"a": [obj]}, path, format="torch")
    assert not list(tmp_path.iterdir())


def test_parts_are_aligned(tmp_path: Path):
    for kind in ("fastgrad", "torch"):
        path = tmp_path / kind
        fg.save([fg.ones(3), fg.arange(5)], path, format=kind)
        data = path.read_bytes()
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                at = info.header_offset
                lengths = (
                    int.from_bytes(data[at + 26 : at + 28], "little"),
                    int.from_bytes(data[at + 28 : at + 30], "little"),
                )
                assert (at + 30 + sum(lengths)) % 64 == 0
        found = fg.load(path, mmap=True)
        assert [t.tolist() for t in found] == [[1, 1, 1], [0, 1, 2, 3, 4]]
        found[0][0] = 5  # a change of this process's memory alone
        assert fg.load(path)[0].tolist() == [1, 1, 1]


def test_mapped_memory_outlives_the_file(tmp_path: Path):
    path = tmp_path / "a.pt"
    fg.save(fg.arange(1000.0), path)
    found = fg.load(path, mmap=True)
    path.unlink()
    assert found.sum().item() == 499500


# --- safetensors -----------------------------------------------------------------------------------------------------


def shards(folder: Path) -> tuple[Path, dict[str, Any]]:
    pytest.importorskip("safetensors")
    fg.save({"a": fg.arange(3.0), "b": fg.ones(2).bfloat16()}, folder / "model-1.safetensors")
    fg.save({"c": fg.ones(2).half()}, folder / "model-2.safetensors")
    index = {
        "metadata": {"total_size": 20},
        "weight_map": {
            "a": "model-1.safetensors",
            "c": "model-2.safetensors",
            "b": "model-1.safetensors",
        },
    }
    path = folder / "model.safetensors.index.json"
    path.write_text(json.dumps(index))
    return path, index


@pytest.mark.parametrize("mmap", [False, True])
def test_shards_by_their_index(tmp_path: Path, mmap: bool):
    path, _ = shards(tmp_path)
    found = fg.load(path, mmap=mmap)
    assert {k: (v.dtype.name, v.tolist()) for k, v in found.items()} == {
        "a": ("float32", [0, 1, 2]),
        "c": ("float16", [1, 1]),
        "b": ("bfloat16", [1, 1]),
    }


@pytest.mark.parametrize(
    "name", ["../x.safetensors", "/x.safetensors", "d/x.safetensors", "x.pt", "a\\x.safetensors", ""]
)
def test_an_index_leads_nowhere_else(tmp_path: Path, name: str):
    path, index = shards(tmp_path)
    index["weight_map"]["a"] = name
    path.write_text(json.dumps(index))
    with pytest.raises(RuntimeError, match=r"puts tensor 'a' into .* beside it"):
        fg.load(path)


def test_an_index_that_lies(tmp_path: Path):
    path, index = shards(tmp_path)
    index["weight_map"]["d"] = "model-1.safetensors"
    path.write_text(json.dumps(index))
    with pytest.raises(
        RuntimeError, match=r"puts tensor 'd' into 'model-1.safetensors', which does not have it"
    ):
        fg.load(path)
    index["weight_map"]["d"] = "model-3.safetensors"
    path.write_text(json.dumps(index))
    with pytest.raises(FileNotFoundError, match="model-3"):
        fg.load(path)
    for text in ("", "[]", "{}", '{"weight_map": [1]}', '{"weight_map": {"a": 1}}', "[" * 100000):
        path.write_text(text)
        with pytest.raises(RuntimeError, match="no index of safetensors files"):
            fg.load(path)


@pytest.mark.parity
@pytest.mark.parametrize("mmap", [False, True])
def test_halves_of_pytorch_users(torch: ModuleType, tmp_path: Path, mmap: bool):
    files = pytest.importorskip("safetensors.torch")
    path = tmp_path / "a.safetensors"
    state = {name: torch.arange(5).to(getattr(torch, name)) for name in DTYPES if name != "complex128"}
    files.save_file(state | {"odd": torch.ones(3, dtype=torch.bool)}, path)
    found = fg.load(path, mmap=mmap)
    assert {k: plain(found[k]) for k in state} == {k: plain(v) for k, v in state.items()}
    fg.save(found, path)
    back = files.load_file(path)
    assert {k: plain(back[k]) for k in state} == {k: plain(v) for k, v in state.items()}


@pytest.mark.parametrize("said", [None, True, False])
@pytest.mark.parametrize("without_code", ["", "0", "1", "Yes"])
@pytest.mark.parametrize("with_code", ["", "no", "TRUE", "y"])
@pytest.mark.filterwarnings("ignore:.*TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD:UserWarning")
def test_the_variables_that_decide_on_weights_only(torch, monkeypatch, said, without_code, with_code):
    monkeypatch.setenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD", without_code)
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", with_code)
    file = io.BytesIO()
    torch.save(Fraction(1, 3), file)

    def outcome(load: Any) -> Any:
        file.seek(0)
        try:
            return load(file, weights_only=said)
        except (RuntimeError, pickle.UnpicklingError) as error:
            return type(error)

    assert outcome(fg.load) == outcome(torch.load)


def test_code_that_a_variable_allows_is_warned_of_where_load_is_called(monkeypatch):
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    file = io.BytesIO()
    fg.save(Fraction(1, 3), file)
    file.seek(0)
    with pytest.warns(UserWarning, match="weights_only=False.*TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD") as caught:
        assert fg.load(file) == Fraction(1, 3)
    assert [warning.filename for warning in caught] == [__file__]
