"""The base class of optimizers: groups of parameters, state, state dicts, and hooks (docs/optimizer_hooks.md)."""

from __future__ import annotations

import functools
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from copy import deepcopy
from itertools import chain
from operator import itemgetter
from threading import get_ident
from typing import Any

from fastgrad.autograd.hooks import RemovableHandle
from fastgrad.autograd.modes import enable_grad
from fastgrad.dtypes import float32, float64
from fastgrad.functions.arguments import need_type
from fastgrad.native.build.loader import TensorBase, rt
from fastgrad.native.host.hook_calls import call_plain
from fastgrad.tensor.history import fill_with_zeros

_global_optimizer_pre_hooks: dict[int, Callable[..., Any]] = OrderedDict()
_global_optimizer_post_hooks: dict[int, Callable[..., Any]] = OrderedDict()

# Attributes of an optimizer that hold its hooks, and that neither copies nor pickles take along.
_HOOKS = tuple(
    f"_optimizer_{kind}_{when}_hooks"
    for kind in ("step", "state_dict", "load_state_dict")
    for when in ("pre", "post")
)


class _Required:
    """Stands in `defaults` for an option that every group must give."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()


def _register(
    hooks: dict[int, Callable[..., Any]], hook: Callable[..., Any], prepend: bool = False
) -> RemovableHandle:
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)  # type: ignore[attr-defined]
    return handle


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(optimizer, args, kwargs)`` before every step of every optimizer, before the optimizer's own hooks.

    Parameters
    ----------
    hook : callable
        May return None or ``(args, kwargs)`` for the step, `args` beginning with the optimizer.

    Returns
    -------
    RemovableHandle

    Examples
    --------
    >>> import fastgrad as fg
    >>> from fastgrad.optim.optimizer import register_optimizer_step_pre_hook
    >>> handle = register_optimizer_step_pre_hook(lambda optimizer, args, kwargs: print("before"))
    >>> fg.optim.SGD([fg.ones(1, requires_grad=True)]).step()
    before
    >>> handle.remove()
    """
    return _register(_global_optimizer_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(optimizer, args, kwargs)`` after every step of every optimizer, after the optimizer's own hooks.

    Parameters
    ----------
    hook : callable
        What it returns is ignored.

    Returns
    -------
    RemovableHandle

    Examples
    --------
    >>> import fastgrad as fg
    >>> from fastgrad.optim.optimizer import register_optimizer_step_post_hook
    >>> handle = register_optimizer_step_post_hook(lambda optimizer, args, kwargs: print("after"))
    >>> fg.optim.SGD([fg.ones(1, requires_grad=True)]).step()
    after
    >>> handle.remove()
    """
    return _register(_global_optimizer_post_hooks, hook)


class Optimizer:
    """Base class of all optimizers.

    A subclass calls ``super().__init__(params, defaults)`` and defines ``step(closure=None)``.

    Parameters
    ----------
    params : iterable of Tensor, of (str, Tensor), or of dict
        Parameters, by name if wanted, or groups of them: a dict has an entry ``"params"`` and options that hold for
        its group alone.
    defaults : dict
        Options of groups that do not give their own.

    Attributes
    ----------
    param_groups : list of dict
    state : dict
        What an optimizer keeps of each parameter, a dict by the parameter.
    defaults : dict

    Raises
    ------
    TypeError
        If a parameter is no tensor, or the parameters have no order.
    ValueError
        If there are no parameters, one is no leaf or stands in two groups, or a group lacks a required option.

    Examples
    --------
    >>> import fastgrad as fg
    >>> class Halve(fg.optim.Optimizer):
    ...     def __init__(self, params):
    ...         super().__init__(params, {})
    ...
    ...     @fg.no_grad()
    ...     def step(self, closure=None):
    ...         for group in self.param_groups:
    ...             for p in group["params"]:
    ...                 p.mul_(0.5)
    >>> w = fg.ones(2, requires_grad=True)
    >>> Halve([w]).step()
    >>> w
    tensor([0.5000, 0.5000], requires_grad=True)
    """

    _optimizer_step_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _optimizer_step_post_hooks: OrderedDict[int, Callable[..., Any]]
    _optimizer_state_dict_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _optimizer_state_dict_post_hooks: OrderedDict[int, Callable[..., Any]]
    _optimizer_load_state_dict_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _optimizer_load_state_dict_post_hooks: OrderedDict[int, Callable[..., Any]]

    def __init__(self, params: Any, defaults: dict[str, Any]) -> None:
        self.defaults = need_type(type(self).__name__, defaults, dict, "defaults", 2)
        self._prepare()
        if isinstance(params, TensorBase):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, but got "
                f"{type(params).__name__}; put it into a list"
            )
        self.state: defaultdict[Any, Any] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def _prepare(self) -> None:
        """What every optimizer has that did not come with its state: places for hooks, and a step that calls them."""
        for name in _HOOKS:
            if name not in self.__dict__:
                setattr(self, name, OrderedDict())
        self._patch_step_function()

    def _patch_step_function(self) -> None:
        """Let the step call the hooks; optimizers call this that do without the initialiser."""
        self._stepping: set[int] = set()
        kind: Any = type(self)
        if not getattr(kind.step, "hooked", False):
            kind.step = self.profile_hook_step(kind.step)
            kind.step.hooked = True

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._prepare()

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for i, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {i}")
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return "\n".join([*lines, ")"])

    # --- steps -------------------------------------------------------------------------------------------------

    @staticmethod
    def profile_hook_step(func: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap the ``step`` of a class so that it calls the hooks around it.

        Of the steps of one optimizer that call each other (a subclass calls ``super().step()``) the outermost does.
        """

        @functools.wraps(func)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            self, thread = args[0], get_ident()
            if thread in self._stepping:
                return func(*args, **kwargs)
            self._stepping.add(thread)
            self._opt_called = True  # schedules warn if they step first
            try:
                for hook in (
                    *_global_optimizer_pre_hooks.values(), *self._optimizer_step_pre_hooks.values(),
                ):  # fmt: skip
                    result = call_plain(hook, self, args, kwargs)
                    if result is not None:
                        args, kwargs = _new_arguments(func, result)
                out = func(*args, **kwargs)
                for hook in (
                    *self._optimizer_step_post_hooks.values(), *_global_optimizer_post_hooks.values(),
                ):  # fmt: skip
                    call_plain(hook, self, args, kwargs)
                return out
            finally:
                self._stepping.discard(thread)

        return wrapper

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters once.

        Parameters
        ----------
        closure : callable, optional
            Computes the loss again; what it returns is returned.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define step()")

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters.

        Parameters
        ----------
        set_to_none : bool
            Set them to None; else fill them with zeros.
        """
        for group in self.param_groups:
            for p in group["params"]:
                if set_to_none:
                    rt.set_grad(p, None)
                elif p.grad is not None:
                    fill_with_zeros(p.grad)

    def _loss(self, closure: Callable[[], Any] | None) -> Any:
        """What the closure of a step gives, with gradients on."""
        if closure is None:
            return None
        with enable_grad():
            return closure()

    def _gather(self, group: dict[str, Any], names: Sequence[str], absent: Sequence[str] = ()) -> list[Any]:
        """The tensors that `names` says for every parameter of a group that has a gradient, one after the other.

        The first two are the parameter and its gradient, the others, two at least, stand in its state, but for those
        that are `absent`. Where there is no state yet, `_init_state` makes it.
        """
        tensors: list[Any] = []
        get_grad, states = rt.get_grad, self.state
        kept = itemgetter(*[name for name in names[2:] if name not in absent])
        try:
            for p in group["params"]:
                grad = get_grad(p)
                if grad is not None:
                    state = states[p]
                    if not isinstance(state, dict):
                        kind = type(state).__name__
                        raise TypeError(f"the state of a parameter must be a dict, but is a {kind}")
                    if not state:
                        self._init_state(group, p, state)
                    tensors += (p, grad)
                    tensors += kept(state)
        except KeyError as error:
            missing = f"{error.args[0]}: missing in the options or the state of a parameter of {type(self).__name__}"
            raise KeyError(missing) from None
        return tensors

    def _init_state(self, group: dict[str, Any], p: Any, state: dict[str, Any]) -> None:
        """Fill the state of a parameter at its first step."""
        raise NotImplementedError(f"{type(self).__name__} does not define _init_state()")

    # --- groups ------------------------------------------------------------------------------------------------

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of parameters.

        Parameters
        ----------
        param_group : dict
            ``"params"``: a tensor or an iterable of tensors or of (name, tensor); the group's own options.

        Raises
        ------
        TypeError, ValueError
            As the constructor does.
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        _split_names(param_group)
        params = param_group["params"]
        for p in params:
            if not isinstance(p, TensorBase):
                raise TypeError(
                    f"optimizer can only optimize Tensors, but one of the params is {type(p).__name__}"
                )
            if not (self.defaults.get("differentiable") or p.is_leaf or p.retains_grad):
                raise ValueError("can't optimize a non-leaf Tensor: give its leaf, or detach() it first")
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(
                    f"parameter group didn't specify a value of required optimization parameter {name}"
                )
            param_group.setdefault(name, default)
        if len(params) != len(set(params)):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; each step updates these several "
                "times",
                stacklevel=3,
            )
        for group in self.param_groups:
            if ("param_names" in param_group) != ("param_names" in group):
                which = "with names" if "param_names" in param_group else "without names"
                raise ValueError(
                    f"all optimizer param groups should be with/without names. cannot add param group {which} to "
                    "the optimizer"
                )
            if not set(group["params"]).isdisjoint(params):
                raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(param_group)

    # --- state dicts -------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """The state as a dict of numbers, containers and tensors, the parameters replaced by their numbers.

        Returns
        -------
        dict
            ``"state"``: the state of each parameter by its number; ``"param_groups"``: the groups' options, with the
            numbers of their parameters.

        Examples
        --------
        >>> import fastgrad as fg
        >>> optimizer = fg.optim.SGD([fg.ones(1, requires_grad=True)], lr=0.5)
        >>> optimizer.state_dict()["param_groups"][0]["params"]
        [0]
        """
        for hook in tuple(self._optimizer_state_dict_pre_hooks.values()):
            hook(self)
        numbers: dict[int, int] = {}
        packed = []
        start = 0
        for group in self.param_groups:
            for i, p in enumerate(group["params"], start):
                numbers.setdefault(id(p), i)
            start += len(group["params"])
            options = {key: value for key, value in group.items() if key != "params"}
            packed.append({**options, "params": [numbers[id(p)] for p in group["params"]]})
        state = {numbers[id(key)] if isinstance(key, TensorBase) else key: v for key, v in self.state.items()}
        result: Any = {"state": state, "param_groups": packed}
        for hook in tuple(self._optimizer_state_dict_post_hooks.values()):
            answer = hook(self, result)
            if answer is not None:
                result = answer
        return result  # type: ignore[no-any-return]

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a state that `state_dict` gave; options of the groups are replaced, parameters stay.

        Parameters
        ----------
        state_dict : dict
            Its groups must have as many parameters as those of this optimizer. State of a parameter is converted to
            the parameter's dtype and device; where nothing is to convert it is taken without a copy.

        Raises
        ------
        ValueError
            If number or sizes of the groups differ.
        """
        state_dict = dict(need_type("load_state_dict", state_dict, Mapping, "state_dict"))
        for hook in tuple(self._optimizer_load_state_dict_pre_hooks.values()):
            answer = hook(self, state_dict)
            if answer is not None:
                state_dict = answer
        for key in ("param_groups", "state"):
            if key not in state_dict:
                raise KeyError(f"{key}: the state dict of an optimizer must have this key")
        need_type("load_state_dict", state_dict["state"], Mapping, "state_dict['state']")
        groups, saved = self.param_groups, deepcopy(state_dict["param_groups"])
        if len(groups) != len(saved):
            raise ValueError(
                f"loaded state dict has a different number of parameter groups: {len(saved)}, but the optimizer "
                f"has {len(groups)}"
            )
        for i, (ours, theirs) in enumerate(zip(groups, saved, strict=True)):
            _need_params(need_type("load_state_dict", theirs, dict, f"state_dict['param_groups'][{i}]"))
            if len(ours["params"]) != len(theirs["params"]):
                raise ValueError(
                    "loaded state dict contains a parameter group that doesn't match the size of optimizer's group: "
                    f"group {i} has {len(theirs['params'])} parameters there and {len(ours['params'])} here"
                )
        numbered = chain.from_iterable(group["params"] for group in saved)
        params = dict(zip(numbered, chain.from_iterable(g["params"] for g in groups), strict=False))
        state: defaultdict[Any, Any] = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in params:
                state[params[key]] = _converted(params[key], value)
            else:
                state[key] = value
        for ours, theirs in zip(groups, saved, strict=True):
            theirs["params"] = ours["params"]
            if "param_names" in ours:
                theirs.setdefault("param_names", ours["param_names"])
        self.__setstate__({"state": state, "param_groups": saved})
        for hook in tuple(self._optimizer_load_state_dict_post_hooks.values()):
            hook(self)

    # --- hooks -------------------------------------------------------------------------------------------------

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` before each step.

        Parameters
        ----------
        hook : callable
            May return None or ``(args, kwargs)`` for the step, `args` beginning with the optimizer.

        Returns
        -------
        RemovableHandle
        """
        return _register(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` after each step; what it returns is ignored.

        Returns
        -------
        RemovableHandle
        """
        return _register(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(optimizer)`` before `state_dict` looks at the state.

        Parameters
        ----------
        hook : callable
        prepend : bool
            Before the hooks that are there, instead of after them.

        Returns
        -------
        RemovableHandle
        """
        return _register(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` on what `state_dict` is about to return; it may return another one.

        Parameters
        ----------
        hook : callable
        prepend : bool
            Before the hooks that are there, instead of after them.

        Returns
        -------
        RemovableHandle
        """
        return _register(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` before a state is loaded; it may return another one.

        Parameters
        ----------
        hook : callable
            Gets a shallow copy of the caller's dict.
        prepend : bool
            Before the hooks that are there, instead of after them.

        Returns
        -------
        RemovableHandle
        """
        return _register(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(optimizer)`` after a state was loaded.

        Parameters
        ----------
        hook : callable
        prepend : bool
            Before the hooks that are there, instead of after them.

        Returns
        -------
        RemovableHandle
        """
        return _register(self._optimizer_load_state_dict_post_hooks, hook, prepend)


def _new_arguments(step: Callable[..., Any], result: Any) -> tuple[Any, Any]:
    """What a pre-hook returned, if it is fit to be a step's arguments."""
    if not (isinstance(result, tuple) and len(result) == 2):
        raise RuntimeError(f"{step} must return None or a tuple of (new_args, new_kwargs), but got {result}.")
    return result


def _need_params(group: dict[str, Any]) -> None:
    if "params" not in group:
        raise KeyError("params: a parameter group must have its parameters under this key")


def _split_names(group: dict[str, Any]) -> None:
    """Make the parameters of a new group a list of tensors, and keep names that came with them."""
    _need_params(group)
    params = group["params"]
    if isinstance(params, set):
        raise TypeError(
            "optimizer parameters need to be organized in ordered collections, but the ordering of tensors in sets "
            "will change between runs. Please use a list instead."
        )
    entries = [params] if isinstance(params, TensorBase) else list(params)
    pairs = [entry for entry in entries if isinstance(entry, tuple)]
    if pairs and len(pairs) != len(entries):
        raise ValueError("all optimizer params should be with/without names. Some param names are missing")
    for pair in pairs:
        if len(pair) != 2:
            raise TypeError(
                f"a parameter with a name must be a pair (str, Tensor), but got {len(pair)} items"
            )
    group["params"] = [param for _, param in pairs] if pairs else entries
    if pairs:
        group["param_names"] = [name for name, _ in pairs]


def _converted(param: Any, value: Any, key: Hashable = None) -> Any:
    """A value of a loaded state with its tensors in the dtype and on the device of the parameter they belong to."""
    if isinstance(value, TensorBase):
        if key == "step":  # counted in floats, whatever the parameter's dtype
            dtype = value.dtype if value.dtype in (float32, float64) else float32
        else:
            dtype = param.dtype if param.is_floating_point() else value.dtype
        return value.to(device=param.device, dtype=dtype)
    if isinstance(value, dict):
        return {k: _converted(param, v, k) for k, v in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        return type(value)(_converted(param, v) for v in value)  # type: ignore[call-arg]
    return value
