"""Parametrizations: tensors of modules that are computed, each time they are read, of others that are stored.

Note [Classes of parametrized modules]: an attribute that is computed is a property, and a property belongs to a
class. So a module with parametrizations has a class of its own, derived from the one that it had, which has a property
for each parametrized tensor. When a tensor is added or taken away, the module gets another such class, and copies of
it, which share the old one, keep theirs. With the last parametrization the module gets its first class back.
"""

from __future__ import annotations

import copyreg
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from typing import Any, TypeVar

from fastgrad.autograd.modes import no_grad
from fastgrad.functions.arguments import is_tensor, need_type
from fastgrad.nn.modules.container import ModuleDict, ModuleList
from fastgrad.nn.modules.module import Module
from fastgrad.nn.parameter import Parameter

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]

_M = TypeVar("_M", bound=Module)

_cache_enabled = 0
_cache: dict[Any, Any] = {}  # of lists of parametrizations to what they gave


@contextmanager
def cached() -> Iterator[None]:
    """Compute each parametrized tensor once while the context is entered, however often it is read.

    What was computed is forgotten at the end of the outermost such context. Nothing else ends its life: a change of
    what the tensor is computed of does not show before.

    Examples
    --------
    >>> import fastgrad as fg
    >>> from fastgrad.nn.utils import parametrize
    >>> layer = fg.nn.utils.parametrizations.weight_norm(fg.nn.Linear(2, 2))
    >>> layer.weight is layer.weight
    False
    >>> with parametrize.cached():
    ...     layer.weight is layer.weight
    True
    """
    global _cache_enabled
    _cache_enabled += 1
    try:
        yield
    finally:
        _cache_enabled -= 1
        if not _cache_enabled:
            _cache.clear()


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, one after the other, and what they compute it of.

    That is ``original``, a parameter or a buffer, or, if the ``right_inverse`` of the first parametrization gives
    several tensors, ``original0``, ``original1`` and so on. Made by `register_parametrization`.

    Parameters
    ----------
    modules : sequence of Module
    original : Tensor or Parameter
        What is parametrized. It becomes ``original``, with the value that the inverses give.
    unsafe : bool
        Do not check that the parametrizations keep sizes and dtype.

    Raises
    ------
    ValueError
        If there are no modules, or results are no tensors, or of other sizes or another dtype.
    """

    def __init__(self, modules: Sequence[Module], original: Any, unsafe: bool = False) -> None:
        if len(modules) == 0:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        with no_grad():
            before, new = original.detach(), original
            for module in reversed(list(self)):
                inverse = getattr(module, "right_inverse", None)
                if inverse is not None:
                    with suppress(NotImplementedError):
                        new = inverse(new)
        self.is_tensor = is_tensor(new)
        if not self.is_tensor and not isinstance(new, Sequence):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got "
                f"{type(new).__name__}"
            )
        self.ntensors = 1 if self.is_tensor else len(new)
        if self.is_tensor:
            self._store_one(original, new)
        else:
            self._store_several(original, new)
        if not unsafe:
            try:
                _need_alike(
                    "unparametrized", before, "parametrized", self(), "unless `unsafe` flag is enabled.\n"
                )
            except BaseException:
                if self.is_tensor:
                    with no_grad():
                        original.set_(before)
                raise

    def _store_one(self, original: Any, new: Any) -> None:
        for what in ("dtype", "device"):
            if getattr(original, what) != getattr(new, what):
                raise ValueError(
                    f"When `right_inverse` outputs one tensor, it may not change the {what}.\n"
                    f"original.{what}: {getattr(original, what)}\n"
                    f"right_inverse(original).{what}: {getattr(new, what)}"
                )
        with no_grad():
            original.set_(new)
        _register(self, "original", original)

    def _store_several(self, original: Any, new: Sequence[Any]) -> None:
        for k, one in enumerate(new):
            if not is_tensor(one):
                raise ValueError(
                    "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got element "
                    f"{k} of the sequence with type {type(one).__name__}."
                )
            if isinstance(original, Parameter):
                one = Parameter(one, original.requires_grad)
            one.requires_grad_(original.requires_grad)
            _register(self, f"original{k}", one)

    def _originals(self) -> list[Any]:
        names = ["original"] if self.is_tensor else [f"original{k}" for k in range(self.ntensors)]
        return [getattr(self, name) for name in names]

    def right_inverse(self, value: Any) -> None:
        """Store that of which a value is computed, by the inverses of the parametrizations, the last one first.

        Parameters
        ----------
        value : Tensor

        Raises
        ------
        RuntimeError
            If a parametrization has no ``right_inverse``.
        ValueError
            If what they give cannot take the place of what there is.
        """
        with no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                        f"parametrization {type(module).__name__} does not implement right_inverse."
                    )
                value = module.right_inverse(value)
            originals = self._originals()
            for original, new in zip(originals, self._checked(value, originals), strict=True):
                original.set_(new)

    def _checked(self, value: Any, originals: list[Any]) -> Sequence[Any]:
        """What the inverses gave, as a sequence of tensors that fit."""
        if self.is_tensor:
            if not is_tensor(value):
                raise ValueError(f"`right_inverse` should return a tensor. Got {type(value).__name__}")
            if value.dtype != originals[0].dtype:
                raise ValueError(
                    f"The tensor returned by `right_inverse` has dtype {value.dtype} while `original` has dtype "
                    f"{originals[0].dtype}"
                )
            return [value]
        if is_tensor(value) or not isinstance(value, Sequence):
            raise ValueError(
                f"'right_inverse' must return a sequence of tensors. Got {type(value).__name__}."
            )
        if len(value) != self.ntensors:
            raise ValueError(
                f"'right_inverse' must return a sequence of tensors of length {self.ntensors}. Got a sequence of "
                f"length {len(value)}."
            )
        for k, (original, new) in enumerate(zip(originals, value, strict=True)):
            if not is_tensor(new):
                raise ValueError(
                    f"'right_inverse' must return a sequence of tensors. Got element {k} of type {type(new).__name__}."
                )
            if original.dtype != new.dtype:
                raise ValueError(
                    f"Tensor {k} returned by `right_inverse` has dtype {new.dtype} while `original{k}` has dtype "
                    f"{original.dtype}"
                )
        return value

    def forward(self) -> Any:
        """The tensor."""
        first, *others = self
        out = first(*self._originals())
        for module in others:
            out = module(out)
        return out


def _need_alike(of: str, before: Any, to: str, after: Any, unless: str) -> None:
    """Refuse what a parametrization gave if it is no tensor, or of other sizes or another dtype."""
    if not is_tensor(after):
        raise ValueError(f"A parametrization must return a tensor. Got {type(after).__name__}.")
    for what in ("dtype", "shape"):
        if getattr(before, what) != getattr(after, what):
            raise ValueError(
                f"Registering a parametrization may not change the {what} of the tensor, {unless}"
                f"{of} {what}: {getattr(before, what)}\n{to} {what}: {getattr(after, what)}"
            )


def _register(module: Module, name: str, tensor: Any) -> None:
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


# --- classes with properties ------------------------------------------------------------------------------------


def _property(name: str) -> property:
    def read(self: Any) -> Any:
        parametrization = self.parametrizations[name]
        if not _cache_enabled:
            return parametrization()
        if parametrization not in _cache:
            _cache[parametrization] = parametrization()
        return _cache[parametrization]

    def write(self: Any, value: Any) -> None:
        self.parametrizations[name].right_inverse(value)

    return property(read, write)


def _deepcopied(self: Any, memo: dict[int, Any]) -> Any:
    """A copy without the way through `__getstate__`, which refuses."""
    if id(self) in memo:
        return memo[id(self)]
    out = memo[id(self)] = self.__new__(type(self))
    out.__dict__ = deepcopy(self.__dict__, memo)
    for slot in copyreg._slotnames(type(self)):  # type: ignore[attr-defined]
        if hasattr(self, slot):
            setattr(out, slot, deepcopy(getattr(self, slot), memo))
    return out


def _no_state(self: Any) -> Any:
    raise RuntimeError(
        "Serialization of parametrized modules is only supported through state_dict(): save that, and load it into a "
        "module with the same parametrizations."
    )


def _set_class(module: Module, names: Sequence[str]) -> None:
    """Give a module the class that computes these tensors; see Note [Classes of parametrized modules]."""
    base = type_before_parametrizations(module)
    if names:
        members: dict[str, Any] = {name: _property(name) for name in names}
        members["__getstate__"] = _no_state
        if not hasattr(base, "__deepcopy__"):
            members["__deepcopy__"] = _deepcopied
        base = type(f"Parametrized{base.__name__}", (base,), members)
    module.__class__ = base


# --- the functions ----------------------------------------------------------------------------------------------


def register_parametrization(
    module: _M, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> _M:
    """Let a tensor of a module be computed by another module: ``module.weight`` is ``parametrization(original)``.

    ``original`` is the parameter or buffer that there was, now ``module.parametrizations.weight.original``. If the
    parametrization has a method ``right_inverse``, ``original`` gets what that makes of its value, and the tensor can
    be assigned to; if that gives several tensors, the parametrization takes several. A further parametrization is
    applied to what those before give.

    Parameters
    ----------
    module : Module
        Gets another class, derived from its own; see `type_before_parametrizations`.
    tensor_name : str
        Of a parameter or a buffer.
    parametrization : Module
        Gets the mode (training or not) of `module`.
    unsafe : bool
        Do not check that the parametrization keeps sizes and dtype.

    Returns
    -------
    Module
        `module`.

    Raises
    ------
    ValueError
        If there is no such tensor, or sizes or dtype change.

    Examples
    --------
    >>> import fastgrad as fg
    >>> from fastgrad.nn.utils import parametrize
    >>> class Symmetric(fg.nn.Module):
    ...     def forward(self, x):
    ...         return x.triu() + x.triu(1).T
    ...
    ...     def right_inverse(self, x):
    ...         return x.triu()
    >>> layer = parametrize.register_parametrization(fg.nn.Linear(3, 3), "weight", Symmetric())
    >>> bool((layer.weight == layer.weight.T).all())
    True
    >>> layer.weight = fg.eye(3)
    >>> layer.parametrizations.weight.original.sum().item()
    3.0
    """
    need_type("register_parametrization", module, Module, "module")
    need_type("register_parametrization", parametrization, Module, "parametrization", 3)
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            _check_further(module, tensor_name, parametrization)
        present: Any = module.parametrizations[tensor_name]
        present.append(parametrization)
        present.unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        original = getattr(module, tensor_name)
        if original is None:
            raise ValueError(
                f"register_parametrization(): '{tensor_name}' of {type(module).__name__} is None; only tensors can be "
                "parametrized"
            )
        parametrizations = ParametrizationList([parametrization], original, unsafe=unsafe)
        delattr(module, tensor_name)
        names = [*module.parametrizations] if is_parametrized(module) else []
        _set_class(module, [*names, tensor_name])
        if not names:
            module.parametrizations = ModuleDict()
        module.parametrizations[tensor_name] = parametrizations
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name "
            f"'{tensor_name}'"
        )
    return module


def _check_further(module: Module, name: str, parametrization: Any) -> None:
    """Refuse a further parametrization that does not keep sizes and dtype, in either direction."""
    before = getattr(module, name)
    after = parametrization(before)
    _need_alike(
        f"module.{name}",
        before,
        f"parametrization(module.{name})",
        after,
        "unless the `unsafe` flag is enabled.\n",
    )
    if not hasattr(parametrization, "right_inverse"):
        return
    try:
        back = parametrization.right_inverse(after)
    except NotImplementedError:
        return
    if not is_tensor(back):
        raise ValueError(f"parametrization.right_inverse must return a tensor. Got: {type(back).__name__}")
    for what in ("dtype", "shape"):
        if getattr(back, what) != getattr(before, what):
            raise ValueError(
                f"The tensor returned by parametrization.right_inverse must have the same {what} as module.{name}, "
                f"unless the `unsafe` flag is enabled.\nmodule.{name}.{what}: {getattr(before, what)}\n"
                f"returned {what}: {getattr(back, what)}"
            )


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether a module has parametrizations, or one of the tensor with a name.

    Parameters
    ----------
    module : Module
    tensor_name : str, optional

    Returns
    -------
    bool
    """
    found = getattr(module, "parametrizations", None)
    if not isinstance(found, ModuleDict):
        return False
    return len(found) > 0 if tensor_name is None else tensor_name in found


