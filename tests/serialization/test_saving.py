"""What comes back from a file: values, layouts, shared memory, classes; where it goes; the safetensors format."""

from __future__ import annotations

import copy
import io
import json
import pickle
from collections import Counter, OrderedDict, defaultdict
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import fastgrad
import fastgrad as fg
from fastgrad.nn.parameter import Parameter


@pytest.fixture(params=["fastgrad", pytest.param("torch", marks=pytest.mark.parity)])
def lib(request: pytest.FixtureRequest) -> ModuleType:
    return pytest.importorskip(request.param)


def saved(obj: Any, lib: ModuleType = fastgrad, **options: Any) -> io.BytesIO:
    file = io.BytesIO()
    lib.save(obj, file, **options)
    file.seek(0)
    return file


def there_and_back(obj: Any, lib: ModuleType = fastgrad, **options: Any) -> Any:
    return lib.load(saved(obj, lib), **options)


def through_pickle(obj: Any, lib: ModuleType = fastgrad) -> Any:
    return pickle.loads(pickle.dumps(obj))


WAYS = pytest.mark.parametrize("way", [there_and_back, through_pickle])
DTYPES = ["float32", "float64", "int64", "int32", "uint8", "bool"]


# --- tensors ---------------------------------------------------------------------------------------------------


@WAYS
@pytest.mark.parametrize("dtype", DTYPES)
def test_values_dtypes_and_strides(lib: ModuleType, way: Any, dtype: str):
    base = lib.tensor(np.arange(24).reshape(4, 6) % 2 if dtype == "bool" else np.arange(24).reshape(4, 6))
    base = base.to(getattr(lib, dtype))
    for x in (
        base,
        base.t(),
        base[1:, ::2],
        base[2],
        base[1, 1],
        base[:0],
        base[:1].expand(3, 6),
        base[1:, 2:2],
    ):
        y = way(x, lib)
        assert (y.dtype, y.shape, y.stride(), y.storage_offset()) == (
            x.dtype, x.shape, x.stride(), x.storage_offset(),
        )  # fmt: skip
        assert y.tolist() == x.tolist()
        assert y.is_contiguous() == x.is_contiguous()


def test_shared_memory_is_shared_again(lib: ModuleType):
    base = lib.arange(6.0)
    a, b, c, d = there_and_back([base, base[2:], base.view(2, 3).t(), lib.arange(6.0)], lib)
    a[3] = 9
    assert b.tolist() == [2, 9, 4, 5]
    assert c.tolist() == [[0, 9], [1, 4], [2, 5]]
    assert d.tolist() == [0, 1, 2, 3, 4, 5]
    assert a.is_leaf
    assert b._base is None
    assert there_and_back(base[2:4], lib).tolist() == [2, 3]  # without its base


def test_pickle_shares_memory_too():
    base = fg.arange(6.0)
    a, b = through_pickle([base, base[2:]])
    a[3] = 9
    assert b.tolist() == [2, 9, 4, 5]


def test_copy_shares_memory(lib: ModuleType):
    x = lib.ones(3, requires_grad=True)
    y = copy.copy(x)
    assert y is not x
    assert y.requires_grad
    with lib.no_grad():
        y[0] = 5
    assert x.tolist() == [5, 1, 1]


def test_the_same_object_stays_one(lib: ModuleType):
    x = lib.ones(2)
    pair = there_and_back({"a": x, "b": [x]}, lib)
    assert pair["a"] is pair["b"][0]


@WAYS
def test_history_and_grad_are_left_behind(lib: ModuleType, way: Any):
    x = lib.ones(3, requires_grad=True)
    y = x * 2
    y.sum().backward()
    copy_of_leaf, copy_of_result = way(x, lib), way(x * 2, lib)
    assert copy_of_leaf.requires_grad
    assert copy_of_leaf.grad is None
    assert copy_of_result.is_leaf
    assert copy_of_result.requires_grad
    (copy_of_result * copy_of_result).sum().backward()
    assert copy_of_result.grad.tolist() == [4, 4, 4]
    assert not way(lib.ones(2), lib).requires_grad


