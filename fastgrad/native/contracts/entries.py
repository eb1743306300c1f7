"""What leaves a unit of compiled code, and in what form.

Note [Entries]: an entry is a ``METH_FASTCALL`` function or a type slot. Its arguments are letters: ``i`` an int64,
``d`` a float64, ``T`` a tensor (its handle is read from the object), ``O`` a tensor or None, ``N`` a node (likewise),
``K`` a pass under way (its handle, a Python integer), ``o`` any object (its address).

Results: ``i``, ``d``, ``n`` nothing, ``s`` a status (a negative one raises), ``T`` a tensor: a handle becomes the
Python object that stands for it, zero None, a negative number is a status; ``R`` a new reference to a Python
object, zero if an exception is set, a negative number is a status; ``E`` an int64, RAISED if an exception is
set; ``L`` a tuple of integers (the function gets the address of an array as its last argument and returns how many
it wrote);
``x`` nothing: the function is called by other wrappers only (pointers are ``p``).

A failing call stores the status in the runtime and calls the Python function that `runtime.entry_failed` holds with
the same arguments; it raises. Where an exception is set already, that one is raised.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Export(NamedTuple):
    """A function that leaves its unit.

    Parameters
    ----------
    name : str
        Its name in the manifest.
    function : callable
        A Python function or Numba dispatcher.
    args, returns : str
        Letters as in Note [Entries]; a kernel is ``("i", "k")``.
    """

    name: str
    function: Callable[..., Any]
    args: str = "i"
    returns: str = "k"
