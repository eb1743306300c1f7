"""Filling the cache: compiling ahead every kernel that a program can ask for."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from fastgrad.kernels.compile import cell_name, unit, unit_name
from fastgrad.native.build import cache, notices
from fastgrad.native.contracts.element_types import COMPLEX, DTYPES, HALVES, SELDOM
from fastgrad.native.host.tables import OPS
from fastgrad.ops.kernel_table import KERNELS

Cell = tuple[int, int, int]
"""Kernel, dtype and layout class: a place in the table that dispatch reads."""


def cells(only: Iterable[str] = ()) -> list[Cell]:
    """The cells that kernels declare, all or those that one of the patterns names: see `warmup`.

    Dispatch gets no kernel for any other cell. Those of halves and of complex numbers are left out unless a pattern
    names them by their dtype: they would double what is compiled ahead, for the programs that use them need few.
    """
    declared = [(kernel.id, *cell) for kernel in KERNELS for cell in kernel.cells()]
    patterns = [only] if isinstance(only, str) else list(only)
    if not patterns:
        return [cell for cell in declared if not _is_rare(cell)]
    named = set().union(*(_named(pattern, declared) for pattern in patterns))
    return [cell for cell in declared if cell in named]


def _named(pattern: str, declared: list[Cell]) -> set[Cell]:
    """The cells that a pattern names."""
    from fnmatch import fnmatchcase  # not at every start of a program

    kernels = {kernel.id for kernel in KERNELS if fnmatchcase(kernel.name, pattern)}
    for op in OPS:
        if fnmatchcase(op.name, pattern) or fnmatchcase(op.called, pattern):
            kernels.update(kernel.id for kernel in op.kernels())

    def fits(cell: Cell) -> bool:
        if _is_rare(cell):
            return any(DTYPES[code] in pattern for code in _RARE) and fnmatchcase(_name(cell), pattern)
        return cell[0] in kernels or fnmatchcase(_name(cell), pattern)

    found = {cell for cell in declared if fits(cell)}
    if not found:
        from difflib import get_close_matches

        names = {name for op in OPS if op.kernel for name in (op.name, op.called)}
        names.update(KERNELS[number].name for number, _, _ in declared)
        near = get_close_matches(pattern, sorted(names))
        hint = f"; is it {' or '.join(map(repr, near))}?" if near else ""
        raise ValueError(f"warmup(): no kernel and no op that has one is called {pattern!r}{hint}")
    return found


_RARE = (*HALVES, *COMPLEX, *SELDOM)


def _is_rare(cell: Cell) -> bool:
    """Whether a kernel reads or writes halves, complex numbers, or integers that programs rarely have."""
    number, dtype, _ = cell
    kernel = KERNELS[number]
    return kernel.is_complex(dtype) or not {dtype, *kernel.elements.values()}.isdisjoint(_RARE)


def _name(cell: Cell) -> str:
    number, dtype, form = cell
    return cell_name(KERNELS[number], dtype, form)


def missing(only: Iterable[str] = ()) -> list[Cell]:
    """The cells whose code the cache lacks, of all or of those that patterns name.

    Their order mixes what takes long with what does not, so that the time of the first ones tells that of the rest.
    """
    lacking = [
        (k, dtype, form)
        for k, dtype, form in cells(only)
        if not cache.has(unit_name(KERNELS[k], dtype, form))
    ]
    return sorted(lacking, key=lambda cell: cache.hash_texts(repr(cell)))


def warmup(
    progress: Callable[[int, int, str, float], None] | None = None,
    *,
    jobs: int = 1,
    only: Iterable[str] = (),
) -> int:
    """Compile every kernel that the cache lacks, so that later programs find it there.

    Parameters
    ----------
    progress : callable, optional
        Called with the number of kernels compiled, the number of all that are to be, the name of the last, and how many
        seconds the rest will take, by what the ones before took.
    jobs : int, optional
        How many processes compile. They are started as `multiprocessing` starts them: a script that asks for more than
        one calls this below ``if __name__ == "__main__":``.
    only : iterable of str, optional
        Names of kernels or ops, or patterns as for `fnmatch`; all kernels by default. That of an op stands for its
        kernel and those of its derivatives. ``exp-float32-*`` is the kernel ``exp`` for one dtype, ``exp-float32-flat``
        that for contiguous operands: so files in the cache are called, too. Kernels for float16, bfloat16,
        complex64, complex128, int8, int16, uint16, uint32 and uint64 are compiled only where a pattern names them so,
        as ``exp-bfloat16-*`` does.

    Returns
    -------
    int
        How many kernels were compiled now.

    Raises
    ------
    OSError
        If the cache cannot be written.
    ValueError
        If a pattern names nothing, or `jobs` is less than 1.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.warmup(jobs=4)  # doctest: +SKIP
    1698
    >>> fg.warmup(only=["linear", "relu-float32-*"])  # doctest: +SKIP
    """
    if jobs < 1:
        raise ValueError(f"warmup(): expected jobs to be 1 or more, but got {jobs}")
    todo = missing(only)
    _need_kept(cache.trouble())
    jobs = min(jobs, len(todo))
    spent = 0.0
    for done, made in enumerate(_compiled(todo, jobs), 1):
        _need_kept(made.trouble)
        spent += made.seconds
        if progress is not None:
            left = spent / done * math.ceil((len(todo) - done) / jobs)
            progress(done, len(todo), KERNELS[made.cell[0]].name, left)
    return len(todo)


def _need_kept(trouble: str) -> None:
    if trouble:
        raise OSError(f"warmup(): compiled code cannot be kept: {trouble}")


class _Made(NamedTuple):
    """A cell that was compiled: why its code could not be kept, or empty, and how long it took."""

    cell: Cell
    trouble: str
    seconds: float


def _compiled(todo: list[Cell], jobs: int) -> Iterator[_Made]:
    """Compile cells; tells of each when it is done."""
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


def _compile(cell: Cell) -> _Made:
    number, dtype, form = cell
    start = time.perf_counter()
    with notices.unannounced():
        _, made = unit(KERNELS[number], dtype, form)
    return _Made(cell, made.trouble, time.perf_counter() - start)
