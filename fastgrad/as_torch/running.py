"""The command ``python -m fastgrad.as_torch``."""

from __future__ import annotations

import io
import os
import runpy
import sys
from pathlib import Path
from types import ModuleType

from fastgrad.as_torch.installing import install_as_torch

USAGE = """\
usage: python -m fastgrad.as_torch script.py [argument ...]
       python -m fastgrad.as_torch -m module [argument ...]
       python -m fastgrad.as_torch -c program [argument ...]
       python -m fastgrad.as_torch --check path [path ...]

Run a program written for PyTorch on fastgrad: `import torch` means fastgrad, in this process and in those that it
starts. --check runs nothing: it lists the names of PyTorch that scripts, or all scripts in folders, use and that do
not exist here, and ends with 1 if there are any.
"""
OK, USAGE_ERROR = 0, 2


def main(arguments: list[str]) -> int:
    """Run what the arguments say.

    Parameters
    ----------
    arguments : list of str
        Those behind the name of the module.

    Returns
    -------
    int
        The exit code, unless the program ends with one of its own.
    """
    first, *rest = arguments or [""]
    if first in ("-h", "--help"):
        print(USAGE, end="")
        return OK
    if first == "--check" and rest:
        from fastgrad.as_torch.checking import check

        return check([Path(path) for path in rest])
    if not first or (first.startswith("-") and (first not in ("-m", "-c") or not rest)):
        print(USAGE, end="", file=sys.stderr)
        return USAGE_ERROR
    if first not in ("-m", "-c") and not Path(first).exists():
        print(f"python -m fastgrad.as_torch: can't open file {first!r}: no such file", file=sys.stderr)
        return USAGE_ERROR
    install_as_torch()
    if first == "-m":
        _run_module(rest)
    elif first == "-c":
        _run_text(rest[0], "<string>", ["-c", *rest[1:]])
    else:
        _run_script(arguments)
    return OK


def _run_module(arguments: list[str]) -> None:
    """As ``python -m`` does: from the current folder."""
    sys.argv = arguments
    if not sys.flags.safe_path:
        sys.path[0] = os.getcwd()
    runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)


def _run_script(arguments: list[str]) -> None:
    """As ``python script.py`` does: modules beside the script are found first, also after it changes the folder."""
    script = Path(arguments[0]).absolute()
    sys.argv = arguments
    if script.is_dir() or script.suffix in (".zip", ".pyz"):
        sys.path[0] = str(script)
        runpy.run_path(arguments[0], run_name="__main__")
        return
    if not sys.flags.safe_path:
        sys.path[0] = str(script.resolve().parent)
    with io.open_code(str(script)) as file:
        text = file.read()
    _run_text(text, str(script), arguments)


def _run_text(text: str | bytes, file: str, arguments: list[str]) -> None:
    """Run a program as the module ``__main__``, which stays until the process ends.

    Processes that it starts import it again by its file; functions that run at the end find its names.
    """
    sys.argv = arguments
    main_module = ModuleType("__main__")
    vars(main_module).update(__builtins__=__builtins__, __spec__=None, __cached__=None)
    if file != "<string>":
        main_module.__file__ = file
    sys.modules["__main__"] = main_module
    exec(compile(text, file, "exec", dont_inherit=True), vars(main_module))
