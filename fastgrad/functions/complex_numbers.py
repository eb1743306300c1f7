"""Complex numbers: their parts, lengths and directions, and views of them as pairs of real numbers."""

from __future__ import annotations

from typing import Any

from fastgrad import dtypes
from fastgrad.functions.arguments import need_tensor
from fastgrad.functions.likeness import ones_like
from fastgrad.functions.plans import planned
from fastgrad.functions.public import public
from fastgrad.native.build.loader import rt
from fastgrad.native.contracts.element_types import COMPLEX, FLOAT32, FLOAT64, real_of
from fastgrad.native.contracts.records import TENSOR
from fastgrad.native.host.tables import BY_NAME
from fastgrad.ops.call import invoke
from fastgrad.ops.conjugates import is_turned
from fastgrad.ops.vocabulary import m

_DTYPE = TENSOR.fields["dtype"][0]
_field = rt.field


def is_complex_tensor(x: Any) -> bool:
    """Whether the elements of a tensor are complex numbers."""
    return _field(x, _DTYPE) in COMPLEX


def real_dtype(x: Any) -> Any:
    """The dtype of the parts of a tensor's elements."""
    return dtypes.ALL[real_of(_field(x, _DTYPE))]


# --- views -----------------------------------------------------------------------------------------------------


@public(method=False)
@planned
def view_as_real(input: Any) -> Any:
    """A view of complex numbers as pairs of real ones, which are a last dimension of size 2.

    Parameters
    ----------
    input : Tensor
        Complex, of shape (...).

    Returns
    -------
    Tensor
        Of shape (..., 2) and the dtype of the parts, over the same memory.

    Raises
    ------
    RuntimeError
        If the tensor is not complex.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.view_as_real(fg.tensor([1 + 2j]))
    tensor([[1., 2.]])
    """
    if not is_complex_tensor(need_tensor("view_as_real", input)):
        raise RuntimeError(
            f"view_as_real(): it is only supported for complex tensors, but got {input.dtype.name}"
        )
    return invoke(BY_NAME["view_as_real"], (input,))


@public(method=False)
@planned
def view_as_complex(input: Any) -> Any:
    """A view of pairs of real numbers as complex ones.

    Parameters
    ----------
    input : Tensor
        Of shape (..., 2) and dtype float32 or float64. Its pairs lie side by side, at even strides.

    Returns
    -------
    Tensor
        Of shape (...), over the same memory.

    Raises
    ------
    RuntimeError
        If the dtype is another one, or the pairs do not lie so.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.view_as_complex(fg.tensor([[1.0, 2.0]]))
    tensor([1.+2.j])
    """
    if _field(need_tensor("view_as_complex", input), _DTYPE) not in (FLOAT32, FLOAT64):
        raise RuntimeError(
            "view_as_complex(): it is only supported for float32 and float64 tensors, but got a tensor of dtype "
            f"{input.dtype.name}"
        )
    if not input.dim() or input.shape[-1] != 2:
        raise RuntimeError(
            f"view_as_complex(): Tensor must have a last dimension of size 2, but got {list(input.shape)}"
        )
    return invoke(BY_NAME["view_as_complex"], (input,))


@public(method=False)
@planned
def real(input: Any) -> Any:
    """The real parts, as a view; of a real tensor itself.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.real(fg.tensor([1 + 2j]))
    tensor([1.])
    """
    if not is_complex_tensor(need_tensor("real", input)):
        return input
    return view_as_real(conj(input) if is_turned(input) else input).select(-1, 0)


@public(method=False)
@planned
def imag(input: Any) -> Any:
    """The imaginary parts, as a view; those of a tensor with `is_conj` are one with `is_neg`.

    Raises
    ------
    RuntimeError
        If the tensor is not complex.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.imag(fg.tensor([1 + 2j]))
    tensor([2.])
    """
    if not is_complex_tensor(need_tensor("imag", input)):
        raise RuntimeError("imag(): it is not implemented for tensors with non-complex dtypes.")
    if is_turned(input):
        return invoke(BY_NAME["neg_view"], (view_as_real(conj(input)),)).select(-1, 1)
    return view_as_real(input).select(-1, 1)


# --- joining ---------------------------------------------------------------------------------------------------


@public(method=False)
@planned
def complex(real: Any, imag: Any) -> Any:
    """Complex numbers of their real and imaginary parts, which are broadcast.

    Raises
    ------
    RuntimeError
        If they are not both float32, or both float64.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.complex(fg.tensor([1.0]), fg.tensor([2.0]))
    tensor([1.+2.j])
    """
    return _joined("complex", "complex", ("real", real), ("imag", imag))


@public(method=False)
@planned
def polar(abs: Any, angle: Any) -> Any:
    """Complex numbers of their absolute values and angles in radians, ``abs * exp(1j * angle)``.

    Raises
    ------
    RuntimeError
        If these are not both float32, or both float64.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.polar(fg.tensor([2.0]), fg.tensor([0.0]))
    tensor([2.+0.j])
    """
    return _joined("polar", "polar", ("abs", abs), ("angle", angle))


