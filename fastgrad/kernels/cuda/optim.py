"""Kernels of the CUDA device over groups of tensors: optimizer steps, norms of gradients and their clipping.

One launch takes many groups. Their elements are divided into chunks of one length, and a block takes one of them: it
finds the group in the table behind the parameters (`contracts.cuda.MANY_HEAD`), by halves. Elements are read and
written 16 bytes at a time, several reads of a thread being under way, where the addresses of the group allow it.

The numbers of a step are float64; the first thread computes them for its block. A group of one chunk counts its step by
itself; for others a launch of one block does so before, or the first chunk where no other one reads the number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from fastgrad.kernels.cuda.builder import Body
from fastgrad.kernels.cuda.device import (
    Element,
    Target,
    barrier,
    block,
    float_of,
    opaque,
    thread,
    where,
    word_of,
)
from fastgrad.kernels.cuda.teams import TOGETHER, folding_one, plain_sum
from fastgrad.kernels.keys import VOCABULARY
from fastgrad.kernels.specialise import specialised
from fastgrad.kernels.steps import Step, indented
from fastgrad.native.contracts.cuda import COUNTING_TURN, COUNTS_BEFORE, MANY, SUMMING_TURN, SUMS_AFTER
from fastgrad.native.contracts.element_types import FLOAT32, FLOAT64
from fastgrad.native.contracts.frame import READ, UPDATE

THREADS = 256
BYTES = 16  # of one access
AT_ONCE, EACH = 2, 8  # accesses of a thread to each tensor, and elements, whose reads are under way together
CHUNK = 4096  # elements of the shortest chunk
RESIDENT = 512
"""Threads that a multiprocessor has room for at least: they have more bytes under way than memory takes."""
OWN_WORDS = 2  # of a group in the table, before its addresses


class Groups(NamedTuple):
    """The frame of a kernel over groups.

    Attributes
    ----------
    names : tuple of str
        Of the tensors of a group, in order.
    element : Element
    threads : int
    """

    names: tuple[str, ...]
    element: Element
    threads: int

    def address(self, name: str) -> str:
        """The variable of a kernel that holds the address of a tensor of its group."""
        return f"a_{name}"

    def addresses(self) -> list[str]:
        """Lines that read the addresses of the group whose words begin `at` a place."""
        return [
            f"{self.address(n)} = word_of(f.table, at + {OWN_WORDS + k})" for k, n in enumerate(self.names)
        ]

    def chunk(self) -> list[str]:
        """Lines that find this block's chunk: the elements from `low` to `high` of the group `at` a place."""
        return [
            "at = place_of_group(f)",
            f"earlier = word_of(f.table, at - {self.words}) if at > 0 else np.int64(0)",
            "low = (np.int64(block()) - earlier) * f.chunk",
            "high = min(low + f.chunk, word_of(f.table, at + 1))",
            *self.addresses(),
        ]

    @property
    def words(self) -> int:
        """Of a group in the table."""
        return OWN_WORDS + len(self.names)

    def body(self, text: Sequence[str], target: Target, turns: int = 0, **scope: Any) -> Body:
        """The kernel with such a text, of which `scope` has what it reads besides elements."""
        e, lanes = self.element, BYTES // self.element.size
        scope |= {
            "np": np, "block": block, "thread": thread, "word_of": word_of, "opaque": opaque, "float_of": float_of,
            "cast": e.constant, "load": e.load, "store": e.store, "load_some": e.load_some(lanes),
            "store_some": e.store_some(lanes),
            "place_of_group": _search(self.words), "single": target.decorate(_singles(target)[0]),
        }  # fmt: skip
        exec("\n".join(["def run(f):", *indented(list(text), 4)]) + "\n", scope)
        return Body(
            scope["run"], (), CHUNK, self.threads, MANY, resident=RESIDENT, moved=len(self.names), turns=turns
        )

    def loops(
        self,
        names: Sequence[str],
        written: Sequence[str],
        value: Callable[[Callable[[str], str]], str],
        first: Sequence[str] = (),
    ) -> list[str]:
        """Lines that go through the elements of a chunk.

        Parameters
        ----------
        names, written : sequence of str
            Tensors that are read, and those of them that are written.
        value : callable
            Gives the text of the tuple of new values, from what gives that of an element of a tensor.
        first : sequence of str
            Lines that are done before some elements are computed, each time.
        """
        size, lanes = self.element.size, BYTES // self.element.size
        accesses = min(AT_ONCE, EACH // lanes)
        whole = accesses * lanes * self.threads
        together = " | ".join(map(self.address, names))
        lines = ["base = low", f"if ({together}) & {BYTES - 1} == 0:", f"    while base + {whole} <= high:"]
        lines += indented([*first, *self._accesses(names, written, value, size, lanes, accesses)], 8)
        lines += [f"        base += {whole}"]
        places, further = [f"i + {k * self.threads}" for k in range(AT_ONCE)], (AT_ONCE - 1) * self.threads
        lines += ["i = base + thread()", f"while i + {further} < high:"]
        lines += indented([*first, *self._elements(written, value, places)], 4)
        lines += [
            f"    i += {AT_ONCE * self.threads}",
            "if i < high:  # there is one more, as two are read at once",
        ]
        return [*lines, *indented([*first, *self._elements(written, value, ["i"])], 4)]

    def _accesses(
        self, names: Sequence[str], written: Sequence[str], value: Any, size: int, lanes: int, accesses: int
    ) -> list[str]:
        """The lines for what a thread reads by some accesses: all are done before the first element is written."""
        lines = []
        for k in range(accesses):
            lines.append(f"o{k} = (base + (thread() + {k * self.threads}) * {lanes}) * {size}")
            lines += [f"x{k}_{n} = load_some({self.address(n)} + o{k})" for n in names]
        for k in range(accesses):
            for lane in range(lanes):
                of_lane = value(lambda name, k=k, lane=lane: f"x{k}_{name}[{lane}]")
                lines.append(f"v{k}_{lane} = {of_lane}")
            for j, name in enumerate(written):
                values = ", ".join(f"v{k}_{lane}[{j}]" for lane in range(lanes))
                lines.append(f"store_some({self.address(name)} + o{k}, ({values}))")
        return lines

    def _elements(self, written: Sequence[str], value: Any, places: Sequence[str]) -> list[str]:
        """The lines for the elements at some places: all are read before the first one is written."""
        lines = [
            f"v{k} = {value(lambda name, place=place: f'load({self.address(name)}, {place})')}"
            for k, place in enumerate(places)
        ]
        return lines + [
            f"store({self.address(name)}, {place}, v{k}[{j}])"
            for k, place in enumerate(places)
            for j, name in enumerate(written)
        ]


def _groups(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int) -> Groups:
    fields = kernel.frame(layout_class).declared.items()
    names = tuple(name for name, field in fields if field.role in (READ, UPDATE))
    return Groups(names, target.elements[dtype], threads)


def _search(words: int) -> Any:
    """A function that finds where the words of this block's group begin in the table, of so many for each group."""

    def place_of_group(f):
        low, high = np.int32(0), np.int32(f.n_frames - 1)
        while low < high:
            middle = np.int32((low + high) >> 1)
            if word_of(f.table, middle * words) > block():
                high = middle
            else:
                low = np.int32(middle + 1)
        return np.int32(low * words)

    return place_of_group


def _singles(target: Target) -> tuple[Any, Any, Any]:
    """Functions that read and write a single number, and that round to what it is."""
    wide, small = target.elements[FLOAT64], target.elements[FLOAT32]
    number, put_number, small_number, put_small = wide.load, wide.store, small.load, small.store

    def single(f, address):
        return number(address, 0) if f.single == FLOAT64 else np.float64(small_number(address, 0))

    def put_single(f, address, value):
        if f.single == FLOAT64:
            put_number(address, 0, value)
        else:
            put_small(address, 0, np.float32(value))

    def rounded(f, value):
        return value if f.single == FLOAT64 else np.float64(np.float32(value))

    return single, put_single, rounded


# --- steps -----------------------------------------------------------------------------------------------------


def step(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """The step of an optimizer."""
    groups = _groups(kernel, dtype, layout_class, target, threads)
    of = Step(kernel, layout_class, groups.address)
    e, wide = groups.element, target.elements[FLOAT64]

    def made(function: Any, element: Any) -> Any:
        vocabulary = dict(zip(VOCABULARY, (element.math, element.constant), strict=True))
        return specialised(function, vocabulary, target.decorate)

    _, put_single, rounded = _singles(target)
    scope: dict[str, Any] = {
        "barrier": barrier, "get": e.get, "put": e.put, "room": e.shared(of.n_numbers),
        "put_single": target.decorate(put_single), "rounded": target.decorate(rounded),
        "numbers": made(of.numbers, wide),
    }  # fmt: skip
    scope |= {f"factor_{name}": made(function, wide) for name, function in of.factors.items()}
    scope |= {f"update{k}": made(v.update, e) for k, v in enumerate(of.variants)}
    return groups.body(_step_text(of, groups), target, COUNTS_BEFORE if of.depends else 0, **scope)


def _step_text(of: Step, groups: Groups) -> list[str]:
    work = _work_text(of, groups)
    if not of.depends:
        return work
    return [
        f"if f.chunk == {COUNTING_TURN}:",
        "    group = np.int32(thread())",
        "    while group < f.n_frames:",
        f"        at = group * {groups.words}",
        *indented(groups.addresses(), 8),
        *indented(of.counting("True"), 8),
        f"        group += {groups.threads}",
        "else:",
        *indented(work, 4),
    ]


def _work_text(of: Step, groups: Groups) -> list[str]:
    """The first thread of each block finds the numbers, and that of a group's first chunk counts."""
    extra = [f"q{i}" for i in range(of.n_numbers)]
    lines = [
        "shared = room()",
        *groups.chunk(),
        "if thread() == 0:",
        *indented(of.counting("f.counted == 0 and low == 0"), 4),
        f"    q = {of.call('numbers', of.numbers)}",
        *(f"    put(shared, {i}, cast(q[{i}]))" for i in range(of.n_numbers)),
        "barrier()",
        *(f"q{i} = get(shared, {i})" for i in range(of.n_numbers)),
    ]
    # Were these known not to change, loops would be copied for what they say, and with the places of sums in a formula
    # the compiler would change which products are rounded: an element would depend on how its tensor lies.
    flags = ["flags = opaque(f.flags)"] if of.flags else []
    for k, head in enumerate(of.branches()):
        variant = of.variants[k]
        loops = groups.loops(
            variant.tensors, variant.written, lambda element, k=k: of.values(k, element, extra), flags
        )
        lines += [head, *indented(loops, 4)]
    return lines


# --- scaling and clipping --------------------------------------------------------------------------------------


def scale(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """Multiply a tensor by a number that is a tensor as well. A factor of 1 costs nothing."""
    groups = _groups(kernel, dtype, layout_class, target, threads)
    lines = [
        *groups.chunk(),
        "factor = single(f, a_factor)",
        "if factor != 1.0:",
        "    by = cast(factor)",
        *indented(groups.loops(["tensor"], ["tensor"], lambda element: f"({element('tensor')} * by,)"), 4),
    ]
    return groups.body(lines, target)


def unscale(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """Multiply a tensor by a number, and note in another one whether an element of it was infinite or NaN.

    Whoever finds one writes the same, so nothing has to be added up.
    """
    groups = _groups(kernel, dtype, layout_class, target, threads)
    put_single, absolute = target.decorate(_singles(target)[1]), groups.element.math.abs
    infinite = groups.element.constant(np.inf)

    def multiplied(f, found_inf, x, by):
        if not absolute(x) < infinite:
            put_single(f, found_inf, 1.0)
        return (x * by,)

    def value(element):
        return f"multiplied(f, a_found_inf, {element('tensor')}, by)"

    lines = [*groups.chunk(), "by = cast(float_of(f.inverse))", *groups.loops(["tensor"], ["tensor"], value)]
    return groups.body(lines, target, multiplied=target.decorate(multiplied))


def clip(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """Bring the elements of a tensor into the range from minus a bound to that bound. NaN stays."""
    groups = _groups(kernel, dtype, layout_class, target, threads)
    math = groups.element.math

    def value(element):
        return f"(minimum(maximum({element('tensor')}, -bound), bound),)"

    lines = [*groups.chunk(), "bound = cast(float_of(f.bound))", *groups.loops(["tensor"], ["tensor"], value)]
    return groups.body(lines, target, minimum=math.minimum, maximum=math.maximum)


# --- norms -----------------------------------------------------------------------------------------------------


def norm_part(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """Add the parts of tensors to the sum behind a norm; for the infinite orders take the larger or smaller one.

    Sums are float64. A block writes what it finds in its chunk to `parts`, and one block puts that together behind
    them, in an order that sizes alone decide. For order 0, which counts the tensors that are not zero, the first chunk
    of a tensor is all of it.
    """
    groups = _groups(kernel, dtype, layout_class, target, threads)
    wide = target.elements[FLOAT64]
    lines = [
        f"if f.chunk == {SUMMING_TURN}:",
        f"    put_together(f, word_of(f.table, {OWN_WORDS + groups.names.index('total')}))",
        "else:",
        *indented(groups.chunk(), 4),
        "    if float_of(f.order) == 0.0:",
        "        high = word_of(f.table, at + 1) if low == 0 else low",
        "    find_part(f, a_tensor, low, high)",
    ]
    return groups.body(
        lines,
        target,
        SUMS_AFTER,
        find_part=_part(groups, wide, target),
        put_together=_total(wide, target, threads),
    )


def _part(groups: Groups, wide: Element, target: Target) -> Any:
    """A function that writes what the elements of a chunk come to."""
    threads, load, lanes = groups.threads, groups.element.load, BYTES // groups.element.size
    load_some, size = groups.element.load_some(lanes), groups.element.size
    absolute, maximum, minimum, power = wide.math.abs, wide.math.maximum, wide.math.minimum, wide.math.pow
    put_number, infinite = wide.store, np.inf
    fold_sum, fold_greatest, fold_least = (
        folding_one(target, combine, FLOAT64, threads) for combine in (plain_sum, maximum, minimum)
    )

    def combined(found, element, order):
        x = absolute(np.float64(element))
        if order == 2.0:
            return found + x * x
        if order == infinite or order == 0.0:
            return maximum(found, x)
        if order == -infinite:
            return minimum(found, x)
        return found + (x if order == 1.0 else power(x, order))

    def find_part(f, address, low, high):
        order = float_of(f.order)
        found, i = (infinite if order == -infinite else 0.0), low
        if address & (BYTES - 1) == 0:
            while i + threads * lanes <= high:
                some = load_some(address + (i + thread() * lanes) * size)
                for lane in range(lanes):
                    found = combined(found, some[lane], order)
                i += threads * lanes
        i += thread()
        while i < high:
            found = combined(found, load(address, i), order)
            i += threads
        if order == infinite:
            found = fold_greatest(found, TOGETHER)
        elif order == -infinite:
            found = fold_least(found, TOGETHER)
        elif order == 0.0:
            found = where(fold_greatest(found, TOGETHER) != 0.0, 1.0, 0.0)
        else:
            found = fold_sum(found, TOGETHER)
        if thread() == 0:
            put_number(f.parts.data, f.before + block(), found)

    return find_part


def _total(wide: Element, target: Target, threads: int) -> Any:
    """A function that puts together what chunks have come to."""
    number, put_number, infinite = wide.load, wide.store, np.inf
    maximum, minimum = wide.math.maximum, wide.math.minimum
    fold_sum, fold_greatest, fold_least = (
        folding_one(target, combine, FLOAT64, threads) for combine in (plain_sum, maximum, minimum)
    )

    def put_together(f, total):
        order, i = float_of(f.order), np.int64(thread())
        found = infinite if order == -infinite else 0.0
        while i < f.before:
            part = number(f.parts.data, i)
            if order == infinite:
                found = maximum(found, part)
            else:
                found = minimum(found, part) if order == -infinite else found + part
            i += threads
        if order == infinite:
            found = maximum(number(total, 0), fold_greatest(found, TOGETHER))
        elif order == -infinite:
            found = minimum(number(total, 0), fold_least(found, TOGETHER))
        else:
            found = number(total, 0) + fold_sum(found, TOGETHER)
        if thread() == 0:
            put_number(total, 0, found)

    return put_together
