"""Forward-mode differentiation with the interface of ``torch.autograd.forward_ad``: dual tensors and their tangents.

See Note [Tangents] in `autograd.tangents`.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, NamedTuple

from fastgrad.autograd import tangents
from fastgrad.module_names import getattr_of as _getattr_of
from fastgrad.native.build.loader import TensorBase, rt

__all__ = [
    "UnpackedDualTensor",
    "dual_level",
    "enter_dual_level",
    "exit_dual_level",
    "make_dual",
    "unpack_dual",
]

_under_way: list[tangents.Level] = []  # one at most, as in PyTorch for the whole process


class UnpackedDualTensor(NamedTuple):
    """What `unpack_dual` gives: the tensor, and its tangent or None."""

    primal: Any
    tangent: Any


def enter_dual_level() -> int:
    """Begin a level; returns its number, which is always 0.

    Raises
    ------
    RuntimeError
        If one is under way.
    """
    if _under_way:
        raise RuntimeError(
            "Nested forward mode AD is not supported at the moment. It is by fastgrad.func.jvp, which may be nested"
        )
    level = tangents.Level()
    tangents.enter(level)
    _under_way.append(level)
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """End a level: tensors have no tangents any more.

    Raises
    ------
    RuntimeError
        If none is under way, or it has another number.
    """
    if not _under_way or level not in (None, 0):
        raise RuntimeError(
            "Trying to exit a forward AD level that was not the last one that was created. This is not supported."
        )
    tangents.leave(_under_way.pop())


class dual_level:  # noqa: N801 - PyTorch's name
    """A block in which tensors have tangents: `make_dual` gives them, `unpack_dual` says what became of them.

    Examples
    --------
    >>> import fastgrad as fg
    >>> import fastgrad.autograd.forward_ad as fwAD
    >>> with fwAD.dual_level():
    ...     x = fwAD.make_dual(fg.tensor([1.0, 2.0]), fg.tensor([1.0, 10.0]))
    ...     fwAD.unpack_dual(x * x).tangent
    tensor([ 2., 40.])
    """

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        exit_dual_level(level=0)


def _need_level(level: int | None) -> tangents.Level:
    if not _under_way or level not in (None, 0):
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first."
        )
    return _under_way[0]


def make_dual(tensor: Any, tangent: Any, *, level: int | None = None) -> Any:
    """An alias of a tensor with a tangent.

    It requires grad, also where the tensor does not: what it is used for has to be recorded, so that tangents are not
    computed under `no_grad`.

    Parameters
    ----------
    tensor, tangent : Tensor
        Of one shape and one dtype, floating-point or complex. The tangent of a complex tensor may be real.
    level : int, optional
        The number that `enter_dual_level` gave.

    Raises
    ------
    RuntimeError
        If no level is under way, or the tangent does not fit.
    TypeError
        If one of them is no tensor.
    ValueError
        If the dtype is neither floating point nor complex.
    """
    for name, x in (("tensor", tensor), ("tangent", tangent)):
        if not isinstance(x, TensorBase):
            raise TypeError(f"make_dual(): argument '{name}' must be Tensor, not {type(x).__name__}")
    current = _need_level(level)
    tangent = tangents.fitted(tensor, tangent)
    dual, end, watched = tangents.dual_of(tensor, current)
    current.add(end, tangent, watched)
    return dual


def unpack_dual(tensor: Any, *, level: int | None = None) -> UnpackedDualTensor:
    """A tensor without what duals made of it, and its tangent.

    Parameters
    ----------
    tensor : Tensor
    level : int, optional
        The number that `enter_dual_level` gave.

    Returns
    -------
    UnpackedDualTensor
        `primal` and `tangent`; the latter is None where the tensor depends on no dual, or no level is under way.
    """
    if not isinstance(tensor, TensorBase):
        raise TypeError(f"unpack_dual(): argument 'tensor' must be Tensor, not {type(tensor).__name__}")
    if not _under_way:
        return UnpackedDualTensor(tensor, None)
    current = _need_level(level)
    tangent = current.tangents_of([tensor])[0]
    if tangent is None:
        return UnpackedDualTensor(tensor, None)
    return UnpackedDualTensor(tensor if current.leads_beyond(tensor) else rt.detach(tensor), tangent)


__getattr__ = _getattr_of(__name__)
