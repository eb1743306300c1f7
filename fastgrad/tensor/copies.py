"""Copies: of other dtypes, on other devices, of the same kind; what `copy` and `pickle` make."""

from __future__ import annotations

import builtins
import copy as copy_module
from typing import TYPE_CHECKING, Any

from fastgrad import dtypes, module_names
from fastgrad.autograd import hooks as hooks_
from fastgrad.autograd.function import Function
from fastgrad.functions import creation, storage
from fastgrad.functions.argument_names import also_by_name
from fastgrad.functions.arguments import is_tensor, need_tensor, need_type
from fastgrad.functions.conversion import parse_to
from fastgrad.functions.memory_format import (
    as_format,
    contiguous_format,
    need_order,
    preserve_format,
    suggested,
)
from fastgrad.functions.plans import planned, warn
from fastgrad.native.build.loader import rt
from fastgrad.native.contracts.element_types import BOOL, COMPLEX
from fastgrad.native.contracts.flags import GRAD_ENABLED
from fastgrad.native.contracts.formats import CONTIGUOUS_FORMAT
from fastgrad.native.contracts.limits import FIRST_GPU
from fastgrad.native.contracts.records import TENSOR
from fastgrad.native.host.tables import BY_NAME
from fastgrad.ops.call import apply
from fastgrad.places import device as Device  # noqa: N812
from fastgrad.tensor.facts import Facts
from fastgrad.tensor.methods import Methods
from fastgrad.tensor.placement import move
from fastgrad.tensor.typed import older

if TYPE_CHECKING:
    from fastgrad.tensor import Tensor

_DTYPE, _DEVICE, _FLAGS = (TENSOR.fields[n][0] for n in ("dtype", "device", "flags"))
_CAST, _CLONE = (BY_NAME[n].id for n in ("cast", "clone"))
_field = rt.field
_PRIVATE = hooks_.LEAF_HOOK_DICTS


