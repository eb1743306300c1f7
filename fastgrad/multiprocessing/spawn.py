"""Running a function in several processes, and what ends them."""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import multiprocessing.connection
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from typing import Any

_PR_SET_PDEATHSIG = 1
_PATIENCE = 30.0
"""How many seconds a process has between SIGTERM and SIGKILL."""


class ProcessException(Exception):  # noqa: N818 - PyTorch's name
    """A process of `start_processes` failed.

    Parameters
    ----------
    msg : str
    error_index : int
        Which of the processes.
    error_pid : int
    """

    def __init__(self, msg: str, error_index: int, error_pid: int) -> None:
        super().__init__(msg)
        self.msg = msg
        self.error_index = error_index
        self.error_pid = error_pid

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.error_pid)


class ProcessRaisedException(ProcessException):
    """The function raised; the message has the traceback."""


class ProcessExitedException(ProcessException):
    """A process ended by itself or by a signal.

    Parameters
    ----------
    msg : str
    error_index : int
    error_pid : int
    exit_code : int
        Negative for a signal.
    signal_name : str, optional
    """

    def __init__(
        self, msg: str, error_index: int, error_pid: int, exit_code: int, signal_name: str | None = None
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code = exit_code
        self.signal_name = signal_name

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.error_pid, self.exit_code, self.signal_name)


def _run(fn: Callable[..., Any], index: int, args: Sequence[Any], errors: Any) -> None:
    """What each process runs; on Linux it goes when the thread that started it is gone."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGINT))
    try:
        fn(index, *args)
    except KeyboardInterrupt:
        pass
    except Exception:  # noqa: BLE001 - the process that waits raises it
        errors.send_bytes(traceback.format_exc().encode(errors="replace"))
        sys.exit(1)


class ProcessContext:
    """Processes that `start_processes` started.

    Attributes
    ----------
    processes : list of multiprocessing.Process
    sentinels : dict
        Of those that have not been joined, by what becomes ready when they end.
    """

    def __init__(self, processes: Sequence[Any], errors: Sequence[Any]) -> None:
        self.processes = list(processes)
        self.sentinels = {process.sentinel: index for index, process in enumerate(self.processes)}
        self._errors = dict(zip(errors, range(len(self.processes)), strict=True))
        self._texts: dict[int, str] = {}

    def pids(self) -> list[int]:
        """The numbers of the processes."""
        return [int(process.pid) for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait for a process to end; when one fails, end the others.

        Parameters
        ----------
        timeout : float, optional
            How many seconds to wait.
        grace_period : float, optional
            How many seconds the others have to end by themselves, and again after SIGTERM, when one has failed.

        Returns
        -------
        bool
            Whether all have ended.

        Raises
        ------
        ProcessRaisedException
            If the function raised in one of them.
        ProcessExitedException
            If one ended with another exit code than 0.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while self.sentinels:
            left = None if end is None else max(0.0, end - time.monotonic())
            ready = multiprocessing.connection.wait([*self.sentinels, *self._errors], left)
            for found in ready:
                if found in self._errors:
                    self._read(found)
            ended = [self.sentinels.pop(found) for found in ready if found in self.sentinels]
            for index in ended:
                self.processes[index].join()
                if self.processes[index].exitcode:
                    self._fail(index, grace_period)
            if ended or not ready:
                break
        return not self.sentinels

    def _read(self, connection: Any) -> None:
        """Keep the traceback that a process sent, which ends afterwards, or that it sent none."""
        index = self._errors.pop(connection)
        with contextlib.suppress(EOFError, OSError):
            self._texts[index] = connection.recv_bytes().decode()
        connection.close()

    def _fail(self, index: int, grace_period: float | None) -> None:
        for connection in [c for c, of in self._errors.items() if of == index]:
            self._read(connection)
        if grace_period is not None:
            self._wait(grace_period)
        for process in self.processes:
            if process.is_alive():
                process.terminate()
        self._wait(_PATIENCE if grace_period is None else grace_period)
        for process in self.processes:
            if process.is_alive():
                process.kill()
            process.join()
        failed = self.processes[index]
        if index in self._texts:
            text = f"\n\n-- Process {index} terminated with the following error:\n{self._texts[index]}"
            raise ProcessRaisedException(text, index, failed.pid)
        code = failed.exitcode
        if code > 0:
            text = f"process {index} terminated with exit code {code}"
            raise ProcessExitedException(text, index, failed.pid, code)
        name = _signal_name(-code)
        text = f"process {index} terminated with signal {name}"
        raise ProcessExitedException(text, index, failed.pid, code, name)

    def _wait(self, seconds: float) -> None:
        """Give all processes together some time to end."""
        end = time.monotonic() + seconds
        for process in self.processes:
            process.join(max(0.0, end - time.monotonic()))


class SpawnContext(ProcessContext):
    """The old name of `ProcessContext`."""

    def __init__(self, processes: Sequence[Any], errors: Sequence[Any]) -> None:
        warnings.warn("SpawnContext is renamed to ProcessContext since 1.4 release.", stacklevel=2)
        super().__init__(processes, errors)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"<Unknown signal {number}>"


def start_processes(
    fn: Callable[..., Any],
    args: Sequence[Any] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Run ``fn(i, *args)`` in `nprocs` processes, i counting them.

    Parameters
    ----------
    fn : callable
        Of a module, so that it can be pickled, unless `start_method` is "fork".
    args : sequence
    nprocs : int
    join : bool, default True
        Whether to wait for all of them.
    daemon : bool, default False
        Whether they end when this process ends; then they can start none.
    start_method : str, default "spawn"
        "spawn", "fork" or "forkserver".

    Returns
    -------
    ProcessContext or None
        None with `join`.

    Raises
    ------
    ProcessRaisedException, ProcessExitedException
        With `join`, if one fails; the others are ended first.
    """
    context = multiprocessing.get_context(start_method)
    processes: list[Any] = []
    errors: list[Any] = []
    try:
        for index in range(nprocs):
            receiver, sender = context.Pipe(duplex=False)
            process = context.Process(  # type: ignore[attr-defined]
                target=_run, args=(fn, index, tuple(args), sender), daemon=daemon
            )
            process.start()
            sender.close()  # of the process alone: its end is the end of what it sends
            processes.append(process)
            errors.append(receiver)
        started = ProcessContext(processes, errors)
        while join and not started.join():
            pass
    except BaseException:  # such as KeyboardInterrupt, of which the others may not know
        for process in processes:
            process.terminate()
        raise
    return None if join else started


def spawn(
    fn: Callable[..., Any],
    args: Sequence[Any] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """`start_processes` with fresh interpreters.

    Parameters
    ----------
    fn : callable
    args : sequence
    nprocs : int
    join, daemon : bool
    start_method : str
        Has to be "spawn"; `start_processes` takes others.

    Returns
    -------
    ProcessContext or None
    """
    if start_method != "spawn":
        warnings.warn(
            f"This method only supports start_method=spawn (got: {start_method}).\n"
            "To use a different start_method use:\n\t\t fastgrad.multiprocessing.start_processes(...)",
            FutureWarning,
            stacklevel=2,
        )
    return start_processes(fn, args, nprocs, join, daemon, start_method="spawn")
