"""Ops that are declared while a program runs, by formulas over scalars: native hooks and users' own.

Note [Ops declared later]: the name of such an op holds the key of its formulas, so that one formula is one op however
often it is declared, and a name that is declared again with another formula is another op. They stay: nodes, tapes
and codes know ops by their numbers. All that can be wrong with them is found before rows are taken.
"""

from __future__ import annotations

import builtins
import threading
from collections.abc import Mapping
from types import CellType, CodeType, FunctionType
from typing import Any

import numpy as np

from fastgrad.kernels.compile import formula_key, unit
from fastgrad.native.contracts.element_types import FLOAT32, FLOATS
from fastgrad.native.contracts.frames.elementwise import FLAT
from fastgrad.native.contracts.limits import MAX_KERNELS, MAX_OPS
from fastgrad.native.contracts.ops import ELEMENTWISE
from fastgrad.native.host.tables import BY_NAME, OPS
from fastgrad.ops.call import Symbol
from fastgrad.ops.kernel_table import KERNELS, Kernel
from fastgrad.ops.registry import Op, elementwise
from fastgrad.ops.rules import parameters
from fastgrad.ops.vocabulary import c, m

_LOCK = threading.RLock()


def declared(
    what: str,
    prefix: str,
    formula: FunctionType,
    derivatives: Mapping[str, FunctionType],
    *,
    compiled: bool = False,
    **options: Any,
) -> Op:
    """The op of a formula, declared if there is none.

    Parameters
    ----------
    what : str
        What messages call it.
    prefix : str
        How the op's name begins.
    formula : function
    derivatives : dict
        By names of inputs. Those that take ``g`` are products with the gradient, others partial derivatives.
    compiled : bool
        Whether kernels are compiled before the op is declared.
    **options
        Of `registry.elementwise`.

    Raises
    ------
    TypeError
        If the key of the formulas cannot hold what they read, or Numba finds no types for them.
    RuntimeError
        If the tables are full, or Numba cannot compile a formula for another reason.
    """
    name = f"{prefix}_{formula_key(what, formula, *derivatives, *derivatives.values())}"
    with _LOCK:
        op = BY_NAME.get(name)
        if op is not None:
            return op  # type: ignore[no-any-return]
        need_rows(what, 1 + len(derivatives))
        if compiled:
            _need_compiling(what, name, formula, derivatives)
        op = elementwise(name, **options)(_alone(formula))
        for k, derivative in derivatives.items():
            derivative = _alone(derivative)
            declare = op.elementwise_vjp if "g" in parameters(derivative) else op.partial
            declare(k)(derivative)
        return op


def need_rows(what: str, count: int) -> None:
    """Raise RuntimeError where the tables have no room for so many ops with a kernel each."""
    for table, most, kind in ((OPS, MAX_OPS, "ops"), (KERNELS, MAX_KERNELS, "kernels")):
        if len(table) + count > most:
            raise RuntimeError(
                f"{what} cannot be declared: the table of {kind} has {most} rows, which are taken, and what is "
                "declared stays; declare an op once, with what changes among its operands"
            )


def _alone(function: FunctionType) -> FunctionType:
    """A copy of a formula that holds nothing but what it reads: the table keeps it, and not its module's globals."""
    kept: dict[str, Any] = {}
    codes = [function.__code__]
    for code in codes:
        codes += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
        for name in code.co_names:
            value = function.__globals__.get(name)
            if value is m or value is c or isinstance(value, (int, float, str, bytes, tuple, np.generic)):
                kept[name] = value
            elif type(value) is FunctionType:
                kept[name] = _alone(value)
    kept |= {"__builtins__": builtins, "__name__": function.__module__}
    cells = tuple(CellType(cell.cell_contents) for cell in function.__closure__ or ())
    made = FunctionType(function.__code__, kept, function.__name__, function.__defaults__, cells)
    made.__doc__, made.__kwdefaults__ = function.__doc__, function.__kwdefaults__
    return made