class Copies(Methods):
    """Copies and conversions."""

    __slots__ = ()

    def clone(self, *, memory_format: Any = None) -> Tensor:
        """A copy with history, which lies in memory as the tensor does or in another memory format."""
        if memory_format is None:
            return apply(_CLONE, 1, 0, self)  # type: ignore[no-any-return]
        return apply(_CLONE, 1, 0, self, as_format("clone", memory_format, self))  # type: ignore[no-any-return]

    def contiguous(self, memory_format: Any = contiguous_format) -> Tensor:
        """The tensor itself if its elements lie row by row, or in the given memory format, else a copy that does.

        Raises
        ------
        RuntimeError
            If the format is `preserve_format`, or that of tensors with another number of dimensions.
        """
        if memory_format is contiguous_format:
            if Facts.is_contiguous(self):
                return self
            return apply(_CLONE, 1, 0, self, CONTIGUOUS_FORMAT)  # type: ignore[no-any-return]
        need_order("contiguous", memory_format)
        code = as_format("contiguous", memory_format, self)
        return self if rt.lies_in(self, code) else apply(_CLONE, 1, 0, self, code)

    @planned
    def to(self, *args: Any, **kwargs: Any) -> Tensor:
        """The tensor in another dtype or on another device; itself if nothing changes.

        ``to(dtype, non_blocking=False, copy=False)``, ``to(device=None, dtype=None, non_blocking=False, copy=False)``
        or ``to(tensor, non_blocking=False, copy=False)`` for the dtype and device of another tensor, each with
        `memory_format` by name.

        Parameters
        ----------
        dtype : dtype, optional
        device : device, str or int, optional
            A number alone is that of a GPU.
        tensor : Tensor
        non_blocking : bool
            Do not wait for a copy from memory that `pin_memory` locked to a GPU: nobody may change it before the
            copy is done. Other copies to a GPU read the memory before the method returns. A copy from a GPU to the CPU
            then is one in locked memory, which means nothing before something has waited for the GPU's stream.
        copy : bool
            Make a copy in any case.
        memory_format : memory_format
            In which order the elements of a copy lie in memory; like those of the tensor if not given.

        Raises
        ------
        TypeError
            If the arguments are of none of these forms.

        Examples
        --------
        >>> import fastgrad as fg
        >>> fg.ones(2).to(fg.int64)
        tensor([1, 1])
        """
        device, dtype, non_blocking, copy, layout = parse_to(args, kwargs)
        out = self
        if device is not None:
            where, here = device.code, _field(self, _DEVICE)
            if (
                non_blocking and not where and here >= FIRST_GPU
            ):  # what is on its way is not there to be converted
                if dtype is not None or layout is not preserve_format:
                    out = self.to(self.dtype if dtype is None else dtype, memory_format=layout)
                return _to_device(out, device, non_blocking)  # type: ignore[no-any-return]
            if where != here:
                out = _to_device(self, device, non_blocking)
            elif not where and device != self.device:  # the CPU with an index: a copy, as in PyTorch
                copy = True
        code = _field(out, _DTYPE) if dtype is None else dtype.code
        if layout is not preserve_format:
            laid_out = as_format("to", layout, self)
            if copy or code != _field(out, _DTYPE) or (suggested(out) or CONTIGUOUS_FORMAT) != laid_out:
                return apply(_CAST, 1, 0, out, code, laid_out)  # type: ignore[no-any-return]
        if code != _field(out, _DTYPE):
            discards(out, code)
            return apply(_CAST, 1, 0, out, code)  # type: ignore[no-any-return]
        return out.clone() if copy and out is self else out

    def cpu(self, memory_format: Any = None) -> Tensor:
        """The tensor on the CPU; itself if it is there."""
        here = _field(self, _DEVICE)
        if memory_format is not None:
            return self.to(device="cpu", memory_format=memory_format)
        return self if here == 0 else self.to(device="cpu")

    def type(self, dtype: Any = None) -> Any:
        """The name of the tensor's type, or the tensor in another dtype, and on the device of the type that is named.

        Parameters
        ----------
        dtype : dtype, type or str, optional
            A type such as `fastgrad.FloatTensor`, or a name that this method gives: "fastgrad.cuda.FloatTensor".

        Raises
        ------
        ValueError
            If it is no dtype and no such name.
        """
        own = dtypes.ALL[_field(self, _DTYPE)]
        if dtype is None:
            return _type_name(own, self.device.type)
        found, kind = dtype, None
        if isinstance(dtype, type):  # fg.FloatTensor
            found, kind = (getattr(dtype, name, None) for name in ("dtype", "device_type"))
        elif isinstance(dtype, str):
            named = ((d, kind) for d in dtypes.SUPPORTED for kind in ("cpu", "cuda"))
            found, kind = next((pair for pair in named if _type_name(*pair) == dtype), (None, None))
        if not isinstance(found, dtypes.dtype):
            raise ValueError(f"invalid type: {dtype!r}")
        return _cast(self if kind in (None, self.device.type) else self.to(kind), found)

    def type_as(self, other: Any) -> Tensor:
        """The tensor in the dtype of another."""
        return _cast(self, need_tensor("type_as", other, "other").dtype)

    def half(self, memory_format: Any = None) -> Tensor:
        """The tensor in float16."""
        return _cast(self, dtypes.float16, memory_format)

    def bfloat16(self, memory_format: Any = None) -> Tensor:
        """The tensor in bfloat16."""
        return _cast(self, dtypes.bfloat16, memory_format)

    def float(self, memory_format: Any = None) -> Tensor:
        """The tensor in float32."""
        return _cast(self, dtypes.float32, memory_format)

    def cfloat(self, memory_format: Any = None) -> Tensor:
        """The tensor in complex64."""
        return _cast(self, dtypes.complex64, memory_format)

    def cdouble(self, memory_format: Any = None) -> Tensor:
        """The tensor in complex128."""
        return _cast(self, dtypes.complex128, memory_format)

    def double(self, memory_format: Any = None) -> Tensor:
        """The tensor in float64."""
        return _cast(self, dtypes.float64, memory_format)

    def long(self, memory_format: Any = None) -> Tensor:
        """The tensor in int64."""
        return _cast(self, dtypes.int64, memory_format)

    def int(self, memory_format: Any = None) -> Tensor:
        """The tensor in int32."""
        return _cast(self, dtypes.int32, memory_format)

    def short(self, memory_format: Any = None) -> Tensor:
        """The tensor in int16."""
        return _cast(self, dtypes.int16, memory_format)

    def char(self, memory_format: Any = None) -> Tensor:
        """The tensor in int8."""
        return _cast(self, dtypes.int8, memory_format)

    def byte(self, memory_format: Any = None) -> Tensor:
        """The tensor in uint8."""
        return _cast(self, dtypes.uint8, memory_format)

    def bool(self, memory_format: Any = None) -> Tensor:
        """The tensor as truth values."""
        return _cast(self, dtypes.bool_, memory_format)

    def __deepcopy__(self, memo: dict[builtins.int, Any]) -> Any:
        if not self.is_leaf:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at "
                "the moment. "
                "Clone and detach the tensor first."
            )
        if id(self) in need_type("__deepcopy__", memo, dict, "memo"):
            return memo[id(self)]
        out = _rebuild(type(self), self.detach().clone(), self.requires_grad)
        memo[id(self)] = out
        if self.grad is not None:
            out.grad = copy_module.deepcopy(self.grad, memo)
        for name, value in self.__dict__.items():
            if name not in _PRIVATE:
                out.__dict__[name] = copy_module.deepcopy(value, memo)
        return out

    def __reduce_ex__(self, protocol: Any) -> Any:
        self._warn_unserializable()
        return storage.reduced(self)

    def _warn_unserializable(self) -> None:
        if self._backward_hooks:
            hooks_.warn_unserializable(self._backward_hooks)

    def new_tensor(
        self, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: builtins.bool = False
    ) -> Tensor:
        """A tensor of data in this tensor's dtype."""
        made: Tensor = creation.tensor(data, **_kind_of(self, dtype, device), requires_grad=requires_grad)
        return made

    @also_by_name
    def new_zeros(
        self, *size: Any, dtype: Any = None, device: Any = None, requires_grad: builtins.bool = False
    ) -> Tensor:
        """Zeros in this tensor's dtype."""
        made: Tensor = creation.zeros(*size, **_kind_of(self, dtype, device), requires_grad=requires_grad)
        return made

    @also_by_name
    def new_ones(
        self, *size: Any, dtype: Any = None, device: Any = None, requires_grad: builtins.bool = False
    ) -> Tensor:
        """Ones in this tensor's dtype."""
        made: Tensor = creation.ones(*size, **_kind_of(self, dtype, device), requires_grad=requires_grad)
        return made

    @also_by_name
    def new_empty(
        self, *size: Any, dtype: Any = None, device: Any = None, requires_grad: builtins.bool = False
    ) -> Tensor:
        """Elements not set, in this tensor's dtype."""
        made: Tensor = creation.empty(*size, **_kind_of(self, dtype, device), requires_grad=requires_grad)
        return made

    def new(self, *args: Any, device: Any = None) -> Tensor:
        """A tensor of this one's dtype and device, of data or of sizes whose elements are not set. Use `new_tensor`.

        Raises
        ------
        TypeError
            If neither data nor sizes are given, or a tensor of another dtype.
        RuntimeError
            If `device` is of another kind.
        """
        need_tensor("new", self)
        where = self.device if device is None else Device(device)
        if where.type != self.device.type:
            raise RuntimeError(f"new(): expected a device of type {self.device.type}, but got {where}")
        if len(args) == 1 and is_tensor(args[0]):
            if args[0].dtype is not self.dtype:
                raise TypeError(f"new(): expected a tensor of {self.dtype}, but got one of {args[0].dtype}")
            return args[0].detach()  # type: ignore[no-any-return]
        if args and isinstance(args[0], str):
            raise TypeError("new(): invalid data type 'str'")
        return older("new", args, self.dtype, where)  # type: ignore[no-any-return]

    def module_load(self, other: Any, assign: builtins.bool = False) -> Tensor:
        """What a module has in place of this tensor when it loads another one: this one with its elements, or that.

        Parameters
        ----------
        other : Tensor
        assign : bool
            Take `other` itself.
        """
        need_tensor("module_load", self)
        if not assign:
            return self.copy_(other).detach()  # type: ignore[no-any-return]
        return need_tensor("module_load", other, "other", 2).detach()  # type: ignore[no-any-return]

    def to_dense(self, dtype: Any = None, *, masked_grad: builtins.bool | None = None) -> Tensor:
        """The tensor itself, or in another dtype: all are dense."""
        need_tensor("to_dense", self)
        return self if dtype is None else self.to(dtype)

    def new_full(
        self,
        size: Any,
        fill_value: Any,
        *,
        dtype: Any = None,
        device: Any = None,
        requires_grad: builtins.bool = False,
    ) -> Tensor:
        """One number, in this tensor's dtype."""
        options = _kind_of(self, dtype, device)
        made: Tensor = creation.full(size, fill_value, **options, requires_grad=requires_grad)
        return made


