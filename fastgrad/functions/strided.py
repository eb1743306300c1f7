"""Views that name strides, windows or another dtype, and copies of what views show."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from fastgrad import dtypes
from fastgrad.functions.arguments import LIMIT, as_index, as_sequence, need_sizes, need_tensor, records
from fastgrad.functions.complex_numbers import view_as_complex, view_as_real
from fastgrad.functions.creation import created, device_code, dtype_code, finish
from fastgrad.functions.plans import planned
from fastgrad.functions.public import public
from fastgrad.functions.shape import (
    diagonal,
    existing,
    expand,
    permute,
    select,
    split,
    squeeze,
    t,
    transpose,
    unbind,
    unsqueeze,
    wrapped,
)
from fastgrad.functions.shape import view as view_of_sizes
from fastgrad.native.build.loader import rt
from fastgrad.native.contracts.integers import UNSET
from fastgrad.native.contracts.limits import MAX_DIMS
from fastgrad.native.contracts.records import TENSOR
from fastgrad.native.host.tables import BY_NAME
from fastgrad.ops.call import apply, is_recorded

_AS_STRIDED, _UNFOLD, _AS_DTYPE, _ALIAS = (
    BY_NAME[n].id for n in ("as_strided", "unfold", "as_dtype", "alias")
)
_DTYPE, _DEVICE, _NDIM = (TENSOR.fields[name][0] for name in ("dtype", "device", "ndim"))


def _layout(name: str, size: Any, stride: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    sizes, strides = as_sequence(name, size, "size", 2), as_sequence(name, stride, "stride", 3)
    if len(sizes) != len(strides):
        raise RuntimeError(
            f"{name}(): mismatch in length of strides and shape: {len(strides)} strides, {len(sizes)} sizes"
        )
    for what, numbers in (("sizes", sizes), ("strides", strides)):
        if any(n < 0 for n in numbers):
            raise RuntimeError(f"{name}(): negative {what} are not supported, but got {list(numbers)}")
    if len(sizes) > MAX_DIMS:
        raise RuntimeError(
            f"{name}(): a tensor has at most {MAX_DIMS} dimensions in fastgrad, but got {len(sizes)}: "
            "join some that lie side by side"
        )
    return tuple(sizes), tuple(strides)


def _reach(sizes: Sequence[int], strides: Sequence[int]) -> int:
    """From the first element to behind the last one, in elements."""
    return 0 if 0 in sizes else 1 + sum((n - 1) * step for n, step in zip(sizes, strides, strict=True))


@public()
def as_strided(input: Any, size: Any, stride: Any, storage_offset: int | None = None) -> Any:
    """A view of the storage of a tensor with sizes, strides and an offset of its own.

    Parameters
    ----------
    input : Tensor
    size, stride : sequence of int
        As many strides as sizes, none negative. Elements may share memory; their gradients are added up.
    storage_offset : int, optional
        In elements from the beginning of the storage; that of `input` if not given.

    Raises
    ------
    RuntimeError
        If the view would reach beyond the storage, or sizes and strides do not fit each other.
    NotImplementedError
        If a gradient is wanted and `input` repeats elements, or the view begins before it or ends behind it: take
        the view of its base then.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.as_strided(fg.arange(5), (3, 3), (1, 1))
    tensor([[0, 1, 2],
            [1, 2, 3],
            [2, 3, 4]])
    """
    sizes, strides = _layout("as_strided", size, stride)
    own = need_tensor("as_strided", input).storage_offset()
    offset = own if storage_offset is None else as_index("as_strided", "storage_offset", storage_offset)
    if offset < 0:
        raise RuntimeError(f"as_strided(): storage_offset must not be negative, but got {offset}")
    steps = rt.steps(input)
    if is_recorded(input) and (
        offset < own or 0 in steps or offset - own + _reach(sizes, strides) > _reach(input.shape, steps)
    ):
        raise NotImplementedError(
            "as_strided(): no derivative for a view that begins before the tensor or ends behind it, or of one that "
            "repeats elements; take the view of its base"
        )
    return apply(_AS_STRIDED, 1, 0, input, len(sizes), *sizes, *strides, offset - own, len(steps), *steps)


def _end(x: Any) -> int:
    """How many elements of its memory lie up to the last one of a tensor."""
    return x.storage_offset() + _reach(rt.sizes(x), rt.steps(x)) if x.numel() else 0  # type: ignore[no-any-return]


def _with_memory(x: Any, shown: Any) -> tuple[Any, Any]:
    """A copy of the memory of a tensor, and how the tensor lies there.

    It reaches up to the last element of the tensor and of what is shown; what lies between is copied as well.
    """
    layout = tuple(rt.sizes(x)), tuple(rt.steps(x)), x.storage_offset()
    reach = max(_end(x), _end(shown))
    if x.is_contiguous() and layout[2] == 0 and reach == x.numel():
        return x.clone(memory_format=None), layout
    memory = as_strided(x.detach(), (reach,), (1,), 0).clone()
    if records(x):
        as_strided(memory, *layout).copy_(x)
    return memory, layout


@public()
def as_strided_scatter(
    input: Any, src: Any, size: Any, stride: Any, storage_offset: int | None = None
) -> Any:
    """A copy of a tensor in which the elements that `as_strided` would show are those of `src`.

    Parameters
    ----------
    input : Tensor
    src : Tensor
        Of the sizes `size`.
    size, stride : tuple of int
    storage_offset : int, optional
        Where the first one lies, counted from the beginning of the memory that `input` lies in; if nothing is said,
        where the first element of `input` does.

    Returns
    -------
    Tensor
        With the strides of `input`. What `as_strided` shows besides its elements leaves no trace.

    Raises
    ------
    RuntimeError
        If sizes do not fit, or something lies behind the end of the memory.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.as_strided_scatter(fg.zeros(4), fg.ones(2), (2,), (2,))
    tensor([1., 0., 1., 0.])
    """
    need_tensor("as_strided_scatter", src, "src", 2)
    x = need_tensor("as_strided_scatter", input)
    if any(n > 1 and step == 0 for n, step in zip(rt.sizes(x), rt.steps(x), strict=True)):
        x = x.clone()  # of elements that repeat there are several, one behind the other
    shown = as_strided(x.detach(), size, stride, storage_offset)
    if tuple(shown.shape) != tuple(src.shape):
        raise RuntimeError(
            f"as_strided_scatter(): expected src to have a size equal to the slice of self. src size = "
            f"{list(src.shape)}, slice size = {list(shown.shape)}"
        )
    if not x.numel():
        return x.clone(memory_format=None)
    memory, layout = _with_memory(x, shown)
    as_strided(memory, size, stride, shown.storage_offset()).copy_(src)
    return memory if tuple(rt.sizes(memory)) == layout[0] else as_strided(memory, *layout)


@public(package=False)
@planned
def unfold(input: Any, dimension: int, size: int, step: int) -> Any:
    """Windows of a dimension, as a view; their elements are one dimension more, the last.

    Parameters
    ----------
    input : Tensor
    dimension : int
    size, step : int
        Of a window, and from one to the next.

    Raises
    ------
    RuntimeError
        If a window is longer than the dimension, or `step` is not positive.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.arange(5).unfold(0, 3, 2)
    tensor([[0, 1, 2],
            [2, 3, 4]])
    """
    sizes = rt.sizes(need_tensor("unfold", input))
    d = wrapped("unfold", dimension, len(sizes), "dimension")
    length = sizes[d] if sizes else 1
    size, step = as_index("unfold", "size", size), as_index("unfold", "step", step)
    if size < 0:
        raise RuntimeError(f"unfold(): size is {size} but must be >= 0")
    if size > length:
        raise RuntimeError(
            f"unfold(): maximum size for tensor at dimension {d} is {length} but size is {size}"
        )
    if step <= 0:
        raise RuntimeError(f"unfold(): step is {step} but must be > 0")
    return apply(_UNFOLD, 1, 0, input, d, size, step)


def view_as_dtype(input: Any, dtype: dtypes.dtype) -> Any:
    """The same bytes as elements of another dtype: `Tensor.view` with a dtype."""
    wanted, own = dtypes.as_dtype(dtype), dtypes.of_code(rt.field(input, _DTYPE))
    if wanted is own:
        return apply(_ALIAS, 1, 0, input)
    if wanted.itemsize != own.itemsize:
        _need_convertible(input, own, wanted)
    return apply(_AS_DTYPE, 1, 0, input.detach(), wanted.code)  # no gradient goes through


def _need_convertible(input: Any, own: dtypes.dtype, wanted: dtypes.dtype) -> None:
    """Say why memory cannot be seen as elements of another size, where it cannot."""
    what = f"to view {own.type_name} as {wanted.type_name} (different element sizes)"
    sizes, steps = rt.sizes(input), rt.steps(input)
    if not sizes:
        raise RuntimeError(f"view(): self.dim() cannot be 0 {what}")
    if steps[-1] != 1 and sizes[-1] != 1:
        raise RuntimeError(f"view(): self.stride(-1) must be 1 {what}, but got {steps[-1]}")
    ratio = wanted.itemsize // own.itemsize
    if ratio > 1:
        if sizes[-1] % ratio:
            raise RuntimeError(
                f"view(): self.size(-1) must be divisible by {ratio} {what}, but got {sizes[-1]}"
            )
        for k, step in enumerate(steps[:-1]):
            if step % ratio:
                raise RuntimeError(
                    f"view(): self.stride({k}) must be divisible by {ratio} {what}, but got {step}"
                )
        if input.storage_offset() % ratio or input.data_ptr() % wanted.itemsize:
            raise RuntimeError(
                f"view(): self.storage_offset() must be divisible by {ratio} {what}, but got "
                f"{input.storage_offset()}"
            )


# --- new tensors with strides ----------------------------------------------------------------------------------


def _without_gaps(sizes: Sequence[int], order: Sequence[int]) -> tuple[int, ...]:
    """The strides of dimensions that follow each other in memory in an order, the outermost first."""
    strides, step = [0] * len(sizes), 1
    for d in reversed(order):
        strides[d] = step
        step *= max(sizes[d], 1)
    return tuple(strides)


@public(method=False)
@planned
def empty_strided(
    size: Any, stride: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Any:
    """A tensor with the given sizes and strides whose elements are not set.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.empty_strided((2, 3), (1, 2)).stride()
    (1, 2)
    """
    sizes, strides = _layout("empty_strided", size, stride)
    length = 0 if 0 in sizes else 1 + sum((n - 1) * step for n, step in zip(sizes, strides, strict=True))
    sizes_in_memory = (
        sizes if strides == _without_gaps(sizes, range(len(sizes))) else (min(length, LIMIT - 1),)
    )
    memory = created(
        "empty_strided",
        BY_NAME["filled"].id,
        dtype_code(dtype),
        sizes_in_memory,
        device_code(device),
        UNSET,
        0,
        0,
    )
    if sizes_in_memory is sizes:
        return finish(memory, requires_grad)
    return finish(as_strided(memory, sizes, strides).detach(), requires_grad)


@public(method=False)
def empty_permuted(
    size: Any, physical_layout: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Any:
    """A tensor without gaps whose elements are not set; `physical_layout` names its dimensions from the outermost on.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.empty_permuted((2, 3, 4), (0, 2, 1)).stride()
    (12, 1, 3)
    """
    sizes = as_sequence("empty_permuted", size, "size", 1)
    order = as_sequence("empty_permuted", physical_layout, "physical_layout", 2)
    if sorted(order) != list(range(len(sizes))):
        raise RuntimeError(
            f"empty_permuted(): expected physical_layout to hold each of {len(sizes)} dimensions once, but got "
            f"{list(order)}"
        )
    return empty_strided(
        sizes, _without_gaps(sizes, order), dtype=dtype, device=device, requires_grad=requires_grad
    )


@public(package=False)
def new_empty_strided(
    input: Any, size: Any, stride: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Any:
    """A tensor with the given sizes and strides in this tensor's dtype, whose elements are not set."""
    own = dtypes.of_code(rt.field(need_tensor("new_empty_strided", input), _DTYPE))
    where = input.device if device is None else device
    return empty_strided(size, stride, dtype=dtype or own, device=where, requires_grad=requires_grad)


