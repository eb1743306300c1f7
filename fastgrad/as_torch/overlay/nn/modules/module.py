"""The class of what `load_state_dict` returns."""

from fastgrad.nn.modules.state import IncompatibleKeys

__all__: list[str] = []

_IncompatibleKeys = IncompatibleKeys
