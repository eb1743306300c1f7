"""Memory formats: in which order the dimensions of a tensor lie in memory."""

from __future__ import annotations

from typing import Any

from fastgrad import module_names
from fastgrad.native.build.loader import rt
from fastgrad.native.contracts.formats import (
    CHANNELS_LAST,
    CHANNELS_LAST_3D,
    FORMAT_DIMS,
    FORMATS,
    PRESERVE_FORMAT,
)


class memory_format:  # noqa: N801
    """The order in which a tensor's elements lie in memory.

    There are four: ``contiguous_format``, row by row; ``preserve_format``, like the tensor that is copied;
    ``channels_last``, where the second of four dimensions is the innermost in memory; and ``channels_last_3d``, the
    same of five.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.ones(2, 3, 4, 5).contiguous(memory_format=fg.channels_last).stride()
    (60, 1, 15, 3)
    """

    __slots__ = ("code",)
    code: int

    def __new__(cls) -> memory_format:
        """Refuse: there are no others."""
        raise TypeError("cannot create 'memory_format' instances; use the four that there are")

    def __repr__(self) -> str:
        return f"{module_names.shown}.{FORMATS[self.code]}"

    def __reduce__(self) -> tuple[Any, ...]:
        return _of_code, (self.code,)


class layout:  # noqa: N801
    """How the elements of a tensor are held. There is one: ``strided``."""

    __slots__ = ()

    def __new__(cls) -> layout:
        """Refuse: there are no others."""
        raise TypeError("cannot create 'layout' instances; there is fastgrad.strided")

    def __repr__(self) -> str:
        return f"{module_names.shown}.strided"

    def __reduce__(self) -> str:
        return "strided"


strided: layout = object.__new__(layout)
"""Elements lie a number of others apart that does not depend on where."""


def _make(code: int) -> memory_format:
    made = object.__new__(memory_format)
    made.code = code
    return made


_ALL = tuple(map(_make, range(len(FORMATS))))
contiguous_format, preserve_format, channels_last, channels_last_3d = _ALL


def _of_code(code: int) -> memory_format:
    return _ALL[code]


def need_order(name: str, value: Any) -> int:
    """The number of a memory format that a tensor can be asked to be in, or to be contiguous in.

    Raises
    ------
    TypeError
        If it is none.
    RuntimeError
        If it is `preserve_format`.
    """
    code = _need_format(name, value)
    if code == PRESERVE_FORMAT:
        raise RuntimeError("preserve memory format is unsupported by the contiguous operator")
    return code


def _need_format(name: str, value: Any) -> int:
    if not isinstance(value, memory_format):
        raise TypeError(
            f"{name}(): argument 'memory_format' must be fastgrad.memory_format, not {type(value).__name__}"
        )
    return value.code


def as_format(name: str, value: Any, x: Any) -> int:
    """The number of a memory format that a function got for a tensor.

    Raises
    ------
    TypeError
        If it is none.
    RuntimeError
        If it is one of tensors with another number of dimensions.
    """
    code = _need_format(name, value)
    rank, ndim = FORMAT_DIMS[code], len(rt.sizes(x))
    if rank not in (0, ndim):
        raise RuntimeError(
            f"{name}(): required rank {rank} tensor to use {FORMATS[code]} format, but got {ndim} dimensions"
        )
    return code


def dim_order(x: Any, check: Any) -> tuple[int, ...]:
    """What `Tensor.dim_order` gives."""
    formats = [] if isinstance(check, bool) else check
    if not isinstance(formats, (list, tuple)) or not all(isinstance(one, memory_format) for one in formats):
        raise TypeError(
            "dim_order(): the ambiguity_check argument must be a bool or a list of memory formats"
        )
    sizes, steps = rt.sizes(x), rt.steps(x)
    if formats:
        ambiguous = sum(x.is_contiguous(memory_format=one) for one in formats) != 1
    else:  # a step of a dimension that another one may stand for
        ambiguous = check and (len(set(steps)) < len(steps) or 1 in sizes)
    if ambiguous:
        raise RuntimeError(
            "dim_order(): The tensor does not have unique dim order, or cannot map to exact one of the given memory "
            "formats."
        )
    if x.is_contiguous():
        return tuple(range(len(steps)))
    order: list[int] = []
    for d in reversed(range(len(steps))):  # from the innermost on, beyond those that lie closer
        place = 0
        for k, inner in enumerate(order):
            if steps[d] and steps[inner] and (steps[d], sizes[d]) > (steps[inner], sizes[inner]):
                place = k + 1
            elif steps[d] and steps[inner] and steps[d] < steps[inner]:
                break
            elif not steps[d] or not steps[inner]:  # repeated elements say nothing of their place
                place = k + 1
        order.insert(place, d)
    return tuple(reversed(order))


def suggested(x: Any) -> int | None:
    """The format with channels last that the order of a tensor's strides speaks for, if one does."""
    if rt.channels_last(x):
        for code in (CHANNELS_LAST, CHANNELS_LAST_3D):
            if FORMAT_DIMS[code] == x.ndim:
                return code
    return None
