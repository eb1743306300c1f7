"""What programs ask PyTorch about at their start, and fastgrad itself has no use for."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import typing
from types import ModuleType
from typing import Any

import pytest
from alias_running import under_alias

import fastgrad as fg
from fastgrad.as_torch import locations, overlay
from fastgrad.as_torch.absent import absent_class, is_absent
from fastgrad.as_torch.overlay import jit
from fastgrad.as_torch.overlay._utils import (
    _flatten_dense_tensors,
    _get_device_index,
    _unflatten_dense_tensors,
)
from fastgrad.as_torch.overlay.nn.modules import utils
from fastgrad.as_torch.overlay.utils import _pytree
from fastgrad.nn.parallel import scatter_gather

MODULES = [
    importlib.import_module(found.name)
    for found in pkgutil.walk_packages(overlay.__path__, f"{overlay.__name__}.")
]


def test_what_programs_ask_at_their_start_is_answered():
    under_alias("""
import torch
from torch import jit, fx, futures, overrides, multiprocessing
for module in (torch.cuda, torch.mps, torch.xpu, torch.mtia, torch.accelerator, torch.cpu):
    assert isinstance(module.is_available(), bool) and isinstance(module.device_count(), int)
for name in ("mkl", "mkldnn", "openmp", "cudnn", "mps", "opt_einsum", "cusparselt"):
    assert getattr(torch.backends, name).is_available() is False
assert torch.backends.cudnn.enabled in (True, False)
torch.backends.cudnn.benchmark = True
assert torch.backends.cudnn.benchmark
torch._C._log_api_usage_once("python.nn_module")
assert not jit.is_scripting() and not torch.compiler.is_compiling()
assert isinstance(torch.ones(1), torch.FloatTensor) and not isinstance(torch.ones(1), torch.LongTensor)
assert isinstance(torch.ones(1).untyped_storage(), torch.UntypedStorage) and torch.is_storage(torch.ones(1).storage())
torch.testing.assert_close(torch.ones(1), torch.ones(1))
torch.testing.assert_allclose([1.0], torch.ones(1))
assert torch.preserve_format is not torch.contiguous_format is torch.legacy_contiguous_format
torch.use_deterministic_algorithms(True, warn_only=True)
assert torch.are_deterministic_algorithms_enabled() and torch.get_deterministic_debug_mode() == 1
torch.set_default_tensor_type(torch.DoubleTensor)
assert torch.ones(1).dtype is torch.float64
torch.set_default_tensor_type("torch.FloatTensor")
assert torch.ones(1).dtype is torch.float32
for wrong in (torch.LongTensor, "torch.NoTensor", None, 3, torch.float32):
    try:
        torch.set_default_tensor_type(wrong)
    except TypeError:
        continue
    raise AssertionError(wrong)
assert torch.get_device_module("cpu") is torch.cpu and "fastgrad" in torch.__config__.show()
model = torch.nn.DataParallel(torch.nn.Linear(2, 1))
assert torch.nn.parallel.data_parallel(model.module, torch.ones(3, 2)).shape == (3, 1)
assert model(torch.ones(3, 2)).shape == (3, 1) and "module.weight" in model.state_dict()
""")


def test_script_says_once_that_it_gives_back_what_it_was_given():
    under_alias("""
import warnings, torch
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    f = lambda x: x
    assert torch.jit.script(f) is f and torch.jit.script(f) is f and torch.jit.trace(f, torch.ones(1)) is f
