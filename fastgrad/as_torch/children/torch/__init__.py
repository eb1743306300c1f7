"""What ``import torch`` finds in processes that a program under the alias has started: it installs the alias."""

import sys
from pathlib import Path

try:
    import fastgrad  # noqa: F401
except ImportError:  # the program that started this one had it from its own path
    sys.path.append(str(Path(__file__).parents[4]))

del sys.modules["torch"]  # this module, in whose place the alias comes

from fastgrad.as_torch import install_as_torch  # noqa: E402

install_as_torch()