@WAYS
def test_parameters_and_attributes(lib: ModuleType, way: Any):
    p = lib.nn.parameter.Parameter(lib.ones(2), requires_grad=False)
    p.tag = "frozen"
    q = way(p, lib)
    assert type(q) is type(p)
    assert not q.requires_grad
    assert q.tag == "frozen"
    x = lib.ones(2)
    x.tag = [1]
    assert way(x, lib).tag == [1]


@WAYS
def test_a_tensor_that_holds_itself(way: Any):
    x = fg.ones(2)
    x.me = [x]
    y = way(x, fg)
    assert y is not x
    assert y.me[0] is y


@WAYS
def test_hooks_are_not_saved(lib: ModuleType, way: Any):
    x = lib.ones(2, requires_grad=True)
    x.register_hook(lambda g: g)
    x.register_post_accumulate_grad_hook(lambda t: None)
    with pytest.warns(UserWarning, match=r"backward hook .* on tensor will not be serialized"):
        y = way(x, lib)
    assert not y._backward_hooks
    assert not y._post_accumulate_grad_hooks
    p = lib.nn.parameter.Parameter(lib.ones(2))
    p.register_hook(lambda g: g)
    assert not way(p, lib)._backward_hooks  # and no warning, which would be an error


class Marked(fg.Tensor):
    """A class of a user."""


def test_subclasses_are_loaded_when_they_are_allowed():
    x = Marked([1.0, 2.0])
    with pytest.raises(pickle.UnpicklingError, match=r"Marked was not an allowed global"):
        there_and_back(x)
    with fg.serialization.safe_globals([Marked]):
        assert type(there_and_back(x)) is Marked
    assert type(there_and_back(x, weights_only=False)) is Marked


# --- other objects ---------------------------------------------------------------------------------------------

state = OrderedDict(weight=fg.ones(2))
state._metadata = {"": {"version": 1}}
OBJECTS = [
    None, True, 5, -(2**70), 2.5, "text", "ä" * 300, b"bytes" * 100, bytearray(b"ab"), 1 + 2j, (), (1,), (1, 2, 3, 4),
    [1, [2, [3]]], {1: "a", (2, "b"): None}, {1, 2}, set(), frozenset([1, frozenset([2])]), OrderedDict(a=1, b=2),
    Counter("aab"), defaultdict(list, {1: [2]}), defaultdict(None, {1: 2}), slice(1, None, 2), range(3), fg.float32,
    fg.bool, fg.device("cpu"), fg.Size([1, 2]), list(range(2000)), {str(i): i for i in range(2000)}, {fg.int64: 1},
]  # fmt: skip


@pytest.mark.parametrize("protocol", [4, 5])
@pytest.mark.parametrize("obj", OBJECTS, ids=lambda o: repr(o)[:20])
def test_objects(obj: Any, protocol: int):
    back = fg.load(saved(obj, pickle_protocol=protocol))
    assert back == obj
    assert type(back) is type(obj)
    if isinstance(obj, defaultdict):
        assert back.default_factory is obj.default_factory


def test_the_attributes_of_a_state_dict():
    back = there_and_back(state)
    assert back._metadata == {"": {"version": 1}}
    assert back["weight"].tolist() == [1, 1]


def test_lists_that_hold_themselves():
    x: list[Any] = [1]
    x.append(x)
    back = there_and_back(x)
    assert back[1] is back


def test_the_same_object_gives_the_same_bytes():
    assert (
        saved({"a": fg.ones(3), "b": [1, 2]}).getvalue() == saved({"a": fg.ones(3), "b": [1, 2]}).getvalue()
    )


def test_paths_and_file_objects(lib: ModuleType, tmp_path: Path):
    for path in (tmp_path / "a.pt", str(tmp_path / "b.pt")):
        lib.save({"x": lib.ones(2)}, path)
        assert lib.load(path)["x"].tolist() == [1, 1]
        with open(path, "rb") as file:
            assert lib.load(file)["x"].tolist() == [1, 1]
    with open(tmp_path / "c.pt", "wb") as file:
        lib.save(5, file)
    assert lib.load(tmp_path / "c.pt") == 5


