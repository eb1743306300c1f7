"""Fourier transforms on GPUs whose rows no block holds: how they are divided, and what is made of other transforms.

A row of up to `FFT_BYTES` is one pass (`kernels.cuda.fft`). A longer one is two, if its length is a product of two
such. Any other one is a convolution with a chirp (Bluestein 1970), by transforms whose length is a power of two. The
halves of long rows of real numbers are those of whole ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from fastgrad import dtypes
from fastgrad.functions.complex_numbers import conj, polar, real, view_as_complex, view_as_real
from fastgrad.functions.creation import arange, ones, zeros
from fastgrad.functions.shape import cat
from fastgrad.native.contracts.element_types import ITEMSIZES, complex_of
from fastgrad.native.contracts.frames.framed import FFT_BYTES

Run = Callable[[str, Any, int, float], Any]
"""``run(op, rows, length, factor)``: a transform along the last dimension."""


def room_of(rows: Any) -> int:
    """How many complex numbers of the dtype of some rows one pass can transform."""
    return FFT_BYTES // ITEMSIZES[complex_of(rows.dtype.code)]


def first_of(length: int, rows: Any) -> int:
    """How long the transforms of the first pass are: the length itself if there is but one, 0 if two do not suffice."""
    room = room_of(rows)
    if rows.device.type == "cpu" or length <= room:
        return length
    for first in range(min(math.isqrt(length), room), 0, -1):
        if length % first == 0:
            return first if length // first <= room else 0
    return 0


def by_others(op: str, rows: Any, length: int, factor: float, run: Run) -> Any:
    """A transform of long rows, made of others.

    Raises
    ------
    NotImplementedError
        If it would take a convolution that is too long.
    """
    if op == "rfft":
        return run("fft_of_reals", rows, length, factor).narrow(-1, 0, length // 2 + 1)
    if op == "irfft":
        return real(run("ifft", _mirrored(rows, length), length, factor))
    return _by_chirp(op, rows, length, factor, run)


def _mirrored(half: Any, length: int) -> Any:
    """The whole transform of real rows; elements that stand for one frequency alone are real."""
    last = (length - 1) // 2  # that stands for two
    pieces = [_without_imag(half.narrow(-1, 0, 1)), half.narrow(-1, 1, last)]
    if length % 2 == 0:
        pieces.append(_without_imag(half.narrow(-1, length // 2, 1)))
    pieces.append(conj(half.narrow(-1, 1, last).flip(-1)))
    return cat(pieces, -1)


def _without_imag(x: Any) -> Any:
    pairs = view_as_real(x.resolve_conj())
    nothing = zeros((*x.shape, 1), dtype=pairs.dtype, device=x.device)
    return view_as_complex(cat([pairs.narrow(-1, 0, 1), nothing], -1))


def _by_chirp(op: str, rows: Any, length: int, factor: float, run: Run) -> Any:
    """With ``2 j k = j**2 + k**2 - (k - j)**2`` a transform is a convolution of the rows times a chirp."""
    around = 1 << (2 * length - 2).bit_length()
    if first_of(around, rows) == 0:
        raise NotImplementedError(
            f"fft: on a GPU, a transform of {length} elements of {rows.dtype.name} is not supported yet: lengths that "
            f"are no product of two up to {room_of(rows)} may be at most {room_of(rows) ** 2 // 2}; "
            "move the operand to the CPU with .cpu()"
        )
    dtype = dtypes.ALL[complex_of(rows.dtype.code)]
    k = arange(length, device=rows.device)
    angle = (k * k % (2 * length)).to(dtypes.float64) * (
        math.pi / length
    )  # of whole half turns nothing is rounded
    chirp = polar(ones(length, dtype=dtypes.float64, device=rows.device), angle)
    turned, back = (chirp, conj(chirp)) if op.startswith("i") else (conj(chirp), chirp)
    gap = zeros(around - 2 * length + 1, dtype=back.dtype, device=rows.device)
    with_gap = cat([back, gap, back.narrow(0, 1, length - 1).flip(0)], 0).to(dtype)
    turned = turned.to(dtype)
    missing = zeros((*rows.shape[:-1], around - length), dtype=dtype, device=rows.device)
    spread = run("fft", cat([rows * turned, missing], -1), around, 1.0)
    found = run("ifft", spread * run("fft", with_gap, around, 1.0), around, factor / around)
    return found.narrow(-1, 0, length) * turned
