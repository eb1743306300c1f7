"""Changes in place that are functions with their results written back, and changes of sizes in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastgrad.dtypes import bool_
from fastgrad.functions.arguments import need_sizes, need_tensor
from fastgrad.functions.creation import empty
from fastgrad.functions.elementwise import fill_value as as_value
from fastgrad.functions.public import public
from fastgrad.functions.reduce import cumsum
from fastgrad.functions.shape import diagonal, squeeze, t, transpose, tril, triu, unsqueeze
from fastgrad.functions.strided import as_strided
from fastgrad.functions.summaries import cumprod, renorm
from fastgrad.native.build.loader import rt
from fastgrad.native.contracts.flags import GRAD_ENABLED


def _written_back(function: Callable[..., Any]) -> Callable[..., Any]:
    """The method that writes what a function gives to its tensor."""
    name = f"{function.__name__}_"

    def method(self: Any, *operands: Any, **named: Any) -> Any:
        need_tensor(name, self)
        return self.copy_(function(self, *operands, **named))

    method.__name__, method.__qualname__ = name, f"Tensor.{name}"
    method.__doc__ = f"In-place form of `{function.__name__}`."
    return method


def _run_through(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same of a function that adds up or multiplies, where its results are of the tensor's dtype."""
    write = _written_back(function)
    name = write.__name__

    def method(self: Any, *operands: Any, dtype: Any = None, **named: Any) -> Any:
        own = need_tensor(name, self).dtype
        if dtype is not None and dtype is not own:
            raise RuntimeError(
                f"{name}(): Bad in-place call: input tensor dtype {own} and output tensor dtype {dtype} should match"
            )
        if own is bool_:
            raise NotImplementedError(f"{name}(): not implemented for 'Bool'; use {function.__name__}()")
        return write(self, *operands, **named)

    method.__name__, method.__qualname__, method.__doc__ = name, write.__qualname__, write.__doc__
    return method


def _laid_out(function: Callable[..., Any]) -> Callable[..., Any]:
    """The method that lets its tensor have the sizes and strides of a view of it."""
    name = f"{function.__name__}_"

    def method(self: Any, *operands: Any, **named: Any) -> Any:
        if rt.get_mode() & GRAD_ENABLED and need_tensor(name, self).requires_grad:
            raise NotImplementedError(
                f"{name}(): no derivative of other sizes in place; use {function.__name__}() and keep what it gives"
            )
        return self.set_(function(self, *operands, **named))

    method.__name__, method.__qualname__ = name, f"Tensor.{name}"
    method.__doc__ = f"In-place form of `{function.__name__}`, for tensors that require no gradient."
    return method


for _running in (cumsum, cumprod):
    public(package=False)(_run_through(getattr(_running, "__wrapped__", _running)))
for _function in (tril, triu, renorm):
    public(package=False)(_written_back(getattr(_function, "__wrapped__", _function)))
for _view in (t, squeeze, unsqueeze, as_strided):
    public(package=False)(_laid_out(getattr(_view, "__wrapped__", _view)))
public("swapaxes_", "swapdims_", package=False)(_laid_out(getattr(transpose, "__wrapped__", transpose)))


@public(package=False)
def resize_(input: Any, *size: Any, memory_format: Any = None) -> Any:
    """Other sizes in place; elements stay in the order of the memory, new ones are not set.

    Parameters
    ----------
    *size : int
    memory_format : memory_format, optional
        In which the elements lie then.

    Raises
    ------
    RuntimeError
        If `input` requires a gradient.

    Notes
    -----
    Where there is not enough memory, the tensor gets other memory; tensors that shared the old one keep that.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.arange(6).resize_(2, 2)
    tensor([[0, 1],
            [2, 3]])
    """
    wanted = need_sizes("resize_", size, "size")
    if need_tensor("resize_", input).requires_grad:
        raise RuntimeError("resize_(): cannot resize variables that require grad")
    if any(n < 0 for n in wanted):
        raise RuntimeError(f"resize_(): Trying to create tensor with negative dimension: {list(wanted)}")
    target = empty(wanted, dtype=input.dtype, device=input.device)
    if memory_format is not None:
        target = target.contiguous(memory_format=memory_format)
    held = input.untyped_storage().nbytes() // input.itemsize - input.storage_offset()
    if target.numel() <= held:
        return input.set_(as_strided(input, wanted, target.stride()))
    kept = as_strided(input, (held,), (1,))
    target.as_strided((held,), (1,)).copy_(kept)
    return input.set_(target)


