"""Ops of users over arrays: each is one kernel that calls a function, with sizes by names.

Note [Integers of array ops]: a call brings the sizes that its operands have by their names, then constants, then what
says the sizes of the results (see `native.shapes.framed`). Where another function gives all gradients at once, its
kernel gets the same integers, as every joint gradient does (Note [Joint gradients] in `native.backward.derivatives`):
to that kernel what says the sizes of the results are further integers, which nobody reads, and behind them stands
what says the sizes of the gradients.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any, NamedTuple

from fastgrad import flags
from fastgrad.kernels.compile import function_key, unit
from fastgrad.native.contracts.element_types import FLOAT32, FLOAT64
from fastgrad.native.contracts.frame import Frame, number, reads, writes
from fastgrad.native.contracts.frames.elementwise import FLAT
from fastgrad.native.contracts.frames.framed import FRAMED, INPUT
from fastgrad.native.contracts.limits import ATTR_WORDS
from fastgrad.native.contracts.ops import (
    ELEMENTWISE,
    NOT_DIFFERENTIABLE,
    ONE_DIFFERENTIABLE,
    SHAPE_FRAMED,
    SOURCE_ATTR,
    STRUCTURED,
)
from fastgrad.native.host.tables import BY_NAME
from fastgrad.ops.call import Symbol, float_of_bits, invoke, is_traced
from fastgrad.ops.formulas import need_rows
from fastgrad.ops.kernel_table import Kernel
from fastgrad.ops.registry import Op
from fastgrad.ops.rules import Integer, Trace, number_words, parameters, taking
from fastgrad.ops.saving import OUTPUTS

PREFIX = "library_"
"""How names of such ops begin in the table."""
_LOCK = threading.RLock()
_OPS: dict[str, Op] = {}  # what was declared to its end, by what tells it from others
_number = itertools.count(1)


Size = Callable[[str], str]
"""Gives the integer of a call that is the size of a name."""


class Array(NamedTuple):
    """An operand or a result: its name, the names of its sizes (of fixed ones the digits), and the code of its dtype if
    that is fixed.
    """

    name: str
    sizes: tuple[str, ...]
    dtype: int | None = None


class Constant(NamedTuple):
    """A number that a function takes behind its arrays: a ``float``, ``int`` or ``bool``."""

    name: str
    kind: str


class ArrayFunction(NamedTuple):
    """A function on arrays.

    Attributes
    ----------
    what : str
        What messages call it.
    function : function
    numba : tuple of (str, object)
        Options to compile it with.
    inputs, outputs : tuple of Array
        Its parameters, in order.
    constants : tuple of Constant
        Those behind them.
    dtypes : tuple of int
        Those of arrays whose dtype is not fixed.
    """

    what: str
    function: FunctionType
    numba: tuple[tuple[str, Any], ...]
    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]
    constants: tuple[Constant, ...]
    dtypes: tuple[int, ...]

    @property
    def operands(self) -> tuple[Array, ...]:
        """The inputs as the op takes them: those whose dtype is not fixed come first, and may have gradients."""
        return tuple(sorted(self.inputs, key=lambda array: array.dtype is not None))

    @property
    def free(self) -> tuple[str, ...]:
        """The names of operands whose dtype is not fixed."""
        return tuple(array.name for array in self.inputs if array.dtype is None)

    def size(self, name: str) -> str:
        """The integer that is a size."""
        chosen = any(constant.name == name for constant in self.constants)
        return f"constant:{name}" if chosen else f"size:{name}"

    @property
    def integers(self) -> tuple[str, ...]:
        """The integers of a call, by name."""
        names = (self.size(s) for array in (*self.inputs, *self.outputs) for s in array.sizes)
        constants = (f"constant:{constant.name}" for constant in self.constants)
        return tuple(dict.fromkeys((*(n for n in names if n.startswith("size:")), *constants)))

    def results(
        self, operands: Sequence[Array] | None = None, size: Size | None = None
    ) -> tuple[int | str, ...]:
        """What a call says of the sizes of the results: numbers, and names of integers."""
        operands, size = self.operands if operands is None else operands, size or self.size
        said: list[int | str] = []
        for array in self.outputs:
            like = next((k for k, other in enumerate(operands) if other.sizes == array.sizes), None)
            said += [len(array.sizes), *map(size, array.sizes)] if like is None else [-1 - like]
        return tuple(said)


class Backward(NamedTuple):
    """An op that gives gradients: its function on arrays, its name in the table, and what calls it where that is
    recorded.
    """

    of: ArrayFunction
    name: str
    call: Callable[..., Any]


Rule = FunctionType | Backward | None
Rules = Mapping[str, tuple[Rule, ...]]
"""Derivatives by names of operands: of the first output alone, or of each."""


def declare(
    name: str, of: ArrayFunction, rules: Rules, joint: Backward | None, *, called: str, node: str
) -> tuple[Op, tuple[int | str, ...]]:
    """The op of a function on arrays, declared if there is none, and what its calls say behind sizes and constants.

    Parameters
    ----------
    name : str
        The op's name begins with it.
    of : ArrayFunction
    rules : dict
    joint : Backward, optional
        What gives the gradients of all free operands in place of rules.
    called, node : str
        Of `Op`.

    Raises
    ------
    TypeError
        If a function cannot be compiled, or reads what no key can hold.
    RuntimeError
        If Numba cannot compile one for another reason, or the tables are full.
    """
    said = of.results()
    if joint is not None:
        said += _Derivative(name, of, joint, said).said
    if len(of.integers) + len(said) > ATTR_WORDS:
        raise RuntimeError(
            f"{of.what} takes {len(of.integers) + len(said)} integers for sizes, constants and the sizes of results, "
            f"but a call has room for {ATTR_WORDS}: use fewer names, or results of the sizes of operands"
        )
    with _LOCK:
        name = f"{PREFIX}{name}_{_key(of, rules, joint)}"
        op = _OPS.get(name)
        if op is None:
            need_rows(of.what, 1 + sum(map(len, rules.values())) + (joint is not None))
            own = f"{name}_{next(_number)}" if name in BY_NAME else name  # beside one that something stopped
            op = _OPS[name] = _declared(own, of, rules, joint, called, node)
    return op, said


def _key(of: ArrayFunction, rules: Rules, joint: Backward | None) -> str:
    """What tells the op from others. A rule may read what has no text: then it is one of its own each time."""
    each = [(k, rule) for k, of_outputs in rules.items() for rule in of_outputs]
    others = [(k, rule.name) for k, rule in each if isinstance(rule, Backward)]
    values = (of.function, of.numba, *(tuple(map(tuple, part)) for part in of[3:6]), of.dtypes)
    shape = tuple((k, tuple(map(_kind, of_outputs))) for k, of_outputs in rules.items())
    own = function_key(of.what, of.what, *values, *others, shape, joint and joint.name)
    written = [rule for _, rule in each if _kind(rule) == "written"]
    try:
        return f"{own}_{function_key('', *written)}" if written else own
    except TypeError:
        return f"{own}_{next(_number)}"


def _kind(rule: Rule) -> str:
    return "none" if rule is None else "compiled" if isinstance(rule, Backward) else "written"


def _declared(
    name: str, of: ArrayFunction, rules: Rules, joint: Backward | None, called: str, node: str
) -> Op:
    made = {
        (k, j): _Derivative(f"{name}_d{k}_{j}", of, rule)
        for k, of_outputs in rules.items() for j, rule in enumerate(of_outputs) if isinstance(rule, Backward)
    }  # fmt: skip
    together = _Derivative(f"{name}_backward", of, joint, of.results()) if joint is not None else None
    derivatives = [*made.values(), *([together] if together else [])]
    frame = _frame(of, of.integers, of.operands, of.size)
    for row in (_row(name, of, frame, of.size, listed=False), *(d.row(listed=False) for d in derivatives)):
        # What is wrong with it, it says now.
        unit(row, FLOAT32 if FLOAT32 in row.dtypes else row.dtypes[0], FLAT)
    op = Op(
        name, STRUCTURED, tuple(array.name for array in of.operands), (*of.integers, "*outputs"),
        kernel=_row(name, of, frame, of.size), forward=SHAPE_FRAMED, n_out=len(of.outputs), edges=len(of.free),
        flags=_flags(of, rules, joint), called=called, node=node,
        saved_as=" ".join((*(a.name for a in of.operands), "->", *(a.name for a in of.outputs))),
    )  # fmt: skip
    for k, of_outputs in rules.items():
        written = [
            made[k, j].rule() if (k, j) in made else _rule(of, rule) if rule is not None else None
            for j, rule in enumerate(of_outputs)
        ]
        if len(of_outputs) > 1:
            op.vjp_sum(k, *written)
        elif written[0] is not None:
            op.vjp(k)(written[0])
    if together is not None:
        op.joint_vjp(*of.free, by=together.op)(together.recorded)
    return op


def _flags(of: ArrayFunction, rules: Rules, joint: Backward | None) -> int:
    """Which results may have gradients: all, unless derivatives are those of the first one."""
    if of.outputs[0].dtype is not None:
        return NOT_DIFFERENTIABLE
    first = joint is not None or any(len(of_outputs) == 1 for of_outputs in rules.values())
    return ONE_DIFFERENTIABLE if first and len(of.outputs) > 1 else 0


# --- kernels ----------------------------------------------------------------------------------------------------------


def _frame(of: ArrayFunction, integers: Sequence[str], operands: Sequence[Array], size: Size) -> Frame:
    """The frame of a kernel that calls a function: how many elements lie where, by the integers of a call."""
    floats = {f"constant:{constant.name}" for constant in of.constants if constant.kind == "float"}

    def extent(array: Array) -> tuple[Any, ...]:
        return tuple(map(size, array.sizes)) or (1,)

    return FRAMED.variant(
        outputs={f"out_{a.name}": writes(*extent(a), element=a.dtype) for a in of.outputs},
        inputs={f"in_{a.name}": reads(*extent(a), element=a.dtype, part=INPUT) for a in operands},
        integers={name: number(element=FLOAT64 if name in floats else None) for name in integers},
    )


def _row(name: str, of: ArrayFunction, frame: Frame, size: Size, *, listed: bool = True) -> Kernel:
    code = of.function.__code__
    arguments = [("array", f"in_{a.name}", *map(size, a.sizes)) for a in of.inputs]
    arguments += [("array", f"out_{a.name}", *map(size, a.sizes)) for a in of.outputs]
    arguments += [(constant.kind, f"constant:{constant.name}") for constant in of.constants]
    return Kernel(
        name, "arrays:build", frame=frame, dtypes=of.dtypes, listed=listed, function=of.function, called=of.what,
        arguments=tuple(arguments), numba=of.numba, checks=flags.DEBUG,
        place=(code.co_filename, code.co_firstlineno),  # what it raises names these
    )  # fmt: skip


# --- derivatives ------------------------------------------------------------------------------------------------------


def names_in_rules(of: ArrayFunction) -> dict[str, str]:
    """What rules call operands and results that a node can save, by their names."""
    results = {array.name: place for array, place in zip(of.outputs, OUTPUTS, strict=False)}
    return {array.name: array.name for array in of.operands} | results


def gradient_name(of: ArrayFunction) -> str:
    """What a function that gives gradients calls the gradient that it gets."""
    return "g" if any(array.name == "g" for array in of.inputs) else "grad"


class _Derivative:
    """A function on arrays that gives gradients of an op's operands: the op that a pass calls.

    Parameters
    ----------
    name : str
        Of the op.
    of : ArrayFunction
        That of the op whose gradients these are.
    by : Backward
    before : tuple
        What the integers of the call hold behind those of the op, before what says the sizes of the gradients.
    """

    def __init__(
        self, name: str, of: ArrayFunction, by: Backward, before: tuple[int | str, ...] = ()
    ) -> None:
        self._name, self._of, self._by = name, of, by
        known = {array.name: array for array in by.of.inputs}
        places = {gradient_name(by.of): "g", **names_in_rules(of)}
        self._operands = [known[name] for name in places if name in known]
        self._inputs = tuple(places[array.name] for array in self._operands)
        self._integers = (*of.integers, *(f"before:{k}" for k in range(len(before))))
        self._frame = _frame(by.of, self._integers, self._operands, of.size)

    @property
    def said(self) -> tuple[int | str, ...]:
        """What a call says of the sizes of the gradients."""
        return self._by.of.results(self._operands, self._of.size)

    def row(self, *, listed: bool = True) -> Kernel:
        """Its kernel."""
        return _row(self._name, self._by.of, self._frame, self._of.size, listed=listed)

    @property
    def op(self) -> Op:
        """The op, declared now."""
        return Op(
            self._name, STRUCTURED, self._inputs, (*self._integers, "*outputs"), kernel=self.row(),
            forward=SHAPE_FRAMED, n_out=len(self._by.of.outputs), called=self._by.of.what,
        )  # fmt: skip

    def rule(self) -> Callable[..., Any]:
        """The rule of one gradient."""
        op, said = self.op, self.said
        integers = self._integers

        def rule(g: Any, **given: Any) -> Any:
            if not is_traced(g):
                return recorded(g=g, **given)
            tensors = [g, *(given[name] for name in self._inputs[1:])]
            sizes = [given[s] if isinstance(s, str) else s for s in said]
            return invoke(op, tensors, *(given[name] for name in integers), *sizes)

        recorded = self.recorded
        return taking(("g", *self._inputs[1:], *integers), rule)

    @property
    def recorded(self) -> Callable[..., Any]:
        """The same on tensors, where it is a call that can be differentiated again."""
        names = dict(zip(self._inputs, (a.name for a in self._operands), strict=True))
        constants = self._by.of.constants

        def rule(**given: Any) -> Any:
            tensors = {own: given[name] for name, own in names.items()}
            numbers = {c.name: _number_of(c, given[f"constant:{c.name}"]) for c in constants}
            return self._by.call(**tensors, **numbers)

        return taking((*self._inputs, *(f"constant:{c.name}" for c in constants)), rule)


class _Trial(Trace):
    """The trace of a rule that is only tried: its numbers become no tensors, which would stay.

    It refuses what compiled code takes on trust.
    """

    def constant(self, value: Any) -> Symbol:
        number_words(value)
        return Symbol(self, 0)

    def call(self, op: Op, tensors: Sequence[Any], attrs: Sequence[Any]) -> Symbol:
        if not attrs and op.kind != ELEMENTWISE and op is not BY_NAME["bmm"]:
            raise TypeError(f"m.{op.called} is no function of elements")
        if len(tensors) != len(op.inputs):
            raise TypeError(f"m.{op.called} takes {len(op.inputs)} operands, but got {len(tensors)}")
        if any(t is None for t in tensors):
            raise TypeError(f"{op.called} was given None in place of a tensor or a number")
        made = super().call(op, tensors, attrs)
        for word in self.instructions[-1]:
            number_words(word)  # raises for integers of more than 64 bits
        return made


def need_rule(of: ArrayFunction, part: str, function: FunctionType) -> None:
    """Raise TypeError for what is no derivative in the language of tensors: it is called with symbols, once."""
    symbol, integer = Symbol(_Trial(), 0), Integer(SOURCE_ATTR, 0)
    rule = _rule(of, function)
    try:
        result = rule(
            **{k: integer if k.startswith(("size:", "constant:")) else symbol for k in parameters(rule)}
        )
    except Exception as error:
        text = str(error) or type(error).__name__
        if isinstance(error, AttributeError) and "'Symbol' object" in text:
            text = (
                f"tensors of a rule have no .{error.name}; they have the arithmetic of + - * / @, mT, transpose, "
                "unsqueeze, squeeze, expand, reshape, sum, cumsum, tril and triu, and there are the functions of "
                "fastgrad.library.m"
            )
        raise TypeError(
            f"{of.what}: {part} is no rule in the language of tensors: {text}. Anything else is a function on arrays: "
            "pass an op of fastgrad.library.op, or a function of numba.njit"
        ) from error
    if not isinstance(result, Symbol):
        raise TypeError(f"{of.what}: {part} must return a tensor, but returned {type(result).__name__}")


def _rule(of: ArrayFunction, function: FunctionType) -> Callable[..., Any]:
    """A derivative in the language of tensors, with the names that its op has for what it reads."""
    kinds = {constant.name: constant for constant in of.constants}
    places = {"g": "g", **names_in_rules(of)}
    names = {
        name: places.get(name, f"constant:{name}" if name in kinds else f"size:{name}")
        for name in parameters(function)
    }

    def rule(**given: Any) -> Any:
        values = {name: given[place] for name, place in names.items()}
        for name in values.keys() & kinds.keys():
            values[name] = _number_of(kinds[name], values[name], given["g"])
        return function(**values)

    return taking(tuple(names.values()), rule)


def _number_of(constant: Constant, word: Any, like: Any = None) -> Any:
    """A constant of the function from the integer of a call; a float in a rule that is being traced as a tensor."""
    if constant.kind == "float":
        return float_of_bits(word) if isinstance(word, int) else invoke(BY_NAME["number"], (like,), word)
    return bool(word) if constant.kind == "bool" and isinstance(word, int) else word
