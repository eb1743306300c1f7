"""The `Tensor`: a thin Python object over a native record. Operators are compiled; see ``native.objects``."""

from __future__ import annotations

import builtins
import copy as copy_module
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fastgrad import dtypes
from fastgrad.autograd import engine
from fastgrad.autograd import hooks as hooks_
from fastgrad.autograd.node import Node
from fastgrad.errors import renamed
from fastgrad.formatting import format_tensor
from fastgrad.functions import (  # noqa: F401 - some only for the methods that they offer
    creation,
    distributions,
    elementwise,
    index,
    linalg,
    promotion,
    reduce,
    repetition,
    sampling,
    shape,
    sorting,
    special,
    statistics,
    storage,
)
from fastgrad.functions.arguments import as_index, is_number, need_tensor, need_type
from fastgrad.functions.conversion import parse_to
from fastgrad.functions.data import values_of
from fastgrad.functions.device import device as Device  # noqa: N812
from fastgrad.functions.public import METHODS
from fastgrad.native.build.loader import TensorBase, rt, runtime_set_object
from fastgrad.native.contracts.flags import (
    CONTIGUOUS,
    GRAD_ENABLED,
    INFERENCE,
    INFERENCE_MODE,
    IS_VIEW,
    REQUIRES_GRAD,
    RETAINS_GRAD,
)
from fastgrad.native.contracts.ops import BINARY_OPERATORS, INPLACE_OPERATORS, OPERATORS, UNARY_OPERATORS
from fastgrad.native.contracts.records import STORAGE, TENSOR
from fastgrad.native.host import devices
from fastgrad.native.host.tables import BY_NAME
from fastgrad.ops.call import apply


class Size(tuple):  # type: ignore[type-arg]
    """The sizes of a tensor."""

    __slots__ = ()

    def numel(self) -> int:
        """The number of elements of a tensor of these sizes."""
        n = 1
        for s in self:
            n *= s
        return n

    def __repr__(self) -> str:
        return f"fastgrad.Size({list(self)})"

    def __getitem__(self, key: Any) -> Any:
        out = tuple.__getitem__(self, key)
        return Size(out) if isinstance(key, slice) else out

    def __add__(self, other: Any) -> Size:
        return Size(tuple.__add__(self, tuple(other)))


_DTYPE, _DEVICE, _NDIM, _NUMEL, _FLAGS, _DATA, _OUTPUT_NR, _STORAGE = (
    TENSOR.fields[n][0] for n in ("dtype", "device", "ndim", "numel", "flags", "data", "output_nr", "storage")
)
_STORAGE_DATA = STORAGE.fields["data"][0]
_CAST, _CLONE, _MM = (BY_NAME[n].id for n in ("cast", "clone", "mm"))
_ADD, _SUB = BY_NAME["add"], BY_NAME["sub"]
_field, _sizes = rt.field, rt.sizes


