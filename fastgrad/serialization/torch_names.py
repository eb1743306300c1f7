"""What PyTorch's files name, and what stands for it here; read in both directions.

`NAMES` is the vocabulary of what is read. `name_of` gives what is written: the first name of an object.
"""

from __future__ import annotations

import codecs
import pickle
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any

from fastgrad import dtypes
from fastgrad.functions import storage
from fastgrad.functions.memory_format import strided
from fastgrad.functions.storage import Storage
from fastgrad.native.build.loader import rt
from fastgrad.native.contracts.element_types import SUPPORTED_DTYPES
from fastgrad.nn.parameter import Parameter
from fastgrad.places import device
from fastgrad.serialization.restricted import Vocabulary, no_arguments, of_types, size
from fastgrad.tensor import Size, Tensor
from fastgrad.tensor.typed import BY_NAME as TENSOR_TYPES

UNTYPED = ("uint16", "uint32", "uint64")
"""Dtypes for which PyTorch has no class of storages: their memory is written as bytes."""


class StorageKind:
    """A class of PyTorch's storages.

    Attributes
    ----------
    dtype : dtype
        Of the elements that the file counts.
    typed : bool
        Whether tensors over it have this dtype too.
    """

    def __init__(self, dtype: dtypes.dtype, typed: bool = True) -> None:
        self.dtype = dtype
        self.typed = typed

    def over(self, held: Storage) -> Storage | UntypedBytes:
        """A memory as the functions that make tensors take it."""
        return held if self.typed else UntypedBytes(held)


class UntypedBytes:
    """A memory whose dtype stands with each tensor over it."""

    def __init__(self, held: Storage) -> None:
        self.held = held

    def of(self, dtype: dtypes.dtype) -> Storage:
        """The memory as elements of a dtype."""
        return Storage(self.held.flat.view(dtype))


_TYPES = [dtypes.of_code(code) for code in SUPPORTED_DTYPES]
KINDS = {d.name: StorageKind(d) for d in _TYPES if d.name not in UNTYPED}
BYTES = StorageKind(dtypes.uint8, typed=False)


# --- tensors ---------------------------------------------------------------------------------------------------


def rebuild_tensor(held: Any, offset: Any, sizes: Any, strides: Any) -> Any:
    """A tensor as files of the first versions describe it."""
    return rebuild_tensor_v2(held, offset, sizes, strides, False, None)


def rebuild_tensor_v2(
    held: Any, offset: Any, sizes: Any, strides: Any, requires_grad: Any, hooks: Any, metadata: Any = None
) -> Any:
    """A tensor over a memory of its dtype."""
    _need_nothing("hooks", hooks)
    bits = _plain(metadata) or {}
    if (
        type(bits) is not dict
        or not all(bits.get(bit) is True for bit in bits)
        or not bits.keys() <= {"conj", "neg"}
    ):
        raise TypeError(
            f"what is said of a tensor besides can only be that it is a conjugate view, not {bits!r}"
        )
    # A view with both bits is made of complex numbers alone, whose negatives are no view here.
    if len(bits) > 1 or ("conj" in bits) != (bool(bits) and held.dtype.is_complex):
        raise TypeError(f"there are no views {bits!r} of {held.dtype}; resolve it before it is saved")
    make = storage.rebuild_conjugates if bits else storage.rebuild
    return make(Tensor, held, offset, _plain(sizes), strides, requires_grad, {})


def rebuild_tensor_v3(
    held: Any,
    offset: Any,
    sizes: Any,
    strides: Any,
    requires_grad: Any,
    hooks: Any,
    dtype: Any,
    metadata: Any = None,
) -> Any:
    """A tensor over a memory of bytes."""
    if type(held) is not UntypedBytes or type(dtype) is not dtypes.dtype:
        raise TypeError(
            f"expected a memory of bytes and a dtype, but got {type(held).__name__} and {dtype!r}"
        )
    return rebuild_tensor_v2(held.of(dtype), offset, sizes, strides, requires_grad, hooks, metadata)


def rebuild_meta_tensor(dtype: Any, sizes: Any, strides: Any, requires_grad: Any) -> Any:
    """A tensor of the meta device, which has no memory."""
    return storage.rebuild_meta(Tensor, dtype, _plain(sizes), strides, requires_grad)


