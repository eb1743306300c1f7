"""The core: small ops, training steps, hooks, deep graphs, and how long a program takes to get going.

Every class does its work once in `setup`, so that no compilation is timed; compilation and cold start have
benchmarks of their own at the end, each in a process of its own.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import fastgrad as fg
import fastgrad.nn.functional as F

CHAIN = 10
SMALL, SMALL_BATCH = (64, 128, 128, 10), 32
LARGE, LARGE_BATCH = (784, 1024, 1024, 10), 256


def ones(count: int, requires_grad: bool = False) -> fg.Tensor:
    """A vector of float32 ones."""
    return fg.tensor(np.ones(count, np.float32), requires_grad=requires_grad)


def normal(*shape: int) -> np.ndarray:
    """The same normal numbers every time."""
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


class Mlp:
    """A ReLU network with cross-entropy and SGD, and a step that trains it."""

    def __init__(self, sizes: tuple[int, ...], batch: int) -> None:
        pairs = list(pairwise(sizes))
        self.weights = [fg.tensor(normal(a, b) / np.float32(a**0.5), requires_grad=True) for a, b in pairs]
        self.biases = [fg.tensor(np.zeros(b, np.float32), requires_grad=True) for _, b in pairs]
        self.x = fg.tensor(normal(batch, sizes[0]))
        self.y = fg.tensor(np.random.default_rng(0).integers(0, sizes[-1], batch))
        self.optimizer = fg.optim.SGD(self.weights + self.biases, lr=1e-3)

    def loss(self) -> fg.Tensor:
        h = self.x
        for index, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            h = h @ weight + bias
            if index < len(self.weights) - 1:
                h = F.relu(h)
        return F.cross_entropy(h, self.y)

    def step(self) -> None:
        self.optimizer.zero_grad()
        self.loss().backward()
        self.optimizer.step()


class Chain:
    """``h = h * y`` ten times on 16 numbers: what an op costs, forward and backward, besides its work."""

    def setup(self) -> None:
        self.x, self.y, self.g = ones(16, requires_grad=True), ones(16), ones(16)
        self.time_forward_backward()

    def time_forward(self) -> None:
        h = self.x
        for _ in range(CHAIN):
            h = h * self.y

    def time_forward_backward(self) -> None:
        h = self.x
        for _ in range(CHAIN):
            h = h * self.y
        h.backward(self.g)

    def time_forward_no_grad(self) -> None:
        with fg.no_grad():
            self.time_forward()


class SmallMlp:
    """64-128-128-10, batch 32: one SGD step, where overhead rules."""

    def setup(self) -> None:
        self.mlp = Mlp(SMALL, SMALL_BATCH)
        self.mlp.step()

    def time_step(self) -> None:
        self.mlp.step()

    def time_forward(self) -> None:
        self.mlp.loss()


class LargeMlp:
    """784-1024-1024-10, batch 256: one SGD step, where matrix products rule."""

    def setup(self) -> None:
        self.mlp = Mlp(LARGE, LARGE_BATCH)
        self.mlp.step()

    def time_step(self) -> None:
        self.mlp.step()

    def peakmem_step(self) -> None:
        for _ in range(3):
            self.mlp.step()


class Elementwise:
    """``sum(tanh(x*y) + exp(-x*x))`` on four million numbers, forward and backward."""

    def setup(self) -> None:
        numbers = normal(2, 4_000_000)
        self.x, self.y = (fg.tensor(row, requires_grad=True) for row in numbers)
        self.time_forward_backward()

    def time_forward_backward(self) -> None:
        x, y = self.x, self.y
        x.grad = y.grad = None
        (fg.tanh(x * y) + fg.exp(-x * x)).sum().backward()


class RecordedPass:
    """Gradients of the chain and of a small network without a graph and with one: what recording a pass costs."""

    param_names = ("work",)
    params = ("chain", "chain, recorded", "small MLP", "small MLP, recorded")

    def setup(self, work: str) -> None:
        if work.startswith("chain"):
            self.inputs = [ones(16, requires_grad=True)]
            self.loss = self.chain
        else:
            mlp = Mlp(SMALL, SMALL_BATCH)
            self.inputs = mlp.weights + mlp.biases
            self.loss = mlp.loss
        self.time_grad(work)

    def chain(self) -> fg.Tensor:
        h = self.inputs[0]
        for _ in range(CHAIN):
            h = fg.tanh(h * self.inputs[0])
        return h.sum()

    def time_grad(self, work: str) -> None:
        fg.autograd.grad(self.loss(), self.inputs, create_graph=work.endswith("recorded"))


class Compiled:
    """The same work in calls of compiled functions, which are replayed."""

    param_names = ("work",)
    params = ("chain", "small MLP", "large MLP", "elementwise")

    def setup(self, work: str) -> None:
        made: Any = dict(zip(self.params, (Chain, SmallMlp, LargeMlp, Elementwise), strict=True))[work]()
        made.setup()
        self.call = fg.compile(made.time_step if hasattr(made, "time_step") else made.time_forward_backward)
        for _ in range(4):  # without gradients, with them, and replays
            self.call()

    def time_call(self, work: str) -> None:
        self.call()


def _halve(grad: Any) -> None:
    for i in range(grad.size):
        grad[i] *= 0.5


@functools.cache
def native_hooks() -> tuple[Any, Any]:
    """A native hook that halves a gradient, on arrays and by a formula."""
    return fg.native_hook(_halve), fg.native_hook(elementwise=lambda g: g + g)


class Hooks:
    """The chain with one hook on each of its ten nodes; subtract ``none`` for what ten hooks cost."""

    KINDS = {
        "none": lambda h: None,
        "native tensor": lambda h: h.register_hook(native_hooks()[0]),
        "native tensor, over elements": lambda h: h.register_hook(native_hooks()[1]),
        "native node": lambda h: h.grad_fn.register_hook(native_hooks()[0]),
        "tensor": lambda h: h.register_hook(lambda g: None),
        "tensor, new gradient": lambda h: h.register_hook(lambda g: g),
        "retain_grad": lambda h: h.retain_grad(),
        "node": lambda h: h.grad_fn.register_hook(lambda grad_inputs, grad_outputs: None),
        "node prehook": lambda h: h.grad_fn.register_prehook(lambda grad_outputs: None),
    }
    params = list(KINDS)
    param_names = ["hook"]

    def setup(self, hook: str) -> None:
        self.x, self.y, self.g = ones(16, requires_grad=True), ones(16), ones(16)
        self.time_chain(hook)

    def time_chain(self, hook: str) -> None:
        attach = self.KINDS[hook]
        h = self.x
        for _ in range(CHAIN):
            h = h * self.y
            attach(h)
        h.backward(self.g)


class _Double(fg.autograd.Function):
    """Twice its input; keeps it for backward."""

    @staticmethod
    def forward(ctx: Any, x: fg.Tensor) -> fg.Tensor:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: fg.Tensor) -> fg.Tensor:
        (_,) = ctx.saved_tensors
        return grad * 2


class CustomFunction:
    """A chain of ten calls of a custom function, forward and backward."""

    def setup(self) -> None:
        self.x, self.g = ones(16, requires_grad=True), ones(16)
        self.time_chain()

    def time_chain(self) -> None:
        h = self.x
        for _ in range(CHAIN):
            h = _Double.apply(h)
        h.backward(self.g)


class PostAccumulateHooks:
    """A pass over 200 parameters, without and with a post-accumulate hook on each."""

    params = [False, True]
    param_names = ["hooks"]

    def setup(self, hooks: bool) -> None:
        self.parameters = [ones(4, requires_grad=True) for _ in range(200)]
        for p in self.parameters if hooks else ():
            p.register_post_accumulate_grad_hook(lambda leaf: None)
        self.time_pass(hooks)

    def time_pass(self, hooks: bool) -> None:
        h = self.parameters[0]
        for p in self.parameters[1:]:
            h = h + p
        h.sum().backward()


class Random:
    """A million random numbers of each kind and as many places in a triangle."""

    KINDS = {
        "uniform": lambda: fg.rand(1_000_000),
        "normal": lambda: fg.randn(1_000_000),
        "integers": lambda: fg.randint(0, 10, (1_000_000,)),
        "permutation": lambda: fg.randperm(1_000_000),
        "places": lambda: fg.tril_indices(1400, 1400),
    }
    params = list(KINDS)
    param_names = ["kind"]

    def setup(self, kind: str) -> None:
        self.time_draw(kind)

    def time_draw(self, kind: str) -> None:
        self.KINDS[kind]()


class DeepGraph:
    """A chain of 100,000 nodes: its backward pass, and dropping it without one."""

    DEPTH = 100_000
    # A graph serves one backward pass, so setup runs before every single timing.
    number, repeat, warmup_time = 1, (3, 8, 20.0), 0
    timeout = 120

    def setup(self) -> None:
        self.x, self.one = ones(1, requires_grad=True), ones(1)
        self.build(100).backward(self.one)
        self.end = self.build(self.DEPTH)

    def build(self, depth: int) -> fg.Tensor:
        h = self.x
        for _ in range(depth):
            h = h * self.one
        return h

    def time_backward(self) -> None:
        self.end.backward(self.one)

    def time_drop(self) -> None:
        self.end = None


class WideGraph:
    """A node whose result is used 10,000 times."""

    USERS = 10_000
    number, repeat, warmup_time = 1, (3, 8, 20.0), 0

    def setup(self) -> None:
        self.x, self.one = ones(1, requires_grad=True), ones(1)
        self.build(100).backward(self.one)
        self.end = self.build(self.USERS)

    def build(self, users: int) -> fg.Tensor:
        shared = self.x * self.one
        total = shared
        for _ in range(users - 1):
            total = total + shared
        return total

    def time_backward(self) -> None:
        self.end.backward(self.one)


STEP = """\
import fastgrad as fg, fastgrad.nn.functional as F
w = fg.randn(64, 10).requires_grad_()
optimizer = fg.optim.SGD([w], lr=0.1)
F.cross_entropy(F.relu(fg.randn(32, 64) @ w), fg.zeros(32, dtype=fg.int64)).backward()
optimizer.step()
"""
DEMO_STEP = """\
from fastgrad.demo import data, train
digits = data.load()
settings = train.Settings(epochs=1, batch_size=len(digits.train_y))
train.train(settings, digits)
"""


def seconds(code: str, **environment: str) -> float:
    """Run `code` in a fresh interpreter and return the seconds from start to exit."""
    path = os.pathsep.join([str(Path(fg.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path, **environment}, check=True
    )
    return time.perf_counter() - start


class Start:
    """From the interpreter's start to its exit, with a warm cache: the fastest of several, in seconds."""

    timeout = 300

    def setup(self) -> None:
        for code in (STEP, DEMO_STEP):
            seconds(code)

    def track_interpreter(self) -> float:
        return min(seconds("pass") for _ in range(3))

    def track_import(self) -> float:
        return min(seconds("import fastgrad") for _ in range(3))

    def track_first_step(self) -> float:
        return min(seconds(STEP) for _ in range(3))

    def track_demo_first_step(self) -> float:
        return min(seconds(DEMO_STEP) for _ in range(3))

    for _track in (track_interpreter, track_import, track_first_step, track_demo_first_step):
        _track.unit = "s"


class FirstRunEver:
    """The first training step with an empty cache: what there is to compile."""

    timeout = 300

    def track_first_step(self) -> float:
        with tempfile.TemporaryDirectory() as empty:
            return seconds(STEP, FASTGRAD_CACHE=empty)

    track_first_step.unit = "s"