class Tensor(TensorBase):
    """An array of numbers that remembers how it was computed.

    Tensors are made by `fastgrad.tensor`, `zeros`, `randn` and so on, and by ops on tensors. The methods are those
    of PyTorch's class of the same name.

    Parameters
    ----------
    data : sequence or numpy.ndarray
        Copied, as float32.

    Examples
    --------
    >>> import fastgrad as fg
    >>> x = fg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    tensor([2., 4., 6.])
    """

    __slots__ = ()

    def __new__(cls, data: Any = ()) -> Tensor:
        """A tensor of data, of this class."""
        plain = creation.tensor(data, dtype=dtypes.get_default_dtype())
        return plain if cls is Tensor else rt.adopt(cls, plain)

    # --- what it is ---------------------------------------------------------------------------------------------

    @property
    def shape(self) -> Size:
        """The sizes."""
        return Size(_sizes(self))

    def size(self, dim: int | None = None) -> Any:
        """The sizes, or the size of one dimension."""
        sizes = Size(_sizes(self))
        return (
            sizes if dim is None else sizes[shape.wrapped("size", as_index("size", "dim", dim), len(sizes))]
        )

    def stride(self, dim: int | None = None) -> Any:
        """How many elements apart neighbours along each dimension lie in memory."""
        steps = rt.steps(self)
        return steps if dim is None else steps[shape.wrapped("stride", dim, len(steps))]

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
        return Device(devices.name_of(_field(self, _DEVICE)))

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
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.numel() * self.dtype.itemsize

    def data_ptr(self) -> int:
        """The address of the first element."""
        return _field(self, _DATA) if self.numel() else 0  # type: ignore[no-any-return]

    def is_contiguous(self) -> builtins.bool:
        """Whether elements lie in row-major order without gaps."""
        return builtins.bool(_field(self, _FLAGS) & CONTIGUOUS)

    def is_floating_point(self) -> builtins.bool:
        """Whether the dtype is a floating-point one."""
        return self.dtype.is_floating_point

    @property
    def _version(self) -> int:
        return rt.version(self)  # type: ignore[no-any-return]

    def __len__(self) -> int:
        if self.ndim == 0:
            raise TypeError("len() of a 0-d tensor")
        return _sizes(self)[0]  # type: ignore[no-any-return]

    def __iter__(self) -> Iterator[Any]:
        if self.ndim == 0:
            raise TypeError("iteration over a 0-d tensor")
        return iter(self.unbind(0))

    def __contains__(self, value: Any) -> builtins.bool:
        if not is_number(value):
            raise RuntimeError(
                f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(value)}"
            )
        return bool((self == value).any())

    def __repr__(self) -> str:
        try:
            node = self.grad_fn
            name = None if node is None else type(node).__name__
        except RuntimeError:  # a view that cannot follow its base
            name = "Invalid"
        return format_tensor(
            values_of(self), dtype_name=self.dtype.name, device=str(self.device),
            requires_grad=self.requires_grad and name is None, grad_fn_name=name,
        )  # fmt: skip

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if self.ndim == 0 else object.__format__(self, spec)

    # --- autograd -----------------------------------------------------------------------------------------------

    @property
    def requires_grad(self) -> builtins.bool:
        """Whether gradients with regard to this tensor, or through it, are wanted."""
        return builtins.bool(rt.flags_of(self) & REQUIRES_GRAD)

    @requires_grad.setter
    def requires_grad(self, value: builtins.bool) -> None:
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: builtins.bool = True) -> Tensor:
        """Say whether gradients are wanted; of leaves only.

        Raises
        ------
        RuntimeError
            If the dtype is not floating, or for a non-leaf that should not require grad.
        """
        if requires_grad and not self.dtype.is_floating_point:
            raise RuntimeError("only Tensors of floating point and complex dtype can require gradients")
        if not requires_grad and not self.is_leaf:
            raise RuntimeError(
                "you can only change requires_grad flags of leaf variables. If you want to use a computed "
                "variable in a "
                "subgraph that doesn't require differentiation use var_no_grad = var.detach()."
            )
        if requires_grad and _field(self, _FLAGS) & INFERENCE and not rt.get_mode() & INFERENCE_MODE:
            raise RuntimeError(
                "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed."
            )
        rt.set_requires_grad(self, int(requires_grad))
        return self

    @property
    def is_leaf(self) -> builtins.bool:
        """Whether no op with history made it."""
        return bool(rt.is_leaf(self))

    @property
    def output_nr(self) -> int:
        """Which output of `grad_fn` it is."""
        return _field(self, _OUTPUT_NR)  # type: ignore[no-any-return]

    @property
    def grad_fn(self) -> Node | None:
        """The node of the op that made it; None for leaves."""
        return rt.grad_fn(self)  # type: ignore[no-any-return]

    @property
    def grad(self) -> Any:
        """The gradient that backward passes have added up.

        Warns
        -----
        UserWarning
            If it is read of a non-leaf for which no pass will write it.
        """
        found = rt.get_grad(self)
        if found is None and not self.is_leaf and not self.retains_grad:
            warnings.warn(
                "`grad` of a tensor that is not a leaf is read: passes write it only after retain_grad() was called on "
                "the tensor. If it was read by mistake, read that of the leaf instead",
                UserWarning,
                stacklevel=2,
            )
        return found

    @grad.setter
    def grad(self, value: Any) -> None:
        if value is not None:
            if not isinstance(value, TensorBase):
                raise TypeError(
                    f"assigned grad expected to be a Tensor or None but got grad of type {type(value).__name__}"
                )
            if value is self:
                raise RuntimeError("can't assign Variable as its own grad")
            if _sizes(value) != _sizes(self):
                raise RuntimeError(
                    f"assigned grad has data of a different size: expected {list(self.shape)}, got "
                    f"{list(_sizes(value))}"
                )
            if _field(value, _DTYPE) != _field(self, _DTYPE):
                raise RuntimeError(
                    f"assigned grad has dtype {value.dtype.name}, but the tensor has {self.dtype.name}"
                )
        rt.set_grad(self, value)

    @grad.deleter
    def grad(self) -> None:
        rt.set_grad(self, None)

    _grad = grad

    def backward(
        self,
        gradient: Any = None,
        retain_graph: builtins.bool | None = None,
        create_graph: builtins.bool = False,
        inputs: Any = None,
    ) -> None:
        """Add the gradients of this tensor with regard to the leaves to their ``grad``.

        See `fastgrad.autograd.backward` for the parameters.
        """
        engine.backward(self, gradient, retain_graph, create_graph, None, inputs)

    register_hook = hooks_.register_tensor_hook

    register_post_accumulate_grad_hook = hooks_.register_post_accumulate_grad_hook

    def _set_post_accumulate_grad_hook(self, hook: Any) -> None:
        """Make `hook`, a `PostAccumulateGradHook`, the only post-accumulate hook of this leaf; None removes all."""
        hooks_.set_post_accumulate_hook(self, hook)

    @property
    def _post_accumulate_grad_hooks(self) -> Any:
        return self.__dict__.get(hooks_.POST_HOOKS)

    @_post_accumulate_grad_hooks.setter
    def _post_accumulate_grad_hooks(self, hooks: Any) -> None:
        hooks_.set_leaf_hooks(self, hooks_.POST_HOOKS, hooks)

    @_post_accumulate_grad_hooks.deleter
    def _post_accumulate_grad_hooks(self) -> None:
        raise RuntimeError("Deletion of _post_accumulate_grad_hooks not allowed!")

    @property
    def _backward_hooks(self) -> Any:
        return self.__dict__.get(hooks_.TENSOR_HOOKS) if self.is_leaf else rt.output_hooks(self)

    @_backward_hooks.setter
    def _backward_hooks(self, hooks: Any) -> None:
        if self.is_leaf:
            hooks_.set_leaf_hooks(self, hooks_.TENSOR_HOOKS, hooks)
        else:
            hooks_.set_output_hooks(self, hooks)

    @_backward_hooks.deleter
    def _backward_hooks(self) -> None:
        raise RuntimeError("Deletion of _backward_hooks not allowed!")

    def retain_grad(self) -> None:
        """Let backward passes write the gradient of this non-leaf to its ``grad``."""
        if not rt.retain_grad(self):
            raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")

    @property
    def retains_grad(self) -> builtins.bool:
        """Whether `retain_grad` was called on this non-leaf."""
        return builtins.bool(_field(self, _FLAGS) & RETAINS_GRAD)

    def detach(self) -> Tensor:
        """A tensor over the same memory without history."""
        return rt.detach(self)  # type: ignore[no-any-return]

    def detach_(self) -> Tensor:
        """Forget the history, in place."""
        if _field(self, _FLAGS) & IS_VIEW:
            raise RuntimeError(
                "Can't detach views in-place. Use detach() instead. If the view is a gradient, set `grad` of its "
                "tensor to None or to what detach() gives."
            )
        rt.detach_(self)
        return self

    @property
    def data(self) -> Tensor:
        """A tensor over the same memory without history, whose changes in place autograd does not notice.

        Assigning lets this tensor stand for the memory of another one; hooks, ``grad`` and identity stay.

        Raises
        ------
        TypeError
            On assigning something else than a tensor.
        RuntimeError
            On assigning a tensor of a dtype that cannot have the gradients that this one has or wants.
        """
        return rt.data_of(self)  # type: ignore[no-any-return]

    @data.setter
    def data(self, value: Any) -> None:
        if not isinstance(value, TensorBase):
            raise TypeError(f"Variable data has to be a tensor, but got {type(value).__name__}")
        if self.requires_grad and not value.is_floating_point():
            raise RuntimeError(
                "data set to a tensor that requires gradients must be floating point or complex dtype, not "
                f"{value.dtype}"
            )
        rt.set_data(self, value)

    def set_(self, source: Any) -> Tensor:
        """Let this tensor stand for the memory of another one, as a change in place.

        Raises
        ------
        TypeError
            If `source` is no tensor.
        RuntimeError
            If it has another dtype, or gradients are on and this tensor requires grad: the change has no derivative.

        Notes
        -----
        What was computed of a leaf before has the gradient of another tensor than what is computed of it from then on.
        """
        if not isinstance(source, TensorBase):
            raise TypeError(f"set_(): argument 'source' must be Tensor, not {type(source).__name__}")
        if source.dtype is not self.dtype:
            raise RuntimeError(
                f"set_(): Could not set tensor of type {source.dtype.name} to a tensor of type {self.dtype.name}"
            )
        if self.requires_grad and rt.get_mode() & GRAD_ENABLED:
            what = (
                "a leaf Variable that requires grad is being used in an in-place operation"
                if self.is_leaf
                else ("set_ has no derivative")
            )
            raise RuntimeError(f"set_(): {what}; call it under fastgrad.no_grad() or use .data")
        rt.set_data(self, source)
        rt.part_from_node(self)
        rt.bump(self)
        return self

    def is_inference(self) -> builtins.bool:
        """Whether it was made in inference mode."""
        return builtins.bool(_field(self, _FLAGS) & INFERENCE)

    @property
    def _base(self) -> Any:
        return rt.get_base(self)

    def _is_view(self) -> builtins.bool:
        return builtins.bool(_field(self, _FLAGS) & IS_VIEW)

    # --- values -------------------------------------------------------------------------------------------------

    def item(self) -> Any:
        """The only element, as a Python number."""
        if self.numel() != 1:
            raise RuntimeError(f"a Tensor with {self.numel()} elements cannot be converted to Scalar")
        return values_of(self).item()

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers."""
        return values_of(self).tolist()

    def numpy(self, *, force: builtins.bool = False) -> np.ndarray:
        """A NumPy array over the same memory.

        Parameters
        ----------
        force : bool
            Detach, and copy from another device, where needed.

        Raises
        ------
        RuntimeError
            If the tensor requires grad, gradients are on, and `force` is not set.
        """
        if force:
            return values_of(self)
        if self.requires_grad and rt.get_mode() & GRAD_ENABLED:
            raise RuntimeError(
                "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
            )
        if _field(self, _DEVICE) != 0:
            raise TypeError(
                f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() to copy it first."
            )
        return values_of(self)

    def __array__(self, dtype: Any = None, copy: builtins.bool | None = None) -> np.ndarray:
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            if copy is False:
                raise ValueError(
                    f"a cast from {array.dtype} to {np.dtype(dtype)} needs a copy, but copy=False was given"
                )
            return array.astype(dtype)
        return array.copy() if copy else array

    def __array_wrap__(
        self, array: np.ndarray, context: Any = None, return_scalar: builtins.bool = False
    ) -> Any:
        return creation.from_numpy(np.asarray(array))

    __array_priority__ = 1000

    def __dlpack__(self, *, stream: Any = None, **options: Any) -> Any:
        if self.requires_grad:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        array = self.numpy()
        # DLPack of a bool array is exported by NumPy as such; read-only memory never arises here.
        return array.__dlpack__(**{k: v for k, v in options.items() if v is not None})

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def _scalar(self, kind: str) -> Any:
        if self.numel() != 1:
            if kind == "bool":
                count = "no values" if self.numel() == 0 else "more than one value"
                raise RuntimeError(f"Boolean value of Tensor with {count} is ambiguous")
            raise TypeError(
                f"only one element tensors can be converted to Python scalars, but this has {self.numel()}"
            )
        return self.item()

    def __bool__(self) -> builtins.bool:
        return builtins.bool(self._scalar("bool"))

    def __float__(self) -> builtins.float:
        return builtins.float(self._scalar("float"))

    def __int__(self) -> builtins.int:
        return builtins.int(self._scalar("int"))

    def __index__(self) -> builtins.int:
        if self.dtype.is_floating_point or self.numel() != 1:
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return builtins.int(self.item())

    # --- copies -------------------------------------------------------------------------------------------------

    def clone(self) -> Tensor:
        """A copy with history."""
        return apply(_CLONE, 1, 0, self)  # type: ignore[no-any-return]

    def contiguous(self) -> Tensor:
        """The tensor itself if it is contiguous, else a copy that is."""
        return self if self.is_contiguous() else apply(_CLONE, 1, 0, self)

    def to(self, *args: Any, **kwargs: Any) -> Tensor:
        """The tensor in another dtype or on another device; itself if nothing changes.

        ``to(dtype, non_blocking=False, copy=False)``, ``to(device=None, dtype=None, non_blocking=False, copy=False)``
        or ``to(tensor, non_blocking=False, copy=False)`` for the dtype and device of another tensor.

        Parameters
        ----------
        dtype : dtype, optional
        device : device or str, optional
        tensor : Tensor
        non_blocking : bool
            Without effect: copies are done when the method returns.
        copy : bool
            Make a copy in any case.

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
        device, dtype, _, copy = parse_to(args, kwargs)
        out = self
        if device is not None and device.code != _field(self, _DEVICE):
            out = _to_device(self, device)
        elif (
            device is not None and device != self.device
        ):  # an index of one and the same: a copy, as in PyTorch
            copy = True
        if dtype is not None and dtype.code != _field(out, _DTYPE):
            return _cast(out, dtype)
        return out.clone() if copy and out is self else out

    def cpu(self) -> Tensor:
        """The tensor on the CPU."""
        return self if _field(self, _DEVICE) == 0 else self.to(device="cpu")

    def type(self, dtype: Any = None) -> Any:
        """The name of the tensor's type, or the tensor in another dtype.

        Parameters
        ----------
        dtype : dtype or str, optional
            A name is one that this method gives, such as "fastgrad.FloatTensor".

        Raises
        ------
        ValueError
            If it is no dtype and no such name.
        """
        if dtype is None:
            return _type_name(self.dtype)
        found = dtype
        if isinstance(dtype, str):
            found = next((d for d in dtypes.SUPPORTED if _type_name(d) == dtype), None)
        if not isinstance(found, dtypes.dtype):
            raise ValueError(f"invalid type: {dtype!r}")
        return _cast(self, found)

    def type_as(self, other: Any) -> Tensor:
        """The tensor in the dtype of another."""
        return _cast(self, need_tensor("type_as", other, "other").dtype)

    def float(self) -> Tensor:
        """The tensor in float32."""
        return _cast(self, dtypes.float32)

    def double(self) -> Tensor:
        """The tensor in float64."""
        return _cast(self, dtypes.float64)

    def long(self) -> Tensor:
        """The tensor in int64."""
        return _cast(self, dtypes.int64)

    def int(self) -> Tensor:
        """The tensor in int32."""
        return _cast(self, dtypes.int32)

    def byte(self) -> Tensor:
        """The tensor in uint8."""
        return _cast(self, dtypes.uint8)

    def bool(self) -> Tensor:
        """The tensor as truth values."""
        return _cast(self, dtypes.bool_)

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

    def new_tensor(self, data: Any, *, dtype: Any = None, requires_grad: builtins.bool = False) -> Tensor:
        """A tensor of data in this tensor's dtype."""
        return creation.tensor(
            data, dtype=dtype or self.dtype, device=self.device, requires_grad=requires_grad
        )  # type: ignore[no-any-return]

    def new_zeros(self, *size: Any, dtype: Any = None) -> Tensor:
        """Zeros in this tensor's dtype."""
        return creation.zeros(*size, dtype=dtype or self.dtype, device=self.device)  # type: ignore[no-any-return]

    def new_ones(self, *size: Any, dtype: Any = None) -> Tensor:
        """Ones in this tensor's dtype."""
        return creation.ones(*size, dtype=dtype or self.dtype, device=self.device)  # type: ignore[no-any-return]

    def new_empty(self, *size: Any, dtype: Any = None) -> Tensor:
        """Elements not set, in this tensor's dtype."""
        return creation.empty(*size, dtype=dtype or self.dtype, device=self.device)  # type: ignore[no-any-return]

    def new_full(self, size: Any, fill_value: Any, *, dtype: Any = None) -> Tensor:
        """One number, in this tensor's dtype."""
        out: Tensor = creation.full(size, fill_value, dtype=dtype or self.dtype, device=self.device)
        return out

    # --- operators that are not slots ---------------------------------------------------------------------------

    def __matmul__(self, other: Any) -> Any:
        if isinstance(other, TensorBase):
            if _field(self, _NDIM) == 2 and _field(other, _NDIM) == 2:
                try:
                    return apply(_MM, 2, 0, self, other)
                except RuntimeError as error:
                    raise renamed(error, "matmul") from error.__cause__
            return linalg.matmul(self, other)
        return NotImplemented

    def __pow__(self, exponent: Any) -> Any:
        return _or_not_implemented(elementwise.pow, self, exponent)

    def __rpow__(self, base: Any) -> Any:
        return _or_not_implemented(elementwise.pow, base, self)

    def __pos__(self) -> Tensor:
        return self

    def __floordiv__(self, other: Any) -> Any:
        return _divided(TensorBase.__floordiv__, elementwise.floor_divide, self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return _or_not_implemented(elementwise.floor_divide, other, self)

    def __mod__(self, other: Any) -> Any:
        return _divided(TensorBase.__mod__, elementwise.remainder, self, other)

    def __rmod__(self, other: Any) -> Any:
        return _or_not_implemented(elementwise.remainder, other, self)

    def __ifloordiv__(self, other: Any) -> Any:
        return self.floor_divide_(other)

    def __imod__(self, other: Any) -> Any:
        return self.remainder_(other)

    def __iand__(self, other: Any) -> Any:
        return elementwise.inplace(BY_NAME["bitwise_and"], self, other)

    def __ior__(self, other: Any) -> Any:
        return elementwise.inplace(BY_NAME["bitwise_or"], self, other)

    def __ixor__(self, other: Any) -> Any:
        return elementwise.inplace(BY_NAME["bitwise_xor"], self, other)

    def __getitem__(self, key: Any) -> Any:
        return index.getitem(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        index.setitem(self, key, value)

    @property
    def T(self) -> Tensor:  # noqa: N802
        """The dimensions in reverse order."""
        return shape.permute(self, *range(self.ndim - 1, -1, -1))  # type: ignore[no-any-return]

    @property
    def mT(self) -> Tensor:  # noqa: N802
        """The last two dimensions exchanged."""
        if self.ndim < 2:
            raise RuntimeError(
                f"tensor.mT is only supported on matrices or batches of matrices. Got {self.ndim}-D tensor."
            )
        return shape.transpose(self, -2, -1)  # type: ignore[no-any-return]

    def view_as(self, other: Any) -> Any:
        """A view in the sizes of another tensor."""
        return self.view(need_tensor("view_as", other, "other").shape)

    def reshape_as(self, other: Any) -> Any:
        """In the sizes of another tensor."""
        return self.reshape(need_tensor("reshape_as", other, "other").shape)

    def where(self, condition: Any, other: Any) -> Any:
        """The tensor where the condition holds, else the other."""
        return index.where(condition, self, other)

    # --- in place -----------------------------------------------------------------------------------------------

    def add_(self, other: Any, *, alpha: builtins.float = 1) -> Any:
        """``self += alpha * other``."""
        if alpha == 1:
            return elementwise.inplace(_ADD, self, other)
        op, operands = elementwise.scaled("add", self, other, alpha)
        return elementwise.inplace(op, *operands)

    def sub_(self, other: Any, *, alpha: builtins.float = 1) -> Any:
        """``self -= alpha * other``."""
        elementwise._no_bool_sub(self, other)
        if alpha == 1:
            return elementwise.inplace(_SUB, self, other)
        op, operands = elementwise.scaled("sub", self, other, alpha)
        return elementwise.inplace(op, *operands)

    def div_(self, other: Any, *, rounding_mode: str | None = None) -> Any:
        """``self /= other``, rounded if asked for."""
        if rounding_mode is None:
            return elementwise.inplace(BY_NAME["div"], self, other)
        op = elementwise.rounded(rounding_mode)
        elementwise.need_divisor("div_", self, other)
        return elementwise.inplace(op, self, other)

    def floor_divide_(self, other: Any) -> Any:
        """``self //= other``."""
        elementwise.need_divisor("floor_divide_", self, other)
        return elementwise.inplace(BY_NAME["floor_divide"], self, other)

    def remainder_(self, other: Any) -> Any:
        """``self %= other``."""
        elementwise.need_divisor("remainder_", self, other)
        op = BY_NAME["remainder" if isinstance(other, TensorBase) else "remainder.number"]
        return elementwise.inplace(op, self, other)

    def clamp_(self, min: Any = None, max: Any = None) -> Any:
        """Bound the elements, in place."""
        elementwise.need_bounds("clamp_", min, max)
        op, bounds = elementwise.bounded(min, max)
        return elementwise.inplace(op, self, *bounds)

    clip_ = clamp_

    def fill_(self, value: Any) -> Any:
        """Set all elements to a number."""
        if isinstance(value, TensorBase) and value.ndim != 0:
            raise RuntimeError(
                f"fill_(): only supports 0-dimension value tensor but got tensor with {value.ndim} dimensions."
            )
        op = BY_NAME["assign.fill" if isinstance(value, TensorBase) else "assign.number"]
        return elementwise.write("fill_", op, self, elementwise.fill_value("fill_", value, self))

    def zero_(self) -> Any:
        """Set all elements to zero."""
        return elementwise.write(
            "zero_", BY_NAME["assign.zero"], self, elementwise.fill_value("zero_", 0, self)
        )

    def copy_(self, source: Any) -> Any:
        """Copy the elements of another tensor, broadcast and cast."""
        if not isinstance(source, TensorBase):
            raise TypeError(
                f"copy_(): argument 'other' (position 1) must be Tensor, not {type(source).__name__}"
            )
        if _field(source, _DEVICE) != _field(self, _DEVICE):
            source = source.to(device=self.device)
        if _field(source, _DTYPE) != _field(self, _DTYPE):
            source = source.to(self.dtype)
        return elementwise.inplace(BY_NAME["assign"], self, source)

    def pow_(self, exponent: Any) -> Any:
        """``self **= exponent``."""
        op = BY_NAME["pow" if isinstance(exponent, TensorBase) else "pow.number"]
        return elementwise.inplace(op, self, exponent)

    def masked_fill_(self, mask: Any, value: Any) -> Any:
        """Set the elements where the mask holds to a number."""
        op, filling = elementwise.filled("masked_fill_", self, mask, value)
        return elementwise.inplace(op, self, filling, mask)


_PRIVATE = hooks_.LEAF_HOOK_DICTS


def _type_name(d: dtypes.dtype) -> str:
    return f"fastgrad.{d.type_name}Tensor"


def _cast(x: Any, d: dtypes.dtype) -> Any:
    """A tensor in a dtype; itself if it has it."""
    return x if d.code == _field(x, _DTYPE) else apply(_CAST, 1, 0, x, d.code)


def _to_device(x: Any, target: Device) -> Any:
    """A copy on another device."""
    if x.requires_grad:
        raise NotImplementedError(
            "moving a tensor that requires grad to another device is not supported yet; detach it first"
        )
    return creation.tensor(x, device=target)


def _rebuild(kind: type, tensor: Any, requires_grad: bool) -> Any:
    out = tensor if kind is Tensor else rt.adopt(kind, tensor)
    if requires_grad:
        out.requires_grad_()
    return out


def _divided(slot: Callable[..., Any], function: Callable[..., Any], a: Any, b: Any) -> Any:
    """A division that rounds: compiled for floating point, with a look at the divisor for integers."""
    return slot(a, b) if a.dtype.is_floating_point else _or_not_implemented(function, a, b)


def _or_not_implemented(function: Callable[..., Any], *operands: Any) -> Any:
    for x in operands:
        if isinstance(x, np.ndarray):
            return function(*(creation.from_numpy(y) if isinstance(y, np.ndarray) else y for y in operands))
        if not isinstance(x, (TensorBase, int, float, np.number, np.bool_)):
            return NotImplemented
    return function(*operands)


# --- operators that the compiled slots hand over ---------------------------------------------------------------

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": elementwise.add, "subtract": elementwise.sub, "multiply": elementwise.mul,
    "true_divide": elementwise.true_divide, "floor_divide": elementwise.floor_divide,
    "remainder": elementwise.remainder, "and": elementwise.bitwise_and, "or": elementwise.bitwise_or,
    "xor": elementwise.bitwise_xor, "negative": elementwise.neg, "absolute": elementwise.abs,
    "invert": elementwise.bitwise_not, "lt": elementwise.lt, "le": elementwise.le, "eq": elementwise.eq,
    "ne": elementwise.ne, "gt": elementwise.gt, "ge": elementwise.ge,
    "inplace_add": Tensor.add_, "inplace_subtract": Tensor.sub_, "inplace_true_divide": Tensor.div_,
    "inplace_multiply": lambda a, b: elementwise.inplace(BY_NAME["mul"], a, b),
}  # fmt: skip
_OPERATORS = [_FUNCTIONS[name] for name in OPERATORS]
_MULTIPLY = OPERATORS.index("multiply")
_N_UNARY = len(BINARY_OPERATORS) + len(INPLACE_OPERATORS)


def _operator(a: Any, b: Any, k: int) -> Any:
    """An operator whose operands are not two tensors or a tensor and a number, or whose compiled form failed."""
    if _N_UNARY <= k < _N_UNARY + len(UNARY_OPERATORS):
        return _OPERATORS[k](a)
    for x in (a, b):
        if not isinstance(x, (TensorBase, int, float, np.number, np.bool_)):
            if isinstance(x, np.ndarray):
                other = creation.from_numpy(x)
                return _operator(other if x is a else a, other if x is b else b, k)
            if k == _MULTIPLY and isinstance(x, (str, bytes)):  # else Python would try to repeat the text
                raise TypeError(
                    f"mul(): unsupported operand type(s) for *: 'Tensor' and '{type(x).__name__}'"
                )
            return NotImplemented
    return _OPERATORS[k](a, b)


runtime_set_object("tensor_type", Tensor)
runtime_set_object("tensor_base", TensorBase)
runtime_set_object("operator_fallback", _operator)


# --- functions that are methods as well ------------------------------------------------------------------------

for _name, _function in METHODS.items():
    setattr(Tensor, _name, _function)
