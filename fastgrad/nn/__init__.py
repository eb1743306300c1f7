"""Neural networks: modules, and the functions that they are made of in `fastgrad.nn.functional`."""

from typing import Any as _Any

from fastgrad.functions.arguments import need_type as _need_type
from fastgrad.module_names import getattr_of as _getattr_of
from fastgrad.nn import functional, init, modules, utils
from fastgrad.nn.modules import *  # noqa: F403 - `modules` lists its names; they are these
from fastgrad.nn.parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter

__all__ = [
    *modules.__all__, "Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter",
    "factory_kwargs", "functional", "init", "modules", "utils",
]  # fmt: skip

_FACTORY = ("device", "dtype", "memory_format")


def factory_kwargs(kwargs: dict[str, _Any] | None) -> dict[str, _Any]:
    """The keywords of a module that are for functions which make tensors.

    Parameters
    ----------
    kwargs : dict or None
        ``device``, ``dtype``, ``memory_format``, and ``factory_kwargs``, a dict of these.

    Returns
    -------
    dict

    Raises
    ------
    TypeError
        If there are others, or one comes twice.

    Examples
    --------
    >>> factory_kwargs({"device": "cpu", "factory_kwargs": {"dtype": None}})
    {'dtype': None, 'device': 'cpu'}
    """
    given = {} if kwargs is None else _need_type("factory_kwargs", kwargs, dict, "kwargs")
    unknown = given.keys() - {*_FACTORY, "factory_kwargs"}
    if unknown:
        raise TypeError(f"unexpected kwargs {unknown}")
    out = dict(given.get("factory_kwargs", {}))
    for name in _FACTORY:
        if name in given:
            if name in out:
                raise TypeError(f"{name} specified twice, in **kwargs and in factory_kwargs")
            out[name] = given[name]
    return out


__getattr__ = _getattr_of(__name__, {"attention": None, "grad": None})  # few programs use these
