"""Forward hooks and pre-hooks of modules as segments of the graph, on tapes: see `segments`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastgrad.autograd.segments import Segment, record
from fastgrad.native.build.loader import TensorBase, runtime_set_object
from fastgrad.native.host.call_arguments import parts


class ForwardHookSegment(Segment):
    """The call of a forward hook: where it returns None and leaves hooks at the output, that comes of it."""

    def replaced(self, args: tuple[Any, ...]) -> Any:
        """What stands for None."""
        return args[-1] if self.passes else None

    def value(self, result: Any, args: Any) -> Any:
        """What it returned, or the output."""
        if result is None and not self.is_recorded:
            found = [v for v in parts(args[-1]) if isinstance(v, TensorBase)]
            numbers = {id(t): k for k, t in enumerate(self.seen)}
            self.passes = any(self.is_touched(numbers[id(t)], self.seen) for t in found)
        return self.replaced(args) if result is None else result


class PreHookSegment(ForwardHookSegment):
    """The call of a forward pre-hook."""

    def value(self, result: Any, args: Any) -> Any:
        """What it returned, or the positional arguments."""
        if result is None and not self.is_recorded:
            self.passes = any(self.is_touched(k, self.seen) for k in range(len(self.inputs)))
        return self.replaced(args) if result is None else result

    def replaced(self, args: tuple[Any, ...]) -> Any:
        """What stands for None."""
        return args[1] if self.passes else None


class KeywordPreHookSegment(PreHookSegment):
    """The same for one that gets the dict of keyword arguments as well, which it may change."""

    may_only_look = False

    def replaced(self, args: tuple[Any, ...]) -> Any:
        """What stands for None."""
        return args[1], args[2]


def record_module_hook(hook: Callable[..., Any], args: tuple[Any, ...], before: bool, both: bool) -> Any:
    """Called by the runtime for a forward pre-hook or a forward hook with its arguments; what it is to have returned.

    `before`: whether it is a pre-hook; `both`: whether it gets keyword arguments as well.
    """
    if before:
        return record(hook, args, KeywordPreHookSegment if both else PreHookSegment)
    return record(hook, args, ForwardHookSegment)


runtime_set_object("record_module_hook", record_module_hook)