def _type_name(d: dtypes.dtype, kind: str) -> str:
    module = module_names.shown if kind == "cpu" else f"{module_names.shown}.{kind}"
    return f"{module}.{d.type_name}Tensor"


def _kind_of(x: Any, dtype: Any, device: Any) -> dict[str, Any]:
    """The dtype and the device of a tensor that is made beside another one: that one's where nothing else is said."""
    own = dtypes.ALL[_field(x, _DTYPE)]
    return {"dtype": dtype or own, "device": x.device if device is None else device}


def _cast(x: Any, d: dtypes.dtype, memory_format: Any = None) -> Any:
    """A tensor in a dtype; itself if it has it, and lies as it is to lie."""
    if memory_format is not None:
        return need_tensor("to", x, "self", 0).to(d, memory_format=memory_format)
    if d.code == _field(x, _DTYPE):
        return x
    discards(x, d.code)
    return apply(_CAST, 1, 0, x, d.code)


def discards(x: Any, code: int) -> None:
    """Warn where a cast of a tensor to a dtype takes away imaginary parts."""
    if _field(x, _DTYPE) in COMPLEX and code not in COMPLEX and code != BOOL:
        warn("Casting complex values to real discards the imaginary part", 3)


class ToCopy(Function):
    """A copy on another device, with history: gradients go back to where the tensor was."""

    @staticmethod
    def forward(ctx: Any, x: Any, target: Any, non_blocking: Any) -> Any:
        """Copy."""
        ctx.device = x.device
        return move(x, target, non_blocking)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Copy back."""
        return grads[0].to(device=ctx.device), None, None


def _to_device(x: Any, target: Device, non_blocking: builtins.bool) -> Any:
    """A copy on another device."""
    if x.requires_grad and rt.get_mode() & GRAD_ENABLED:
        return ToCopy.apply(x, target, non_blocking)
    return move(x, target, non_blocking)


def _rebuild(kind: type, tensor: Any, requires_grad: bool) -> Any:
    out: Any = tensor if kind is type(tensor) else rt.adopt(kind, tensor)
    if requires_grad:
        out.requires_grad_()
    return out
