"""Parameters in lists and under keys."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator, KeysView, Mapping
from typing import Any

from fastgrad.native.build.loader import TensorBase
from fastgrad.nn.modules.module import Module, typename
from fastgrad.nn.parameter import Parameter


def position(index: Any, n: int) -> int:
    """A place in a sequence, counted from the front."""
    k = operator.index(index)
    if not -n <= k < n:
        raise IndexError(f"index {k} is out of range")
    return k % n


def pairs(name: str, entries: Any) -> Iterator[tuple[Any, Any]]:
    """The entries that a dict-like module is to take over."""
    if not isinstance(entries, Iterable):
        raise TypeError(
            f"{name}.update should be called with an iterable of key/value pairs, but got {type(entries).__name__}"
        )
    if isinstance(entries, (Mapping, Module)):
        yield from entries.items()
        return
    for k, pair in enumerate(entries):
        if not isinstance(pair, Iterable):
            raise TypeError(
                f"{name} update sequence element #{k} should be Iterable; is{type(pair).__name__}"
            )
        values = tuple(pair)
        if len(values) != 2:
            raise ValueError(f"{name} update sequence element #{k} has length {len(values)}; 2 is required")
        yield values


def _as_parameter(value: Any) -> Any:
    """A tensor as a parameter; anything else as it is."""
    return Parameter(value) if isinstance(value, TensorBase) and not isinstance(value, Parameter) else value


def _described(key: Any, value: Any, kind: str) -> str:
    """The line of a value in what a container of parameters prints as."""
    if not isinstance(value, TensorBase):
        return f"  ({key}): Object of type: {type(value).__name__}"
    tensor: Any = value
    sizes = "x".join(str(n) for n in tensor.shape)
    where = "" if tensor.device.type == "cpu" else f" ({tensor.device})"
    name = "Parameter" if isinstance(value, Parameter) else "Tensor"
    return f"  ({key}): {name} containing: [{kind} of size {sizes}{where}]"


class ParameterList(Module):
    """Parameters in a list. Tensors that are put in become parameters; anything else is kept as it is.

    Parameters
    ----------
    values : iterable, optional

    Examples
    --------
    >>> import fastgrad as fg
    >>> weights = fg.nn.ParameterList([fg.zeros(2, 3), fg.zeros(3)])
    >>> weights
    ParameterList(
        (0): Parameter containing: [fastgrad.float32 of size 2x3]
        (1): Parameter containing: [fastgrad.float32 of size 3]
    )
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            out = type(self)()
            for k in range(*index.indices(len(self))):
                out.append(self[k])
            return out
        return getattr(self, str(position(index, len(self))))

    def __setitem__(self, index: int, value: Any) -> None:
        setattr(self, str(position(index, len(self))), _as_parameter(value))

    def __iter__(self) -> Iterator[Any]:
        return (self[k] for k in range(len(self)))

    def __iadd__(self, values: Iterable[Any]) -> ParameterList:
        return self.extend(values)

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def append(self, value: Any) -> ParameterList:
        """Put a value at the end; returns the list."""
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        """Put values at the end.

        Parameters
        ----------
        values : iterable

        Returns
        -------
        ParameterList
            This one.

        Raises
        ------
        TypeError
            If `values` is not iterable, or a tensor.
        """
        if not isinstance(values, Iterable) or isinstance(values, TensorBase):
            raise TypeError(
                f"ParameterList.extend should be called with an iterable, but got {type(values).__name__}"
            )
        for value in tuple(values):
            self.append(value)
        return self

    def extra_repr(self) -> str:
        """A line for each value."""
        return "\n".join(_described(k, p, str(getattr(p, "dtype", ""))) for k, p in enumerate(self))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse: the parameters are for other modules to use."""
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(Module):
    """Parameters under keys. Tensors that are put in become parameters; anything else is kept as it is.

    Parameters
    ----------
    parameters : dict of str to object, or iterable of pairs, optional
        The entries of a dict that is no `OrderedDict` are taken in the order of their keys.

    Examples
    --------
    >>> import fastgrad as fg
    >>> weights = fg.nn.ParameterDict({"w": fg.zeros(2)})
    >>> weights["w"].requires_grad
    True
    """

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: str) -> Any:
        return getattr(self, self._checked(key))

    def __setitem__(self, key: str, value: Any) -> None:
        setattr(self, self._checked(key), _as_parameter(value))
        self._keys[key] = None

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, key)

    def _checked(self, key: Any) -> str:
        if not isinstance(key, str):
            raise TypeError(
                "Index given to ParameterDict cannot be used as a key as it is not a string (type is "
                f"'{type(key).__name__}')."
            )
        return key

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._keys)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def keys(self) -> KeysView[str]:
        """The keys."""
        return self._keys.keys()

    def items(self) -> Iterator[tuple[str, Any]]:
        """The keys with their values."""
        return ((key, self[key]) for key in self._keys)

    def values(self) -> Iterator[Any]:
        """The values."""
        return (self[key] for key in self._keys)

    def get(self, key: str, default: Any = None) -> Any:
        """The value under a key, or a default."""
        if key not in self:
            return default
        return self[key]

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value under a key, which is set to a default if there is none."""
        if key not in self:
            self[key] = default
        return self[key]

    def pop(self, key: str) -> Any:
        """Remove the value under a key and return it."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Remove the entry that was set last and return it."""
        if not self._keys:
            raise KeyError("popitem(): the ParameterDict is empty")
        key = next(reversed(self._keys))
        return key, self.pop(key)

    def clear(self) -> None:
        """Remove all entries."""
        for key in tuple(self._keys):
            del self[key]

    def copy(self) -> ParameterDict:
        """Another one with the same parameters."""
        return ParameterDict(OrderedDict(self.items()))

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """Another one with the same value under each key."""
        return ParameterDict((key, default) for key in keys)

    def update(self, parameters: Any) -> None:
        """Set values under their keys.

        Parameters
        ----------
        parameters : dict of str to object, ParameterDict, or iterable of pairs

        Raises
        ------
        TypeError, ValueError
            If it is none of these.
        """
        entries = pairs("ParameterDict", parameters)
        if isinstance(parameters, Mapping) and not isinstance(parameters, OrderedDict):
            entries = iter(sorted(entries))
        for key, value in entries:
            self[key] = value

    def extra_repr(self) -> str:
        """A line for each value."""
        return "\n".join(_described(key, p, typename(p)) for key, p in self.items())

    def __or__(self, other: ParameterDict) -> ParameterDict:
        out = self.copy()
        out.update(other)
        return out

    def __ror__(self, other: Any) -> ParameterDict:
        out = ParameterDict(OrderedDict(other.items()))
        out.update(self)
        return out

    def __ior__(self, other: ParameterDict) -> ParameterDict:
        self.update(other)
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse: the parameters are for other modules to use."""
        raise RuntimeError("ParameterDict should not be called.")
