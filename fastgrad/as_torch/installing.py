"""Letting ``import torch`` mean fastgrad, in this process and in those that it starts."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

from fastgrad import module_names
from fastgrad.as_torch.finder import Finder
from fastgrad.as_torch.proxies import NAME, Proxy

CHILDREN = Path(__file__).parent / "children"
"""A folder with a package ``torch`` that installs the alias: processes that are started later find it first."""
_PATH = "PYTHONPATH"


def install_as_torch() -> None:
    """Let ``import torch`` mean fastgrad, from now on and until the process ends.

    Every ``import torch``, ``import torch.x.y`` and ``from torch import ...`` is answered by fastgrad. Names that
    programs see (``str(dtype)``, `Tensor.type`, ``__module__`` of classes) begin with ``torch.``. Python processes
    that this one starts find the alias, too, by the environment variable ``PYTHONPATH``. A second call does nothing.

    Raises
    ------
    RuntimeError
        If the real PyTorch, or another package named ``torch``, is loaded already.

    See Also
    --------
    fastgrad.as_torch : the same for a whole program: ``python -m fastgrad.as_torch script.py``.

    Examples
    --------
    >>> import subprocess, sys
    >>> program = "import fastgrad; fastgrad.install_as_torch(); import torch; print(torch.ones(2).dtype)"
    >>> print(subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout.strip())
    torch.float32
    """
    loaded = sys.modules.get(NAME)
    if isinstance(loaded, Proxy):
        return
    if loaded is not None:
        raise RuntimeError(
            f"install_as_torch(): {NAME!r} is loaded already, from {getattr(loaded, '__file__', None)}; call "
            "fastgrad.install_as_torch() before anything imports it, or run the program by "
            "`python -m fastgrad.as_torch`"
        )
    sys.meta_path.insert(0, Finder())
    module_names.shown = NAME
    package = importlib.import_module(NAME)
    for name in dir(package):  # what tensors, dtypes and devices say of themselves
        if name in _CORE or name.endswith("Tensor"):
            getattr(package, name)
    returned = importlib.import_module(f"{NAME}.return_types")
    for name in returned.__all__:
        getattr(returned, name)
    _tell_children()


_CORE = frozenset(
    ("Generator", "Size", "Tensor", "device", "dtype", "finfo", "iinfo", "layout", "memory_format")
)


def _tell_children() -> None:
    """Let Python processes that are started later find the alias. Programs in other languages take no notice.

    Whoever starts one by `multiprocessing` gives it his ``sys.path``; others leave it what the environment says.
    """
    folder = str(CHILDREN)
    paths = os.environ.get(_PATH, "").split(os.pathsep)
    if folder not in paths:
        os.environ[_PATH] = os.pathsep.join(filter(None, (folder, *paths)))
    if folder not in sys.path:
        sys.path.insert(0 if sys.flags.safe_path else 1, folder)  # behind the folder of the program
