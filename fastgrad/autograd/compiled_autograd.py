"""Compiled passes: `compiled`, and what hooks that are written as classes say to them.

What a plan is says Note [Plans of passes] in ``native.backward.pass_plans``; what users see of it,
docs/compiled_autograd.md.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any, NamedTuple

from fastgrad.autograd.function import BackwardFunction, Function
from fastgrad.autograd.function_hook import PostAccumulateGradHook, TupleHook
from fastgrad.autograd.modes import Mode
from fastgrad.dtypes import dtype
from fastgrad.functions.arguments import as_flag
from fastgrad.native.build.loader import TensorBase, rt, runtime_get, runtime_set, runtime_set_object
from fastgrad.native.contracts.flags import COMPILED_PASSES, EAGER_PASSES
from fastgrad.native.contracts.pass_plans import REASONS
from fastgrad.native.host.tables import OPS
from fastgrad.places import device

MOST_COLLECTED = 4096
"""Different things that hooks collect and that are told apart at one time; numbers are never given twice."""


class PlanFacts(NamedTuple):
    """What `compiled.explain` says of a plan.

    Parameters
    ----------
    nodes : int
        Of the graph.
    runs : int
        Of these, those that the pass comes to.
    hits : int
        How often a later pass followed the plan.
    reason : str
        Why it was made.
    """

    nodes: int
    runs: int
    hits: int
    reason: str


class compiled(Mode):  # noqa: N801
    """Passes inside follow plans: a graph is looked at once, and all that are built alike run as it did.

    A context manager and a decorator, for the calling thread. What a pass does is what it does without; see
    docs/compiled_autograd.md.

    Parameters
    ----------
    enabled : bool
        Whether passes follow plans; with False they do not, also where `compiled.enable` was called.
    dynamic : bool, optional
        Plans are for all sizes, so that True and None say the same.

    Attributes
    ----------
    captures, hits : int
        How many plans were made in the process since the context was, and how many passes followed one that was there.

    Raises
    ------
    TypeError
        If `enabled` is no bool.
    ValueError
        For ``dynamic=False``.

    Examples
    --------
    >>> import fastgrad as fg
    >>> def gradient(n):
    ...     x = fg.ones(n, requires_grad=True)
    ...     (x * x).sum().backward()
    ...     return x.grad
    >>> with fg.autograd.compiled() as passes:
    ...     gradient(2), gradient(3)
    (tensor([2., 2.]), tensor([2., 2., 2.]))
    >>> passes.captures, passes.hits
    (1, 1)
    """

    _start: tuple[int, int]

    def __new__(cls, enabled: Any = True, *, dynamic: bool | None = None) -> Any:
        """The context, or the decorated function."""
        if dynamic is not None and not as_flag("compiled", "dynamic", dynamic):
            raise ValueError("compiled(): plans of passes are for all sizes; dynamic=False is not supported")
        self = super().__new__(cls)
        function = enabled if callable(enabled) and not isinstance(enabled, TensorBase) else None
        on = function is not None or as_flag("compiled", "enabled", enabled)
        self._on, self._off = (COMPILED_PASSES, EAGER_PASSES) if on else (EAGER_PASSES, COMPILED_PASSES)
        self._gives_self = 1
        self._start = _counts()
        return self if function is None else self(function)

    def __init__(self, enabled: Any = True, *, dynamic: bool | None = None) -> None:
        pass

    def _again(self) -> Mode:
        return type(self)(bool(self._on & COMPILED_PASSES))  # type: ignore[no-any-return]

    @property
    def captures(self) -> int:
        """How many plans were made in the process since the context was."""
        return _counts()[0] - self._start[0]

    @property
    def hits(self) -> int:
        """How many passes of the process followed a plan that was there, since the context was made."""
        return _counts()[1] - self._start[1]

    @staticmethod
    def enable() -> None:
        """Let passes of all threads follow plans, from now on, outside of ``compiled(False)``."""
        runtime_set("compile_passes", 1)

    @staticmethod
    def disable() -> None:
        """Take `enable` back."""
        runtime_set("compile_passes", 0)

    @staticmethod
    def is_enabled() -> bool:
        """Whether a pass that the calling thread begins now follows a plan."""
        mode = rt.get_mode()
        return bool(mode & COMPILED_PASSES or (runtime_get("compile_passes") and not mode & EAGER_PASSES))

    @staticmethod
    def reset() -> None:
        """Forget all plans; a pass that follows one keeps it to its end."""
        rt.forget_passes()

    @staticmethod
    def explain() -> tuple[PlanFacts, ...]:
        """What plans there are, and why each was made.

        Examples
        --------
        >>> import fastgrad as fg
        >>> fg.autograd.compiled.reset()
        >>> x = fg.ones(2, requires_grad=True)
        >>> with fg.autograd.compiled():
        ...     (x * x).sum().backward()
        >>> fg.autograd.compiled.explain()
        (PlanFacts(nodes=3, runs=3, hits=0, reason='no graph began like this one'),)
        """
        found: list[PlanFacts] = []
        while facts := rt.plan_facts(len(found)):
            nodes, runs, hits, reason, place, op, *_ = facts
            where = (
                f" (node {place} of the walk from the roots, {OPS[op].node})" if reason and place >= 0 else ""
            )
            found.append(PlanFacts(nodes, runs, hits, REASONS[reason] + where))
        return tuple(found)


def _counts() -> tuple[int, int]:
    return runtime_get("pass_captures"), runtime_get("pass_hits")


# --- what hooks say ---------------------------------------------------------------------------------------------


class CompiledNodeArgs:
    """What ``compiled_args(args)`` of a hook gets: `collect` adds something to the key of the pass.

    Attributes
    ----------
    lifted : list of Tensor
        The tensors that were collected, each once.
    """

    def __init__(self) -> None:
        self.lifted: list[Any] = []
        self._places: dict[int, int] = {}
        self._key: list[Any] = []
        self._is_open = True

    def collect(self, value: Any) -> None:
        """Add a value to the key.

        Parameters
        ----------
        value : Tensor, int, float, bool, str, bytes, None, dtype, device, callable, or list, tuple or dict of such
            Of a tensor the key holds dtype, device, number of dimensions, whether it requires grad, and which of the
            tensors collected so far it is; `SwapSavedVariables` gives it back. Of a float, as of a callable, it holds
            that there is one. Anything else is part of the key as it is.

        Raises
        ------
        TypeError
            For anything else.
        RuntimeError
            When the key is complete already.
        """
        if not self._is_open:
            raise RuntimeError(
                "collect() was called when the key was complete: it belongs into compiled_args"
            )
        self._key.append(self._described(value))

    def _described(self, value: Any) -> Any:
        if isinstance(value, TensorBase):
            return self._tensor(value)
        if value is None or isinstance(value, (bool, dtype, device)):
            return type(value).__name__, str(value)
        if isinstance(value, int):
            return "int", int.__index__(value)
        if isinstance(value, float):
            return ("float",)
        if isinstance(value, str):
            return "str", str.__str__(value)
        if isinstance(value, bytes):
            return "bytes", bytes(memoryview(value))
        if isinstance(value, (list, tuple)):
            return "sequence", *[self._described(item) for item in value]
        if isinstance(value, dict):
            return "dict", *[(self._described(k), self._described(v)) for k, v in dict.items(value)]
        if callable(value):
            return ("callable",)
        raise TypeError(
            f"collect() takes tensors, numbers, strings, dtypes, devices, callables and containers of these, but got "
            f"{type(value).__name__}"
        )

    def _tensor(self, tensor: Any) -> tuple[Any, ...]:
        place = self._places.get(id(tensor))
        if place is None:
            place = self._places[id(tensor)] = len(self.lifted)
            self.lifted.append(tensor)
        return "tensor", place, str(tensor.dtype), str(tensor.device), tensor.ndim, bool(tensor.requires_grad)

    def close(self) -> tuple[Any, ...]:
        """The key, which is complete now."""
        self._is_open = False
        return tuple(self._key)


class SwapSavedVariables:
    """What ``apply_with_saved(tensor, saved)`` of a hook gets: the pass's variables for what was collected.

    Parameters
    ----------
    lifted : sequence of Tensor
        The tensors of the pass.
    """

    def __init__(self, lifted: Iterable[Any]) -> None:
        self._variables = {id(tensor): tensor for tensor in lifted}
        self._open: list[int] = []

    def before(self, value: Any) -> Any:
        """The pass's variable for a tensor, or a list, tuple or dict of such; anything else is returned as it is.

        Raises
        ------
        RuntimeError
            For a tensor that ``compiled_args`` did not collect in this pass.
        """
        if isinstance(value, TensorBase):
            if id(value) not in self._variables:
                raise RuntimeError("before() got a tensor that compiled_args did not collect for this pass")
            self._open.append(id(value))
            return self._variables[id(value)]
        if isinstance(value, (list, tuple)):
            return (
                [self.before(item) for item in value]
                if isinstance(value, list)
                else tuple(map(self.before, value))
            )
        if isinstance(value, dict):
            return {k: self.before(v) for k, v in dict.items(value)}
        return value

    def after(self, value: Any) -> None:
        """What `before` got is the hook's own again.

        Raises
        ------
        RuntimeError
            For a tensor that `before` did not get.
        """
        if isinstance(value, TensorBase):
            if id(value) not in self._open:
                raise RuntimeError("after() got a tensor that before() did not get")
            self._open.remove(id(value))
        elif isinstance(value, (list, tuple)):
            for item in value:
                self.after(item)
        elif isinstance(value, dict):
            for item in dict.values(value):
                self.after(item)

    def close(self, hook: Any) -> None:
        """Raise if the hook left something swapped."""
        if self._open:
            raise RuntimeError(f"apply_with_saved of {type(hook).__name__} called before() without after()")


class _Collected(NamedTuple):
    """What hooks collected for a pass.

    Parameters
    ----------
    hooks : dict of int to object
        Those that were asked, by their ids.
    lifted : list of Tensor
    """

    hooks: dict[int, Any]
    lifted: list[Any]


_NUMBERS: dict[Any, int] = {}  # of what was collected
_given = iter(range(1, 1 << 56))


def _number_of(key: Any) -> int:
    """The number that stands for what hooks collected, in the keys of passes."""
    if len(_NUMBERS) >= MOST_COLLECTED and key not in _NUMBERS:
        _NUMBERS.clear()
    found = _NUMBERS.get(key)
    return _NUMBERS.setdefault(key, next(_given)) if found is None else found


def _ask(owner: Any, args: CompiledNodeArgs) -> None:
    """Let a hook, or the node of a custom function, collect what belongs to the key."""
    if isinstance(owner, BackwardFunction):
        function: Any = owner._forward_cls  # type: ignore[attr-defined]
        if function._compiled_autograd_key is not Function._compiled_autograd_key:
            args.collect(function._compiled_autograd_key(owner))
        return
    hook = owner.hook if isinstance(owner, TupleHook) else owner
    if isinstance(hook, PostAccumulateGradHook):
        method = inspect.getattr_static(type(hook), "apply_with_saved")
        if method is PostAccumulateGradHook.__dict__["apply_with_saved"]:
            hook.apply_with_saved(None, None)  # raises
    args.collect(len(args.lifted))
    hook.compiled_args(args)


def _collect_args(owners: list[Any]) -> tuple[int, _Collected]:
    args = CompiledNodeArgs()
    for owner in owners:
        _ask(owner, args)
    number = _number_of(args.close())
    return number, _Collected({id(owner): owner for owner in owners}, args.lifted)


def _apply_with_saved(hook: Any, tensor: Any, collected: _Collected) -> Any:
    """Call a post-accumulate hook in a compiled pass; one that came in its course has collected nothing for it."""
    if id(hook) not in collected.hooks:
        return hook(tensor)
    saved = SwapSavedVariables(collected.lifted)
    result = hook.apply_with_saved(tensor, saved)
    saved.close(hook)
    return result


runtime_set_object("collect_args", _collect_args)
runtime_set_object("apply_with_saved", _apply_with_saved)
runtime_set_object("class_hook_type", TupleHook)
runtime_set_object("post_accumulate_class", PostAccumulateGradHook)
