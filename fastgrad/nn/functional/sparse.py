"""Looking up rows, and classes as vectors."""

from __future__ import annotations

from typing import Any

from fastgrad import dtypes
from fastgrad.functions.arguments import as_index, need_tensor
from fastgrad.functions.creation import filled, ones, zeros
from fastgrad.functions.index import index_select, where
from fastgrad.functions.plans import planned
from fastgrad.functions.scattering import scatter_add
from fastgrad.functions.shape import unsqueeze
from fastgrad.functions.statistics import norm
from fastgrad.native.build.loader import rt
from fastgrad.native.contracts.element_types import INT32, INT64
from fastgrad.native.contracts.records import TENSOR
from fastgrad.native.host.tables import BY_NAME
from fastgrad.ops.call import DEVICE_FIELD, apply

_DTYPE = TENSOR.fields["dtype"][0]
_EMBEDDING, _SCATTER_ADD = BY_NAME["embedding"].id, BY_NAME["scatter_add"].id


@planned
def embedding(
    input: Any,
    weight: Any,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    """The rows of a table that indices name.

    Parameters
    ----------
    input : Tensor
        Indices of any shape, int64 or int32.
    weight : Tensor
        The table, of shape (V, D).
    padding_idx : int, optional
        A row that gets no gradient; may be negative.
    max_norm : float, optional
        Rows that are looked up and longer than this are shortened first, in place and without a history.
    norm_type : float
        Which norm that is.
    scale_grad_by_freq : bool
        Divide gradients by how often the index occurs in `input`.
    sparse : bool
        Not supported.

    Returns
    -------
    Tensor
        Of the shape of `input` with D behind it.

    Raises
    ------
    NotImplementedError
        If `sparse` is set.
    IndexError
        If an index is out of range.
    RuntimeError
        If dtypes or the shape of `weight` do not fit.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.nn.functional.embedding(fg.tensor([1, 0]), fg.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[3., 4.],
            [1., 2.]])
    """
    if sparse:
        raise NotImplementedError("embedding(): sparse=True is not supported; gradients are dense")
    need_tensor("embedding", input)
    table = rt.sizes(need_tensor("embedding", weight, "weight", 2))
    if len(table) != 2:
        raise RuntimeError(f"embedding(): 'weight' must be 2-D, but has shape {list(table)}")
    code = rt.field(input, _DTYPE)
    if code == INT32:
        input = input.to(dtypes.int64)
    elif code != INT64:
        raise RuntimeError(
            "embedding(): Expected tensor for argument 'input' (the indices) to have one of the following scalar "
            f"types: Long, Int; but got {input.dtype.type_name} instead"
        )
    rows, width = table
    padding = -1
    if padding_idx is not None:
        if not -rows <= padding_idx < rows:
            raise AssertionError("Padding_idx must be within num_embeddings")
        padding = padding_idx % rows
    if max_norm is not None:
        shorten(weight.detach(), input, max_norm, norm_type)
    sizes = rt.sizes(input)
    plan = (rows, width, padding, 0, len(sizes) + 1, *sizes, width)
    if scale_grad_by_freq:
        return apply(_EMBEDDING, 3, 0, weight, input, inverse_counts(input, rows).to(weight.dtype), *plan)
    return apply(_EMBEDDING, 2, 0, weight, input, *plan)


def inverse_counts(indices: Any, rows: int) -> Any:
    """For each index one over how often it occurs."""
    flat = indices.reshape(-1)
    where = indices.device
    counts = scatter_add(zeros(rows, device=where), 0, flat, ones(flat.shape[0], device=where))
    return 1.0 / counts[indices]


def shorten(weight: Any, indices: Any, max_norm: float, norm_type: float) -> None:
    """Shorten the rows that are named and longer than `max_norm`, in place."""
    flat = indices.reshape(-1)
    chosen = index_select(weight, 0, flat)
    lengths = norm(chosen, norm_type, 1, keepdim=True)
    factors = where(lengths > max_norm, max_norm / (lengths + 1e-7), 1.0)
    weight[flat] = chosen * factors


@planned
def one_hot(tensor: Any, num_classes: int = -1) -> Any:
    """Ones at the classes, zeros elsewhere, along a new last dimension.

    Parameters
    ----------
    tensor : Tensor
        Classes, int64.
    num_classes : int
        One more than the largest class if -1.

    Raises
    ------
    RuntimeError
        If the dtype is another, or a class is negative or too large.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.nn.functional.one_hot(fg.tensor([0, 2]))
    tensor([[1, 0, 0],
            [0, 0, 1]])
    """
    need_tensor("one_hot", tensor, "tensor")
    if tensor.dtype is not dtypes.int64:
        raise RuntimeError(
            f"one_hot(): one_hot is only applicable to index tensor of type LongTensor, but got {tensor.dtype.name}"
        )
    num_classes = as_index("one_hot", "num_classes", num_classes)
    if num_classes < 1:
        num_classes = _checked_classes(tensor, num_classes)
    places = unsqueeze(tensor, -1)
    sizes = (*rt.sizes(tensor), num_classes)
    one = filled("one_hot", INT64, rt.sizes(places), rt.field(tensor, DEVICE_FIELD), 0, 0.0, 1)
    try:
        return apply(_SCATTER_ADD, 3, 0, None, one, places, len(sizes) - 1, len(sizes), *sizes)
    except (IndexError, RuntimeError):
        _checked_classes(tensor, num_classes)
        raise


def _checked_classes(tensor: Any, num_classes: int) -> int:
    """The number of classes that is given, or for -1 is needed; RuntimeError if classes do not fit."""
    if tensor.numel() == 0:
        if num_classes <= 0:
            raise RuntimeError("one_hot(): Can not infer total number of classes from empty tensor.")
    elif int(tensor.amin()) < 0:
        raise RuntimeError("one_hot(): Class values must be non-negative.")
    elif num_classes == -1:
        return int(tensor.amax()) + 1
    elif num_classes < 1:
        raise RuntimeError(f"one_hot(): num_classes should be positive, but got {num_classes}")
    elif int(tensor.amax()) >= num_classes:
        raise RuntimeError(
            f"one_hot(): Class values must be smaller than num_classes, {num_classes}, but there is "
            f"{int(tensor.amax())}"
        )
    return num_classes
