"""Draws a program from a seed: the source of a function, and what changes before each of its calls."""

from __future__ import annotations

import random
from typing import NamedTuple

N_CALLS = 6
UNARY = (
    "{a}.tanh()", "{a}.sigmoid()", "{a}.relu()", "-{a}", "{a}.abs()", "F.gelu({a})", "{a}.clamp(-1, 1)", "{a} ** 2",
    "{a}.sin()", "F.softmax({a}, -1)", "{a} * world.number", "{a} + world.table['a']", "{a} * number",
    "({a} if world.flag else -{a}) * 1", "F.dropout({a}, 0.5)", "{a} + fg.rand_like({a}) * 0.1", "{a}.detach() + {a}",
    "{a}.to(fg.float64).exp().clamp(max=3).to(fg.float32)", "{a}.cumsum(-1)", "{a}.sort(-1)[0]",
)  # fmt: skip
BINARY = (
    "{a} + {b}", "{a} - {b}", "{a} * {b}", "fg.maximum({a}, {b})", "{a} / ({b}.abs() + 1)",
    "fg.where({a} > {b}, {a}, {b})", "fg.lerp({a}, {b}, 0.3)", "fg.addcmul({a}, {a}, {b}, value=0.5)",
)  # fmt: skip
VIEWS = (
    "{a}.t().contiguous().t()", "{a}.unsqueeze(0)[0]", "{a}[:, 1:3].sum(1, keepdim=True) + {a}",
    "{a} + {a}.reshape(-1)[:1]", "fg.cat([{a}[:, 2:], {a}[:, :2]], 1)", "{a}.expand(2, *{a}.shape)[1]",
    "{a}.view({a}.shape).transpose(0, 1).transpose(0, 1)", "fg.stack([{a}, {a}]).sum(0)", "{a} - {a}.mean(0)",
)  # fmt: skip
LAYERS = (
    "{a} @ w0", "{a} * w1 + w2", "F.linear({a}, w0, w1)", "model({a})", "block({a})", "model[0]({a}) + {a}",
    "{a} * frozen", "{a} + w0[1]",
)  # fmt: skip
FUNCTIONS = (
    "Scaled.apply({a}, w1, 1.5)", "Scaled.apply({a}, w2, world.number)", "Several.apply({a})[0]",
    "sum(Several.apply({a}))", "Dirty.apply({a} * 1, frozen)", "Dirty.apply({a}.clone(), w1)", "Noisy.apply({a}, w2)",
    "TanhInPlace.apply({a} * 1)",
)  # fmt: skip
CHECKPOINTS = (
    "checkpoint(block, {a}, use_reentrant=False)", "checkpoint(model, {a}, use_reentrant=False)",
    "checkpoint(lambda t: (t * w1).tanh() @ w0, {a}, use_reentrant=False)",
    "checkpoint(lambda t: Scaled.apply(t.sin(), w2, 0.5), {a}, use_reentrant=False)",
    "checkpoint(lambda t: Scaled.apply(Noisy.apply(t, w1), w2, 0.5).sin(), {a}, use_reentrant=False)",
    "checkpoint(lambda t: Several.apply(block(t))[0] * w1, {a}, use_reentrant=False, early_stop=False)",
    "checkpoint(lambda t: checkpoint(block, t, use_reentrant=False).cos(), {a}, use_reentrant=False)",
    "checkpoint(lambda t: checkpoint(lambda s: Noisy.apply(s, w1), t * w2, use_reentrant=False) * w1, {a}, "
    "use_reentrant=False)",
    "checkpoint(lambda t: t * w1 + total_of(t), {a}, use_reentrant=False)",
    "checkpoint(normed, {a}, use_reentrant=False)",
    "checkpoint(model, {a} * 1, use_reentrant=True)",
)  # fmt: skip
STATEMENTS = (
    "{n} = {a} * 1\n{n}.mul_(0.5).add_({b})", "{n} = {a}.clone()\n{n}[0:1] += 1", "{n} = {a} * 2\n{n}[1:].mul_(-1)",
    "{n} = {a} * 1\n{n} += {b}", "{n} = {a} * 1\nDirty.apply({n}, frozen)",
    "{n} = {a} * w1\nDirty.apply({n}[1:], frozen)\nTanhInPlace.apply({n})",
    "with fg.no_grad():\n    {n} = {a}.exp().clamp(-2, 2)",
    "with fg.no_grad():\n    total.add_({a}.detach().mean() * 0.1)",
    "{n} = {a} * 1\nif {n}.requires_grad:\n    {n}.register_hook(noted('{n}', '{how}'))",
    "{n} = {a} * 1\nif {n}.requires_grad:\n    {n}.grad_fn.register_prehook(node_hook('pre {n}', {flag}))",
    "{n} = {a} * 1\nif {n}.requires_grad:\n    {n}.grad_fn.register_hook(node_hook('post {n}', {flag}))",
    "{n} = {a} * 1\nif {n}.requires_grad:\n    {n}.retain_grad()",
    "{n} = {a} * 1\nif {n}.requires_grad:\n    {n}.register_hook(clip)",
    "{n} = {a}.sin()\nif {n}.requires_grad:\n    {n}.grad_fn.register_{kind}(clip)",
    "with saved_tensors_hooks(lambda t: t.detach() * 2, lambda t: t / 2):\n    {n} = ({a} * w1).tanh()",
    "with saved_tensors_hooks(*pair):\n    {n} = Scaled.apply({a}, w1, 0.5) + block({b})",
    "with save_on_cpu():\n    {n} = Noisy.apply(model({a}), w1)",
    "with saved_tensors_hooks(*pair):\n    {n} = checkpoint(block, {a}, use_reentrant=False)",
    "if float({a}.detach().sum()) > 0:\n    {n} = {a} * 2\nelse:\n    {n} = {a} * 3",
    "{n} = {a} * (2 if mode == 'a' else 3 if mode is None else 1)",
    "{n} = {a} * extra['k'] + extra['t'][0]",
    "(g_{n},) = fg.autograd.grad(({a} * w1).sum(), [w1], retain_graph=True)\n{n} = {a} + g_{n}",
    "(g_{n},) = fg.autograd.grad((({a} * w1) ** 2).sum(), [w1], create_graph=True)\n{n} = {a} + g_{n}",
    "(g_{n},) = fg.autograd.grad(Cubed.apply({a} * w2, w1).tanh().sum(), [w1], create_graph=True)\n{n} = {a} + g_{n}",
    "(g_{n},) = fg.autograd.grad(TanhSaved.apply({a} * w2).sin().sum(), [w2], create_graph=True)\n{n} = {a} + g_{n}",
    "s_{n} = TanhSaved.apply({a} * w1)\n(g_{n},) = fg.autograd.grad((s_{n} ** 2).sum(), [w1], create_graph=True)\n"
    "{n} = s_{n} + TanhSaved.apply(g_{n})",
    "x_{n} = {a}.detach().requires_grad_()\n"
    "(g_{n},) = fg.autograd.grad(block(Cubed.apply(x_{n}, w1)).sum(), [x_{n}], create_graph=True)\n"
    "{n} = {a} + (g_{n}.norm(dim=1, keepdim=True) - 1) ** 2",
    "x_{n} = {a}.detach().requires_grad_()\nh_{n} = (x_{n} * w1).sin()\nif h_{n}.requires_grad:\n"
    "    h_{n}.register_hook(noted('{n}', '{how}'))\n    h_{n}.grad_fn.register_hook(node_hook('post {n}', {flag}))\n"
    "(g_{n},) = fg.autograd.grad(model(h_{n}).sum(), [x_{n}], create_graph=True)\n{n} = {a} * (1 + g_{n} ** 2)",
    "for _ in range(2):\n    {n} = {a}.tanh()\n    {a} = {n} + {b}",
)  # fmt: skip
SHARES = (
    (UNARY, 28),
    (BINARY, 20),
    (VIEWS, 8),
    (LAYERS, 18),
    (FUNCTIONS, 8),
    (CHECKPOINTS, 8),
    (STATEMENTS, 14),
)
BACKWARD = (
    ("loss.backward()", 8), ("loss.backward(retain_graph=True)\nloss.backward()", 2),
    ("loss.backward(create_graph=True)", 1), ("(loss * 2).backward()\n", 1),
    ("grads = fg.autograd.grad(loss, [w0, w1], allow_unused=True)", 1),
)  # fmt: skip
CHANGES = (
    "nothing", "nothing", "nothing", "size", "number", "flag", "table", "train", "add hook", "remove hook", "parameter",
    "no grads", "zero grads", "no grad", "argument wants", "strides", "alias", "view of a parameter", "empty", "mode",
    "extra", "freeze", "in place", "leaf hook", "float64", "autocast", "dtype", "overlap", "fresh extra",
)  # fmt: skip


