"""Padding as layers: each calls `fastgrad.nn.functional.pad` in one mode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastgrad.functions.arguments import need_tensor
from fastgrad.nn import functional as F
from fastgrad.nn.modules.module import Module


class _Pad(Module):
    """Padding of the last dimensions.

    Parameters
    ----------
    padding : int or sequence of int
        How much before and behind in the last dimension, then in the one before it, and so on; one number for all.
    """

    rank = 1
    mode = "constant"
    value: float | None = None

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__()
        sides = (padding,) * (2 * self.rank) if isinstance(padding, int) else tuple(padding)
        if len(sides) != 2 * self.rank:
            raise ValueError(f"expected padding to have length {2 * self.rank}, but got {len(sides)}")
        self.padding = sides

    def forward(self, input: Any) -> Any:
        return F.pad(input, self.padding, self.mode, self.value)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPad(_Pad):
    """Padding with a value.

    Parameters
    ----------
    padding : int or sequence of int
    value : float
    """

    def __init__(self, padding: int | Sequence[int], value: float) -> None:
        super().__init__(padding)
        self.value = value

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPad):
    """The last dimension padded with a value. See `fastgrad.nn.functional.pad`."""


class ConstantPad2d(_ConstantPad):
    """The last two dimensions padded with a value. See `fastgrad.nn.functional.pad`."""

    rank = 2


class ConstantPad3d(_ConstantPad):
    """The last three dimensions padded with a value. See `fastgrad.nn.functional.pad`."""

    rank = 3


class _ZeroPad(_Pad):
    """Padding with zeros."""

    value = 0.0


class ZeroPad1d(_ZeroPad):
    """The last dimension padded with zeros. See `fastgrad.nn.functional.pad`."""


class ZeroPad2d(_ZeroPad):
    """The last two dimensions padded with zeros. See `fastgrad.nn.functional.pad`.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.nn.ZeroPad2d((1, 0, 0, 0))(fg.ones(1, 1, 2))
    tensor([[[0., 1., 1.]]])
    """

    rank = 2


class ZeroPad3d(_ZeroPad):
    """The last three dimensions padded with zeros. See `fastgrad.nn.functional.pad`."""

    rank = 3


class _ReflectionPad(_Pad):
    """Padding by reflection."""

    mode = "reflect"


class ReflectionPad1d(_ReflectionPad):
    """The last dimension mirrored at its first and last element. See `fastgrad.nn.functional.pad`."""


class ReflectionPad2d(_ReflectionPad):
    """The last two dimensions mirrored at their first and last elements. See `fastgrad.nn.functional.pad`."""

    rank = 2


class ReflectionPad3d(_ReflectionPad):
    """The last three dimensions mirrored at their first and last elements. See `fastgrad.nn.functional.pad`."""

    rank = 3


class _ReplicationPad(_Pad):
    """Padding with the elements at the edge."""

    mode = "replicate"


class ReplicationPad1d(_ReplicationPad):
    """The last dimension padded with its first and last element. See `fastgrad.nn.functional.pad`."""


class ReplicationPad2d(_ReplicationPad):
    """The last two dimensions padded with their first and last elements. See `fastgrad.nn.functional.pad`."""

    rank = 2


class ReplicationPad3d(_ReplicationPad):
    """The last three dimensions padded with their first and last elements. See `fastgrad.nn.functional.pad`."""

    rank = 3


class _CircularPad(_Pad):
    """Padding with the other end.

    Raises
    ------
    ValueError
        From a call with another number of dimensions.
    """

    mode = "circular"

    def forward(self, input: Any) -> Any:
        ndim = need_tensor("pad", input).ndim
        if ndim not in (self.rank + 1, self.rank + 2):
            raise ValueError(f"expected {self.rank + 1}D or {self.rank + 2}D input (got {ndim}D input)")
        return super().forward(input)


class CircularPad1d(_CircularPad):
    """The last dimension over and over. See `fastgrad.nn.functional.pad`."""


class CircularPad2d(_CircularPad):
    """The last two dimensions over and over. See `fastgrad.nn.functional.pad`."""

    rank = 2


class CircularPad3d(_CircularPad):
    """The last three dimensions over and over. See `fastgrad.nn.functional.pad`."""

    rank = 3