assert [str(w.message).split()[0] for w in caught] == ["torch.jit.script", "torch.jit.trace"]
@torch.jit.ignore
def g(): return 1
@torch.jit.ignore(drop=True)
def h(): return 2
assert (g(), h()) == (1, 2)
assert torch.jit.wait(torch.jit.fork(lambda x, y: x + y, 1, y=2)) == 3
""")


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__.removeprefix(overlay.__name__))
def test_the_overlay_hides_nothing(module: ModuleType):
    path = module.__name__.removeprefix(f"{overlay.__name__}.")
    assert path in locations.known().modules
    own = locations.places(path)[0]
    imported = set(vars(typing)) | {
        "annotations",
        *(n for n, v in vars(module).items() if inspect.ismodule(v)),
    }
    for name in {*vars(module), *getattr(module, "__all__", ())} - imported:
        if own is not module and not name.startswith("__"):
            assert not hasattr(own, name), f"fastgrad has {path}.{name} by now"


def test_all_modules_that_have_another_name_exist():
    for path in locations._ELSEWHERE:
        assert path in locations.known().modules
        assert locations.places(path), path


def test_absent_classes():
    kind: Any = absent_class("fx", "GraphModule")
    assert is_absent(kind)
    assert kind is absent_class("fx", "GraphModule")
    assert kind[int] is kind
    assert isinstance(kind | None, object)
    assert not is_absent(type("Mine", (kind,), {}))
    with pytest.raises(
        NotImplementedError, match=r"PyTorch has torch\.fx\.GraphModule, which fastgrad does not"
    ):
        kind()
    with pytest.raises(RuntimeError):
        raise absent_class("", "AcceleratorError").__new__(absent_class("", "AcceleratorError"))


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (1, int, True), ([1], list[int], True), ([1, "a"], list[int], False), ({"a": 1}, dict[str, int], True),
        ((1, "a"), tuple[int, str], True), ((1,), tuple[int, str], False), ((1, 2), tuple[int, ...], True),
        (None, int | None, True), ("a", int | None, False), (1, (str, int), True), ([], list[int], True),
    ],
)  # fmt: skip
def test_isinstance_of_what_containers_hold(value, kind, expected):
    assert jit.isinstance(value, kind) is expected


def test_modules_say_how_they_are_called():
    layer = fg.nn.Linear(1, 2)
    assert str(inspect.signature(layer)) == "(*args, **kwargs)"
    assert list(inspect.signature(fg.nn.Linear).parameters)[:2] == ["in_features", "out_features"]
    assert list(inspect.signature(layer.forward).parameters) == ["input"]


def test_devices_share_work():
    parts = scatter_gather.scatter([fg.arange(4), {"a": fg.ones(2, 2), "b": "text"}], ["cpu", "cpu"])
    assert [type(part) for part in parts] == [list, list]
    assert parts[1][0].tolist() == [2, 3]
    assert parts[0][1]["b"] == "text"
    joined = scatter_gather.gather([part[0] for part in parts], -1)
    assert joined.tolist() == [0, 1, 2, 3]
    assert scatter_gather.gather([{"a": fg.tensor(1.0)}, {"a": fg.tensor(2.0)}], "cpu")["a"].tolist() == [
        1.0,
        2.0,
    ]


def test_small_functions_of_libraries():
    tensors = [fg.ones(2, 2), fg.arange(3.0)]
    flat = _flatten_dense_tensors(tensors)
    assert flat.shape == (7,)
    assert all(map(fg.equal, _unflatten_dense_tensors(flat, tensors), tensors))
    assert utils._pair(3) == (3, 3)
    assert utils._triple([1, 2, 3]) == (1, 2, 3)
    assert utils._reverse_repeat_tuple((1, 2), 2) == (2, 2, 1, 1)
    assert utils._list_with_default([None, 3], [1, 5, 6]) == [5, 3]
    state = {"module.a": 1, "b": 2}
    utils.consume_prefix_in_state_dict_if_present(state, "module.")
    assert state == {"a": 1, "b": 2}
    leaves, spec = _pytree.tree_flatten({"a": [1, (2,)]})
    assert leaves == [1, 2]
    assert _pytree.tree_unflatten([3, 4], spec) == {"a": [3, (4,)]}
    assert _pytree.tree_map(lambda a, b: a + b, [1, 2], [3, 4]) == [4, 6]
    assert _pytree.tree_map_only(int, str, [1, 2.0]) == ["1", 2.0]
    with pytest.raises(ValueError, match="holds 2 items"):
        _pytree.tree_unflatten([1], spec)
    assert _get_device_index("cuda:1") == 1
    assert _get_device_index("cpu", allow_cpu=True) == -1
    with pytest.raises(ValueError, match="Expected a torch"):
        _get_device_index("cuda")