def rebuild_parameter(data: Any, requires_grad: Any, hooks: Any) -> Any:
    """A parameter over a tensor."""
    _need_nothing("hooks", hooks)
    if type(data) is not Tensor or type(requires_grad) is not bool:
        raise TypeError(
            f"a parameter is made of a tensor and a bool, but not of {type(data).__name__} and {requires_grad!r}"
        )
    return Parameter(data, requires_grad)


def rebuild_parameter_with_state(data: Any, requires_grad: Any, hooks: Any, state: Any) -> Any:
    """A parameter with attributes."""
    return with_state(rebuild_parameter(data, requires_grad, hooks), state)


def rebuild_from_type(rebuild: Any, kind: Any, arguments: Any, state: Any) -> Any:
    """A tensor of a subclass, or with attributes."""
    if not any(rebuild is known for known in _REBUILDERS.values()) or type(arguments) is not tuple:
        raise TypeError("what makes a tensor is no function that does, with a tuple of arguments")
    return with_state(as_kind(kind, rebuild(*arguments)), state)


def as_kind(kind: Any, tensor: Any) -> Any:
    """A tensor as one of a class."""
    if not isinstance(kind, type) or not issubclass(kind, Tensor):
        raise TypeError(f"expected a class of tensors, but got {kind!r}")
    return tensor if type(tensor) is kind else rt.adopt(kind, tensor)


def _need_nothing(what: str, value: Any) -> None:
    if value is not None and (type(value) not in (dict, OrderedDict) or value):
        raise TypeError(f"a tensor in the file has {what}")


def _plain(sizes: Any) -> Any:
    return tuple(sizes) if type(sizes) is Size else sizes


def with_state(tensor: Any, state: Any) -> Any:
    """A tensor with the attributes that a file has for it."""
    if type(state) is tuple and len(state) == 2:
        state, slots = state
        _need_nothing("slots", slots)
    storage.restore(tensor, {} if state is None else state)
    return tensor


class _Call:
    """Something that pickles as the result of a call."""

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> Any:
        return self.call


