"""`elementwise`: a user's op that is a formula over scalars."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

from fastgrad.library.names import TAKEN, node_name, op_name, plain_parameters
from fastgrad.native.build.loader import TensorBase
from fastgrad.native.contracts.element_types import FLOATS
from fastgrad.native.contracts.limits import MAX_INPUTS, RULES
from fastgrad.native.contracts.ops import PROMOTE_FLOAT
from fastgrad.native.host.tables import NUMBERS
from fastgrad.ops import namespaces
from fastgrad.ops.array_ops import PREFIX
from fastgrad.ops.call import apply, as_number
from fastgrad.ops.formulas import declared, need_formula
from fastgrad.ops.rules import parameters

_TAKEN = TAKEN.union(("out", "v", "m", "c", "condition", "number"))


class ElementwiseOp:
    """An op that is a formula over scalars; `elementwise` makes one, and calling it computes.

    Attributes
    ----------
    name : str
    inputs : tuple of str
        Names of the operands.
    differentiable : tuple of str
        Those that have a derivative.
    """

    name: str
    inputs: tuple[str, ...]
    differentiable: tuple[str, ...]
    _op: Any
    _id: int
    __name__: str
    __qualname__: str

    def __init__(self, *_: Any, **__: Any) -> None:
        raise TypeError("an ElementwiseOp is made by fastgrad.library.elementwise(formula, derivative=...)")

    def __init_subclass__(cls) -> None:
        raise TypeError("ElementwiseOp cannot be derived from")

    @classmethod
    def _make(cls, function: FunctionType, name: str, derivatives: dict[str, FunctionType]) -> ElementwiseOp:
        self = object.__new__(cls)
        self.name = name
        self.inputs = parameters(function)
        self.differentiable = tuple(derivatives)
        plain = name.rpartition("::")[2]
        self._op = declared(
            f"elementwise op '{name}'", f"{PREFIX}{plain}", function, derivatives, compiled=True, rule=PROMOTE_FLOAT,
            dtypes=FLOATS, called=name, saved_as=" ".join((*self.inputs, "->", "result")),
            node=node_name(name),
            hint="convert the operand with .to(fastgrad.float32) first",
        )  # fmt: skip
        self._id = self._op.id
        functools.update_wrapper(self, function)
        self.__name__ = plain
        return self

    def __call__(self, *operands: Any, **named: Any) -> Any:
        """Compute the formula of each element.

        Parameters
        ----------
        *operands, **named : Tensor or number
            By position or by the names of the formula's parameters, at least one a tensor; they are broadcast, and
            promoted as those of arithmetic, integers to the default dtype.

        Returns
        -------
        Tensor

        Raises
        ------
        TypeError
            For other operands, or another number of them.
        RuntimeError
            If their shapes cannot be broadcast, or they are on different devices.
        """
        if named or len(operands) != len(self.inputs):
            operands = self._bound(operands, named)
        for operand in operands:
            if not isinstance(operand, TensorBase):
                operands = self._with_numbers(operands)
                break
        return apply(self._id, len(operands), 0, *operands)

    def _bound(self, operands: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        """Operands in the order of the formula's parameters."""
        given = dict(zip(self.inputs, operands, strict=False))
        wrong = [n for n in named if n not in self.inputs]
        double = [n for n in named if n in given]
        missing = [n for n in self.inputs if n not in given and n not in named]
        if len(operands) > len(self.inputs) or wrong or double or missing:
            raise TypeError(
                f"{self.name}(): expected the operands ({', '.join(self.inputs)}), but got {len(operands)} by position"
                + (f" and {', '.join(named)} by name" if named else "")
            )
        given |= named
        return tuple(given[n] for n in self.inputs)

    def _with_numbers(self, operands: tuple[Any, ...]) -> tuple[Any, ...]:
        """The same with numbers as `apply` takes them."""
        tensors = tuple(x for x in operands if isinstance(x, TensorBase))
        if not tensors:
            raise TypeError(
                f"{self.name}(): expected a Tensor among the operands ({', '.join(self.inputs)}), but got "
                f"{', '.join(type(x).__name__ for x in operands)}; fastgrad.tensor(value) makes one"
            )
        made = []
        for name, x in zip(self.inputs, operands, strict=True):
            value = x if isinstance(x, TensorBase) or type(x) in NUMBERS else as_number(x, tensors, self._op)
            if not isinstance(value, TensorBase) and type(value) not in NUMBERS:
                raise TypeError(
                    f"{self.name}(): argument '{name}' must be a Tensor or a number, not {type(x).__name__}"
                )
            made.append(value)
        return tuple(made)

    def __repr__(self) -> str:
        return f"<elementwise op {self.name}({', '.join(self.inputs)})>"

    def __copy__(self) -> ElementwiseOp:
        return self

    def __deepcopy__(self, _: Any) -> ElementwiseOp:
        return self

    def __reduce__(self) -> str:
        return self.__qualname__


Derivative = Callable[..., Any]


