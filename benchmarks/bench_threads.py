"""Large kernels on one thread and on several: what the pool makes of the same work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import fastgrad as fg
import fastgrad.nn.functional as F


def numbers(*sizes: int) -> fg.Tensor:
    """The same normal numbers every time."""
    return fg.tensor(np.random.default_rng(0).standard_normal(sizes).astype(np.float32))


WORK: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "exp": (fg.exp, ((4_000_000,),)),
    "add": (fg.add, ((4_000_000,), (4_000_000,))),
    "sum": (fg.sum, ((4_000_000,),)),
    "softmax": (lambda x: x.softmax(1), ((4096, 1024),)),
    "layer norm": (lambda x: F.layer_norm(x, (1024,)), ((4096, 1024),)),
    "matmul": (fg.matmul, ((1024, 1024), (1024, 1024))),
    "conv": (lambda x, w: F.conv2d(x, w, padding=1), ((32, 64, 16, 16), (128, 64, 3, 3))),
    "attention": (F.scaled_dot_product_attention, ((8, 8, 128, 64),) * 3),
    "randn": (lambda: fg.randn(4_000_000), ()),
}  # fmt: skip


class Threads:
    """Calls without gradients."""

    params = (list(WORK), [1, 2, 4])
    param_names = ("work", "threads")

    def setup(self, name: str, threads: int) -> None:
        self.call, sizes = WORK[name]
        self.operands = [numbers(*s) for s in sizes]
        self.before = fg.get_num_threads()
        fg.set_num_threads(threads)
        self.time_call(name, threads)

    def teardown(self, name: str, threads: int) -> None:
        fg.set_num_threads(self.before)

    def time_call(self, name: str, threads: int) -> None:
        self.call(*self.operands)
