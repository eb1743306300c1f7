"""Tensors of whatever holds numbers, over its memory where that is possible."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastgrad import capsules, dtypes
from fastgrad.dtypes import dtype as DType  # noqa: N812
from fastgrad.functions.creation import tensor
from fastgrad.functions.public import public
from fastgrad.functions.sharing import from_numpy, frombuffer, taken_from
from fastgrad.functions.storage import Storage
from fastgrad.native.build.loader import TensorBase


@public(method=False)
def asarray(
    obj: Any,
    *,
    dtype: DType | None = None,
    device: Any = None,
    copy: bool | None = None,
    requires_grad: bool | None = None,
) -> Any:
    """A tensor of what an object holds, over its memory where that is possible.

    Tensors, arrays, objects with DLPack, storages and those of Python's buffer protocol share theirs; numbers and
    sequences do not.

    Parameters
    ----------
    obj : object
    dtype : dtype, optional
        By default that of the object; buffers are read as this, or as `get_default_dtype`.
    device : device, optional
    copy : bool, optional
        True for memory of its own; False to refuse where the memory cannot be shared.
    requires_grad : bool, optional
        Whether the tensor does. The history of a tensor is kept, unless this is False.

    Raises
    ------
    ValueError
        If the memory cannot be shared and `copy` is False.
    TypeError
        If `copy` is no bool.
    RuntimeError
        If gradients are wanted of a dtype that has none.

    Examples
    --------
    >>> import fastgrad as fg, numpy as np
    >>> a = np.zeros(2, np.float32)
    >>> fg.asarray(a)[0] = 1.0
    >>> a
    array([1., 0.], dtype=float32)
    """
    if not isinstance(copy, (bool, type(None))):
        raise TypeError(f"asarray(): argument 'copy' must be bool, not {type(copy).__name__}")
    shared = _shared(obj, dtype)
    if shared is None:
        if copy is False:
            raise ValueError("can't alias arbitrary sequence into a tensor.")
        made = tensor(obj, dtype=dtype, device=device)
    else:
        made = shared if dtype is None else shared.to(dtype)
        made = made if device is None else made.to(device)
        if copy is False and made.data_ptr() != shared.data_ptr():
            raise ValueError(
                f"can't alias tensor with dtype '{shared.dtype}' on {shared.device} into one of '{made.dtype}' on "
                f"{made.device}."
            )
        if copy and made.data_ptr() == shared.data_ptr():
            made = made.clone()
    if requires_grad is None or made.requires_grad == requires_grad:
        return made
    return made.requires_grad_() if requires_grad else made.detach()


def _shared(obj: Any, dtype: DType | None) -> Any:
    """A tensor over the memory of an object, or None if it has none that could be one."""
    if isinstance(obj, TensorBase):
        return obj
    if isinstance(obj, Storage):
        return None if dtype is None else obj.flat.view(dtype)
    if isinstance(obj, np.ndarray):
        return from_numpy(obj)
    if isinstance(obj, np.generic):
        return None
    if capsules.is_capsule(obj) or hasattr(obj, "__dlpack__"):
        return taken_from(obj)
    try:
        memoryview(obj).release()
    except TypeError:
        return None
    return frombuffer(obj, dtype=dtypes.get_default_dtype() if dtype is None else dtype)
