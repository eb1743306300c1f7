"""What loaders and workers send each other: tensors as they are, in memory that goes with them."""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np
import pytest

import fastgrad as fg
from fastgrad.utils.data import DataLoader
from fastgrad.utils.data.channel import PACKET, connected, packed, unpacked


def sent(value: Any) -> Any:
    """A value that went through a connection."""
    here, end = connected()
    there = type(here)(end)
    try:
        there.send(3, 5, packed(value))
        message = here.receive()
        assert message is not None
        assert message[:2] == (3, 5)
        return unpacked(message.body)
    finally:
        here.close()
        there.close()


DTYPES = [
    fg.float32,
    fg.float64,
    fg.bfloat16,
    fg.float16,
    fg.int64,
    fg.uint8,
    fg.bool,
    fg.complex64,
    fg.uint16,
]


@pytest.mark.parametrize("n", [0, 3, PACKET])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_tensors_arrive_as_they_are(n: int, dtype: Any):
    x = fg.arange(n).remainder(2).to(dtype)
    found = sent({"x": x, "n": n})["x"]
    assert found.dtype is dtype
    assert fg.equal(found, x)
    found.fill_(1)  # memory of its own
    assert not n or x[0].item() == 0


def test_layouts_classes_and_attributes():
    x = fg.arange(24.0).view(2, 3, 4)
    t = x.permute(2, 0, 1)
    assert sent(t).stride() == t.stride()
    parameter = fg.nn.Parameter(fg.ones(3))
    found = sent(parameter)
    assert type(found) is fg.nn.Parameter
    assert found.requires_grad
    assert not sent(fg.nn.Parameter(fg.ones(3), requires_grad=False)).requires_grad
    named = fg.ones(2)
    named.name = "a"
    assert sent(named).name == "a"
    expanded = fg.ones(1).expand(1000, 1000)
    assert sum(len(memoryview(part).cast("B")) for part in packed(expanded)) < 1000
    assert fg.equal(sent(expanded), expanded)
    one, two = sent((x, x.T))
    one.zero_()
    assert two.sum().item() == 0


def test_of_a_sample_only_its_part_is_sent():
    rows = fg.arange(10**6).view(1000, 1000)
    assert sum(len(memoryview(part).cast("B")) for part in packed(rows[7])) < 10**4
    assert fg.equal(sent(rows[7]), rows[7])
    assert fg.equal(sent(rows[:, 3]), rows[:, 3])


def test_arrays():
    for x in (np.arange(5), np.asfortranarray(np.ones((300, 200))), np.ones((300, 300))[::2], np.array(2.5)):
        assert np.array_equal(sent(x), x)
    assert sent(np.array(["a", None], dtype=object)).tolist() == ["a", None]


@pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel of Linux which files are mapped")
def test_memory_is_freed_with_its_tensors():
    def mapped() -> int:
        with open("/proc/self/maps") as file:
            return sum("memfd:fastgrad" in line for line in file)

    before = mapped(), len(os.listdir("/proc/self/fd"))
    held = list(DataLoader([fg.ones(20_000)] * 5, batch_size=None, num_workers=2))
    assert mapped() == before[0] + 5
    assert len(os.listdir("/proc/self/fd")) == before[1]
    one = held[0][:2]
    del held
    assert mapped() == before[0] + 1
    assert one.tolist() == [1, 1]
    del one
    assert mapped() == before[0]


def test_more_batches_than_files_may_be_open():
    assert len(list(DataLoader([fg.ones(10_000)] * 1500, batch_size=None, num_workers=2))) == 1500


def test_a_tensor_with_a_history_stays():
    with pytest.raises(
        RuntimeError, match="Cowardly refusing to serialize non-leaf tensor which requires_grad"
    ):
        list(DataLoader([fg.ones(2, requires_grad=True) * 2], batch_size=None, num_workers=1))
