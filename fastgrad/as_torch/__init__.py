"""Programs written for PyTorch on fastgrad, unchanged.

::

    python -m fastgrad.as_torch train.py --epochs 3     # a script
    python -m fastgrad.as_torch -m pytest tests         # a module
    python -m fastgrad.as_torch --check train.py        # which names it uses that do not exist here

Within a program, `install_as_torch` does the same before anything imports ``torch``.
"""

from fastgrad.as_torch.installing import install_as_torch

__all__ = ["install_as_torch"]
