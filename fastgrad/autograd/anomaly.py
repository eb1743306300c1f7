"""Watching the graph being made: node creation hooks, and anomaly mode, which is one of them."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fastgrad.functions.arguments import as_flag
from fastgrad.functions.data import values_of
from fastgrad.native.build.loader import ContextBase, rt, runtime_set_object
from fastgrad.native.contracts.flags import ANOMALY, ANOMALY_UNCHECKED, NODE_SETTING


def node_created(node: Any, *_: object) -> None:
    """A node was made in this thread while somebody wants to know."""
    if is_anomaly_enabled():
        node.metadata["traceback_"] = traceback.format_stack()[:-1]
        task = rt.current_pass()
        if task:
            node.metadata["parent_"] = rt.task_node(task)
    hooks = []
    chain = rt.setting(NODE_SETTING)
    while chain is not None:
        hook, chain = chain
        hooks.append(hook)
    for hook in reversed(hooks):
        hook(node)


runtime_set_object("node_created", node_created)


class node_creation_hook(ContextBase):  # noqa: N801 - the field's name
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
        self._setting = 1 + NODE_SETTING
        self._gives_self = 1
        self.hook = hook

    def _entering(self) -> Callable[[Any], None]:
        return self.hook


# --- anomaly mode ----------------------------------------------------------------------------------------------


def _switch(name: str, mode: bool, check_nan: bool, argument: str = "mode") -> tuple[int, int]:
    """The modes that are switched on, and those that are switched off; TypeError if one is no bool."""
    on = ANOMALY if as_flag(name, argument, mode) else 0
    on |= 0 if as_flag(name, "check_nan", check_nan) else ANOMALY_UNCHECKED
    return on, (ANOMALY | ANOMALY_UNCHECKED) & ~on


class set_detect_anomaly(ContextBase):  # noqa: N801 - the field's name
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

    def __new__(cls, mode: bool, check_nan: bool = True) -> set_detect_anomaly:
        """The context, whose change has been made."""
        return rt.apply_context(cls, *_switch("set_detect_anomaly", mode, check_nan))  # type: ignore[no-any-return]


class detect_anomaly(ContextBase):  # noqa: N801
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
        self._on, self._off = _switch("detect_anomaly", True, check_nan)
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should only be enabled for "
            "debugging.",
            stacklevel=2,
        )


def set_anomaly_enabled(enabled: bool, check_nan: bool = True) -> None:
    """Switch anomaly mode on or off in this thread, until something else does.

    Parameters
    ----------
    enabled : bool
    check_nan : bool
        Whether a pass raises at the first node that gives NaN.

    Raises
    ------
    TypeError
        If they are no bools.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.set_anomaly_enabled(True, check_nan=False)
    >>> fg.is_anomaly_enabled(), fg.is_anomaly_check_nan_enabled()
    (True, False)
    >>> fg.set_anomaly_enabled(False)
    """
    rt.apply_context(ContextBase, *_switch("set_anomaly_enabled", enabled, check_nan, "enabled"))


def is_anomaly_enabled() -> bool:
    """Whether anomaly mode is on in this thread."""
    return bool(rt.get_mode() & ANOMALY)


def is_anomaly_check_nan_enabled() -> bool:
    """Whether anomaly mode would raise at NaN."""
    return not rt.get_mode() & ANOMALY_UNCHECKED


def check_nan(node: Any, values: tuple[Any, ...]) -> None:
    """Raise if what a node gave has NaN; for the node of a leaf, `values` is the gradient that came to it."""
    for k, value in enumerate(values):
        if value is None or not value.dtype.inexact:
            continue
        if np.isnan(values_of(value)).any():
            raise RuntimeError(f"Function '{node.name()}' returned nan values in its {k}th output.")


runtime_set_object("check_nan", check_nan)


def explain_failure(node: Any, error: BaseException) -> None:
    """Warn where the op was called whose node was at work when a pass failed, and the ops behind it.

    Where warnings are errors, the text becomes a note of the error that is on its way.
    """
    if isinstance(error, Exception):
        for text in _explanations(node):
            try:
                warnings.warn(text, stacklevel=3)
            except Warning:
                error.add_note(text)


def _explanations(node: Any) -> Iterator[str]:
    name = node.name()
    place = (node._metadata or {}).get("traceback_")
    if place is None:
        yield (
            f"Error detected in {name}. No forward pass information available. Enable detect anomaly during forward "
            "pass for more information."
        )
        return
    yield f"Error detected in {name}. Traceback of forward call that caused the error:\n{''.join(place)}"
    parent = node._metadata.get("parent_")
    while parent is not None:
        place = (parent._metadata or {}).get("traceback_")
        text = (
            f"Traceback of forward call that induced the previous calculation:\n{''.join(place)}"
            if place
            else "No forward pass information available."
        )
        yield f"\n\nPrevious calculation was induced by {parent.name()}. {text}"
        parent = (parent._metadata or {}).get("parent_")


runtime_set_object("explain_failure", explain_failure)
