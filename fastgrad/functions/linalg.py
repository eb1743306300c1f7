"""Matrix products in all their forms."""

from __future__ import annotations

from numbers import Complex, Number, Real
from typing import Any

from fastgrad import dtypes
from fastgrad.errors import renamed
from fastgrad.functions.arguments import need_tensor
from fastgrad.functions.autocasting import lower_precision, lower_precision_on_gpus, widest_on_gpus
from fastgrad.functions.older_forms import numbers_first
from fastgrad.functions.plans import planned
from fastgrad.functions.public import public
from fastgrad.functions.shape import expand, reshape, t, transpose, unsafe_view, unsqueeze
from fastgrad.native.build.loader import TensorBase, rt
from fastgrad.native.contracts.records import TENSOR
from fastgrad.native.host.tables import BY_NAME
from fastgrad.ops.call import apply, float_bits, is_recorded

_NDIM, _DTYPE, _NUMEL = (TENSOR.fields[n][0] for n in ("ndim", "dtype", "numel"))
_field = rt.field
_MM, _BMM, _MV, _DOT = (BY_NAME[n].id for n in ("mm", "bmm", "mv", "dot"))
_UNSQUEEZE = BY_NAME["unsqueeze"].id
_SQUEEZED = BY_NAME["reshape_copy.squeezed"].id


@public()
@planned
@lower_precision
def mm(input: Any, mat2: Any) -> Any:
    """The product of two matrices."""
    _need_dims("mm", 2, input, mat2)
    return apply(_MM, 2, 0, input, mat2)


@public()
@planned
@lower_precision
def bmm(input: Any, mat2: Any) -> Any:
    """The products of two equally long batches of matrices."""
    _need_dims("bmm", 3, input, mat2)
    return apply(_BMM, 2, 0, input, mat2)


@public()
@planned
@lower_precision_on_gpus
def mv(input: Any, vec: Any) -> Any:
    """The product of a matrix and a vector."""
    _need_tensors("mv", input, vec, "vec")
    if input.dim() != 2 or vec.dim() != 1:
        raise RuntimeError(f"mv(): expected a matrix and a vector, but got {_shapes(input, vec)}")
    _need_inner("mv", input, vec)
    _need_dtype("mv", input, vec)
    return apply(_MV, 2, 0, input, vec)


@public()
@planned
@widest_on_gpus
def dot(input: Any, tensor: Any) -> Any:
    """The sum of the products of two vectors' elements."""
    alike = _have_dims(1, input, tensor) and _field(input, _DTYPE) == _field(tensor, _DTYPE)
    if alike and _field(input, _NUMEL) == _field(tensor, _NUMEL):
        return apply(_DOT, 2, 0, input, tensor)
    _need_tensors("dot", input, tensor, "tensor")
    if input.dim() != 1 or tensor.dim() != 1:
        raise RuntimeError(f"dot(): 1D tensors expected, but got {_shapes(input, tensor)}")
    _need_dtype("dot", input, tensor)
    if input.shape[0] != tensor.shape[0]:
        raise RuntimeError(
            "dot(): inconsistent tensor size, expected two vectors of as many elements, but got "
            f"{_shapes(input, tensor)}"
        )
    return apply(_DOT, 2, 0, input, tensor)


def _have_dims(n: int, a: Any, b: Any) -> bool:
    """Whether two objects are tensors of `n` dimensions."""
    return (
        isinstance(a, TensorBase)
        and isinstance(b, TensorBase)
        and _field(a, _NDIM) == n
        and _field(b, _NDIM) == n
    )


def _need_tensors(name: str, first: Any, second: Any, argument: str) -> None:
    """Refuse operands that are no tensors, before anything is said of their sizes."""
    need_tensor(name, first)
    need_tensor(name, second, argument, 2)


