"""Parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from fastgrad.functions.arguments import need_tensors
from fastgrad.functions.shape import cat
from fastgrad.native.build.loader import TensorBase


def _on_one_device(name: str, parameters: Any, position: int) -> Iterator[Any]:
    first = None
    for p in need_tensors(name, parameters, "parameters", position):
        first = p if first is None else first
        if p.device != first.device:
            raise TypeError(
                "Found two parameters on different devices, this is currently not supported: "
                f"{first.device} and {p.device}."
            )
        yield p


def parameters_to_vector(parameters: Iterable[Any]) -> Any:
    """All parameters flat, one after the other, with history.

    Parameters
    ----------
    parameters : iterable of Tensor

    Returns
    -------
    Tensor
        1-dim.

    Raises
    ------
    TypeError
        If they lie on several devices.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.nn.utils.parameters_to_vector([fg.ones(2), fg.zeros(1, 2)])
    tensor([1., 1., 0., 0.])
    """
    return cat([p.view(-1) for p in _on_one_device("parameters_to_vector", parameters, 1)])


def vector_to_parameters(vec: Any, parameters: Iterable[Any]) -> None:
    """Let each parameter stand for its part of a vector, whose memory they share from then on.

    Parameters
    ----------
    vec : Tensor
        1-dim.
    parameters : iterable of Tensor

    Raises
    ------
    TypeError
        If `vec` is no tensor, or the parameters lie on several devices.

    Examples
    --------
    >>> import fastgrad as fg
    >>> w, b = fg.zeros(2), fg.zeros(1)
    >>> fg.nn.utils.vector_to_parameters(fg.tensor([1.0, 2.0, 3.0]), [w, b])
    >>> w, b
    (tensor([1., 2.]), tensor([3.]))
    """
    if not isinstance(vec, TensorBase):
        raise TypeError(f"expected fastgrad.Tensor, but got: {type(vec).__name__}")
    start = 0
    for p in _on_one_device("vector_to_parameters", parameters, 2):
        p.data = vec[start : start + p.numel()].view_as(p).data
        start += p.numel()
