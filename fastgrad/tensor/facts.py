"""What a tensor is: sizes, strides, dtype, device, how it prints; views that need no argument of their own."""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fastgrad import dtypes
from fastgrad.formatting import format_tensor
from fastgrad.functions import complex_numbers, index, shape
from fastgrad.functions.arguments import as_index, is_number, need_tensor
from fastgrad.functions.data import values_of
from fastgrad.functions.memory_format import contiguous_format, dim_order, need_order, strided
from fastgrad.functions.storage import Storage
from fastgrad.native.build.loader import rt
from fastgrad.native.contracts.flags import CONTIGUOUS
from fastgrad.native.contracts.formats import CONTIGUOUS_FORMAT
from fastgrad.native.contracts.limits import META
from fastgrad.native.contracts.records import STORAGE, TENSOR
from fastgrad.places import device as Device  # noqa: N812
from fastgrad.places import device_at
from fastgrad.tensor.methods import Methods
from fastgrad.tensor.size import Size

if TYPE_CHECKING:
    from fastgrad.tensor import Tensor

_DTYPE, _DEVICE, _NDIM, _NUMEL, _FLAGS, _DATA = (
    TENSOR.fields[n][0] for n in ("dtype", "device", "ndim", "numel", "flags", "data")
)
_STORAGE_DATA = STORAGE.fields["data"][0]
_field, _sizes = rt.field, rt.sizes