def test_a_file_behind_other_bytes():
    file = io.BytesIO()
    file.write(b"before")
    fg.save(fg.ones(2), file)
    file.seek(6)
    assert fg.load(file).tolist() == [1, 1]


# --- modules and optimizers ------------------------------------------------------------------------------------


class Net(fg.nn.Module):
    """A module with a parameter under two names, a buffer and a submodule."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = Parameter(fg.arange(3.0))
        self.tied = self.weight
        self.register_buffer("count", fg.tensor(2))
        self.inner = fg.nn.Sequential(fg.nn.Module())
        self.inner[0].bias = Parameter(fg.zeros(2))

    def forward(self, x: Any) -> Any:
        return x * self.weight


def test_a_whole_module_needs_trust():
    model = Net().eval()
    with pytest.raises(pickle.UnpicklingError, match=r"Net was not an allowed global"):
        there_and_back(model)
    back = there_and_back(model, weights_only=False)
    assert type(back) is Net
    assert not back.training
    assert back.tied is back.weight
    assert back(fg.ones(3)).tolist() == [0, 1, 2]
    assert back.state_dict().keys() == model.state_dict().keys()


def test_a_state_dict_needs_none():
    model, other = Net(), Net()
    with fg.no_grad():
        model.weight.add_(5)
    state = there_and_back(model.state_dict())
    assert type(state) is OrderedDict
    assert state._metadata == model.state_dict()._metadata
    state["weight"][0] = 9
    assert state["tied"].tolist() == [9, 6, 7]  # one memory
    other.load_state_dict(state)
    assert other.weight.tolist() == [9, 6, 7]


def test_a_state_dict_as_safetensors(tmp_path: Path):
    model = Net()
    del model.tied
    fg.save(model.state_dict(), tmp_path / "a.safetensors")
    other = Net()
    del other.tied
    with fg.no_grad():
        other.weight.zero_()
    other.load_state_dict(fg.load(tmp_path / "a.safetensors"))
    assert other.weight.tolist() == [0, 1, 2]


@pytest.mark.parametrize("kind", ["SGD", "Adam", "Adagrad"])
def test_a_training_goes_on_from_a_checkpoint(kind: str):
    options = {"momentum": 0.9} if kind == "SGD" else {}

    def start() -> tuple[Net, Any]:
        model = Net()
        return model, getattr(fg.optim, kind)([model.weight], lr=0.1, **options)

    def step(model: Net, optimizer: Any) -> None:
        optimizer.zero_grad()
        (model(fg.rand(3)) ** 2).sum().backward()
        optimizer.step()

    model, optimizer = start()
    step(model, optimizer)
    states = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "rng": fg.get_rng_state()}
    file = saved(states | {"epoch": 1})
    step(model, optimizer)
    expected = model.weight.tolist()

    other, optimizer = start()
    checkpoint = fg.load(file)
    other.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    fg.set_rng_state(checkpoint["rng"])
    step(other, optimizer)
    assert other.weight.tolist() == expected


# --- where tensors go ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "map_location",
    [None, "cpu", {"cpu": "cpu"}, {"cuda:0": "cpu"}, lambda storage, location: storage, lambda *_: None],
    ids=["None", "str", "dict", "other dict", "same", "no answer"],
)
def test_map_location(lib: ModuleType, map_location: Any):
    x = lib.arange(3.0)
    a, b = there_and_back([x, x[1:]], lib, map_location=map_location)
    a[1] = 7
    assert b.tolist() == [7, 2]


def test_the_device_object_as_map_location(lib: ModuleType):
    assert there_and_back(lib.ones(2), lib, map_location=lib.device("cpu")).tolist() == [1, 1]


def test_a_function_learns_where_tensors_were(lib: ModuleType):
    seen = []
    there_and_back(lib.ones(2), lib, map_location=lambda storage, location: seen.append(location))
    assert seen == ["cpu"]


def test_unknown_devices(lib: ModuleType):
    with pytest.raises(RuntimeError, match=r"don't know how to restore data location .*tagged with nowhere"):
        there_and_back(lib.ones(2), lib, map_location="nowhere")
    with pytest.raises(TypeError):
        there_and_back(lib.ones(2), lib, map_location=5)


def test_a_function_must_return_the_storage():
    with pytest.raises(TypeError, match=r"must return the storage.*but returned int"):
        there_and_back(fg.ones(2), map_location=lambda storage, location: 5)


# --- errors ----------------------------------------------------------------------------------------------------


def test_what_cannot_be_read(lib: ModuleType, tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        lib.load(tmp_path / "missing.pt")
    with pytest.raises(IsADirectoryError):
        lib.load(tmp_path)
    with pytest.raises(EOFError):
        lib.load(io.BytesIO())
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        lib.load(io.BytesIO(b"garbage here"))
    with pytest.raises(AttributeError, match=r"has no attribute 'seek'.*seekable"):
        lib.load(5)


def test_what_cannot_be_written(lib: ModuleType, tmp_path: Path):
    with pytest.raises(RuntimeError, match=r"Parent directory .*missing does not exist"):
        lib.save(1, tmp_path / "missing" / "a.pt")
    with pytest.raises(AttributeError, match="expected 'f' to be string, path, or a file-like object"):
        lib.save(1, 5)
    with pytest.raises((AttributeError, pickle.PicklingError)):
        lib.save(lambda: 1, tmp_path / "a.pt")


def test_what_is_not_supported(tmp_path: Path):
    with pytest.raises(ValueError, match="pickle_protocol to be 4 or 5, but got 2"):
        fg.save(1, io.BytesIO(), pickle_protocol=2)
    with pytest.raises(NotImplementedError, match="pickle_module=io"):
        fg.save(1, io.BytesIO(), pickle_module=io)
    with pytest.raises(NotImplementedError, match="pickle_module=io"):
        fg.load(io.BytesIO(), pickle_module=io)
    with pytest.raises(ValueError, match=r"format to be None or one of .*'pickle'"):
        fg.save(1, io.BytesIO(), format="pickle")
    with pytest.raises(ValueError, match="format to be None or one of"):
        fg.save(1, io.BytesIO(), format=[])
    with pytest.raises(ValueError, match="pickle_protocol to be 2, but got 4"):
        fg.save(1, io.BytesIO(), pickle_protocol=4, format="torch")
    with pytest.raises(ValueError, match="format='safetensors' needs a path"):
        fg.save({}, io.BytesIO(), format="safetensors")
    with pytest.raises(ValueError, match="f must be a file path in order to use the mmap argument"):
        fg.load(io.BytesIO(), mmap=True)
    with pytest.raises(IsADirectoryError):
        fg.save(1, tmp_path)


# --- safetensors -----------------------------------------------------------------------------------------------

STATES = {
    "weight": lambda lib: lib.arange(6.0).view(2, 3),
    "transposed": lambda lib: lib.arange(6.0).view(2, 3).t(),
    "scalar": lambda lib: lib.tensor(2.5, dtype=lib.float64),
    "empty": lambda lib: lib.zeros(0, 3),
    "integers": lambda lib: lib.tensor([1, -2]),
    "short": lambda lib: lib.tensor([1, 2], dtype=lib.int32),
    "bytes": lambda lib: lib.tensor([1, 255], dtype=lib.uint8),
    "bools": lambda lib: lib.tensor([True, False]),
}


def state_of(lib: ModuleType) -> dict[str, Any]:
    return {name: make(lib) for name, make in STATES.items()}


def assert_same(a: dict[str, Any], b: dict[str, Any]) -> None:
    assert a.keys() == b.keys()
    for key in a:
        assert str(a[key].dtype).split(".")[1] == str(b[key].dtype).split(".")[1]
        assert tuple(a[key].shape) == tuple(b[key].shape)
        assert a[key].tolist() == b[key].tolist()


def test_safetensors_there_and_back(tmp_path: Path):
    path = tmp_path / "a.safetensors"
    state = state_of(fg) | {"parameter": Parameter(fg.ones(2))}
    fg.save(state, path)
    back = fg.load(path)
    assert_same(back, state)
    back["weight"][0, 0] = 7  # is writable
    assert not back["parameter"].requires_grad
    assert fg.load(str(path), map_location="cpu")["weight"].tolist()[1] == [3, 4, 5]


@pytest.mark.parity
def test_safetensors_of_pytorch_users(tmp_path: Path):
    torch = pytest.importorskip("torch")
    files = pytest.importorskip("safetensors.torch")
    path = tmp_path / "a.safetensors"
    theirs = {key: value.contiguous() for key, value in state_of(torch).items()}
    files.save_file(theirs, path)
    assert_same(fg.load(path), theirs)
    fg.save(state_of(fg), path)
    assert_same(files.load_file(path), theirs)


def test_safetensors_needs_a_flat_dict(tmp_path: Path):
    path = tmp_path / "a.safetensors"
    with pytest.raises(TypeError, match=r"expected a dict of tensors.*got list"):
        fg.save([fg.ones(2)], path)
    with pytest.raises(TypeError, match="key 'a' has dict"):
        fg.save({"a": {"b": fg.ones(2)}}, path)
    with pytest.raises(TypeError, match="key 1 has Tensor"):
        fg.save({1: fg.ones(2)}, path)
    assert not list(tmp_path.iterdir())


def test_safetensors_cannot_share(tmp_path: Path):
    x = fg.ones(4)
    with pytest.raises(RuntimeError, match="'a' and 'b' share memory"):
        fg.save({"a": x[1:], "b": x[:2]}, tmp_path / "a.safetensors")
    fg.save({"a": x[2:], "b": x[:2]}, tmp_path / "a.safetensors")


def test_safetensors_of_other_dtypes(tmp_path: Path):
    pytest.importorskip("safetensors.numpy")
    header = json.dumps({"short": {"dtype": "F8_E4M3", "shape": [2], "data_offsets": [0, 2]}}).encode()
    (tmp_path / "a.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + b"\0\0")
    with pytest.raises(TypeError, match=r"'short' of .* has dtype F8_E4M3"):
        fg.load(tmp_path / "a.safetensors")


def test_damaged_safetensors(tmp_path: Path):
    path = tmp_path / "a.safetensors"
    fg.save(state_of(fg), path)
    whole = path.read_bytes()
    for data in (whole[:-1], whole[:20], b"", whole[:8] + b"\xff" + whole[9:], b"\xff" * 8 + whole[8:]):
        path.write_bytes(data)
        with pytest.raises(RuntimeError, match="corrupted or no safetensors file"):
            fg.load(path)
    with pytest.raises(FileNotFoundError):
        fg.load(tmp_path / "b.safetensors")


def test_a_pickle_by_that_name_is_not_unpickled(tmp_path: Path):
    path = tmp_path / "a.safetensors"
    path.write_bytes(saved([1]).getvalue())
    with pytest.raises(RuntimeError, match="corrupted or no safetensors file"):
        fg.load(path, weights_only=False)


def test_safetensors_under_another_name(tmp_path: Path):
    fg.save(state_of(fg), tmp_path / "a.safetensors")
    (tmp_path / "a.safetensors").rename(tmp_path / "a.bin")
    with pytest.raises(pickle.UnpicklingError, match=r"must have a name that ends in \.safetensors"):
        fg.load(tmp_path / "a.bin")


def test_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(__import__("sys").modules, "safetensors", None)
    with pytest.raises(ImportError, match=r'pip install "fastgrad\[safetensors\]"'):
        fg.save({}, tmp_path / "a.safetensors")
    with pytest.raises(ImportError, match=r'pip install "fastgrad\[safetensors\]"'):
        fg.load(tmp_path / "a.safetensors")
