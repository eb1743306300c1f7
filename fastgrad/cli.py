"""The command ``fastgrad``: ``demo``, ``docs``, ``doctor``, ``launch`` and ``warmup``.

Importing this module is cheap; every command imports what it needs when it runs.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from fastgrad._version import __version__

EXIT_OK, EXIT_FAILURE, EXIT_USAGE, EXIT_MISSING_EXTRA, EXIT_INTERRUPTED = 0, 1, 2, 3, 130

# What the demo needs: the name to import and the name to install.
DEMO_PACKAGES = {"matplotlib": "matplotlib", "rich": "rich", "sklearn": "scikit-learn"}

EPILOG = f"""\
exit codes: {EXIT_OK} success, {EXIT_FAILURE} failure, {EXIT_USAGE} wrong usage, \
{EXIT_MISSING_EXTRA} an optional package is missing, {EXIT_INTERRUPTED} interrupted"""


# The pages that the build hook puts into wheels, and those that a clone has built.
SITES = (Path(__file__).parent / "site", Path(__file__).parents[1] / "build" / "site")


class CommandError(Exception):
    """A failure that is told to the user in a sentence, without a traceback."""

    def __init__(self, message: str, code: int = EXIT_FAILURE) -> None:
        super().__init__(message)
        self.code = code


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments after the program's name; by default those of the process.

    Returns
    -------
    int
        0 success, 1 failure, 3 an optional package is missing, 130 interrupted. Wrong usage leaves through
        `SystemExit` with code 2, as argparse has it.
    """
    arguments = _parser().parse_args(argv)
    try:
        arguments.command(arguments)
    except CommandError as error:
        print(f"fastgrad: {error}", file=sys.stderr)
        return error.code
    except KeyboardInterrupt:
        print("fastgrad: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    return EXIT_OK


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fastgrad", description="An autograd runtime whose hot path is compiled by Numba.", epilog=EPILOG
    )
    parser.add_argument("--version", action="version", version=f"fastgrad {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    _add_demo(commands)

    docs = commands.add_parser(
        "docs",
        help="open the documentation",
        description="Open the pages that came with this installation in a browser, and print where they are.",
    )
    docs.add_argument("--path", action="store_true", help="print where the pages are, and open nothing")
    docs.set_defaults(command=_docs)

    doctor = commands.add_parser(
        "doctor",
        help="describe this installation",
        description="Print versions, CPU, BLAS, threads, cache and devices.",
    )
    doctor.set_defaults(command=_doctor)

    _add_launch(commands)

    _add_warmup(commands)
    return parser


def _add_demo(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    demo = commands.add_parser(
        "demo",
        help="train on handwritten digits and write a report",
        description="Train a small network on 1,797 handwritten digits, with hooks on its gradients, and "
        "write a report that opens in any browser.",
    )
    demo.add_argument("--epochs", type=_count, metavar="N", help="passes over the training set (default: 60)")
    demo.add_argument("--batch-size", type=_count, metavar="N", help="digits in a step (default: 64)")
    demo.add_argument(
        "--seed", type=_natural, default=0, metavar="S", help="fixes weights and batches (default: 0)"
    )
    demo.add_argument(
        "--report",
        type=Path,
        default=Path("fastgrad-report.html"),
        metavar="PATH",
        help="where the report goes (default: %(default)s)",
    )
    demo.add_argument("--device", default="cpu", help="cpu, or cuda for an NVIDIA GPU (default: %(default)s)")
    demo.add_argument("--quick", action="store_true", help="5 epochs and a rougher timing of the hooks")
    demo.set_defaults(command=_demo)


def _add_warmup(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    warmup = commands.add_parser(
        "warmup",
        help="compile kernels into the cache",
        description="Compile every kernel that the cache lacks, so that no program has to wait for one.",
    )
    warmup.add_argument(
        "--only",
        nargs="+",
        action="extend",
        default=[],
        metavar="PATTERN",
        help="these kernels alone, by their names or those of ops, with * and ? for any letters: "
        "softmax, 'lstm*', 'mul-float32-*'",
    )
    warmup.add_argument(
        "--jobs",
        type=_count,
        metavar="N",
        help="how many processes compile (default: one for each core)",
    )
    warmup.set_defaults(command=_warmup)


def _add_launch(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    launch = commands.add_parser(
        "launch",
        help="run a program on several ranks",
        description="Start a program as often as there are ranks, with mpiexec; RANK, WORLD_SIZE, LOCAL_RANK and "
        "LOCAL_WORLD_SIZE are set. See fastgrad.distributed.",
    )
    launch.add_argument("-n", "--ranks", type=_count, required=True, metavar="N", help="how many ranks")
    launch.add_argument("-m", "--module", action="store_true", help="PROGRAM is the name of a module")
    launch.add_argument("program", metavar="PROGRAM", help="the path of the program")
    launch.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="its arguments")
    launch.set_defaults(command=_launch)


def _natural(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"expected a number of 0 or more, got {text}")
    return value


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected a number of 1 or more, got {text}")
    return value


# argparse names the type in its message for text that is no number.
_natural.__name__ = _count.__name__ = "int"


def _has(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def _missing(packages: Sequence[str], what: str, extra: str) -> CommandError:
    """What is raised where packages are missing that an extra brings."""
    verb = "is" if len(packages) == 1 else "are"
    return CommandError(
        f"{what} needs {' and '.join(packages)}, which {verb} not installed; install all that it needs with\n"
        f'    pip install "fastgrad[{extra}]"',
        EXIT_MISSING_EXTRA,
    )


def _demo(arguments: argparse.Namespace) -> None:
    if missing := [package for module, package in DEMO_PACKAGES.items() if not _has(module)]:
        raise _missing(missing, "the demo", "demo")
    report: Path = arguments.report
    if report.is_dir() or not report.absolute().parent.is_dir():
        raise CommandError(
            f"--report: expected the path of a file in a folder that exists, got {str(report)!r}"
        )
    from fastgrad.demo import app
    from fastgrad.demo.train import Settings

    defaults = Settings()
    settings = Settings(
        epochs=arguments.epochs or (5 if arguments.quick else defaults.epochs),
        batch_size=arguments.batch_size or defaults.batch_size,
        seed=arguments.seed,
        device=_existing_device(arguments.device),
    )
    try:
        app.run(settings, report, timing_rounds=3 if arguments.quick else 15)
    except (OSError, ValueError) as error:
        raise CommandError(str(error)) from error


def _docs(arguments: argparse.Namespace) -> None:
    page = next((site / "index.html" for site in SITES if (site / "index.html").is_file()), None)
    if page is None:
        raise CommandError(
            "this installation came without the pages of the documentation; in a clone of the repository,\n"
            "    bash .ci/docs\n"
            f"builds them, and pip install . then brings them along. Looked in {' and '.join(map(str, SITES))}"
        )
    print(page)
    if arguments.path:
        return
    import webbrowser

    if not webbrowser.open(page.as_uri()):
        raise CommandError("found no browser to open the page with; open the file that is named above")


def _existing_device(name: str) -> str:
    """The name of a device that tensors can be on."""
    import fastgrad as fg

    try:
        fg.empty(0, device=name)
    except RuntimeError as error:
        raise CommandError(f"--device: {error}") from error
    return name


def _doctor(_: argparse.Namespace) -> None:
    from fastgrad.cuda import properties
    from fastgrad.debug import environment

    sections = environment() | {"cuda": properties.environment()}
    width = max((len(key) for rows in sections.values() for key in rows), default=0)
    heading: Callable[[str], None] = print
    if _has("rich"):
        from rich.console import Console
        from rich.text import Text

        console = Console(highlight=False, soft_wrap=True)

        def heading(title: str) -> None:
            console.print(Text(title, style="bold"))

    for number, (title, rows) in enumerate(sections.items()):
        if number:
            print()
        heading(title)
        for key, value in rows.items():
            print(f"  {key:<{width}}  {value}")


def _launch(arguments: argparse.Namespace) -> None:
    from fastgrad.distributed import launching

    mpiexec = launching.find_mpiexec()
    if mpiexec is None or not _has("mpi4py"):
        raise _missing(["mpiexec" if mpiexec is None else "mpi4py"], "launch", "mpi")
    if not arguments.module and not Path(arguments.program).is_file():
        raise CommandError(f"PROGRAM: expected the path of a file, got {arguments.program!r}", EXIT_USAGE)
    command = launching.command_of(
        mpiexec, arguments.ranks, [arguments.program, *arguments.arguments], arguments.module
    )
    try:
        os.execv(mpiexec, command)  # signals and exit codes are then those of mpiexec
    except OSError as error:
        raise CommandError(f"{mpiexec}: {error.strerror}") from error


def _warmup(arguments: argparse.Namespace) -> None:
    import fastgrad as fg
    from fastgrad.native.host.threads import usable_cores

    start = time.perf_counter()
    settings = {"jobs": arguments.jobs or usable_cores(), "only": arguments.only}
    try:
        if _has("rich"):
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

            columns = (
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("{task.description}"),
            )
            with Progress(*columns) as bar:
                task = bar.add_task("", total=None)

                def show(done: int, total: int, name: str, left: float) -> None:
                    text = f"{_left(left)}, {name}".replace("[", r"\[")
                    bar.update(task, completed=done, total=total, description=text)

                kernels = fg.warmup(show, **settings)
        else:

            def show(done: int, total: int, name: str, left: float) -> None:
                print(f"{done:>{len(str(total))}}/{total}  {_left(left)}, {name}", flush=True)

            kernels = fg.warmup(show, **settings)
    except ValueError as error:
        raise CommandError(f"--only: {error}", EXIT_USAGE) from error
    except OSError as error:
        raise CommandError(str(error)) from error
    kinds = f"named {' '.join(arguments.only)}" if arguments.only else "there are"
    print(
        f"{kernels} kernels were compiled in {time.perf_counter() - start:.1f} s; the cache has all {kinds}"
    )


def _left(seconds: float) -> str:
    """How long the rest will take, in words."""
    return f"{seconds / 60:.0f} min left" if seconds > 90 else f"{seconds:.0f} s left"
