"""Dtypes that PyTorch has and fastgrad lacks, and other things that programs name when they are imported."""

from __future__ import annotations

import copy
import importlib
import pickle
import typing

import pytest
from alias_running import under_alias

import fastgrad as fg
from fastgrad.as_torch.absent import absent_dtype, is_absent

NAMES = ("complex32", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "float4_e2m1fn_x2", "qint8", "quint8")


@pytest.mark.parity
@pytest.mark.parametrize("name", NAMES)
def test_facts_are_pytorchs(name: str) -> None:
    mine, theirs = absent_dtype(name), getattr(pytest.importorskip("torch"), name)
    assert mine is not None
    for fact in ("itemsize", "is_floating_point", "is_complex"):
        assert getattr(mine, fact) == getattr(theirs, fact)


@pytest.mark.parity
@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz"])
def test_limits_are_pytorchs(name: str) -> None:
    theirs = pytest.importorskip("torch")
    assert repr(fg.finfo(absent_dtype(name))) == repr(theirs.finfo(getattr(theirs, name)))


@pytest.mark.parametrize("name", NAMES)
def test_there_are_no_tensors_of_them(name: str) -> None:
    kind = absent_dtype(name)
    assert is_absent(kind)
    assert isinstance(kind, fg.dtype)
    assert kind != fg.ones(1).dtype
    assert pickle.loads(pickle.dumps(kind)) is kind is copy.deepcopy(kind)
    for make in (
        lambda: fg.ones(2, dtype=kind),
        lambda: fg.tensor([1.0], dtype=kind),
        lambda: fg.ones(2).to(kind),
        lambda: fg.ones(2).view(kind),
        lambda: fg.zeros_like(fg.ones(2), dtype=kind),
        lambda: fg.nn.Linear(2, 2, dtype=kind),
        lambda: fg.promote_types(kind, fg.float32),
    ):
        with pytest.raises(NotImplementedError, match=f"torch.{name}"):
            make()


def test_names_that_are_no_dtypes() -> None:
    assert absent_dtype("float32") is None
    assert absent_dtype("chalf") is absent_dtype("complex32")
    with pytest.raises(TypeError, match="floating point"):
        fg.finfo(absent_dtype("qint8"))


def test_under_the_alias() -> None:
    said = under_alias(
        "import torch, typing\n"
        "from torch.distributed.tensor import Replicate, Shard, distribute_tensor\n"
        "from torch.distributed.device_mesh import DeviceMesh, init_device_mesh\n"
        "from torch.nn.attention.flex_attention import BlockMask, flex_attention\n"
        "class Mine(torch.nn.Module):\n"
        "    config: int\n"
        "print(torch.float8_e4m3fn, hasattr(torch, 'float9'), {torch.float32: 1}.get(torch.float8_e5m2))\n"
        "print(Shard(1) == Shard(1), Shard(1).is_shard(0), Replicate(), isinstance(1, (DeviceMesh, BlockMask)))\n"
        "print(typing.get_type_hints(Mine)['config'])\n"
        "for f in (distribute_tensor, init_device_mesh, flex_attention):\n"
        "    try: f(torch.ones(1))\n"
        "    except NotImplementedError as error: print(error)\n"
    )
    assert said.splitlines()[:3] == [
        "torch.float8_e4m3fn False None",
        "True False Replicate() False",
        "<class 'int'>",
    ]
    assert [line.split()[2].rstrip(",") for line in said.splitlines()[3:]] == [
        "torch.distributed.tensor.distribute_tensor",
        "torch.distributed.device_mesh.init_device_mesh",
        "torch.nn.attention.flex_attention.flex_attention",
    ]


def test_keys_of_dicts() -> None:
    pytree = importlib.import_module("fastgrad.as_torch.overlay.utils._pytree")
    values, keys = pytree._dict_flatten_with_keys({"b": 1, "a": 2})
    assert [(str(key), value) for key, value in values] == [("['b']", 1), ("['a']", 2)]
    assert pytree._dict_unflatten([1, 2], keys) == {"b": 1, "a": 2}
    assert values[0][0].get({"b": 3}) == 3


def test_annotations_of_modules() -> None:
    assert "training" in typing.get_type_hints(fg.nn.Module)
