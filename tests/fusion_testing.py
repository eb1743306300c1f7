"""What the tests of fusion share: recording a function, replaying it as it is and fused, and comparing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import fastgrad as fg
from fastgrad.compiler.fusion import FusedTape, fuse
from fastgrad.native.host.tape import Tape, record


def bits(t: Any) -> np.ndarray:
    """The elements of a tensor as they are; of halves as floats that hold them."""
    t = t.detach().cpu().contiguous()
    return (t.float() if t.dtype in (fg.float16, fg.bfloat16) else t).numpy().copy().reshape(-1)


def wanted_of(tensors: Sequence[Any]) -> Callable[[int, int], bool]:
    """Whether memory belongs to one of these tensors."""
    spans = []
    for t in tensors:
        if t.numel():
            last = sum((size - 1) * stride for size, stride in zip(t.shape, t.stride(), strict=True))
            spans.append((t.data_ptr(), t.data_ptr() + (last + 1) * t.element_size()))
    return lambda address, nbytes: any(low < address + nbytes and address < high for low, high in spans)


class Recorded:
    """A function of tensors on a tape."""

    def __init__(
        self, function: Callable[..., Any], inputs: Sequence[Any], others: Sequence[Any] = ()
    ) -> None:
        self.inputs = list(inputs)
        self.before = [t.detach().clone() for t in self.inputs]
        self.others = [t.flip(0).clone() if t.dim() else t.detach().clone() for t in self.before]
        function(*self.inputs)
        self.set()
        self.tape: Tape = record()
        with self.tape:
            results = function(*self.inputs)
        self.results = list(results) if isinstance(results, tuple) else [results]
        self.fused: FusedTape | None = None

    def set(self, values: Sequence[Any] | None = None) -> None:
        """Let the inputs have these values, or those that they had."""
        with fg.no_grad():
            for t, value in zip(self.inputs, self.before if values is None else values, strict=True):
                t.copy_(value)

    def seen(self) -> list[np.ndarray]:
        """What the results are now, and what became of the inputs."""
        return [bits(t) for t in (*self.results, *self.inputs)]

    def replay(self, values: Sequence[Any] | None = None) -> list[np.ndarray]:
        """The results, and what becomes of the inputs."""
        self.set(values)
        self.tape.replay()
        return self.seen()

    def fuse(self) -> FusedTape:
        self.fused = fuse(self.tape.entries(), wanted_of([*self.results, *self.inputs]))
        self.tape.edit(self.fused.order)
        return self.fused


def check(
    function: Callable[..., Any], *inputs: Any, launches: int | None = None, close: float = 0.0
) -> FusedTape:
    """Compare a function with what becomes of it when it is fused, bit by bit unless it may be off by `close`.

    Between, it is replayed with other inputs, so that memory that fused kernels do not write holds something else.
    """
    recorded = Recorded(function, inputs)
    expected = recorded.replay()
    recorded.replay(recorded.others)
    fused = recorded.fuse()
    for found, value in zip(recorded.replay(), expected, strict=True):
        same(found, value, close)
    if launches is not None:
        assert recorded.tape.launches == launches, str(fused.report)
    return fused


def same(found: np.ndarray, expected: np.ndarray, close: float = 0.0) -> None:
    """Whether two arrays are equal bit by bit, or nearly."""
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    if close and found.dtype.kind == "f":
        np.testing.assert_allclose(found, expected, rtol=close, atol=close)
    elif found.dtype.kind == "f":
        both = np.isnan(found) & np.isnan(expected)
        size = f"u{found.dtype.itemsize}"
        np.testing.assert_array_equal(
            np.where(both, 0, found.view(size)), np.where(both, 0, expected.view(size))
        )
    else:
        np.testing.assert_array_equal(found, expected)


def seeded(tape: Tape, results: Sequence[Any]) -> list[np.ndarray]:
    """The results of a replay from a seed on."""
    fg.manual_seed(5)
    tape.replay()
    return [bits(t) for t in results]


def same_for_seeds(function: Callable[..., Any], *inputs: Any, close: float = 0.0) -> FusedTape:
    """Compare a function that draws random numbers with what becomes of it when it is fused, for two replays."""
    function(*inputs)
    with record() as tape:
        results = function(*inputs)
    results = list(results) if isinstance(results, tuple) else [results]
    expected = seeded(tape, results)
    tape.replay()
    other = [bits(t) for t in results]
    fused = fuse(tape.entries(), wanted_of([*results, *inputs]))
    tape.edit(fused.order)
    for found, value in zip(seeded(tape, results), expected, strict=True):
        same(found, value, close)
    tape.replay()
    for t, value in zip(results, other, strict=True):
        same(bits(t), value, close)
    return fused
