"""Neural networks: modules, and the functions that they are made of in `fastgrad.nn.functional`."""

import importlib as _importlib
import sys as _sys
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from fastgrad.functions.arguments import need_type as _need_type
from fastgrad.module_names import getattr_of as _getattr_of
from fastgrad.nn import functional as functional
from fastgrad.nn.parameter import Buffer as Buffer
from fastgrad.nn.parameter import Parameter as Parameter
from fastgrad.nn.parameter import UninitializedBuffer as UninitializedBuffer
from fastgrad.nn.parameter import UninitializedParameter as UninitializedParameter

if _TYPE_CHECKING:
    from fastgrad.nn import init as init
    from fastgrad.nn import modules as modules
    from fastgrad.nn import parallel as parallel
    from fastgrad.nn import utils as utils
    from fastgrad.nn.modules import *  # noqa: F403 - the names that `__getattr__` finds
    from fastgrad.nn.parallel import DataParallel as DataParallel

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


_later: dict[str, str | None] = dict.fromkeys(("attention", "grad", "init", "modules", "parallel", "utils"))
_other = _getattr_of(__name__, _later | {"DataParallel": "parallel"})


def _with_layers() -> dict[str, _Any]:
    """Import the layers, which takes as long as a tenth of the package, and make their names those of this module."""
    modules = _importlib.import_module("fastgrad.nn.modules")
    here = vars(_sys.modules[__name__])
    here.update((name, getattr(modules, name)) for name in modules.__all__)
    others = ("Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter")
    here["__all__"] = [
        *modules.__all__,
        *others,
        "DataParallel",
        "factory_kwargs",
        "functional",
        "init",
        "modules",
        "parallel",
        "utils",
    ]
    return here


def __getattr__(name: str) -> _Any:
    """A layer, when a program first asks for one, or a module that few programs use."""
    if "__all__" not in globals() and (name == "__all__" or not name.startswith("_")):
        here = _with_layers()
        if name in here:
            return here[name]
    return _other(name)


def __dir__() -> list[str]:
    return sorted({*_with_layers(), "DataParallel"})
