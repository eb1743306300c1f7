"""Python's processes, and `spawn`: a function in several of them. Tensors are copied from one to another."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import sys
import traceback
import warnings
from collections.abc import Callable
from multiprocessing import *  # noqa: F403 - PyTorch's module has Python's names
from typing import Any

__all__ = [
    *multiprocessing.__all__,  # type: ignore[attr-defined]
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "set_sharing_strategy",
    "spawn",
    "start_processes",
]


class ProcessException(Exception):  # noqa: N818 - PyTorch's name
    """A process of several that a function runs in has failed."""

    def __init__(self, msg: str, error_index: int, pid: int) -> None:
        super().__init__(msg)
        self.msg, self.error_index, self.pid = msg, error_index, pid

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.pid)


class ProcessRaisedException(ProcessException):
    """The function raised an exception."""


class ProcessExitedException(ProcessException):
    """The process ended otherwise."""

    def __init__(
        self, msg: str, error_index: int, error_pid: int, exit_code: int, signal_name: str | None = None
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.pid, self.exit_code, self.signal_name)


class ProcessContext:
    """Processes that run one function.

    Attributes
    ----------
    processes : list of multiprocessing.Process
    """

    def __init__(self, processes: list[Any], errors: list[Any]) -> None:
        self.processes, self._errors = processes, errors
        self._left = {process.sentinel: i for i, process in enumerate(processes)}

    def pids(self) -> list[int]:
        """The numbers of the processes."""
        return [process.pid for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait until one process has ended, or all; True if all have.

        Raises
        ------
        ProcessRaisedException, ProcessExitedException
            If one has failed; the others are ended first.
        """
        if not self._left:
            return True
        failed = None
        for sentinel in multiprocessing.connection.wait(list(self._left), timeout=timeout):
            index = self._left.pop(sentinel)  # type: ignore[call-overload]
            self.processes[index].join()
            if self.processes[index].exitcode:
                failed = index
                break
        if failed is None:
            return not self._left
        for process in self.processes:
            if process.is_alive():
                process.terminate()
            process.join(grace_period)
        raise self._error_of(failed)

    def _error_of(self, index: int) -> ProcessException:
        process, errors = self.processes[index], self._errors[index]
        if errors.poll():
            text = f"\n\n-- Process {index} terminated with the following error:\n{errors.recv()}"
            return ProcessRaisedException(text, index, process.pid)
        code = process.exitcode
        if code >= 0:
            text = f"process {index} terminated with exit code {code}"
            return ProcessExitedException(text, index, process.pid, code)
        import signal

        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"<Unknown signal {-code}>"
        return ProcessExitedException(
            f"process {index} terminated with signal {name}", index, process.pid, code, name
        )


SpawnContext = ProcessContext


def _run(fn: Callable[..., Any], index: int, args: tuple[Any, ...], errors: Any) -> None:
    try:
        fn(index, *args)
    except KeyboardInterrupt:
        pass  # the process that started this one is interrupted as well
    except Exception:  # noqa: BLE001 - whatever it is, who waits is told
        errors.send(traceback.format_exc())
        sys.exit(1)


def start_processes(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Call a function in several processes, each time with its number before other arguments.

    Parameters
    ----------
    fn : callable
        One that can be pickled; called as ``fn(i, *args)``.
    args : tuple
    nprocs : int
    join : bool
        Wait for all of them.
    daemon : bool
        Whether they end with this process.
    start_method : str
        How they are started: "spawn", "forkserver" or "fork".

    Returns
    -------
    ProcessContext or None
        None if they have been waited for.

    Raises
    ------
    ProcessRaisedException, ProcessExitedException
        If one failed while they were waited for.
    """
    way = multiprocessing.get_context(start_method)
    processes, errors = [], []
    for index in range(nprocs):
        reader, writer = way.Pipe(duplex=False)
        process = way.Process(  # type: ignore[attr-defined]
            target=_run, args=(fn, index, args, writer), daemon=daemon
        )
        process.start()
        writer.close()  # the other end's alone from now on
        processes.append(process)
        errors.append(_Errors(reader))
    context = ProcessContext(processes, errors)
    if not join:
        return context
    while not context.join():
        pass
    return None


class _Errors:
    """What a process said before it ended: nothing, if it ended otherwise."""

    def __init__(self, reader: Any) -> None:
        self._reader, self._text = reader, ""

    def poll(self) -> bool:
        """Whether it said something."""
        try:
            if not self._text and self._reader.poll():
                self._text = self._reader.recv()
        except EOFError:
            pass
        return bool(self._text)

    def recv(self) -> str:
        """What it said."""
        return self._text


def spawn(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """`start_processes` by "spawn"."""
    if start_method != "spawn":
        warnings.warn(
            f"torch.multiprocessing.spawn starts processes by spawn, not by {start_method!r}; start_processes can",
            FutureWarning,
            stacklevel=2,
        )
    return start_processes(fn, args, nprocs, join, daemon, "spawn")


def get_all_sharing_strategies() -> set[str]:
    """One: tensors are copied, through files."""
    return {"file_system"}


def get_sharing_strategy() -> str:
    """The one that there is."""
    return "file_system"


def set_sharing_strategy(new_strategy: str) -> None:
    """Choose the one that there is; "file_descriptor" is taken as well, since neither changes a result."""
    if new_strategy not in ("file_system", "file_descriptor"):
        raise ValueError(f"set_sharing_strategy(): no strategy {new_strategy!r}; there is 'file_system'")
