"""Filling the cache: compiling ahead every kernel that a program can ask for."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator

from fastgrad.kernels.compile import unit, unit_name
from fastgrad.native.build import cache
from fastgrad.ops.kernel_table import KERNELS

Cell = tuple[int, int, int]
"""Kernel, dtype and layout class: a place in the table that dispatch reads."""


def missing() -> list[Cell]:
    """The cells whose code the cache lacks.

    They come from what the kernels declare; dispatch gets no kernel for any other cell. Their order mixes what takes
    long with what does not, so that the time of the first ones tells that of the rest.
    """
    cells = [(kernel.id, dtype, form) for kernel in KERNELS for dtype, form in kernel.cells()]
    lacking = [
        (k, dtype, form) for k, dtype, form in cells if not cache.has(unit_name(KERNELS[k], dtype, form))
    ]
    return sorted(lacking, key=lambda cell: cache.hash_texts(repr(cell)))


def warmup(progress: Callable[[int, int, str], None] | None = None, *, jobs: int = 1) -> int:
    """Compile every kernel that the cache lacks, so that later programs find it there.

    Parameters
    ----------
    progress : callable, optional
        Called with the number of kernels compiled, the number of all that are to be, and the name of the last.
    jobs : int, optional
        How many processes compile. They are started as `multiprocessing` starts them: a script that asks for more than
        one calls this below ``if __name__ == "__main__":``.

    Returns
    -------
    int
        How many kernels were compiled now.

    Raises
    ------
    OSError
        If the cache cannot be written.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.warmup(jobs=4)  # doctest: +SKIP
    1698
    """
    if jobs < 1:
        raise ValueError(f"warmup(): expected jobs to be 1 or more, but got {jobs}")
    _need_kept(cache.trouble())
    todo = missing()
    for done, (cell, trouble) in enumerate(_compiled(todo, min(jobs, len(todo))), 1):
        _need_kept(trouble)
        if progress is not None:
            progress(done, len(todo), KERNELS[cell[0]].name)
    return len(todo)


def _need_kept(trouble: str) -> None:
    if trouble:
        raise OSError(f"warmup(): compiled code cannot be kept: {trouble}")


def _compiled(todo: list[Cell], jobs: int) -> Iterator[tuple[Cell, str]]:
    """Compile cells; gives each, when it is done, with why it could not be kept."""
    if jobs <= 1:
        yield from map(_compile, todo)
        return
    from concurrent.futures import ProcessPoolExecutor, as_completed  # not at every start of a program
    from multiprocessing import get_context

    workers = ProcessPoolExecutor(jobs, get_context("spawn"), signal.signal, (signal.SIGINT, signal.SIG_IGN))
    try:
        for future in as_completed([workers.submit(_compile, cell) for cell in todo]):
            yield future.result()
    finally:
        workers.shutdown(cancel_futures=True)


def _compile(cell: Cell) -> tuple[Cell, str]:
    number, dtype, form = cell
    with cache.unannounced():
        _, made = unit(KERNELS[number], dtype, form)
    return cell, made.trouble
