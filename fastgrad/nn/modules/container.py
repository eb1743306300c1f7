"""Modules and parameters in sequences and under keys."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from itertools import groupby
from typing import Any, TypeVar

from fastgrad.native.loader import TensorBase
from fastgrad.nn.modules.module import Module, block, indented, typename
from fastgrad.nn.parameter import Parameter

Self = TypeVar("Self", bound="_ModuleSequence")


def _position(index: Any, n: int) -> int:
    """A place in a sequence, counted from the front."""
    k = operator.index(index)
    if not -n <= k < n:
        raise IndexError(f"index {k} is out of range")
    return k % n


def _pairs(name: str, entries: Any) -> Iterator[tuple[Any, Any]]:
    """The entries that a dict-like module is to take over."""
    if not isinstance(entries, Iterable):
        raise TypeError(
            f"{name}.update should be called with an iterable of key/value pairs, but got {type(entries).__name__}"
        )
    if isinstance(entries, (Mapping, ModuleDict, ParameterDict)):
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


# --- modules ---------------------------------------------------------------------------------------------------


class _ModuleSequence(Module):
    """What `Sequential` and `ModuleList` have in common."""

    _modules: dict[str, Any]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def _key(self, index: Any) -> str:
        return list(self._modules)[_position(index, len(self))]

    def __setitem__(self, index: int, module: Any) -> None:
        setattr(self, self._key(index), module)

    def __delitem__(self, index: int | slice) -> None:
        keys = list(self._modules)[index] if isinstance(index, slice) else [self._key(index)]
        for key in keys:
            delattr(self, key)
        self._modules = OrderedDict((str(k), module) for k, module in enumerate(self))

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def append(self: Self, module: Any) -> Self:
        """Put a module at the end.

        Parameters
        ----------
        module : Module

        Returns
        -------
        Module
            This one.
        """
        self.add_module(str(len(self)), module)
        return self

    def extend(self: Self, modules: Iterable[Any]) -> Self:
        """Put modules at the end.

        Parameters
        ----------
        modules : iterable of Module

        Returns
        -------
        Module
            This one.

        Raises
        ------
        TypeError
            If `modules` is not iterable.
        """
        if not isinstance(modules, Iterable):
            raise TypeError(
                f"{self._get_name()}.extend should be called with an iterable, but got {type(modules).__name__}"
            )
        for module in tuple(modules):
            self.append(module)
        return self

    def _insert(self, index: int, module: Any) -> None:
        n = len(self)
        if not -n <= index <= n:
            raise IndexError(f"Index out of range: {index}")
        if not isinstance(module, Module):
            raise TypeError(f"{typename(module)} is not a Module subclass")
        modules = list(self)
        modules.insert(index, module)
        self.add_module(str(n), modules[n])
        for k, item in enumerate(modules):
            self._modules[str(k)] = item

    def pop(self, key: int | slice) -> Any:
        """Remove the module at a place, or those of a slice, and return it."""
        found = self[key]  # type: ignore[index]
        del self[key]
        return found


class Sequential(_ModuleSequence):
    """Modules of which each gets the output of the one before.

    Parameters
    ----------
    *args : Module, or one OrderedDict of str to Module
        A dict names the modules; otherwise they are called ``"0"``, ``"1"`` and so on.

    Examples
    --------
    >>> import fastgrad as fg
    >>> model = fg.nn.Sequential(fg.nn.Sequential(), fg.nn.Sequential())
    >>> model(fg.ones(2))
    tensor([1., 1.])
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            self.extend(args)

    def forward(self, input: Any) -> Any:
        """The output of the last module."""
        for module in self._modules.values():
            input = module(input)
        return input

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(OrderedDict(list(self._modules.items())[index]))
        return self._modules[self._key(index)]

    def __add__(self, other: Any) -> Sequential:
        return Sequential(*self, *self._other(other))

    def __iadd__(self, other: Any) -> Sequential:
        return self.extend(self._other(other))

    def _other(self, other: Any) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError(
                f"add operator supports only objects of Sequential class, but {type(other)} is given."
            )
        return other

    def __mul__(self, other: int) -> Sequential:
        return Sequential(*(tuple(self) * self._factor(other)))

    __rmul__ = __mul__

    def __imul__(self, other: int) -> Sequential:
        return self.extend(tuple(self) * (self._factor(other) - 1))

    def _factor(self, other: Any) -> int:
        if not isinstance(other, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(other)}")
        if other <= 0:
            raise ValueError(f"Non-positive multiplication factor {other} for {type(self)}")
        return other

    def insert(self, index: int, module: Module) -> Sequential:
        """Put a module before the one at a place.

        Parameters
        ----------
        index : int
        module : Module

        Returns
        -------
        Sequential
            This one.

        Raises
        ------
        IndexError
            If there is no such place.
        TypeError
            If `module` is no module.
        """
        self._insert(index, module)
        return self