def _need_compiling(
    what: str, name: str, formula: FunctionType, derivatives: Mapping[str, FunctionType]
) -> None:
    """Compile the kernels of an op for float32, which the cache keeps, by the rows that it will have."""
    rows = [
        Kernel(name, "elementwise:build", formula, listed=False, inputs=parameters(formula), dtypes=FLOATS)
    ]
    for k, rule in derivatives.items():
        names = tuple(n for n in parameters(rule) if n != "g")
        derived = Kernel(
            f"{name}_d{k}", "elementwise:build", rule, listed=False, inputs=("g", *names), dtypes=FLOATS,
            times_g="g" not in parameters(rule),
        )  # fmt: skip
        rows.append(derived)
    for row in rows:
        try:
            unit(row, FLOAT32, FLAT)
        except (MemoryError, OSError):
            raise
        except Exception as error:  # noqa: BLE001 - whatever Numba makes of a user's function
            kind = TypeError if type(error).__name__ == "TypingError" else RuntimeError
            part = "its formula" if row is rows[0] else f"its derivative by {row.name.rpartition('_d')[2]!r}"
            raise kind(f"{what}: {part} cannot be compiled: {error}") from None


# --- whether a formula works on tensors ---------------------------------------------------------------------------


class _Trial(Symbol):
    """What a formula is called with, once, to see that it is one on tensors as well as in a compiled loop."""

    __slots__ = ()

    def _decide(self, *_: object) -> Any:
        raise TypeError(
            "it decides by the value of an element (`if`, `and`, `or`, `not`, a loop, a conversion), but it has no "
            "branches: a choice is m.where(condition, a, b), and two conditions hold by m.logical_and"
        )

    __bool__ = __int__ = __float__ = __index__ = __iter__ = __len__ = _decide

    def _power(self, *_: object) -> Any:
        raise TypeError(
            "it uses an operator that formulas lack: write m.pow(a, b), m.remainder, m.floor, m.abs"
        )

    __pow__ = __rpow__ = __mod__ = __rmod__ = __floordiv__ = __rfloordiv__ = __abs__ = _power
    __hash__ = Symbol.__hash__

    def __rtruediv__(self, other: Any) -> Any:
        return self.trace.call(BY_NAME["div"], (other, self), ())

    def __eq__(self, other: Any) -> Any:
        return self.trace.call(BY_NAME["eq"], (self, other), ())

    __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __eq__


class _Trials:
    """The trace of a trial: it writes nothing down."""

    recorded = False

    def call(self, op: Op, operands: Any, attrs: Any) -> _Trial:
        if op.kind != ELEMENTWISE or attrs:
            raise TypeError(f"m.{op.called} is no function of elements")
        if len(operands) != len(op.inputs):
            raise TypeError(f"m.{op.called} takes {len(op.inputs)} operands, but got {len(operands)}")
        for operand in operands:
            if not isinstance(operand, (_Trial, int, float)):
                raise TypeError(f"m.{op.called} got a {type(operand).__name__}")
        return _Trial(self, 0)


def need_formula(what: str, part: str, function: FunctionType) -> None:
    """Raise TypeError for what is no formula: for more than arithmetic of elements and functions that are ops."""
    _need_words(what, part, function, ())
    try:
        result = function(*(_Trial(_Trials(), 0) for _ in parameters(function)))
    except Exception as error:
        text = str(error)
        if isinstance(error, AttributeError) and text.startswith("no op named"):
            text = f"there is no function m.{text.split()[-1].strip(chr(39))}"
        raise TypeError(
            f"{what}: {part} is no formula of elements: {text or type(error).__name__}"
        ) from error
    if not isinstance(result, (_Trial, int, float)):
        raise TypeError(
            f"{what}: {part} must return a number for each element, but returned {type(result).__name__}"
        )


def _need_words(what: str, part: str, function: FunctionType, within: tuple[FunctionType, ...]) -> None:
    """Raise where `m` or `c` stand for something else in a formula than in the loop that it is compiled into."""
    for name, word in (("m", m), ("c", c)):
        code = function.__code__
        if name in code.co_freevars or (
            name in code.co_names and function.__globals__.get(name, word) is not word
        ):
            raise TypeError(
                f"{what}: {part} reads `{name}`, which must be that of fastgrad.library, imported in the module of the "
                f"function: `from fastgrad.library import c, m`"
            )
    for name in function.__code__.co_names:
        other = function.__globals__.get(name)
        if isinstance(other, FunctionType) and other is not c and other not in within:
            _need_words(what, part, other, (*within, function))
