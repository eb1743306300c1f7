"""Products of matrices and vectors that are made of others: sums with factors, chains, powers, outer products."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Complex, Integral
from typing import Any

from fastgrad import dtypes
from fastgrad.errors import renamed
from fastgrad.functions.arguments import as_index, is_tensor, need_tensor, need_tensors, records
from fastgrad.functions.autocasting import lower_precision
from fastgrad.functions.complex_numbers import conj
from fastgrad.functions.likeness import ones_like
from fastgrad.functions.linalg import addmm, bmm, dot, factors, mm, mv, outer
from fastgrad.functions.older_forms import numbers_first
from fastgrad.functions.plans import planned
from fastgrad.functions.public import public
from fastgrad.functions.shape import expand, permute, reshape, stack, wrapped


def _with_factors(name: str, input: Any, product: Any, beta: Any, alpha: Any) -> Any:
    """``beta * input + alpha * product``, in which `input` counts for nothing where beta is zero."""
    beta, alpha = factors(name, product.dtype, beta, alpha)
    if input.dtype is not product.dtype:
        raise RuntimeError(
            f"{name}(): expected input and product of one dtype, but got {input.dtype.type_name} and "
            f"{product.dtype.type_name}"
        )
    if alpha != 1:
        product = product * alpha
    if beta == 0:
        input = expand(input, *product.shape)  # its sizes have to fit all the same
        return product + input.clone().zero_() if records(input) else product
    return expand(input if beta == 1 else input * beta, *product.shape) + product


def _named(name: str, product: Callable[..., Any], *operands: Any) -> Any:
    """A product, whose errors speak of the function `name`."""
    try:
        return product(*operands)
    except RuntimeError as error:
        raise renamed(error, name) from error.__cause__


@public()
@planned
@numbers_first(3, "beta", "alpha")
@lower_precision
def baddbmm(input: Any, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """``beta * input + alpha * bmm(batch1, batch2)``.

    Parameters
    ----------
    input : Tensor
        Broadcast to the product.
    batch1, batch2 : Tensor
        Of shapes (b, n, m) and (b, m, p).
    beta, alpha : number
        With ``beta=0`` `input` counts for nothing, not even where it is NaN.

    Raises
    ------
    RuntimeError
        If sizes or dtypes do not fit.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.baddbmm(fg.ones(1), fg.ones(1, 1, 2), fg.ones(1, 2, 1), beta=3)
    tensor([[[5.]]])
    """
    need_tensor("baddbmm", input)
    return _with_factors("baddbmm", input, _named("baddbmm", bmm, batch1, batch2), beta, alpha)


@public()
@planned
@numbers_first(3, "beta", "alpha")
@lower_precision
def addbmm(input: Any, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """``beta * input`` plus `alpha` times the sum of the products of all pairs of matrices. See `baddbmm`."""
    need_tensor("addbmm", input)
    need_tensor("addbmm", batch1, "batch1", 2)
    need_tensor("addbmm", batch2, "batch2", 3)
    if batch1.dim() != 3 or batch2.dim() != 3 or batch1.shape[0] != batch2.shape[0]:
        raise RuntimeError(
            f"addbmm(): expected two equally long batches of matrices, but got sizes {list(batch1.shape)} and "
            f"{list(batch2.shape)}"
        )
    b, n, m = batch1.shape
    if batch2.shape[1] != m:
        raise RuntimeError(f"addbmm(): the inner sizes {m} and {batch2.shape[1]} differ")
    product = mm(reshape(permute(batch1, 1, 0, 2), n, b * m), reshape(batch2, b * m, batch2.shape[2]))
    return _with_factors("addbmm", input, product, beta, alpha)


@public()
@planned
@numbers_first(3, "beta", "alpha")
@lower_precision
def addmv(input: Any, mat: Any, vec: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """``beta * input + alpha * (mat @ vec)``. See `addmm`."""
    need_tensor("addmv", input)
    return _with_factors("addmv", input, _named("addmv", mv, mat, vec), beta, alpha)


@public()
@planned
@numbers_first(3, "beta", "alpha")
@lower_precision
def addr(input: Any, vec1: Any, vec2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """``beta * input + alpha * outer(vec1, vec2)``. See `addmm`."""
    need_tensor("addr", input)
    product = _named("addr", outer, vec1, vec2)
    dtype = dtypes.promote_types(input.dtype, product.dtype)
    for argument, factor in (("beta", beta), ("alpha", alpha)):
        if isinstance(factor, bool) and dtype is not dtypes.bool_:
            raise RuntimeError(f"addr(): Boolean {argument} only supported for Boolean results.")
        if isinstance(factor, Complex) and not isinstance(factor, Integral) and not dtype.inexact:
            raise RuntimeError(
                f"addr(): For integral input tensors, argument {argument} must not be a floating point number."
            )
    return _with_factors("addr", input.to(dtype), product.to(dtype), beta, alpha)


def _in_place(function: Callable[..., Any]) -> None:
    name = f"{function.__name__}_"

    def method(self: Any, first: Any, second: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
        out = function(self, first, second, beta=beta, alpha=alpha)
        if tuple(out.shape) != tuple(self.shape):
            raise RuntimeError(
                f"{name}(): the result has shape {list(out.shape)}, but self {list(self.shape)}"
            )
        if not dtypes.can_cast(out.dtype, self.dtype):
            raise RuntimeError(f"{name}(): {out.dtype.type_name} can't be cast to {self.dtype.type_name}")
        return self.copy_(out)

    method.__name__, method.__qualname__ = name, f"Tensor.{name}"
    method.__doc__ = f"In-place form of `{function.__name__}`."
    public(package=False)(numbers_first(3, "beta", "alpha")(method))


for _function in (addmm, baddbmm, addbmm, addmv, addr):
    _in_place(_function)


@public()
@planned
def ger(input: Any, vec2: Any) -> Any:
    """Another name of `outer`."""
    return outer(input, vec2)


@public()
@planned
def vdot(input: Any, other: Any) -> Any:
    """The inner product, with the conjugates of `input`; of real vectors another name of `dot`.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.vdot(fg.tensor([1j, 2]), fg.tensor([1j, 1]))
    tensor(3.+0.j)
    """
    return dot(conj(need_tensor("vdot", input)), other)


@public()
@planned
def kron(input: Any, other: Any) -> Any:
    """The Kronecker product: each element of `input` times all of `other`.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.kron(fg.tensor([1, 2]), fg.tensor([10, 20]))
    tensor([10, 20, 20, 40])
    """
    a, b = list(need_tensor("kron", input).shape), list(need_tensor("kron", other, "other", 2).shape)
    a, b = [1] * (len(b) - len(a)) + a, [1] * (len(a) - len(b)) + b
    left = reshape(input, [size for s in a for size in (s, 1)])
    right = reshape(other, [size for s in b for size in (1, s)])
    return reshape(left * right, [s * t for s, t in zip(a, b, strict=True)])


def cross_product(name: str, input: Any, other: Any, dim: int) -> Any:
    """The products of vectors of three elements along a dimension."""
    if input.dim() != other.dim():
        raise RuntimeError(
            f"{name}(): inputs must have the same number of dimensions, but got {input.dim()} and {other.dim()}"
        )
    d = wrapped(name, dim, input.dim())
    if input.shape[d] != 3 or other.shape[d] != 3:
        raise RuntimeError(
            f"{name}(): inputs dimension {dim} must have length 3. Got {input.shape[d]} and {other.shape[d]}"
        )
    a, b = input.unbind(d), other.unbind(d)
    parts = [a[(k + 1) % 3] * b[(k + 2) % 3] - a[(k + 2) % 3] * b[(k + 1) % 3] for k in range(3)]
    return stack(parts, d)


@public()
@planned
def cross(input: Any, other: Any, dim: Any = None) -> Any:
    """The vector products of vectors of three elements.

    Parameters
    ----------
    input, other : Tensor
        Their shapes broadcast.
    dim : int, optional
        Where the elements of a vector stand; the first dimension of size 3 if not given.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.cross(fg.tensor([1.0, 0.0, 0.0]), fg.tensor([0.0, 1.0, 0.0]))
    tensor([0., 0., 1.])
    """
    need_tensor("cross", input)
    need_tensor("cross", other, "other", 2)
    if dim is None:
        dim = next((k for k, size in enumerate(input.shape) if size == 3), None)
        if dim is None:
            raise RuntimeError("cross(): no dimension of size 3 in input")
    return cross_product("cross", input, other, as_index("cross", "dim", dim))


def multiplied_chain(name: str, tensors: Sequence[Any]) -> Any:
    """The product of a chain of matrices in the order with the fewest multiplications."""
    if len(tensors) < 2:
        raise RuntimeError(f"{name}(): expected at least 2 tensors but got {len(tensors)}")
    first, last = tensors[0].dim() == 1, tensors[-1].dim() == 1
    chain = [x[None] if k == 0 and first else x for k, x in enumerate(tensors)]
    if last:
        chain[-1] = chain[-1][:, None]
    for k, x in enumerate(chain):
        if x.dim() != 2:
            raise RuntimeError(f"{name}(): tensor {k} must be 2D but got {x.dim()}D")
        if k and chain[k - 1].shape[1] != x.shape[0]:
            raise RuntimeError(
                f"{name}(): tensors {k - 1} and {k} with shapes {list(chain[k - 1].shape)} and {list(x.shape)} cannot "
                "be multiplied"
            )
    out = _joined_chain(chain, [x.shape[0] for x in chain] + [chain[-1].shape[1]])
    return out[0, 0] if first and last else out[0] if first else out[:, 0] if last else out


def _joined_chain(chain: Sequence[Any], p: Sequence[int]) -> Any:
    n = len(chain)
    cost = {(i, i): 0 for i in range(n)}
    cut: dict[tuple[int, int], int] = {}
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            best = min((cost[i, k] + cost[k + 1, j] + p[i] * p[k + 1] * p[j + 1], k) for k in range(i, j))
            cost[i, j], cut[i, j] = best

    def multiplied(i: int, j: int) -> Any:
        return chain[i] if i == j else mm(multiplied(i, cut[i, j]), multiplied(cut[i, j] + 1, j))

    return multiplied(0, n - 1)


@public(method=False)
@lower_precision
def chain_matmul(*matrices: Any) -> Any:
    """The product of matrices, in the order with the fewest multiplications."""
    given = matrices[0] if len(matrices) == 1 and not is_tensor(matrices[0]) else matrices
    found = need_tensors("chain_matmul", given, "matrices")
    if not found:
        raise RuntimeError("chain_matmul(): Expected one or more matrices")
    return found[0] if len(found) == 1 else multiplied_chain("chain_matmul", found)


@public()
@planned
def trace(input: Any) -> Any:
    """The sum of the diagonal of a matrix."""
    if need_tensor("trace", input).dim() != 2:
        raise RuntimeError(f"trace(): expected a matrix, but got tensor with dim {input.dim()}")
    return input.diagonal().sum()


@public(method=False)
@planned
def vander(x: Any, N: Any = None, increasing: bool = False) -> Any:  # noqa: N803 - PyTorch's name
    """The powers of a vector's elements as columns, the highest first unless `increasing`.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.vander(fg.tensor([2, 3]), 3)
    tensor([[4, 2, 1],
            [9, 3, 1]])
    """
    if need_tensor("vander", x, "x").dim() != 1:
        raise RuntimeError(f"vander(): x must be a one-dimensional tensor, but got {x.dim()} dimensions")
    out = powers("vander", x, x.shape[0] if N is None else as_index("vander", "N", N))
    return out if increasing else out.flip(-1)


def powers(name: str, x: Any, n: int) -> Any:
    """The powers 0 to n - 1 of each element, along a new last dimension."""
    if n < 0:
        raise RuntimeError(f"{name}(): N must be non-negative, but got {n}")
    if n == 0:
        return x[..., None][..., :0].clone()
    columns = [ones_like(x)]
    for _ in range(n - 1):
        columns.append(columns[-1] * x)
    return stack(columns, -1)
