"""Capture and replay: the launches of a piece of work as a list that one compiled loop runs again.

Every launch passes one point in the compiled dispatch; while a tape records, that point appends each kernel's address
and frame. The tape holds all memory that the work allocates or changes, so that the addresses in the frames stay
valid: a replay writes the same results to the same places, from whatever the inputs hold then.
"""

from __future__ import annotations

from fastgrad.native.build.loader import ContextBase, rt
from fastgrad.native.contracts.flags import CAPTURE_SETTING


class Tape(ContextBase):
    """What a capture recorded; as a context, the capture itself.

    Attributes
    ----------
    launches : int
        The number of kernels that a replay runs.
    """

    def __init__(self) -> None:
        self._setting = 1 + CAPTURE_SETTING
        self._gives_self = 1

    def _entering(self) -> None:
        if rt.capturing():
            raise RuntimeError("a capture is under way already: captures cannot be nested")
        if rt.launches_of(self) >= 0:
            raise RuntimeError("a tape records once; begin another one with record()")

    @property
    def launches(self) -> int:
        """The number of kernels that a replay runs."""
        return max(rt.launches_of(self), 0)

    def replay(self) -> None:
        """Run all launches again, in order.

        Raises
        ------
        RuntimeError
            While a tape records, or if nothing was recorded.
        """
        if rt.capturing() or not self.launches:
            raise RuntimeError(
                "the tape holds no launches: replay after the `with record()` block, not inside it"
            )
        rt.replay(self)


def record() -> Tape:
    """Record the launches of the block.

    Tensors that the block makes and the caller keeps hold the results of each replay. Inputs must stay where they
    are, and alive: change their contents in place. What Python decides inside the block (shapes, branches,
    numbers passed to ops, hooks) is not run again.

    Returns
    -------
    Tape
        A context that gives itself.

    Raises
    ------
    RuntimeError
        On entry, if another capture is under way.

    Examples
    --------
    >>> import fastgrad as fg
    >>> from fastgrad.native.host.tape import record
    >>> x = fg.ones(3)
    >>> with record() as tape:
    ...     y = x * 2
    >>> _ = x.fill_(5)
    >>> tape.replay()
    >>> y
    tensor([10., 10., 10.])
    """
    return Tape()
