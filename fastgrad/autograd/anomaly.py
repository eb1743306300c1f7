"""Watching the graph being made: node creation hooks, and anomaly mode, which is one of them."""

from __future__ import annotations

import threading
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from fastgrad.autograd.threads import carried
from fastgrad.native.build.loader import rt, runtime_set_object
from fastgrad.native.contracts.flags import NODE_HOOKS


class _State(threading.local):
    """What a thread has switched on."""

    def __init__(self) -> None:
        self.hooks: list[Callable[[Any], None]] = []
        self.enabled = False
        self.check_nan = True

    def now(self) -> tuple[Any, ...]:
        """All of it."""
        return list(self.hooks), self.enabled, self.check_nan

    def become(self, values: tuple[Any, ...]) -> None:
        """Take over what another thread has."""
        self.hooks, self.enabled, self.check_nan = values


state = _State()
carried(state.now, state.become)


def _refresh() -> None:
    wanted = bool(state.hooks) or state.enabled
    rt.set_mode(rt.get_mode() | NODE_HOOKS if wanted else rt.get_mode() & ~NODE_HOOKS)


def node_created(node: Any, *_: object) -> None:
    """A node was made in this thread while somebody wants to know."""
    if state.enabled:
        node.metadata["traceback_"] = traceback.format_stack()[:-1]
        task = rt.current_pass()
        if task:
            node.metadata["parent_"] = rt.task_node(task)
    for hook in tuple(state.hooks):
        hook(node)


runtime_set_object("node_created", node_created)


class node_creation_hook:  # noqa: N801 - the field's name
    """While this context is active, each new node of this thread's graphs is shown to a function.

    Parameters
    ----------
    hook : callable
        Called with each node when its op has been recorded; it may attach hooks to it. What it raises leaves the op.

    Examples
    --------
    >>> import fastgrad as fg
    >>> x = fg.ones(2, requires_grad=True)
    >>> with fg.autograd.graph.node_creation_hook(lambda node: print(node.name())):
    ...     y = (x * 2).sum()
    MulBackward0
    SumBackward0
    """

    def __init__(self, hook: Callable[[Any], None]) -> None:
        self.hook = hook

    def __enter__(self) -> node_creation_hook:
        state.hooks.append(self.hook)
        _refresh()
        return self

    def __exit__(self, *_: object) -> None:
        state.hooks.remove(self.hook)
        _refresh()


# --- anomaly mode ----------------------------------------------------------------------------------------------


class _Anomaly:
    """A change of anomaly mode that the end of a block takes back."""

    def _switch(self, mode: bool, check_nan: bool) -> None:
        self._before = (state.enabled, state.check_nan)
        state.enabled, state.check_nan = mode, check_nan
        _refresh()

    def __exit__(self, *_: object) -> None:
        state.enabled, state.check_nan = self._before
        _refresh()


class set_detect_anomaly(_Anomaly):  # noqa: N801 - the field's name
    """Switch anomaly mode on or off in this thread; as a context manager, until the end of the block.

    Parameters
    ----------
    mode : bool
    check_nan : bool
        Whether a pass raises at the first node that gives NaN.

    Notes
    -----
    Ops note where they were called; when a pass fails, a warning shows where the op at fault was called.
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._switch(mode, check_nan)

    def __enter__(self) -> None:
        pass


class detect_anomaly(_Anomaly):  # noqa: N801
    """While this context is active, passes raise at the first NaN and say which op made it and where it was called.

    Parameters
    ----------
    check_nan : bool
        Whether NaN raises; otherwise only the places of calls are noted.

    Raises
    ------
    RuntimeError
        In a pass, naming the node that returned NaN.

    Examples
    --------
    >>> import fastgrad as fg, warnings
    >>> warnings.simplefilter("ignore")
    >>> x = fg.zeros(2, requires_grad=True)
    >>> with fg.autograd.detect_anomaly():
    ...     (x.sqrt() * 0).sum().backward()
    Traceback (most recent call last):
    RuntimeError: Function 'SqrtBackward0' returned nan values in its 0th output.
    """

    def __init__(self, check_nan: bool = True) -> None:
        self.check_nan = check_nan
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should only be enabled for "
            "debugging.",
            stacklevel=2,
        )

    def __enter__(self) -> None:
        self._switch(True, self.check_nan)


def is_anomaly_enabled() -> bool:
    """Whether anomaly mode is on in this thread."""
    return state.enabled


def is_anomaly_check_nan_enabled() -> bool:
    """Whether anomaly mode would raise at NaN."""
    return state.check_nan


def check_nan(node: Any, values: tuple[Any, ...]) -> None:
    """Raise if what a node gave has NaN; for the node of a leaf, `values` is the gradient that came to it."""
    for k, value in enumerate(values):
        if value is None or not value.is_floating_point():
            continue
        if np.isnan(value.detach().cpu().numpy()).any():
            raise RuntimeError(f"Function '{node.name()}' returned nan values in its {k}th output.")


runtime_set_object("check_nan", check_nan)


def explain(node: Any, error: BaseException) -> None:
    """Warn where the op was called whose node was at work when a pass failed, and the ops behind it."""
    if node is None:
        return
    name = node.name()
    place = (node._metadata or {}).get("traceback_")
    if place is None:
        _tell(
            error,
            f"Error detected in {name}. No forward pass information available. Enable detect anomaly during forward "
            "pass for more information.",
        )
        return
    _tell(
        error, f"Error detected in {name}. Traceback of forward call that caused the error:\n{''.join(place)}"
    )
    parent = node._metadata.get("parent_")
    while parent is not None:
        place = (parent._metadata or {}).get("traceback_")
        text = (
            f"Traceback of forward call that induced the previous calculation:\n{''.join(place)}"
            if place
            else "No forward pass information available."
        )
        _tell(error, f"\n\nPrevious calculation was induced by {parent.name()}. {text}")
        parent = (parent._metadata or {}).get("parent_")


def _tell(error: BaseException, text: str) -> None:
    """Warn about an error that leaves a pass; where warnings are errors, it is the one that leaves, with a note."""
    try:
        warnings.warn(text, stacklevel=5)
    except UserWarning:
        error.add_note(text)
