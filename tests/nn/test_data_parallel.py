"""`DataParallel` where there are no GPUs, or one: it is the module."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

import fastgrad as fg


def ran(lib: Any) -> list[Any]:
    layer = lib.nn.Linear(2, 2)
    with lib.no_grad():
        for parameter in layer.parameters():
            parameter.fill_(0.5)
    module = lib.nn.DataParallel(layer, dim=0)
    x = lib.ones(3, 2, requires_grad=True)
    y = module(x)
    y.sum().backward()
    again = lib.nn.parallel.DataParallel(layer, device_ids=[])(x)
    return [
        y.tolist(), x.grad.tolist(), again.tolist(), list(module.state_dict()), module.device_ids, repr(module),
        module.module is layer,
    ]  # fmt: skip


@pytest.mark.parity
def test_without_gpus_as_in_pytorch():
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("PyTorch moves the batch to its GPUs")
    assert ran(fg) == ran(torch)


def test_functions():
    layer = fg.nn.Linear(2, 2)
    x = fg.ones(3, 2)
    assert fg.nn.parallel.data_parallel(layer, x).tolist() == layer(x).tolist()
    assert not isinstance(fg.nn.parallel.data_parallel, ModuleType)
    parts = fg.nn.parallel.scatter({"a": fg.arange(4)}, ["cpu", "cpu"])
    assert [part["a"].tolist() for part in parts] == [[0, 1], [2, 3]]
    assert fg.nn.parallel.gather(parts, "cpu")["a"].tolist() == [0, 1, 2, 3]
    with pytest.raises(NotImplementedError, match="start a process for each"):
        fg.nn.DataParallel(layer, device_ids=[0, 1])
