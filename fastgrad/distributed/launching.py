"""How ``fastgrad launch`` starts a program on several ranks.

``mpiexec`` runs this file on each rank: it sets what programs written for torchrun read, and runs the program. On Linux
that happens in a child. ``mpiexec`` ends all ranks as soon as one of its own processes dies; if only a child did, there
is time for the other ranks to say in which call they missed it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import runpy
import shutil
import signal
import sys
import sysconfig
import time
from collections.abc import Sequence
from pathlib import Path
from traceback import format_exc

VARIABLES = {
    "RANK": ("PMI_RANK", "OMPI_COMM_WORLD_RANK"),
    "WORLD_SIZE": ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE"),
    "LOCAL_RANK": ("MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK"),
    "LOCAL_WORLD_SIZE": ("MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE"),
}
"""What programs read, and what MPICH and Open MPI call it."""

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
PDEATHSIG = 1  # of prctl: the signal that a process gets when its parent dies
TIME_TO_NOTICE = 10.0  # seconds


def find_mpiexec() -> str | None:
    """The path of ``mpiexec``: that of this Python's packages, or else the first one in PATH."""
    own = Path(sysconfig.get_path("scripts")) / "mpiexec"
    return str(own) if own.is_file() else shutil.which("mpiexec")


def command_of(mpiexec: str, n: int, program: Sequence[str], module: bool) -> list[str]:
    """What starts a program on `n` ranks.

    Parameters
    ----------
    mpiexec : str
    n : int
    program : sequence of str
        Its path, or the name of a module, and its arguments.
    module : bool
        Whether it is the name of a module.

    Returns
    -------
    list of str
    """
    kind = ["-m"] if module else []
    return [mpiexec, "-n", str(n), sys.executable, __file__, *kind, *program]


def set_variables() -> None:
    """Set what programs written for torchrun read."""
    for name, sources in VARIABLES.items():
        found = [os.environ[source] for source in sources if source in os.environ]
        if found:
            os.environ[name] = found[0]


def continue_in_child() -> None:
    """Return in a child; this process hands signals on to it, and ends as it does, later if a signal killed it."""
    parent, child = os.getpid(), os.fork()
    if not child:
        ctypes.CDLL(None).prctl(PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it has died already
            os._exit(1)
        os.setpgid(0, 0)  # what a terminal sends comes once, from the parent
        return

    def hand_on(number: int, _: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, number)

    for number in FORWARDED:
        signal.signal(number, hand_on)
    status = os.waitpid(child, 0)[1]
    if not os.WIFSIGNALED(status):
        os._exit(os.WEXITSTATUS(status))
    death = os.WTERMSIG(status)
    sys.stderr.write(f"fastgrad launch: rank {os.environ['RANK']} died of {signal.Signals(death).name}\n")
    sys.stderr.flush()
    time.sleep(TIME_TO_NOTICE)
    os._exit(128 + death)


def main(arguments: Sequence[str]) -> None:
    """Run the program of one rank as Python would.

    MPI starts first: ranks that wait in its start for one that failed before it would wait forever.
    """
    set_variables()
    if sys.platform == "linux":
        continue_in_child()
    module = arguments[0] == "-m"
    program = list(arguments[module:])
    sys.path[0] = "" if module else str(Path(program[0]).resolve().parent)
    sys.path.append(str(Path(__file__).parents[2]))  # the package that started this, if it is not installed
    from fastgrad.distributed import faults, groups, transport

    transport.mpi()
    sys.argv[:] = program
    try:
        if module:
            runpy.run_module(program[0], run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(program[0], run_name="__main__")
    except Exception:
        if not groups.is_initialized():  # then no other rank would learn of it
            sys.stderr.write(format_exc())
            faults.end_all()
        raise


if __name__ == "__main__":
    main(sys.argv[1:])
