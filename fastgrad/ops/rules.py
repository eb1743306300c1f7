"""Rules: from one in the language of tensors to a program that the compiled sweep runs; rules made of others.

The rule is called once, with symbols for its tensors and for its integers; each op that it calls becomes an
instruction. The program holds no shapes: sizes and dimensions are read from the node when it runs. For passes with
``create_graph`` there is a second one (`ops.recorded`), or the same rule is called on tensors instead.
"""

from __future__ import annotations

import ctypes
import functools
import inspect
import numbers
import operator
from array import array
from collections.abc import Callable, Iterable, Sequence
from functools import partialmethod
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from fastgrad.native.build.loader import TensorBase, rt
from fastgrad.native.contracts.element_types import COMPLEX, INT64
from fastgrad.native.contracts.limits import SAVED_INPUTS
from fastgrad.native.contracts.ops import (
    ALL_GRADS,
    ELEMENTWISE,
    ENV_ABSENT,
    ENV_GRADS,
    ENV_RESULTS,
    ENV_SAVED,
    ENV_WORDS,
    SOURCE_ATTR,
    SOURCE_ATTRS,
    SOURCE_CONST,
    SOURCE_INDEXED,
    SOURCE_INPUT,
    SOURCE_META,
    SOURCE_PREFIX,
)
from fastgrad.native.contracts.records import TENSOR
from fastgrad.native.host.tables import BY_NAME
from fastgrad.ops.call import COMPLEX_NUMBER, AllGradients, Symbol, Traced, float_bits, float_of_bits, invoke
from fastgrad.ops.saving import OUTPUTS

if TYPE_CHECKING:
    from fastgrad.ops.registry import Op

_DTYPE, _DATA = (TENSOR.fields[name][0] for name in ("dtype", "data"))
_programs: list[array[int]] = []  # the sweep reads them as long as the process lives


class Recorded(NamedTuple):
    """The op that stands for gradients of inputs of another one: see `Op.recorded_by`."""

    op: Op
    read: tuple[str, ...]
    results: tuple[int | str, ...]


class Integer(Traced):
    """An integer (or a run of integers) that a rule reads from its node."""

    def __init__(self, kind: int, value: int) -> None:
        self.source = (kind, value)


def number_words(value: Any) -> tuple[int, int, int]:
    """What a number of a rule is made of: its kind, the bits of a float, and the bits of an imaginary part or an int.

    Raises
    ------
    TypeError
        For what is no number: a tensor, say, whose value would be that of the time at which the rule was declared.
    OverflowError
        For an int of more than 64 bits.
    """
    if isinstance(value, numbers.Integral):
        return 0, 0, array("q", (int(value),))[0]
    if isinstance(value, numbers.Real):
        return 1, float_bits(float(value)), 0
    if isinstance(value, numbers.Complex):
        value = complex(value)
        return COMPLEX_NUMBER, float_bits(value.real), float_bits(value.imag)
    raise TypeError(
        f"a rule calculates with what it takes and with numbers, but this is a {type(value).__name__}"
    )


@functools.cache
def _number(kind: int, bits: int, word: int) -> int:
    """The handle of a number of rules, which lives as long as the process."""
    handle = rt.wrapped_handle(kind, float_of_bits(bits), word)
    lasting_addresses.add(ctypes.c_int64.from_address(handle + 8 * _DATA).value)
    return handle  # type: ignore[no-any-return]


lasting_addresses: set[int] = set()
"""Where the numbers of rules lie."""


class LongRuleError(RuntimeError):
    """A rule calls more ops than a program has room for."""


