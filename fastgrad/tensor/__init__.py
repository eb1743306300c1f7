"""The `Tensor`: a thin Python object over a native record, put together from classes of methods.

`facts` say what it is, `placement` where, `history` is its place in the graph, `values` are its elements as Python sees
them; `copies`, `operators` and `changes` in place are ops. Functions that are methods as well come from
`functions.public.METHODS`.
Most operators are compiled: see `native.python.operator_slots`.
"""

from __future__ import annotations

from typing import Any

from fastgrad import dtypes
from fastgrad.functions import (  # noqa: F401 - most only for the methods that they offer
    arrangement,
    as_arrays,
    bits,
    changing,
    cholesky_factors,
    complex_numbers,
    contractions,
    creation,
    distances,
    distributions,
    draws,
    elementwise,
    factors,
    histograms,
    index,
    least_squares,
    linalg,
    matrix_functions,
    older_functions,
    older_linalg,
    orders,
    orthogonal,
    placing,
    pointwise,
    products,
    promotion,
    rectifiers,
    reduce,
    repetition,
    running,
    sampling,
    scattering,
    searching,
    segments,
    shape,
    sorting,
    special,
    spectra,
    statistics,
    storage,
    strided,
    summaries,
    systems,
    taking,
)
from fastgrad.functions.public import METHODS
from fastgrad.native.build.loader import TensorBase, rt, runtime_set_object
from fastgrad.tensor.changes import Changes
from fastgrad.tensor.copies import Copies
from fastgrad.tensor.facts import Facts
from fastgrad.tensor.history import History
from fastgrad.tensor.operators import Operators
from fastgrad.tensor.placement import Placement
from fastgrad.tensor.size import Size
from fastgrad.tensor.subclasses import Subclasses
from fastgrad.tensor.typed import older
from fastgrad.tensor.values import Values

__all__ = ["Size", "Tensor"]


class Tensor(Facts, Placement, History, Values, Copies, Operators, Changes, Subclasses, TensorBase):
    """An array of numbers that remembers how it was computed.

    Tensors are made by `fastgrad.tensor`, `zeros`, `randn` and so on, and by ops on tensors. The methods are those
    of PyTorch's class of the same name.

    Parameters
    ----------
    data : sequence, numpy.ndarray, Tensor or int
        Copied, in the default dtype. Integers, or one `Size`, are the sizes of a tensor whose elements are not set.
    device : device, optional

    Examples
    --------
    >>> import fastgrad as fg
    >>> x = fg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    tensor([2., 4., 6.])
    """

    __slots__ = ()
    _printed_plainly = True  # as `tensor(...)`; subclasses of programs are printed by their names

    def __new__(cls, *data: Any, device: Any = None, **named: Any) -> Tensor:
        """A tensor of data or sizes, of this class."""
        if named and (data or list(named) != ["data"]):
            raise TypeError(f"Tensor(): got an unexpected keyword argument '{next(iter(named))}'")
        given = data or tuple(named.values())
        plain = older("Tensor", given, dtypes.get_default_dtype(), device)
        return plain if cls is Tensor else rt.adopt(cls, plain)


runtime_set_object("tensor_type", Tensor)
runtime_set_object("tensor_base", TensorBase)
runtime_set_object("size_type", Size)

for _name, _function in METHODS.items():
    setattr(Tensor, _name, _function)
