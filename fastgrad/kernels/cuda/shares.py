"""What a thread has of a row: a few elements that stand in registers, read and written together.

A *share* is a tuple of elements in pieces of `width`, which lie side by side and are one access each: 16 bytes, or a
single element where rows are scattered in memory or begin anywhere. All accesses of a share are under way at once. The
threads of a row take its pieces in turn, so neighbours read what lies side by side. What all their shares hold
together is a *stretch* of the row; a row that is no longer than one is read from memory once.

Where a row ends within a stretch, what lies behind its end is read from its last piece instead, and neither added up
nor written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from fastgrad.kernels.cuda.device import Element, where
from fastgrad.kernels.cuda.teams import PER_THREAD
from fastgrad.native.contracts.element_types import FLOAT64

ACCESS = 16  # bytes


class Share(NamedTuple):
    """Functions over the shares of one kind; ``s`` stands for where a share begins, see `starts`.

    Attributes
    ----------
    width, count : int
        Elements of a piece, and of a share.
    starts : callable
        ``starts(first, lane, lanes, length)``: where the share of a thread begins, among so many, in the stretch that
        begins with the element `first` of a row. It gives ``(element, from piece to piece, length)``.
    read : callable
        ``read(f, address, row, s)``.
    spread : callable
        The same, but that each piece is its first element, so many times.
    write : callable
        ``write(f, address, row, s, values)``.
    total : callable
        ``total(values, s)``, the sum of those that belong to the row.
    """

    width: int
    count: int
    starts: Any
    read: Any
    spread: Any
    write: Any
    total: Any


def resident(dtype: int, shares: int) -> int:
    """Threads that a multiprocessor has room for, if they keep so many shares of a dtype: see `Body`."""
    return 512 if dtype == FLOAT64 else 1024 if shares == 1 else 768


def share_of(element: Element, pieces: int, width: int, place: Any) -> Share:
    """Shares of so many pieces; ``place(f, row, k)`` is where the k-th element of a row lies, in elements."""
    scope: dict[str, Any] = {
        "where": where, "place": place, "zero": element.constant(0),
        "load": element.load, "load_some": element.load_some(width) if width > 1 else None,
        "store": element.store_some(width) if width > 1 else element.store,
    }  # fmt: skip

    def starts(first, lane, lanes, length):
        return first + lane * width, lanes * width, length

    def made(name: str, parameters: str, lines: list[str]) -> Any:
        exec(f"def {name}({parameters}):\n" + "".join(f"    {line}\n" for line in lines), scope)
        return scope[name]

    each, last, within = range(pieces), f"s[2] - {width}", range(width)
    lines = [f"k{p} = s[0] + {p} * s[1]" for p in each]
    firsts = [f"a{p} = load(address, place(f, row, min(k{p}, {last})))" for p in each]
    repeated = f"return ({''.join(f'a{p}, ' * width for p in each)})"
    reads, found = firsts, repeated
    writes = [f"store(address, place(f, row, k{p}), values[{p}])" for p in each]
    if width > 1:
        reads = [
            f"a{p} = load_some(address + place(f, row, min(k{p}, {last})) * {element.size})" for p in each
        ]
        found = f"return ({''.join(f'a{p}[{j}], ' for p in each for j in within)})"
        values = [", ".join(f"values[{p * width + j}]" for j in within) for p in each]
        writes = [f"store(address + place(f, row, k{p}) * {element.size}, ({values[p]},))" for p in each]
    sums = [_tree([f"values[{p * width + j}]" for j in within], "({} + {})") for p in each]
    added = [f"where(k{p} < s[2], {sums[p]}, zero)" for p in each]
    return Share(
        width, pieces * width, starts,
        made("read", "f, address, row, s", [*lines, *reads, found]),
        made("spread", "f, address, row, s", [*lines, *firsts, repeated]),
        made(
            "write", "f, address, row, s, values",
            lines + [line for p in each for line in (f"if k{p} < s[2]:", f"    {writes[p]}")],
        ),
        made("total", "values, s", [*lines, f"return {_tree(added, '({} + {})')}"]),
    )  # fmt: skip


def _tree(terms: list[str], pair: str) -> str:
    """One expression of many, put together by pairs."""
    while len(terms) > 1:
        pairs = [pair.format(a, b) for a, b in zip(terms[::2], terms[1::2], strict=False)]
        terms = pairs + terms[len(terms) & ~1 :]
    return terms[0]


def mapping(share: Share, function: Any, shares: int, more: int = 0) -> Any:
    """A function that gives ``function(element of each of some shares..., the same for all...)`` as a share."""
    tuples, rest = [f"t{k}" for k in range(shares)], [f"p{k}" for k in range(more)]
    calls = (f"function({', '.join([f'{t}[{j}]' for t in tuples] + rest)})" for j in range(share.count))
    scope: dict[str, Any] = {"function": function}
    exec(f"def mapped({', '.join(tuples + rest)}):\n    return ({''.join(f'{c}, ' for c in calls)})\n", scope)
    return scope["mapped"]


def combining(share: Share, function: Any) -> Any:
    """A function that puts the elements of a share together by pairs; some may come twice."""
    scope: dict[str, Any] = {"function": function}
    found = _tree([f"values[{j}]" for j in range(share.count)], "function({}, {})")
    exec(f"def combined(values):\n    return {found}\n", scope)
    return scope["combined"]


def combining_within(share: Share, function: Any, start: Any) -> Any:
    """The same of those that belong to the row, ``combined(values, s)``: `start` stands for others."""
    pieces, each = range(share.count // share.width), "function({}, {})"
    found = [_tree([f"values[{p * share.width + j}]" for j in range(share.width)], each) for p in pieces]
    within = [f"where(s[0] + {p} * s[1] < s[2], {found[p]}, start)" for p in pieces]
    scope: dict[str, Any] = {"function": function, "where": where, "start": start}
    exec(f"def combined(values, s):\n    return {_tree(within, each)}\n", scope)
    return scope["combined"]


def putting(share: Share, put: Any) -> Any:
    """``put_share(room, to, s, values)``: write a share to a block's memory, the first element of the row to `to`."""
    pieces = range(share.count // share.width)
    lines = [f"k{p} = s[0] + {p} * s[1]" for p in pieces]
    for p in pieces:
        lines.append(f"if k{p} < s[2]:")
        lines += [
            f"    put(room, to + k{p} + {j}, values[{p * share.width + j}])" for j in range(share.width)
        ]
    scope: dict[str, Any] = {"put": put}
    exec("def put_share(room, to, s, values):\n" + "".join(f"    {line}\n" for line in lines), scope)
    return scope["put_share"]


def most_of(element: Element) -> int:
    """Elements of the largest share."""
    return PER_THREAD if element.size < 8 else PER_THREAD // 2


def by_shares(
    element: Element,
    row: Callable[[Share], Any],
    places: tuple[Any, Any],
    vectors: Any,
    length: Any,
    apart: int = 4,
    most: int = 0,
) -> Any:
    """A function over a row that works on shares of the kind that fits: what `teams.by_teams` takes.

    ``row(share)`` makes the function for one kind. ``vectors(f, width)`` says whether rows lie in pieces of such a
    width, one behind the other at addresses that are multiples of their bytes; `places` are those of elements in such
    rows and in others, where a share has `apart` elements. ``length(f)`` is the length of a row. The largest share has
    `most` elements, if not `most_of`.
    """
    width = ACCESS // element.size
    pieces = max((most or most_of(element)) // width, 1)
    short = row(share_of(element, 1, width, places[0]))
    long = row(share_of(element, pieces, width, places[0])) if pieces > 1 else short
    scattered = row(share_of(element, apart, 1, places[1]))

    def each(f, number, lane, lanes, how, there):
        if not vectors(f, width):
            scattered(f, number, lane, lanes, how, there)
        elif length(f) <= lanes * width:
            short(f, number, lane, lanes, how, there)
        else:
            long(f, number, lane, lanes, how, there)

    return each
