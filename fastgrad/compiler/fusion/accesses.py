"""What launches on a tape read and write: ranges of addresses, and for elementwise ones which element goes where.

What a frame declares is taken as it stands. Of frames that leave an extent open, the rules below know how far they
reach; a launch of any other one may reach anywhere, and nothing is moved across it.

Note [Mappings]: an operand of a launch over `n` elements is an address, a dtype and a mapping: pairs of a size and a
stride from the innermost on, whose sizes multiply to `n`. Neighbouring pairs are merged wherever the strides allow, so
that equal mappings are equal tuples, however the dimensions of the launch were grouped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from fastgrad.native.contracts.element_types import ITEMSIZES
from fastgrad.native.contracts.frame import READ, ROOM, SCRATCH, WRITE, Frame
from fastgrad.native.contracts.frames import multi_tensor
from fastgrad.native.contracts.frames.matrices import PANEL_COLUMNS
from fastgrad.native.contracts.limits import FRAME_DIMS

Mapping = tuple[tuple[int, int], ...]


class Range(NamedTuple):
    """Memory that a launch reads or writes: addresses from `low` to before `high`."""

    low: int
    high: int
    reads: bool
    writes: bool


class Operand(NamedTuple):
    """An operand of an elementwise launch or of a reduction."""

    address: int
    dtype: int
    mapping: Mapping

    @property
    def low(self) -> int:
        """Where it begins."""
        return self.address

    @property
    def high(self) -> int:
        """The address behind it."""
        last = sum((size - 1) * stride for size, stride in self.mapping)
        return self.address + (last + 1) * ITEMSIZES[self.dtype]


def mapping_of(dims: list[tuple[int, int]] | Mapping) -> Mapping:
    """The mapping with these sizes and strides, from the innermost on: see Note [Mappings]."""
    merged: list[tuple[int, int]] = []
    for size, stride in dims:
        if size == 1:
            continue
        if merged and stride == merged[-1][0] * merged[-1][1]:
            merged[-1] = (merged[-1][0] * size, merged[-1][1])
        else:
            merged.append((size, stride))
    return tuple(merged)


def is_injective(mapping: Mapping) -> bool:
    """Whether no two places of a launch are surely one element."""
    reach = 1
    for size, stride in sorted(mapping, key=lambda pair: pair[1]):
        if stride < reach:
            return False
        reach = (size - 1) * stride + reach
    return True


# --- any launch ------------------------------------------------------------------------------------------------


def ranges(kernel: Any, dtype: int, form: int, words: tuple[int, ...]) -> list[Range] | None:
    """The memory that a launch reads and writes; None where that is not known."""
    frame: Frame = kernel.frame(form)
    found = []
    for place, name in frame.addresses.items():
        address = words[place] if place < len(words) else 0
        role = frame.roles[name].role
        if address == 0:
            continue
        if role == SCRATCH:
            pieces = words[place + 2] if frame.roles[name].part is ROOM else 1
            length = words[place + 1] * pieces
        else:
            elements = _elements(frame, name, place, words)
            if elements is None:
                return None
            length = elements * ITEMSIZES[frame.element(name, dtype)]
        if length > 0:
            found.append(Range(address, address + length, role != WRITE, role != READ))
    return found


def _elements(frame: Frame, name: str, place: int, words: tuple[int, ...]) -> int | None:
    """How many elements lie behind an address of a frame."""
    extent = frame.roles[name].extent
    declared = math.prod(words[frame.place(f)] if isinstance(f, str) else f for f in extent)
    rule = _RULES.get(frame.name)
    if rule is not None:
        own = rule(_Words(frame, words), name, place)
        return max(own, declared) if extent and own is not None else own
    return declared if extent else None


class _Words:
    """The words of a frame by name."""

    def __init__(self, frame: Frame, words: tuple[int, ...]) -> None:
        self.frame, self.words = frame, words

    def __getitem__(self, name: str) -> int:
        return self.words[self.frame.place(name)]

    def dims(self, rank: int, sizes: int, strides: int) -> list[tuple[int, int]]:
        return [(self.words[sizes + d], self.words[strides + d]) for d in range(rank)]


def _reach(*dims: tuple[int, int]) -> int:
    """How many neighbouring elements hold those of these sizes and strides."""
    if any(size == 0 for size, _ in dims):
        return 0
    return sum((size - 1) * stride for size, stride in dims) + 1


def _gemm(w: _Words, name: str, place: int) -> int | None:
    if name == "out":
        return _reach((w["batch"], w["step_out"]), (w["m"], w["row_out"]), (w["n"], 1))
    if name == "a":
        rows, columns = (w["k"], w["m"]) if w["a_by_columns"] else (w["m"], w["k"])
        return _reach((w["batch"], w["step_a"]), (rows, w["row_a"]), (columns, 1))
    if w["b_in_panels"]:
        panels = -(-w["n"] // PANEL_COLUMNS)
        return _reach((w["batch"], w["step_b"]), (panels * w["k"] * PANEL_COLUMNS, 1))
    rows, columns = (w["n"], w["k"]) if w["b_by_columns"] else (w["k"], w["n"])
    return _reach((w["batch"], w["step_b"]), (rows, w["row_b"]), (columns, 1))


def _panels(w: _Words, name: str, place: int) -> int | None:
    if name == "out":
        return w["batch"] * w["panels"] * w["k"] * PANEL_COLUMNS
    rows, columns = (w["n"], w["k"]) if w["by_columns"] else (w["k"], w["n"])
    return _reach((w["batch"], w["step"]), (rows, w["row"]), (columns, 1))


def _reduction(w: _Words, name: str, place: int) -> int | None:
    if name == "out":
        return w["results"]
    dims = [pair for part in ("kept", "gone") for pair in _part_dims(w, part)]
    return _reach(*dims)


def _part_dims(w: _Words, part: str) -> list[tuple[int, int]]:
    at = w.frame.place(part)
    return w.dims(w.words[at], at + 1, at + 1 + FRAME_DIMS)


def _strided(w: _Words, name: str, place: int) -> int | None:
    return _reach(*w.dims(w["rank"], w.frame.place("sizes"), place + 1))


def _attention(w: _Words, name: str, place: int) -> int | None:
    if name in ("lse", "scratch"):
        return w["batch"] * w["heads"] * w["queries"]
    batch, head, row = w.words[place + 1 : place + 4]
    of_keys = name in ("k", "v", "grad_k", "grad_v")
    heads = w["heads"] // max(w["group"], 1) if of_keys else w["heads"]
    width = w["keys"] if name == "mask" else w["width"]
    rows = w["keys"] if of_keys else w["queries"]
    return _reach((w["batch"], batch), (max(heads, 1), head), (rows, row), (width, 1))


def _nll(w: _Words, name: str, place: int) -> int | None:
    if name == "x":
        return _reach(
            (w["rows"], w["row_stride"]), (w["classes"], w["class_stride"]), (w["inner"], w["inner_stride"])
        )
    if name == "targets":
        return w["rows"] * w["inner"]
    return w["classes"] if name == "weights" else max(w["rows"] * w["inner"], 1)


def _group(w: _Words, name: str, place: int) -> int | None:
    """One of a group of tensors; a single number, of any dtype, has eight bytes at most."""
    return max(w["n"] if w.frame.roles[name].extent else 0, 8)


def _norm_gradients(w: _Words, name: str, place: int) -> int | None:
    return 2 * w["blocks"] * w["length"] if name == "sums" else 0


def _convolution(w: _Words, name: str, place: int) -> int | None:
    return w["o"] * w["c"] // max(w["groups"], 1) * w["kh"] * w["kw"] if name == "weight" else 0


def _gather(w: _Words, name: str, place: int) -> int | None:
    strides = {"out": "out_strides", "x": "x_strides", "index": "index_strides"}[name]
    along = [(w["length"], w["step"])] if name == "x" else []
    return _reach(*w.dims(w["rank"], w.frame.place("sizes"), w.frame.place(strides)), *along)


def _index(w: _Words, name: str, place: int) -> int | None:
    at = w.frame.place("lengths")
    return w["before"] * math.prod(w.words[at : at + w["count"]]) * w["after"] if name == "x" else 0


_RULES: dict[str, Callable[[_Words, str, int], int | None]] = {
    "gemm": _gemm, "panels": _panels, "reduction": _reduction, "strided": _strided, "attention": _attention,
    "nll": _nll, "norm_gradients": _norm_gradients, "convolution": _convolution, "gather": _gather, "index": _index, **{
        frame.name: _group
        for frame in (
            *multi_tensor.STEPS, multi_tensor.NORM_PART, multi_tensor.SCALE,
            multi_tensor.UNSCALE, multi_tensor.CLIP,
        )
    },
}  # fmt: skip


# --- launches that can be fused --------------------------------------------------------------------------------


def operands(kernel: Any, dtype: int, form: int, words: tuple[int, ...]) -> Iterator[Operand]:
    """The operands of an elementwise launch: the result first, then those that it reads."""
    frame: Frame = kernel.frame(form)
    w = _Words(frame, words)
    strided = frame.name == "strided"
    first = frame.place("out") + 1 if strided else 0
    is_turned = (
        strided and w["rank"] > 1 and words[first] > words[first + 1]
    )  # see `launch.strided.put_second_first`
    for name in ("out", *kernel.inputs):
        at = frame.place(name)
        if strided:
            dims = w.dims(w["rank"], frame.place("sizes"), at + 1)
            if is_turned:
                dims[:2] = reversed(dims[:2])
        else:
            dims = [(w["n"], 1)]
        address = words[at] if at < len(words) else 0
        yield Operand(address, frame.element(name, dtype), mapping_of(dims))


class Reduced(NamedTuple):
    """A reduction, from `x` to `out`.

    Attributes
    ----------
    out, x : Operand
        Where rows are reduced, the result has a place for each row; where columns are, it lies below the elements.
    length : int
        Elements of a row.
    grain : int
        0 where rows are reduced; else how many rows become one.
    """

    out: Operand
    x: Operand
    length: int
    grain: int


def reduced(kernel: Any, dtype: int, form: int, words: tuple[int, ...]) -> Reduced | None:
    """What a reduction does, if each result comes of neighbouring elements, or neighbours of neighbouring rows."""
    frame: Frame = kernel.frame(form)
    w = _Words(frame, words)
    kept, gone = _part_dims(w, "kept"), _part_dims(w, "gone")
    element = frame.element("out", dtype)
    if len(gone) != 1 or gone[0][0] < 2:
        return None
    if gone[0][1] in (0, 1):
        out = Operand(w["out"], element, mapping_of([(w["results"], 1)]))
        return Reduced(out, Operand(w["x"], dtype, mapping_of([*gone, *kept])), gone[0][0], 0)
    columns, *blocks = kept
    if columns[0] < 2 or columns[1] not in (0, 1) or len(blocks) > 1:
        return None
    rows = gone[0][0]
    mapping = mapping_of([columns, (rows, 0), *((count, columns[0]) for count, _ in blocks)])
    x = Operand(w["x"], dtype, mapping_of([columns, *gone, *blocks]))
    return Reduced(Operand(w["out"], element, mapping), x, columns[0], rows)
