"""What leaves a unit of compiled code: functions for other units, and entries, which Python calls.

Note [Entries]: an entry is a ``METH_FASTCALL`` function. `contracts.entry_table` declares them all; the functions that
CPython calls, those that the loader makes, and the checks of what comes in are generated from the table. Nothing
compiled sees an argument that is not of the declared kind, in any build.

Kinds of arguments, and what the compiled function gets: ``int`` (64 bits) and ``float``; ``index<B``, an int from 0 to
below `B`, which is a name of `BOUNDS` or a field of the node before it; ``tensor`` and ``tensor?`` (or None),
``elements`` (a tensor whose elements are read or written, which no batched one is), ``node`` and ``function`` (the node
of a call of a custom function), their handles; ``pass``, the number of a pass under way, its handle; ``context``,
``handle`` (that of a hook), ``tuple``, ``dict``, ``node class``, ``context class``, ``module class``, ``chain`` (the
chain of a setting, or None) and ``object`` (any), the address of the object; ``sizes``, a tuple of ints, their number
and the address of a copy.

Kinds of results: ``none`` and ``int``; ``count``, an int, negative for a failure; ``tensor``, a handle, zero for None,
or a failure; ``object``, a new reference to a Python object, zero if an exception is set, or a failure; ``integers``,
a tuple of as many ints as the function says, which gets the address of an array as its last argument. ``vector`` is an
entry that gets the vector of its arguments itself and checks them. A function of kind ``inner`` is called by generated
code only; its arguments are words (``int`` and ``float``). One of kind ``thread`` is what a thread begins with.

A failure becomes an exception by a call of `runtime.entry_failed`, a wrong argument by one of `runtime.wrong_argument`.
Where an exception is set already, that one is raised.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from fastgrad.native.contracts.element_types import DTYPES
from fastgrad.native.contracts.flags import N_SETTINGS
from fastgrad.native.contracts.formats import FORMATS
from fastgrad.native.contracts.limits import MAX_DIMS, N_DEVICES, N_RANDOM_KERNELS
from fastgrad.native.contracts.profiles import HOOK_KINDS
from fastgrad.native.contracts.python_types import N_HOOK_PLACES
from fastgrad.native.contracts.records import NODE, RUNTIME, STORAGE, TAPE, TENSOR

ARGUMENTS = {
    "int": "an int of 64 bits", "float": "a float", "index": "an index", "tensor": "a Tensor",
    "elements": "a Tensor that is not one of vmap",
    "tensor?": "a Tensor or None", "node": "a Node", "function": "the context of a custom function",
    "pass": "a pass under way", "context": "a context of the runtime's", "handle": "the handle of a hook",
    "tuple": "a tuple", "dict": "a dict",
    "node class": "a class of nodes", "context class": "a class of contexts",
    "module class": "a class of modules", "chain": "the chain of a setting",
    "object": "an object", "sizes": "a tuple of ints",
}  # fmt: skip
"""Kinds of arguments, and what errors call them."""

RESULTS = ("none", "int", "count", "tensor", "object", "integers", "vector", "inner", "thread")

MOST_SIZES = 2 * MAX_DIMS
"""Ints that an argument of kind ``sizes`` may have: more than a tensor has, so that errors can name them."""

BOUNDS = {
    "tensor": TENSOR.words, "storage": STORAGE.words, "node": NODE.words, "runtime": RUNTIME.words, "tape": TAPE.words,
    "dtypes": len(DTYPES), "devices": N_DEVICES, "settings": N_SETTINGS, "hooks": 2, "hook places": N_HOOK_PLACES,
    "random": N_RANDOM_KERNELS, "formats": len(FORMATS), "hook kinds": len(HOOK_KINDS),
}  # fmt: skip


class Argument(NamedTuple):
    """An argument of an entry: its kind and, for an index, what it has to be less than."""

    kind: str
    bound: str = ""

    @property
    def letters(self) -> str:
        """The types that the compiled function gets it as: ``i`` an int64, ``d`` a float64."""
        return {"float": "d", "sizes": "ii"}.get(self.kind, "i")


class Entry(NamedTuple):
    """A row of the table of entries.

    Parameters
    ----------
    name : str
        Its name in Python, and of its symbol behind ``fastgrad_``.
    arguments : tuple of Argument
    result : str
        A kind of `RESULTS`.
    place : str
        ``module:function`` in `fastgrad.native`.
    called : str
        What messages call it, if that is a function that users know.
    """

    name: str
    arguments: tuple[Argument, ...]
    result: str
    place: str
    called: str = ""

    @property
    def letters(self) -> str:
        """The types of what the compiled function gets."""
        own = "".join(argument.letters for argument in self.arguments)
        return own + {"integers": "i", "vector": "ii"}.get(self.result, "")

    @property
    def is_public(self) -> bool:
        """Whether Python may call it."""
        return self.result not in ("inner", "thread")


def row(name: str, arguments: str, result: str, place: str = "python.entries", called: str = "") -> Entry:
    """A row of the table, its arguments separated by commas; `place` may leave out a function of the same name."""
    parts = [text.strip().partition("<") for text in arguments.split(",") if text.strip()]
    found = tuple(Argument(kind, bound) for kind, _, bound in parts)
    for k, argument in enumerate(found):
        node = any(a.kind in ("node", "function") for a in found[:k])
        known = argument.bound in BOUNDS or (node and argument.bound in NODE.fields)
        if argument.kind not in ARGUMENTS or known != (argument.kind == "index"):
            raise ValueError(f"entry {name!r} has an argument of unknown kind: {argument}")
    if result not in RESULTS:
        raise ValueError(f"entry {name!r} has a result of unknown kind: {result!r}")
    return Entry(name, found, result, place if ":" in place else f"{place}:{name}", called)


class Export(NamedTuple):
    """A function that leaves its unit.

    Parameters
    ----------
    name : str
        Its symbol behind ``fastgrad_``.
    function : callable
        A Python function or Numba dispatcher.
    letters : str
        The types of its arguments: ``i`` an int64, ``d`` a float64. That of a kernel is its frame.
    returns : str
        ``v`` nothing, ``i`` an int64, ``x`` whatever it is.
    """

    name: str
    function: Callable[..., Any]
    letters: str = "i"
    returns: str = "v"
