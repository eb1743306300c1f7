"""What nodes save of their op, by name and in which order.

Note [PyTorch's names]: `saved_as` of an op is what PyTorch calls its inputs and outputs. These are the names of
``_saved_*`` attributes of nodes, and their alphabetical order is that of saving and of derivatives: see Note [One
order] in `native.contracts.ops`.
"""

from __future__ import annotations

import functools

from fastgrad.native.contracts.limits import RULES, SAVED_INPUTS, SAVED_OUTPUTS, SAVED_SLOTS

# What formulas call by a letter, programs call by PyTorch's name.
ARGUMENTS = {
    "x": "input", "a": "input", "v": "input", "b": "other", "number": "other", "source": "other",
    "low": "min", "high": "max",
}  # fmt: skip
OUTPUTS = ("y", "y1", "y2")
"""What rules call the outputs of their op, as far as a node can save them."""

_NAMES = {"x": "self", "a": "self", "b": "other", "v": "grad_output"}


class Saving:
    """Names and order of what a node of an op may save.

    Parameters
    ----------
    inputs : tuple of str
        Names of the op's inputs.
    n_out : int
        Number of its outputs.
    saved_as, derivatives : str
        As `Op` takes them.

    Attributes
    ----------
    names : dict of int to str
        What PyTorch calls the tensor in each place.
    places : tuple of int
        The places in the order in which a node packs and unpacks them.
    places_word, inputs_word : int
        The orders of places and of derivatives as the op's record holds them.
    """

    def __init__(self, inputs: tuple[str, ...], n_out: int, saved_as: str, derivatives: str) -> None:
        given, _, made = saved_as.partition("->")
        ins = given.split() or [_NAMES.get(name, name) for name in inputs]
        outs = made.split() or (["result"] if n_out == 1 else [f"result{k}" for k in range(n_out)])
        if len(ins) != len(inputs) or len(outs) != n_out:
            raise ValueError(f"saved_as must name all inputs, or also all outputs, but is {saved_as!r}")
        made_before = {place for place, name in enumerate(ins) if name.startswith(">")}
        self.names = {place: name.lstrip("*>") for place, name in enumerate(ins[:SAVED_INPUTS])}
        self.names |= {SAVED_INPUTS + k: name for k, name in enumerate(outs[:SAVED_OUTPUTS])}
        self.places = tuple(
            sorted(
                self.names,
                key=lambda place: (place >= SAVED_INPUTS or place in made_before, self.names[place]),
            )
        )
        self._derivatives = derivatives.split()
        rest = (place for place in range(SAVED_SLOTS) if place not in self.names)
        self.places_word = _nibbles((*self.places, *rest))
        self.inputs_word = sum(_nibbles(self.order(n)) << 16 * (n - 1) for n in range(1, RULES + 1))

    def order(self, n: int) -> tuple[int, ...]:
        """The inputs of a node with `n` edges, in the order in which their gradients are computed."""
        if n > RULES:
            return tuple(range(n))
        known = [place for place in self.places if place < min(n, SAVED_INPUTS)]
        if self._derivatives:
            known.sort(key=lambda place: self._derivatives.index(self.names[place]))
        return (*known, *(k for k in range(n) if k not in known))


@functools.cache  # most ops have one of few orders
def _nibbles(numbers: tuple[int, ...]) -> int:
    """Small numbers as one, four bits each, the first in the lowest."""
    return sum(number << 4 * i for i, number in enumerate(numbers))


saving = functools.cache(Saving)
"""The same, made once for all ops that are alike in this."""
