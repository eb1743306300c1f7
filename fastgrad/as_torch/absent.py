"""What PyTorch has and fastgrad lacks: types that nothing is an instance of, and errors that name what is missing."""

from __future__ import annotations

import functools
from typing import Any

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


def is_absent(thing: object) -> bool:
    """Whether something is a class that is missing here, and no subclass of a program's.

    Examples
    --------
    >>> from fastgrad.as_torch.absent import absent_class, is_absent
    >>> is_absent(absent_class("fx", "Graph")), is_absent(int)
    (True, False)
    """
    return isinstance(thing, AbsentType) and "says" in vars(thing)
