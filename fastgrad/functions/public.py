"""Under which names programs find a function: in the package, as a method of `Tensor`, or both.

`public` says it where a function is written; `fastgrad/__init__.py` and `tensor/__init__.py` read the tables. Functions
that do nothing but call an elementwise op, and the in-place forms of such ops, follow from the op's declaration alone
(see `functions.elementwise`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from fastgrad.functions.argument_names import also_by_name
from fastgrad.functions.outs import WITH_OUT, taking_out
from fastgrad.native.build.loader import Planned

Function = TypeVar("Function", bound=Callable[..., Any])

PACKAGE: dict[str, Callable[..., Any]] = {}
"""The functions of the package by name."""

METHODS: dict[str, Callable[..., Any]] = {}
"""The methods of `Tensor` that are functions whose first argument is the tensor."""


def public(*aliases: str, package: bool = True, method: bool = True) -> Callable[[Function], Function]:
    """Offer a function to programs.

    Parameters
    ----------
    *aliases : str
        Names that it has besides its own.
    package, method : bool
        Where they find it.

    Raises
    ------
    ValueError
        If a name is taken.
    """

    def offer(function: Any) -> Any:
        if not isinstance(function, Planned):
            function = also_by_name(function)
        takes = package and function.__name__ in WITH_OUT
        shown = taking_out(function) if takes else function
        for wanted, table, offered in (
            (package, PACKAGE, shown),
            (method, METHODS, shown if isinstance(shown, Planned) else function),
        ):
            for name in (function.__name__, *aliases) if wanted else ():
                if name in table:
                    raise ValueError(f"two functions are called {name}")
                table[name] = offered
        return shown

    return offer
