"""Modules in sequences and under keys."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import ItemsView, Iterable, Iterator, KeysView, ValuesView
from itertools import groupby
from typing import Any, TypeVar

from fastgrad.nn.modules.module import Module, block, indented, typename
from fastgrad.nn.modules.parameter_containers import ParameterDict, ParameterList, pairs, position

__all__ = ["Container", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]

Self = TypeVar("Self", bound="_ModuleSequence")


class _ModuleSequence(Module):
    """What `Sequential` and `ModuleList` have in common."""

    _modules: dict[str, Any]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def _key(self, index: Any) -> str:
        return list(self._modules)[position(index, len(self))]

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
        return str(position(index, len(self)))

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


class Container(Module):
    """Deprecated: a module with submodules that are given by keywords.

    Parameters
    ----------
    **kwargs : Module
    """

    def __init__(self, **kwargs: Any) -> None:
        warnings.warn(
            "`nn.Container` is deprecated. All of its functionality is now implemented in `nn.Module`. Subclass that "
            "instead.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__()
        for name, module in kwargs.items():
            self.add_module(name, module)


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
        for key, module in pairs("ModuleDict", modules):
            self[key] = module
