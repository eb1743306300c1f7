"""Every public name with arguments that it does not expect.

A call starts from what the names of the parameters ask for, and then some arguments are replaced, left out, doubled
or given by keyword; or it is made of arbitrary values from the start.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import random
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import fastgrad as fg
from tests.fuzz import values

MODULES = (
    "", "autograd", "autograd.graph", "autograd.function", "dtypes", "debug", "linalg", "nn",
    "nn.functional", "nn.init", "nn.utils", "nn.utils.rnn", "nn.modules.module", "optim", "optim.lr_scheduler",
    "optim.optimizer", "serialization", "utils.checkpoint", "utils.data", "utils.hooks",
)  # fmt: skip

# Names that are not called, and why.
LEFT_OUT = {
    "fg.warmup": "compiles for minutes, as it should",
    "fg.debug.environment": "imports Numba",
    "fg.debug.set_memory_limit": "the limit is what keeps the process alive",
    "fg.autograd.graph.queue_callback": "family `hooks` calls it inside of passes",
    "fg.utils.data.IterableDataset": "has no methods of its own",
    "fg.serialization.save": "makes files of any name; family `files` saves",
    "fg.save": "the same",
}
PROCESS_WIDE = ("register_module_", "register_optimizer_")  # hooks of all modules: taken away by a handle

ARITHMETIC = ("+", "-", "*", "/", "//", "%", "**", "@", "&", "|", "^")
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
SPECIAL = (
    "-{a}", "+{a}", "~{a}", "abs({a})", "bool({a})", "int({a})", "float({a})", "len({a})", "hash({a})", "repr({a})",
    "str({a})", "list({a})", "{v} in {a}", "{a}[{v}]", "{a}[{v}, {w}]", "divmod({a}, {v})", "round({a}, {v})",
    "copy.copy({a})", "copy.deepcopy({a})", "pickle.loads(pickle.dumps({a}))", "np.asarray({a})", "np.add({a}, {v})",
    "np.array({a}, dtype={v})", "format({a}, {v})", "complex({a})", "fg.from_dlpack({a})", "dir({a})",
    "{a}.__dlpack__({v})", "{a}.__deepcopy__({v})", "{a}.__array__({v})", "iter({a})", "range({a})", "[1, 2, 3][{a}]",
    "sum([{a}, {v}])", "max({a}, {v})", "{a}.__reduce_ex__({v})", "{a}.__class__({v})", "{a}.__setstate__({v})",
)  # fmt: skip


def modules() -> Iterator[tuple[str, ModuleType]]:
    for name in MODULES:
        yield f"fg.{name}".rstrip("."), importlib.import_module(f"fastgrad.{name}".rstrip("."))


def public(path: str, module: ModuleType) -> Iterator[tuple[str, Any]]:
    listed = getattr(module, "__all__", None) or sorted(
        n for n, v in vars(module).items() if getattr(v, "__module__", "") == module.__name__
    )
    for name in sorted(listed):
        value = getattr(module, name)
        if (
            not name.startswith("_")
            and not isinstance(value, ModuleType)
            and f"{path}.{name}" not in LEFT_OUT
        ):
            yield f"{path}.{name}", value


@functools.cache
def names() -> dict[str, tuple[str, ...]]:
    """What is called, by kind: functions, classes, layers, optimizers; members of tensors and of nodes."""
    found: dict[str, list[str]] = {"function": [], "class": [], "layer": [], "optimizer": []}
    for path, module in modules():
        for name, value in public(path, module):
            if isinstance(value, type):
                kind = "layer" if issubclass(value, fg.nn.Module) else "class"
                kind = "optimizer" if issubclass(value, fg.optim.Optimizer) else kind
                found[kind].append(name)
            elif callable(value):
                found["function"].append(name)
    members = {
        "tensor": fg.Tensor,
        "node": fg.autograd.graph.Node,
        "module": fg.nn.Module,
        "step": fg.optim.Optimizer,
    }
    for kind, owner in members.items():
        called = {n: callable(getattr(owner, n)) for n in dir(owner) if not n.startswith("__")}
        found[kind] = [n for n, is_called in called.items() if is_called and not n.startswith("_")]
        found[f"{kind} attribute"] = [n for n, is_called in called.items() if not is_called]
    return {kind: tuple(listed) for kind, listed in found.items()}


def value_of(text: str) -> Any:
    out: Any = fg
    for name in text.split(".")[1:]:
        out = getattr(out, name)
    return out


@functools.cache
def parameters(text: str) -> tuple[tuple[str, bool], ...]:
    """The names of a callable's parameters with whether they have defaults; empty if nobody says."""
    try:
        listed = inspect.signature(value_of(text)).parameters.values()
    except (AttributeError, TypeError, ValueError):
        return ()
    named = (
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        inspect.Parameter.KEYWORD_ONLY,
        inspect.Parameter.POSITIONAL_ONLY,
    )
    return tuple((p.name, p.default is not p.empty) for p in listed if p.kind in named)


