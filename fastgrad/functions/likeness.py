"""Making tensors like others: of the same sizes, and lying in memory the same way."""

from __future__ import annotations

from typing import Any

from fastgrad.functions.arguments import need_tensor
from fastgrad.functions.creation import (
    device_code,
    dtype_code,
    filled,
    finish,
    integer_bounds,
    need_floating,
    number_parts,
    standard,
)
from fastgrad.functions.memory_format import as_format
from fastgrad.functions.plans import planned
from fastgrad.functions.public import public
from fastgrad.native.build.loader import rt
from fastgrad.native.contracts.element_types import COMPLEX
from fastgrad.native.contracts.flags import CONTIGUOUS
from fastgrad.native.contracts.formats import PRESERVE_FORMAT
from fastgrad.native.contracts.frames.filling import NORMAL, UNIFORM
from fastgrad.native.contracts.records import TENSOR
from fastgrad.native.host.tables import BY_NAME
from fastgrad.ops.call import invoke
from fastgrad.random import fill, fill_integers

_DTYPE, _DEVICE, _FLAGS = (TENSOR.fields[name][0] for name in ("dtype", "device", "flags"))


def _alike(name: str, input: Any, dtype: Any, device: Any, memory_format: Any) -> Any:
    """A tensor that lies in memory like another, or in a memory format, and whose elements are not set."""
    need_tensor(name, input)
    code = rt.field(input, _DTYPE) if dtype is None else dtype_code(dtype)
    where = rt.field(input, _DEVICE) if device is None else device_code(device)
    layout = PRESERVE_FORMAT if memory_format is None else as_format(name, memory_format, input)
    return rt.like(input, code, where, layout)


def _constant_like(
    name: str,
    input: Any,
    parts: tuple[int, float, int],
    dtype: Any,
    device: Any,
    memory_format: Any,
    requires_grad: bool,
) -> Any:
    """The same filled with a number as `number_parts` gives it."""
    if memory_format is None and device is None and rt.field(need_tensor(name, input), _FLAGS) & CONTIGUOUS:
        code = rt.field(input, _DTYPE) if dtype is None else dtype_code(dtype)
        out = filled(name, code, rt.sizes(input), rt.field(input, _DEVICE), *parts)
    else:
        out = _alike(name, input, dtype, device, memory_format)
        rt.fill(out, *parts)
    return out if requires_grad is False else finish(out, requires_grad)


def _standard_like(
    name: str, which: int, input: Any, dtype: Any, device: Any, memory_format: Any, requires_grad: bool
) -> Any:
    """The same with random numbers of the standard uniform or normal distribution."""
    if memory_format is None and rt.field(need_tensor(name, input), _FLAGS) & CONTIGUOUS:
        code = rt.field(input, _DTYPE) if dtype is None else dtype_code(dtype)
        where = rt.field(input, _DEVICE) if device is None else device_code(device)
        out = standard(name, which, code, rt.sizes(input), where)
    else:
        out = _alike(name, input, dtype, device, memory_format)
        if rt.field(out, _DTYPE) in COMPLEX:  # each part of a normal number has half of the variance
            fill(which, invoke(BY_NAME["view_as_real"], (out,)), None)
            out = out.mul_(0.5**0.5) if which == NORMAL else out
        else:
            out = fill(which, need_floating(name, out), None)
    return finish(out, requires_grad)


@public(method=False)
def empty_like(
    input: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Any:
    """A tensor of the same sizes whose elements are not set.

    Parameters
    ----------
    input : Tensor
    dtype, device
        Those of the tensor if not given.
    requires_grad : bool
    memory_format : memory_format, optional
        In which order its elements lie in memory; like those of the tensor if not given.
    """
    return finish(_alike("empty_like", input, dtype, device, memory_format), requires_grad)


@public(method=False)
@planned
def full_like(
    input: Any,
    fill_value: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Any:
    """A tensor of the same sizes filled with a number; see `empty_like`."""
    own = rt.field(need_tensor("full_like", input), _DTYPE)
    parts = number_parts(fill_value, "full_like", own if dtype is None else dtype_code(dtype))
    return _constant_like("full_like", input, parts, dtype, device, memory_format, requires_grad)


@public(method=False)
@planned
def zeros_like(
    input: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Any:
    """A tensor of the same sizes filled with zeros; see `empty_like`."""
    return _constant_like("zeros_like", input, (0, 0.0, 0), dtype, device, memory_format, requires_grad)


@public(method=False)
@planned
def ones_like(
    input: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Any:
    """A tensor of the same sizes filled with ones; see `empty_like`."""
    return _constant_like("ones_like", input, (0, 0.0, 1), dtype, device, memory_format, requires_grad)


@public(method=False)
@planned
def rand_like(
    input: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Any:
    """Uniform random numbers in the sizes of a tensor; see `empty_like`."""
    return _standard_like("rand_like", UNIFORM, input, dtype, device, memory_format, requires_grad)


@public(method=False)
@planned
def randn_like(
    input: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Any:
    """Normal random numbers in the sizes of a tensor; see `empty_like`."""
    return _standard_like("randn_like", NORMAL, input, dtype, device, memory_format, requires_grad)


@public(method=False)
def randint_like(
    input: Any,
    low: int | None = None,
    high: int | None = None,
    *,
    dtype: Any = None,
    device: Any = None,
    memory_format: Any = None,
) -> Any:
    """Random integers in the sizes of a tensor; see `empty_like`."""
    bounds = integer_bounds("randint_like", low, high)
    out = _alike("randint_like", input, dtype, device, memory_format)
    out = fill_integers(out, *bounds)
    return out
