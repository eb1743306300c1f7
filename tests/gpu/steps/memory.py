"""The allocator: no calls of the driver once a program runs, what a tensor costs, and life after running out."""

from __future__ import annotations

from collections.abc import Iterator

import fastgrad as fg
from tests.gpu.steps.launches import mlp
from tests.gpu.steps.machine import Machine, Row, at_most, holds


def run(machine: Machine) -> Iterator[Row]:
    step = mlp(fg, batch=machine.size(64, 4))
    for _ in range(2):
        step()
    before = fg.cuda.memory_stats()["num_device_alloc"]
    for _ in range(machine.size(200, 3)):
        step()
    more = fg.cuda.memory_stats()["num_device_alloc"] - before
    yield holds("calls of the driver for memory after two steps", more, not more)
    cost = machine.seconds(lambda: [fg.empty(1000, device="cuda") for _ in range(100)]) / 100
    yield at_most("a tensor made and freed", cost * 1e9, "ns", 500.0)
    _, total = fg.cuda.mem_get_info()
    try:
        fg.empty(2 * total, dtype=fg.uint8, device="cuda")
        said = "no error"
    except fg.cuda.OutOfMemoryError as error:
        said = str(error)
    yield holds("out of memory", said[:60], "out of memory" in said)
    kept = []
    try:
        while len(kept) < 1000:
            kept.append(fg.empty(max(total // 64, 1), dtype=fg.uint8, device="cuda"))
    except fg.cuda.OutOfMemoryError:
        filled = len(kept)
        kept.clear()
    yield holds("parts of a 64th that fit", filled, 8 < filled <= 64)
    fg.cuda.empty_cache()
    step()
    yield holds("a step after that", fg.cuda.memory_reserved() >> 20, True)
    first, second = fg.cuda.Stream(), fg.cuda.Stream()
    wrong = 0
    for k in range(machine.size(300, 4)):
        with fg.cuda.stream(first):
            x = fg.full((100_000,), float(k), device="cuda")
            for _ in range(3):
                x = x + 1
        second.wait_stream(first)
        with fg.cuda.stream(second):
            y = x * 2
            x.record_stream(second)
        del x  # its memory may not be used again before the product is done
        with fg.cuda.stream(first):
            fg.full((100_000,), -1.0, device="cuda")
        second.synchronize()
        wrong += int((y != 2 * (k + 3)).sum().item())
    yield holds("elements that another stream overwrote", wrong, not wrong)
