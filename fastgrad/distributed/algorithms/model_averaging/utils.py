"""Means of parameters over ranks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fastgrad.autograd.modes import no_grad
from fastgrad.distributed import collectives
from fastgrad.distributed.coalesced import packed
from fastgrad.distributed.groups import need_group
from fastgrad.native.build.loader import TensorBase


def average_parameters(params: Iterable[Any], process_group: Any) -> None:
    """Let parameters be the means of those of all ranks of a group, in one call for each dtype.

    Parameters
    ----------
    params : iterable of Tensor
        The same ones on all ranks.
    process_group : ProcessGroup or None
        None for all ranks. A process that is none of its ranks does nothing.
    """
    group = need_group("average_parameters", process_group)
    if group is None:
        return
    with no_grad():
        for copies in packed(params):
            copies.flat.div_(group.size())
            collectives.all_reduce(copies.flat, group=group)
            copies.write_back()


def get_params_to_average(params: Iterable[Any]) -> list[Any]:
    """The parameters that have a gradient.

    Parameters
    ----------
    params : iterable of Tensor or of dict
        Parameters, or groups of an optimizer.

    Returns
    -------
    list of Tensor

    Raises
    ------
    NotImplementedError
        For elements of other types.
    """
    found: list[Any] = []
    for one in params:
        if isinstance(one, TensorBase):
            found.append(one)
        elif isinstance(one, dict):
            found += one["params"]
        else:
            raise NotImplementedError(
                f"get_params_to_average(): Parameter input of type {type(one)} is not supported; expected Tensors, or "
                "dicts with 'params'"
            )
    return [p for p in found if p.grad is not None]


def average_parameters_or_parameter_groups(params: Iterable[Any], process_group: Any) -> None:
    """Let the parameters that have a gradient be the means of those of all ranks of a group.

    Parameters
    ----------
    params : iterable of Tensor or of dict
        Parameters, or groups of an optimizer.
    process_group : ProcessGroup or None
    """
    average_parameters(get_params_to_average(params), process_group)
