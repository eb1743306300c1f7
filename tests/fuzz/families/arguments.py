"""Every public callable in turn, each of its arguments in turn replaced by what it cannot be.

A seed is the number of a callable. Nothing is left to chance: as many seeds as there are callables run all of them.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import NamedTuple

import fastgrad as fg
from tests.fuzz import values
from tests.fuzz.families import names

WRONG = ("0", "2.5", "None", "'x'", "object()", "[]", "[None]", "{}", "fg.ones(2, 3)")

# Classes that cannot be made of what their parameters usually take.
MADE = {
    "fg.nn.Sequential": "fg.nn.Sequential(fg.nn.Linear(3, 3), fg.nn.ReLU())",
    "fg.nn.ModuleList": "fg.nn.ModuleList([fg.nn.Linear(3, 3)])",
    "fg.nn.ModuleDict": "fg.nn.ModuleDict({'x': fg.nn.Linear(3, 3)})",
    "fg.nn.ParameterList": "fg.nn.ParameterList([fg.ones(2, 3)])",
    "fg.nn.ParameterDict": "fg.nn.ParameterDict({'x': fg.ones(2, 3)})",
    "fg.utils.data.TensorDataset": "fg.utils.data.TensorDataset(fg.ones(3, 2))",
    "fg.utils.data.ConcatDataset": "fg.utils.data.ConcatDataset([[1, 2], [3]])",
    "fg.utils.data.StackDataset": "fg.utils.data.StackDataset([1, 2], [3, 4])",
    "fg.utils.data.WeightedRandomSampler": "fg.utils.data.WeightedRandomSampler([1.0, 2.0], 2)",
    "fg.utils.data.Subset": "fg.utils.data.Subset([1, 2, 3], [0])",
    "fg.Size": "fg.Size((2, 3))",
    "fg.device": "fg.device('cpu')",
}
SPECIAL = ("__call__", "__getitem__", "__setitem__", "__delitem__", "__contains__", "__setattr__", "__delattr__",
           "__iadd__", "__add__", "__mul__", "__setstate__", "__deepcopy__")  # fmt: skip


class Callable(NamedTuple):
    """The text of a callable, the name whose signature it has, and whether the first parameter is given already."""

    text: str
    signature: str
    bound: bool


@functools.cache
def callables() -> tuple[Callable, ...]:
    """All of them, in an order that stays."""
    return tuple(_callables())


def _callables() -> Iterator[Callable]:
    found = names.names()
    for kind in ("function", "class", "layer", "optimizer"):
        for name in found[kind]:
            yield Callable(name, name, False)
    yield from _methods("fg.rand(2, 3)", "fg.Tensor", object)
    yield from _methods("n", "fg.autograd.graph.Node", object)
    yield from _methods("fg.nn.Linear(3, 3)", "fg.nn.Module", object)
    yield from _methods(
        "fg.optim.SGD([fg.ones(2, requires_grad=True)], lr=0.1)", "fg.optim.Optimizer", object
    )
    for kind, base in (("class", object), ("layer", fg.nn.Module), ("optimizer", fg.optim.Optimizer)):
        for name in found[kind]:
            made = names.value_of(name)
            yield from _methods(instance(name), name, fg.Tensor if issubclass(made, fg.Tensor) else base)


def _methods(made: str, name: str, base: type) -> Iterator[Callable]:
    """The methods of an instance that its class does not have from `base`."""
    kind = names.value_of(name)
    for method in dir(kind):
        found = getattr(kind, method, None)  # some names are there for instances alone
        own = found is not getattr(base, method, None)
        public = method in SPECIAL or not method.startswith("_")
        if own and public and callable(found) and f"{name}.{method}" not in names.LEFT_OUT:
            yield Callable(f"{made}.{method}", f"{name}.{method}", True)


def instance(name: str) -> str:
    """An instance of a class."""
    return MADE.get(name) or f"{name}({_joined(_usual(names.parameters(name)))})"


def _usual(parameters: tuple[tuple[str, bool], ...]) -> dict[str, str]:
    """What the parameters without defaults usually take."""
    return {name: values.usual(name) for name, default in parameters if not default}


def _joined(given: dict[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in given.items())


def numbered(seed: int) -> list[str]:
    """The calls of callable number `seed`."""
    text, signature, bound = callables()[seed % len(callables())]
    parameters = names.parameters(signature)[bound:]
    steps = ["n = fg.ones(2, requires_grad=True).exp().grad_fn"]
    if not parameters:  # any number of arguments without a name
        calls = [f"{text}({before}{value})" for before in ("", "fg.rand(2, 3), ") for value in ("", *WRONG)]
    else:
        given = _usual(parameters)
        calls = [f"{text}({_joined({**given, name: value})})" for name, _ in parameters for value in WRONG]
    if text.rpartition(".")[2].startswith(names.PROCESS_WIDE):
        return [*steps, *(f"h = {call}\ncleanup.append(h.remove)" for call in calls)]
    return steps + calls