# --- copies of views -------------------------------------------------------------------------------------------


def _alias(input: Any) -> Any:
    return apply(_ALIAS, 1, 0, need_tensor("alias", input))


def _copying(view: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The function that gives a copy of what a view shows, or of each of several."""

    @functools.wraps(view)
    def copied(*operands: Any, **named: Any) -> Any:
        found = view(*operands, **named)
        return tuple(part.clone() for part in found) if isinstance(found, (tuple, list)) else found.clone()

    copied.__name__ = copied.__qualname__ = name
    copied.__module__ = __name__
    copied.__doc__ = f"A copy of what `{name.removesuffix('_copy')}` shows, with its arguments."
    del copied.__wrapped__  # type: ignore[attr-defined]
    return copied


def sliced(input: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Any:
    """Every `step`-th element from `start` to `end` along a dimension, as a view.

    Raises
    ------
    RuntimeError
        If `step` is not positive.
    IndexError
        If there is no such dimension.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.ops.aten.slice(fg.arange(10), 0, 2, -2, 3)
    tensor([2, 5])
    """
    d = existing("slice", dim, need_tensor("slice", input).dim())
    given = (("start", start), ("end", end))
    first, behind = (None if at is None else as_index("slice", name, at) for name, at in given)
    if as_index("slice", "step", step) < 1:
        raise RuntimeError(f"slice(): slice step must be positive, but got {step}")
    return input[(slice(None),) * d + (slice(first, behind, step),)]


def _split_with_sizes(input: Any, split_sizes: Sequence[int], dim: int = 0) -> Any:
    return split(input, list(split_sizes), dim)


@public(method=False)
def detach(input: Any) -> Any:
    """The same elements without their history. See `Tensor.detach`."""
    return need_tensor("detach", input).detach()


_VIEWS: dict[str, Callable[..., Any]] = {
    "alias": _alias, "as_strided": as_strided, "detach": detach, "diagonal": diagonal, "expand": expand,
    "permute": permute, "select": select, "slice": sliced, "split": split, "split_with_sizes": _split_with_sizes,
    "squeeze": squeeze, "t": t, "transpose": transpose, "unbind": unbind, "unfold": unfold, "unsqueeze": unsqueeze,
    "view": view_of_sizes, "view_as_complex": view_as_complex, "view_as_real": view_as_real,
}  # fmt: skip
for _name, _view in _VIEWS.items():
    globals()[f"{_name}_copy"] = public(method=False)(_copying(_view, f"{_name}_copy"))


@public("unsafe_split_with_sizes")
@planned
def split_with_sizes(input: Any, split_sizes: Sequence[int], dim: int = 0) -> Any:
    """Parts of the given lengths along a dimension: `split` with a list."""
    return split(input, as_sequence("split_with_sizes", split_sizes, "split_sizes", 2), dim)


@public()
@planned
def unsafe_split(input: Any, split_size: int, dim: int = 0) -> Any:
    """Parts of a length along a dimension: `split`."""
    return split(input, split_size, dim)


@public(package=False)
@planned
def sum_to_size(input: Any, *size: Any) -> Any:
    """The sum over the dimensions along which sizes would be broadcast to those of the tensor.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.ones(2, 3).sum_to_size(1, 3)
    tensor([[2., 2., 2.]])
    """
    target = need_sizes("sum_to_size", size, "size")
    sizes = rt.sizes(need_tensor("sum_to_size", input))
    lead = len(sizes) - len(target)
    if lead < 0 or any(n not in (1, have) for n, have in zip(target, sizes[lead:], strict=True)):
        raise RuntimeError(f"sum_to_size(): size {list(target)} is not expandable to size {list(sizes)}.")
    return apply(BY_NAME["sum_to"].id, 1, 0, input, len(target), *target)