class Trace:
    """The instructions of one rule.

    Parameters
    ----------
    recorded : bool
        Whether what the program calls is recorded when it runs. Then derivatives of elementwise ops are made of ops
        that have nodes, and an operator on a number is the op that it is on tensors.

    Attributes
    ----------
    takes_numbers : int
        A mask of the saved inputs which may be numbers of the call, because they only stand behind a tensor, where a
        number does the same.
    """

    def __init__(self, recorded: bool = False) -> None:
        self.instructions: list[list[int]] = []
        self.result = -1
        self.recorded = recorded
        self.takes_numbers = (1 << SAVED_INPUTS) - 1

    def symbol(self, slot: int) -> Symbol:
        """What stands for a tensor."""
        return (_RecordedSymbol if self.recorded else Symbol)(self, slot)

    def constant(self, value: Any) -> Symbol:
        """A number, as a tensor of its own."""
        return self.symbol(-_number(*number_words(value)))

    def call(self, op: Op, tensors: Sequence[Any], attrs: Sequence[Any]) -> Symbol:
        """Append a call."""
        if isinstance(tensors[0], AllGradients):
            words = [op.id, ALL_GRADS]
        else:
            words = [op.id, len(tensors), *map(self._slot, tensors)]
            self._note_numbers(op, words[2:])
        at = len(words)
        words.append(0)
        for attr in attrs:
            for value in (attr,) if isinstance(attr, (int, Integer)) else attr:
                words += value.source if isinstance(value, Integer) else (SOURCE_CONST, operator.index(value))
        words[at] = (len(words) - at - 1) // 2
        return self._appended(words)

    def _note_numbers(self, op: Op, slots: Sequence[int]) -> None:
        saved = [slot - ENV_SAVED for slot in slots if 0 <= slot - ENV_SAVED < SAVED_INPUTS]
        behind_a_tensor = (
            op.kind == ELEMENTWISE and op.numbered is None and len(slots) == 2 and len(saved) == 1
        )
        if behind_a_tensor and slots[1] == ENV_SAVED + saved[0]:
            return
        for place in saved:
            self.takes_numbers &= ~(1 << place)

    def of_integer(self, value: Integer) -> Symbol:
        """An integer of the node as a tensor without dimensions, where a rule calculates with it."""
        if self.recorded:
            raise TypeError("in what is recorded, a rule calculates with an integer as with a number")
        if value.source[0] != SOURCE_ATTR:
            int(value)  # raises: it is more than one number
        sources = [(SOURCE_CONST, word) for word in (INT64, 0, 0)]  # on the CPU, from an int
        sources += [value.source, (SOURCE_CONST, 0), (SOURCE_CONST, 0)]
        words = [BY_NAME["filled"].id, 0, len(sources), *(word for source in sources for word in source)]
        return self._appended(words)

    def _appended(self, words: list[int]) -> Symbol:
        self.instructions.append(words)
        slot = ENV_RESULTS + len(self.instructions) - 1
        if slot >= ENV_WORDS:
            raise LongRuleError(f"a rule may call at most {ENV_WORDS - ENV_RESULTS} ops")
        return self.symbol(slot)

    @property
    def ops(self) -> set[int]:
        """The numbers of the ops that are called."""
        return {instruction[0] for instruction in self.instructions}

    def _slot(self, operand: Any) -> int:
        if operand is None:
            return ENV_ABSENT
        if isinstance(operand, Integer):
            return self.of_integer(operand).slot
        return self.own(operand if isinstance(operand, Symbol) else self.constant(operand)).slot

    def own(self, symbol: Symbol) -> Symbol:
        """A tensor of this rule; TypeError for one of another."""
        if symbol.trace is not self:
            raise TypeError(
                "a rule was given a tensor of another rule: one that was kept from an earlier call"
            )
        return symbol

    def install(self) -> int:
        """Write the program down for compiled code; returns its address."""
        words = [len(self.instructions), self.result]
        for instruction in self.instructions:
            words.extend(instruction)
        return install(words)


def install(words: Sequence[int]) -> int:
    """Write words down for compiled code; returns their address."""
    program = array("q", words)
    _programs.append(program)
    return program.buffer_info()[0]


