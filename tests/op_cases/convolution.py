"""Rows for convolutions and what they pad with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .common import (
    DTYPES,
    ErrorCase,
    OpCase,
    Sample,
    bracketed,
    functional,
    normal,
    number,
    ones,
    special_values,
)

# --- oracles --------------------------------------------------------------------------------------------


def each(value: Any, rank: int) -> tuple[int, ...]:
    return tuple(value) * (rank // len(value)) if isinstance(value, (tuple, list)) else (value,) * rank


def taps(kernel: Sequence[int]) -> list[tuple[int, ...]]:
    return list(np.ndindex(*kernel))


def seen(padded: np.ndarray, tap: Any, sizes: Any, stride: Any, dilation: Any) -> np.ndarray:
    """The view of what one element of the windows sees."""
    slices = [
        slice(t * d, t * d + (n - 1) * s + 1, s)
        for t, n, s, d in zip(tap, sizes, stride, dilation, strict=True)
    ]
    return padded[(..., *slices)]


def convolve(
    x: np.ndarray,
    w: np.ndarray,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> np.ndarray:
    rank, kernel = w.ndim - 2, w.shape[2:]
    if x.ndim == rank + 1:
        return convolve(x[None], w, bias, stride, padding, dilation, groups)[0]
    stride, dilation = each(stride, rank), each(dilation, rank)
    spans = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
    if padding == "same":
        sides = [(total // 2, total - total // 2) for total in spans]
    else:
        sides = [(p, p) for p in each(0 if padding == "valid" else padding, rank)]
    padded = np.pad(x.astype(np.float64), [(0, 0), (0, 0), *sides])
    sizes = [(n - span - 1) // s + 1 for n, span, s in zip(padded.shape[2:], spans, stride, strict=True)]
    outputs, inputs = w.shape[0] // groups, w.shape[1]
    out = np.zeros((x.shape[0], w.shape[0], *sizes))
    for g in range(groups):
        of = slice(g * outputs, (g + 1) * outputs)
        for tap in taps(kernel):
            part = seen(padded[:, g * inputs : (g + 1) * inputs], tap, sizes, stride, dilation)
            weight = w[(of, slice(None), *tap)].astype(np.float64)
            out[:, of] += np.moveaxis(np.tensordot(part, weight, ([1], [1])), -1, 1)
    if bias is not None:
        out += bias.reshape(-1, *(1,) * rank)
    return out.astype(x.dtype)


def convolve_transposed(
    x: np.ndarray,
    w: np.ndarray,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> np.ndarray:
    rank, kernel = w.ndim - 2, w.shape[2:]
    if x.ndim == rank + 1:
        return convolve_transposed(x[None], w, bias, stride, padding, output_padding, groups, dilation)[0]
    stride, dilation, padding, extra = (each(v, rank) for v in (stride, dilation, padding, output_padding))
    sizes = [
        (n - 1) * s + d * (k - 1) + 1 + e
        for n, s, d, k, e in zip(x.shape[2:], stride, dilation, kernel, extra, strict=True)
    ]
    inputs, outputs = w.shape[0] // groups, w.shape[1]
    whole = np.zeros((x.shape[0], outputs * groups, *sizes))
    for g in range(groups):
        source = x[:, g * inputs : (g + 1) * inputs].astype(np.float64)
        for tap in taps(kernel):
            weight = w[(slice(g * inputs, (g + 1) * inputs), slice(None), *tap)].astype(np.float64)
            part = seen(whole[:, g * outputs : (g + 1) * outputs], tap, x.shape[2:], stride, dilation)
            part += np.moveaxis(np.tensordot(source, weight, ([1], [0])), -1, 1)
    out = whole[(..., *(slice(p, n - p) for p, n in zip(padding, sizes, strict=True)))]
    if bias is not None:
        out = out + bias.reshape(-1, *(1,) * rank)
    return out.astype(x.dtype)


# --- rows -----------------------------------------------------------------------------------------------

# Shapes of input, weight and whether there is a bias; settings.
Calls = Sequence[tuple[tuple[int, ...], tuple[int, ...], bool, dict[str, Any]]]

CONV1D: Calls = (
    ((2, 2, 5), (3, 2, 2), True, {}),
    ((2, 5), (3, 2, 3), False, {"padding": 1}),
    ((1, 2, 7), (2, 1, 3), True, {"stride": 2, "groups": 2, "dilation": 2, "padding": (2,)}),
    ((1, 1, 4), (1, 1, 3), False, {"padding": "same"}),
)
CONV2D: Calls = (
    ((2, 2, 4, 3), (3, 2, 2, 2), True, {}),
    ((2, 4, 4), (2, 2, 3, 3), True, {"padding": 1}),
    ((1, 2, 5, 4), (2, 2, 3, 2), False, {"stride": (2, 1), "padding": (1, 0)}),
    ((1, 2, 5, 5), (2, 2, 2, 3), True, {"dilation": (2, 1), "padding": (3, 2)}),
    ((1, 4, 4, 3), (4, 2, 2, 2), True, {"groups": 2, "stride": 2, "dilation": 1, "padding": 1}),
    ((2, 2, 3, 3), (4, 1, 3, 3), False, {"groups": 2, "padding": 1}),
    ((1, 3, 2, 3), (2, 3, 1, 1), True, {}),
    ((1, 2, 2, 3), (1, 2, 1, 1), False, {"stride": 2}),
    ((1, 1, 4, 5), (1, 1, 1, 3), True, {"padding": "same", "dilation": (1, 2)}),
    ((1, 1, 3, 3), (1, 1, 2, 2), False, {"padding": "valid"}),
    ((1, 1, 2, 2), (1, 1, 2, 2), False, {"padding": 4}),
)
CONV3D: Calls = (
    ((2, 2, 3, 3, 2), (2, 2, 2, 2, 2), True, {}),
    ((2, 3, 2, 3), (1, 2, 3, 1, 2), False, {"padding": (1, 0, 1)}),
    ((1, 4, 4, 2, 3), (2, 2, 2, 2, 1), True, {"stride": (2, 1, 2), "padding": (2, 1, 0), "groups": 2}),
    (
        (1, 1, 5, 2, 3),
        (2, 1, 3, 1, 2),
        False,
        {"dilation": (2, 1, 1), "stride": (1, 2, 1), "padding": (3, 0, 0)},
    ),
    ((1, 2, 4, 2, 2), (2, 1, 2, 1, 1), True, {"stride": (2, 1, 1), "padding": (1, 0, 0), "groups": 2}),
    ((1, 1, 2, 3, 2), (1, 1, 3, 1, 3), True, {"padding": "same"}),
)
TRANSPOSED1D: Calls = (
    ((2, 2, 4), (2, 3, 2), True, {}),
    ((2, 4), (2, 1, 3), False, {"stride": 2, "padding": 1, "output_padding": 1}),
    ((1, 4, 3), (4, 1, 3), True, {"groups": 2, "dilation": 2, "output_padding": 1}),
)
TRANSPOSED2D: Calls = (
    ((2, 2, 2, 3), (2, 3, 2, 2), True, {}),
    ((2, 3, 3), (2, 1, 3, 3), True, {"padding": 1}),
    ((1, 2, 3, 2), (2, 2, 3, 2), False, {"stride": (2, 1), "padding": (1, 0), "output_padding": (1, 0)}),
    ((1, 4, 2, 2), (4, 1, 2, 2), True, {"groups": 2, "stride": 2, "dilation": 1}),
    ((1, 2, 2, 3), (2, 1, 2, 2), False, {"dilation": (3, 2), "output_padding": (2, 1), "padding": (1, 2)}),
    ((1, 2, 2, 2), (2, 2, 1, 1), True, {"stride": 2, "output_padding": 1}),
    ((1, 1, 5, 5), (1, 1, 2, 2), False, {"padding": 2}),
)
TRANSPOSED3D: Calls = (
    ((2, 2, 2, 2, 1), (2, 2, 2, 2, 2), True, {}),
    (
        (2, 3, 2, 2),
        (2, 1, 3, 2, 1),
        False,
        {"stride": (2, 1, 1), "padding": (1, 0, 0), "output_padding": (1, 0, 0)},
    ),
    (
        (1, 2, 2, 1, 2),
        (2, 1, 2, 1, 2),
        True,
        {"groups": 2, "dilation": (3, 1, 2), "output_padding": (2, 0, 1)},
    ),
    ((1, 2, 3, 2, 1), (2, 2, 2, 1, 1), True, {"stride": (3, 1, 1)}),
)
OF_RANK = {1: (CONV1D, TRANSPOSED1D), 2: (CONV2D, TRANSPOSED2D), 3: (CONV3D, TRANSPOSED3D)}


def samples_from(calls: Calls, transposed: bool) -> Any:
    def samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
        rows = []
        for x, w, with_bias, settings in calls:
            operands = [normal(rng, x, dtype), normal(rng, w, dtype)]
            if with_bias:
                outputs = w[1] * settings.get("groups", 1) if transposed else w[0]
                operands.append(normal(rng, (outputs,), dtype))
            rows.append(Sample(tuple(operands), settings))
        return rows

    return samples


def refused(
    name: str, label: str, raises: type[Exception], shapes: Any, settings: Any, *mentions: str
) -> ErrorCase:
    call = functional(name)
    arrays = tuple(ones(*shape) for shape in shapes)
    return ErrorCase(
        label, raises, lambda lib, *args: call(lib, *args, **settings), arrays, (name, *mentions)
    )


def convolution(rank: int) -> OpCase:
    name, image = f"conv{rank}d", (4,) * rank
    x, w = (1, 2, *image), (2, 2, *(2,) * rank)
    call = functional(name)
    return OpCase(
        name,
        call,
        samples_from(OF_RANK[rank][0], transposed=False),
        convolve,
        differentiable=True,
        forms={
            "positional": lambda lib, x, w, b=None, **k: call(
                lib,
                x,
                w,
                b,
                *(k.get(n, v) for n, v in (("stride", 1), ("padding", 0), ("dilation", 1), ("groups", 1))),
            ),
        },
        empty=lambda d: [Sample((np.zeros((0, *x[1:]), d), np.ones(w, d), np.ones(2, d)))],
        errors=[
            refused(name, "channels", RuntimeError, ((1, 3, *image), w), {}, "channels", bracketed(*w)),
            refused(name, "dims", RuntimeError, ((4,), w), {}, "batched", bracketed(4)),
            refused(name, "weight dims", RuntimeError, (x, (2, 2)), {}, "weight|stride", r"2, 2"),
            refused(name, "room", RuntimeError, (x, (2, 2, *(5,) * rank)), {}, "[Kk]ernel size"),
            refused(name, "bias", RuntimeError, (x, w, (3,)), {}, "bias", bracketed(3)),
            refused(
                name, "groups", RuntimeError, (x, (3, 1, *w[2:])), {"groups": 2}, "groups=2", "dimension 0"
            ),
            refused(name, "no groups", RuntimeError, (x, w), {"groups": 0}, "groups"),
            refused(name, "stride", RuntimeError, (x, w), {"stride": 0}, "stride", number(0)),
            refused(name, "padding", RuntimeError, (x, w), {"padding": -1}, "padding", number(-1)),
            refused(name, "dilation", RuntimeError, (x, w), {"dilation": 0}, "dilation", number(0)),
            refused(
                name, "settings", RuntimeError, (x, w), {"stride": (1,) * 4}, "stride", bracketed(1, 1, 1, 1)
            ),
            refused(name, "text", RuntimeError, (x, w), {"padding": "wide"}, "'wide'"),
            refused(name, "same", RuntimeError, (x, w), {"padding": "same", "stride": 2}, "same", "stride"),
            refused(name, "float", TypeError, (x, w), {"stride": 1.5}, "stride", "float"),
            ErrorCase(
                "dtype",
                RuntimeError,
                call,
                (np.ones(x, "float32"), np.ones(w, "float64")),
                (name, "Float", "Double"),
            ),
            ErrorCase(
                "no tensor", TypeError, lambda lib, x: call(lib, x, None), (ones(*x),), (name, "weight")
            ),
        ],
    )


def transposed(rank: int) -> OpCase:
    name, image = f"conv_transpose{rank}d", (3,) * rank
    x, w = (1, 2, *image), (2, 1, *(2,) * rank)
    call = functional(name)
    return OpCase(
        name,
        call,
        samples_from(OF_RANK[rank][1], transposed=True),
        convolve_transposed,
        differentiable=True,
        empty=lambda d: [Sample((np.zeros((0, *x[1:]), d), np.ones(w, d)))],
        errors=[
            refused(name, "channels", RuntimeError, ((1, 3, *image), w), {}, "channels", bracketed(*w)),
            refused(name, "dims", RuntimeError, ((4,), w), {}, "batched", bracketed(4)),
            refused(name, "bias", RuntimeError, (x, w, (3,)), {}, "bias", bracketed(3)),
            refused(name, "more", RuntimeError, (x, w), {"output_padding": 1}, "output.padding", "stride"),
            refused(name, "less", RuntimeError, (x, w), {"output_padding": -1}, "output_padding"),
            refused(name, "size", RuntimeError, (x, w), {"padding": 3}, "too small"),
            refused(name, "groups", RuntimeError, (x, w), {"groups": 3}, "groups=3"),
        ],
    )


# --- padding --------------------------------------------------------------------------------------------


def padded(x: np.ndarray, pad: Sequence[int], mode: str = "constant", value: Any = None) -> np.ndarray:
    sides = [(0, 0)] * x.ndim
    for k in range(len(pad) // 2):
        sides[x.ndim - 1 - k] = (pad[2 * k], pad[2 * k + 1])
    cut = [slice(max(-a, 0), n - max(-b, 0)) for (a, b), n in zip(sides, x.shape, strict=True)]
    outer = [(max(a, 0), max(b, 0)) for a, b in sides]
    if mode == "circular":  # of what is left
        x, cut = x[tuple(cut)], [slice(None)] * x.ndim
    else:
        cut = [slice(s.start, None if s.stop == n else s.stop - n) for s, n in zip(cut, x.shape, strict=True)]
    modes: dict[str, tuple[str, dict[str, Any]]] = {
        "constant": ("constant", {"constant_values": np.asarray(value or 0).astype(x.dtype)}),
        "reflect": ("reflect", {}), "replicate": ("edge", {}), "circular": ("wrap", {}),
    }  # fmt: skip
    kind, options = modes[mode]
    if any(a + b for a, b in outer):
        x = np.pad(x, outer, kind, **options)  # type: ignore[call-overload]
    return np.ascontiguousarray(x[tuple(cut)]).reshape(x[tuple(cut)].shape)


PADS: Sequence[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = (
    ((3,), (1, 2), {}),
    ((2, 3), (0, 1, 2, 0), {"value": 1.5}),
    ((2, 3), (-1, 2, 1, -1), {"value": 1}),
    ((2, 1, 2), (1, 1), {}),
    ((2, 3), (0, 0), {}),
    ((), (), {}),
    ((1, 2, 2, 1, 2), (1, 0, 0, 1, 0, 0, 1, 1, 0, 1), {"value": -2}),
    ((2, 3), (2, 1), {"mode": "reflect"}),
    ((1, 2, 4), (-1, 3), {"mode": "replicate"}),
    ((1, 3, 3), (1, 2, 2, 0), {"mode": "reflect"}),
    ((1, 1, 2, 3), (3, 1, 2, 2), {"mode": "replicate"}),
    ((1, 2, 3), (3, 2), {"mode": "circular"}),
    ((1, 1, 3, 2), (1, 2, 2, -1), {"mode": "circular"}),
    ((1, 3, 4), (-1, 2), {"mode": "reflect"}),
    ((1, 2, 2, 2), (1, 0, 1, 1, 0, 1), {"mode": "reflect"}),
)


def pad_samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
    return [
        Sample((normal(rng, shape, dtype), pad), settings)
        for shape, pad, settings in PADS
        if not (dtype == "uint8" and settings.get("value", 0) < 0)
        and not (dtype == "bool" and settings.get("mode", "constant") != "constant")
    ]


def bad_pad(
    label: str, raises: type[Exception], shape: Any, pad: Any, settings: Any, *mentions: str
) -> ErrorCase:
    call = functional("pad")
    return ErrorCase(
        label, raises, lambda lib, x: call(lib, x, pad, **settings), (ones(*shape),), ("pad", *mentions)
    )


PAD = OpCase(
    "pad",
    functional("pad"),
    pad_samples,
    padded,
    dtypes=DTYPES,
    differentiable=True,
    special=lambda d: [Sample((special_values(d), (2, 1)))],
    empty=lambda d: [Sample((np.zeros((2, 0), d), (1, 1))), Sample((np.zeros((0, 2), d), (1, 0)))],
    errors=[
        bad_pad("odd", RuntimeError, (2, 3), (1,), {}, "divisible by 2"),
        bad_pad("many", RuntimeError, (2,), (1, 1, 1, 1), {}, number(4), number(1)),
        bad_pad("less", RuntimeError, (2,), (-2, -1), {}, bracketed(-2, -1)),
        bad_pad("mode", NotImplementedError, (2, 3, 4), (1, 1), {"mode": "mirror"}, "mirror"),
        bad_pad("dims", NotImplementedError, (4,), (1, 1), {"mode": "reflect"}, "reflect"),
        bad_pad(
            "reflect", RuntimeError, (2, 3, 4), (4, 1), {"mode": "reflect"}, number(4), bracketed(2, 3, 4)
        ),
        bad_pad("circular", RuntimeError, (2, 3, 4), (5, 1), {"mode": "circular"}, "wrapping", number(5)),
        bad_pad("value", RuntimeError, (2, 3, 4), (1, 1), {"mode": "replicate", "value": 1.0}, "value"),
        bad_pad("empty", RuntimeError, (2, 3, 0), (1, 1), {"mode": "replicate"}, bracketed(2, 3, 0)),
    ],
)

CASES = [*map(convolution, OF_RANK), *map(transposed, OF_RANK), PAD]
