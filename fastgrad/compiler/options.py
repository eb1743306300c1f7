"""Options of optimizers that calls bring: see Note [Numbers that are brought] in `fastgrad.native.memory.bindings`.

A schedule changes a learning rate at each step, and the guards would never hold. But what an optimizer of this package
does with such a number is known: it hands it on to a kernel. So the number is brought by each call instead of being
compared, unless other code may read it too: code that was reached names the option or the groups, reads attributes by
names that are computed, or holds a group by another way than the optimizer.
"""

from __future__ import annotations

from typing import Any

from fastgrad.compiler.guards import SCALARS, Walk
from fastgrad.compiler.programs import UnrecordableError
from fastgrad.compiler.recordings import Recording
from fastgrad.native.build.loader import TensorBase
from fastgrad.native.host.options import Option

_WAYS_TO_GROUPS = ("param_groups", "state_dict", "get_lr")
"""Names by which code of a program's own gets at the options of an optimizer."""


def brought_options(recording: Recording, walk: Walk) -> list[Option]:
    """The options that a call may bring to what was recorded; `walk`: what the function reached.

    Raises
    ------
    UnrecordableError
        If a tensor is an option that no call can bring: its value was read.
    """
    settings = {id(s): s for s in recording.tape._settings.values()}.values()
    options = dict.fromkeys(option for s in settings for _, option in s.options())
    if not options:
        return []
    walks = [walk]
    if recording.tape._calls:  # a replay calls these, and they may see what a call brought
        walks.append(of_hooks := Walk())
        for call in recording.tape._calls:
            of_hooks.begin(call.function, "a hook")
    held = {id(t) for t in walk.tensors}
    apart = _Holders(walk, list(options))
    found = []
    for option in options:
        value = option.now()
        if isinstance(value, TensorBase):
            if id(value) not in held or option.branches:
                raise UnrecordableError("it reads the value of a tensor that is an option of an optimizer")
            found.append(option)
        elif _is_found(option) and apart.knows(option) and not _is_read(option, walks):
            found.append(option)
    return found


def _is_found(option: Option) -> bool:
    """Whether the option is a number that stands where the runtime finds it."""
    container, value = option.group.get(option.key), option.now()
    is_number = type(value) is int or isinstance(value, float)
    return is_number and type(option.group) is dict and (option.item < 0 or type(container) is tuple)


def _is_read(option: Option, walks: list[Walk]) -> bool:
    """Whether code that was reached may read the option."""
    return any(walk.reads((option.key, *_WAYS_TO_GROUPS)) for walk in walks)


class _Holders:
    """What holds groups of parameters, and the lists of these, of what a walk reached."""

    def __init__(self, walk: Walk, options: list[Option]) -> None:
        groups = [option.group for option in options]
        lists = [vars(option.owner).get("param_groups") for option in options]
        self._holders: dict[int, set[int]] = {id(x): set() for x in (*groups, *lists)}
        self._reached = set()
        for own, value in walk.pairs():
            self._reached.add(id(own))
            if id(value) in self._holders and not isinstance(value, SCALARS):
                self._holders[id(value)].add(id(own))

    def knows(self, option: Option) -> bool:
        """Whether a group was reached by way of its optimizer, and by no other."""
        attributes: dict[str, Any] = vars(option.owner)
        groups = attributes.get("param_groups")
        return (
            id(option.group) in self._reached
            and self._holders[id(option.group)] == {id(groups)}
            and self._holders[id(groups)] == {id(attributes)}
        )