def arguments(rng: random.Random, text: str, bound: bool = False) -> str:
    """The arguments of a call, more or less as they should be; `bound` leaves out the first."""
    wanted = parameters(text)[bound:]
    if not wanted or rng.random() < 0.2:
        return ", ".join(values.hostile(rng) for _ in range(rng.choice((0, 1, 1, 2, 2, 3, 4))))
    given = [
        (name, values.typical(rng, name)) for name, default in wanted if not default or rng.random() < 0.3
    ]
    given = [(name, values.hostile(rng) if rng.random() < 0.35 else text) for name, text in given]
    cut = rng.randrange(len(given) + 1) if rng.random() < 0.4 else len(given)
    positional, keywords = [text for _, text in given[:cut]], dict(given[cut:])
    if positional and rng.random() < 0.1:
        positional.pop(0)
    if rng.random() < 0.1:
        positional.append(values.hostile(rng))
    if rng.random() < 0.1:
        keywords[rng.choice(("dim", "out", "dtype", "x", "reduction", "self"))] = values.hostile(rng)
    return ", ".join([*positional, *(f"{name}={text}" for name, text in keywords.items())])


def draw(rng: random.Random) -> list[str]:
    steps: list[str] = []
    for k in range(rng.randint(1, 4)):
        steps += rng.choices(KINDS, WEIGHTS)[0](rng, f"r{k}")
    return steps


def a_function(rng: random.Random, out: str) -> list[str]:
    name = rng.choice(names()["function"])
    if name.rpartition(".")[2].startswith(PROCESS_WIDE):
        return [f"{out} = {name}({arguments(rng, name)})", f"cleanup.append({out}.remove)"]
    return [f"{out} = {name}({arguments(rng, name)})", f"use({out})"]


def a_method(rng: random.Random, out: str) -> list[str]:
    name = rng.choice(names()["tensor"])
    text = f"fg.Tensor.{name}"
    if rng.random() < 0.15:  # not bound, perhaps to something else
        return [f"{out} = {text}({values.hostile(rng)}, {arguments(rng, text, True)})", f"use({out})"]
    return [
        f"t = {values.tensor(rng)}",
        f"{out} = t.{name}({arguments(rng, text, True)})",
        f"use({out})",
        "use(t)",
    ]


def an_operator(rng: random.Random, out: str) -> list[str]:
    a, v, w = values.tensor(rng), values.hostile(rng), values.hostile(rng)
    operator = rng.choice((*ARITHMETIC, *COMPARISONS))
    statements = rng.choice((
        [f"{out} = {a} {operator} {v}"],
        [f"{out} = {v} {operator} {a}"],
        [f"{out} = {a}", f"{out} {rng.choice(ARITHMETIC)}= {v}"],
        [f"{out} = {a}", f"{out}[{v}] = {w}"],
        [f"{out} = {rng.choice(SPECIAL).format(a=f'({a})', v=v, w=w)}"],
    ))  # fmt: skip
    return [*statements, f"use({out})"]


