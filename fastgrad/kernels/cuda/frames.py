"""Frames as kernels of the CUDA device get them: the words are parameters, and become a tuple with the fields' names.

``f.n`` is a word, ``f.kept.sizes[d]`` one of the words of a part. Words of which there are several are tuples, so they
are indexed by constants alone: nothing then is ever written to memory.
"""

from __future__ import annotations

import functools
from collections import namedtuple
from collections.abc import Sequence
from typing import Any, NamedTuple

from fastgrad.native.contracts.cuda import DIVIDED, DIVISORS, MANY, MANY_HEAD, STEPPED
from fastgrad.native.contracts.frame import Frame


class View(NamedTuple):
    """How the words of a frame become a tuple.

    Attributes
    ----------
    expression : str
        The tuple as text, in which ``w[k]`` stands for the k-th word.
    scope : dict
        What the text reads.
    n_words : int
        How many words it takes of the frame.
    """

    expression: str
    scope: dict[str, Any]
    n_words: int

    def read(self, words: Sequence[Any]) -> Any:
        """The tuple of these words."""
        return eval(self.expression, {**self.scope, "w": words})


_TAKEN = (
    "index",
)  # what Numba's tuples have under such names; there is an underscore behind those of fields


@functools.cache
def view(declared: Frame, kind: int, repeats: int | None = None) -> View:
    """How a frame is seen; `repeats` is of how many of the last field there are, if not of all.

    Of a last field that has names there are as many as have one: shape rules write and launch no more. Behind the words
    that a divided launch takes of its frame stand its divisors, behind those of a stepped one the number of the step,
    behind those of one over many frames their head, and a table that `device.word_of` reads.
    """
    scope: dict[str, Any] = {}
    names: list[str] = []
    values: list[str] = []
    last = list(declared.declared)[-1]
    n_words = 0
    for name, field in declared.declared.items():
        at = declared.fields[name][0]
        count = field.count
        if name == last:
            count = repeats if repeats is not None else len(field.singles) or count
        singles = [_word_or_part(declared, name, at + k * field.words, scope) for k in range(count)]
        names.append(f"{name}_" if name in _TAKEN else name)
        values.append(singles[0] if field.count == 1 else f"({''.join(s + ', ' for s in singles)})")
        for single, value in zip(field.singles, singles, strict=False):
            names.append(single)
            values.append(value)
        n_words = at + count * field.words
    if kind == DIVIDED:
        names.append("divisors")
        values.append(f"({''.join(f'w[{n_words + d}], ' for d in range(DIVISORS))})")
    if kind == STEPPED:
        names.append("step")
        values.append(f"w[{n_words}]")
    if kind == MANY:
        names += [*MANY_HEAD.fields, "table"]
        values += [f"w[{n_words + k}]" for k in range(MANY_HEAD.words + 1)]
    scope["View"] = namedtuple("View", names)
    return View(f"View({', '.join(values)})", scope, n_words)


def _word_or_part(declared: Frame, name: str, at: int, scope: dict[str, Any]) -> str:
    part = declared.declared[name].part
    if part is None:
        return f"w[{at}]"
    scope[part.name] = namedtuple(part.name, list(part.fields))
    values = []
    for place, count in part.fields.values():
        words = "".join(f"w[{at + place + k}], " for k in range(count))
        values.append(f"({words})" if count > 1 else words.rstrip(", "))
    return f"{part.name}({', '.join(values)})"