def remove_parametrizations(module: _M, tensor_name: str, leave_parametrized: bool = True) -> _M:
    """Let a tensor of a module be stored again.

    Parameters
    ----------
    module : Module
    tensor_name : str
    leave_parametrized : bool
        Keep the value that was computed last; else the tensor is ``original``, as it is.

    Returns
    -------
    Module
        `module`; with its first class, if this was the last parametrization.

    Raises
    ------
    ValueError
        If the tensor is not parametrized, or computed of several tensors and not to be left as it is.
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    parametrizations: Any = module.parametrizations[tensor_name]
    if parametrizations.is_tensor:
        original = parametrizations.original
        if leave_parametrized:
            with no_grad():
                original.set_(getattr(module, tensor_name))
    elif leave_parametrized:
        value = getattr(module, tensor_name)
        original = Parameter(value) if value.requires_grad else value
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms of a "
            "sequence of tensors."
        )
    _set_class(module, [name for name in module.parametrizations if name != tensor_name])
    del module.parametrizations[tensor_name]
    if not len(module.parametrizations):
        del module.parametrizations
    _register(module, tensor_name, original)
    return module


def type_before_parametrizations(module: Module) -> type:
    """The class that a module had before it was parametrized.

    Parameters
    ----------
    module : Module

    Returns
    -------
    type
    """
    kind = type(module)
    return kind.__bases__[0] if kind.__dict__.get("__getstate__") is _no_state else kind


def transfer_parametrizations_and_params(
    from_module: Module, to_module: _M, tensor_name: str | None = None
) -> _M:
    """Let a module have the parametrizations of another one, and what they compute the tensors of; both share it.

    Parameters
    ----------
    from_module : Module
        Nothing happens if it is not parametrized.
    to_module : Module
        Tensors that it lacks are made.
    tensor_name : str, optional
        Of one tensor; all by default.

    Returns
    -------
    Module
        `to_module`.
    """
    if not is_parametrized(from_module):
        return to_module
    sources: Any = from_module.parametrizations
    for name in [*sources] if tensor_name is None else [tensor_name]:
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name)))
        source = sources[name]
        for parametrization in source:
            register_parametrization(to_module, name, parametrization)
        target: Any = to_module.parametrizations[name]
        names = ["original"] if source.is_tensor else [f"original{k}" for k in range(source.ntensors)]
        for each in names:
            setattr(target, each, getattr(source, each))
    return to_module
