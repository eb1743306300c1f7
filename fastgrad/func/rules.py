"""How ops treat batched operands: elementwise ops, reductions, views, joining and splitting, products.

Note [Batching rules]: a rule gets a `Call`, whose operands are values of the innermost level: those that are batched
have the batch in front, the others are as they were. It answers with the result, or a tuple of results, with the batch
in front. Integers of the call count dimensions of one element and are shifted behind the batch. It may answer
NotImplemented, where the op then runs for each element.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from fastgrad import dtypes
from fastgrad.func.batched import Level, expanded
from fastgrad.functions.linalg import matmul
from fastgrad.native.build.loader import TensorBase, rt
from fastgrad.native.contracts.flags import WRAPPED_NUMBER
from fastgrad.native.contracts.frames.linalg import LINALG
from fastgrad.native.contracts.limits import ALL_DIMS, MAX_DIMS
from fastgrad.native.contracts.records import TENSOR
from fastgrad.native.host.tables import BY_NAME, OPS
from fastgrad.ops.call import apply, float_of_bits
from fastgrad.ops.registry import Op

IN_PLACE = -1
_FLAGS, _DTYPE = TENSOR.fields["flags"][0], TENSOR.fields["dtype"][0]
_VIEW, _CAST, _ALIAS, _CLONE, _SQUEEZED, _SQUEEZE_DIM, _UNSQUEEZE, _SUM, _MUL, _ADD, _BMM = (
    BY_NAME[n].id
    for n in (
        "view",
        "cast",
        "alias",
        "clone",
        "view.squeezed",
        "squeeze.dim",
        "unsqueeze",
        "sum.dim",
        "mul",
        "add",
        "bmm",
    )
)
_sizes, _field = rt.sizes, rt.field

Rule = Callable[["Call"], Any]
RULES: dict[str, Rule] = {}
"""The rules of ops by their names."""


class Call:
    """A call of an op on batched operands.

    Attributes
    ----------
    op : Op
    given : tuple
        The operands as the function passed them; sizes and dtypes are those of one element.
    xs : list
        The values of the innermost level, numbers, or None.
    own : list of bool
        Which of them have the batch in front.
    ints : tuple of int
        The integers.
    n_outs : int
        As for `ops.call.apply`.
    level : Level
    """

    __slots__ = ("given", "ints", "level", "n_outs", "op", "own", "xs")

    def __init__(
        self,
        op: Op,
        given: tuple[Any, ...],
        own: list[bool],
        ints: tuple[int, ...],
        n_outs: int,
        level: Level,
    ) -> None:
        self.op, self.given, self.own, self.ints = op, given, own, ints
        self.n_outs, self.level = n_outs, level
        self.xs = [x._value if mine else x for x, mine in zip(given, own, strict=True)]

    def ndim(self, k: int) -> int:
        """How many dimensions one element of an operand has."""
        return len(_sizes(self.given[k]))

    def value(self, k: int) -> Any:
        """An operand with the batch in front, repeated if it is the same for all elements; None if it is missing."""
        x = self.xs[k]
        return x if x is None or self.own[k] else expanded(x, self.level.size)

    def again(self, xs: Sequence[Any], *ints: int) -> Any:
        """The op with other operands and integers."""
        return apply(self.op.id, len(xs), self.n_outs, *xs, *ints)


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Declare the rule of ops."""

    def declare(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return declare


def viewed(x: Any, *sizes: int) -> Any:
    """A tensor in other sizes: a view where its strides allow it, else a copy."""
    return apply(_VIEW, 1, 0, x if rt.viewable(x, sizes) else apply(_CLONE, 1, 0, x, 0), *sizes)


def aligned(x: Any, ndim: int) -> Any:
    """A value whose elements get `ndim` dimensions, by sizes of one in front."""
    batch, *rest = _sizes(x)
    return x if len(rest) >= ndim else apply(_VIEW, 1, 0, x, batch, *(1,) * (ndim - len(rest)), *rest)


def cast(x: Any, dtype: Any) -> Any:
    """A tensor in a dtype."""
    return x if _field(x, _DTYPE) == dtype.code else apply(_CAST, 1, 0, x, dtype.code)


def behind(c: Call, dim: int, n: int) -> int:
    """A dimension of one element, which has `n`, as one of the value; IndexError if there is none."""
    if not -n <= dim < n:
        raise IndexError(
            f"{c.op.called}(): Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {dim})"
        )
    return dim % n + 1


# --- elementwise -----------------------------------------------------------------------------------------------


def elementwise(c: Call) -> Any:
    """The rule of all elementwise ops: sizes are aligned from behind, and broadcast by the op itself."""
    if len(c.xs) == 1:
        return c.again(c.xs, *c.ints)
    tensors = [k for k, x in enumerate(c.xs) if isinstance(x, TensorBase)]
    ndim = max(c.ndim(k) for k in tensors)
    if c.n_outs == IN_PLACE and (not c.own[0] or c.ndim(0) < ndim):
        raise RuntimeError(
            f"vmap: {c.op.called}(self, *extra_args) is not possible because there exists a Tensor `other` in "
            "extra_args that has more elements than `self`. This happened due to `other` being vmapped over but "
            "`self` not being vmapped over in a vmap. Please use out-of-place operators instead."
        )
    xs = [aligned(x, ndim) if own else x for x, own in zip(c.xs, c.own, strict=True)]
    operands = [k for k in tensors if c.op.inputs[min(k, len(c.op.inputs) - 1)] != "condition"]
    if len({_field(c.xs[k], _DTYPE) for k in operands}) > 1:
        _promote(c, xs, operands)
    return c.again(xs, *c.ints)


def _category(dtype: dtypes.dtype) -> tuple[bool, bool, bool]:
    """The kind of numbers of a dtype, greater for wider ones."""
    return dtype.is_complex, dtype.inexact, dtype is not dtypes.bool_


def _promote(c: Call, xs: list[Any], operands: Sequence[int]) -> None:
    """Cast operands to the dtype that one element gives: with the batch in front, a 0-dim tensor has a dimension."""
    plain = [k for k in operands if not _field(c.given[k], _FLAGS) & WRAPPED_NUMBER]
    if c.n_outs == IN_PLACE or all(c.ndim(k) for k in plain if c.own[k]):
        return
    most = [k for k in plain if c.ndim(k)] or plain
    target = c.given[most[0]].dtype
    for k in most[1:]:
        target = dtypes.promote_types(target, c.given[k].dtype)
    for k in plain:
        if k not in most:
            found = c.given[k]
            if _category(found.dtype) > _category(target):
                target = found.dtype
    for k in plain:
        xs[k] = cast(xs[k], target)


# --- reductions ------------------------------------------------------------------------------------------------


def _with_a_dim(x: Any) -> Any:
    """A value whose elements have no dimensions, with one of size one."""
    return apply(_UNSQUEEZE, 1, 0, x, 1)


def _reduced(c: Call, before: int) -> Any:
    """`before` integers, the last of them whether dimensions stay; then the dimensions, none for all."""
    x, n = c.xs[0], c.ndim(0)
    first, dims = c.ints[:before], c.ints[before:]
    if n == 0:
        return c.again([_with_a_dim(x)], *first[:-1], 0, 1)
    return c.again([x], *first, *(behind(c, d, n) for d in dims or range(n)))


@rule("sum", "sum.dim", "mean", "mean.dim", "amax", "amin", "any", "all")
def _(c: Call) -> Any:
    return _reduced(c, 1)


@rule("var", "std", "var_mean", "std_mean", "euclidean_norm")
def _(c: Call) -> Any:
    return _reduced(c, 2)


@rule("max", "min")
def _(c: Call) -> Any:
    """The extremes of all elements, whose gradient is shared among equal ones, as that of `amax` and `amin`."""
    x, n = c.xs[0], c.ndim(0)
    if n == 0:
        return apply(_ALIAS, 1, 0, x)
    return apply(BY_NAME["a" + c.op.name].id, 1, 0, x, c.ints[0], *range(1, n + 1))


@rule("prod", "prod.dim")
def _(c: Call) -> Any:
    """Products along one dimension, or of all elements."""
    x, n = c.xs[0], c.ndim(0)
    dim, keepdim = c.ints
    if dim != ALL_DIMS and n:
        return c.again([x], behind(c, dim, n), keepdim)
    batch = c.level.size
    out = apply(BY_NAME["prod.dim"].id, 1, 0, viewed(x, batch, math.prod(_sizes(c.given[0]))), 1, 0)
    return viewed(out, batch, *(1,) * n) if keepdim and n else out


@rule(
    "softmax", "safe_softmax", "log_softmax", "logsumexp", "argmax", "argmin", "max_dim", "min_dim",
    "cumsum", "reversed_cumsum", "sort", "topk",
)  # fmt: skip
def _(c: Call) -> Any:
    """Ops over the rows of one dimension."""
    x, n = c.xs[0], c.ndim(0)
    dim, *rest = c.ints
    if n:
        return c.again([x], behind(c, dim, n), *rest)
    if c.op.name in ("logsumexp", "argmax", "argmin", "max_dim", "min_dim"):
        rest[0] = 0
        return c.again([_with_a_dim(x)], 1, *rest)
    out = c.again([_with_a_dim(x)], 1, *rest)
    if isinstance(out, tuple):
        return tuple(apply(_SQUEEZE_DIM, 1, 0, o, 1) for o in out)
    return apply(_SQUEEZE_DIM, 1, 0, out, 1)


# --- views -----------------------------------------------------------------------------------------------------


@rule("view", "view.squeezed", "view.strided", "reshape_copy", "reshape_copy.squeezed")
def _(c: Call) -> Any:
    sizes = list(c.ints)
    if -1 in sizes:
        known = -math.prod(sizes)
        numel = math.prod(_sizes(c.given[0]))
        if sizes.count(-1) > 1 or known == 0 or numel % known:
            return apply(c.op.id, 1, 0, c.xs[0], *sizes)  # which says what is wrong
        sizes[sizes.index(-1)] = numel // known
    return c.again([c.xs[0]], c.level.size, *sizes)


@rule("reshape_to")
def _(c: Call) -> Any:
    return c.again([c.xs[0]], c.ints[0] + 1, c.level.size, *c.ints[1:])


@rule("expand")
def _(c: Call) -> Any:
    x = c.xs[0]
    return c.again([aligned(x, len(c.ints))], c.level.size, *c.ints)


@rule("expand_to")
def _(c: Call) -> Any:
    return c.again([aligned(c.xs[0], c.ints[0])], c.ints[0] + 1, c.level.size, *c.ints[1:])


@rule("permute", "unpermute")
def _(c: Call) -> Any:
    n = c.ndim(0)
    return c.again([c.xs[0]], c.ints[0], 0, *(behind(c, d, n) for d in c.ints[1:]))


@rule("transpose", "t")
def _(c: Call) -> Any:
    n = c.ndim(0)
    if n == 0:
        return apply(_ALIAS, 1, 0, c.xs[0])
    return c.again([c.xs[0]], *(behind(c, d, n) for d in c.ints))


@rule("select", "slice", "narrow")
def _(c: Call) -> Any:
    n = c.ndim(0)
    if n == 0:
        return NotImplemented
    return c.again([c.xs[0]], behind(c, c.ints[0], n), *c.ints[1:])


@rule("squeeze", "squeeze.dim")
def _(c: Call) -> Any:
    x, dim = c.xs[0], c.ints[0]
    sizes = _sizes(c.given[0])
    if dim == MAX_DIMS:
        return apply(_SQUEEZED, 1, 0, x, c.level.size, *(s for s in sizes if s != 1))
    return c.again([x], behind(c, dim, len(sizes))) if sizes else apply(_ALIAS, 1, 0, x)


@rule("unsqueeze")
def _(c: Call) -> Any:
    return c.again([c.xs[0]], behind(c, c.ints[0], c.ndim(0) + 1))


@rule("diagonal")
def _(c: Call) -> Any:
    n = c.ndim(0)
    offset, dim1, dim2 = c.ints
    return c.again([c.xs[0]], offset, behind(c, dim1, n), behind(c, dim2, n))


@rule("as_strided")
def _(c: Call) -> Any:
    raise NotImplementedError(
        "as_strided(): not supported within vmap, where tensors lie in memory with others; use unfold, or indices"
    )


@rule("alias", "conj", "neg_view", "tril", "triu")
def _(c: Call) -> Any:
    return c.again([c.xs[0]], *c.ints)


@rule("flip")
def _(c: Call) -> Any:
    return c.again([c.xs[0]], c.ints[0] << 1)  # a mask of dimensions


@rule("clone")
def _(c: Call) -> Any:
    return c.again([c.xs[0]], *c.ints[:1] if c.ints == (0,) else ())


@rule("cast")
def _(c: Call) -> Any:
    return c.again([c.xs[0]], c.ints[0])


# --- joining and splitting -------------------------------------------------------------------------------------


@rule("unbind", "split", "split.sizes")
def _(c: Call) -> Any:
    return c.again([c.xs[0]], behind(c, c.ints[0], c.ndim(0)), *c.ints[1:])


@rule("cat")
def _(c: Call) -> Any:
    if len({c.ndim(k) for k in range(len(c.xs))}) > 1:  # empty vectors, which count for nothing
        return NotImplemented
    dim, *each = c.ints
    return c.again([c.value(k) for k in range(len(c.xs))], behind(c, dim, c.ndim(0)), *each)


@rule("stack")
def _(c: Call) -> Any:
    return c.again([c.value(k) for k in range(len(c.xs))], behind(c, c.ints[0], c.ndim(0) + 1))


# --- products --------------------------------------------------------------------------------------------------


def _times(c: Call, a: int, b: int) -> Any:
    """The product of two operands that are matrices or vectors, with the batch in front."""
    x, y = c.xs[a], c.xs[b]
    if c.own[a] and c.own[b] and c.ndim(a) == c.ndim(b) == 2:
        return apply(_BMM, 2, 0, x, y)
    rows, columns = c.ndim(a) == 1, c.ndim(b) == 1
    if rows:
        x = apply(_UNSQUEEZE, 1, 0, x, -2)
    if columns:
        y = apply(_UNSQUEEZE, 1, 0, y, -1)
    if c.own[a] and not c.own[b] and len(_sizes(y)) > 2:
        y = apply(_UNSQUEEZE, 1, 0, y, 0)
    if c.own[b] and not c.own[a] and len(_sizes(x)) > 2:
        x = apply(_UNSQUEEZE, 1, 0, x, 0)
    out = matmul(x, y)
    if columns:
        out = apply(_SQUEEZE_DIM, 1, 0, out, -1)
    return apply(_SQUEEZE_DIM, 1, 0, out, -2 if not columns else -1) if rows else out


@rule("mm", "bmm", "mv", "dot")
def _(c: Call) -> Any:
    return _times(c, 0, 1)


@rule(*(op.name for op in OPS if op.kernel is not None and op.kernel.frame() in LINALG))
def _(c: Call) -> Any:
    batch, *others = c.ints  # how many matrices there are; the results are sized as the first operand is
    return c.again([c.value(k) for k in range(len(c.xs))], batch * c.level.size, *others)


@rule("addmm")
def _(c: Call) -> Any:
    return apply(_ADD, 2, 0, *_sum_of(c))


def _sum_of(c: Call) -> tuple[Any, Any]:
    """What is added, and the product."""
    addend = aligned(c.xs[0], 2) if c.own[0] else c.xs[0]
    return addend, _times(c, 1, 2) if c.own[1] or c.own[2] else matmul(c.xs[1], c.xs[2])


@rule("addmm.scaled")
def _(c: Call) -> Any:
    addend, product = _sum_of(c)
    beta, alpha = map(float_of_bits, c.ints)
    if not (c.own[1] or c.own[2]):
        product = expanded(product, c.level.size)
    product = apply(_MUL, 2, 0, product, alpha)
    return product if beta == 0 else apply(_ADD, 2, 0, apply(_MUL, 2, 0, addend, beta), product)