def an_attribute(rng: random.Random, out: str) -> list[str]:
    kind, owner = rng.choice((("tensor", values.tensor(rng)), ("node", rng.choice(values.NODES))))
    name = rng.choice(names()[f"{kind} attribute"])
    text = rng.choice((f"use(t.{name})", f"t.{name} = {values.hostile(rng)}", f"del t.{name}"))
    return [
        f"t = {owner}",
        text,
        *(["u = (t * t).sum()", "u.backward()", "use(t)"] if kind == "tensor" else ["use(t)"]),
    ]


def a_node(rng: random.Random, out: str) -> list[str]:
    name = rng.choice((*names()["node"], "__call__"))
    return [
        f"n = {rng.choice(values.NODES)}",
        f"{out} = n.{name}({arguments(rng, f'fg.autograd.graph.Node.{name}', True)})",
        "use(n)",
    ]


def a_class(rng: random.Random, out: str) -> list[str]:
    name = rng.choice(names()["class"])
    form = rng.choice(("{c}({a})", "{c}({a})", "{c}.__new__({c}, {a})", "object.__new__({c})", "{c}.__new__({v}, {a})",
                       "type('Sub', ({c},), {{}})({a})"))  # fmt: skip
    call = form.format(c=name, a=arguments(rng, name), v=values.hostile(rng))
    methods = [m for m in dir(value_of(name)) if not m.startswith("_")] or ["x"]
    method = rng.choice(methods)
    return [
        f"{out} = {call}",
        f"use({out}.{method})",
        f"{out}.{method}({arguments(rng, f'{name}.{method}', True)})",
        f"use({out})",
    ]


def a_layer(rng: random.Random, out: str) -> list[str]:
    name = rng.choice(names()["layer"])
    steps = [f"{out} = {name}({arguments(rng, name)})"]
    method = rng.choice(names()["module"])
    given = arguments(rng, f"{name}.forward", True) if rng.random() < 0.7 else values.hostile(rng)
    steps += rng.sample((f"use({out}({given}))", f"{out}.{method}({arguments(rng, f'fg.nn.Module.{method}', True)})",
                         f"{out}.{rng.choice(('weight', 'bias', 'x', 'training'))} = {values.hostile(rng)}"), 2)  # fmt: skip
    return [*steps, f"use({out})", f"use({out}(fg.rand(2, 3)))"]


def an_optimizer(rng: random.Random, out: str) -> list[str]:
    name = rng.choice(names()["optimizer"])
    params = rng.choice(("[p]", "[p, p]", "[{'params': [p], 'lr': 0.1}]", values.hostile(rng)))
    method = rng.choice(names()["step"])
    setting = rng.choice(("lr", "momentum", "betas", "eps", "weight_decay", "params"))
    return [
        "p = fg.ones(2, 3, requires_grad=True)", "(p * p).sum().backward()",
        f"{out} = {name}({params}, lr=0.1)", f"{out}.step()",
        rng.choice((f"{out}.{method}({arguments(rng, f'fg.optim.Optimizer.{method}', True)})",
                    f"{out}.param_groups[0]['{setting}'] = {values.hostile(rng)}",
                    f"p.grad = {values.hostile(rng)}", f"p.data = {values.hostile(rng)}",
                    f"{out}.state[p] = {values.hostile(rng)}",
                    f"{out}.state[p][list({out}.state[p])[0]] = {values.hostile(rng)}")),
        f"{out}.step()", "use(p)",
    ]  # fmt: skip


KINDS = (a_function, a_method, an_operator, an_attribute, a_node, a_class, a_layer, an_optimizer)
WEIGHTS = (30, 25, 15, 8, 4, 6, 12, 5)
