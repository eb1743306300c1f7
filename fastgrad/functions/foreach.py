"""Functions of lists of tensors: ``_foreach_*``, by which published optimizers and clipping change many at once.

They are loops over the methods of tensors, so gradients, subclasses and errors are those of the methods. What a step of
an optimizer needs in one compiled call is `ops.optim`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from fastgrad.functions.arguments import is_plain_number, is_tensor
from fastgrad.functions.statistics import vector_norm

FOREACH: dict[str, Callable[..., Any]] = {}
"""The functions by the names that programs know, ``_foreach_add_`` for one."""

_UNARY = (
    "abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "erf", "erfc", "exp", "expm1", "floor", "frac", "lgamma",
    "log", "log10", "log1p", "log2", "neg", "reciprocal", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt",
    "tan", "tanh", "trunc",
)  # fmt: skip
_OTHER = ("other", "scalar", "scalars")
"""What the second operand is called as a list or tensor, as a number, and as a list of numbers."""
_NOT_GIVEN: Any = object()


def _wrong(name: str, argument: str, position: int, wanted: str, given: Any) -> TypeError:
    kind = type(given).__name__
    return TypeError(f"{name}(): argument '{argument}' (position {position}) must be {wanted}, not {kind}")


def _tensors(name: str, argument: str, position: int, given: Any) -> Sequence[Any]:
    """A list or tuple of at least one tensor."""
    if not isinstance(given, (list, tuple)):
        raise _wrong(name, argument, position, "tuple of Tensors", given)
    for k, value in enumerate(given):
        if not is_tensor(value):
            kind = type(value).__name__
            raise TypeError(
                f"{name}(): expected Tensor as element {k} in argument {position - 1}, but got {kind}"
            )
    if position == 1 and not given:
        raise RuntimeError(f"{name}(): Tensor list must have at least one tensor.")
    return given


def _as_many(name: str, first: Sequence[Any], given: Sequence[Any], what: str = "") -> Sequence[Any]:
    if len(first) != len(given):
        if what:
            raise RuntimeError(f"{name}(): Tensor list must have same number of elements as {what} list.")
        raise RuntimeError(
            f"{name}(): Tensor lists must have the same number of tensors, got {len(first)} and {len(given)}"
        )
    return given


def _list(name: str, argument: str, position: int, first: Sequence[Any], given: Any) -> Sequence[Any]:
    """A list of as many tensors as the first one."""
    return _as_many(name, first, _tensors(name, argument, position, given))


def _number(name: str, argument: str, position: int, given: Any) -> Any:
    """A number, which may be a tensor with one element."""
    if is_tensor(given) and given.numel() == 1:
        return given.item()
    if not is_plain_number(given):
        raise _wrong(name, argument, position, "Number", given)
    return given


def _numbers(name: str, argument: str, position: int, first: Sequence[Any], given: Any) -> Sequence[Any]:
    """A number for each tensor: one for all, or a list of them."""
    if isinstance(given, (list, tuple)) and given and is_plain_number(given[0]):
        for k, value in enumerate(given):
            if not is_plain_number(value):
                kind = type(value).__name__
                raise TypeError(f"{name}(): expected Number as element {k} in '{argument}', but got {kind}")
        return _as_many(name, first, given, "scalar")
    return [_number(name, argument, position, given)] * len(first)


def _is_list_of_tensors(given: Any) -> bool:
    return isinstance(given, (list, tuple)) and not (given and is_plain_number(given[0]))


def _operands(
    name: str, argument: str, position: int, first: Sequence[Any], given: Any, tensor: bool = False
) -> Sequence[Any]:
    """A tensor or number for each tensor.

    `tensor` says whether one tensor for all remains one, so that it may require grad.
    """
    if _is_list_of_tensors(given):
        return _list(name, argument, position, first, given)
    if tensor and is_tensor(given):
        if given.dim():
            raise RuntimeError(
                f"{name}(): scalar tensor expected to be 0 dim but it has {given.dim()} dimensions and "
                f"{given.numel()} elements."
            )
        return [given] * len(first)
    return _numbers(name, argument, position, first, given)


def _chosen(name: str, names: Sequence[str], given: Any, named: dict[str, Any]) -> Any:
    """The operand, which may be passed by any of its names."""
    for argument in list(named):
        if given is not _NOT_GIVEN or argument not in names:
            raise TypeError(f"{name}() got an unexpected keyword argument '{argument}'")
        given = named.pop(argument)
    if given is _NOT_GIVEN:
        raise TypeError(f"{name}() missing 1 required positional argument: '{names[0]}'")
    return given


# --- the families ------------------------------------------------------------------------------------------------


def _offer(name: str, make: Callable[[str, str, Callable[[Sequence[Any], Iterator[Any]], Any]], Any]) -> None:
    """Define a function and its in-place form, which gives back the list that it changed."""
    forms: tuple[tuple[str, Callable[[Sequence[Any], Iterator[Any]], Any]], ...] = (
        (name, lambda _, results: tuple(results)),
        (f"{name}_", _when_done),
    )
    for method, give in forms:
        _define(f"_foreach_{method}", make(f"_foreach_{method}", method, give))


def _when_done(tensors: Sequence[Any], results: Iterator[Any]) -> Sequence[Any]:
    for _ in results:
        pass
    return tensors


def _define(name: str, function: Callable[..., Any]) -> None:
    function.__name__ = function.__qualname__ = name
    function.__module__ = __name__
    FOREACH[name] = function


def _unary(name: str, method: str, give: Any) -> Callable[..., Any]:
    def call(self: Any) -> Any:
        tensors = _tensors(name, "self", 1, self)
        return give(tensors, (getattr(x, method)() for x in tensors))

    return call


def _with_factor(name: str, method: str, give: Any) -> Callable[..., Any]:
    """Sums and differences."""

    def call(self: Any, other: Any = _NOT_GIVEN, *, alpha: Any = _NOT_GIVEN, **named: Any) -> Any:
        tensors = _tensors(name, "self", 1, self)
        operand = _chosen(name, _OTHER, other, named)
        one_tensor = is_tensor(operand) and method.startswith("add")
        if alpha is not _NOT_GIVEN and not (one_tensor or _is_list_of_tensors(operand)):
            raise TypeError(f"{name}(): 'alpha' goes with tensors, not with {type(operand).__name__}")
        factor = 1 if alpha is _NOT_GIVEN else alpha
        pairs = zip(tensors, _operands(name, "other", 2, tensors, operand, tensor=one_tensor), strict=True)
        return give(tensors, (getattr(x, method)(y, alpha=factor) for x, y in pairs))

    return call


def _binary(names: Sequence[str], tensor: bool, bound: str | None = None) -> Any:
    """Functions of two operands; `bound` is the method for numbers, and in place, of those that have no other."""

    def make(name: str, method: str, give: Any) -> Callable[..., Any]:
        in_place = method.endswith("_")
        with_number = method if bound is None else bound + "_" * in_place
        with_tensor = with_number if in_place else method

        def call(self: Any, other: Any = _NOT_GIVEN, **named: Any) -> Any:
            if method == "pow" and is_plain_number(self):  # a number to the power of each
                return tuple(
                    self**y for y in _tensors(name, "exponent", 2, _chosen(name, names, other, named))
                )
            tensors = _tensors(name, "self", 1, self)
            others = _operands(name, names[0], 2, tensors, _chosen(name, names, other, named), tensor)
            pairs = zip(tensors, others, strict=True)
            return give(
                tensors, (getattr(x, with_tensor if is_tensor(y) else with_number)(y) for x, y in pairs)
            )

        return call

    return make


def _with_products(name: str, method: str, give: Any) -> Callable[..., Any]:
    """``addcmul`` and ``addcdiv``; the factors are one number, a list of them, or a tensor with one dimension."""

    def call(self: Any, tensor1: Any, tensor2: Any, value: Any = 1, *, scalars: Any = _NOT_GIVEN) -> Any:
        tensors = _tensors(name, "self", 1, self)
        ones = _list(name, "tensor1", 2, tensors, tensor1)
        twos = _list(name, "tensor2", 3, tensors, tensor2)
        factors = value if scalars is _NOT_GIVEN else scalars
        if is_tensor(factors):
            if factors.dim() != 1:
                raise RuntimeError(
                    f"{name}(): Expected packed scalar Tensor to be of dimension 1. Got {factors.dim()} instead."
                )
            if len(factors) != len(tensors):
                raise RuntimeError(
                    f"{name}(): Expected length of scalars to match input of length {len(tensors)} but got "
                    f"{len(factors)} instead."
                )
            factors = factors.tolist()
        values = _numbers(name, "value", 4, tensors, factors)
        groups = zip(tensors, ones, twos, values, strict=True)
        return give(tensors, (getattr(x, method)(y, z, value=v) for x, y, z, v in groups))

    return call


def _lerp(name: str, method: str, give: Any) -> Callable[..., Any]:
    def call(self: Any, tensors1: Any, weight: Any = _NOT_GIVEN, **named: Any) -> Any:
        tensors = _tensors(name, "self", 1, self)
        ends = _list(name, "tensors1", 2, tensors, tensors1)
        weights = _operands(name, "weight", 3, tensors, _chosen(name, ("weight", "weights"), weight, named))
        groups = zip(tensors, ends, weights, strict=True)
        return give(tensors, (getattr(x, method)(end, w) for x, end, w in groups))

    return call


for _name in _UNARY:
    _offer(_name, _unary)
for _name in ("add", "sub"):
    _offer(_name, _with_factor)
for _name in ("mul", "div"):
    _offer(_name, _binary(_OTHER, tensor=True))
_offer("pow", _binary(("exponent",), tensor=False))
for _name, _bound in (("maximum", "min"), ("clamp_min", "min"), ("minimum", "max"), ("clamp_max", "max")):
    _offer(_name, _binary(_OTHER, tensor=False, bound=f"clamp_{_bound}"))
for _name in ("addcmul", "addcdiv"):
    _offer(_name, _with_products)
_offer("lerp", _lerp)


# --- the single ones ---------------------------------------------------------------------------------------------


def _norm(self: Any, ord: Any = 2, dtype: Any = None) -> Any:
    name = "_foreach_norm"
    order = _number(name, "ord", 2, ord)
    return tuple(vector_norm(x, order, dtype=dtype) for x in _tensors(name, "self", 1, self))


def _powsum(self: Any, ord: Any = 2, dtype: Any = None) -> Any:
    name = "_foreach_powsum"
    order = _number(name, "ord", 2, ord)
    return tuple(
        (x if dtype is None else x.to(dtype)).abs().pow(order).sum() for x in _tensors(name, "self", 1, self)
    )


def _max(self: Any) -> Any:
    return tuple(x.max() for x in _tensors("_foreach_max", "self", 1, self))


def _mm(self: Any, mat2: Any) -> Any:
    tensors = _tensors("_foreach_mm", "self", 1, self)
    return tuple(
        x.mm(y) for x, y in zip(tensors, _list("_foreach_mm", "mat2", 2, tensors, mat2), strict=True)
    )


def _clone(self: Any, *, memory_format: Any = None) -> Any:
    tensors = _tensors("_foreach_clone", "self", 1, self)
    asked = {} if memory_format is None else {"memory_format": memory_format}
    return tuple(x.clone(**asked) for x in tensors)


def _copy(self: Any, src: Any, non_blocking: bool = False) -> Any:
    tensors = _tensors("_foreach_copy_", "self", 1, self)
    sources = _list("_foreach_copy_", "src", 2, tensors, src)
    return _when_done(tensors, (x.copy_(y, non_blocking) for x, y in zip(tensors, sources, strict=True)))


def _zero(self: Any) -> Any:
    tensors = _tensors("_foreach_zero_", "self", 1, self)
    return _when_done(tensors, (x.zero_() for x in tensors))


for _name, _function in (
    ("norm", _norm), ("powsum", _powsum), ("max", _max), ("mm", _mm), ("clone", _clone), ("copy_", _copy),
    ("zero_", _zero),
):  # fmt: skip
    _define(f"_foreach_{_name}", _function)
