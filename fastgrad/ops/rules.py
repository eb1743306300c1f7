"""Rules: from one in the language of tensors to a program that the compiled sweep runs; rules made of others.

The rule is called once, with symbols for its tensors and for its integers; each op that it calls becomes an
instruction. The program holds no shapes: sizes and dimensions are read from the node when it runs. With
``create_graph`` the same rule is called on tensors instead.
"""

from __future__ import annotations

import ctypes
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from fastgrad.native.build.loader import TensorBase, rt
from fastgrad.native.contracts.ops import (
    ALL_GRADS,
    ENV_GRADS,
    ENV_INPUTS,
    ENV_OUTPUTS,
    ENV_RESULTS,
    ENV_WORDS,
    SOURCE_ATTR,
    SOURCE_ATTRS,
    SOURCE_CONST,
    SOURCE_INDEXED,
    SOURCE_INPUT,
    SOURCE_META,
    SOURCE_PREFIX,
)
from fastgrad.native.host.tables import BY_NAME
from fastgrad.ops.call import AllGradients, Symbol, invoke
from fastgrad.ops.saving import OUTPUTS

if TYPE_CHECKING:
    from fastgrad.ops.registry import Op

_programs: list[Any] = []  # the sweep reads them as long as the process lives


class Integer:
    """An integer (or a run of integers) that a rule reads from its node."""

    def __init__(self, kind: int, value: int) -> None:
        self.source = (kind, value)


class Trace:
    """The instructions of one rule."""

    def __init__(self) -> None:
        self.instructions: list[list[int]] = []
        self.result = -1

    def constant(self, value: Any) -> Symbol:
        """A number, as a tensor of its own."""
        if isinstance(value, float):
            handle = rt.wrapped_handle(1, value, 0)
        else:
            handle = rt.wrapped_handle(0, 0.0, int(value))
        return Symbol(self, -handle)  # it lives as long as the process

    def call(self, op: Op, tensors: Sequence[Any], attrs: Sequence[Any]) -> Symbol:
        """Append a call."""
        if isinstance(tensors[0], AllGradients):
            words = [op.id, ALL_GRADS]
        else:
            slots = [t.slot if isinstance(t, Symbol) else self.constant(t).slot for t in tensors]
            words = [op.id, len(slots), *slots]
        sources: list[tuple[int, int]] = []
        for attr in attrs:
            if isinstance(attr, Integer):
                sources.append(attr.source)
            elif isinstance(attr, int):
                sources.append((SOURCE_CONST, attr))
            else:
                for value in attr:
                    sources.append(value.source if isinstance(value, Integer) else (SOURCE_CONST, value))
        words.append(len(sources))
        for source in sources:
            words.extend(source)
        self.instructions.append(words)
        slot = ENV_RESULTS + len(self.instructions) - 1
        if slot >= ENV_WORDS:
            raise RuntimeError(f"a rule may call at most {ENV_WORDS - ENV_RESULTS} ops")
        return Symbol(self, slot)

    def install(self) -> int:
        """Write the program down for compiled code; returns its address."""
        words = [len(self.instructions), self.result]
        for instruction in self.instructions:
            words.extend(instruction)
        return install(words)


def install(words: Sequence[int]) -> int:
    """Write words down for compiled code; returns their address."""
    program = (ctypes.c_int64 * len(words))(*words)
    _programs.append(program)
    return ctypes.addressof(program)


def trace(op: Op, k: int, rule: Callable[..., Any]) -> Trace:
    """Trace the rule for input `k`."""
    t = Trace()
    arguments: dict[str, Any] = {}
    for name in inspect.signature(rule).parameters:
        arguments[name] = _argument(op, k, name, t)
    result = rule(**arguments)
    if not isinstance(result, Symbol):
        raise TypeError(f"the rule of {op.name} must return a tensor, but returned {type(result).__name__}")
    t.result = result.slot
    return t


def _argument(op: Op, k: int, name: str, t: Trace) -> Any:
    inputs = [n.lstrip("*") for n in op.inputs]
    attrs = [n.lstrip("*") for n in op.attrs]
    if name == "g":
        return Symbol(t, ENV_GRADS)
    if name == "gs":
        return AllGradients(t)
    if name in inputs:  # also if it is called like an output: the derivative of another op takes that one's
        return Symbol(t, ENV_INPUTS + inputs.index(name))
    if name in OUTPUTS:
        return Symbol(t, ENV_OUTPUTS + OUTPUTS.index(name))
    if name == "sizes":
        return Integer(SOURCE_META, -1)
    if name == "position":
        return Integer(SOURCE_INPUT, 0)
    star = len(attrs) - 1
    if name == "before":
        return Integer(SOURCE_PREFIX, star)
    if name == "own":
        return Integer(SOURCE_INDEXED, star)
    if name in attrs:
        index = attrs.index(name)
        return Integer(SOURCE_ATTRS if op.attrs[index].startswith("*") else SOURCE_ATTR, index)
    raise ValueError(
        f"the rule of {op.name} asks for {name!r}, which is no input, output or integer of the op"
    )


# --- rules made of formulas and of other rules -------------------------------------------------------------------


def anywhere(rule: Callable[..., Any], times_g: bool, inner: Op) -> Callable[..., Any]:
    """A derivative of an elementwise op on tensors. In a rule that is being traced it is the compiled loop, `inner`."""

    def apply(g: Any, **saved: Any) -> Any:
        if isinstance(g, Symbol):
            return invoke(inner, (g, *saved.values()))
        result = g * rule(**saved) if times_g else rule(g=g, **saved)
        if isinstance(result, TensorBase):
            return result
        sizes = rt.sizes(g)  # a number: zero, by what the numbers of the call are
        return invoke(BY_NAME["zeros_of"], (g,), len(sizes), sizes)

    return apply


def call_of(op: Op) -> Callable[..., Any]:
    """A rule that is one call of an op on the gradient and what it reads."""
    return lambda g, **saved: invoke(op, (g, *saved.values()))


def taking(names: Iterable[str], rule: Callable[..., Any]) -> Callable[..., Any]:
    """A rule that says which parameters it takes."""
    rule.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in names]
    )
    return rule


def with_settings(names: tuple[str, ...]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Let a rule take the integers of these names as one tuple, its parameter `settings`."""

    def wrap(rule: Callable[..., Any]) -> Callable[..., Any]:
        def apply(**given: Any) -> Any:
            settings = tuple(given.pop(name) for name in names)
            return rule(settings=settings, **given)

        others = [p for p in inspect.signature(rule).parameters if p != "settings"]
        return taking((*others, *names), apply)

    return wrap
