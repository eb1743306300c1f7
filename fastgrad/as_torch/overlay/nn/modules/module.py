"""The class of what `load_state_dict` returns."""

from fastgrad.nn.modules.state import _IncompatibleKeys

__all__ = ["_IncompatibleKeys"]