class ModuleList(_ModuleSequence):
    """Modules in a list; calling them is up to the module that holds the list.

    Parameters
    ----------
    modules : iterable of Module, optional

    Examples
    --------
    >>> from fastgrad import nn
    >>> layers = nn.ModuleList(nn.Sequential() for _ in range(3))
    >>> layers
    ModuleList(
      (0-2): 3 x Sequential()
    )
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def _key(self, index: Any) -> str:
        return str(_position(index, len(self)))

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self)[index])
        return self._modules[self._key(index)]

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList((*self, *other))

    def __iadd__(self, other: Iterable[Module]) -> ModuleList:
        return self.extend(other)

    def insert(self, index: int, module: Module) -> None:
        """Put a module before the one at a place.

        Parameters
        ----------
        index : int
        module : Module

        Raises
        ------
        IndexError
            If there is no such place.
        TypeError
            If `module` is no module.
        """
        self._insert(index, module)

    def __repr__(self) -> str:
        lines = []
        start = 0
        for text, group in groupby(map(repr, self)):
            n = len(list(group))
            lines.append(
                indented(f"({start}): {text}" if n == 1 else f"({start}-{start + n - 1}): {n} x {text}")
            )
            start += n
        return block(self._get_name(), lines)


class ModuleDict(Module):
    """Modules under keys, in the order in which the keys were first set.

    Parameters
    ----------
    modules : dict of str to Module, or iterable of pairs, optional

    Examples
    --------
    >>> from fastgrad import nn
    >>> heads = nn.ModuleDict({"a": nn.Sequential()})
    >>> heads["b"] = nn.Sequential()
    >>> list(heads)
    ['a', 'b']
    """

    _modules: dict[str, Any]

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: object) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Remove all modules."""
        self._modules.clear()

    def pop(self, key: str) -> Any:
        """Remove the module under a key and return it."""
        return self._modules.pop(key)

    def keys(self) -> KeysView[str]:
        """The keys."""
        return self._modules.keys()

    def items(self) -> ItemsView[str, Any]:
        """The keys with their modules."""
        return self._modules.items()

    def values(self) -> ValuesView[Any]:
        """The modules."""
        return self._modules.values()

    def update(self, modules: Any) -> None:
        """Set modules under their keys.

        Parameters
        ----------
        modules : dict of str to Module, ModuleDict, or iterable of pairs

        Raises
        ------
        TypeError, ValueError
            If it is none of these.
        """
        for key, module in _pairs("ModuleDict", modules):
            self[key] = module


# --- parameters ------------------------------------------------------------------------------------------------


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
        return getattr(self, str(_position(index, len(self))))

    def __setitem__(self, index: int, value: Any) -> None:
        setattr(self, str(_position(index, len(self))), _as_parameter(value))

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
        pairs = _pairs(
            "ParametersDict" if not isinstance(parameters, Iterable) else "ParameterDict", parameters
        )
        if isinstance(parameters, Mapping) and not isinstance(parameters, OrderedDict):
            pairs = iter(sorted(pairs))
        for key, value in pairs:
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
