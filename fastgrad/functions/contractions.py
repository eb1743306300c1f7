"""Sums of products over named dimensions: `einsum`, `tensordot` and inner products."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import math
from collections.abc import Iterable, Sequence
from typing import Any

from fastgrad.functions.arguments import as_index, need_tensor, need_tensors
from fastgrad.functions.autocasting import lower_precision
from fastgrad.functions.linalg import bmm, dot, mm
from fastgrad.functions.plans import planned
from fastgrad.functions.public import public
from fastgrad.functions.shape import diagonal, movedim, permute, reshape, squeeze, wrapped

_LETTERS = {chr(code): k for k, code in enumerate((*range(65, 91), *range(97, 123)))}
_DOTS = len(_LETTERS)  # from here on the dimensions of an ellipsis, the last one first
Labels = list[int]


@public(method=False)
@planned
@lower_precision
def einsum(*args: Any) -> Any:
    """Sums of products of tensors whose dimensions have names (Einstein's notation).

    Parameters
    ----------
    equation : str
        The dimensions of each operand as letters, operands separated by commas: ``"ij,jk->ik"``. What does not stand
        behind the arrow is summed up; without an arrow the result has the letters that stand once, in their order.
        Three dots stand for all other dimensions, which are broadcast. A letter that an operand has twice means its
        diagonal.
    *operands : Tensor
        Of one dtype. They may come with lists of integers below 52 instead of an equation:
        ``einsum(a, [0, 1], b, [1, 2], [0, 2])``.

    Returns
    -------
    Tensor

    Raises
    ------
    RuntimeError
        If the equation does not fit the operands.

    Notes
    -----
    Operands are multiplied from left to right, or in the order that `opt_einsum` finds where that is installed.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.einsum("ij,j->i", fg.tensor([[1.0, 2.0], [3.0, 4.0]]), fg.tensor([1.0, 10.0]))
    tensor([21., 43.])
    """
    labels, result, operands = _parsed(args)
    parts = [_distinct(x, list(names)) for x, names in zip(operands, labels, strict=True)]
    sizes: dict[int, int] = {}
    for x, names in parts:
        for name, size in zip(names, x.shape, strict=True):
            known = sizes.get(name, 1)
            if size != known and 1 not in (size, known):
                raise RuntimeError(
                    f"einsum(): operands do not broadcast: the dimension {_name(name)!r} has the sizes {known} and "
                    f"{size}"
                )
            sizes[name] = size if known == 1 else known
    for first, second in _order(parts, result):
        a, b = parts[first], parts[second]
        parts = [p for k, p in enumerate(parts) if k not in (first, second)]
        needed = set(result).union(*(names for _, names in parts))
        parts.append(_product(a, b, needed))
    x, names = parts[0]
    x, names = _summed(x, names, set(result))
    return permute(x, [names.index(name) for name in result]) if names != result else x


def _name(label: int) -> str:
    return "..." if label >= _DOTS else next(letter for letter, k in _LETTERS.items() if k == label)


def _parsed(args: tuple[Any, ...]) -> tuple[list[Labels], Labels, list[Any]]:
    """The labels of each operand, those of the result, the operands."""
    if not args:
        raise ValueError("einsum(): expected an equation and operands, or operands and lists of dimensions")
    if isinstance(args[0], str):
        text = args[0].replace(" ", "")
        given = args[1] if len(args) == 2 and isinstance(args[1], (list, tuple)) else args[1:]
        operands = need_tensors("einsum", given, "operands", 2)
        left, arrow, right = text.partition("->")
        terms: list[Any] = [_terms(term) for term in left.split(",")]
        out = _terms(right) if arrow else None
    else:
        operands = need_tensors("einsum", args[: len(args) // 2 * 2 : 2], "operands")
        terms = [_sublist(items) for items in args[1::2]]
        out = _sublist(args[-1]) if len(args) % 2 else None
    if not operands:
        raise RuntimeError("einsum(): must provide at least one operand")
    if len(terms) != len(operands):
        more = "more" if len(operands) > len(terms) else "fewer"
        raise RuntimeError(f"einsum(): {more} operands were provided than specified in the equation")
    labels = [_spread(term, x) for term, x in zip(terms, operands, strict=True)]
    return labels, _of_result(labels, out), operands


def _terms(text: str) -> list[Any]:
    """The labels of a part of an equation, with Ellipsis for three dots."""
    before, dots, behind = text.partition("...")
    found: list[Any] = []
    for k, part in enumerate((before, behind)):
        for letter in part:
            if letter not in _LETTERS:
                raise RuntimeError(
                    f"einsum(): invalid subscript given: {letter!r}, subscripts must be in [a-zA-Z] or three dots"
                )
            found.append(_LETTERS[letter])
        if dots and k == 0:
            found.append(Ellipsis)
    return found


def _sublist(items: Any) -> list[Any]:
    if not isinstance(items, (list, tuple)):
        raise TypeError(
            f"einsum(): expected a list of dimensions behind an operand, but got {type(items).__name__}"
        )
    found = [item if item is Ellipsis else as_index("einsum", "sublist", item) for item in items]
    for item in found:
        if item is not Ellipsis and not 0 <= item < _DOTS:
            raise ValueError(f"einsum(): subscripts must be in the range [0, {_DOTS}), but got {item}")
    return found


def _spread(term: list[Any], x: Any) -> Labels:
    """The labels of an operand, with those of its dimensions that an ellipsis stands for."""
    named = len(term) - term.count(Ellipsis)
    rest = x.dim() - named
    if term.count(Ellipsis) > 1 or rest < 0 or (rest and Ellipsis not in term):
        raise RuntimeError(
            f"einsum(): the number of subscripts in the equation ({named}) does not match the number of dimensions "
            f"({x.dim()}) of an operand"
        )
    dots = [_DOTS + k for k in reversed(range(rest))]
    return [label for item in term for label in (dots if item is Ellipsis else [item])]


def _of_result(labels: list[Labels], out: list[Any] | None) -> Labels:
    every = [label for names in labels for label in names]
    dots = sorted({label for label in every if label >= _DOTS}, reverse=True)
    if out is None:
        return dots + sorted(label for label in every if label < _DOTS and every.count(label) == 1)
    result = [label for item in out for label in (dots if item is Ellipsis else [item])]
    for label in result:
        if result.count(label) > 1:
            raise RuntimeError(
                f"einsum(): output subscript {_name(label)} appears more than once in the output"
            )
        if label not in every:
            raise RuntimeError(
                f"einsum(): output subscript {_name(label)} does not appear in the equation for any input operand"
            )
    return result


def _distinct(x: Any, names: Labels) -> tuple[Any, Labels]:
    """An operand without a label twice: the diagonal of those dimensions."""
    for name in dict.fromkeys(names):
        while names.count(name) > 1:
            first = names.index(name)
            second = names.index(name, first + 1)
            if x.shape[first] != x.shape[second]:
                raise RuntimeError(
                    f"einsum(): subscript {_name(name)} is repeated for an operand but the sizes don't match, "
                    f"{x.shape[second]} != {x.shape[first]}"
                )
            x = movedim(diagonal(x, 0, first, second), -1, first)
            del names[second]
    return x, names


@functools.cache
def _path_finder() -> Any:
    """The library that finds orders of products, None where it is not installed."""
    found = importlib.util.find_spec("opt_einsum") is not None
    return importlib.import_module("opt_einsum") if found else None


def _order(parts: Sequence[tuple[Any, Labels]], result: Labels) -> Iterable[tuple[int, int]]:
    """Which two parts are multiplied next; the product stands behind the others."""
    if len(parts) > 2 and (library := _path_finder()) is not None:
        texts = [
            "".join(map(library.get_symbol, names)) for names in (*(names for _, names in parts), result)
        ]
        equation = f"{','.join(texts[:-1])}->{texts[-1]}"
        path = library.contract_path(
            equation, *(tuple(x.shape) for x, _ in parts), shapes=True, optimize="auto"
        )[0]
        if all(len(step) == 2 for step in path):
            return path  # type: ignore[no-any-return]
    last = len(parts) - 1
    return [(0, 1) if k == last else (k, 0) for k in range(last, 0, -1)]


def _summed(x: Any, names: Labels, needed: set[int]) -> tuple[Any, Labels]:
    """A part without the dimensions that nothing needs."""
    gone = [k for k, name in enumerate(names) if name not in needed]
    return (x.sum(gone), [name for name in names if name in needed]) if gone else (x, names)


def _product(a: tuple[Any, Labels], b: tuple[Any, Labels], needed: set[int]) -> tuple[Any, Labels]:
    """The product of two parts, summed over what both have and nothing else needs."""
    (x, left), (y, right) = a, b
    for name in set(left) & set(right):  # what is broadcast counts as absent
        p, q = left.index(name), right.index(name)
        if x.shape[p] == 1 != y.shape[q]:
            x, left = squeeze(x, p), left[:p] + left[p + 1 :]
        elif y.shape[q] == 1 != x.shape[p]:
            y, right = squeeze(y, q), right[:q] + right[q + 1 :]
    x, left = _summed(x, left, needed | set(right))
    y, right = _summed(y, right, needed | set(left))
    both = [name for name in left if name in right]
    batch, inner = [n for n in both if n in needed], [n for n in both if n not in needed]
    rows, columns = [n for n in left if n not in both], [n for n in right if n not in both]
    x = permute(x, [left.index(n) for n in (*batch, *rows, *inner)])
    y = permute(y, [right.index(n) for n in (*batch, *inner, *columns)])
    names = [*batch, *rows, *columns]
    if not inner:
        spread = (*x.shape, *(1 for _ in columns))
        kept = tuple(y.shape)
        lined = (*kept[: len(batch)], *(1 for _ in rows), *kept[len(batch) :])
        return reshape(x, spread) * reshape(y, lined), names
    nb, nr, ni = len(batch), len(rows), len(inner)
    sizes = (*x.shape[: nb + nr], *y.shape[nb + ni :])
    m, k, n = math.prod(sizes[nb : nb + nr]), math.prod(y.shape[nb : nb + ni]), math.prod(sizes[nb + nr :])
    if not batch:
        return reshape(mm(reshape(x, m, k), reshape(y, k, n)), sizes), names
    count = math.prod(sizes[:nb])
    return reshape(bmm(reshape(x, count, m, k), reshape(y, count, k, n)), sizes), names


def _dims_of(name: str, dims: Any, a: Any, b: Any) -> tuple[list[int], list[int]]:
    if isinstance(dims, (tuple, list)):
        if len(dims) != 2:
            raise RuntimeError(f"{name}(): dims must be an int or two lists of ints, but got {dims!r}")
        first, second = ([d] if isinstance(d, int) else list(d) for d in dims)
    else:
        count = as_index(name, "dims", dims.item() if hasattr(dims, "item") else dims)
        if count < 0:
            raise RuntimeError(f"{name}(): expects dims >= 0, but got dims={count}")
        if count > min(a.dim(), b.dim()):
            raise RuntimeError(f"{name}(): expects dims < ndim_a or ndim_b, but got dims={count}")
        first, second = list(range(a.dim() - count, a.dim())), list(range(count))
    if len(first) != len(second):
        raise RuntimeError(
            f"{name}(): both dimension lists should have same length, got {first} and {second}"
        )
    return [wrapped(name, d, a.dim()) for d in first], [wrapped(name, d, b.dim()) for d in second]


@public(method=False)
@planned
@lower_precision
def tensordot(a: Any, b: Any, dims: Any = 2) -> Any:
    """Sums of products over dimensions of two tensors.

    Parameters
    ----------
    a, b : Tensor
        Of one dtype.
    dims : int or two lists of int
        How many of the last dimensions of `a` and the first of `b`, or which of each.

    Raises
    ------
    RuntimeError
        If sizes do not match.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.tensordot(fg.ones(2, 3), fg.ones(3, 4), dims=1).shape
    fastgrad.Size([2, 4])
    """
    need_tensor("tensordot", a, "a")
    need_tensor("tensordot", b, "b", 2)
    first, second = _dims_of("tensordot", dims, a, b)
    left, right = list(range(a.dim())), [a.dim() + k for k in range(b.dim())]
    for p, q in zip(first, second, strict=True):
        if a.shape[p] != b.shape[q] and 1 not in (a.shape[p], b.shape[q]):
            raise RuntimeError(
                f"tensordot(): contracted dimensions need to match, but first has size {a.shape[p]} in dim {p} and "
                f"second has size {b.shape[q]} in dim {q}"
            )
        right[q] = left[p]
    result = [n for n in left if n not in right] + [n for n in right if n not in left]
    x, names = _product((a, left), (b, right), set(result))
    return permute(x, [names.index(n) for n in result]) if names != result else x


@public()
@planned
def inner(input: Any, other: Any) -> Any:
    """Sums of products over the last dimensions of two tensors; a product where one has no dimensions.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.inner(fg.tensor([1.0, 2.0]), fg.tensor([3.0, 4.0]))
    tensor(11.)
    """
    need_tensor("inner", input)
    need_tensor("inner", other, "other", 2)
    if input.dim() == 0 or other.dim() == 0:
        return input * other
    if input.shape[-1] != other.shape[-1]:
        raise RuntimeError(
            f"inner(): the last dimension must match on both input tensors but got shapes {list(input.shape)} and "
            f"{list(other.shape)}"
        )
    if input.dim() == 1 == other.dim():
        return dot(input, other)
    return tensordot(input, other, ([-1], [-1]))
