"""What ops over batches of matrices share: how they are declared and called, transposing, products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastgrad.native.contracts.element_types import COMPLEX, WIDE
from fastgrad.native.contracts.frame import Frame
from fastgrad.native.contracts.frames.linalg import sizes_of_results
from fastgrad.native.contracts.ops import CUBIC, FLOAT_ONLY, SHAPE_FRAMED, STRUCTURED
from fastgrad.ops.call import invoke
from fastgrad.ops.complex_numbers import conj_physical
from fastgrad.ops.kernel_table import Kernel
from fastgrad.ops.linalg import bmm
from fastgrad.ops.registry import Op
from fastgrad.ops.shape import narrow, narrow_backward, transpose, unsqueeze


def lapack_kernel(name: str, builder: str, frame: Frame, **options: Any) -> Kernel:
    """A kernel over matrices that calls LAPACK, which GPUs have for real numbers."""
    return Kernel(
        name, builder, frame=frame, dtypes=WIDE, cpu_dtypes=COMPLEX, requires="lapack:need_lapack", **options
    )


class MatrixOp(Op):
    """An op that is one kernel over batches of matrices, all with the same leading sizes.

    Parameters
    ----------
    name : str
    inputs : tuple of str
    kernel : Kernel
    flags : int
    **others
        See `Op`.
    """

    def __init__(
        self, name: str, inputs: tuple[str, ...], kernel: Kernel, flags: int = 0, **others: Any
    ) -> None:
        frame = kernel.frame()
        self.result_sizes = sizes_of_results(frame)
        super().__init__(
            name, STRUCTURED, inputs, (*frame.names_of("integers"), "*outputs"), kernel=kernel, forward=SHAPE_FRAMED,
            flags=FLOAT_ONLY | CUBIC | flags, n_out=len(self.result_sizes), **others,
        )  # fmt: skip

    def all_of(self, tensors: Sequence[Any], *integers: Any) -> Any:
        """Its result, or a tuple of its results."""
        return invoke(self, tensors, *integers, *self.result_sizes)

    def first_of(self, tensors: Sequence[Any], *integers: Any) -> Any:
        """Its first result, in rules as well."""
        made = self.all_of(tensors, *integers)
        return made[0] if isinstance(made, tuple) else made


def turned(x: Any) -> Any:
    """The transposed matrices."""
    return invoke(transpose, (x,), -2, -1)


def adjoint(x: Any) -> Any:
    """The transposed matrices of conjugates."""
    return invoke(conj_physical, (turned(x),))


def times(a: Any, b: Any, *more: Any) -> Any:
    """The products of matrices, from left to right."""
    out = invoke(bmm, (a, b))
    return times(out, *more) if more else out


def as_rows(x: Any) -> Any:
    """Vectors as rows, to multiply columns by their elements."""
    return invoke(unsqueeze, (x,), -2)


def as_columns(x: Any) -> Any:
    """Vectors as columns, to multiply rows by their elements."""
    return invoke(unsqueeze, (x,), -1)


def as_matrices(x: Any) -> Any:
    """Numbers as matrices of one element."""
    return as_columns(as_columns(x))


def part(x: Any, dim: int, start: Any, length: Any) -> Any:
    """A range of rows or columns."""
    return invoke(narrow, (x,), dim, start, length)


def placed(x: Any, dim: int, start: Any, length: Any, sizes: Any) -> Any:
    """Zeros of these sizes around a range of rows or columns."""
    return invoke(narrow_backward, (x,), dim, start, length, sizes)
