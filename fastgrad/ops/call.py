"""Calling an op from Python: on tensors it goes to the compiled dispatch, in a rule being traced onto its list."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fastgrad.native.build.loader import TensorBase, rt
from fastgrad.native.contracts.flags import GRAD_ENABLED
from fastgrad.native.contracts.limits import MAX_DIMS
from fastgrad.native.contracts.records import TENSOR
from fastgrad.native.host.tables import BY_NAME, NUMBERS

if TYPE_CHECKING:
    from fastgrad.ops.registry import Op

apply = rt.apply
_field, _wrapped_number = rt.field, rt.wrapped_number
DEVICE_FIELD = TENSOR.fields["device"][0]
COMPLEX_NUMBER = 3  # the kind of a number that comes as its real part and the bits of its imaginary one
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
_DOUBLE, _WORD = struct.Struct("<d"), struct.Struct("<q")
_pack_double, _unpack_word = _DOUBLE.pack, _WORD.unpack


def float_bits(value: Any) -> int:
    """The bit pattern of a number, or of a tensor with one element, as a float64, as ops take it."""
    try:
        return _unpack_word(_pack_double(value))[0]  # type: ignore[no-any-return]
    except struct.error:
        raise TypeError(f"expected a number, but got {type(value).__name__}") from None


def float_of_bits(bits: int) -> float:
    """The float64 whose bit pattern an integer of a call is."""
    return _DOUBLE.unpack(_WORD.pack(bits))[0]  # type: ignore[no-any-return]


class Traced:
    """What stands for a value while a rule is traced (see `ops.rules`): nothing can be decided by it yet."""

    __slots__ = ()

    def _decide(self, *_: object) -> Any:
        raise TypeError(
            "a rule is traced once, for all values and sizes, and cannot ask for them: a choice between values is "
            "m.where, what depends on sizes or integers an op that reads them when it runs"
        )

    __bool__ = __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __int__ = __float__ = __index__ = _decide
    __hash__ = object.__hash__


class Symbol(Traced):
    """A tensor of a rule that is being traced: what of the methods of `Tensor` needs neither sizes nor values."""

    __slots__ = ("slot", "trace")

    def __init__(self, trace: Any, slot: int) -> None:
        self.trace = trace
        self.slot = slot

    def __add__(self, other: Any) -> Any:
        return _arithmetic("add", self, other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return _arithmetic("sub", self, other)

    def __rsub__(self, other: Any) -> Any:
        return _arithmetic("sub", other, self)

    def __mul__(self, other: Any) -> Any:
        return _arithmetic("mul", self, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        return _arithmetic("div", self, other)

    def __neg__(self) -> Any:
        return _arithmetic("neg", self)

    def __matmul__(self, other: Any) -> Any:
        return _arithmetic("bmm", self, other)

    @property
    def mT(self) -> Any:  # noqa: N802 - PyTorch's name
        """The transposed matrices."""
        return self.transpose(-2, -1)

    def transpose(self, dim0: int, dim1: int) -> Any:
        """The same with two dimensions exchanged."""
        return invoke(BY_NAME["transpose"], (self,), dim0, dim1)

    def unsqueeze(self, dim: int) -> Any:
        """The same with another dimension, of size 1."""
        return invoke(BY_NAME["unsqueeze"], (self,), dim)

    def squeeze(self, dim: int) -> Any:
        """The same without a dimension of size 1."""
        return invoke(BY_NAME["squeeze"], (self,), dim)

    def expand(self, *sizes: Any) -> Any:
        """The same repeated along dimensions of size 1."""
        return self._of_sizes("expand_to", sizes)

    def reshape(self, *sizes: Any) -> Any:
        """The same elements in other dimensions."""
        return self._of_sizes("reshape_to", sizes)

    def _of_sizes(self, name: str, sizes: tuple[Any, ...]) -> Any:
        if len(sizes) > MAX_DIMS:
            raise ValueError(f"a tensor has at most {MAX_DIMS} dimensions, but {len(sizes)} sizes were given")
        return invoke(BY_NAME[name], (self,), len(sizes), sizes)

    def sum(self, dim: int | None = None, keepdim: bool = False) -> Any:
        """The sum along a dimension, or of all elements."""
        dims = () if dim is None else (dim,)
        return invoke(BY_NAME["sum"], (self,), int(keepdim), *dims)

    def cumsum(self, dim: int) -> Any:
        """Running sums along a dimension."""
        return invoke(BY_NAME["cumsum"], (self,), dim, 1)

    def tril(self, diagonal: int = 0) -> Any:
        """The lower triangles of matrices."""
        return invoke(BY_NAME["tril"], (self,), diagonal)

    def triu(self, diagonal: int = 0) -> Any:
        """The upper triangles of matrices."""
        return invoke(BY_NAME["triu"], (self,), diagonal)


def is_traced(operand: Any) -> bool:
    """Whether a rule that has two forms is being traced, so that it takes that of one kernel.

    Raises
    ------
    TypeError
        If it is traced for passes that are recorded: then it has to be called on tensors.
    """
    if not isinstance(operand, Symbol):
        return False
    if operand.trace.recorded:
        raise TypeError("a rule that is another one on tensors is called on these")
    return True


class AllGradients:
    """The gradients of every output of a node, where a rule that is being traced takes `gs`."""

    __slots__ = ("trace",)

    def __init__(self, trace: Any) -> None:
        self.trace = trace


def _arithmetic(name: str, *operands: Any) -> Any:
    return invoke(BY_NAME[name], operands)


def invoke(op: Op, tensors: Sequence[Any], *attrs: Any, n_outs: int = 0) -> Any:
    """Call an op on tensors (None where an optional one is absent) and integers or tuples of integers.

    Parameters
    ----------
    op : Op
    tensors : sequence of Tensor, number or None
    *attrs : int or tuple of int
    n_outs : int
        Number of outputs for ops where the call says so (split, unbind); the result is then a tuple.
    """
    for t in tensors:
        if not isinstance(t, TensorBase) and (type(t) not in NUMBERS or not op.takes_numbers):
            return _invoke_on_others(op, tensors, attrs, n_outs)
    for a in attrs:
        if type(a) is not int:
            return apply(op.id, len(tensors), n_outs, *tensors, *_flat(attrs))
    return apply(op.id, len(tensors), n_outs, *tensors, *attrs)


def _invoke_on_others(op: Op, tensors: Sequence[Any], attrs: tuple[Any, ...], n_outs: int) -> Any:
    """The same with numbers among the tensors, or with what stands for tensors in a rule."""
    if len(tensors) == 1 and isinstance(
        tensors[0], tuple
    ):  # all gradients of a node, where a rule takes `gs`
        tensors = tensors[0]
    for t in tensors:
        if isinstance(t, (Symbol, AllGradients)):
            return t.trace.call(op, tensors, attrs)
    operands = [t if isinstance(t, TensorBase) else as_number(t, tensors, op) for t in tensors]
    return apply(op.id, len(operands), n_outs, *operands, *_flat(attrs))


def is_recorded(*tensors: Any) -> bool:
    """Whether calls of ops on tensors get a history."""
    return bool(rt.get_mode() & GRAD_ENABLED) and any(t.requires_grad for t in tensors)


def invoke_with(op: Op, tensor: Any, *numbers: Any) -> Any:
    """Call an elementwise op on a tensor and then numbers: `invoke` for what is known to be that."""
    return apply(op.id, 1 + len(numbers), 0, tensor, *as_operands(numbers, tensor, op))


def as_operands(values: tuple[Any, ...], tensor: Any, op: Op) -> Sequence[Any]:
    """Tensors and numbers as `apply` takes them for an elementwise op, which knows numbers of Python itself."""
    for v in values:
        if type(v) not in NUMBERS and not isinstance(v, TensorBase):
            return [x if isinstance(x, TensorBase) else as_number(x, (tensor,), op) for x in values]
    return values


def _flat(attrs: tuple[Any, ...]) -> list[int]:
    """Integers and tuples of integers as one list."""
    flat: list[int] = []
    for a in attrs:
        if isinstance(a, int):
            flat.append(a)
        else:
            flat.extend(a)
    return flat


def as_number(value: Any, others: Sequence[Any], op: Op) -> Any:
    """A Python number as a 0-dim tensor that takes part in promotion as a number does; `op` asks for it.

    Whatever is no number stays what it is: the call of the op refuses it.
    """
    if type(value) is float:
        return _wrapped_number(1, value, 0, _device_of(others))
    if isinstance(value, bool):
        return _wrapped_number(2, 0.0, int(value), _device_of(others))
    if isinstance(value, int):
        if not _LEAST <= value <= _MOST:
            raise OverflowError(f"{op.called}(): Python int {value} is too large for int64")
        return _wrapped_number(0, 0.0, value, _device_of(others))
    if isinstance(value, complex):
        return _wrapped_number(COMPLEX_NUMBER, value.real, float_bits(value.imag), _device_of(others))
    if isinstance(value, float):
        return _wrapped_number(1, value, 0, _device_of(others))
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:  # a NumPy scalar
        item = value.item()
        if type(item) is type(value):  # a long double is its own
            item = float(item)
        return as_number(item, others, op)
    return value


def _device_of(operands: Sequence[Any]) -> int:
    """The device of the last tensor among operands; the CPU if there is none."""
    for k in range(len(operands) - 1, -1, -1):
        t = operands[k]
        if isinstance(t, TensorBase):
            return _field(t, DEVICE_FIELD)  # type: ignore[no-any-return]
    return 0