def _need_dims(name: str, n: int, a: Any, b: Any) -> None:
    """Refuse operands of a product that are no tensors or have not `n` dimensions."""
    if _have_dims(n, a, b):
        return
    first = ("mat1", 2) if name == "addmm" else ("input", 1)
    need_tensor(name, a, *first)
    need_tensor(name, b, "mat2", first[1] + 1)
    for x in (a, b):
        if x.dim() != n:
            kind, which = "matrices" if n == 2 else "3D tensors", "mat2" if x is b else "self"
            raise RuntimeError(
                f"{name}(): self and mat2 must be {kind}, but {which} is {x.dim()}D: got {_shapes(a, b)}"
            )


def _shapes(a: Any, b: Any) -> str:
    return f"sizes {list(a.shape)} and {list(b.shape)}"


def _need_dtype(name: str, a: Any, b: Any) -> None:
    if a.dtype is not b.dtype:
        raise RuntimeError(
            f"{name}(): expected both operands to have the same dtype, but got {a.dtype.type_name} and "
            f"{b.dtype.type_name}; convert one with .to(dtype)"
        )


def _need_inner(name: str, a: Any, b: Any) -> None:
    inner = b.shape[-2] if b.dim() > 1 else b.shape[0]
    if a.shape[-1] != inner:
        raise RuntimeError(
            f"{name}(): {_shapes(a, b)} cannot be multiplied: the inner sizes {a.shape[-1]} and {inner} differ"
        )


@public()
@planned
@lower_precision
def matmul(input: Any, other: Any) -> Any:
    """The matrix product, with vectors as rows or columns and batches broadcast.

    Parameters
    ----------
    input, other : Tensor
        Of at least one dimension and one dtype.

    Returns
    -------
    Tensor

    Raises
    ------
    RuntimeError
        If an operand is a scalar, or inner or batch sizes do not fit.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.matmul(fg.tensor([[1.0, 2.0]]), fg.tensor([3.0, 4.0]))
    tensor([11.])
    """
    a, b = need_tensor("matmul", input), need_tensor("matmul", other, "other", 2)
    try:
        return apply(_MM, 2, 0, a, b) if a.ndim == 2 and b.ndim == 2 else _matmul(a, b)
    except RuntimeError as error:
        raise renamed(error, "matmul") from error.__cause__


def _matmul(a: Any, b: Any) -> Any:
    n, m = a.ndim, b.ndim
    if n == 0 or m == 0:
        raise RuntimeError(f"matmul(): both arguments need to be at least 1D, but got {_shapes(a, b)}")
    _need_inner("matmul", a, b)
    if m == 1 and n <= 2:
        return apply(_DOT if n == 1 else _MV, 2, 0, a, b)
    if n == 1 and m == 2:
        out = apply(_MM, 2, 0, unsqueeze(a, 0), b)
        return apply(_SQUEEZED, 1, 0, out, b.shape[1])
    if _folds(a, b):
        return _folded(a, b)
    return _batched(a, b)


def _folds(a: Any, b: Any) -> bool:
    """Whether a batch times one matrix or vector is one product of a tall matrix, as PyTorch decides it.

    It is where the gradient of the single operand would else be made for each of the batch and then summed, or where
    the batch is a tall matrix as it lies in memory.
    """
    batch, single = (a, b) if a.ndim >= b.ndim else (b, a)
    if single.ndim > 2:
        return False
    if single.requires_grad:
        return True
    if a.ndim == 2:
        return False
    if batch.numel() == 0:
        return True
    sizes, steps = list(batch.shape), list(batch.stride())
    if batch is b:
        for values in (sizes, steps):
            values[-2:] = values[-1], values[-2]
    return all(steps[k] == steps[k + 1] * sizes[k + 1] for k in range(batch.ndim - 2))