class Source(Protocol):
    """Where the parameters of a rule come from: a trace, or a node whose rule is called on tensors."""

    def gradient(self) -> Any:
        """What a rule calls `g`: the gradient of the output."""

    def gradients(self) -> Any:
        """`gs`: those of all outputs."""

    def saved(self, place: int) -> Any:
        """What the node saved in a place."""

    def sizes(self) -> Any:
        """`sizes`: rank and sizes of the input."""

    def position(self) -> Any:
        """`position`: the number of the input."""

    def before(self, star: int) -> Any:
        """`before`: the sum of the integers from `star` on that belong to the inputs before this one."""

    def own(self, star: int) -> Any:
        """`own`: of the integers from `star` on, that of this input."""

    def integer(self, index: int) -> Any:
        """The integer of the call with a number."""

    def integers(self, index: int) -> Any:
        """All integers of the call from a number on."""


def argument(op: Op, name: str, source: Source) -> Any:
    """The value of a parameter of a rule of `op`, by its name."""
    if name == "g":
        return source.gradient()
    place = places_of(op.inputs).get(name)
    if (
        place is not None
    ):  # also if it is called like an output: the derivative of another op takes that one's
        return source.saved(place)
    if name in OUTPUTS:
        return source.saved(SAVED_INPUTS + OUTPUTS.index(name))
    index = places_of(op.attrs).get(name)
    if index is not None and name not in _OF_NODES:
        return source.integers(index) if op.attrs[index].startswith("*") else source.integer(index)
    star = len(op.attrs) - 1
    if name == "gs":
        return source.gradients()
    if name == "sizes":
        return source.sizes()
    if name == "position":
        return source.position()
    if name == "before":
        return source.before(star)
    if name == "own":
        return source.own(star)
    raise ValueError(
        f"the rule of {op.name} asks for {name!r}, which is no input, output or integer of the op"
    )


# What these names say comes before integers of a call.
_OF_NODES = ("gs", "sizes", "position", "before", "own")


@functools.cache
def places_of(names: tuple[str, ...]) -> dict[str, int]:
    """The places of inputs, or of integers, by their names."""
    places: dict[str, int] = {}
    for place, name in enumerate(names):
        places.setdefault(name.lstrip("*"), place)
    return places


@functools.cache
def parameters(rule: Callable[..., Any]) -> tuple[str, ...]:
    """The names of what a rule, or a formula, reads."""
    taken = getattr(rule, "taken", None)
    if taken is not None:
        return taken  # type: ignore[no-any-return]
    code = getattr(rule, "__code__", None)
    if (
        code is None
        or code.co_kwonlyargcount
        or code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    ):
        return tuple(inspect.signature(rule).parameters)
    return code.co_varnames[: code.co_argcount]  # type: ignore[no-any-return]


class _RecordedSymbol(Symbol):
    """A tensor of a rule that is traced for passes which are recorded: operators are the ops that they are there."""

    __slots__ = ()

    def _and_number(self, name: str, other: Any) -> Any:
        op = BY_NAME[name]
        if not isinstance(other, Symbol) and op.numbered is not None:
            op = op.numbered
        return invoke(op, (self, other))

    def _behind_number(self, name: str, other: Any) -> Any:
        reflected, prepared = BY_NAME[name].reflected
        if reflected is None:
            return invoke(BY_NAME[name], (other, self))
        return invoke(reflected, (self if prepared is None else invoke(prepared, (self,)), other))

    def _only_operators(self, *_: object, **__: object) -> Any:
        raise TypeError("methods of tensors are functions of their own")

    __add__ = partialmethod(_and_number, "add")
    __radd__ = partialmethod(_behind_number, "add")
    __sub__ = partialmethod(_and_number, "sub")
    __rsub__ = partialmethod(_behind_number, "sub")
    __mul__ = partialmethod(_and_number, "mul")
    __rmul__ = partialmethod(_behind_number, "mul")
    __truediv__ = partialmethod(_and_number, "div")
    __rtruediv__ = partialmethod(_behind_number, "div")
    __lt__ = partialmethod(_and_number, "lt")
    __le__ = partialmethod(_and_number, "le")
    __gt__ = partialmethod(_and_number, "gt")
    __ge__ = partialmethod(_and_number, "ge")
    __eq__ = partialmethod(_and_number, "eq")
    __ne__ = partialmethod(_and_number, "ne")
    __and__ = partialmethod(_and_number, "bitwise_and")
    __or__ = partialmethod(_and_number, "bitwise_or")
    __hash__ = Symbol.__hash__
    __matmul__ = transpose = unsqueeze = squeeze = expand = reshape = sum = cumsum = tril = triu = (
        _only_operators
    )
    mT = property(_only_operators)  # noqa: N815 - PyTorch's name


