"""What runs along a dimension: extreme values so far, and sums of exponentials in logarithms."""

from __future__ import annotations

import math
from typing import Any

from fastgrad import return_types
from fastgrad.functions.arguments import need_tensor
from fastgrad.functions.plans import planned
from fastgrad.functions.public import public
from fastgrad.functions.shape import wrapped
from fastgrad.native.build.loader import rt
from fastgrad.native.host.tables import BY_NAME
from fastgrad.ops.call import apply

_CUMMAX, _CUMMIN, _LOGCUMSUMEXP = (BY_NAME[name].id for name in ("cummax", "cummin", "logcumsumexp"))
_LARGEST, _SMALLEST = return_types.maker(return_types.cummax), return_types.maker(return_types.cummin)


def _rows(name: str, input: Any, dim: Any) -> tuple[int, int, int, int]:
    """A dimension, how many elements lie before it, in it, and behind it."""
    sizes = rt.sizes(need_tensor(name, input))
    d = wrapped(name, dim, len(sizes))
    return d, math.prod(sizes[:d]), sizes[d] if sizes else 1, math.prod(sizes[d + 1 :])


@public()
@planned
def cummax(input: Any, dim: int) -> return_types.cummax:
    """The largest element so far along a dimension, and where it stands.

    Parameters
    ----------
    input : Tensor
    dim : int

    Returns
    -------
    (values, indices)
        Of the sizes of `input`; of equal elements the last one counts, and NaN before all others.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.cummax(fg.tensor([1.0, 3.0, 2.0, 3.0]), 0)
    fastgrad.return_types.cummax(
    values=tensor([1., 3., 3., 3.]),
    indices=tensor([0, 1, 1, 3]))
    """
    return _LARGEST(apply(_CUMMAX, 1, 0, input, *_rows("cummax", input, dim), -1, -1))


@public()
@planned
def cummin(input: Any, dim: int) -> return_types.cummin:
    """The smallest element so far along a dimension, and where it stands. See `cummax`."""
    return _SMALLEST(apply(_CUMMIN, 1, 0, input, *_rows("cummin", input, dim), -1, -1))


@public()
@planned
def logcumsumexp(input: Any, dim: int) -> Any:
    """``log(exp(input).cumsum(dim))`` without overflow.

    Parameters
    ----------
    input : Tensor
        Floating.
    dim : int

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.logcumsumexp(fg.tensor([0.0, 0.0]), 0)
    tensor([0.0000, 0.6931])
    """
    return apply(_LOGCUMSUMEXP, 1, 0, input, *_rows("logcumsumexp", input, dim), -1)
