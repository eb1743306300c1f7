"""Making tensors: from data, filled, sequences, random."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fastgrad import dtypes, random
from fastgrad.cuda import interchange, pinned
from fastgrad.errors import renamed
from fastgrad.functions.arguments import (
    LEAST,
    LIMIT,
    TOO_LONG,
    as_float,
    as_index,
    as_sequence,
    as_sizes,
    is_tensor,
    product,
)
from fastgrad.functions.data import array_of, write_values
from fastgrad.functions.plans import planned
from fastgrad.functions.public import public
from fastgrad.functions.sharing import from_numpy
from fastgrad.native.build.loader import TensorBase, rt, runtime_get
from fastgrad.native.contracts.element_types import BOOL, COMPLEX, FLOATS, INT64, UINT64, complex_of, real_of
from fastgrad.native.contracts.frames.filling import BETWEEN, BY_STEP, NORMAL, UNIFORM
from fastgrad.native.contracts.integers import UNSET
from fastgrad.native.contracts.limits import HOST, MAX_DIMS
from fastgrad.native.contracts.records import RUNTIME, TENSOR
from fastgrad.native.host.tables import BY_NAME
from fastgrad.ops.call import COMPLEX_NUMBER, apply, float_bits
from fastgrad.places import any_chosen, as_device, default_code, get_default_device
from fastgrad.random import STANDARD, fill, fill_integers

_DEFAULT_DTYPE = RUNTIME.fields["default_dtype"][0]
_DEVICE = TENSOR.fields["device"][0]
_field, _word = rt.field, rt.word
_new = rt.new
_AS_COMPLEX = BY_NAME["view_as_complex"].id
_CAST, _FILLED, _SEQUENCE, _RANDOM, _SCATTER_ADD = (
    BY_NAME[n].id for n in ("cast", "filled", "sequence", "random", "scatter_add")
)


def device_code(where: Any) -> int:
    """The number of a device; for None that of the one where the thread makes tensors."""
    if where is None:
        return default_code() if any_chosen() else 0
    return as_device(where).code


def dtype_code(d: Any) -> int:
    """The number of a dtype; that of the default one for None."""
    return _word(_DEFAULT_DTYPE) if d is None else dtypes.as_dtype(d).code  # type: ignore[no-any-return]


def allocate(name: str, code: int, sizes: Sequence[int], where: int = 0) -> Any:
    """A tensor whose elements are not set; `name` is the function that answers for the sizes."""
    try:
        return _new(code, where, tuple(sizes))
    except (RuntimeError, TypeError):
        _refuse(name, code, sizes)
        raise


def filled(name: str, code: int, sizes: Sequence[int], where: int, kind: int, real: float, whole: int) -> Any:
    """The same, filled with a number as `number_parts` gives it."""
    if kind == COMPLEX_NUMBER:
        if code not in COMPLEX:
            raise RuntimeError(
                f"{name}(): value cannot be converted to type {dtypes.of_code(code).name} without overflow"
            )
        out = created(name, _FILLED, code, sizes, where, 0, 0, 0)
        return out.copy_(rt.number(kind, real, whole, code, where))
    return created(name, _FILLED, code, sizes, where, kind, float_bits(real) if kind == 1 else whole, 0)


def created(name: str, op: int, code: int, sizes: Sequence[int], where: int, *words: int) -> Any:
    """A tensor that an op makes of integers, see `native.contracts.integers.CREATED`."""
    try:
        return apply(op, 0, 0, code, where, *words, len(sizes), *sizes)
    except (RuntimeError, TypeError) as error:
        _refuse(name, code, sizes)
        raise renamed(error, name) from None


def _refuse(name: str, code: int, sizes: Sequence[int]) -> None:
    """Say what is wrong with sizes, if something is."""
    for s in sizes:
        if s < 0:
            raise RuntimeError(
                f"{name}(): Trying to create tensor with negative dimension {s}: {list(sizes)}"
            ) from None
    if len(sizes) > MAX_DIMS:
        raise RuntimeError(
            f"{name}(): a tensor has at most {MAX_DIMS} dimensions in fastgrad, but got {len(sizes)}: "
            f"{list(sizes)}"
        ) from None
    if product(dtypes.of_code(code).itemsize, *filter(None, sizes)) < 0:
        raise RuntimeError(
            f"{name}(): Storage size calculation overflowed with sizes={list(sizes)}"
        ) from None


def finish(out: Any, requires_grad: bool) -> Any:
    """A new tensor, which may be wanted to require a gradient."""
    if requires_grad is not False and requires_grad is not None:
        out.requires_grad_(requires_grad)
    return out


def number_code(value: Any) -> int:
    """The dtype of a tensor of a Python number."""
    if isinstance(value, (bool, np.bool_)):
        return BOOL
    if isinstance(value, (int, np.integer)):
        return INT64
    default = runtime_get("default_dtype")
    if is_tensor(value):
        return number_code(value.item())
    return complex_of(default) if isinstance(value, (complex, np.complexfloating)) else default


def number_parts(value: Any, name: str = "full", code: int = -1) -> tuple[int, float, int]:
    """A Python number as kind, float and int, as the runtime's entries take it.

    With the code of a dtype, RuntimeError where that does not hold it.
    """
    if code in dtypes.LIMITS and isinstance(value, (int, float, np.integer, np.floating)):
        least, most = dtypes.LIMITS[code]
        if not least <= value <= most:
            raise RuntimeError(
                f"{name}(): value {value} cannot be converted to type {dtypes.of_code(code).name} without overflow"
            )
        if code == UINT64 and value >= LIMIT:
            value = int(value) - 2 * LIMIT  # as the bits stand in an integer with a sign
    if type(value) is float:
        return 1, value, 0
    if isinstance(value, (bool, np.bool_)):
        return 2, 0.0, int(value)
    if isinstance(value, (int, np.integer)):
        value = int(value)
        if not -(1 << 63) <= value < 1 << 63:
            raise OverflowError(
                f"{name}(): value {value} cannot be converted to type int64_t without overflow"
            )
        return 0, 0.0, value
    if isinstance(value, (float, np.floating)):
        return 1, float(value), 0
    if isinstance(value, (complex, np.complexfloating)):
        whole = complex(value)
        return COMPLEX_NUMBER, whole.real, float_bits(whole.imag)
    if is_tensor(value):
        return number_parts(value.item(), name, code)
    raise TypeError(f"{name}(): expected a number, but got {type(value).__name__}")


# --- from data -------------------------------------------------------------------------------------------------


@public(method=False)
def tensor(data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    """A new tensor with a copy of data.

    Parameters
    ----------
    data : number, nested sequence, numpy.ndarray or Tensor
        Also other objects that NumPy takes for arrays. Sequences may hold numbers, arrays and tensors.
    dtype : dtype, optional
        Inferred if not given: Python floats give the default dtype, ints int64, all that has a dtype keeps it, and
        of what stands side by side the dtypes are promoted.
    device : device or str, optional
    requires_grad : bool

    Returns
    -------
    Tensor
        A leaf.

    Raises
    ------
    ValueError
        If nested sequences have different lengths.
    TypeError
        If an element is no number.
    RuntimeError
        If `requires_grad` and the dtype is not floating.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.tensor([[1, 2], [3, 4]])
    tensor([[1, 2],
            [3, 4]])
    """
    if isinstance(data, TensorBase):
        source = data.detach()
        code = source.dtype.code if dtype is None else dtype_code(dtype)
        here = _field(source, _DEVICE)
        where = here if device is None and not any_chosen() else device_code(device)
        if where == here:
            out = rt.apply(_CAST, 1, 0, source, code)
        else:
            out = allocate("tensor", code, source.shape, where)
            pinned.copy(out, source)
        return finish(out, requires_grad)
    if isinstance(data, (bool, int, float, complex)) and not isinstance(data, np.generic):
        code = number_code(data) if dtype is None else dtype_code(dtype)
        if isinstance(data, complex) and code not in COMPLEX:
            raise TypeError(f"tensor(): a complex number has no place in a tensor of dtype {dtype}")
        if isinstance(data, int) and not LEAST <= data < LIMIT << (code == UINT64):
            raise ValueError(f"tensor(): {TOO_LONG}, the number is {data}")  # as PyTorch says it of sizes
        if code == UINT64 and isinstance(data, (int, float)) and data < 0:
            raise OverflowError(f"tensor(): can't convert negative int to unsigned: {data}")
        out = rt.number(*number_parts(data, "tensor", code), code, device_code(device))
        return finish(out, requires_grad)
    if device_code(device) == HOST:
        out = rt.from_list(data, -1 if dtype is None else dtype_code(dtype))
        if out is not NotImplemented:
            return finish(out, requires_grad)
    if _is_on_gpu(data):
        return tensor(
            interchange.from_array_interface(data), dtype=dtype, device=device, requires_grad=requires_grad
        )
    array, found = array_of(data, None if dtype is None else dtypes.as_dtype(dtype))
    out = allocate("tensor", found.code, array.shape, device_code(device))
    write_values(out, array)
    return finish(out, requires_grad)


def _is_on_gpu(data: Any) -> bool:
    """Whether data is an array of another library's in the memory of a GPU."""
    return hasattr(data, "__cuda_array_interface__")


