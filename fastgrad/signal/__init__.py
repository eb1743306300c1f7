"""Signals: windows to multiply pieces of them by."""

from fastgrad.module_names import getattr_of as _getattr_of
from fastgrad.signal import windows

__all__ = ["windows"]

__getattr__ = _getattr_of(__name__)
