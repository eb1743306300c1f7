"""What PyTorch has and fastgrad lacks: types that nothing is an instance of, and errors that name what is missing."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from fastgrad import dtypes
from fastgrad.as_torch import locations
from fastgrad.module_names import nearest


class AbsentType(type):
    """The type of classes that PyTorch has and fastgrad lacks.

    Programs name such classes in ``isinstance``, in ``except`` and as bases when they are imported; all of this works.
    Making an instance, of the class or of a subclass, raises NotImplementedError.
    """

    says: str

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """Refuse, with the name of the class that is missing."""
        raise NotImplementedError(cls.says)

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}")
        raise AttributeError(f"{cls.__name__}.{name}: {cls.says}", name=name, obj=cls)

    def __getitem__(cls, item: Any) -> Any:
        return cls


def what_pytorch_has(module: str, name: str) -> str:
    """A sentence on a name that PyTorch has in a module and fastgrad lacks, with the nearest one that exists."""
    near = nearest(module, name)
    says = f"PyTorch has {module}.{name}, which fastgrad does not have yet"
    return f"{says}; the nearest name here is {near}" if near else says


@functools.cache
def absent_class(path: str, name: str) -> type:
    """The class that stands for one which PyTorch has in a module and fastgrad lacks."""
    module = f"torch.{path}" if path else "torch"
    base = RuntimeError if (path, name) in locations.known().exceptions else object
    says = what_pytorch_has(module, name)
    namespace = {
        "__module__": module,
        "__doc__": f"Absent: {says}.",
        "says": says,
    }
    return AbsentType(name, (base,), namespace)


def absent_function(module: str, name: str) -> Callable[..., Any]:
    """The function that stands for one which programs import at their start and call for what does not exist here."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(what_pytorch_has(module, name))

    refuse.__name__, refuse.__qualname__, refuse.__module__ = name, name, module
    refuse.__doc__ = "Raise NotImplementedError."
    return refuse


_DTYPES = {
    "complex32": 4, "float4_e2m1fn_x2": 1, "float8_e4m3fn": 1, "float8_e4m3fnuz": 1, "float8_e5m2": 1,
    "float8_e5m2fnuz": 1, "float8_e8m0fnu": 1, "qint32": 4, "qint8": 1, "quint2x4": 1, "quint4x2": 1, "quint8": 1,
}  # fmt: skip
"""The dtypes that PyTorch has and fastgrad lacks, and the bytes of an element."""
_ALIASES = {"chalf": "complex32"}


class AbsentDtype(dtypes.dtype):
    """A dtype that PyTorch has and fastgrad lacks.

    Programs have tables of dtypes, and ask tensors whether they are of one; none is. Making one raises
    NotImplementedError.
    """

    __slots__ = ()

    @property
    def code(self) -> int:  # type: ignore[override]
        """Refuse: there is no tensor of it."""
        raise NotImplementedError(self.says)

    @property
    def says(self) -> str:
        """What is said about it."""
        return what_pytorch_has("torch", self.name)

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return absent_dtype, (self.name,)


@functools.cache
def absent_dtype(name: str) -> AbsentDtype | None:
    """The dtype that stands for one which PyTorch has and fastgrad lacks; None if it has no such dtype.

    Examples
    --------
    >>> import fastgrad as fg
    >>> from fastgrad.as_torch.absent import absent_dtype
    >>> fg.ones(1).dtype == absent_dtype("float8_e5m2")
    False
    """
    if name in _ALIASES:
        return absent_dtype(_ALIASES[name])
    if name not in _DTYPES:
        return None
    made: AbsentDtype = object.__new__(AbsentDtype)
    made.name, made.itemsize = name, _DTYPES[name]
    made.is_floating_point = made.is_signed = name.startswith("float")
    made.is_signed |= name.startswith(("complex", "qint"))
    made.is_complex = name.startswith("complex")
    made.inexact = made.is_floating_point or made.is_complex
    made.numpy = made.arithmetic = None
    return made


def is_absent(thing: object) -> bool:
    """Whether something is a class or a dtype that is missing here, and no subclass of a program's.

    Examples
    --------
    >>> from fastgrad.as_torch.absent import absent_class, is_absent
    >>> is_absent(absent_class("fx", "Graph")), is_absent(int)
    (True, False)
    """
    return isinstance(thing, AbsentDtype) or (isinstance(thing, AbsentType) and "says" in vars(thing))
