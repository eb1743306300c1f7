"""Find what PyTorch does faster: ``python tools/find_slower.py`` times many single functions with both, on one thread.

The two take turns in one process, as in `compare_models.py`. What is printed, as rows of a table, is the work of which
the median of the ratios of neighbouring rounds is below ``--below``, the slowest first.
"""

from __future__ import annotations

import os

for _name in ("FASTGRAD_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

import argparse
import importlib
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
from compare_models import seconds

RNG = np.random.default_rng(0)
NUMBERS = RNG.standard_normal((1000, 1000)).astype(np.float32)
BATCH = RNG.standard_normal((16, 128, 128)).astype(np.float32)
IMAGES = RNG.standard_normal((8, 32, 32, 32)).astype(np.float32)
INDICES = RNG.integers(0, 1000, (64, 128))

# The work, its inputs, and whether gradients are computed, too.
WORK: dict[str, tuple[Callable[..., Any], list[np.ndarray], bool]] = {
    "`sort` of 1000 rows of 1000": (lambda t, x: t.sort(x, 1)[0], [NUMBERS], False),
    "`topk` of 10 in 1000 rows of 1000": (lambda t, x: t.topk(x, 10)[0], [NUMBERS], False),
    "`unique` of 1e6 integers": (lambda t, x: t.unique((x * 100).long()), [NUMBERS], False),
    "`median` of 1000 rows of 1000": (lambda t, x: t.median(x, 1)[0], [NUMBERS], False),
    "`quantile` of 1000 rows of 1000": (lambda t, x: t.quantile(x, 0.3, 1), [NUMBERS], False),
    "`nonzero` of 1e6": (lambda t, x: t.nonzero(x > 0), [NUMBERS], False),
    "`x[mask]` of 1e6": (lambda t, x: x[x > 0], [NUMBERS], False),
    "`cumsum` of 1000 rows of 1000": (lambda t, x: t.cumsum(x, 1), [NUMBERS], True),
    "`transpose` and copy of 1000 x 1000": (lambda t, x: x.t().contiguous(), [NUMBERS], False),
    "`randn` of 1e6": (lambda t: t.randn(1000, 1000), [], False),
    "`rand` of 1e6": (lambda t: t.rand(1000, 1000), [], False),
    "`randperm` of 1e5": (lambda t: t.randperm(100_000), [], False),
    "`fft` of 1000 rows of 1000": (lambda t, x: t.fft.fft(x), [NUMBERS], False),
    "`linalg.svd` of 16 matrices 128 x 128": (lambda t, x: t.linalg.svd(x)[1], [BATCH], False),
    "`linalg.inv` of 16 matrices 128 x 128": (lambda t, x: t.linalg.inv(x), [BATCH], True),
    "`linalg.qr` of 16 matrices 128 x 128": (lambda t, x: t.linalg.qr(x)[1], [BATCH], False),
    "`linalg.solve` of one system of 1000": (lambda t, x: t.linalg.solve(x, x[0]), [NUMBERS], False),
    "`einsum` of 16 products 128 x 128": (lambda t, x: t.einsum("bij,bjk->bik", x, x), [BATCH], True),
    "product of 1000 x 1000": (lambda t, x: x @ x, [NUMBERS], True),
    "product of 1000 x 1000 and a vector": (lambda t, x: x @ x[0], [NUMBERS], True),
    "product of 1000 x 1000, bfloat16": (lambda t, x: x.bfloat16() @ x.bfloat16(), [NUMBERS], False),
    "`conv2d` 3 x 3, 8 x 32 x 32 x 32": (lambda t, x: t.nn.functional.conv2d(x, x[:, :, :3, :3]), [IMAGES], True),
    "`conv2d` of each channel by itself": (
        lambda t, x: t.nn.functional.conv2d(x, x[0, :, None, :3, :3], groups=32), [IMAGES], True,
    ),
    "`conv_transpose2d` 4 x 4, stride 2": (
        lambda t, x: t.nn.functional.conv_transpose2d(x, x[0, :, None, :4, :4].expand(32, 16, 4, 4), stride=2),
        [IMAGES], True,
    ),
    "`max_pool2d` 2 x 2": (lambda t, x: t.nn.functional.max_pool2d(x, 2), [IMAGES], True),
    "`avg_pool2d` 3 x 3": (lambda t, x: t.nn.functional.avg_pool2d(x, 3), [IMAGES], True),
    "`interpolate` to twice the size, bilinear": (
        lambda t, x: t.nn.functional.interpolate(x, scale_factor=2, mode="bilinear"), [IMAGES], True,
    ),
    "`batch_norm` of images": (
        lambda t, x: t.nn.functional.batch_norm(x, None, None, training=True), [IMAGES], True,
    ),
    "`group_norm` of images": (lambda t, x: t.nn.functional.group_norm(x, 4), [IMAGES], True),
    "`softmax` of 1000 rows of 1000": (lambda t, x: t.softmax(x, 1), [NUMBERS], True),
    "`gelu` of 1e6": (lambda t, x: t.nn.functional.gelu(x), [NUMBERS], True),
    "`erfinv` of 1e6": (lambda t, x: t.erfinv(x.clamp(-0.9, 0.9)), [NUMBERS], True),
    "`lgamma` of 1e6": (lambda t, x: t.lgamma(x), [NUMBERS], True),
    "`pow` of 1e6 to the 2.5th": (lambda t, x: x.abs().pow(2.5), [NUMBERS], True),
    "`embedding` of 8192 in 1000 rows": (
        lambda t, x: t.nn.functional.embedding(t.tensor(INDICES), x), [NUMBERS], True,
    ),
    "`index_add` of 1000 rows": (
        lambda t, x: x.index_add(0, t.tensor(INDICES[:8].ravel()[:1000]), x), [NUMBERS], True,
    ),
    "`cdist` of 1000 and 1000 points": (lambda t, x: t.cdist(x[:, :64], x[:, :64]), [NUMBERS], True),
    "`cat` of ten parts": (lambda t, x: t.cat(x.split(100), 1), [NUMBERS], True),
    "`dropout` of 1e6": (lambda t, x: t.nn.functional.dropout(x, 0.5), [NUMBERS], True),
    "second derivatives of `tanh` of 1e6": (
        lambda t, x: t.autograd.grad(x.tanh().sum(), x, create_graph=True)[0], [NUMBERS], True,
    ),
    "second derivatives of `tanh` of 4": (
        lambda t, x: t.autograd.grad(x[0, :4].tanh().sum(), x, create_graph=True)[0].sum(), [NUMBERS[:2]], True,
    ),
}  # fmt: skip


def step(lib: Any, name: str) -> Callable[[], None]:
    """A call of the work, with gradients if it has some."""
    work, arrays, gradients = WORK[name]
    inputs = [lib.tensor(a, requires_grad=gradients) for a in arrays]

    def call() -> None:
        result = work(lib, *inputs)
        if gradients:
            result.sum().backward()
            for x in inputs:
                x.grad = None

    return call


def main() -> None:
    """Print a row for each piece of work that takes longer than PyTorch's."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--below", type=float, default=0.95, help="PyTorch's time / fastgrad's (default 0.95)"
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.1, help="length of a round of one library")
    given = parser.parse_args()
    libraries = [importlib.import_module(name) for name in ("fastgrad", "torch")]
    libraries[1].set_num_threads(1)
    found = []
    for name in WORK:
        steps = [step(lib, name) for lib in libraries]
        for call in steps * 2:
            call()
        rounds = [[seconds(call, given.seconds) * 1e3 for call in steps] for _ in range(given.rounds)]
        own = statistics.median(r[0] for r in rounds)
        found.append((statistics.median(r[1] / r[0] for r in rounds), name, own))
    slower = sorted(row for row in found if row[0] < given.below)
    print(f"{len(slower)} of {len(found)}; all together, as the geometric mean: "
          f"{statistics.geometric_mean(row[0] for row in found):.2f}")  # fmt: skip
    for ratio, name, own in slower:
        print(f"| {name} | {own:.3g} ms | {ratio:.2f} |")


if __name__ == "__main__":
    main()
