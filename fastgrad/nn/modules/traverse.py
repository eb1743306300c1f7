"""What modules do with all that they hold: iterators, look-up by dotted names, modes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from fastgrad.functions.arguments import need_type
from fastgrad.nn.parameter import Parameter
from fastgrad.tensor.history import fill_with_zeros

Self = TypeVar("Self", bound="TraverseMethods")


class TraverseMethods:
    """The methods of `Module` that go through its submodules, parameters and buffers."""

    training: bool
    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    _modules: dict[str, Any]

    # --- iterators ----------------------------------------------------------------------------------------------

    def named_modules(
        self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """Iterate over this module and all within it, each with its dotted name.

        Parameters
        ----------
        memo : set of Module, optional
            Those that are left out.
        prefix : str
            The name of this module.
        remove_duplicate : bool
            Show a module that is reached twice once.

        Yields
        ------
        (str, Module)

        Examples
        --------
        >>> from fastgrad import nn
        >>> [name for name, _ in nn.Sequential(nn.Sequential()).named_modules()]
        ['', '0']
        """
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, joined(prefix, name), remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Any]:
        """Iterate over this module and all within it."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_children(self) -> Iterator[tuple[str, Any]]:
        """The submodules with their names, each once."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator[Any]:
        """The submodules, each once."""
        for _, module in self.named_children():
            yield module

    def _named_members(
        self,
        get_members_fn: Callable[[Any], Any],
        prefix: str = "",
        recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:
        """What `get_members_fn` gives of each module, with dotted names; None is left out."""
        modules: Any = [(prefix, self)]
        if recurse:
            modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
        seen = set()
        for module_name, module in modules:
            for name, member in get_members_fn(module):
                if member is None or id(member) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(member))
                yield joined(module_name, name), member

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """The parameters with their dotted names.

        Parameters
        ----------
        prefix : str
            Put before the names.
        recurse : bool
            Show those of the modules within as well.
        remove_duplicate : bool
            Show a parameter that is reached twice once.

        Yields
        ------
        (str, Parameter)
        """
        yield from self._named_members(
            lambda module: module._parameters.items(), prefix, recurse, remove_duplicate
        )

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """The parameters of this module and, with `recurse`, of all within it."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """The buffers with their dotted names; the parameters are those of `named_parameters`.

        Yields
        ------
        (str, Tensor)
        """
        yield from self._named_members(
            lambda module: module._buffers.items(), prefix, recurse, remove_duplicate
        )

    def buffers(self, recurse: bool = True) -> Iterator[Any]:
        """The buffers of this module and, with `recurse`, of all within it."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    # --- by dotted names ----------------------------------------------------------------------------------------

    def get_submodule(self, target: str) -> Any:
        """The module with a dotted name; this one for the empty name.

        Parameters
        ----------
        target : str

        Returns
        -------
        Module

        Raises
        ------
        AttributeError
            If there is no such module.
        """
        found: Any = self
        for name in need_type("get_submodule", target, str, "target").split(".") if target != "" else ():
            found = attribute(found, name)
            if not isinstance(found, TraverseMethods):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return found

    def set_submodule(self, target: str, module: Any, strict: bool = False) -> None:
        """Put a module in the place with a dotted name.

        Parameters
        ----------
        target : str
        module : Module
        strict : bool
            Only replace, do not add.

        Raises
        ------
        ValueError
            If `target` is empty or `module` is no module.
        AttributeError
            If there is no such place, or something else than a module in it.
        """
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, TraverseMethods):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, name = _parted("set_submodule", target)
        parent = self.get_submodule(path)
        if (strict or hasattr(parent, name)) and not isinstance(attribute(parent, name), TraverseMethods):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Any:
        """The parameter with a dotted name.

        Parameters
        ----------
        target : str

        Returns
        -------
        Parameter

        Raises
        ------
        AttributeError
            If there is no such parameter.
        """
        path, name = _parted("get_parameter", target)
        found = attribute(self.get_submodule(path), name)
        if not isinstance(found, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return found

    def get_buffer(self, target: str) -> Any:
        """The buffer with a dotted name.

        Parameters
        ----------
        target : str

        Returns
        -------
        Tensor

        Raises
        ------
        AttributeError
            If there is no such buffer.
        """
        path, name = _parted("get_buffer", target)
        module = self.get_submodule(path)
        found = attribute(module, name)
        if name not in module._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return found

    # --- all at once --------------------------------------------------------------------------------------------

    def apply(self: Self, fn: Callable[[Any], Any]) -> Self:
        """Call a function with every module, those within before those around them.

        Parameters
        ----------
        fn : callable

        Returns
        -------
        Module
            This one.

        Examples
        --------
        >>> from fastgrad import nn
        >>> model = nn.Sequential(nn.Sequential()).apply(lambda m: print(len(m)))
        0
        1
        """
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def train(self: Self, mode: bool = True) -> Self:
        """Set ``training`` of this module and all within it.

        Parameters
        ----------
        mode : bool

        Returns
        -------
        Module
            This one.

        Raises
        ------
        ValueError
            If `mode` is no bool.
        """
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self: Self) -> Self:
        """Set ``training`` of this module and all within it to false."""
        return self.train(False)

    def requires_grad_(self: Self, requires_grad: bool = True) -> Self:
        """Say whether gradients with regard to the parameters are wanted."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of the parameters.

        Parameters
        ----------
        set_to_none : bool
            Set them to None instead of to zero.
        """
        for parameter in self.parameters():
            if set_to_none:
                parameter.grad = None
            elif parameter.grad is not None:
                fill_with_zeros(parameter.grad)


def joined(prefix: str, name: str) -> str:
    """A dotted name."""
    return f"{prefix}.{name}" if prefix else name


def _parted(method: str, target: str) -> tuple[str, str]:
    """A dotted name as that of a module and the last part."""
    path, _, name = need_type(method, target, str, "target").rpartition(".")
    return path, name


def attribute(module: Any, name: str) -> Any:
    """An attribute of a module; the error has PyTorch's words."""
    if not hasattr(module, name):
        raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
    return getattr(module, name)
