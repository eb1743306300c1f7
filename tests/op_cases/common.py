"""What every row of the op table is made of: `OpCase`, its samples, and PyTorch's dtype rules in NumPy.

A sample holds NumPy arrays and plain values. The tests turn the arrays into tensors of the library under
test and call ``case.call(lib, *args, **kwargs)``; the oracle ``case.ref(*args, **kwargs)`` gets the arrays
themselves and answers with arrays of the dtype and shape that the tensor must have.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

FLOATS = ("float32", "float64")
INTS = ("int64", "int32", "uint8")
NUMBERS = FLOATS + INTS
DTYPES = (*NUMBERS, "bool")

# Relative and absolute tolerance by dtype name; dtypes not named here are compared exactly.
DEFAULT_TOLERANCES: Mapping[str, tuple[float, float]] = {"float32": (2e-6, 1e-6), "float64": (1e-13, 1e-14)}


@dataclass(frozen=True)
class Sample:
    """One call: arrays among `args` become tensors, everything else is passed as it is."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    def arrays(self) -> list[np.ndarray]:
        return [a for a in self.args if isinstance(a, np.ndarray)]


@dataclass(frozen=True)
class GradPoint:
    """A point where a gradient is a matter of convention, with the gradients of the output's sum there."""

    args: tuple[Any, ...]
    grads: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ErrorCase:
    """A call that must fail, leaving its arguments as they were.

    `mentions` are regular expressions; the message contains a match of each, in any order.
    """

    name: str
    raises: type[Exception]
    call: Callable[..., Any]
    args: tuple[Any, ...]
    mentions: tuple[str, ...]


@dataclass(frozen=True)
class OpCase:
    """One row of the table; the tests of `tests/ops` are generated from these.

    Attributes
    ----------
    name : str
        Unique. What stands before the first dot is the op; the rest tells its variants apart.
    call : callable
        ``call(lib, *args, **kwargs)``: the op as a program would write it; returns a tensor or a sequence.
    samples : callable
        ``samples(rng, dtype)``: calls inside the op's domain, away from points without a derivative.
    ref : callable
        NumPy oracle, returning an array or a tuple of arrays of the expected dtypes.
    dtypes : sequence of str
        Dtypes that `samples` is asked for.
    forms : mapping
        Other ways to write the same call (method, operator, alias); each must give equal results.
    differentiable : bool
        Whether the floating outputs record a graph. If so, first and second order are tested.
    grad_args : tuple of int, optional
        Positions in ``Sample.args`` that gradients flow to. Default: every floating array.
    special : callable, optional
        ``special(dtype)``: samples with nan, infinities, signed zeros, extremes.
    empty : callable, optional
        ``empty(dtype)``: samples with arrays of size zero.
    grad_points : sequence of GradPoint
        Ties and kinks with the gradient that convention gives them.
    errors : sequence of ErrorCase
        Bad input.
    tolerances : mapping
        Replaces `DEFAULT_TOLERANCES` where an op needs more room.
    strided : bool
        Whether any memory layout of the arguments must give the same result.
    view : bool, optional
        Whether the outputs share memory with the first argument; None where it depends on the sample.
    inplace : callable, optional
        The in-place call itself, where `call` has put a clone in front of it.
    special_grads : bool
        Whether gradients at the special values are compared with torch.
    zero_signs : bool
        Whether the sign of zeros at the special values is compared with torch. Not where torch's own depends on
        the place of an element: of 0 and -0, its vector loops choose another one than the loop over the rest.
    torch_lacks : tuple of str
        "gradients" or "strided gradients" where torch itself fails; then only central differences judge.
    """

    name: str
    call: Callable[..., Any]
    samples: Callable[[np.random.Generator, str], list[Sample]]
    ref: Callable[..., Any]
    dtypes: Sequence[str] = FLOATS
    forms: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    differentiable: bool = False
    grad_args: tuple[int, ...] | None = None
    special: Callable[[str], list[Sample]] | None = None
    empty: Callable[[str], list[Sample]] | None = None
    grad_points: Sequence[GradPoint] = ()
    errors: Sequence[ErrorCase] = ()
    tolerances: Mapping[str, tuple[float, float]] = field(default_factory=lambda: DEFAULT_TOLERANCES)
    strided: bool = True
    view: bool | None = False
    inplace: Callable[..., Any] | None = None
    special_grads: bool = True
    zero_signs: bool = True
    torch_lacks: tuple[str, ...] = ()

    def tolerance(self, dtype: Any) -> tuple[float, float]:
        name = str(dtype)
        return self.tolerances.get(name, DEFAULT_TOLERANCES.get(name, (0.0, 0.0)))

    def grad_positions(self, args: Sequence[Any]) -> tuple[int, ...]:
        if not self.differentiable:
            return ()
        floating = tuple(i for i, a in enumerate(args) if isinstance(a, np.ndarray) and a.dtype.kind == "f")
        return floating if self.grad_args is None else tuple(i for i in floating if i in self.grad_args)