class _Symbols:
    """What the parameters of a rule stand for while it is traced."""

    def __init__(self, t: Trace) -> None:
        self._trace = t

    def gradient(self) -> Symbol:
        return self._trace.symbol(ENV_GRADS)

    def gradients(self) -> AllGradients:
        return AllGradients(self._trace)

    def saved(self, place: int) -> Symbol:
        return self._trace.symbol(ENV_SAVED + place)

    def sizes(self) -> Integer:
        return Integer(SOURCE_META, -1)

    def position(self) -> Integer:
        return Integer(SOURCE_INPUT, 0)

    def before(self, star: int) -> Integer:
        return Integer(SOURCE_PREFIX, star)

    def own(self, star: int) -> Integer:
        return Integer(SOURCE_INDEXED, star)

    def integer(self, index: int) -> Integer:
        return Integer(SOURCE_ATTR, index)

    def integers(self, index: int) -> Integer:
        return Integer(SOURCE_ATTRS, index)


def trace(op: Op, rule: Callable[..., Any], *, recorded: bool = False) -> Trace:
    """Trace a rule of `op`."""
    t = Trace(recorded)
    symbols = _Symbols(t)
    result = rule(**{name: argument(op, name, symbols) for name in parameters(rule)})
    if not isinstance(result, Symbol):
        raise TypeError(f"the rule of {op.name} must return a tensor, but returned {type(result).__name__}")
    t.result = t.own(result).slot
    return t


# --- rules made of formulas and of other rules -------------------------------------------------------------------


def anywhere(
    rule: Callable[..., Any], times_g: bool, inner: Op, always: bool, over_complex: Any = None
) -> Callable[..., Any]:
    """A derivative of an elementwise op on tensors. In a rule that is being traced it is the compiled loop, `inner`.

    With `always` it is that on tensors, too, whose node PyTorch knows; but over complex numbers, where its own
    derivatives would not be those of holomorphic functions.
    """

    def apply(g: Any, **saved: Any) -> Any:
        traced = isinstance(g, Symbol)
        pairs = not traced and rt.field(g, _DTYPE) in COMPLEX
        if (traced and not g.trace.recorded) or (always and not pairs):
            return invoke(inner, (g, *saved.values()))
        if pairs and over_complex is not None:
            return over_complex(g, **saved)
        result = g * rule(**saved) if times_g else rule(g=g, **saved)
        if traced or isinstance(result, TensorBase):
            return result
        sizes = rt.sizes(g)  # a number: zero, by what the numbers of the call are
        return invoke(BY_NAME["zeros_of"], (g,), len(sizes), sizes)

    return apply


def call_of(op: Op) -> Callable[..., Any]:
    """A rule that is one call of an op on the gradient and what it reads."""
    return lambda g, **saved: invoke(op, (g, *saved.values()))


def taking(names: Iterable[str], rule: Callable[..., Any]) -> Callable[..., Any]:
    """A rule that says which parameters it takes."""
    rule.taken = tuple(names)  # type: ignore[attr-defined] # a signature takes ten times as long
    return rule


def gathering(parameter: str, names: tuple[str, ...]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Let a rule take what these names stand for as one tuple, its parameter `parameter`, if it has that."""

    def wrap(rule: Callable[..., Any]) -> Callable[..., Any]:
        others = [p for p in parameters(rule) if p != parameter]
        if len(others) == len(parameters(rule)):
            return rule

        def apply(**given: Any) -> Any:
            gathered = tuple(given.pop(name) for name in names)
            return rule(**{parameter: gathered}, **given)

        return taking((*others, *names), apply)

    return wrap