def _folded(a: Any, b: Any) -> Any:
    swapped = b.ndim > a.ndim
    if swapped:  # transposed, the batch stands on the left
        a, b = transpose(b, -2, -1), t(a) if a.ndim == 2 else a
    shape = tuple(a.shape)
    rows = reshape(a, -1 if a.numel() else _rows(shape), shape[-1])
    if b.ndim == 1:
        return unsafe_view(apply(_MV, 2, 0, rows, b), *shape[:-1])
    out = unsafe_view(apply(_MM, 2, 0, rows, b), *shape[:-1], b.shape[1])
    return transpose(out, -2, -1).contiguous() if swapped else out


def _rows(shape: tuple[int, ...]) -> int:
    rows = 1
    for s in shape[:-1]:
        rows *= s
    return rows


def _batched(a: Any, b: Any) -> Any:
    sa, sb = tuple(a.shape), tuple(b.shape)
    n, m = len(sa), len(sb)
    if n == m == 3 and sa[0] == sb[0] and not is_recorded(a, b):  # PyTorch's history has views here
        return apply(_BMM, 2, 0, a, b)
    batch = []
    rank = max(n, m) - 2
    pa, pb = sa[:-2], sb[:-2]
    for x, y in zip((1,) * (rank - len(pa)) + pa, (1,) * (rank - len(pb)) + pb, strict=True):
        if x != y and 1 not in (x, y):
            raise RuntimeError(
                f"matmul(): the batch sizes of {list(sa)} and {list(sb)} do not broadcast: {x} against {y}"
            )
        batch.append(y if x == 1 else x)
    total = 1
    for s in batch:
        total *= s
    left, right = sa[-2:] if n > 1 else (1, sa[0]), sb[-2:] if m > 1 else (sb[0], 1)
    if n == 1:
        a = unsqueeze(a, 0)
    if m == 1:
        b = unsqueeze(b, 1)
    a = reshape(expand(a, (*batch, *left)), (total, *left))
    b = reshape(expand(b, (*batch, *right)), (total, *right))
    ends = (*left[: n > 1], *right[1 : 1 + (m > 1)])
    return unsafe_view(apply(_BMM, 2, 0, a, b), *batch, *ends)


_T, _VIEW = BY_NAME["t"].id, BY_NAME["view"].id
_ADDMM, _ADDMM_SCALED = (BY_NAME[n].id for n in ("addmm", "addmm.scaled"))


