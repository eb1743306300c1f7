"""`Library` and the functions that define ops from text and register what belongs to them, as PyTorch has them."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from fastgrad.library.custom import CustomOpDef, need_positional_tensors
from fastgrad.library.names import need_namespace, qualified
from fastgrad.library.schemas import parsed
from fastgrad.ops import namespaces

_KEYS: dict[str, str | None] = {
    "": None, "CompositeExplicitAutograd": None, "CompositeImplicitAutograd": None, "default": None,
    "CPU": "cpu", "CUDA": "cuda", "cpu": "cpu", "cuda": "cuda",
}  # fmt: skip
"""Dispatch keys and types by the devices that they stand for."""
_definers: set[str] = set()


class Library:
    """Ops of a namespace, defined by their schemas.

    Parameters
    ----------
    ns : str
        The namespace.
    kind : {"DEF", "FRAGMENT", "IMPL"}
        ``"DEF"`` is the one library that defines a namespace, ``"FRAGMENT"`` adds to it, ``"IMPL"`` only implements.
    dispatch_key : str
        The one for `impl`, if it is given none.

    Raises
    ------
    ValueError
        For another kind or a reserved namespace.
    RuntimeError
        For a second ``"DEF"`` of a namespace.

    Notes
    -----
    The ops live as long as the library.

    Examples
    --------
    >>> import fastgrad as fg
    >>> library = fg.library.Library("examples", "DEF")
    >>> library.define("double(Tensor x) -> Tensor")
    'double'
    >>> library.impl("double", lambda x: x * 2, "CPU")
    >>> fg.ops.examples.double(fg.ones(2))
    tensor([2., 2.])
    """

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("DEF", "FRAGMENT", "IMPL"):
            raise ValueError(f"Unsupported kind: {kind}")
        self.ns, self.kind, self.dispatch_key = need_namespace("Library", ns), kind, dispatch_key
        if kind == "DEF":
            if ns in _definers:
                raise RuntimeError(
                    f"Only a single library of kind 'DEF' can be used to register the namespace {ns}; please put "
                    "all of "
                    "your definitions in it, or use the kind 'FRAGMENT'"
                )
            _definers.add(ns)
        self._defined: dict[str, CustomOpDef] = {}
        self._forget = weakref.finalize(self, _forget, self._defined, ns if kind == "DEF" else None)
        self._forget.atexit = False

    def __repr__(self) -> str:
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})>"

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Define an op by its schema, ``"name(Tensor x, int n=1) -> Tensor"``.

        Returns
        -------
        str
            Its name.

        Raises
        ------
        RuntimeError
            For what is no schema, and for a name that the namespace has already.
        """
        self._need_alive()
        if alias_analysis not in ("", "FROM_SCHEMA", "CONSERVATIVE"):
            raise RuntimeError(f"Invalid alias_analysis type {alias_analysis}")
        if self.kind == "IMPL":
            raise RuntimeError("define(): a library of kind 'IMPL' defines nothing; use 'DEF' or 'FRAGMENT'")
        made = parsed(self.ns, schema)
        if "::" not in made.name:
            raise RuntimeError(f"expected the name of an op before '(' in {schema!r}")
        qualified("define", made.name)
        need_positional_tensors(made)
        if namespaces.find(made.name) is not None:
            raise RuntimeError(
                f"Tried to register an operator ({made}) with the same name and overload name multiple times."
            )
        op = CustomOpDef(made, opaque=False)
        self._defined[made.name] = op
        namespaces.register(made.name, op)
        return op._name

    def impl(
        self, op_name: Any, fn: Callable[..., Any], dispatch_key: str = "", *, with_keyset: bool = False
    ) -> None:
        """Implement an op for a dispatch key: ``"CPU"``, ``"CUDA"``, or ``"CompositeExplicitAutograd"`` for both.

        Raises
        ------
        TypeError
            If `fn` cannot be called.
        RuntimeError
            If there is no such op, or it has an implementation for that key.
        NotImplementedError
            For other keys.
        """
        self._need_alive()
        if not callable(fn):
            raise TypeError(f"Input function is required to be a callable but found type {type(fn)}")
        if with_keyset:
            raise NotImplementedError("impl(): there are no sets of dispatch keys in fastgrad")
        name = op_name._name if isinstance(op_name, CustomOpDef) else str(op_name).rpartition("::")[2]
        op = _op("impl", f"{self.ns}::{name}")
        key = dispatch_key or self.dispatch_key
        if key in ("Meta", "Autograd", "AutogradCPU", "AutogradCUDA"):
            way = "register_fake" if key == "Meta" else "register_autograd"
            raise NotImplementedError(
                f"impl(): use fastgrad.library.{way} in place of the dispatch key {key!r}"
            )
        if key not in _KEYS:
            raise NotImplementedError(
                f"impl(): there is no dispatch key {key!r}; those that are: {', '.join(k for k in _KEYS if k)}"
            )
        if _KEYS[key] in op._kernels:
            raise RuntimeError(
                f"This is not allowed since there's already a kernel registered from python overriding {name}'s "
                "behavior "
                f"for {key or 'every'} dispatch key and {self.ns} namespace."
            )
        op.register_kernel(_KEYS[key], fn)

    def fallback(self, fn: Any, dispatch_key: str = "", *, with_keyset: bool = False) -> NoReturn:
        """Refuse: there is no dispatcher to fall back from."""
        raise NotImplementedError("fallback(): an op of fastgrad runs its own implementation, or raises")

    def _need_alive(self) -> None:
        if not self._forget.alive:
            raise AssertionError("Library object has been destroyed")

    def _destroy(self) -> None:
        """Forget the ops that the library defined."""
        self._forget()


