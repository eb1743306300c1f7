"""What a program sees: parameters, modules with hooks, custom functions, numbers, and a log that hooks write to."""

from __future__ import annotations

import random
from typing import Any

import fastgrad as fg
import fastgrad.nn.functional as F
from fastgrad import nn
from fastgrad.autograd import Function
from fastgrad.autograd.graph import save_on_cpu, saved_tensors_hooks
from fastgrad.utils.checkpoint import checkpoint

WIDTH = 4


def seen(value: Any) -> Any:
    """A value as the log holds it, with the bits of its numbers."""
    if isinstance(value, fg.Tensor):
        return tuple(value.shape), str(value.dtype), str(value.detach().flatten().tolist())
    if isinstance(value, (tuple, list)):
        return tuple(map(seen, value))
    return repr(value)


class Scaled(Function):
    """A product with a vector and a number, which saves an input and an output."""

    @staticmethod
    def forward(ctx, x, w, number):
        y = x * w * number
        ctx.save_for_backward(x, w, y)
        ctx.number = number
        return y

    @staticmethod
    def backward(ctx, grad):
        x, w, y = ctx.saved_tensors
        return grad * w * ctx.number, (grad * x * ctx.number + 0 * y).sum(0), None


class Several(Function):
    """Two outputs with a derivative, one without."""

    @staticmethod
    def forward(x):
        return x.sin(), x * 2, (x > 0).to(x.dtype)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.mark_non_differentiable(output[2])

    @staticmethod
    def backward(ctx, a, b, _):
        (x,) = ctx.saved_tensors
        return a * x.cos() + b * 2


class Dirty(Function):
    """Changes its first argument in place."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(w)
        x.mul_(w)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        (w,) = ctx.saved_tensors
        return grad * w, None


class TanhInPlace(Function):
    """Changes its argument in place, and saves what it made of it."""

    @staticmethod
    def forward(ctx, x):
        x.tanh_()
        ctx.mark_dirty(x)
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return grad * (1 - y * y)


class TanhSaved(Function):
    """Saves what it returns, so that its second derivative comes to its backward again."""

    @staticmethod
    def forward(ctx, x):
        y = x.tanh()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return grad * (1 - y * y)


class Noisy(Function):
    """A product with random numbers, drawn by Python."""

    @staticmethod
    def forward(ctx, x, w):
        noise = fg.rand_like(x)
        ctx.save_for_backward(noise, w)
        return x * noise + w

    @staticmethod
    def backward(ctx, grad):
        noise, _ = ctx.saved_tensors
        return grad * noise, grad.sum(0)


class Cubed(Function):
    """A function with derivatives of every order, which saves inputs alone."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x**3 * w

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        return 3 * grad * x * x * w, (grad * x**3).sum(0)


def _clipped(grad, state):
    for i in range(grad.size):
        if abs(grad[i]) > state[0]:
            state[1] += 1
            grad[i] = state[0] if grad[i] > 0 else -state[0]


def _clipped_by_python(grad):
    return grad.clamp(-0.5, 0.5)


