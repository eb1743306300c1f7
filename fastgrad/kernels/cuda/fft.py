"""Fourier transforms on the CUDA device: rows that a block holds in its memory, longer ones in two passes.

A block transforms as many rows as its memory holds, by stages that each take one factor of the length (Stockham: what a
stage writes, the next one reads in order, and nothing is reversed). Factors of 2, 3, 4, 5 and 7 have butterflies of
their own, another prime p is a sum of p terms. The roots of unity of a length are made once for each block, each from a
fraction of the turn that is exact: integers bring it to an eighth of a turn before anything is rounded.

A longer row of ``first * second`` elements is taken for a matrix (Bailey's four steps): one pass transforms its
columns, turns each element by its root of the whole length, and writes columns as rows. The next one transforms what
lies `first` apart, and writes each element where such a one was read, so the second pass works in its own memory.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from fastgrad.kernels.cuda.builder import Body
from fastgrad.kernels.cuda.device import (
    Element,
    Target,
    barrier,
    block,
    blocks,
    float_of,
    imag,
    make,
    real,
    thread,
)
from fastgrad.kernels.cuda.places import split
from fastgrad.native.contracts.cuda import PLAIN, STEPPED
from fastgrad.native.contracts.element_types import ITEMSIZES, complex_of, real_of
from fastgrad.native.contracts.frames.framed import FFT_BYTES

THREADS = 256
BUTTERFLIES = (4, 2, 3, 5, 7)
"""Factors that are tried in this order."""
TERMS = 32
"""Of a sum over a prime, that are added before they are added to others."""


class _Rows(NamedTuple):
    """How a kernel reads and writes the elements of a row: ``read(f, row, i)`` and ``write(f, row, k, z)``."""

    read: Any
    write: Any


def whole(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """Complex rows to complex rows."""
    e = target.elements[dtype]
    load, store = e.load, e.store

    def read(f, row, i):
        return load(f.x.data, row * f.length + i)

    def write(f, row, k, z):
        store(f.out, row * f.length + k, z)

    return _body(_Rows(read, write), dtype, target, threads, kernel.options["loop"] == "ifft", True)


def of_reals(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """Real rows to complex rows."""
    load, store = target.elements[dtype].load, target.elements[complex_of(dtype)].store
    zero = target.elements[dtype].constant(0)

    def read(f, row, i):
        return make(load(f.x.data, row * f.length + i), zero)

    def write(f, row, k, z):
        store(f.out, row * f.length + k, z)

    return _body(_Rows(read, write), dtype, target, threads, bool(kernel.options["inverse"]), True)


def to_half(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """Real rows to the first half of their transforms; what stands for two frequencies is multiplied by a weight."""
    part = target.elements[dtype]
    load, store, zero = part.load, target.elements[complex_of(dtype)].store, part.constant(0)
    factor = part.constant(kernel.options["weight"])

    def read(f, row, i):
        return make(load(f.x.data, row * f.length + i), zero)

    def write(f, row, k, z):
        if k < f.half:
            store(f.out, row * f.half + k, z * factor if k > 0 and 2 * k < f.length else z)

    return _body(_Rows(read, write), dtype, target, threads, False, False)


def from_half(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """The first half of transforms of real rows to these rows; what stands for two frequencies may count half.

    Where an element stands for one frequency, its imaginary part is none of a real row's.
    """
    part, load = target.elements[real_of(dtype)], target.elements[dtype].load
    store, zero, factor = part.store, part.constant(0), part.constant(kernel.options["weight"])

    def read(f, row, i):
        z = load(f.x.data, row * f.half + min(i, f.length - i))
        if i == 0 or 2 * i == f.length:
            return make(real(z), zero)
        return make(real(z) * factor, (imag(z) if 2 * i < f.length else -imag(z)) * factor)

    def write(f, row, k, z):
        store(f.out, row * f.length + k, real(z))

    return _body(_Rows(read, write), dtype, target, threads, True, False)


def _body(rows: _Rows, dtype: int, target: Target, threads: int, inverse: bool, long: bool) -> Body:
    code = complex_of(dtype)
    element, part = target.elements[code], target.elements[real_of(code)]
    room = FFT_BYTES // ITEMSIZES[code]
    tools = _Tools(
        element, part, room, _root(part, inverse),
        _transform(element, part, threads, inverse), threads,
    )  # fmt: skip
    work = (_passes if long else _single)(rows, tools)
    room_a, room_b, room_roots = (element.shared(room) for _ in range(3))

    def run(f):
        work(f, room_a(), room_b(), room_roots())

    kind, steps = (STEPPED, "passes") if long else (PLAIN, "")
    return Body(run, ("rows", "length"), room, threads, kind, resident=threads, steps=steps)


# --- which elements a block has --------------------------------------------------------------------------------


class _Tools(NamedTuple):
    """What kernels are made of; `room` is how many elements a block holds."""

    element: Element
    part: Element
    room: int
    root: Any
    transform: Any
    threads: int


def _single(rows: _Rows, tools: _Tools) -> Any:
    """Rows that fit into a block's memory, some of them at once where they are short."""
    read, write, number, room, threads = rows.read, rows.write, tools.part.constant, tools.room, tools.threads
    get, put, transform, prepare = tools.element.get, tools.element.put, tools.transform, _preparing(tools)

    def single(f, here, there, roots):
        n, scale = f.length, number(float_of(f.scale))
        together, _ = split(room, n)
        prepare(roots, n)
        row = np.int64(block()) * together
        while row < f.rows:
            count = min(together, f.rows - row)
            e = np.int64(thread())
            while e < count * n:
                beside, i = split(e, n)
                put(here, e, read(f, row + beside, i))
                e += threads
            found = transform(here, there, roots, n, count, False)
            e = np.int64(thread())
            while e < count * n:
                beside, k = split(e, n)
                write(f, row + beside, k, get(found, e) * scale)
                e += threads
            barrier()
            row += np.int64(blocks()) * together

    return single