def call_of(reduced: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """A tensor as a call of one of the functions above, from what `Tensor.__reduce_ex__` gives."""
    function, (kind, *described), *state = reduced
    attributes = state[0] if state else {}
    hooks: OrderedDict[Any, Any] = OrderedDict()  # there are none
    is_parameter = kind is Parameter
    maker: Callable[..., Any]
    arguments: tuple[Any, ...]
    if function is storage.rebuild_meta:
        dtype, sizes, strides, requires_grad = described
        maker, arguments = rebuild_meta_tensor, (dtype, sizes, strides, requires_grad and not is_parameter)
    else:
        held, offset, sizes, strides, requires_grad, _ = described
        maker = rebuild_tensor_v2
        arguments = (held, offset, sizes, strides, requires_grad and not is_parameter, hooks)
        if held.dtype.name in UNTYPED:
            maker, arguments = rebuild_tensor_v3, (*arguments, held.dtype)
        if function is storage.rebuild_conjugates:
            arguments = (*arguments, {"conj" if held.dtype.is_complex else "neg": True})
    if is_parameter:
        made = (_Call(maker, arguments), requires_grad, hooks)
        return (
            (rebuild_parameter_with_state, (*made, attributes)) if attributes else (rebuild_parameter, made)
        )
    if kind is Tensor and not attributes:
        return maker, arguments
    return rebuild_from_type, (maker, kind, arguments, attributes)


# --- other objects -----------------------------------------------------------------------------------------------


def _ordered(*items: Any) -> OrderedDict[Any, Any]:
    """Python 2 wrote the items with the call."""
    if not items:
        return OrderedDict()
    (pairs,) = items
    if type(pairs) is not list or not all(type(p) in (list, tuple) and len(p) == 2 for p in pairs):
        raise TypeError("an OrderedDict is made of a list of pairs")
    if not all(type(key) in (str, int) for key, _ in pairs):
        raise TypeError("the keys of an OrderedDict that is made of pairs are texts and integers")
    return OrderedDict(pairs)


def _set(items: Any = ()) -> set[Any]:
    if type(items) not in (list, tuple) or not all(type(item) in _MEMBERS for item in items):
        raise TypeError("a set is made of a list of numbers, texts, dtypes and devices")
    return set(items)


def _device(*arguments: Any) -> device:
    if not arguments or type(arguments[0]) is not str or any(type(a) is not int for a in arguments[1:]):
        raise TypeError("a device is made of a text, and of an int behind it")
    return device(*arguments)


def _bytes(text: Any, encoding: Any) -> bytes:
    if type(text) is not str or encoding not in ("latin1", "latin-1"):
        raise TypeError("bytes are made of a text in latin1")
    return text.encode("latin1")


def _bytearray(data: Any = b"") -> bytearray:
    if type(data) is not bytes:
        raise TypeError("a bytearray is made of bytes")
    return bytearray(data)


def get_layout(name: Any) -> Any:
    """The layout of a name."""
    if name != "torch.strided":
        raise TypeError(f"the layout {name!r} has no counterpart here; save dense tensors")
    return strided


def reduced_value(obj: Any) -> Any:
    """Sizes and devices as calls of their classes; NotImplemented for other objects."""
    if type(obj) is Size:
        return Size, (tuple(obj),)
    if type(obj) is device:
        return device, (obj.type,) if obj.index is None else (obj.type, obj.index)
    return NotImplemented


_MEMBERS = {str, bytes, int, float, complex, bool, type(None), dtypes.dtype, device}
_REBUILDERS: dict[str, Callable[..., Any]] = {
    "torch._utils._rebuild_tensor_v2": rebuild_tensor_v2,
    "torch._utils._rebuild_tensor_v3": rebuild_tensor_v3,
    "torch._utils._rebuild_tensor": rebuild_tensor,
    "torch._utils._rebuild_meta_tensor_no_storage": rebuild_meta_tensor,
    "torch._utils._rebuild_parameter": rebuild_parameter,
    "torch._utils._rebuild_parameter_with_state": rebuild_parameter_with_state,
    "torch._tensor._rebuild_from_type_v2": rebuild_from_type,
}
_MADE: list[tuple[str, Any, Callable[..., Any]]] = [
    *((name, function, function) for name, function in _REBUILDERS.items()),
    ("torch.Size", Size, size),
    ("torch.device", device, _device),
    ("torch.serialization._get_layout", get_layout, get_layout),
    ("collections.OrderedDict", OrderedDict, _ordered),
    ("collections.Counter", Counter, of_types(Counter, dict)),
    ("__builtin__.set", set, _set),
    ("__builtin__.complex", complex, of_types(complex, float, float)),
    ("__builtin__.bytearray", bytearray, _bytearray),
    ("__builtin__.bytes", bytes, no_arguments(bytes)),
    ("_codecs.encode", codecs.encode, _bytes),
]
_KNOWN: dict[str, Any] = {name: obj for name, obj, _ in _MADE}
_KNOWN |= {f"builtins.{kind.__name__}": kind for kind in (set, complex, bytearray, bytes)}
_KNOWN |= {f"torch.{d.name}": d for d in _TYPES}
_KNOWN |= {f"torch.{KINDS[name].dtype.type_name}Storage": kind for name, kind in KINDS.items()}
_KNOWN |= {f"torch.cuda.{KINDS[name].dtype.type_name}Storage": kind for name, kind in KINDS.items()}
_KNOWN |= {f"torch.{name}": kind for name, kind in TENSOR_TYPES.items()}
_KNOWN |= {
    "torch.storage.UntypedStorage": BYTES,
    "torch.Tensor": Tensor,
    "torch.nn.parameter.Parameter": Parameter,
}

NAMES = Vocabulary(_KNOWN, [(obj, make) for _, obj, make in _MADE], foreign="torch.")
"""What files of `torch.save` name."""

_WRITTEN: dict[int, str] = {}
for _name, _obj in _KNOWN.items():
    _WRITTEN.setdefault(id(_obj), _name)


def name_of(obj: Any) -> str:
    """The name of an object in PyTorch's files.

    Raises
    ------
    pickle.PicklingError
        If it has none.
    """
    if id(obj) not in _WRITTEN:
        shown = f"{obj.__module__}.{obj.__qualname__}" if hasattr(obj, "__qualname__") else repr(obj)
        raise pickle.PicklingError(
            f"save(): format='torch' holds what torch.load reads with weights_only=True: tensors, parameters, dicts, "
            f"OrderedDict, Counter, lists, tuples, sets, numbers, texts, bytes, sizes, dtypes, devices; {shown} is "
            "none of these. Convert it, or leave the format out"
        )
    return _WRITTEN[id(obj)]
