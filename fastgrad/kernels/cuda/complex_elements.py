"""Elements of complex dtypes on the CUDA device: pairs of elements of their parts, which lie and move side by side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fastgrad.kernels.cuda import complex_math
from fastgrad.kernels.cuda.device import Element, make
from fastgrad.kernels.specialise import specialised
from fastgrad.native.contracts.element_types import DTYPES, ITEMSIZES


def complex_element(
    code: int, part: Element, constant: Any, words: dict[str, Any], decorate: Callable[[Any], Any]
) -> Element:
    """The element of a complex dtype on a target.

    Parameters
    ----------
    code : int
    part : Element
        That of the dtype of the parts.
    constant : callable
        A number as a complex one.
    words : dict
        What stands for the words of `device`.
    decorate : callable
        What functions are decorated with.
    """
    size = ITEMSIZES[code]
    load_two, store_two, get_two, put_part = part.load_some(2), part.store_some(2), part.get_some(2), part.put
    load_part = part.load_where
    real, imag = words["real"], words["imag"]

    def load(address, i):
        re, im = load_two(address + np.int64(i) * size)
        return make(re, im)

    def store(address, i, value):
        z = constant(value)
        store_two(address + np.int64(i) * size, (real(z), imag(z)))

    def load_where(address, i, condition):
        at = np.int64(i) * 2
        return make(load_part(address, at, condition), load_part(address, at + 1, condition))

    def get(room, i):
        re, im = get_two(room, np.int64(i) * 2)
        return make(re, im)

    def put(room, i, value):
        z = constant(value)
        put_part(room, np.int64(i) * 2, real(z))
        put_part(room, np.int64(i) * 2 + 1, imag(z))

    def made(function: Any) -> Any:
        return specialised(function, words, decorate)

    some = _Some(part, words, constant, made)
    return Element(
        DTYPES[code], size, constant, *map(made, (load, store, load_where)), some.load, some.store,
        lambda count: part.shared(2 * count), made(get), made(put), some.get, some.put,
        complex_math.vocabulary(code, part.math, words, decorate),
    )  # fmt: skip


class _Some:
    """Functions that read and write some elements at once, as twice as many parts."""

    def __init__(self, part: Element, words: dict[str, Any], constant: Any, made: Any) -> None:
        self.part, self.made = part, made
        self.scope = {"make": make, "real": words["real"], "imag": words["imag"], "constant": constant}

    def load(self, count: int) -> Any:
        return self._reading("address", "address", self.part.load_some(2 * count), count)

    def get(self, count: int) -> Any:
        return self._reading("room, i", "room, i * 2", self.part.get_some(2 * count), count)

    def _reading(self, taken: str, given: str, parts: Any, count: int) -> Any:
        numbers = "".join(f"make(p[{2 * k}], p[{2 * k + 1}]), " for k in range(count))
        return self._defined(f"def some({taken}):\n    p = parts({given})\n    return ({numbers})\n", parts)

    def store(self, count: int) -> Any:
        return self._writing("address", "address", self.part.store_some(2 * count), count)

    def put(self, count: int) -> Any:
        return self._writing("room, i", "room, i * 2", self.part.put_some(2 * count), count)

    def _writing(self, taken: str, given: str, parts: Any, count: int) -> Any:
        lines = [f"def some({taken}, values):", *(f"    z{k} = constant(values[{k}])" for k in range(count))]
        each = "".join(f"real(z{k}), imag(z{k}), " for k in range(count))
        return self._defined("\n".join([*lines, f"    parts({given}, ({each}))", ""]), parts)

    def _defined(self, text: str, parts: Any) -> Any:
        scope = {**self.scope, "parts": parts}
        exec(text, scope)
        return self.made(scope["some"])