@public(package=False)
def resize_as_(input: Any, the_template: Any, *, memory_format: Any = None) -> Any:
    """The sizes of another tensor, in place. See `resize_`."""
    sizes = rt.sizes(need_tensor("resize_as_", the_template, "the_template", 2))
    return resize_(input, sizes, memory_format=memory_format)


@public()
def fill(input: Any, value: Any) -> Any:
    """A tensor like `input` in which all elements are `value`, a number or a tensor without dimensions."""
    return need_tensor("fill", input).clone().fill_(value)


@public(package=False)
def fill_diagonal_(input: Any, fill_value: float, wrap: bool = False) -> Any:
    """Set the elements whose indices are all equal to a number, in place.

    Parameters
    ----------
    fill_value : number
    wrap : bool
        Of a tall matrix, begin again below the diagonal, one row further down.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.zeros(2, 2).fill_diagonal_(1)
    tensor([[1., 0.],
            [0., 1.]])
    """
    sizes = rt.sizes(need_tensor("fill_diagonal_", input))
    if len(sizes) < 2:
        raise RuntimeError("fill_diagonal_(): dimensions must larger than 1")
    if len(sizes) > 2 and len(set(sizes)) > 1:
        raise RuntimeError("fill_diagonal_(): all dimensions of input must be of equal length")
    number = as_value("fill_diagonal_", fill_value, input)
    if len(sizes) > 2:
        for k in range(sizes[0]):
            input[(k,) * len(sizes)] = number
        return input
    rows, columns = sizes
    for begin in range(0, rows if wrap else min(rows, 1), columns + 1):
        diagonal(input[begin:]).fill_(number)
    return input


@public(package=False)
def apply_(input: Any, callable: Callable[[Any], Any]) -> Any:
    """Replace each element by what a function of Python makes of it; slow, on the CPU, and without a derivative.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.tensor([1.0, 2.0]).apply_(lambda v: 2 * v)
    tensor([2., 4.])
    """
    return _mapped("apply_", callable, input)


@public(package=False)
def map_(input: Any, tensor: Any, callable: Callable[[Any, Any], Any]) -> Any:
    """Replace each element by what a function makes of it and of that of another tensor. See `apply_`."""
    return _mapped("map_", callable, input, need_tensor("map_", tensor, "tensor", 2))


@public(package=False)
def map2_(input: Any, x: Any, y: Any, callable: Callable[[Any, Any, Any], Any]) -> Any:
    """Replace each element by what a function makes of it and of those of two other tensors. See `apply_`."""
    return _mapped("map2_", callable, input, need_tensor("map2_", x, "x", 2), need_tensor("map2_", y, "y", 3))


def _mapped(name: str, function: Callable[..., Any], input: Any, *others: Any) -> Any:
    if rt.get_mode() & GRAD_ENABLED and any(x.requires_grad for x in (need_tensor(name, input), *others)):
        raise RuntimeError(
            f"Can't call {name}() on Variable that requires grad. Use var.detach().{name}() instead."
        )
    if input.device.type != "cpu":
        raise TypeError(f"{name}() is only implemented on CPU tensors")
    if not callable(function):
        raise TypeError(f"{name}(): argument 'callable' must be callable, not {type(function).__name__}")
    rows = [input.flatten().tolist(), *(x.expand(rt.sizes(input)).flatten().tolist() for x in others)]
    found = [function(*values) for values in zip(*rows, strict=True)]
    made = input.new_tensor(found).reshape(rt.sizes(input)) if found else input
    return input.copy_(made)
