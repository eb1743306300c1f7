"""Running a function on several threads at once."""

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

PATIENCE = 200.0  # seconds after which a thread that waits for others gives up, also on a busy machine
TASKS = Path("/proc/self/task")
"""Where Linux shows the threads of this process."""
EXITING = 0x4  # PF_EXITING of the kernel's flags


def in_threads(count: int, function: Callable[[int], None]) -> None:
    """Run a function on several threads at once; the first exception is raised here."""
    errors: list[BaseException] = []

    def run(k: int) -> None:
        try:
            function(k)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if errors:
        raise errors[0]


@contextlib.contextmanager
def switching(every: float = 1e-6) -> Iterator[None]:
    """Threads take turns after so many seconds: by default, as often as Python can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(every)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def tasks() -> list[list[str]]:
    """What the system says of each thread behind its name, state and flags among them; without those that end.

    One that has been joined is shown until the system has put it away, which may take a while on a busy machine.
    """
    found = []
    for task in TASKS.iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it is gone
            fields = (task / "stat").read_text().rpartition(") ")[2].split()
            if not int(fields[6]) & EXITING:
                found.append(fields)
    return found


def n_tasks() -> int:
    """How many threads of the system this process has."""
    return len(tasks())
