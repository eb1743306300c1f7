"""Making one batch of several samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fastgrad import dtypes
from fastgrad.functions import creation, shape
from fastgrad.functions.arguments import is_tensor


def default_collate(batch: Sequence[Any]) -> Any:
    """One batch of samples that have the same structure.

    Parameters
    ----------
    batch : sequence
        Of tensors, NumPy arrays or scalars, numbers, texts, or of dicts, tuples or lists of these.

    Returns
    -------
    object
        Tensors and arrays are stacked, numbers become tensors (of float64 or int64), texts stay as they
        are; a dict becomes a dict of batches, a sequence a list of batches.

    Raises
    ------
    RuntimeError
        If samples differ in length or sizes.
    TypeError
        If a sample is of another type.
    ValueError
        If there is no sample.

    Examples
    --------
    >>> default_collate([{"x": 1, "name": "a"}, {"x": 2, "name": "b"}])
    {'x': tensor([1, 2]), 'name': ['a', 'b']}
    """
    if isinstance(batch, Mapping):
        raise TypeError(
            f"default_collate(): argument 'batch' must be a sequence of samples, not {type(batch).__name__}"
        )
    if len(batch) == 0:
        raise ValueError("default_collate(): a batch must have at least one sample, but it is empty")
    first = batch[0]
    if is_tensor(first):
        return shape.stack(list(batch), 0)
    if isinstance(first, (np.ndarray, np.generic)):
        if first.dtype.kind not in "biuf":
            raise TypeError(_refused(first.dtype))
        try:
            joined = np.stack(batch)
        except ValueError:  # which does not say where
            sizes = [list(np.shape(sample)) for sample in batch]
            k = next(k for k, size in enumerate(sizes) if size != sizes[0])
            raise RuntimeError(
                f"default_collate(): expected each array to be equal size, but got {sizes[0]} at entry 0 and "
                f"{sizes[k]} at entry {k}"
            ) from None
        return creation.tensor(joined)
    if isinstance(first, float):
        return creation.tensor(list(batch), dtype=dtypes.float64)
    if isinstance(first, int):
        return creation.tensor(list(batch))
    if isinstance(first, (str, bytes)):
        return batch
    if isinstance(first, Mapping):
        fields = {key: default_collate([sample[key] for sample in batch]) for key in first}
        return fields if type(first) is dict else _like(first, fields)
    if isinstance(first, Sequence):
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError("default_collate: each element in list of batch should be of equal size")
        columns = [default_collate(column) for column in zip(*batch, strict=True)]
        return type(first)(*columns) if hasattr(first, "_fields") else columns
    raise TypeError(_refused(type(first)))


def default_convert(data: Any) -> Any:
    """A sample with its NumPy arrays as tensors and its tuples as lists; the rest is as it was.

    Parameters
    ----------
    data : object

    Returns
    -------
    object

    Examples
    --------
    >>> import numpy as np
    >>> default_convert((1, np.ones(2)))
    [1, tensor([1., 1.], dtype=fastgrad.float64)]
    """
    if isinstance(data, (np.ndarray, np.generic)) and data.dtype.kind in "biuf":
        return creation.as_tensor(np.asarray(data))
    if isinstance(data, Mapping):
        fields = {key: default_convert(value) for key, value in data.items()}
        return fields if type(data) is dict else _like(data, fields)
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes, range)):
        items = [default_convert(value) for value in data]
        return type(data)(*items) if hasattr(data, "_fields") else items
    return data


def _like(first: Any, fields: dict[Any, Any]) -> Any:
    """A mapping of the class of the samples, where that class can be made of a dict."""
    try:
        return type(first)(fields)
    except TypeError:
        return fields


def _refused(kind: Any) -> str:
    return (
        f"default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {kind}; give the "
        "loader a collate_fn for others"
    )
