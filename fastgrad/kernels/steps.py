"""What the kernels of optimizer steps are on every device: the text of a kernel, from its frame and its formula.

Note [Steps count themselves]: the number of steps is a tensor of the state. The kernel adds one to it and takes the
bias corrections from it, so that a step has no number from Python that changes, and a captured step can be replayed.
Where there is much to do, there are two launches: the first one is over no elements and counts, the second one over all
of them, in parts that do not. GPUs take many groups at once: see Note [Many frames] in `native.cuda.many`.
Other single numbers of the state that go on by one step do so with it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from fastgrad.native.contracts.frame import ADDRESSES, UPDATE


class Variant(NamedTuple):
    """A step for one set of optional tensors.

    Attributes
    ----------
    condition : str
        Whether a frame has just those.
    tensors : list of str
        Those that it reads element by element.
    written : list of str
    update : callable
    """

    condition: str
    tensors: list[str]
    written: list[str]
    update: Callable[..., Any]


class Step:
    """The frame and the formula of a row of the kernel table, taken apart.

    `address` gives the text for the address of a tensor of the frame.

    Attributes
    ----------
    variants : list of Variant
    n_numbers : int
        Of those that a step takes for all elements.
    flags : bool
        Whether updates take the flags.
    counts : bool
        Whether the frame has the number of steps.
    depends : bool
        Whether the numbers of a step depend on how many there were.
    """

    def __init__(self, kernel: Any, layout_class: int, address: Callable[[str], str] = "f.{}".format) -> None:
        self._address = address
        frame = kernel.frame(layout_class)
        fields = {name: f for name, f in frame.declared.items() if f.role in ADDRESSES}
        self._singles = [name for name, f in fields.items() if not f.extent]
        elements = {name: f for name, f in fields.items() if f.extent}
        options = kernel.options
        self.numbers, self.factors = options["numbers"], dict(options["factors"])
        optional = {name for absent, _ in options["updates"] for name in absent}
        self.variants = []
        for absent, update in options["updates"]:
            tests = [f"{address(n)} {'==' if n in absent else '!='} 0" for n in elements if n in optional]
            names = [n for n in elements if n not in absent]
            written = [n for n in names if elements[n].role == UPDATE]
            self.variants.append(Variant(" and ".join(tests), names, written, update))
        parameters = list(inspect.signature(self.variants[0].update).parameters)
        self.flags = "flags" in parameters
        self.n_numbers = len(parameters) - len(self.variants[0].tensors) - self.flags
        self.counts = "step" in fields and fields["step"].role == UPDATE
        self.depends = self.counts and "steps" in inspect.signature(self.numbers).parameters

    def call(self, function: str, of: Callable[..., Any]) -> str:
        """A call of a function of settings, flags, single numbers and steps, by the names of its parameters."""
        arguments = []
        for name in inspect.signature(of).parameters:
            if name in ("steps", *self.factors):
                arguments.append(name)
            elif name in self._singles:
                arguments.append(f"single(f, {self._address(name)})")
            else:
                arguments.append("f.flags" if name == "flags" else f"float_of(f.{name})")
        return f"{function}({', '.join(arguments)})"

    def counting(self, when: str) -> list[str]:
        """Lines that find how far single numbers are with this step, and write that where `when` holds."""
        if not self.counts:
            return []
        names = list(self.factors)
        at = self._address
        lines = [f"steps = single(f, {at('step')})", *(f"{name} = single(f, {at(name)})" for name in names)]
        lines += [
            "if f.counted == 0:",
            "    steps = rounded(f, steps + 1.0)",
        ]  # as a launch that is a part reads it
        for name in names:
            factor = self.call(f"factor_{name}", self.factors[name])
            lines.append(f"    {name} = rounded(f, {name} * rounded(f, {factor}))")
        stores = [f"    put_single(f, {at(name)}, {name})" for name in names]
        return [*lines, f"if {when}:", f"    put_single(f, {at('step')}, steps)", *stores]

    def values(self, variant: int, element: Callable[[str], str], extra: list[str]) -> str:
        """The call of an update, of an element of each tensor."""
        arguments = [
            *map(element, self.variants[variant].tensors),
            *extra,
            *(["flags"] if self.flags else []),
        ]
        return f"update{variant}({', '.join(arguments)})"

    def branches(self) -> list[str]:
        """The head of a branch for each variant."""
        heads = [f"{'if' if k == 0 else 'elif'} {v.condition}:" for k, v in enumerate(self.variants)]
        heads[-1] = "else:" if len(heads) > 1 else "if True:"
        return heads


def indented(lines: list[str], by: int) -> list[str]:
    """Lines of text further to the right."""
    return [" " * by + line for line in lines]
