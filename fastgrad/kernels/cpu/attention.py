"""Scaled dot-product attention, block by block, so that the matrix of scores never exists as a whole.

A block of up to `QUERIES` by `KEYS` scores stays in the cache. The forward pass keeps for each query the largest score
and the sum of exponentials so far, and rescales what it has when a later block has a larger score (Milakov and
Gimelshein 2018; Dao et al. 2022). The backward pass computes the weights anew from the logarithm of those sums. With
causal masking, what lies above the diagonal is skipped by blocks and by strips of rows.

Both passes multiply by the register tiles of `micro`, which read the right operand by rows: keys and values are
transposed once for each head, in blocks of `KEYS` columns, and operands whose rows are no multiple of a vector are
copied with zeros behind. A query to which the mask leaves no key gives zeros.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from fastgrad.kernels.cpu.micro import tile_shape, tiled_product, transposing
from fastgrad.kernels.dtypes import ELEMENTS, INLINE, KERNEL, LOOP, SUM, Element
from fastgrad.native.base import frames
from fastgrad.native.base.intrinsics import advance, float_of
from fastgrad.native.contracts.element_types import FLOAT32, FLOAT64
from fastgrad.native.contracts.frames.attention import KEYS, QUERIES

# Elements that a loop over scores takes at a time; KEYS is a multiple of it, and it is one of two vectors.
CHUNK = 32
FEW = 256  # products of a query's element and a key's, up to which blocks would only cost time
_NARROW = {FLOAT32: (4, 2, 4), FLOAT64: (4, 2, 2)}  # the shape of a tile where `micro` knows none


def build(kernel: Any, dtype: int, layout_class: int) -> tuple[Callable[..., None], dict[str, Any]]:
    """The kernel of one pass for one dtype."""
    return (_backward if kernel.options["backward"] else _forward)(_Pieces(dtype)), KERNEL


class _Pieces:
    """What both passes consist of, for one dtype."""

    def __init__(self, dtype: int) -> None:
        element = ELEMENTS[dtype]
        rows, _, width = tile_shape(dtype) or _NARROW[dtype]
        self.element = element
        self.rows = rows
        self.width = width
        self.product = tiled_product(rows, width, dtype)
        self.add_product = tiled_product(rows, width, dtype, accumulate=True)
        self.transpose = _transpose(transposing(width, dtype), width, element)
        self.scores = _scores(self.product, element)
        self.operand = _operand(element)
        self.copy = _copy(element)


# --- operands --------------------------------------------------------------------------------------------------


def _operand(element: Element) -> Any:
    """``operand(heads, batch, head)``: where the rows of one head start."""
    pointer = element.pointer

    @njit(**INLINE)
    def operand(heads, batch, head):  # type: ignore[no-untyped-def]
        return advance(pointer(heads.data), batch * heads.batch + head * heads.head)

    return operand


def _transpose(move: Any, width: int, element: Element) -> Any:
    """``transpose(target, x, row, n, e, factor)``: n rows of length e become blocks of e rows of length `KEYS`."""
    zero = element.constant(0)

    @njit(**KERNEL)
    def block(target, x, row, n, e, factor):  # type: ignore[no-untyped-def]
        whole_n, whole_e = n // width * width, e // width * width
        for i in range(0, whole_e, width):
            for j in range(0, whole_n, width):
                move(advance(target, i * KEYS + j), KEYS, advance(x, j * row + i), row, factor)
        for i in range(e):
            for j in range(whole_n if i < whole_e else 0, n):
                target[i * KEYS + j] = x[j * row + i] * factor
            for j in range(n, (n + CHUNK - 1) // CHUNK * CHUNK):
                target[i * KEYS + j] = zero

    @njit(**KERNEL)
    def transpose(target, x, row, n, e, factor):  # type: ignore[no-untyped-def]
        for j in range(0, n, KEYS):
            block(advance(target, j * e), advance(x, j * row), row, min(KEYS, n - j), e, factor)

    return transpose


def _copy(element: Element) -> Any:
    """``copy(target, row_target, x, row_x, n, e, whole)``: n rows of length e, with zeros behind up to `whole`."""
    zero = element.constant(0)

    @njit(**LOOP)
    def copy(target, row_target, x, row_x, n, e, whole):  # type: ignore[no-untyped-def]
        for i in range(n):
            for j in range(e):
                target[i * row_target + j] = x[i * row_x + j]
            for j in range(e, whole):
                target[i * row_target + j] = zero

    return copy


def _clear(element: Element) -> Any:
    """``clear(x, row, n, e)``: n rows of zeros."""
    zero = element.constant(0)

    @njit(**LOOP)
    def clear(x, row, n, e):  # type: ignore[no-untyped-def]
        for i in range(n):
            for j in range(e):
                x[i * row + j] = zero

    return clear


def _scale_row(element: Element) -> Any:
    """``scale_row(x, n, factor)``."""

    @njit(**LOOP)
    def scale_row(x, n, factor):  # type: ignore[no-untyped-def]
        for j in range(n):
            x[j] *= factor

    return scale_row


# --- scores ----------------------------------------------------------------------------------------------------


@njit(**INLINE)
def chunks(n):  # type: ignore[no-untyped-def]
    """`n`, rounded up to whole chunks."""
    return (n + CHUNK - 1) // CHUNK * CHUNK


def _scores(product: Any, element: Element) -> Any:
    """``scores(f, s, q, kt, mask, first, m, n)``: the masked scores of one strip of queries.

    `first` is the position of the first query, counted from the block's first key. Returns how many keys count; up to
    a multiple of `CHUNK` the scores behind them are -inf.
    """
    nothing = element.constant(-np.inf)

    @njit(**LOOP)
    def add(s, mask, n):  # type: ignore[no-untyped-def]
        for j in range(n):
            s[j] += mask[j]

    @njit(**KERNEL)
    def scores(f, s, q, kt, mask, first, m, n):  # type: ignore[no-untyped-def]
        counts = min(n, first + m) if f.causal else n
        columns = chunks(counts)
        product(s, KEYS, q, f.q.row, 1, kt, KEYS, m, columns, f.width)
        for i in range(m):
            row = advance(s, i * KEYS)
            if f.mask.data != 0:
                add(row, advance(mask, i * f.mask.row), counts)
            for j in range(min(counts, first + i + 1) if f.causal else counts, columns):
                row[j] = nothing
        return counts

    return scores


def _softmax_row(element: Element) -> Any:
    """``softmax_row(s, lanes, n, top)``: exponentials of a row in place, less `top`; returns their sum.

    ``largest(s, lanes, n)`` is the row's maximum. `lanes` is room for `CHUNK` numbers: each sums every 32nd element.
    """
    maximum, exp, zero = element.math.maximum, element.math.exp_of_negative, element.constant(0)

    @njit(**LOOP)
    def largest(s, lanes, n):  # type: ignore[no-untyped-def]
        for j in range(CHUNK):
            lanes[j] = s[j]
        for c in range(CHUNK, n, CHUNK):
            at = advance(s, c)
            for j in range(CHUNK):
                lanes[j] = maximum(lanes[j], at[j])
        best = lanes[0]
        for j in range(CHUNK):
            best = maximum(best, lanes[j])
        return best

    @njit(**LOOP)
    def weights(s, lanes, n, top):  # type: ignore[no-untyped-def]
        for j in range(CHUNK):
            lanes[j] = zero
        for c in range(0, n, CHUNK):
            at = advance(s, c)
            for j in range(CHUNK):
                weight = exp(at[j] - top)
                at[j] = weight
                lanes[j] += weight

    @njit(**SUM)
    def total(lanes):  # type: ignore[no-untyped-def]
        result = zero
        for j in range(CHUNK):
            result += lanes[j]
        return result

    @njit(**KERNEL)
    def softmax_row(s, lanes, n, top):  # type: ignore[no-untyped-def]
        weights(s, lanes, n, top)
        return total(lanes)

    return largest, softmax_row


# --- forward ---------------------------------------------------------------------------------------------------


def _forward_block(pieces: _Pieces) -> Any:
    """One block of scores: adds to `o`, the weighted sums of values, and to `sums`, those of the weights."""
    rows, element = pieces.rows, pieces.element
    scores, add_product = pieces.scores, pieces.add_product
    (largest, softmax_row), scale_row = _softmax_row(element), _scale_row(element)
    maximum, exp = element.math.maximum, element.math.exp
    nothing, zero = element.constant(-np.inf), element.constant(0)

    @njit(**KERNEL)
    def block(  # type: ignore[no-untyped-def]
        f, s, q, kt, v, row_v, mask, o, row_o, best, sums, lanes, first, m, n, whole
    ):  # fmt: skip
        r = 0
        while r < m:
            strip = rows if r + rows <= m else m - r
            counts = scores(
                f, s, advance(q, r * f.q.row), kt, advance(mask, r * f.mask.row), first + r, strip, n
            )
            columns = chunks(counts)
            for i in range(strip):
                row = advance(s, i * KEYS)
                before = best[r + i]
                top = maximum(before, largest(row, lanes, columns))
                if top != before and before != nothing:
                    factor = exp(before - top)
                    sums[r + i] *= factor
                    scale_row(advance(o, (r + i) * row_o), whole, factor)
                best[r + i] = top
                sums[r + i] += softmax_row(row, lanes, columns, zero if top == nothing else top)
            add_product(advance(o, r * row_o), row_o, s, KEYS, 1, v, row_v, strip, whole, counts)
            r += strip

    return block


def _finish(element: Element) -> Any:
    """``finish(o, row_o, m, e, best, sums, lse)``: divide by the sums of the weights; keep their logarithms."""
    log, scale_row = element.math.log, _scale_row(element)
    zero, one, infinite = element.constant(0), element.constant(1), element.constant(np.inf)

    @njit(**KERNEL)
    def finish(o, row_o, m, e, best, sums, lse):  # type: ignore[no-untyped-def]
        for r in range(m):
            # Where no key counts, every weight is zero: in the backward pass, too, as exp(score - inf).
            empty = sums[r] == zero
            lse[r] = infinite if empty else best[r] + log(sums[r])
            scale_row(advance(o, r * row_o), e, zero if empty else one / sums[r])

    return finish


def _forward_few(element: Element) -> Any:
    """``few(f, q, k, v, mask, out, lse)``: a head that is too small for blocks."""
    maximum, exp, log = element.math.maximum, element.math.exp_of_negative, element.math.log
    pointer, constant = element.pointer, element.constant
    zero, one, nothing, infinite = constant(0), constant(1), constant(-np.inf), constant(np.inf)

    @njit(**KERNEL)
    def score(f, q, k, mask, i, j):  # type: ignore[no-untyped-def]
        if f.causal and j > i:
            return nothing
        total = zero
        for c in range(f.width):
            total += q[i * f.q.row + c] * k[j * f.k.row + c]
        total *= constant(float_of(f.scale))
        return total + mask[i * f.mask.row + j] if f.mask.data != 0 else total

    @njit(**KERNEL)
    def scores(f, s, q, k, mask, best):  # type: ignore[no-untyped-def]
        for i in range(f.queries):
            top = nothing
            for j in range(f.keys):
                s[i * f.keys + j] = score(f, q, k, mask, i, j)
                top = maximum(top, s[i * f.keys + j])
            best[i] = top
            for j in range(f.keys):
                s[i * f.keys + j] -= zero if top == nothing else top

    @njit(**LOOP)
    def exponentials(s, n):  # type: ignore[no-untyped-def]
        for j in range(n):
            s[j] = exp(s[j])

    @njit(**KERNEL)
    def few(f, q, k, v, mask, out, lse):  # type: ignore[no-untyped-def]
        n = f.keys
        s = pointer(f.scratch.data)
        scores(f, s, q, k, mask, lse)
        exponentials(s, f.queries * n)
        for i in range(f.queries):
            weights, total = advance(s, i * n), zero
            for j in range(n):
                total += weights[j]
            empty = total == zero
            factor = zero if empty else one / total
            lse[i] = infinite if empty else lse[i] + log(total)
            for c in range(f.width):
                value = zero
                for j in range(n):
                    value += weights[j] * v[j * f.v.row + c]
                out[i * f.out.row + c] = value * factor

    return few


def _forward(pieces: _Pieces) -> Callable[..., None]:
    width, element = pieces.width, pieces.element
    pointer, constant = element.pointer, element.constant
    operand, transpose, copy, clear = pieces.operand, pieces.transpose, pieces.copy, _clear(element)
    block, finish, few = _forward_block(pieces), _finish(element), _forward_few(element)
    nothing, zero = constant(-np.inf), constant(0)

    @njit(**KERNEL)
    def head(f, q, k, v, mask, out, lse):  # type: ignore[no-untyped-def]
        e, row_v, row_o = f.width, f.v.row, f.out.row
        whole = (e + width - 1) // width * width
        lanes = pointer(f.scratch.data)
        best, sums = advance(lanes, CHUNK), advance(lanes, CHUNK + QUERIES)
        s = advance(sums, QUERIES)
        own_o = advance(s, QUERIES * KEYS)
        kt = advance(own_o, QUERIES * whole)
        if whole != e:
            own_v = advance(kt, (f.keys + KEYS - 1) // KEYS * KEYS * whole)
            copy(own_v, whole, v, row_v, f.keys, e, whole)
            v, row_v, row_o = own_v, whole, whole
        transpose(kt, k, f.k.row, f.keys, e, constant(float_of(f.scale)))
        for i in range(0, f.queries, QUERIES):
            m = min(QUERIES, f.queries - i)
            o = advance(out, i * row_o) if whole == e else own_o
            for r in range(m):
                best[r] = nothing
                sums[r] = zero
            clear(o, row_o, m, whole)
            for j in range(0, min(f.keys, i + m) if f.causal else f.keys, KEYS):
                block(
                    f, s, advance(q, i * f.q.row), advance(kt, j * e), advance(v, j * row_v), row_v,
                    advance(mask, i * f.mask.row + j), o, row_o, best, sums, lanes,
                    i - j, m, min(KEYS, f.keys - j), whole,
                )  # fmt: skip
            finish(o, row_o, m, whole, best, sums, advance(lse, i))
            if whole != e:
                copy(advance(out, i * f.out.row), f.out.row, o, row_o, m, e, e)

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.attention(frame)
        is_small = f.queries * f.keys * f.width <= FEW
        for b in range(f.batch):
            for h in range(f.heads):
                shared = h // f.group
                q, k, v = operand(f.q, b, h), operand(f.k, b, shared), operand(f.v, b, shared)
                mask, out = operand(f.mask, b, h), operand(f.out, b, h)
                lse = advance(pointer(f.lse), (b * f.heads + h) * f.queries)
                if is_small:
                    few(f, q, k, v, mask, out, lse)
                else:
                    head(f, q, k, v, mask, out, lse)

    return run


# --- backward --------------------------------------------------------------------------------------------------


def _dot_rows(element: Element) -> Any:
    """``dot_rows(dots, a, row_a, b, row_b, m, e)``: inner products of rows."""
    zero = element.constant(0)

    @njit(**SUM)
    def dot(a, b, n):  # type: ignore[no-untyped-def]
        total = zero
        for j in range(n):
            total += a[j] * b[j]
        return total

    @njit(**KERNEL)
    def dot_rows(dots, a, row_a, b, row_b, m, e):  # type: ignore[no-untyped-def]
        for r in range(m):
            dots[r] = dot(advance(a, r * row_a), advance(b, r * row_b), e)

    return dot_rows


def _weights(pieces: _Pieces) -> Any:
    """The weights of a block, and the gradients of its scores: ``weight * (g . v - g . out) * scale``."""
    rows, exp = pieces.rows, pieces.element.math.exp
    scores, product = pieces.scores, pieces.product

    @njit(**LOOP)
    def gradient_row(s, ds, n, lse, dot, scale):  # type: ignore[no-untyped-def]
        for c in range(0, n, CHUNK):
            at, to = advance(s, c), advance(ds, c)
            for j in range(CHUNK):
                weight = exp(at[j] - lse)
                at[j] = weight
                to[j] = weight * (to[j] - dot) * scale

    @njit(**KERNEL)
    def weights(f, s, ds, q, g, kt, vt, mask, lse, dots, scale, first, m, n):  # type: ignore[no-untyped-def]
        row_g = f.grad_out.row
        r = 0
        while r < m:
            strip = rows if r + rows <= m else m - r
            at, to = advance(s, r * KEYS), advance(ds, r * KEYS)
            counts = scores(
                f, at, advance(q, r * f.q.row), kt, advance(mask, r * f.mask.row), first + r, strip, n
            )
            columns = chunks(counts)
            product(to, KEYS, advance(g, r * row_g), row_g, 1, vt, KEYS, strip, columns, f.width)
            for i in range(strip):
                row = i * KEYS
                gradient_row(advance(at, row), advance(to, row), columns, lse[r + i], dots[r + i], scale)
            r += strip

    return weights


def _products(pieces: _Pieces) -> Any:
    """``to_keys(c, row_c, s, x, row_x, ...)`` adds ``s^T x``, ``to_queries`` adds ``s x``; both skip what is masked."""
    rows, add_product = pieces.rows, pieces.add_product

    @njit(**KERNEL)
    def to_keys(c, row_c, s, x, row_x, causal, first, m, n, whole):  # type: ignore[no-untyped-def]
        j = 0
        while j < n:
            strip = rows if j + rows <= n else n - j
            r = max(0, j - first) if causal else 0  # queries before this one see none of the strip's keys
            if r < m:
                add_product(
                    advance(c, j * row_c), row_c, advance(s, r * KEYS + j), 1, KEYS, advance(x, r * row_x), row_x,
                    strip, whole, m - r,
                )  # fmt: skip
            j += strip

    @njit(**KERNEL)
    def to_queries(c, row_c, s, x, row_x, causal, first, m, n, whole):  # type: ignore[no-untyped-def]
        r = 0
        while r < m:
            strip = rows if r + rows <= m else m - r
            counts = min(n, first + r + strip) if causal else n
            add_product(
                advance(c, r * row_c), row_c, advance(s, r * KEYS), KEYS, 1, x, row_x, strip, whole, counts
            )
            r += strip

    return to_keys, to_queries


def _backward_head(pieces: _Pieces) -> Any:
    """One head of queries: its gradients go to `dq`, and are added to `dk` and `dv`."""
    width, element = pieces.width, pieces.element
    pointer, constant = element.pointer, element.constant
    copy, clear, dot_rows = pieces.copy, _clear(element), _dot_rows(element)
    weights, (to_keys, to_queries) = _weights(pieces), _products(pieces)

    @njit(**KERNEL)
    def head(f, q, g, out, mask, lse, dq, kt, vt, k, row_k, dk, row_dk, dv, row_dv):  # type: ignore[no-untyped-def]
        e, causal, scale = f.width, f.causal, constant(float_of(f.scale))
        row_q, row_g, row_dq = f.q.row, f.grad_out.row, f.grad_q.row
        whole = (e + width - 1) // width * width
        dots = pointer(f.scratch.data)
        s = advance(dots, QUERIES)
        ds = advance(s, QUERIES * KEYS)
        own_q = advance(ds, QUERIES * KEYS)
        own_g, own_dq = advance(own_q, QUERIES * whole), advance(own_q, 2 * QUERIES * whole)
        for i in range(0, f.queries, QUERIES):
            m = min(QUERIES, f.queries - i)
            to_q, to_g, to_dq = advance(q, i * row_q), advance(g, i * row_g), advance(dq, i * row_dq)
            block_q, block_g, block_dq = to_q, to_g, to_dq
            block_row_q, block_row_g, block_row_dq = row_q, row_g, row_dq
            if whole != e:
                copy(own_q, whole, to_q, row_q, m, e, whole)
                copy(own_g, whole, to_g, row_g, m, e, whole)
                block_q, block_g, block_dq = own_q, own_g, own_dq
                block_row_q, block_row_g, block_row_dq = whole, whole, whole
            dot_rows(dots, to_g, row_g, advance(out, i * f.out.row), f.out.row, m, e)
            clear(block_dq, block_row_dq, m, whole)
            for j in range(0, min(f.keys, i + m) if causal else f.keys, KEYS):
                n = min(KEYS, f.keys - j)
                weights(
                    f, s, ds, to_q, to_g, advance(kt, j * e), advance(vt, j * e),
                    advance(mask, i * f.mask.row + j), advance(lse, i), dots, scale, i - j, m, n,
                )  # fmt: skip
                to_keys(advance(dv, j * row_dv), row_dv, s, block_g, block_row_g, causal, i - j, m, n, whole)
                to_keys(advance(dk, j * row_dk), row_dk, ds, block_q, block_row_q, causal, i - j, m, n, whole)
                to_queries(
                    block_dq, block_row_dq, ds, advance(k, j * row_k), row_k, causal, i - j, m, n, whole
                )
            if whole != e:
                copy(to_dq, row_dq, own_dq, whole, m, e, e)

    return head


def _backward(pieces: _Pieces) -> Callable[..., None]:
    width, element = pieces.width, pieces.element
    pointer, constant = element.pointer, element.constant
    operand, transpose, copy, clear = pieces.operand, pieces.transpose, pieces.copy, _clear(element)
    head = _backward_head(pieces)

    @njit(**KERNEL)
    def group(f, batch, shared):  # type: ignore[no-untyped-def]
        e = f.width
        whole = (e + width - 1) // width * width
        room = (f.keys + KEYS - 1) // KEYS * KEYS * whole
        kt = advance(pointer(f.scratch.data), QUERIES + 2 * QUERIES * KEYS + 3 * QUERIES * whole)
        vt = advance(kt, room)
        k, dk, dv = (
            operand(f.k, batch, shared),
            operand(f.grad_k, batch, shared),
            operand(f.grad_v, batch, shared),
        )
        transpose(kt, k, f.k.row, f.keys, e, constant(float_of(f.scale)))
        transpose(vt, operand(f.v, batch, shared), f.v.row, f.keys, e, constant(1))
        to_dk, to_dv = dk, dv
        row_k, row_dk, row_dv = f.k.row, f.grad_k.row, f.grad_v.row
        if whole != e:
            own_k = advance(vt, room)
            copy(own_k, whole, k, row_k, f.keys, e, whole)
            k, dk, dv = own_k, advance(own_k, room), advance(own_k, 2 * room)
            row_k, row_dk, row_dv = whole, whole, whole
        clear(dk, row_dk, f.keys, whole)
        clear(dv, row_dv, f.keys, whole)
        for h in range(shared * f.group, (shared + 1) * f.group):
            head(
                f, operand(f.q, batch, h), operand(f.grad_out, batch, h), operand(f.out, batch, h),
                operand(f.mask, batch, h), advance(pointer(f.lse), (batch * f.heads + h) * f.queries),
                operand(f.grad_q, batch, h), kt, vt, k, row_k, dk, row_dk, dv, row_dv,
            )  # fmt: skip
        if whole != e:
            copy(to_dk, f.grad_k.row, dk, whole, f.keys, e, e)
            copy(to_dv, f.grad_v.row, dv, whole, f.keys, e, e)

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.attention(frame)
        for b in range(f.batch):
            for shared in range(f.heads // f.group):
                group(f, b, shared)

    return run