def _forget(defined: dict[str, CustomOpDef], namespace: str | None) -> None:
    """Take ops that a library defined, and its namespace, out of the tables."""
    for name, op in defined.items():
        namespaces.remove(name, op)
    defined.clear()
    _definers.discard(namespace or "")


_kept: dict[str, Library] = {}
"""The libraries of ops that `define` made without one."""


def _op(caller: str, op: Any) -> CustomOpDef:
    """The op that an argument stands for."""
    if isinstance(op, CustomOpDef):
        return op
    if not isinstance(op, str):
        raise ValueError(f"{caller}({op!r}): got unexpected type for op: {type(op)}; pass the op or its name")
    qualified(caller, op)
    found = namespaces.find(op)
    if not isinstance(found, CustomOpDef):
        raise RuntimeError(
            f"{caller}(): there is no op {op!r} of custom_op or define; define it first, or import what defines it"
        )
    return found


def define(qualname: str, schema: str, *, lib: Library | None = None, tags: Any = ()) -> None:
    """Define an op by its name and its schema, which begins with ``(``; it stays, unless `lib` keeps it.

    Raises
    ------
    ValueError
        For a name that is not ``namespace::name``.
    RuntimeError
        For what is no schema, and for a name that is taken.
    """
    if not isinstance(qualname, str):
        raise ValueError(
            f"define(qualname, schema): expected qualname to be instance of str, got {type(qualname)}"
        )
    namespace, name = qualified("define", qualname)
    if lib is None:
        lib = _kept.setdefault(namespace, Library(namespace, "FRAGMENT"))
    if not str(schema).lstrip().startswith("("):
        raise ValueError(
            f'define(qualname, schema, ...): expected schema to look like e.g. "(Tensor x) -> Tensor" but got '
            f'"{schema}"'
        )
    lib.define(name + schema, tags=tags)


def impl(
    qualname: Any,
    types: str | Sequence[str],
    func: Callable[..., Any] | None = None,
    *,
    lib: Library | None = None,
) -> Any:
    """Implement an op for ``"cpu"``, ``"cuda"`` or ``"default"``; without `func` the result is a decorator.

    Raises
    ------
    RuntimeError
        If there is no such op, or it has such an implementation.
    ValueError
        For other types.
    """
    kinds = (types,) if isinstance(types, str) else tuple(types)

    def register(function: Any) -> Any:
        op = _op("impl", qualname)
        unknown = [k for k in kinds if k not in _KEYS]
        if unknown:
            raise ValueError(f"impl(): {unknown[0]!r} is no type; those that are: cpu, cuda, default")
        for kind in kinds:
            Library.impl(lib or Library(op._namespace, "IMPL"), op, function, kind)
        return function

    return register if func is None else register(func)


def register_kernel(
    op: Any,
    device_types: str | Sequence[str] | None,
    func: Callable[..., Any] | None = None,
    /,
    *,
    lib: Library | None = None,
) -> Any:
    """Register an implementation of an op: see `CustomOpDef.register_kernel`."""
    return _op("register_kernel", op).register_kernel(device_types, func)


def register_fake(
    op: Any,
    func: Callable[..., Any] | None = None,
    /,
    *,
    lib: Library | None = None,
    _stacklevel: int = 1,
    allow_override: bool = False,
) -> Any:
    """Register what makes results of the right sizes and dtypes: see `CustomOpDef.register_fake`.

    Once a library of ops that were compiled for PyTorch has been refused, what it may have defined need not exist: the
    function then waits until somebody defines the op.
    """
    if func is None:
        return lambda function: register_fake(op, function, lib=lib)
    if isinstance(op, str) and callable(func) and namespaces.find(op) is None:
        qualified("register_fake", op)
        if namespaces.fake_waits(op, func):
            return func
    return _op("register_fake", op).register_fake(func)


def register_autograd(
    op: Any,
    backward: Callable[..., Any],
    /,
    *,
    setup_context: Callable[..., Any] | None = None,
    lib: Library | None = None,
) -> None:
    """Register a derivative of an op: see `CustomOpDef.register_autograd`."""
    _op("register_autograd", op).register_autograd(backward, setup_context=setup_context)


def register_vmap(op: Any, func: Callable[..., Any] | None = None, /, *, lib: Library | None = None) -> Any:
    """Register a rule for `vmap`, which is kept: see `CustomOpDef.register_vmap`."""
    return _op("register_vmap", op).register_vmap(func)


def register_autocast(op: Any, device_type: str, cast_inputs: Any, /, *, lib: Library | None = None) -> None:
    """Refuse: see `CustomOpDef.register_autocast`."""
    _op("register_autocast", op).register_autocast(device_type, cast_inputs)


def get_ctx() -> NoReturn:
    """Refuse: sizes that are not known before an op runs are no matter here."""
    raise NotImplementedError(
        "get_ctx(): there are no symbolic sizes in fastgrad; a function for register_fake computes with those it gets"
    )


def triton_op(name: str, fn: Any = None, /, *, mutates_args: Any = (), schema: str | None = None) -> NoReturn:
    """Refuse: there is no Triton here."""
    raise NotImplementedError(
        f"triton_op({name!r}): fastgrad runs no kernels of Triton; fastgrad.library.elementwise makes kernels for "
        "GPUs of "
        "formulas"
    )


def wrap_triton(triton_kernel: Any, /) -> NoReturn:
    """Refuse: there is no Triton here."""
    raise NotImplementedError(
        "wrap_triton(): fastgrad runs no kernels of Triton; fastgrad.library.elementwise makes kernels for GPUs of "
        "formulas"
    )