# --- ways to call ---------------------------------------------------------------------------------------


def _resolved(lib: Any, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Dtypes stand in the table by name."""
    return {k: getattr(lib, v) if k == "dtype" and isinstance(v, str) else v for k, v in kwargs.items()}


def function(name: str) -> Callable[..., Any]:
    """``lib.name(...)``"""
    return lambda lib, *args, **kwargs: getattr(lib, name)(*args, **_resolved(lib, kwargs))


def method(name: str) -> Callable[..., Any]:
    """``args[0].name(*args[1:], ...)``"""
    return lambda lib, x, *args, **kwargs: getattr(x, name)(*args, **_resolved(lib, kwargs))


def functional(name: str) -> Callable[..., Any]:
    """``lib.nn.functional.name(...)``"""
    return lambda lib, *args, **kwargs: getattr(lib.nn.functional, name)(*args, **_resolved(lib, kwargs))


def operator(op: Callable[..., Any]) -> Callable[..., Any]:
    """``op(*args)``, for the functions of the module `operator` and small lambdas."""
    return lambda lib, *args: op(*args)


def on_clone(inplace: Callable[..., Any]) -> Callable[..., Any]:
    """The in-place call on a clone, so that leaves that require grad can stand as its argument."""
    return lambda lib, x, *args, **kwargs: inplace(lib, x.clone(), *args, **kwargs)


# --- arrays inside a domain -----------------------------------------------------------------------------


def normal(rng: np.random.Generator, shape: Sequence[int], dtype: str) -> np.ndarray:
    """Values on both sides of zero where the dtype has them."""
    if dtype in FLOATS:
        return np.asarray(rng.standard_normal(shape) * 1.5).astype(dtype)
    if dtype == "bool":
        return np.asarray(rng.random(shape) < 0.5)
    return np.asarray(rng.integers(0 if dtype.startswith("u") else -5, 6, size=shape)).astype(dtype)


def positive(rng: np.random.Generator, shape: Sequence[int], dtype: str) -> np.ndarray:
    """Values between 0.4 and 2.5, or 1 and 5."""
    if dtype in FLOATS:
        return np.asarray(rng.uniform(0.4, 2.5, shape)).astype(dtype)
    return np.asarray(rng.integers(1, 2 if dtype == "bool" else 6, size=shape)).astype(dtype)


def nonzero(rng: np.random.Generator, shape: Sequence[int], dtype: str) -> np.ndarray:
    """As `positive`, with either sign where the dtype has them."""
    values = positive(rng, shape, dtype)
    if dtype == "bool" or dtype.startswith("u"):
        return values
    return np.asarray(values * rng.choice([-1, 1], size=shape)).astype(dtype)


def distinct(rng: np.random.Generator, shape: Sequence[int], dtype: str) -> np.ndarray:
    """No two values alike, as far as the dtype has enough of them."""
    size = int(np.prod(shape, dtype=np.int64))
    ranks = rng.permutation(size) - (0 if dtype.startswith("u") else size // 2)
    return np.asarray(ranks * 0.37 if dtype in FLOATS else ranks).astype(dtype).reshape(shape)


def ones(*shape: int, dtype: str = "float32") -> np.ndarray:
    """For errors, where the values do not matter."""
    return np.ones(shape, dtype)


def f32(values: Any) -> np.ndarray:
    return np.array(values, np.float32)


def f64(values: Any) -> np.ndarray:
    return np.array(values, np.float64)


def i64(values: Any) -> np.ndarray:
    return np.array(values, np.int64)


def b8(values: Any) -> np.ndarray:
    return np.array(values, np.bool_)


SPECIAL_FLOATS = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -3.0, 1e30, -1e30, 1e-30)


def special_values(dtype: str) -> np.ndarray:
    """The values of a dtype where formulas go wrong."""
    if dtype in FLOATS:
        return np.array(SPECIAL_FLOATS, dtype)
    if dtype == "bool":
        return b8([True, False])
    info = np.iinfo(dtype)
    return np.array([0, 1, 2, info.max, info.max - 1, info.min, info.min + 1], dtype)


def special_unary(dtype: str) -> list[Sample]:
    return [Sample((special_values(dtype),))]


def special_pairs(dtype: str) -> list[Sample]:
    """Every special value with every other."""
    values = special_values(dtype)
    return [Sample((values[:, None].copy(), values))]


EMPTY_SHAPES = ((0,), (2, 0, 3))


def empty_unary(dtype: str) -> list[Sample]:
    return [Sample((np.zeros(shape, dtype),)) for shape in EMPTY_SHAPES]


def empty_pairs(dtype: str) -> list[Sample]:
    pairs = [((0,), (0,)), ((0, 3), (3,)), ((1, 3), (0, 1)), ((2, 0), ())]
    return [Sample((np.zeros(a, dtype), np.zeros(b, dtype))) for a, b in pairs]


# --- PyTorch's dtype rules ------------------------------------------------------------------------------

_LADDER = (
    "bool",
    "uint8",
    "int8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float32",
    "float64",
)
_CATEGORY = {name: 0 if name == "bool" else 2 if name.startswith("float") else 1 for name in _LADDER}


def promote_types(*names: str) -> str:
    """The smallest dtype of the ladder that holds them all; those that samples mix are totally ordered."""
    return max(names, key=_LADDER.index)


def result_dtype(*operands: Any) -> str:
    """The dtype of an operation on tensors (arrays) and Python numbers.

    Arrays with dimensions decide. Arrays without, and after them Python numbers, only raise the category
    (bool < integer < float) where theirs is higher.
    """
    tiers: list[list[str]] = [[], [], []]
    for value in operands:
        if isinstance(value, np.ndarray):
            tiers[0 if value.ndim else 1].append(str(value.dtype))
        elif isinstance(value, bool):
            tiers[2].append("bool")
        else:
            tiers[2].append("int64" if isinstance(value, int) else "float32")
    result: str | None = None
    for tier in tiers:
        if tier:
            lower = promote_types(*tier)
            if result is None or _CATEGORY[lower] > _CATEGORY[result]:
                result = lower
    assert result is not None
    return result


def floating(dtype: str) -> str:
    """Integers and booleans become float32 where an op yields fractions."""
    return dtype if dtype in FLOATS else "float32"


def quiet(f: Callable[..., Any]) -> Callable[..., Any]:
    """Without NumPy's warnings about overflow, division by zero and nan, which are results here."""

    @functools.wraps(f)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        with np.errstate(all="ignore"):
            return f(*args, **kwargs)

    return wrapper


def elementwise(f: Callable[..., Any], *, result: str = "same", wide: bool = True) -> Callable[..., Any]:
    """An oracle for an elementwise op: promote, apply `f`, give the result its dtype.

    `result` is "same" for the promoted dtype, "float" where integers give float32, or "bool". With `wide`,
    floats are computed in double precision and rounded once.
    """

    @quiet
    def ref(*operands: Any) -> np.ndarray:
        dtype = result_dtype(*operands)
        if result == "float":
            dtype = floating(dtype)
        common = [np.asarray(value).astype(dtype) for value in operands]
        if wide and dtype in FLOATS:
            common = [value.astype(np.float64) for value in common]
        return np.asarray(f(*common)).astype("bool" if result == "bool" else dtype)

    return ref


def into_first(ref: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """The oracle of an in-place op: the result takes the dtype of the tensor it is written to."""

    @quiet
    def wrapper(x: np.ndarray, *args: Any, **kwargs: Any) -> np.ndarray:
        return ref(x, *args, **kwargs).astype(x.dtype)

    return wrapper


# --- families of samples --------------------------------------------------------------------------------

Domain = Callable[[np.random.Generator, Sequence[int], str], np.ndarray]

SHAPES = ((), (5,), (2, 3), (2, 1, 3))
PAIRS = (((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 1), (1, 3)), ((3,), (2, 1, 3)), ((), (4,)), ((), ()))


def unary(domain: Domain = normal) -> Callable[[np.random.Generator, str], list[Sample]]:
    return lambda rng, dtype: [Sample((domain(rng, shape, dtype),)) for shape in SHAPES]


def binary(
    domain: Domain = normal, second: Domain | None = None, *, scalars: Sequence[Any] = ()
) -> Callable[[np.random.Generator, str], list[Sample]]:
    """Pairs of arrays that broadcast, then an array with each of the Python `scalars`."""
    second = second or domain

    def samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
        pairs = [Sample((domain(rng, a, dtype), second(rng, b, dtype))) for a, b in PAIRS]
        return pairs + [Sample((domain(rng, (2, 3), dtype), value)) for value in scalars]

    return samples


def scalar_first(
    domain: Domain = normal, scalars: Sequence[Any] = (2, 1.5)
) -> Callable[[np.random.Generator, str], list[Sample]]:
    """A Python number on the left of an operator."""
    return lambda rng, dtype: [Sample((value, domain(rng, (2, 3), dtype))) for value in scalars]


def bracketed(*sizes: int) -> str:
    """A pattern for a shape in a message: ``(2, 3)`` or ``[2, 3]``."""
    inner = ", ".join(map(str, sizes))
    return rf"[\[(]{inner},?[\])]"


def number(value: Any) -> str:
    """A pattern for a number in a message that is no part of a longer one."""
    return rf"(?<![\w.-]){value}(?![\w.]*\w)"


def cannot_broadcast(name: str, call: Any, dtype: str = "float32") -> ErrorCase:
    """An operand of shape (2, 3) with one of shape (2, 4)."""
    arrays = (ones(2, 3, dtype=dtype), ones(2, 4, dtype=dtype))
    return ErrorCase("shapes", RuntimeError, call, arrays, (name, bracketed(2, 3), bracketed(2, 4)))


def wrong_type(name: str, call: Any, label: str = "type") -> ErrorCase:
    """A tensor with a text."""
    return ErrorCase(label, TypeError, call, (ones(2, 3), "text"), (name, "str"))