@public()
@planned
@numbers_first(3, "beta", "alpha")
@lower_precision
def addmm(input: Any, mat1: Any, mat2: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """``beta * input + alpha * (mat1 @ mat2)``; `input` is broadcast to the product.

    Parameters
    ----------
    input, mat1, mat2 : Tensor
        Of one dtype; `mat1` and `mat2` are matrices.
    beta, alpha : number
        With ``beta=0`` `input` counts for nothing, not even where it is NaN.

    Raises
    ------
    RuntimeError
        If sizes or dtypes do not fit.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.addmm(fg.tensor([1.0]), fg.tensor([[1.0, 2.0]]), fg.tensor([[3.0], [4.0]]))
    tensor([[12.]])
    """
    need_tensor("addmm", input)
    _need_dims("addmm", 2, mat1, mat2)
    beta, alpha = factors("addmm", mat1.dtype, beta, alpha)
    if beta == 1 and alpha == 1:
        return apply(_ADDMM, 3, 0, input, mat1, mat2)
    if mat1.dtype.inexact and not isinstance(beta, complex) and not isinstance(alpha, complex):
        return apply(_ADDMM_SCALED, 3, 0, input, mat1, mat2, float_bits(beta), float_bits(alpha))
    if input.dtype is not mat1.dtype:
        return apply(_ADDMM, 3, 0, input, mat1, mat2)  # which says what is wrong
    product = apply(_MM, 2, 0, mat1, mat2)
    if alpha != 1:
        product = product * alpha
    return product if beta == 0 else input * beta + product


def factors(name: str, dtype: Any, beta: Any, alpha: Any) -> tuple[Any, Any]:
    """The factors of a sum of tensors of a dtype, as numbers that it holds; tensors stay as they are."""
    return _factor(name, "beta", dtype, beta), _factor(name, "alpha", dtype, alpha)


def _factor(name: str, argument: str, dtype: Any, factor: Any) -> Any:
    if dtype is dtypes.bool_ and isinstance(factor, int):
        return bool(factor)
    if type(factor) is int or isinstance(factor, TensorBase) or (type(factor) is float and dtype.inexact):
        return factor
    if not isinstance(factor, Number):
        raise TypeError(f"{name}(): argument '{argument}' must be Number, not {type(factor).__name__}")
    if isinstance(factor, Complex) and not isinstance(factor, Real) and not dtype.is_complex:
        if factor.imag != 0:
            raise RuntimeError(
                f"{name}(): value cannot be converted to type {dtype.type_name} without overflow"
            )
        factor = factor.real
    return factor if dtype.inexact else int(factor)  # as in PyTorch


@public()
@planned
def outer(input: Any, vec2: Any) -> Any:
    """The products of each element of a vector with each of another."""
    if not _have_dims(1, input, vec2):
        _need_tensors("outer", input, vec2, "vec2")
        raise RuntimeError(f"outer(): expected two vectors, but got {_shapes(input, vec2)}")
    return apply(_UNSQUEEZE, 1, 0, input, 1) * vec2


@planned
@lower_precision
def linear(input: Any, weight: Any, bias: Any = None) -> Any:
    """``input @ weight.T + bias``.

    Parameters
    ----------
    input : Tensor
        Of shape (..., in_features).
    weight : Tensor
        Of shape (out_features, in_features) or (in_features,).
    bias : Tensor, optional
        Of shape (out_features,).

    Returns
    -------
    Tensor
        Of shape (..., out_features).

    Raises
    ------
    RuntimeError
        If sizes or dtypes do not fit.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.nn.functional.linear(fg.tensor([[1.0, 2.0]]), fg.tensor([[3.0, 4.0]]), fg.tensor([0.5]))
    tensor([[11.5000]])
    """
    if not isinstance(input, TensorBase) or not isinstance(weight, TensorBase):
        _need_tensors("linear", input, weight, "weight")
    try:
        if _field(input, _NDIM) == 2 and _field(weight, _NDIM) == 2:
            if bias is None:
                return apply(_MM, 2, 0, input, apply(_T, 1, 0, weight, 0, 1))
            return apply(_ADDMM, 3, 0, bias, input, apply(_T, 1, 0, weight, 0, 1))
        return _linear(input, weight, bias)
    except (RuntimeError, TypeError) as error:
        if bias is not None:
            need_tensor("linear", bias, "bias", 3)
        raise renamed(error, "linear") from error.__cause__


def _linear(a: Any, w: Any, bias: Any) -> Any:
    if a.ndim == 0 or w.ndim not in (1, 2):
        raise RuntimeError(
            f"linear(): both arguments need to be at least 1D and weight at most 2D, but got {_shapes(a, w)}"
        )
    if w.ndim == 1:
        out = _matmul(a, w)
        return out if bias is None else out + bias
    _need_inner("linear", a, t(w))
    shape, sizes = tuple(a.shape), (*a.shape[:-1], w.shape[0])
    if bias is not None and (a.is_contiguous() or a.ndim == 1):
        rows = apply(_VIEW, 1, 0, a, _rows(shape), shape[-1])
        return apply(_VIEW, 1, 0, apply(_ADDMM, 3, 0, bias, rows, t(w)), *sizes)
    columns = t(w)  # first, as in PyTorch: it is differentiated last
    if a.ndim == 1:
        out = apply(_MM, 2, 0, unsqueeze(a, 0), columns)
        return apply(_SQUEEZED, 1, 0, out, w.shape[0])
    rows = reshape(a, _rows(shape), shape[-1])
    out = unsafe_view(apply(_MM, 2, 0, rows, columns), *sizes)
    return out if bias is None else out.add_(bias)
