"""Memory that is shared with PyTorch on the GPU, in the order of the streams."""

from __future__ import annotations

from collections.abc import Iterator

import fastgrad as fg
from tests.gpu.steps.machine import Machine, Row, holds


def run(machine: Machine) -> Iterator[Row]:
    x = fg.arange(1000, device="cuda", dtype=fg.float32)
    y = fg.from_dlpack(x)
    yield holds("a tensor by DLPack", hex(y.data_ptr()), y.data_ptr() == x.data_ptr())
    interface = x.__cuda_array_interface__
    yield holds("the CUDA array interface", interface["version"], interface["data"][0] == x.data_ptr())
    torch = machine.torch
    if torch is None:
        return
    theirs = torch.from_dlpack(x)
    yield holds("PyTorch takes a tensor", hex(theirs.data_ptr()), theirs.data_ptr() == x.data_ptr())
    yield holds("and reads it", theirs.sum().item(), theirs.sum().item() == 499500)
    ours = fg.from_dlpack(theirs)
    yield holds("and gives it back", hex(ours.data_ptr()), ours.data_ptr() == x.data_ptr())
    wrong = 0
    for k in range(50):
        slow = torch.full((4096, 4096), float(k), device="cuda")
        for _ in range(3):
            slow = slow @ torch.eye(4096, device="cuda")
        wrong += int((fg.from_dlpack(slow) != k).sum().item())
        mine = fg.full((1 << 20,), float(k), device="cuda")
        for _ in range(20):
            mine = mine + 1
        wrong += int((torch.from_dlpack(mine) != k + 20).sum().item())
    yield holds("elements that were read too early", wrong, not wrong)
    stream = torch.cuda.Stream()
    with fg.cuda.stream(fg.cuda.ExternalStream(stream.cuda_stream)):
        z = fg.ones(100, device="cuda") * 3
    with torch.cuda.stream(stream):
        yield holds("on a stream of PyTorch's", "", bool((torch.from_dlpack(z) == 3).all()))
