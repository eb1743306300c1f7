"""Tensor cores: the words by which the threads of a warp multiply small matrices together, and what brings these there.

A *word* is 32 bits in a register, an int32: two halves, the first one below, or a float32 that is rounded to TF32. The
matrices that are multiplied have eight words in each row of the left one and in each column of the right one: 16 halves
or 8 floats. Which thread has what of them, PTX says (*Matrix Fragments for mma.m16n8k16*, *mma.m16n8k8*). With
``g = lane // 4`` and ``t = lane % 4`` a thread has

- of the left matrix, 16 rows, the words ``t`` of the rows ``g`` and ``g + 8``, then the words ``t + 4`` of both;
- of the right matrix, 8 columns, the words ``t`` and ``t + 4`` of the column ``g``;
- of the sums, 16 rows of 8 float32, the columns ``2 t`` and ``2 t + 1`` of the row ``g``, then of the row ``g + 8``.

Where the sums of two such products, side by side, are rounded and packed in pairs, they are a left matrix.

What stands here is the meaning in plain Python; `hardware_cores` has what it is on a GPU, from `FIRST` on. A target for
older ones has no cores.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fastgrad.kernels.cuda.device import WARP, exchanged, here
from fastgrad.native.contracts.element_types import BFLOAT16, FLOAT16, FLOAT32

FIRST = (8, 0)
"""The first architecture that has what stands here."""
ROWS, COLUMNS = 16, 8
"""Of the sums."""
WORDS = ("get_matrices", "get_transposed", "copy_ahead", "await_copies", "half_where")
"""The names that stand for something else on the GPU."""


class Cores(NamedTuple):
    """Tensor cores for factors of one dtype.

    Attributes
    ----------
    terms : int
        Factors in a row of the left matrix.
    multiply : callable
        ``multiply(sums, left, right)``: what becomes of the sums, four float32, when the product of two matrices, four
        and two words, is added.
    packed : callable
        ``packed(x, y)``: the word with two float32, rounded to nearest even; of TF32 ``packed(x)``, the nearest.
    unpacked : callable
        ``unpacked(word)``: the two float32 of a word; of TF32 a tuple of one.
    """

    terms: int
    multiply: Any
    packed: Any
    unpacked: Any


# --- what brings matrices to registers -------------------------------------------------------------------------


def get_matrices(room, i):
    """Of four matrices of eight rows and four words in a room of int32, the word ``lane % 4`` of the row ``lane // 4``.

    The row ``k % 8`` of the matrix ``k // 8`` begins at the i that the thread k of the warp has, a multiple of four.
    """
    rows, g, t = _rows(room, i), here.thread % WARP // 4, here.thread % 4
    return tuple(np.int32(rows[8 * k + g][t]) for k in range(4))


def get_transposed(room, i):
    """The same of the transposed matrices, if words are two halves: the halves ``2 t`` and ``2 t + 1`` of a column."""
    rows, g, t = _rows(room, i), here.thread % WARP // 4, here.thread % 4
    halves = [np.array(row, np.int32).view(np.uint16) for row in rows]
    pairs = [[halves[8 * k + 2 * t + j][g] for j in range(2)] for k in range(4)]
    return tuple(np.array(pair, np.uint16).view(np.int32)[0] for pair in pairs)


def _rows(room, i):
    if i % 4:
        raise ValueError(f"a row of four words from the {i}th on")
    first = here.thread - here.thread % WARP
    return [room[k : k + 4] for k in exchanged(int(i))[first : first + WARP]]


def copy_ahead(room, i, address, there):
    """Bring 16 bytes to a room of int32, from its i-th on, while this thread goes on; zeros where `there` is false.

    i is a multiple of four, the address one of 16. They are there behind `await_copies`, for other threads behind a
    barrier after it.
    """
    if i % 4 or (there and address % 16):
        raise ValueError(f"16 bytes from {address:#x} to the {i}th word")
    here.copies.append((room, int(i), int(address) if there else 0))


def await_copies():
    """Wait for all that this thread copies ahead."""
    import ctypes

    for room, i, address in here.copies:
        found = (ctypes.c_int32 * 4).from_address(address) if address else (0,) * 4
        room[i : i + 4] = [np.int32(word) for word in found]
    here.copies.clear()


def half_where(address, i, condition):
    """The bits of a half, the lower ones of a word; zero, and nothing is read, where the condition does not hold."""
    import ctypes

    return np.int32(ctypes.c_uint16.from_address(int(address) + 2 * int(i)).value if condition else 0)


# --- products --------------------------------------------------------------------------------------------------


def _of_bfloat16(words):
    pairs = np.stack([words << np.uint32(16), words & np.uint32(0xFFFF0000)], -1)
    return pairs.view(np.float32)


def _of_float16(words):
    return words[..., None].view(np.float16).astype(np.float32)


def _of_tf32(words):
    return (words & np.uint32(0xFFFFE000))[..., None].view(np.float32)


def _packing(store):
    """``packed(x, y)``, where a function gives the bits of one."""

    def packed(x, y):
        return np.uint32(store(x) | store(y) << 16).view(np.int32)

    return packed


def _rounded(x):
    bits = np.float32(x).view(np.uint32)
    return (
        np.uint32(int(bits) + 0x1000 & 0xFFFFE000).view(np.int32) if np.isfinite(x) else bits.view(np.int32)
    )


def _cores(numbers: Any, packed: Any, terms: int) -> Cores:
    def multiply(sums, left, right):
        first = here.thread - here.thread % WARP
        all_words = exchanged((*left, *right))[first : first + WARP]
        g, t = here.thread % WARP // 4, here.thread % 4
        words = np.array(all_words).view(np.uint32).reshape(8, 4, 6)  # by rows or columns, and place in them
        a = numbers(np.concatenate([words[g, :, [0, 1]], words[g, :, [2, 3]]], -1)).reshape(2, -1)
        b = numbers(np.concatenate([words[2 * t : 2 * t + 2, :, k] for k in (4, 5)], -1)).reshape(2, -1)
        products = a.astype(np.float64) @ b.astype(np.float64).T
        return tuple(np.float32(s + p) for s, p in zip(sums, products.reshape(-1), strict=True))

    def unpacked(word):
        return tuple(numbers(np.array(word).view(np.uint32)).reshape(-1))

    return Cores(terms, multiply, packed, unpacked)


def simulated(bits_of: Any) -> dict[int, Cores]:
    """The cores by the codes of dtypes; those of float32 are TF32. `bits_of` has functions that round to halves."""
    of_halves = {FLOAT16: _of_float16, BFLOAT16: _of_bfloat16}
    found = {code: _cores(numbers, _packing(bits_of[code]), 16) for code, numbers in of_halves.items()}
    return found | {FLOAT32: _cores(_of_tf32, _rounded, 8)}
