"""Random numbers within `vmap`: what each element of a batch draws."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fastgrad import random
from fastgrad.func.batched import Batched, Level, batched, expanded, is_at, levels, outside
from fastgrad.native.build.loader import rt


def need_randomness_of(level: Level) -> str:
    """What random functions do at a level; RuntimeError if they must not be called."""
    if level.randomness == "error":
        raise RuntimeError(
            "vmap: called random operation while in randomness error mode. Please either use the 'same' or 'different' "
            "randomness flags on vmap or perform the randomness operation out of vmap"
        )
    return level.randomness


class _Batches(random.Batches):
    """What `fastgrad.random` asks for within `vmap`."""

    def under_way(self) -> bool:
        return bool(levels())

    def made(self, draw: Callable[[Sequence[int]], Any], sizes: Sequence[int]) -> Any:
        level = levels()[-1]
        different = need_randomness_of(level) == "different"
        with outside(level):
            out = draw((level.size, *sizes) if different else sizes)
        return batched(out, level) if different else out

    def operand(self, x: Any) -> Any:
        level = levels()[-1]
        if need_randomness_of(level) == "same" or is_at(x, level):
            return x
        return batched(expanded(x, level.size), level)

    def values(self, tensor: Any) -> Any:
        while isinstance(tensor, Batched):
            tensor = tensor._value
        return tensor

    def filled(self, draw: Callable[[Any], Any], x: Any) -> Any:
        level = levels()[-1]
        different = need_randomness_of(level) == "different"
        with outside(level):
            if not different:
                return draw(x)
            return batched(draw(x.new_empty((level.size, *rt.sizes(x)))), level)


random.set_batches(_Batches())