class Program(NamedTuple):
    """A program.

    Attributes
    ----------
    seed : int
    form : str
        "step", "forward" or "nothing" for what is never differentiated.
    source : str
    changes : tuple of (str, int)
        What changes before each call, and a number for it.
    """

    seed: int
    form: str
    source: str
    changes: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        return f"# seed {self.seed}, {self.form}\n{self.source}\n# {self.changes}"


def draw(seed: int) -> Program:
    """The program of a seed."""
    rng = random.Random(f"step {seed}")
    form = rng.choice(["step", "step", "step", "forward", "forward"])
    wild = rng.random() < 0.5
    changes = [
        (rng.choice(CHANGES) if wild and k else "nothing", rng.randrange(1000)) for k in range(N_CALLS)
    ]
    return Program(seed, form, source_of(rng, form), tuple(changes))


def source_of(rng: random.Random, form: str) -> str:
    """The source of a function of that form."""
    names = ["x", "y", "x", "y"]
    body: list[str] = []
    for k in range(rng.randrange(2, 10)):
        table = rng.choices([t for t, _ in SHARES], [n for _, n in SHARES])[0]
        names.append(f"t{k}")
        words = {
            "a": rng.choice(names[-5:-1]), "b": rng.choice(names[:-1]), "n": f"t{k}",
            "how": rng.choice(("look", "scale", "in place", "same", "clamp", "sometimes")),
            "flag": rng.random() < 0.4, "kind": rng.choice(("prehook", "hook")),
        }  # fmt: skip
        text = rng.choice(table)
        if table is STATEMENTS:
            body += text.format(**words).split("\n")
            if "{n} =" not in text:
                names.pop()
        else:
            body.append(f"t{k} = {text.format(**words)}")
    last = f"({names[-1]}.sum() + ({rng.choice(names)} * w1).mean() + ({rng.choice(names)} @ w0).sum() * 0.1)"
    kept = rng.choice(names)
    if form == "step":
        body.insert(
            0,
            rng.choice(["optimizer and optimizer.zero_grad()", "w0.grad = w1.grad = w2.grad = None", "pass"]),
        )
        body.append(f"loss = {last}")
        backward = rng.choices([b for b, _ in BACKWARD], [n for _, n in BACKWARD])[0]
        if any(
            ".requires_grad_()" in line for line in body
        ):  # such a leaf and its gradient would hold each other
            backward = backward.replace("create_graph", "retain_graph")
        body += backward.split("\n")
        body.append(rng.choice(["if optimizer:\n        optimizer.step()", "pass"]))
        result = rng.choice(
            [f"loss.detach(), {kept}.detach() * 1", "loss.item()", "{'a': loss.detach(), 'b': [1, None]}"]
        )
    else:
        keeps = [f"kept = {kept} * 1", "if kept.requires_grad:\n        kept.retain_grad()"]
        choices = [
            ([], last), ([], f"({last}, {kept} * 1)"), ([], f"{{'loss': {last}, 'other': [{kept} * 2, 3]}}"),
            (keeps, f"({last.replace(kept, 'kept')}, kept)"), (keeps, f"[{last} + kept.mean(), kept, kept * 2]"),
        ]  # fmt: skip
        before, result = rng.choice(choices)
        body += before
    lines = "\n    ".join([*body, f"return {result}"])
    return f"def step(x, y, number=2.0, mode='a', extra=None):\n    {lines}\n"
