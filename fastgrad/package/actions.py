"""What is done with the modules that a package needs: patterns that say it, and hooks that are told."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from fastgrad.package.glob_group import GlobGroup, GlobPattern
from fastgrad.utils.hooks import RemovableHandle

ActionHook = Callable[[Any, str], None]
"""Takes the exporter and the name of a module."""


class Action(Enum):
    """What is done with a module."""

    INTERN = "intern"
    EXTERN = "extern"
    MOCK = "mock"
    DENY = "deny"
    KEEP_MOCK = "keep mock"  # `_mock` of a package that is packaged again
    SKIP = "skip"  # what every importer provides


@dataclass
class Pattern:
    """Which modules an action is for."""

    group: GlobGroup
    action: Action
    allow_empty: bool
    was_matched: bool = False


class Actions:
    """The part of an exporter that holds patterns and hooks."""

    def __init__(self) -> None:
        self._patterns: list[Pattern] = []
        self._hooks: dict[Action, OrderedDict[int, ActionHook]] = {
            action: OrderedDict() for action in (Action.EXTERN, Action.INTERN, Action.MOCK)
        }

    def intern(self, include: GlobPattern, *, exclude: GlobPattern = (), allow_empty: bool = True) -> None:
        """Put modules that match, and are needed, into the package.

        Parameters
        ----------
        include, exclude : str or iterable of str
            Patterns as those of `GlobGroup`.
        allow_empty : bool
            If False, `close` raises `EmptyMatchError` when no needed module has matched.
        """
        self._add_pattern(Action.INTERN, include, exclude, allow_empty)

    def extern(self, include: GlobPattern, *, exclude: GlobPattern = (), allow_empty: bool = True) -> None:
        """Leave modules that match to the environment that imports the package; it lists them.

        Parameters
        ----------
        include, exclude : str or iterable of str
            Patterns as those of `GlobGroup`.
        allow_empty : bool
            If False, `close` raises `EmptyMatchError` when no needed module has matched.
        """
        self._add_pattern(Action.EXTERN, include, exclude, allow_empty)

    def mock(self, include: GlobPattern, *, exclude: GlobPattern = (), allow_empty: bool = True) -> None:
        """Put a module without content in the place of modules that match: every name in it raises when it is used.

        Parameters
        ----------
        include, exclude : str or iterable of str
            Patterns as those of `GlobGroup`.
        allow_empty : bool
            If False, `close` raises `EmptyMatchError` when no needed module has matched.
        """
        self._add_pattern(Action.MOCK, include, exclude, allow_empty)

    def deny(self, include: GlobPattern, *, exclude: GlobPattern = ()) -> None:
        """Refuse to write the package if a module that matches is needed.

        Parameters
        ----------
        include, exclude : str or iterable of str
            Patterns as those of `GlobGroup`.
        """
        self._add_pattern(Action.DENY, include, exclude, True)

    def _add_pattern(
        self, action: Action, include: GlobPattern, exclude: GlobPattern, allow_empty: bool
    ) -> None:
        self._patterns.append(Pattern(GlobGroup(include, exclude=exclude), action, allow_empty))

    def register_extern_hook(self, hook: ActionHook) -> RemovableHandle:
        """Let a function be called for each module that stays external.

        Parameters
        ----------
        hook : callable
            ``hook(exporter, module_name)``; what it returns is ignored. It is called while the package is written.

        Returns
        -------
        RemovableHandle
        """
        return self._register(Action.EXTERN, hook)

    def register_intern_hook(self, hook: ActionHook) -> RemovableHandle:
        """Let a function be called for each module that goes into the package, before it does, and for each pickle.

        Parameters
        ----------
        hook : callable
            ``hook(exporter, module_name)``; what it returns is ignored. The name of a pickle is
            ``<package.resource>``.

        Returns
        -------
        RemovableHandle
        """
        return self._register(Action.INTERN, hook)

    def register_mock_hook(self, hook: ActionHook) -> RemovableHandle:
        """Let a function be called for each module that is mocked, before its mock is written.

        Parameters
        ----------
        hook : callable
            ``hook(exporter, module_name)``; what it returns is ignored.

        Returns
        -------
        RemovableHandle
        """
        return self._register(Action.MOCK, hook)

    def _register(self, action: Action, hook: ActionHook) -> RemovableHandle:
        if not callable(hook):
            raise TypeError(
                f"register_{action.value}_hook(): expected a callable, but got {type(hook).__name__}"
            )
        handle = RemovableHandle(self._hooks[action])
        self._hooks[action][handle.id] = hook
        return handle

    def hooks_of(self, action: Action) -> list[ActionHook]:
        """The hooks for an action, as they are now."""
        return list(self._hooks[action].values()) if action in self._hooks else []