class Block(nn.Module):
    """Layers that a checkpoint may hold."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.linear, self.w, self.kind = nn.Linear(WIDTH, WIDTH), nn.Parameter(fg.ones(WIDTH) * 0.7), kind

    def forward(self, x):
        h = self.linear(x)
        if self.kind == "function":
            h = Scaled.apply(h, self.w, 1.5)
        elif self.kind == "dropout":
            h = F.dropout(h, 0.5, self.training) * self.w
        elif self.kind == "residual":
            h = x + h.relu() * self.w
        elif self.kind == "norm":
            h = F.layer_norm(h, (WIDTH,), self.w)
        return h.tanh()


KINDS = ("function", "dropout", "residual", "norm", "plain")
HOOKS = {
    "register_forward_pre_hook": lambda args: (args[0] * 0.5,),
    "register_forward_hook": lambda args, out: (out * 2).sin(),
    "register_full_backward_pre_hook": lambda go: tuple(g * 1.5 for g in go),
    "register_full_backward_hook": lambda gi, go: tuple(None if g is None else g * 0.5 for g in gi),
}
GRADIENT_HOOKS = {
    "look": lambda g: None,
    "scale": lambda g: g * 2,
    "in place": lambda g: g.mul_(0.5) and None if g.dim() == 0 else (g.mul_(0.5), None)[1],
    "same": lambda g: g,
    "clamp": lambda g: g.clamp(-1, 1),
    "sometimes": lambda g: g * 3 if g.sum().item() > 0 else None,
}


class World:
    """One of the two: what the code of a program names."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(f"world {seed}")
        self.log: list[Any] = []
        fg.manual_seed(seed)
        self.model = nn.Sequential(*(Block(rng.choice(KINDS)) for _ in range(rng.randrange(1, 3))))
        self.block = Block(rng.choice(KINDS))
        self.leaves = [
            nn.Parameter(fg.randn(WIDTH, WIDTH)), nn.Parameter(fg.randn(WIDTH)), fg.randn(WIDTH, requires_grad=True),
        ]  # fmt: skip
        self.frozen, self.total = fg.randn(WIDTH), fg.zeros(())
        self.normed = nn.BatchNorm1d(WIDTH)
        for m in [*self.model.modules(), self.block]:
            for kind in HOOKS:
                if rng.random() < 0.12:
                    self.add_hook(m, kind, rng.random() < 0.5)
        for k, leaf in enumerate(self.leaves):
            if rng.random() < 0.4:
                leaf.register_hook(self.noted(f"leaf {k}", rng.choice(list(GRADIENT_HOOKS))))
            if rng.random() < 0.2:
                leaf.register_post_accumulate_grad_hook(self.after(k))
        parameters = [
            *self.model.parameters(),
            *self.block.parameters(),
            *self.normed.parameters(),
            *self.leaves,
        ]
        make = rng.choice([fg.optim.SGD, fg.optim.Adam, None])
        self.optimizer = make(parameters, lr=0.05) if make else None
        buffers = [*self.model.buffers(), *self.normed.buffers()]
        self.tensors = [*parameters, *buffers, self.total]
        self.clip = _clipped_by_python
        if fg.get_default_device().type == "cpu":  # functions on arrays are hooks of the host alone
            self.clip = fg.native_hook(_clipped, state=fg.tensor([0.5, 0.0]), constant=True)
            self.tensors.append(self.clip.state)
        self.number, self.flag, self.table = 1.5, True, {"a": 2.0, "b": [1, 0.5]}
        self.scope = {
            "fg": fg, "F": F, "checkpoint": checkpoint, "saved_tensors_hooks": saved_tensors_hooks,
            "Scaled": Scaled, "Several": Several, "Dirty": Dirty, "world": self, "model": self.model,
            "block": self.block, "w0": self.leaves[0], "w1": self.leaves[1], "w2": self.leaves[2],
            "frozen": self.frozen, "total": self.total, "optimizer": self.optimizer, "noted": self.noted,
            "node_hook": self.node_hook, "Noisy": Noisy, "Cubed": Cubed, "normed": self.normed,
            "save_on_cpu": save_on_cpu, "clip": self.clip, "TanhInPlace": TanhInPlace, "TanhSaved": TanhSaved,
            "pair": (self.pack, self.unpack), "total_of": self.total_of,
        }  # fmt: skip

    def total_of(self, t: Any) -> Any:
        """A change of a tensor from outside."""
        with fg.no_grad():
            self.total.add_(t.detach().mean() * 0.1)
        return 1.0

    # --- hooks -------------------------------------------------------------------------------------------------

    def pack(self, t: Any) -> Any:
        self.log.append(("pack", seen(t)))
        return t.detach() * 2

    def unpack(self, t: Any) -> Any:
        self.log.append(("unpack", seen(t)))
        return t / 2

    def noted(self, name: str, how: str) -> Any:
        """A hook on a gradient that writes to the log."""
        log, change = self.log, GRADIENT_HOOKS[how]

        def hook(g):
            log.append((name, seen(g)))
            return change(g)

        return hook

    def after(self, k: int) -> Any:
        log = self.log

        def hook(p):
            log.append((f"leaf {k} after", seen(p.grad)))

        return hook

    def node_hook(self, name: str, changes: bool) -> Any:
        log = self.log

        def hook(*grads):
            log.append((name, seen(grads)))
            return tuple(None if g is None else g * 2 for g in grads[0]) if changes else None

        return hook

    def add_hook(self, module: Any, kind: str, changes: bool) -> Any:
        log, change = self.log, HOOKS[kind]

        def hook(m, *rest):
            log.append((kind, seen(rest)))
            return change(*rest) if changes else None

        return getattr(module, kind)(hook)
