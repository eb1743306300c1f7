"""Tensors whose elements are conjugated, or negated, when they are read: what looks at memory asks here for them.

See Note [Conjugates] in `native.launch.elementwise`.
"""

from __future__ import annotations

from typing import Any

from fastgrad.native.build.loader import rt
from fastgrad.native.contracts.element_types import COMPLEX
from fastgrad.native.contracts.flags import CONJUGATED
from fastgrad.native.contracts.records import TENSOR
from fastgrad.native.host.tables import BY_NAME
from fastgrad.ops.call import invoke

_DTYPE, _FLAGS = (TENSOR.fields[name][0] for name in ("dtype", "flags"))


def is_turned(x: Any) -> bool:
    """Whether elements are conjugated, or negated, when they are read."""
    return bool(rt.field(x, _FLAGS) & CONJUGATED)


def turned(x: Any) -> Any:
    """A view of the conjugates of complex numbers, or of the negatives of real ones."""
    return invoke(BY_NAME["conj" if rt.field(x, _DTYPE) in COMPLEX else "neg_view"], (x,))


def as_it_lies(x: Any) -> Any:
    """A tensor over the same elements that are read as they lie: itself, if they are."""
    return turned(x) if is_turned(x) else x
