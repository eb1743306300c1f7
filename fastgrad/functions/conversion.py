"""The arguments of `to`: of tensors and of modules the same."""

from __future__ import annotations

from typing import Any, NamedTuple

from fastgrad.dtypes import as_dtype, dtype
from fastgrad.functions.memory_format import memory_format, preserve_format
from fastgrad.native.build.loader import TensorBase
from fastgrad.places import as_device
from fastgrad.places import device as Device  # noqa: N812

_FORMS = (
    ("device", "dtype", "non_blocking", "copy"),
    ("dtype", "non_blocking", "copy"),
    ("tensor", "non_blocking", "copy"),
)
_BOOLS = ("non_blocking", "copy")
_KEYWORDS = ("memory_format",)


class Conversion(NamedTuple):
    """What the arguments of `to` ask for."""

    device: Device | None
    dtype: dtype | None
    non_blocking: bool
    copy: bool
    memory_format: memory_format


def parse_to(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Conversion:
    """Read the arguments of `to` in one of its forms.

    They are ``to(device=None, dtype=None, non_blocking=False, copy=False)``, ``to(dtype, non_blocking=False,
    copy=False)`` and ``to(tensor, non_blocking=False, copy=False)``, each with `memory_format` by name.

    Parameters
    ----------
    args, kwargs
        What `to` was called with.

    Returns
    -------
    Conversion
        With None for a device or a dtype that was not given.

    Raises
    ------
    TypeError
        If they are none of the forms.
    """
    first = args[0] if args else kwargs.get("tensor")
    form = _FORMS[2 if isinstance(first, TensorBase) else 1 if isinstance(first, (dtype, type)) else 0]
    given = dict(zip(form, args, strict=False))
    if len(args) > len(form) or kwargs.keys() & given.keys() or not kwargs.keys() <= {*form, *_KEYWORDS}:
        raise _no_form(args, kwargs)
    given |= kwargs
    if "tensor" in given:
        given |= {"device": given["tensor"].device, "dtype": given["tensor"].dtype}
    where, kind = given.get("device"), given.get("dtype")
    if (
        isinstance(where, bool)
        or not isinstance(where, (str, int, Device, type(None)))
        or not isinstance(kind, (dtype, type, type(None)))
    ):
        raise _no_form(args, kwargs)
    if any(not isinstance(given.get(name, False), bool) for name in _BOOLS):
        raise _no_form(args, kwargs)
    layout = given.get("memory_format")
    if not isinstance(layout, (memory_format, type(None))):
        raise _no_form(args, kwargs)
    return Conversion(
        None if where is None else as_device(where), None if kind is None else as_dtype(kind),
        given.get("non_blocking", False), given.get("copy", False), layout or preserve_format,
    )  # fmt: skip


def _no_form(args: tuple[Any, ...], kwargs: dict[str, Any]) -> TypeError:
    got = [type(a).__name__ for a in args] + [f"{name}={type(a).__name__}" for name, a in kwargs.items()]
    return TypeError(
        f"to() received an invalid combination of arguments - got ({', '.join(got)}), but expected one of: (device, "
        "dtype, non_blocking, copy), (dtype, non_blocking, copy), (tensor, non_blocking, copy), each with memory_format"
    )
