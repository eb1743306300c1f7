"""Capture and replay: the launches of a piece of work as a list that one compiled loop runs again.

Every launch passes one point in the compiled dispatch; while a tape records, that point appends each kernel's address
and frame. The tape holds all memory that the work allocates or changes, so that the addresses in the frames stay
valid: a replay writes the same results to the same places, from whatever the inputs hold then.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fastgrad.native.build.loader import rt


class Tape:
    """What a capture recorded.

    Attributes
    ----------
    launches : int
        The number of kernels that a replay runs.
    """

    def __init__(self) -> None:
        self._handle = 0
        self.launches = 0

    def replay(self) -> None:
        """Run all launches again, in order.

        Raises
        ------
        RuntimeError
            While the tape still records, or after nothing was recorded.
        """
        if not self._handle or not self.launches:
            raise RuntimeError(
                "the tape holds no launches: replay after the `with record()` block, not inside it"
            )
        rt.tape_replay(self._handle)

    def __del__(self) -> None:
        if self._handle:
            rt.release_tape(self._handle)


@contextmanager
def record() -> Iterator[Tape]:
    """Record the launches of the block.

    Tensors that the block makes and the caller keeps hold the results of each replay. Inputs must stay where they
    are, and alive: change their contents in place. What Python decides inside the block (shapes, branches,
    numbers passed to ops, hooks) is not run again.

    Yields
    ------
    Tape

    Raises
    ------
    RuntimeError
        If another capture is under way.

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
    tape = Tape()
    handle = rt.tape_begin()
    if handle < 0:
        raise RuntimeError("a capture is under way already: captures cannot be nested")
    tape._handle = handle
    try:
        yield tape
    finally:
        tape.launches = rt.tape_end()
