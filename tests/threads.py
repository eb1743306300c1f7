"""Running a function on several threads at once."""

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator

PATIENCE = 200.0  # seconds after which a thread that waits for others gives up, also on a busy machine


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