@public(method=False)
def scalar_tensor(s: float, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    """A tensor without dimensions that holds a number, of the default dtype if none is given.

    Parameters
    ----------
    s : bool, int or float
    dtype : dtype, optional
    device : device, optional
    requires_grad : bool

    Raises
    ------
    TypeError
        If `s` is no number.
    RuntimeError
        If it is complex and the dtype is not.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.scalar_tensor(3)
    tensor(3.)
    """
    if not isinstance(s, (bool, int, float, complex, np.number, np.bool_)):
        raise TypeError(f"scalar_tensor(): argument 's' (position 1) must be Number, not {type(s).__name__}")
    kind = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    if isinstance(s, (complex, np.complexfloating)) and not kind.is_complex:
        raise RuntimeError(f"scalar_tensor(): value {s} cannot be converted to {kind} without loss")
    return full((), s, dtype=kind, device=device, requires_grad=requires_grad)


@public(method=False)
def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Any:
    """A tensor of data, sharing memory where it can: with tensors and arrays of the right dtype."""
    if device is None and any_chosen():
        device = get_default_device()
    if isinstance(data, TensorBase):
        out = data if dtype is None else data.to(dtype)
        return out if device is None else out.to(device)
    if _is_on_gpu(data):
        return as_tensor(interchange.from_array_interface(data), dtype, device)
    if isinstance(data, np.ndarray) and (device is None or device_code(device) == 0):
        shared = from_numpy(data)
        return shared if dtype is None else shared.to(dtype)
    return tensor(data, dtype=dtype, device=device)


# --- filled ----------------------------------------------------------------------------------------------------


@public(method=False)
@planned
def empty(
    *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False, memory_format: Any = None
) -> Any:
    """A tensor whose elements are not set."""
    code, sizes = dtype_code(dtype), as_sizes("empty", size)
    made = created("empty", _FILLED, code, sizes, device_code(device), UNSET, 0, 0)
    if memory_format is not None:
        made = made.contiguous(memory_format=memory_format)
    return finish(made, requires_grad)


@public(method=False)
@planned
def full(
    size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Any:
    """A tensor filled with a number.

    Parameters
    ----------
    size : sequence of int
    fill_value : number
    dtype : dtype, optional
        That of the number if not given.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.full((2,), 7)
    tensor([7, 7])
    """
    parts = number_parts(fill_value, "full", -1 if dtype is None else dtype_code(dtype))
    code = number_code(fill_value) if dtype is None else dtype_code(dtype)
    sizes = as_sequence("full", size, "size", 1)
    return finish(filled("full", code, sizes, device_code(device), *parts), requires_grad)


def _constant(
    name: str, size: Sequence[Any], value: int, dtype: Any, device: Any, requires_grad: bool
) -> Any:
    code, sizes = dtype_code(dtype), as_sizes(name, size)
    out = filled(name, code, sizes, device_code(device), 0, 0.0, value)
    return out if requires_grad is False else finish(out, requires_grad)


@public(method=False)
@planned
def zeros(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    """A tensor of zeros."""
    return _constant("zeros", size, 0, dtype, device, requires_grad)


@public(method=False)
@planned
def ones(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    """A tensor of ones."""
    return _constant("ones", size, 1, dtype, device, requires_grad)


@public(method=False)
@planned
def eye(
    n: int, m: int | None = None, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Any:
    """A matrix with ones on its diagonal."""
    n = as_index("eye", "n", n)
    m = n if m is None else as_index("eye", "m", m)
    if n < 0 or m < 0:
        raise RuntimeError(f"eye(): n and m must be greater or equal to 0, got {n} and {m}")
    code, where, k = dtype_code(dtype), device_code(device), min(n, m)
    _refuse("eye", code, (n, m))
    one = filled("eye", code, (k, 1), where, 0, 0.0, 1)
    places = created("eye", _SEQUENCE, INT64, (k, 1), where, BY_STEP, 0, 1)
    try:
        out = apply(_SCATTER_ADD, 3, 0, None, one, places, 1, 2, n, m)
    except (MemoryError, RuntimeError) as error:
        raise renamed(error, "eye") from None
    return finish(out, requires_grad)


# --- sequences -------------------------------------------------------------------------------------------------


@public(method=False)
@planned
def arange(
    *bounds: Any,
    step: Any = 1,
    start: Any = None,
    end: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """``start, start + step, ...`` below `end`.

    Parameters
    ----------
    start, end, step : number
        ``arange(end)``, ``arange(start, end)`` or ``arange(start, end, step)``.
    dtype : dtype, optional
        int64 if all bounds are whole numbers, else the default dtype.

    Raises
    ------
    RuntimeError
        If `step` is zero or leads away from `end`.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.arange(1, 7, 2)
    tensor([1, 3, 5])
    """
    if len(bounds) + (start is not None) + (end is not None) not in (1, 2, 3) or (not bounds and end is None):
        raise TypeError(
            f"arange(): expected arguments end, (start, end) or (start, end, step), but got {bounds}"
        )
    if end is None:
        first, last, by = (
            (0, *bounds, step) if len(bounds) == 1 else (*bounds, step) if len(bounds) == 2 else bounds
        )
    else:
        first, last, by = bounds[0] if bounds else (start or 0), end, step
    if isinstance(first, TensorBase) or isinstance(last, TensorBase) or isinstance(by, TensorBase):
        first, last, by = (v.item() if is_tensor(v) else v for v in (first, last, by))
    first = _bound("start", first)
    last = _bound("end", last)
    by = _bound("step", by)
    if by == 0 or by != by:
        raise RuntimeError("arange(): step must be nonzero")
    if not (math.isfinite(first) and math.isfinite(last)):
        raise RuntimeError(f"arange(): unsupported range: {first} -> {last}")
    if (last - first) * by < 0:
        raise RuntimeError(
            f"arange(): upper bound and lower bound inconsistent with step sign: start {first}, end {last}, step {by}"
        )
    if dtype is None:
        fractions = isinstance(first, float) or isinstance(last, float) or isinstance(by, float)
        code = _word(_DEFAULT_DTYPE) if fractions else INT64
    else:
        code = dtype_code(dtype)
    sizes = (max(0, math.ceil((last - first) / by)),)
    begin, distance = (
        (float_bits(float(first)), float_bits(float(by))) if code in FLOATS else (int(first), int(by))
    )
    out = created("arange", _SEQUENCE, code, sizes, device_code(device), BY_STEP, begin, distance)
    return finish(out, requires_grad)


def _bound(argument: str, value: Any) -> Any:
    """A number that a sequence is made of; TypeError for anything else."""
    if type(value) is float or (type(value) is int and LEAST <= value < LIMIT):
        return value
    if not isinstance(value, (int, float, np.number)):
        raise TypeError(f"arange(): argument '{argument}' must be Number, not {type(value).__name__}")
    number_parts(value, "arange")
    return value


@public(method=False)
@planned
def linspace(
    start: float,
    end: float,
    steps: int,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """`steps` values from `start` to `end`, equally far from each other, both ends included.

    Raises
    ------
    RuntimeError
        If there are fewer than no steps, or an integer dtype does not hold an end.
    NotImplementedError
        For bool, if there is more than one step.
    """
    steps = as_index("linspace", "steps", steps)
    if steps < 0:
        raise RuntimeError(f"linspace(): number of steps must be non-negative, but got {steps}")
    first, last = as_float("linspace", "start", start), as_float("linspace", "end", end)
    code, where = dtype_code(dtype), device_code(device)
    if code in COMPLEX:
        parts = linspace(first, last, steps, dtype=dtypes.of_code(real_of(code)), device=device)
        return finish(parts.to(dtypes.of_code(code)), requires_grad)
    if code in FLOATS:
        bounds = float_bits(first), float_bits(last)
        return finish(created("linspace", _SEQUENCE, code, (steps,), where, BETWEEN, *bounds), requires_grad)
    if code == BOOL and steps > 1:
        raise NotImplementedError("\"linspace_cpu\" not implemented for 'Bool'")
    out = allocate("linspace", code, (steps,), where)
    if steps:
        whole = code != BOOL
        write_values(
            out,
            _whole_steps(first, last, steps, dtypes.of_code(code).name) if whole else np.array([first != 0]),
        )
    return finish(out, requires_grad)


def _whole_steps(first: float, last: float, steps: int, name: str) -> np.ndarray:
    """What `linspace` comes to in a dtype of whole numbers: both ends lose their fractions before anything else."""
    kind, ends = np.iinfo(name), []
    least = kind.min or -kind.max  # numbers below zero count from the end, as PyTorch has it
    for bound in (first, last):
        if not least <= bound <= kind.max:
            raise RuntimeError(
                f"linspace(): value {bound} cannot be converted to type {name} without overflow"
            )
        ends.append(int(bound) % (kind.max + 1) if kind.min == 0 else int(bound))
    begin, end = ends
    by, k = (float(end) - float(begin)) / max(steps - 1, 1), np.arange(steps)
    return (
        np.where(k < steps // 2, begin + by * k, end - by * (steps - 1 - k))
        if steps > 1
        else np.array([begin])
    )


# --- random ----------------------------------------------------------------------------------------------------


@public(method=False)
@planned
def rand(
    *size: Any, generator: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Any:
    """Random numbers from the uniform distribution on [0, 1)."""
    return _random("rand", UNIFORM, size, generator, dtype, device, requires_grad)


@public(method=False)
@planned
def randn(
    *size: Any, generator: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Any:
    """Random numbers from the standard normal distribution."""
    return _random("randn", NORMAL, size, generator, dtype, device, requires_grad)


def _random(
    name: str, which: int, size: Any, generator: Any, dtype: Any, device: Any, requires_grad: bool
) -> Any:
    """A tensor of the uniform or normal distribution that `random.fill` knows without numbers."""
    code, sizes = dtype_code(dtype), as_sizes(name, size)
    out = standard(name, which, code, sizes, device_code(device), generator)
    return out if requires_grad is False else finish(out, requires_grad)


def standard(
    name: str, which: int, code: int, sizes: Sequence[int], where: int, generator: Any = None
) -> Any:
    """A tensor of the uniform distribution on [0, 1), or of the standard normal one."""
    if random.batches.under_way():
        return random.batches.made(lambda s: standard(name, which, code, s, where, generator), sizes)
    if code in COMPLEX:  # each part of a normal number has half of the variance
        pairs = standard(name, which, real_of(code), (*sizes, 2), where, generator)
        return apply(_AS_COMPLEX, 1, 0, pairs * 0.5**0.5 if which == NORMAL else pairs)
    if code in FLOATS and generator is None:
        return created(name, _RANDOM, code, sizes, where, which, *STANDARD)
    out = need_floating(name, allocate(name, code, sizes, where))
    out = fill(which, out, generator)
    return out


def need_floating(name: str, out: Any) -> Any:
    """The tensor itself; NotImplementedError if it is not floating point."""
    if not out.dtype.is_floating_point:
        raise NotImplementedError(f"\"{name}\" not implemented for '{out.dtype.type_name}'")
    return out


def integer_bounds(name: str, low: Any, high: Any) -> tuple[int, int]:
    """The bounds of random integers, with at least one in between; a single one is the upper one."""
    if high is None:
        low, high = 0, low
    elif low is None:
        low = 0
    low, high = as_index(name, "low", low), as_index(name, "high", high)
    if high <= low:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    return low, high


@public(method=False)
def randint(
    low: Any = None,
    high: Any = None,
    size: Any = None,
    *,
    generator: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """Random integers from `low` (0 if not given) up to, not including, `high`."""
    if size is None:
        low, high, size = None, low, high
    sizes = as_sequence("randint", size, "size", 2)
    low, high = integer_bounds("randint", low, high)
    out = allocate("randint", INT64 if dtype is None else dtype_code(dtype), sizes, device_code(device))
    out = fill_integers(out, low, high, generator)
    return finish(out, requires_grad)
