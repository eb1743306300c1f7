"""What functions over batches of matrices share: what they take, what they say of matrices that they cannot take."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from fastgrad import random
from fastgrad.functions.arguments import need_tensor
from fastgrad.functions.complex_numbers import conj
from fastgrad.functions.creation import eye
from fastgrad.functions.data import elements_of
from fastgrad.functions.plans import unplanned
from fastgrad.native.build.loader import rt
from fastgrad.native.contracts.element_types import COMPLEX, HALVES, WIDE
from fastgrad.native.contracts.records import TENSOR

_DTYPE = TENSOR.fields["dtype"][0]


class LinAlgError(RuntimeError):
    """A matrix has no such decomposition, or no inverse, or a method did not converge."""


class Sizes(NamedTuple):
    """The sizes of a batch of matrices."""

    batch: int
    m: int
    n: int


def room_on(x: Any, count: int) -> int:
    """The room that a kernel gets for each matrix of a tensor; those of the CPU ask for memory themselves."""
    return count if x.device.type == "cuda" else 0


def sizes_of(x: Any) -> Sizes:
    """How many matrices a tensor holds, and their rows and columns."""
    shape = x.shape
    return Sizes(math.prod(shape[:-2]), shape[-2], shape[-1])


def shape_of(m: int, n: int) -> str:
    """How matrices are shaped, by which their derivatives differ."""
    return "square" if m == n else "wide" if m < n else "tall"


def need_floats(name: str, x: Any, argument: str = "A", position: int = 1) -> Any:
    """A tensor of float32, float64 or complex numbers; RuntimeError otherwise."""
    code = rt.field(need_tensor(name, x, argument, position), _DTYPE)
    if code in WIDE or code in COMPLEX:
        return x
    if code in HALVES:
        raise RuntimeError(
            f"{name}(): Low precision dtypes not supported. Got {x.dtype.type_name}; convert {argument} with "
            ".float()"
        )
    raise RuntimeError(
        f"{name}(): Expected a floating point tensor as input. Got {x.dtype.type_name}; convert {argument} with "
        ".float()"
    )


def need_matrices(name: str, x: Any, argument: str = "A", position: int = 1) -> Any:
    """A batch of matrices of floats; RuntimeError otherwise."""
    return need_rows(name, need_floats(name, x, argument, position), argument)


def need_rows(name: str, x: Any, argument: str = "A") -> Any:
    """A tensor of at least two dimensions; RuntimeError otherwise."""
    if x.dim() < 2:
        raise RuntimeError(
            f"{name}(): The input tensor {argument} must have at least 2 dimensions, but it has {x.dim()}"
        )
    return x


def need_square(name: str, x: Any, argument: str = "A", position: int = 1) -> Any:
    """A batch of square matrices of floats; RuntimeError otherwise."""
    return need_equal_sides(name, need_matrices(name, x, argument, position), argument)


def need_equal_sides(name: str, x: Any, argument: str = "A") -> Any:
    """A batch of square matrices of any dtype; RuntimeError otherwise."""
    m, n = x.shape[-2:]
    if m != n:
        raise RuntimeError(
            f"{name}(): {argument} must be batches of square matrices, but they are {m} by {n} matrices"
        )
    return x


def need_alike(name: str, a: Any, b: Any, first: str = "A", second: str = "B") -> None:
    """Refuse operands of different dtypes."""
    if a.dtype is not b.dtype:
        raise RuntimeError(
            f"{name}(): Expected {first} and {second} to have the same dtype, but found {first} of type "
            f"{a.dtype.type_name} and {second} of type {b.dtype.type_name} instead"
        )


def broadcast_sizes(name: str, *sizes: Sequence[int]) -> tuple[int, ...]:
    """The batch sizes that all of these broadcast to."""
    rank = max(map(len, sizes))
    found = []
    for k in range(rank):
        here = {s[k - rank + len(s)] for s in sizes if k - rank + len(s) >= 0} - {1}
        if len(here) > 1:
            raise RuntimeError(
                f"{name}(): the batch sizes {' and '.join(str(list(s)) for s in sizes)} do not broadcast"
            )
        found.append(here.pop() if here else 1)
    return tuple(found)


def broadcast(name: str, *matrices: Any) -> tuple[Any, ...]:
    """Batches of matrices, expanded to common batch sizes."""
    leading = [tuple(x.shape[:-2]) for x in matrices]
    if all(sizes == leading[0] for sizes in leading):
        return matrices
    common = broadcast_sizes(name, *leading)
    return tuple(x if tuple(x.shape[:-2]) == common else x.expand(*common, *x.shape[-2:]) for x in matrices)


def turned(x: Any) -> Any:
    """The transposed matrices, as a view."""
    return x.transpose(-2, -1)


def adjoint(x: Any) -> Any:
    """The transposed matrices of conjugates; of real matrices the transposed ones, as a view."""
    return conj(turned(x))


def eyes(like: Any, rows: int, columns: int) -> Any:
    """The identity in the dtype and on the device of a tensor."""
    return eye(rows, columns, dtype=like.dtype, device=like.device)


def raise_for(
    name: str, info: Any, say: Callable[[int], str], error: type[RuntimeError] = LinAlgError
) -> None:
    """Raise if LAPACK says that something is wrong with a matrix: of the first one, what `say` makes of it."""
    unplanned()
    info = random.batches.values(info)
    if info.is_meta:
        return  # nothing was computed
    codes = elements_of(info.detach()).ravel()
    if codes.any():
        k = int(codes.nonzero()[0][0])
        which = f"(Batch element {k}): " if info.dim() else ""
        raise error(f"{name}(): {which}{say(int(codes[k]))}")


def not_converged(code: int) -> str:
    """What is wrong where eigenvalues or singular values were not found."""
    if code < 0:
        return "The algorithm failed to converge because the input matrix contained non-finite values."
    return (
        "The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated "
        f"values (error code: {code})."
    )