def _passes(rows: _Rows, tools: _Tools) -> Any:
    """The same, and the passes over longer rows, in which a block has some columns that lie side by side."""
    read, write, number, room, threads = rows.read, rows.write, tools.part.constant, tools.room, tools.threads
    get, put, load, root = tools.element.get, tools.element.put, tools.element.load, tools.root
    transform, prepare, single = tools.transform, _preparing(tools), _single(rows, tools)

    def fill(f, here, row, column, count, n, apart):
        e = np.int64(thread())
        while e < count * n:
            i, beside = split(e, count)
            at = i * apart + column + beside
            put(here, e, read(f, row, at) if f.step == 0 else load(f.out, row * f.length + at))
            e += threads

    def empty(f, found, row, column, count, n, scale):
        e = np.int64(thread())
        while e < count * n:
            if f.step == 0:  # columns become rows
                beside, k = split(e, n)
                z = get(found, k * count + beside) * root((column + beside) * k, f.length)
                write(f, row, (column + beside) * n + k, z)
            else:
                k, beside = split(e, count)
                write(f, row, k * f.first + column + beside, get(found, e) * scale)
            e += threads

    def passes(f, here, there, roots):
        if f.passes == 1:
            single(f, here, there, roots)
            return
        second, _ = split(f.length, f.first)
        n, columns = (f.first, second) if f.step == 0 else (second, f.first)
        scale, unit = number(float_of(f.scale)), np.int64(block())
        together, _ = split(room, n)
        groups = (columns + together - 1) // together
        prepare(roots, n)
        while unit < f.rows * groups:
            row, group = split(unit, groups)
            column = group * together
            count = min(together, columns - column)
            fill(f, here, row, column, count, n, columns)
            found = transform(here, there, roots, n, count, True)
            empty(f, found, row, column, count, n, scale)
            barrier()
            unit += blocks()

    return passes


def _preparing(tools: _Tools) -> Any:
    put, root, threads = tools.element.put, tools.root, tools.threads

    def prepare(roots, n):
        k = np.int64(thread())
        while k < n:
            put(roots, k, root(k, n))
            k += threads

    return prepare


def _root(part: Element, inverse: bool) -> Any:
    """``root(k, n)``: of the n-th roots of unity the one after k of n steps, in the direction of a transform.

    Integers find the quarter of the turn, and the way from the nearer end of it: at most an eighth, which is rounded
    once.
    """
    number, sign, sinpi, cospi = (
        part.constant,
        part.constant(1 if inverse else -1),
        part.math.sinpi,
        part.math.cospi,
    )

    def root(k, n):
        quarter, rest = split(4 * k, n)
        beyond = 2 * rest > n
        way = number(n - rest if beyond else rest) / number(2 * n)
        sine, cosine = sinpi(way), cospi(way)
        up, across = (cosine, sine) if beyond else (sine, cosine)
        if quarter == 0:
            return make(across, sign * up)
        if quarter == 1:
            return make(-up, sign * across)
        if quarter == 2:
            return make(-across, -sign * up)
        return make(up, -sign * across)

    return root


# --- stages ----------------------------------------------------------------------------------------------------


