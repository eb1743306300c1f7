"""`vmap`: a function of one element applied to all elements of a batch at once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from fastgrad.func import dispatch  # noqa: F401 - what compiled code calls
from fastgrad.func.batched import (
    Level,
    batched,
    entered,
    is_at,
    leave,
    levels,
    need_randomness,
    outside,
    value_at,
)
from fastgrad.func.trees import form_text, is_container, leaves_of, rebuilt, spread
from fastgrad.functions.shape import cat, movedim
from fastgrad.native.build.loader import TensorBase


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """The function that applies a function to each element of a batch, by ops on all of them at once.

    Parameters
    ----------
    func : callable
        Takes tensors, in containers or not, without the dimension of the batch; returns tensors.
    in_dims : int, None, or containers of such
        Which dimension of each positional argument is the batch; None for what is the same for all elements. Of
        arguments by name it is the first.
    out_dims : int, None, or containers of such
        Where the batch stands in results; None for a result that is the same for all elements.
    randomness : "error", "different" or "same"
        What functions that draw random numbers do: raise, or draw others, or the same, for each element.
    chunk_size : int, optional
        How many elements are computed at once, to save memory; all by default.

    Returns
    -------
    callable

    Raises
    ------
    ValueError
        If `in_dims` or `out_dims` do not fit, sizes differ, or `func` returns something else than tensors.
    RuntimeError
        If `func` reads elements, as ``if x > 0`` does, or draws random numbers and `randomness` is "error".

    Warns
    -----
    UserWarning
        If an op has no rule for batches and runs for each element.

    Examples
    --------
    >>> import fastgrad as fg
    >>> a, b = fg.arange(6.0).reshape(3, 2), fg.ones(2)
    >>> fg.func.vmap(fg.dot, in_dims=(0, None))(a, b)
    tensor([1., 5., 9.])
    """
    need_randomness(randomness)
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        given = (args, kwargs)
        flat = leaves_of(given)
        dims = _in_dims(func, in_dims, args, flat)
        size = _batch_size(func, in_dims, flat, dims)
        fronts = [
            x if d is None else (x if d == 0 else movedim(x, d, 0)) for x, d in zip(flat, dims, strict=True)
        ]
        if chunk_size is None or chunk_size >= size:
            return _mapped(func, given, fronts, dims, size, out_dims, randomness)
        parts = []
        for start in range(0, size, chunk_size):
            stop = min(start + chunk_size, size)
            part = [x if d is None else x[start:stop] for x, d in zip(fronts, dims, strict=True)]
            parts.append(_mapped(func, given, part, dims, stop - start, out_dims, randomness))
        return _joined(parts, out_dims)

    return wrapper


def _name(func: Any) -> str:
    return getattr(func, "__name__", None) or repr(func)


def _in_dims(func: Any, in_dims: Any, args: tuple[Any, ...], flat: Sequence[Any]) -> list[int | None]:
    """The dimension of the batch of each leaf, counted from the front."""
    if not isinstance(in_dims, int) and not isinstance(in_dims, (tuple, list)):
        raise ValueError(
            f"vmap({_name(func)}, in_dims={in_dims}, ...): expected `in_dims` to be int or "
            "a (potentially nested) tuple "
            f"matching the structure of inputs, got: {type(in_dims)}."
        )
    if not flat:
        raise ValueError(
            f"vmap({_name(func)})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying to vmap "
            "over a function with no inputs. The latter is unsupported."
        )
    spread_dims = spread(tuple(in_dims) if isinstance(in_dims, list) else in_dims, args)
    if spread_dims is None:
        raise ValueError(
            f"vmap({_name(func)}, in_dims={in_dims}, ...)(<inputs>): in_dims is not compatible with the structure of "
            f"`inputs`. in_dims has structure {form_text(in_dims)} but inputs has structure {form_text(args)}."
        )
    dims: list[int | None] = [*spread_dims, *[0] * (len(flat) - len(spread_dims))]
    where = f"vmap({_name(func)}, in_dims={in_dims}, ...)(<inputs>)"
    found: list[int | None] = []
    for x, d in zip(flat, dims, strict=True):
        if d is None:
            found.append(None)
            continue
        if not isinstance(d, int) or isinstance(d, bool):
            raise ValueError(
                f"{where}: Got in_dim={d} for an input but in_dim must be either an integer dimension or None."
            )
        if not isinstance(x, TensorBase):
            raise ValueError(
                f"{where}: Got in_dim={d} for an input but the input is of type {type(x)}. We cannot vmap over "
                "non-Tensor arguments, please use None as the respective in_dim"
            )
        n = x.dim()  # type: ignore[attr-defined]
        if not -n <= d < n:
            raise ValueError(
                f"{where}: Got in_dim={d} for some input, but that input is a Tensor of dimensionality {n} so expected "
                f"in_dim to satisfy -{n} <= in_dim < {n}."
            )
        found.append(d % n)
    return found


def _batch_size(func: Any, in_dims: Any, flat: Sequence[Any], dims: Sequence[int | None]) -> int:
    sizes = [x.shape[d] for x, d in zip(flat, dims, strict=True) if d is not None]
    if not sizes:
        raise ValueError("vmap: Expected at least one Tensor to vmap over")
    if any(s != sizes[0] for s in sizes):
        raise ValueError(
            "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
            f"{sizes} for the mapped dimension"
        )
    return sizes[0]  # type: ignore[no-any-return]


def _mapped(
    func: Callable[..., Any],
    given: Any,
    fronts: Sequence[Any],
    dims: Sequence[int | None],
    size: int,
    out_dims: Any,
    randomness: str,
) -> Any:
    """The function called on batched tensors, and values of what it returns."""
    depth = len(levels())
    try:
        with entered(size, randomness) as level:
            args, kwargs = rebuilt(
                given, [x if d is None else batched(x, level) for x, d in zip(fronts, dims, strict=True)]
            )
            out = func(*args, **kwargs)
            with outside(level):
                return _values(func, out, out_dims, level)
    finally:
        if len(levels()) > depth:  # a signal came as the block ended
            leave(depth)


def _out_dims(func: Any, out: Any, out_dims: Any) -> list[Any]:
    if isinstance(out_dims, (int, type(None))) and not isinstance(out_dims, bool):
        return [out_dims] * len(leaves_of(out))
    if not is_container(out_dims):
        raise ValueError(
            f"vmap({_name(func)}, ..., out_dims={out_dims}): `out_dims` must be an int, None or a python collection of "
            "ints representing where in the outputs the vmapped dimension should appear."
        )
    if not is_container(out) and isinstance(out_dims, (tuple, list)) and len(out_dims) == 1:
        return list(out_dims)
    found = spread(out_dims, out)
    if found is None:
        raise ValueError(
            f"vmap({_name(func)}, ..., out_dims={out_dims})(<inputs>): out_dims is not "
            "compatible with the structure of "
            f"`outputs`. out_dims has structure {form_text(out_dims)} but outputs has structure {form_text(out)}."
        )
    return found


def _values(func: Any, out: Any, out_dims: Any, level: Level) -> Any:
    leaves = leaves_of(out)
    found = []
    for x, d in zip(leaves, _out_dims(func, out, out_dims), strict=True):
        if d is None:
            if is_at(x, level):
                raise ValueError(
                    f"vmap({_name(func)}, ...): `{_name(func)}` can not return a BatchedTensor when out_dim is None"
                )
            found.append(x)
            continue
        if not isinstance(x, TensorBase):
            raise ValueError(
                f"vmap({_name(func)}, ...): `{_name(func)}` must only return Tensors, got type {type(x)}. Did you mean "
                "to set out_dims= to None for output?"
            )
        value = value_at(x, level)
        found.append(value if d == 0 else movedim(value, 0, d))
    return rebuilt(out, found)


def _joined(parts: Sequence[Any], out_dims: Any) -> Any:
    """The results of parts of the batch as those of the whole."""
    dims = _out_dims(None, parts[0], out_dims)
    columns = zip(*map(leaves_of, parts), strict=True)
    return rebuilt(
        parts[0],
        [column[0] if d is None else cat(column, d) for column, d in zip(columns, dims, strict=True)],
    )