def elementwise(
    formula: Callable[..., Any] | None = None,
    *,
    derivative: Derivative | Mapping[str, Derivative | None] | None = None,
    name: str | None = None,
) -> Any:
    """Make an op of a formula over scalars: compiled, fused by `fastgrad.compile`, differentiable to any order.

    Parameters
    ----------
    formula : function
        Of one to four numbers; its parameters name the operands. It is arithmetic of them and of ``c(number)``,
        comparisons, and functions of `fastgrad.library.m`, without branches: a choice is
        ``m.where(condition, a, b)``. It may read numbers, strings and tuples of them, and call such functions.
        Without it the result is a decorator.
    derivative : function or dict, optional
        The derivative by the operand, or a dict of one for each operand by name (None where there is none). Its
        parameters say what it reads, in this order: ``g``, operands by name, ``y`` for the result. With ``g``,
        the gradient of the result, it is the whole product, ``g * dy/dx``, which can avoid ``0 * inf``; without, it is
        ``dy/dx``.
        Gradients by an operand without a derivative raise `NotImplementedError` in backward.
    name : str, optional
        What messages and ``grad_fn`` call it, that of the formula by default. ``"namespace::name"`` makes it
        ``fastgrad.ops.namespace.name`` as well.

    Returns
    -------
    ElementwiseOp

    Raises
    ------
    TypeError
        For what is no formula: other parameters, branches, unknown functions, values that may change.
    ValueError
        For a name that is none.
    RuntimeError
        If Numba cannot compile it, or the table of ops is full.

    Notes
    -----
    Kernels are compiled for float32 at once and for other dtypes when they first come, and kept in the cache. The same
    formula under the same name is the same op in the table, another one is another op; what is declared stays until
    the process ends, so that graphs and tapes that hold it remain valid.

    Examples
    --------
    >>> import fastgrad as fg
    >>> from fastgrad.library import c, elementwise, m
    >>> @elementwise(derivative=lambda x, y: y * (c(1) - y))
    ... def logistic(x):
    ...     return c(1) / (c(1) + m.exp(-x))
    >>> x = fg.zeros(2, requires_grad=True)
    >>> y = logistic(x)
    >>> y
    tensor([0.5000, 0.5000], grad_fn=<LogisticBackward0>)
    >>> y.sum().backward()
    >>> x.grad
    tensor([0.2500, 0.2500])
    """
    if formula is None:
        return functools.partial(elementwise, derivative=derivative, name=name)
    function = _plain("the formula", formula)
    name = op_name("elementwise", function, name)
    what = f"elementwise op '{name}'"
    inputs = _operands(what, function)
    derivatives = _derivatives(what, inputs, derivative)
    need_formula(what, "the formula", function)
    for operand, rule in derivatives.items():
        need_formula(what, f"the derivative by '{operand}'", rule)
    op = ElementwiseOp._make(function, name, derivatives)
    if "::" in name:
        namespaces.register(name, op)
    return op


def _plain(part: str, function: Any) -> FunctionType:
    if type(function) is not FunctionType:
        hint = "; pass the function that it compiles" if hasattr(function, "py_func") else ""
        raise TypeError(
            f"elementwise(): {part} must be a function of Python, not {type(function).__name__}{hint}"
        )
    return function


def _operands(what: str, function: FunctionType) -> tuple[str, ...]:
    inputs = plain_parameters(what, "the formula", function)
    if not 1 <= len(inputs) <= RULES:
        raise TypeError(f"{what}: the formula must have 1 to {RULES} operands, but has {len(inputs)}")
    taken = [n for n in inputs if n in _TAKEN]
    if taken:
        raise TypeError(
            f"{what}: an operand cannot be called {taken[0]!r}, which means something else in formulas; rename "
            "the parameter"
        )
    return inputs


def _derivatives(what: str, inputs: tuple[str, ...], given: Any) -> dict[str, FunctionType]:
    """The derivatives by names of operands, in their order."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        if len(inputs) > 1:
            raise TypeError(
                f"{what}: it has the operands {', '.join(inputs)}; pass derivative={{'{inputs[0]}': function, ...}}, "
                "with None for an operand that has none"
            )
        given = {inputs[0]: given}
    if set(given) != set(inputs):
        raise TypeError(
            f"{what}: derivative must have the keys {', '.join(inputs)}, but has "
            f"{', '.join(map(str, given)) or 'none'}; the value for an operand without a derivative is None"
        )
    found = {}
    for operand in inputs:
        if given[operand] is None:
            continue
        part = f"the derivative by '{operand}'"
        rule = _plain(part, given[operand])
        names = plain_parameters(what, part, rule)
        order = ("g", *inputs, "y")
        if any(n not in order for n in names) or sorted(names, key=order.index) != list(names):
            raise TypeError(
                f"{what}: {part} must take some of ({', '.join(order)}), in this order, but takes ({', '.join(names)})"
            )
        if len({"g", *names}) > MAX_INPUTS:
            raise TypeError(
                f"{what}: {part} reads {len(names)} values, but with the gradient at most {MAX_INPUTS} fit"
            )
        found[operand] = rule
    return found