def _transform(element: Element, part: Element, threads: int, inverse: bool) -> Any:
    """``transform(a, b, roots, n, count, by_columns)``: the room of both in which the transforms of `count` rows are.

    A row's elements are side by side, or with `by_columns` the rows' elements of one number are.
    """
    scope: dict[str, Any] = {
        "np": np, "barrier": barrier, "split": split, "thread": thread, "make": make, "real": real, "imag": imag,
        "get": element.get, "put": element.put, "least_factor": least_factor,
    }  # fmt: skip
    for r in BUTTERFLIES:
        scope |= {f"w{r}_{k}": part.constant(math.cos(2 * math.pi * k / r)) for k in range(r)}
        scope |= {
            f"s{r}_{k}": part.constant(math.sin(2 * math.pi * k / r) * (1 if inverse else -1))
            for k in range(r)
        }
        exec(_stage(r, threads), scope)
    scope["zero"] = element.constant(0)
    exec(_sums(threads), scope)
    lines = [
        "def transform(a, b, roots, n, count, by_columns):",
        "    apart, step = (np.int64(1), count) if by_columns else (n, np.int64(1))",
        "    before, left = np.int64(1), n",
        "    barrier()",
        "    while left > 1:",
    ]
    for k, r in enumerate(BUTTERFLIES):
        lines += [
            f"        {'el' if k else ''}if split(left, {r})[1] == 0:",
            f"            r = np.int64({r})",
            f"            stage_{r}(a, b, roots, n, before, count, apart, step, by_columns)",
        ]
    lines += [
        "        else:",
        "            r = least_factor(left)",
        "            sums(a, b, roots, n, before, r, count, apart, step, by_columns)",
        "        barrier()",
        "        left, before = split(left, r)[0], before * r",
        "        a, b = b, a",
        "    return a",
    ]
    exec("\n".join(lines) + "\n", scope)
    return scope["transform"]


def least_factor(n):
    """The least prime that divides a number which has none below eleven."""
    p = np.int64(11)
    while p * p <= n:
        if split(n, p)[1] == 0:
            return p
        p += 2
    return n


def _stage(r: int, threads: int) -> str:
    """The text of a function that takes a factor r of the length, behind those whose product is `before`."""
    lines = [
        f"def stage_{r}(a, b, roots, n, before, count, apart, step, by_columns):",
        f"    m, _ = split(n, {r})",
        f"    unit, _ = split(n, before * {r})",
        "    t = np.int64(thread())",
        "    while t < count * m:",
        "        high, low = split(t, count if by_columns else m)",
        "        row, j = (low, high) if by_columns else (high, low)",
        "        done, k = split(j, before)",
        "        at = row * apart + j * step",
        "        turn = k * unit",
        "        v0 = get(a, at)",
        *(f"        v{q} = get(a, at + {q} * m * step) * get(roots, {q} * turn)" for q in range(1, r)),
        *("        " + line for line in _butterfly(r)),
        f"        at = row * apart + (done * before * {r} + k) * step",
        *(f"        put(b, at + {q} * before * step, y{q})" for q in range(r)),
        f"        t += {threads}",
    ]
    return "\n".join(lines) + "\n"


def _butterfly(r: int) -> list[str]:
    """Lines that make the transform ``y`` of r elements ``v``."""
    if r == 2:
        return ["y0, y1 = v0 + v1, v0 - v1"]
    if r == 4:
        return [
            "p, q, u, d = v0 + v2, v0 - v2, v1 + v3, v1 - v3",
            "d = make(-imag(d) * s4_1, real(d) * s4_1)",
            "y0, y1, y2, y3 = p + u, q + d, p - u, q - d",
        ]
    half = range(1, r // 2 + 1)
    lines = [f"p{k}, d{k} = v{k} + v{r - k}, v{k} - v{r - k}" for k in half]
    lines.append("y0 = v0 + " + " + ".join(f"p{k}" for k in half))
    for q in half:
        lines += [
            f"e = v0 + {' + '.join(f'p{k} * w{r}_{q * k % r}' for k in half)}",
            f"o = {' + '.join(f'd{k} * s{r}_{q * k % r}' for k in half)}",
            "o = make(-imag(o), real(o))",
            f"y{q}, y{r - q} = e + o, e - o",
        ]
    return lines


def _sums(threads: int) -> str:
    """The text of a function that takes a prime factor: each element as a sum, by parts of so many terms."""
    return f"""
def sums(a, b, roots, n, before, p, count, apart, step, by_columns):
    m, _ = split(n, p)
    unit, _ = split(m, before)
    t = np.int64(thread())
    while t < count * n:
        high, low = split(t, count if by_columns else n)
        row, i = (low, high) if by_columns else (high, low)
        done, rest = split(i, before * p)
        q, k = split(rest, before)
        at = row * apart + (done * before + k) * step
        _, turn = split(k * unit + q * m, n)
        angle, total, some = np.int64(0), zero, zero
        for term in range(p):
            some += get(a, at + term * m * step) * get(roots, angle)
            angle += turn
            angle -= n if angle >= n else 0
            if term % {TERMS} == {TERMS - 1}:
                total, some = total + some, zero
        put(b, row * apart + i * step, total + some)
        t += {threads}
"""
