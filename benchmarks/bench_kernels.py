"""Kernels at sizes that tell: calls of each family with their gradients.

They run on as many threads as FASTGRAD_NUM_THREADS says. A row is a name, the sizes of its operands, and a function of
them. Operands are float32 from a normal distribution and get gradients, but for those that a letter before their sizes
makes others: ``p`` positive, ``d`` float64, ``b`` bfloat16, ``z`` complex64, ``c`` constant, ``s`` a symmetric matrix
with positive eigenvalues.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import fastgrad as fg
import fastgrad.nn.functional as F

DTYPES = {"d": fg.float64, "b": fg.bfloat16, "z": fg.complex64}
LENGTHS = {"1e3": 1_000, "1e5": 100_000, "4e6": 4_000_000}


class Row(NamedTuple):
    """The sizes of the operands, what is called with them, and whether its gradients are taken too."""

    sizes: str
    call: Callable[..., Any]
    gradients: bool = True


ROWS: dict[str, Row] = {}


def row(name: str, sizes: str, call: Callable[..., Any], gradients: bool = True) -> None:
    ROWS[name] = Row(sizes, call, gradients)


def _elementwise() -> None:
    functions = (fg.exp, fg.tanh, fg.sigmoid, F.relu, F.gelu, F.silu, fg.sin, fg.erf)
    for tag, n in LENGTHS.items():
        for function in functions:
            row(f"{function.__name__} {tag}", f"{n}", function)
        row(f"log {tag}", f"p{n}", fg.log)
        row(f"pow {tag}", f"p{n}", lambda x: x**1.7)
        row(f"add {tag}", f"{n} {n}", fg.add)
        row(f"mul {tag}", f"{n} {n}", fg.mul)
        row(f"div {tag}", f"{n} p{n}", fg.div)
        row(f"sum {tag}", f"{n}", fg.sum)
        row(f"max {tag}", f"{n}", fg.max, gradients=False)
    row("exp float64", "d100000", fg.exp)
    row("tanh float64", "d100000", fg.tanh)
    row("where", "1000000 1000000", lambda x, y: fg.where(x > 0, x, y))
    row("compare", "1000000 1000000", lambda x, y: x > y, gradients=False)
    row("cast to int64", "1000000", lambda x: x.to(fg.int64), gradients=False)
    row("clamp", "1000000", lambda x: x.clamp(-0.5, 0.5))


def _layouts() -> None:
    row("add a row", "512,1024 1024", fg.add)
    row("add a column", "512,1024 512,1", fg.add)
    row("add row and column", "1024,1 1,1024", fg.add)
    row("add, one transposed", "1024,1024 1024,1024", lambda x, y: x.t() + y)
    row("mul, both transposed", "1024,1024 1024,1024", lambda x, y: x.t() * y.t())
    row("permute, last first", "64,128,64", lambda x: x.permute(2, 0, 1).contiguous())
    row("permute, channels last", "32,64,28,28", lambda x: x.permute(0, 2, 3, 1).contiguous())
    row("cat, first dimension", "256,1024 256,1024 256,1024 256,1024", lambda *x: fg.cat(x, 0))
    row("cat, last dimension", "1024,256 1024,256", lambda *x: fg.cat(x, 1))


def _rows() -> None:
    row("sum of rows", "1024,1024", lambda x: x.sum(1))
    row("sum of columns", "1024,1024", lambda x: x.sum(0))
    row("mean in the middle", "64,128,256", lambda x: x.mean(1))
    row("var", "1024,1024", lambda x: x.var(1))
    row("argmax", "1024,1024", lambda x: x.argmax(1), gradients=False)
    row("max of rows", "1024,1024", lambda x: x.max(1)[0])
    row("cumsum", "1024,1024", lambda x: x.cumsum(1))
    row("softmax", "4096,1024", lambda x: F.softmax(x, -1))
    row("softmax, small", "64,10", lambda x: F.softmax(x, -1))
    row("softmax of columns", "64,32,256", lambda x: F.softmax(x, 1))
    row("log_softmax", "512,1024", lambda x: F.log_softmax(x, -1))
    for rows, classes in (512, 1024), (64, 10):
        row(
            f"cross_entropy ({rows}, {classes})", f"{rows},{classes}",
            lambda x: F.cross_entropy(x, _places(x.shape[0], x.shape[1])),
        )  # fmt: skip
    row("layer_norm", "4096,1024 1024 1024", lambda x, w, b: F.layer_norm(x, (1024,), w, b))
    row("layer_norm, short rows", "2048,128 128 128", lambda x, w, b: F.layer_norm(x, (128,), w, b))
    row("rms_norm", "2048,512 512", lambda x, w: F.rms_norm(x, (512,), w))
    row("batch_norm", "32,64,28,28 64 64", lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True))
    row("group_norm", "16,64,28,28 64 64", lambda x, w, b: F.group_norm(x, 8, w, b))
    row("sort", "256,1024", lambda x: x.sort(1)[0])
    row("sort of one row", "100000", lambda x: x.sort()[0], gradients=False)
    row("topk", "256,4096", lambda x: x.topk(50, 1)[0])


def _products() -> None:
    for n in (16, 64, 256, 1024):
        row(f"matmul {n}", f"{n},{n} {n},{n}", fg.matmul)
    row("matmul float64", "d256,256 d256,256", fg.matmul)
    row("matmul with a transposed matrix", "256,512 512,512", lambda x, w: x @ w.t())
    row("linear", "16,128,256 1024,256 1024", F.linear)
    row("bmm, small", "64,32,32 64,32,32", fg.matmul)
    row("bmm", "64,128,64 64,64,128", fg.matmul)
    row("matrix and vector", "1024,1024 1024", fg.matmul)
    causal = "8,8,128,64 8,8,128,64 8,8,128,64"
    row("einsum", "8,8,128,64 8,8,128,64", lambda q, k: fg.einsum("bhqd,bhkd->bhqk", q, k))
    row("cholesky", "s256,256", fg.linalg.cholesky, gradients=False)
    row("solve", "s256,256 256,16", fg.linalg.solve)
    row("fft", "65536", fg.fft.fft, gradients=False)
    row("attention, causal", causal, lambda *x: F.scaled_dot_product_attention(*x, is_causal=True))
    row("attention", "2,8,1024,64 2,8,1024,64 2,8,1024,64", F.scaled_dot_product_attention)


def _images() -> None:
    row("conv 3x3", "32,64,16,16 128,64,3,3", lambda x, w: F.conv2d(x, w, padding=1))
    row("conv 3x3, large image", "16,64,56,56 64,64,3,3", lambda x, w: F.conv2d(x, w, padding=1))
    row("conv 3x3, stride 2", "16,64,32,32 128,64,3,3", lambda x, w: F.conv2d(x, w, stride=2, padding=1))
    row("conv 1x1", "16,256,14,14 64,256,1,1", F.conv2d)
    row("conv 7x7, stride 2", "8,3,112,112 64,3,7,7", lambda x, w: F.conv2d(x, w, stride=2, padding=3))
    row("conv 3x3, first layer", "c64,1,28,28 32,1,3,3", lambda x, w: F.conv2d(x, w, padding=1))
    row("conv 3x3, small image", "64,128,4,4 256,128,3,3", lambda x, w: F.conv2d(x, w, padding=1))
    row("conv 3x3, depthwise", "16,64,28,28 64,1,3,3", lambda x, w: F.conv2d(x, w, padding=1, groups=64))
    row("conv1d", "32,64,256 128,64,5", lambda x, w: F.conv1d(x, w, padding=2))
    row("conv_transpose", "16,64,14,14 64,32,4,4", lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1))
    row("conv3d", "4,16,8,32,32 32,16,3,3,3", lambda x, w: F.conv3d(x, w, padding=1))
    row("interpolate", "8,16,32,32", lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"))
    row("max_pool", "32,64,28,28", lambda x: F.max_pool2d(x, 2))
    row("avg_pool", "32,64,28,28", lambda x: F.avg_pool2d(x, 2))


def _sequences() -> None:
    for kind in ("LSTM", "GRU"):
        row(kind.lower(), "32,64,128", lambda x, kind=kind: _recurrent(kind)(x)[0])


def _other_dtypes() -> None:
    row("add bfloat16", "b1000000 b1000000", fg.add, gradients=False)
    row("mul complex64", "z1000000 z1000000", fg.mul, gradients=False)


def _selections() -> None:
    row("embedding", "10000,256", lambda w: F.embedding(_places(4096, 10_000), w))
    row("gather", "1024,1024", lambda x: x.gather(1, _places(1024 * 256, 1024).view(1024, 256)))
    row("index of rows", "10000,64", lambda x: x[_places(4096, 10_000)])
    row("boolean mask", "1000000", lambda x: x[x > 0])
    row("dropout", "1000000", lambda x: F.dropout(x, 0.5, True))
    row("randn", "1", lambda _: fg.randn(1_000_000), gradients=False)


_KEPT: dict[Any, Any] = {}


def _places(count: int, below: int) -> Any:
    """So many indices, the same at every call."""
    if (count, below) not in _KEPT:
        _KEPT[count, below] = fg.tensor(np.random.default_rng(0).integers(0, below, count))
    return _KEPT[count, below]


def _recurrent(kind: str) -> Any:
    """A layer, the same at every call."""
    if kind not in _KEPT:
        fg.manual_seed(0)
        _KEPT[kind] = getattr(fg.nn, kind)(128, 256, batch_first=True)
    return _KEPT[kind]


for _family in (_elementwise, _layouts, _rows, _products, _images, _sequences, _other_dtypes, _selections):
    _family()


def operand(text: str, rng: np.random.Generator) -> Any:
    """A tensor from the text of its sizes."""
    kind = text[0] if text[0].isalpha() else ""
    shape = [int(size) for size in text.removeprefix(kind).split(",")]
    values = np.asarray(rng.random(shape) + 0.1 if kind == "p" else rng.standard_normal(shape))
    if kind == "s":
        values = values @ values.T / len(values) + np.eye(len(values))
    made = fg.tensor(values, dtype=DTYPES.get(kind, fg.float32))
    return made.requires_grad_(kind != "c")


class Kernels:
    """A call and, where it has any, its gradients."""

    params = list(ROWS)
    param_names = ["row"]

    def setup(self, name: str) -> None:
        self.row = ROWS[name]
        rng = np.random.default_rng(0)
        self.operands = [operand(text, rng) for text in self.row.sizes.split()]
        self.wanted = [x for x in self.operands if x.requires_grad]
        self.weights = fg.ones_like(self.row.call(*self.operands)).detach()
        self.time_kernel(name)

    def time_kernel(self, name: str) -> None:
        if not self.row.gradients:
            with fg.no_grad():
                self.row.call(*self.operands)
            return
        fg.autograd.grad(self.row.call(*self.operands), self.wanted, self.weights)
