"""Classes and modes that functions of the library ask before they run: ``__torch_function__``.

Note [Overrides]: plain tensors pay nothing for this, because nothing looks at operands until a program needs it.

- A subclass of `Tensor` gets methods that ask: `prepare` puts `ASKING`, a class of these alone, between it and
  `Tensor`.
- Functions of modules, such as ``fastgrad.add``, are replaced by `Overridable` objects when the first such class is
  made, the first mode is entered or a program calls `install`: in their modules and wherever a program has imported
  them to. From then on a call with plain tensors costs a look at the types of its arguments.
  So do methods of `Tensor` that take other tensors, such as ``mul``: these may be of such a class.
- While a mode is on, in any thread, `Tensor` itself has all the methods that ask, and operators.

An `Overridable` is equal to the function that it stands for, so that tables of functions work that were made before.
"""

from __future__ import annotations

from fastgrad.module_names import getattr_of as _getattr_of
from fastgrad.overrides.asking import (
    handle_torch_function,
    has_torch_function,
    has_torch_function_unary,
    has_torch_function_variadic,
    wrap_torch_function,
)
from fastgrad.overrides.asking import (
    original as original,
)
from fastgrad.overrides.functions import (
    get_overridable_functions,
    install,
    is_tensor_like,
    is_tensor_method_or_property,
    resolve_name,
)
from fastgrad.overrides.functions import (
    prepare as prepare,
)
from fastgrad.overrides.methods import by_default as by_default
from fastgrad.overrides.methods import get_default_nowrap_functions
from fastgrad.overrides.modes import (
    BaseTorchFunctionMode,
    DisableTorchFunction,
    DisableTorchFunctionSubclass,
    TorchFunctionMode,
)

__all__ = [
    "BaseTorchFunctionMode",
    "DisableTorchFunction",
    "DisableTorchFunctionSubclass",
    "TorchFunctionMode",
    "get_default_nowrap_functions",
    "get_overridable_functions",
    "handle_torch_function",
    "has_torch_function",
    "has_torch_function_unary",
    "has_torch_function_variadic",
    "install",
    "is_tensor_like",
    "is_tensor_method_or_property",
    "resolve_name",
    "wrap_torch_function",
]

__getattr__ = _getattr_of(__name__)