def _joined(name: str, op: str, *operands: tuple[str, Any]) -> Any:
    for position, (argument, value) in enumerate(operands, 1):
        need_tensor(name, value, argument, position)
    (_, a), (second, b) = operands
    codes = _field(a, _DTYPE), _field(b, _DTYPE)
    if codes[0] not in (FLOAT32, FLOAT64) or codes[1] not in (FLOAT32, FLOAT64):
        raise RuntimeError(
            f"{name}(): Expected both inputs to be Float or Double tensors but got {a.dtype.type_name} and "
            f"{b.dtype.type_name}"
        )
    if codes[0] != codes[1]:
        raise RuntimeError(
            f"{name}(): Expected object of scalar type {a.dtype.type_name} but got scalar type {b.dtype.type_name} "
            f"for argument '{second}'"
        )
    return invoke(BY_NAME[op], (a, b))


# --- conjugates ------------------------------------------------------------------------------------------------


@public()
@planned
def conj(input: Any) -> Any:
    """The complex conjugates, as a view; of a real tensor itself.

    The view is over the same memory: what is written to it is written there as its conjugate. Its elements are
    conjugated where they are read, so an op on it works on a copy; `resolve_conj` makes one that lasts.

    Examples
    --------
    >>> import fastgrad as fg
    >>> z = fg.tensor([1 + 2j])
    >>> z.conj()
    tensor([1.-2.j])
    >>> z.conj().is_conj(), z.conj().resolve_conj().is_conj()
    (True, False)
    """
    return invoke(BY_NAME["conj"], (input,)) if is_complex_tensor(need_tensor("conj", input)) else input


@public()
@planned
def conj_physical(input: Any) -> Any:
    """The complex conjugates, in memory of their own; of a real tensor itself."""
    if not is_complex_tensor(need_tensor("conj_physical", input)):
        return input
    return invoke(BY_NAME["conj_physical"], (input,))


@public(package=False)
def conj_physical_(self: Any) -> Any:
    """In-place form of `conj_physical`."""
    if not is_complex_tensor(self):
        return self
    return self.copy_(conj_physical(self))


@public()
def resolve_conj(input: Any) -> Any:
    """A copy in memory of its own of a tensor whose elements are conjugated when they are read; of others themselves.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.tensor([1 + 2j]).conj().resolve_conj().numpy()
    array([1.-2.j], dtype=complex64)
    """
    return input.clone() if is_conj(input) else input


@public()
def resolve_neg(input: Any) -> Any:
    """A copy in memory of its own of a tensor whose elements are negated when they are read; of others themselves.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.tensor([1 + 2j]).conj().imag.resolve_neg().numpy()
    array([-2.], dtype=float32)
    """
    return input.clone() if is_neg(input) else input


@public()
def is_conj(input: Any) -> bool:
    """Whether the elements of a tensor are conjugated when they are read: see `conj`."""
    return is_turned(need_tensor("is_conj", input)) and is_complex_tensor(input)


@public()
def is_neg(input: Any) -> bool:
    """Whether the elements of a tensor are negated when they are read: those of ``x.conj().imag`` are."""
    return is_turned(need_tensor("is_neg", input)) and not is_complex_tensor(input)


@public()
@planned
def adjoint(input: Any) -> Any:
    """The conjugates of matrices, transposed: those of the last two dimensions.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.adjoint(fg.tensor([[1j, 2j]]))
    tensor([[0.-1.j],
            [0.-2.j]])
    """
    if need_tensor("adjoint", input).dim() < 2:
        raise RuntimeError(f"adjoint(): only supports matrices, but got a tensor of {input.dim()} dimensions")
    return conj(input.transpose(-2, -1))


# --- length and direction --------------------------------------------------------------------------------------


@public()
@planned
def angle(input: Any) -> Any:
    """The angles of complex numbers in radians; of real ones 0, or pi where they are negative.

    Its gradient is zero at zero, and everywhere for real numbers.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.angle(fg.tensor([1j, -1.0]))
    tensor([1.5708, 3.1416])
    """
    if is_complex_tensor(need_tensor("angle", input)):
        return invoke(BY_NAME["angle"], (input,))
    x = input if input.dtype.is_floating_point else input.to(dtypes.get_default_dtype())
    turned = m.where(m.isnan(x), x.detach(), m.where(x.detach() < 0, dtypes_pi, 0.0).to(x.dtype))
    return turned + x * 0 if x.requires_grad else turned


dtypes_pi = 3.141592653589793


@public()
@planned
def sgn(input: Any) -> Any:
    """``input / abs(input)``, and 0 at zero; of real numbers their signs.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.sgn(fg.tensor([3 + 4j, 0]))
    tensor([0.6000+0.8000j, 0.0000+0.0000j])
    """
    if need_tensor("sgn", input).dtype is dtypes.bool_:
        return input.clone()
    return invoke(BY_NAME["sgn" if is_complex_tensor(input) else "sign.sgn"], (input,))


@public(package=False)
def sgn_(self: Any) -> Any:
    """In-place form of `sgn`."""
    return self.copy_(sgn(self)) if is_complex_tensor(self) else self.sign_()


@public()
def isreal(input: Any) -> Any:
    """Whether an element is a real number, which it is if it has no imaginary part.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.isreal(fg.tensor([1 + 0j, 1j]))
    tensor([ True, False])
    """
    if is_complex_tensor(need_tensor("isreal", input)):
        return invoke(BY_NAME["isreal"], (input,))
    return ones_like(input, dtype=dtypes.bool_)
