"""How ``fastgrad launch`` starts a program on several ranks.

``python -m fastgrad.distributed.launching program.py`` is what ``mpiexec`` runs on each: it sets what programs written
for torchrun read, and runs the program.
"""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from traceback import format_exc

from fastgrad.distributed.faults import end_all
from fastgrad.distributed.groups import is_initialized
from fastgrad.distributed.transport import mpi

VARIABLES = {
    "RANK": ("PMI_RANK", "OMPI_COMM_WORLD_RANK"),
    "WORLD_SIZE": ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE"),
    "LOCAL_RANK": ("MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK"),
    "LOCAL_WORLD_SIZE": ("MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE"),
}
"""What programs read, and what MPICH and Open MPI call it."""


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
    version = subprocess.run([mpiexec, "--version"], capture_output=True, text=True, check=False).stdout
    # MPICH's ends all ranks as soon as one dies, before the others could say in which call they missed it
    stay = ["-disable-auto-cleanup"] if "HYDRA" in version else []
    kind = ["-m"] if module else []
    return [mpiexec, *stay, "-n", str(n), sys.executable, "-m", __name__, *kind, *program]


def set_variables() -> None:
    """Set what programs written for torchrun read."""
    for name, sources in VARIABLES.items():
        found = [os.environ[source] for source in sources if source in os.environ]
        if found:
            os.environ[name] = found[0]


def main(arguments: Sequence[str]) -> None:
    """Run the program of one rank as Python would.

    MPI starts first: ranks that wait in its start for one that failed before it would wait forever.
    """
    set_variables()
    mpi()
    try:
        if arguments[0] == "-m":
            sys.argv[:] = list(arguments[1:])
            runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv[:] = list(arguments)
            sys.path[0] = str(Path(arguments[0]).resolve().parent)
            runpy.run_path(arguments[0], run_name="__main__")
    except Exception:
        if not is_initialized():  # then no other rank would learn of it
            sys.stderr.write(format_exc())
            end_all()
        raise


if __name__ == "__main__":
    main(sys.argv[1:])
