"""`Module`: parameters, buffers and submodules under names, and a call that runs hooks around `forward`."""

from __future__ import annotations

import inspect
import sys
from collections import OrderedDict
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeVar

from fastgrad.native.build.loader import ModuleBase, TensorBase, rt
from fastgrad.nn.modules import module_hooks as hooks_
from fastgrad.nn.modules.call import install
from fastgrad.nn.modules.convert import ConvertMethods
from fastgrad.nn.modules.module_hooks import (
    CALL_STORES,
    HOOK_STORES,
    HookMethods,
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from fastgrad.nn.modules.state import StateMethods
from fastgrad.nn.modules.traverse import TraverseMethods
from fastgrad.nn.parameter import Buffer, Parameter

__all__ = [
    "Module",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]

Self = TypeVar("Self", bound="Module")


class _Kind:
    """What a module has under names: parameters, buffers or submodules.

    Parameters
    ----------
    name : str
        What messages call one.
    store : str
        The attribute of a module with the dict of them.
    accepts : callable
        Whether an object may be one.
    needed : str
        What messages say that it has to be.
    """

    def __init__(self, name: str, store: str, accepts: Callable[[Any], bool], needed: str) -> None:
        self.name = name
        self.store = store
        self.hooks = f"_global_{name}_registration_hooks"
        self.accepts = accepts
        self.needed = needed

    def check_name(self, module: Module, name: Any) -> None:
        """Refuse what cannot be a name."""
        if self.store not in module.__dict__:
            raise AttributeError(f"cannot assign {self.name} before Module.__init__() call")
        if not isinstance(name, str):
            raise TypeError(f"{self.name} name should be a string. Got {typename(name)}")
        if "." in name:
            raise KeyError(f'{self.name} name can\'t contain "."' + self._got(name))
        if name == "":
            raise KeyError(f'{self.name} name can\'t be empty string ""')
        if name not in module.__dict__[self.store] and hasattr(module, name):
            raise KeyError(f"attribute '{name}' already exists")

    def _got(self, name: str) -> str:
        return f", got: {name}" if self.store == "_modules" else ""

    def put(self, module: Module, name: str, value: Any) -> None:
        """Store what registration hooks make of a value."""
        if value is not None or self.store != "_parameters":
            for hook in tuple(getattr(hooks_, self.hooks).values()):
                new = hook(module, name, value)
                if new is not None and not self.accepts(new):
                    raise TypeError(
                        f"{self.name} registration hook returned a '{typename(new)}' object for '{name}' "
                        f"({self.needed} or None required)"
                    )
                value = value if new is None else new
        module.__dict__[self.store][name] = value


def typename(value: Any) -> str:
    """What messages call the type of a value: for tensors with the dtype."""
    if isinstance(value, TensorBase):
        return str(value.type())  # type: ignore[attr-defined]
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


class _CallSignature:
    """What `inspect.signature` says of a module: its call is compiled code and takes what ``forward`` takes.

    Of a class it says nothing, so that the arguments of ``__init__`` are read.
    """

    def __get__(self, module: Any, kind: type) -> Any:
        if module is None:
            raise AttributeError("__signature__")
        import inspect

        return inspect.signature(lambda *args, **kwargs: None)


class Module(HookMethods, StateMethods, ConvertMethods, TraverseMethods, ModuleBase):
    """The base of all layers and models.

    A subclass makes its parameters and submodules in ``__init__``, after ``super().__init__()``, as attributes, and
    defines ``forward``. Calling the module calls ``forward`` with the module's hooks around it.

    Attributes
    ----------
    training : bool
        Whether the module is in training mode; set by `train` and `eval`.

    Raises
    ------
    TypeError
        If it gets arguments.

    Examples
    --------
    >>> import fastgrad as fg
    >>> from fastgrad import nn
    >>> class Scale(nn.Module):
    ...     def __init__(self, n):
    ...         super().__init__()
    ...         self.weight = nn.Parameter(fg.ones(n) * 2)
    ...
    ...     def forward(self, x):
    ...         return x * self.weight
    >>> model = nn.Sequential(Scale(3), Scale(3))
    >>> model(fg.ones(3))
    tensor([4., 4., 4.], grad_fn=<MulBackward0>)
    >>> [name for name, _ in model.named_parameters()]
    ['0.weight', '1.weight']
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        read_fast(cls)

    __signature__ = _CallSignature()
    dump_patches = False
    call_super_init = False
    training: bool

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init and (args or kwargs):
            what = (
                f"got an unexpected keyword argument '{next(iter(kwargs))}'"
                if kwargs
                else f"takes 1 positional argument but {len(args) + 1} were given"
            )
            raise TypeError(f"{type(self).__name__}.__init__() {what}")
        own = self.__dict__
        own["training"] = True
        own["_parameters"] = {}
        own["_buffers"] = {}
        own["_non_persistent_buffers_set"] = set()
        own["_is_full_backward_hook"] = None
        for name in HOOK_STORES:
            own[name] = OrderedDict()
        own["_modules"] = {}
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def _forward_unimplemented(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            f'Module [{type(self).__name__}] is missing the required "forward" function'
        )

    forward: Callable[..., Any] = _forward_unimplemented

    # --- registering --------------------------------------------------------------------------------------------

    def register_parameter(self, name: str, param: Any) -> None:
        """Register a parameter.

        Parameters
        ----------
        name : str
            The attribute under which it is found.
        param : Parameter or None
            None keeps the name for a parameter that there is not.

        Raises
        ------
        TypeError, KeyError
            If `name` is no name, or taken, or `param` no parameter.
        ValueError
            If `param` is not a leaf.
        AttributeError
            If ``Module.__init__`` was not called.
        """
        _PARAMETER.check_name(self, name)
        if param is not None:
            if not _PARAMETER.accepts(param):
                raise TypeError(
                    f"cannot assign '{typename(param)}' object to parameter '{name}' ({_PARAMETER.needed} or None "
                    "required)"
                )
            if param.grad_fn is not None:
                raise ValueError(
                    f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created "
                    f"explicitly. To express '{name}' as a function of another Tensor, compute the value in the "
                    "forward() method."
                )
        _PARAMETER.put(self, name, param)

    def register_buffer(self, name: str, tensor: Any, persistent: bool = True) -> None:
        """Register a buffer: a tensor that belongs to the module and is no parameter.

        Parameters
        ----------
        name : str
            The attribute under which it is found.
        tensor : Tensor or None
        persistent : bool
            Whether it is part of `state_dict`.

        Raises
        ------
        TypeError, KeyError
            If `name` is no name, or taken, or `tensor` no tensor.
        AttributeError
            If ``Module.__init__`` was not called.

        Examples
        --------
        >>> import fastgrad as fg
        >>> m = fg.nn.Module()
        >>> m.register_buffer("mean", fg.zeros(2))
        >>> m.mean
        tensor([0., 0.])
        """
        _BUFFER.check_name(self, name)
        if tensor is not None and not _BUFFER.accepts(tensor):
            raise TypeError(
                f"cannot assign '{typename(tensor)}' object to buffer '{name}' (fastgrad Tensor or None required)"
            )
        _BUFFER.put(self, name, tensor)
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Register a submodule.

        Parameters
        ----------
        name : str
            The attribute under which it is found.
        module : Module or None

        Raises
        ------
        TypeError, KeyError
            If `name` is no name, or taken, or `module` no module.
        AttributeError
            If ``Module.__init__`` was not called.
        """
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{typename(module)} is not a Module subclass")
        _MODULE.check_name(self, name)
        _MODULE.put(self, name, module)

    def register_module(self, name: str, module: Module | None) -> None:
        """Another name of `add_module`."""
        self.add_module(name, module)

    # --- attributes ---------------------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        for store in ("_parameters", "_buffers", "_modules"):
            if store in own:
                found = own[store]
                if name in found:
                    return found[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        if isinstance(value, TensorBase) and isinstance(value, Parameter):
            if "_parameters" not in own:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            self._forget(name, _PARAMETER)
            self.register_parameter(name, value)
        elif name in own.get("_parameters", ()):
            if value is not None:
                raise TypeError(
                    f"cannot assign '{typename(value)}' as parameter '{name}' ({_PARAMETER.needed} or None expected)"
                )
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            if "_modules" not in own:
                raise AttributeError("cannot assign module before Module.__init__() call")
            self._forget(name, _MODULE)
            _MODULE.put(self, name, value)
        elif name in own.get("_modules", ()):
            if value is not None:
                raise TypeError(
                    f"cannot assign '{typename(value)}' as child module '{name}' ({_MODULE.needed} or None expected)"
                )
            _MODULE.put(self, name, value)
        elif (isinstance(value, TensorBase) and isinstance(value, Buffer)) or name in own.get("_buffers", ()):
            self._set_buffer(name, value)
        else:
            super().__setattr__(name, value)
            if name in CALL_STORES and value:
                own["_has_hooks"] = True

    def _set_buffer(self, name: str, value: Any) -> None:
        if value is not None and not _BUFFER.accepts(value):
            raise TypeError(
                f"cannot assign '{typename(value)}' as buffer '{name}' (fastgrad.nn.Buffer, {_BUFFER.needed} or None "
                "expected)"
            )
        if isinstance(value, Buffer):
            persistent: bool = value.persistent  # type: ignore[attr-defined]
        else:
            persistent = name not in self._non_persistent_buffers_set
        register = self.register_buffer
        own_method = getattr(register, "__func__", None) is Module.register_buffer
        if own_method or "persistent" in inspect.signature(register).parameters:
            register(name, value, persistent)
        elif persistent:
            register(name, value)
        else:
            raise RuntimeError(
                "Registering a non-persistent buffer on a Module subclass that implements register_buffer() without "
                "the persistent argument is not allowed."
            )

    def _forget(self, name: str, kind: _Kind) -> None:
        """A name is to stand for something of this kind: remove what it stood for of any other."""
        own = self.__dict__
        own.pop(name, None)
        for store in {"_parameters", "_buffers", "_modules"} - {kind.store}:
            own[store].pop(name, None)
        own["_non_persistent_buffers_set"].discard(name)

    def __delattr__(self, name: str) -> None:
        for store in (self._parameters, self._buffers, self._modules):
            if name in store:
                del store[name]
                self._non_persistent_buffers_set.discard(name)
                return
        super().__delattr__(name)

    def __dir__(self) -> list[str]:
        names = {*dir(type(self)), *self.__dict__, *self._parameters, *self._modules, *self._buffers}
        return sorted(name for name in names if not name[:1].isdigit())

    # --- copies -------------------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state.pop("_has_hooks", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        own = self.__dict__
        for name in HOOK_STORES:
            if name not in own:  # pickled when there were no such hooks yet
                own[name] = OrderedDict()
        own.setdefault("_non_persistent_buffers_set", set())
        own.setdefault("_is_full_backward_hook", None)
        own["_has_hooks"] = True  # if not so, the next call finds out

    def __copy__(self: Self) -> Self:
        """A module with the same parameters, buffers and submodules, but hooks of its own."""
        out = type(self).__new__(type(self))
        out.__setstate__(self.__getstate__())
        for name in HOOK_STORES:
            out.__dict__[name] = OrderedDict(out.__dict__[name])
        return out

    # --- what it prints as --------------------------------------------------------------------------------------

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """What `repr` shows of the module itself; for subclasses to define."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        if len(lines) == 1 and not self._modules:
            return f"{self._get_name()}({extra})"
        lines += [f"({name}): " + indented(repr(module)) for name, module in self._modules.items()]
        return block(self._get_name(), lines)

    def _repr_html_(self) -> str | None:
        """What notebooks show: a tree; None, for the text, if a subclass of a program has its own."""
        from fastgrad.markup import prints_itself  # nobody else waits for them
        from fastgrad.nn.modules.trees import tree_of

        return None if prints_itself(type(self)) else tree_of(self)


def read_fast(kind: type[Module]) -> None:
    """Let compiled code read attributes, if that is what `Module.__getattr__` would do."""
    for name, owner in (("__getattr__", Module), ("__getattribute__", object)):
        first = next(base for base in kind.__mro__ if name in base.__dict__)
        if first is not owner:
            return
    rt.read_fast(kind)


def indented(text: str) -> str:
    """A text whose lines but the first stand two columns further to the right."""
    first, *rest = text.split("\n")
    return "\n".join([first, *(f"  {line}" if line.strip() else "" for line in rest)])


def block(name: str, lines: list[str]) -> str:
    """A name with lines in parentheses behind it."""
    return name + "(" + ("\n  " + "\n  ".join(lines) + "\n" if lines else "") + ")"


_PARAMETER = _Kind(
    "parameter", "_parameters", lambda value: isinstance(value, Parameter), "fastgrad.nn.Parameter",
)  # fmt: skip
_BUFFER = _Kind(
    "buffer", "_buffers", lambda value: isinstance(value, TensorBase), "fastgrad.Tensor",
)  # fmt: skip
_MODULE = _Kind(
    "module", "_modules", lambda value: isinstance(value, Module), "fastgrad.nn.Module",
)  # fmt: skip

install(Module.__getattr__)
read_fast(Module)


class _WithGlobalHooks(ModuleType):
    """The class of the module that has the global hooks of ``nn.modules.module_hooks``, to read and to set."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_global_"):
            return getattr(hooks_, name)
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_global_") and hasattr(hooks_, name):
            hooks_.assign(name, value)
        else:
            super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        if name.startswith("_global_") and hasattr(
            hooks_, name
        ):  # what was set for a while, such as by a test
            hooks_.put_back(name)
        else:
            super().__delattr__(name)


sys.modules[__name__].__class__ = _WithGlobalHooks