class Facts(Methods):
    """What a tensor is."""

    __slots__ = ()

    @property
    def shape(self) -> Size:
        """The sizes."""
        return Size(_sizes(self))

    def size(self, dim: int | None = None) -> Any:
        """The sizes, or the size of one dimension."""
        sizes = _sizes(self)
        if dim is None:
            return Size(sizes)
        if type(dim) is int and -len(sizes) <= dim < len(sizes):
            return sizes[dim]
        return sizes[shape.existing("size", as_index("size", "dim", dim), len(sizes))]

    def stride(self, dim: int | None = None) -> Any:
        """How many elements apart neighbours along each dimension lie in memory."""
        steps = rt.steps(self)
        return steps if dim is None else steps[shape.existing("stride", dim, len(steps))]

    def storage_offset(self) -> int:
        """The first element's place in the storage, in elements."""
        offset: builtins.int = _field(self, _DATA) - rt.storage_field(self, _STORAGE_DATA)
        return offset // self.dtype.itemsize

    @property
    def dtype(self) -> dtypes.dtype:
        """The element type."""
        return dtypes.ALL[_field(self, _DTYPE)]

    @property
    def device(self) -> Device:
        """Where the elements are."""
        return device_at[_field(self, _DEVICE)]

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return _field(self, _NDIM)  # type: ignore[no-any-return]

    def dim(self) -> int:
        """The number of dimensions."""
        return _field(self, _NDIM)  # type: ignore[no-any-return]

    ndimension = dim

    def numel(self) -> int:
        """The number of elements."""
        return _field(self, _NUMEL)  # type: ignore[no-any-return]

    nelement = numel

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize

    def element_size(self) -> int:
        """Bytes of an element."""
        return dtypes.ALL[_field(self, _DTYPE)].itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.numel() * self.dtype.itemsize

    def data_ptr(self) -> int:
        """The address of the first element; 0 if there is none."""
        there = _field(self, _NUMEL) and _field(self, _DEVICE) != META
        return _field(self, _DATA) if there else 0  # type: ignore[no-any-return]

    def is_contiguous(self, memory_format: Any = contiguous_format) -> builtins.bool:
        """Whether elements lie in row-major order, or in the given memory format, without gaps."""
        if memory_format is contiguous_format:
            return builtins.bool(_field(self, _FLAGS) & CONTIGUOUS or rt.lies_in(self, CONTIGUOUS_FORMAT))
        return builtins.bool(rt.lies_in(self, need_order("is_contiguous", memory_format)))

    def storage(self) -> Storage:
        """The memory of the tensor, which others may share, as elements of its dtype."""
        return Storage.of(self)

    def untyped_storage(self) -> Storage:
        """The memory of the tensor as bytes: sizes and indices of the answer count them."""
        return Storage.bytes_of(self)

    @property
    def layout(self) -> Any:
        """How elements lie: by strides."""
        return strided

    is_sparse = is_sparse_csr = is_quantized = is_mkldnn = is_nested = False
    is_ipu = is_maia = is_mps = is_mtia = is_vulkan = is_xla = is_xpu = False
    """Kinds of tensors that there are none of."""

    def is_floating_point(self) -> builtins.bool:
        """Whether the dtype is a floating-point one."""
        return dtypes.ALL[_field(self, _DTYPE)].is_floating_point

    def is_complex(self) -> builtins.bool:
        """Whether the dtype is a complex one."""
        return dtypes.ALL[_field(self, _DTYPE)].is_complex

    @property
    def _version(self) -> int:
        return rt.version(self)  # type: ignore[no-any-return]

    def __len__(self) -> int:
        if _field(self, _NDIM) == 0:
            raise TypeError("len() of a 0-d tensor")
        return _sizes(self)[0]  # type: ignore[no-any-return]

    def __iter__(self) -> Iterator[Any]:
        if _field(self, _NDIM) == 0:
            raise TypeError("iteration over a 0-d tensor")
        return iter(self.unbind(0))

    def __contains__(self, value: Any) -> builtins.bool:
        if not is_number(value):
            raise RuntimeError(
                f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(value)}"
            )
        return bool((self == value).any())

    def _grad_fn_name(self) -> str | None:
        try:
            node = self.grad_fn
            return None if node is None else type(node).__name__
        except RuntimeError:  # a view that cannot follow its base
            return "Invalid"

    def _repr_html_(self) -> str | None:
        """What notebooks show; None, for the text, if a subclass of a program has its own."""
        from fastgrad.markup import prints_itself  # nobody else waits for them
        from fastgrad.tensor.notebooks import html_of

        if prints_itself(type(self)):
            return None
        name = self._grad_fn_name()
        history = f"grad_fn=<{name}>" if name else "requires_grad" if self.requires_grad else ""
        facts = [f"shape {tuple(self.shape)}", self.dtype.name, str(self.device), history]
        return html_of(type(self).__name__, facts, np.empty(0) if self.is_meta else values_of(self))

    def __repr__(self) -> str:
        name = self._grad_fn_name()
        values = np.broadcast_to(np.empty((), np.int8), _sizes(self)) if self.is_meta else values_of(self)
        kind = type(self)
        plain = "_printed_plainly" in vars(kind)
        text = format_tensor(
            values, prefix="tensor(" if plain else f"{kind.__name__}(",
            dtype_name=self.dtype.name, device=str(self.device),
            requires_grad=self.requires_grad and name is None, grad_fn_name=name,
            default_dtype=dtypes.get_default_dtype().name,
        )  # fmt: skip
        return f"Parameter({text})" if not plain and getattr(self, "_is_param", False) else text

    def __format__(self, spec: str) -> str:
        shows_number = self.ndim == 0 and not self.is_meta
        return format(self.item(), spec) if shows_number else object.__format__(self, spec)

    @property
    def T(self) -> Tensor:  # noqa: N802
        """The dimensions in reverse order."""
        return shape.permute(self, *range(_field(self, _NDIM) - 1, -1, -1))  # type: ignore[no-any-return]

    @property
    def H(self) -> Tensor:  # noqa: N802
        """The conjugate of a matrix, transposed."""
        if _field(self, _NDIM) not in (0, 2):
            raise RuntimeError(
                f"tensor.H is only supported on matrices (2-D tensors). Got {_field(self, _NDIM)}-D tensor."
            )
        return complex_numbers.conj(self if _field(self, _NDIM) == 0 else self.T)  # type: ignore[no-any-return]

    @property
    def mH(self) -> Tensor:  # noqa: N802
        """The conjugates of matrices, transposed: those of the last two dimensions."""
        return complex_numbers.adjoint(self)  # type: ignore[no-any-return]

    @property
    def real(self) -> Tensor:
        """The real parts, as a view; of a real tensor itself."""
        return complex_numbers.real(self)  # type: ignore[no-any-return]

    @real.setter
    def real(self, value: Any) -> None:
        complex_numbers.real(self).copy_(value)

    @property
    def imag(self) -> Tensor:
        """The imaginary parts of complex numbers, as a view."""
        return complex_numbers.imag(self)  # type: ignore[no-any-return]

    @imag.setter
    def imag(self, value: Any) -> None:
        complex_numbers.imag(self).copy_(value)

    @property
    def mT(self) -> Tensor:  # noqa: N802
        """The last two dimensions exchanged."""
        if self.ndim < 2:
            raise RuntimeError(
                f"tensor.mT is only supported on matrices or batches of matrices. Got {self.ndim}-D tensor."
            )
        return shape.transpose(self, -2, -1)  # type: ignore[no-any-return]

    def is_set_to(self, tensor: Any) -> builtins.bool:
        """Whether it is the same elements of the same memory, in the same order."""
        need_tensor("is_set_to", self)
        other = need_tensor("is_set_to", tensor, "tensor", 2)
        if self.numel() == 0 or other.numel() == 0:  # without memory
            return False
        place = (self.data_ptr(), rt.sizes(self), rt.steps(self), self.dtype)
        return place == (other.data_ptr(), rt.sizes(other), rt.steps(other), other.dtype)

    def is_same_size(self, other: Any) -> builtins.bool:
        """Whether it has the sizes of another tensor."""
        return rt.sizes(self) == rt.sizes(need_tensor("is_same_size", other, "other", 2))  # type: ignore[no-any-return]

    def is_distributed(self) -> builtins.bool:
        """False: it lives in one process."""
        return False

    def dim_order(self, *, ambiguity_check: builtins.bool | Sequence[Any] = False) -> tuple[int, ...]:
        """The dimensions from the outermost in memory to the innermost.

        Parameters
        ----------
        ambiguity_check : bool or list of memory_format
            Raise RuntimeError if more than one order fits, with a list: if not one of these alone does.

        Raises
        ------
        TypeError
            If it is something else.
        """
        return dim_order(self, ambiguity_check)

    def view_as(self, other: Any) -> Any:
        """A view in the sizes of another tensor."""
        return shape.view(self, need_tensor("view_as", other, "other").shape)

    def reshape_as(self, other: Any) -> Any:
        """In the sizes of another tensor."""
        return shape.reshape(self, need_tensor("reshape_as", other, "other").shape)

    def where(self, condition: Any, other: Any) -> Any:
        """The tensor where the condition holds, else the other."""
        return index.where(condition, self, other)
