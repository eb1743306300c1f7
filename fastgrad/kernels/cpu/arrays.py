"""Users' ops on arrays: a function of arrays and numbers, and around it what makes these of the words of a frame.

The row of such a kernel says in its options what the function is, and of each of its parameters what it is made of.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from numba import types

from fastgrad.kernels.cpu.functions import (
    OPTIONS,
    REFUSED,
    SCALARS,
    array_of,
    compiled,
    explained,
    reporting,
)
from fastgrad.native.base.intrinsics import float_of, words
from fastgrad.native.contracts.frame import FUNCTION_RAISED, READ
from fastgrad.native.contracts.frames.framed import FRAMED

_WRAPPER = reporting(FRAMED, FUNCTION_RAISED)
# How a word becomes a number, and its type, by kinds of constants.
_NUMBERS = {
    "float": ("float_of(w[{}])", types.float64),
    "int": ("w[{}]", types.int64),
    "bool": ("w[{}] != 0", types.boolean),
}


def build(
    kernel: Any, dtype: int, layout_class: int
) -> tuple[Callable[..., None], dict[str, Any], dict[str, Any]]:
    """The kernel that calls a function: its options are `function`, `called` (what messages say), `checks` (whether
    indices are looked at), `numba` (options), and `arguments`. Of these each is a kind of number and a field, or
    ``"array"``, a field and those of the sizes.
    """
    of = kernel.options
    function, frame = of["function"], kernel.frame()
    own = {name: set(value) if isinstance(value, tuple) else value for name, value in of["numba"]}
    options = {**OPTIONS, **own, "boundscheck": of["checks"]}
    scope: dict[str, Any] = {"words": words, "float_of": float_of}
    taken, texts = [], []
    within = functools.partial(
        explained, f"{of['called']} for {SCALARS[dtype]}", function, "it", "room in further outputs"
    )
    with within():
        for k, (kind, field, *sizes) in enumerate(of["arguments"]):
            at = frame.place(field)
            if kind == "array":
                places = tuple(frame.place(size) for size in sizes)
                readonly = frame.roles[field].role == READ
                scope[f"array{k}"], made = array_of(SCALARS[frame.element(field, dtype)], places, readonly)
                text = f"array{k}(w[{at}], w)"
            else:
                text, made = _NUMBERS[kind][0].format(at), _NUMBERS[kind][1]
            taken.append(made)
            texts.append(text)
        results = "its results are what it writes to the arrays of its outputs"
        scope["function"] = compiled(of["called"], function, options, taken, results)
        exec(f"def run(frame):\n    w = words(frame)\n    function({', '.join(texts)})\n", scope)
    around = {**OPTIONS, "error_model": options["error_model"]}
    return scope["run"], around, {"wrapper": _WRAPPER, "refused": REFUSED, "within": within()}
