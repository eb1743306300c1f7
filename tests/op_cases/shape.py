"""Rows for ops that move, join, cut or copy elements without computing on them, and for casts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from .common import (
    DTYPES,
    FLOATS,
    INTS,
    ErrorCase,
    OpCase,
    Sample,
    bracketed,
    empty_unary,
    f64,
    function,
    method,
    normal,
    number,
    ones,
    promote_types,
    quiet,
    special_unary,
    special_values,
)


def plan(*rows: Any) -> Callable[..., list[Sample]]:
    """Samples from rows of a shape and the arguments after it; a last dict holds keyword arguments."""

    def samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
        result = []
        for shape, *rest in rows:
            kwargs = rest.pop() if rest and isinstance(rest[-1], dict) else {}
            result.append(Sample((normal(rng, shape, dtype), *rest), kwargs))
        return result

    return samples


def without_rng(samples: Callable[..., list[Sample]]) -> Callable[[str], list[Sample]]:
    return lambda dtype: samples(np.random.default_rng(0), dtype)


def bad_dim(name: str, call: Any, dim: int = 2) -> ErrorCase:
    return ErrorCase("dim", IndexError, call, (ones(2, 3),), (name, "dim", number(dim)))


def fails(
    label: str, raises: type[Exception], call: Any, *mentions: str, shape: Sequence[int] = (2, 3)
) -> ErrorCase:
    """A call on a tensor of ones."""
    return ErrorCase(label, raises, lambda lib, x: call(x), (ones(*shape),), mentions)


def row(name: str, samples: Any, ref: Any, **options: Any) -> OpCase:
    options = {"dtypes": DTYPES, "differentiable": True, "call": function(name)} | options
    if "forms" not in options:
        options["forms"] = {"method": method(name)}
    return OpCase(name, samples=samples, ref=ref, **options)


# --- another shape for the same elements ----------------------------------------------------------------


def flattened(x: np.ndarray, start_dim: int = 0, end_dim: int = -1) -> np.ndarray:
    if x.ndim == 0:
        return x.reshape(1)
    start, end = start_dim % x.ndim, end_dim % x.ndim
    middle = int(np.prod(x.shape[start : end + 1], dtype=np.int64))
    return x.reshape(*x.shape[:start], middle, *x.shape[end + 1 :])


def unflattened(x: np.ndarray, dim: int, sizes: Sequence[int]) -> np.ndarray:
    dim %= x.ndim
    known = -int(np.prod(sizes)) if -1 in sizes else 0
    filled = [x.shape[dim] // known if size == -1 else size for size in sizes]
    return x.reshape(*x.shape[:dim], *filled, *x.shape[dim + 1 :])


def squeezed(x: np.ndarray, dim: Any = None) -> np.ndarray:
    dims = range(x.ndim) if dim is None else dim if isinstance(dim, tuple) else (dim,)
    if x.ndim == 0:
        return x
    return np.squeeze(x, axis=tuple(d % x.ndim for d in dims if x.shape[d] == 1))


def expanded(x: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    lead = len(sizes) - x.ndim
    return np.broadcast_to(x, [x.shape[i - lead] if size == -1 else size for i, size in enumerate(sizes)])


RESHAPES = plan(
    ((2, 3), (3, 2)),
    ((2, 3), (-1,)),
    ((2, 3, 2), (2, -1)),
    ((6,), (1, 2, 3)),
    ((), (1, 1)),
    ((1,), ()),
    ((2, 3), (2, 3)),
)
EMPTY_RESHAPES = without_rng(plan(((0, 3), (3, 0)), ((2, 0), (-1,)), ((0,), (2, 0, 5)), ((0, 3), (-1, 3))))
IMPOSSIBLE_SHAPES = {
    "size": ((4,), (r"\b4\b", r"\b6\b")),
    "two unknown": ((-1, -1), ("-1",)),
    "negative": ((-2, 3), ("-2",)),
}


def shape_errors(name: str) -> list[ErrorCase]:
    return [
        fails(label, RuntimeError, lambda x, s=sizes: getattr(x, name)(s), name, *mentions)
        for label, (sizes, mentions) in IMPOSSIBLE_SHAPES.items()
    ]


STAR_METHOD = {
    "method": method("reshape"),
    "star": lambda lib, x, sizes: x.reshape(*sizes) if sizes else x.reshape(()),
}

VIEWS = [
    row(
        "reshape",
        RESHAPES,
        np.reshape,
        forms=STAR_METHOD,
        view=True,
        empty=EMPTY_RESHAPES,
        errors=[
            *shape_errors("reshape"),
            fails("ambiguous", RuntimeError, lambda x: x.reshape(-1, 0), "reshape", "-1", shape=(0, 3)),
        ],
    ),
    row(
        "view",
        RESHAPES,
        np.reshape,
        call=method("view"),
        view=True,
        strided=False,
        empty=EMPTY_RESHAPES,
        forms={"star": lambda lib, x, sizes: x.view(*sizes) if sizes else x.view(())},
        errors=[
            *shape_errors("view"),
            fails("strides", RuntimeError, lambda x: x.t().view(6), "view", "stride|contiguous", "reshape"),
        ],
    ),
    row(
        "permute",
        plan(((2, 3, 4), (2, 0, 1)), ((2, 3), (-1, 0)), ((3,), (0,)), ((), ())),
        np.transpose,
        forms={
            "method": method("permute"),
            "star": lambda lib, x, dims: x.permute(*dims) if dims else x.permute(()),
        },
        view=True,
        empty=without_rng(plan(((0, 3), (1, 0)))),
        errors=[
            bad_dim("permute", lambda lib, x: x.permute(0, 2)),
            fails("repeated", RuntimeError, lambda x: x.permute(0, 0), "permute", number(0)),
            fails("count", RuntimeError, lambda x: x.permute(0), "permute", number(1), number(2)),
        ],
    ),
    row(
        "transpose",
        plan(((2, 3), 0, 1), ((2, 3, 4), -1, 0), ((2, 3, 4), 1, 1), ((), 0, -1)),
        lambda x, a, b: x if x.ndim == 0 else np.swapaxes(x, a, b),
        forms={alias: function(alias) for alias in ("swapaxes", "swapdims")}
        | {"method": method("transpose")},
        view=True,
        empty=without_rng(plan(((0, 3), 0, 1))),
        errors=[
            bad_dim("transpose", lambda lib, x: x.transpose(0, 2)),
            fails("one dim", TypeError, lambda x: x.transpose(0), "transpose", "dim1"),
        ],
    ),
    row(
        "t",
        plan(((2, 3),), ((4,),), ((),)),
        np.transpose,
        view=True,
        empty=without_rng(plan(((0, 3),))),
        errors=[fails("3 dims", RuntimeError, lambda x: x.t(), r"\bt\b", number(3) + "|3D", shape=(2, 3, 4))],
    ),
    row(
        "T",
        plan(((2, 3),), ((3, 1),)),
        np.transpose,
        call=lambda lib, x: x.T,
        forms={},
        view=True,
        empty=without_rng(plan(((0, 3),))),
    ),
    row(
        "mT",
        plan(((2, 3),), ((2, 3, 4),)),
        lambda x: np.swapaxes(x, -1, -2),
        call=lambda lib, x: x.mT,
        forms={},
        view=True,
        errors=[fails("1 dim", RuntimeError, lambda x: x.mT, "mT", "1", shape=(3,))],
    ),
    row(
        "squeeze",
        plan(((1, 3, 1),), ((1, 3, 1), 0), ((1, 3, 1), -1), ((2, 3), 0), ((1, 3, 1), (0, 2)), ((),), ((), 0)),
        squeezed,
        view=True,
        empty=without_rng(plan(((1, 0),))),
        errors=[bad_dim("squeeze", lambda lib, x: x.squeeze(2))],
    ),
    row(
        "unsqueeze",
        plan(((2, 3), 0), ((2, 3), 2), ((2, 3), -1), ((2, 3), -3), ((), 0)),
        np.expand_dims,
        view=True,
        empty=without_rng(plan(((0,), 0))),
        errors=[bad_dim("unsqueeze", lambda lib, x: x.unsqueeze(3), 3)],
    ),
    row(
        "expand",
        plan(((1, 3), (2, 3)), ((3,), (2, 3)), ((2, 1), (-1, 4)), ((), (2, 2)), ((2, 1), (3, -1, 2))),
        expanded,
        call=method("expand"),
        forms={"star": lambda lib, x, sizes: x.expand(*sizes)},
        view=True,
        empty=without_rng(plan(((1, 3), (0, 3)), ((0, 1), (0, 4)))),
        errors=[
            fails("size", RuntimeError, lambda x: x.expand(2, 4), "expand", number(3), number(4)),
            fails("fewer dims", RuntimeError, lambda x: x.expand(3), "expand", bracketed(2, 3), bracketed(3)),
            fails("new -1", RuntimeError, lambda x: x.expand(-1, 2, 3), "expand", "-1"),
        ],
    ),
    row(
        "flatten",
        plan(
            ((2, 3, 2),),
            ((2, 3, 2), 1),
            ((2, 3, 2), 0, 1),
            ((2, 3, 2), -2, -1),
            ((3,),),
            ((),),
            ((2, 3), 1, 1),
        ),
        flattened,
        view=True,
        empty=without_rng(plan(((0, 3),), ((2, 0, 3), 1))),
        errors=[
            bad_dim("flatten", lambda lib, x: x.flatten(2)),
            fails("order", RuntimeError, lambda x: x.flatten(1, 0), "flatten", "start_dim", "end_dim"),
        ],
    ),
    row(
        "unflatten",
        plan(((6, 2), 0, (2, 3)), ((2, 6), -1, (3, -1)), ((4,), 0, (2, 1, 2))),
        unflattened,
        view=True,
        errors=[
            fails(
                "sizes",
                RuntimeError,
                lambda x: x.unflatten(1, (2, 2)),
                "unflatten",
                bracketed(2, 2),
                number(3),
            ),
            fails("no sizes", RuntimeError, lambda x: x.unflatten(1, ()), "unflatten", "sizes"),
            bad_dim("unflatten", lambda lib, x: x.unflatten(2, (2, 2))),
        ],
    ),
    row(
        "movedim",
        plan(((2, 3, 4), 0, 2), ((2, 3, 4), -1, 0), ((2, 3, 4), (0, 1), (2, 0)), ((3,), 0, 0)),
        np.moveaxis,
        forms={"method": method("movedim"), "moveaxis": function("moveaxis")},
        view=True,
        errors=[
            bad_dim("movedim", lambda lib, x: x.movedim(0, 2)),
            fails(
                "count", RuntimeError, lambda x: x.movedim((0, 1), (0,)), "movedim", "source", "destination"
            ),
            fails(
                "repeated", RuntimeError, lambda x: x.movedim((0, 0), (0, 1)), "movedim", "source", number(0)
            ),
        ],
    ),
    row(
        "narrow",
        plan(((4, 3), 0, 1, 2), ((2, 5), -1, 0, 3), ((4, 3), 0, -2, 1), ((3,), 0, 3, 0)),
        lambda x, dim, start, length: np.take(
            x, np.arange(length) + start % (x.shape[dim] + (start >= 0)), axis=dim
        ),
        view=True,
        errors=[
            fails("length", RuntimeError, lambda x: x.narrow(0, 1, 2), "narrow", "length", number(2)),
            fails("start", IndexError, lambda x: x.narrow(0, 3, 0), "narrow", "start", number(3)),
            fails("negative length", RuntimeError, lambda x: x.narrow(0, 0, -1), "narrow", "length"),
            fails("no dims", RuntimeError, lambda x: x.narrow(0, 0, 1), "narrow", shape=()),
            bad_dim("narrow", lambda lib, x: x.narrow(2, 0, 1)),
        ],
    ),
    row(
        "diagonal",
        plan(
            ((3, 3),),
            ((3, 4), 1),
            ((3, 4), -2),
            ((2, 3, 4), 0, 1, 2),
            ((2, 3, 4), 1, -1, 0),
            ((2, 2), {"offset": 5}),
        ),
        np.diagonal,
        view=True,
        empty=without_rng(plan(((0, 3),), ((2, 0, 2), 0, 1, 2))),
        errors=[
            fails("same", RuntimeError, lambda x: x.diagonal(0, 1, 1), "diagonal", "dim"),
            fails("dims", IndexError, lambda x: x.diagonal(), "diagonal", "dim", shape=(3,)),
            bad_dim("diagonal", lambda lib, x: x.diagonal(0, 0, 2)),
        ],
    ),
    row(
        "select",
        plan(((4, 3), 0, 1), ((4, 3), -1, -1), ((3,), 0, 2)),
        lambda x, dim, i: np.take(x, i, axis=dim),
        view=True,
        empty=without_rng(plan(((2, 0), 0, 1))),
        errors=[
            fails("index", IndexError, lambda x: x.select(0, 2), "select", "index", number(2)),
            bad_dim("select", lambda lib, x: x.select(2, 0)),
            fails("no dims", IndexError, lambda x: x.select(0, 0), "select", shape=()),
        ],
    ),
]


# --- several tensors from one, one from several ---------------------------------------------------------


def sections(x: np.ndarray, size_or_sizes: Any, dim: int = 0) -> tuple[np.ndarray, ...]:
    length = x.shape[dim]
    sizes = size_or_sizes
    if isinstance(sizes, int):
        starts = range(0, length, sizes) if sizes else range(1)
        sizes = [min(sizes, length - s) for s in starts] or [0]
    edges = np.cumsum([0, *sizes])
    return tuple(np.take(x, np.arange(a, b), axis=dim) for a, b in pairwise(edges))


def chunks(x: np.ndarray, count: int, dim: int = 0) -> tuple[np.ndarray, ...]:
    length = x.shape[dim]
    return sections(x, -(-length // count), dim) if length else (x,) * count


def layers(x: np.ndarray, dim: int = 0) -> tuple[np.ndarray, ...]:
    return tuple(np.moveaxis(x, dim, 0))


CUTS = [
    row(
        "split",
        plan(((5, 2), 2), ((4, 2), [1, 3]), ((2, 5), (2, 0, 3), -1), ((3,), 5), ((2, 4), 2, {"dim": 1})),
        sections,
        view=True,
        empty=without_rng(plan(((0, 2), 2), ((0,), 0))),
        errors=[
            fails("zero", RuntimeError, lambda x: x.split(0), "split", number(0)),
            fails("negative", RuntimeError, lambda x: x.split(-1), "split", "-1"),
            fails("sum", RuntimeError, lambda x: x.split([1, 2]), "split", number(2), r"[\[(]1, 2[\])]"),
            fails("negative section", RuntimeError, lambda x: x.split([3, -1]), "split", "-1"),
            fails("no dims", RuntimeError, lambda x: x.split(1), "split", shape=()),
            bad_dim("split", lambda lib, x: x.split(1, 2)),
        ],
    ),
    row(
        "chunk",
        plan(((5, 2), 2), ((7,), 5), ((2, 6), 3, -1), ((2,), 4), ((2, 4), 2, {"dim": 1})),
        chunks,
        view=True,
        empty=without_rng(plan(((0,), 3))),
        errors=[
            fails("zero", RuntimeError, lambda x: x.chunk(0), "chunk", number(0)),
            bad_dim("chunk", lambda lib, x: x.chunk(2, 2)),
        ],
    ),
    row(
        "unbind",
        plan(((3, 2),), ((2, 3), 1), ((2, 3, 2), -2), ((3,),)),
        layers,
        view=True,
        empty=without_rng(plan(((2, 0),), ((0, 2), 1))),
        errors=[
            bad_dim("unbind", lambda lib, x: x.unbind(2)),
            fails("no dims", IndexError, lambda x: x.unbind(), "unbind|dim", shape=()),
        ],
    ),
    row(
        "iterate",
        plan(((3, 2),), ((3,),)),
        layers,
        call=lambda lib, x: tuple(x),
        forms={"list": lambda lib, x: [*x]},
        view=True,
    ),
]


def several(*rows: tuple[Sequence[Sequence[int]], dict[str, int]]) -> Callable[..., list[Sample]]:
    return lambda rng, dtype: [
        Sample(tuple(normal(rng, s, dtype) for s in shapes), kwargs) for shapes, kwargs in rows
    ]


def joined(*parts: np.ndarray, dim: int = 0) -> np.ndarray:
    dtype = promote_types(*(str(p.dtype) for p in parts))
    kept = [p for p in parts if p.shape != (0,)] or list(parts)
    return np.concatenate(kept, axis=dim).astype(dtype)


def piled(*parts: np.ndarray, dim: int = 0) -> np.ndarray:
    return np.stack(parts, axis=dim).astype(promote_types(*(str(p.dtype) for p in parts)))


def joining(name: str) -> Callable[..., Any]:
    return lambda lib, *parts, **kwargs: getattr(lib, name)(parts, **kwargs)


def positional_list(name: str) -> Callable[..., Any]:
    return lambda lib, *parts, dim=0: getattr(lib, name)(list(parts), dim)


def joining_fails(
    label: str, raises: type[Exception], name: str, *shapes: Sequence[int], dim: int = 0, mentions: Any = ()
) -> ErrorCase:
    arrays = tuple(ones(*s) for s in shapes)
    return ErrorCase(label, raises, lambda lib, *p: getattr(lib, name)(p, dim=dim), arrays, (name, *mentions))


def mixed_pairs(rng: np.random.Generator, dtype: str) -> list[Sample]:
    return [Sample((normal(rng, (2,), a), normal(rng, (2,), b))) for a in DTYPES for b in DTYPES if a != b]


JOINS = [
    row(
        "cat",
        several(
            (((2, 3), (1, 3)), {}),
            (((2, 1), (2, 3), (2, 2)), {"dim": -1}),
            (((3,),), {}),
            (((2, 3), (0,)), {}),
        ),
        joined,
        call=joining("cat"),
        view=False,
        forms={
            "list": positional_list("cat"),
            "concat": joining("concat"),
            "concatenate": joining("concatenate"),
        },
        empty=lambda d: [
            Sample((np.zeros((0, 2), d), np.ones((1, 2), d))),
            Sample((np.zeros(0, d), np.zeros(0, d))),
        ],
        errors=[
            joining_fails("nothing", ValueError, "cat", mentions=["empty"]),
            joining_fails("sizes", RuntimeError, "cat", (2, 3), (2, 4), mentions=[number(3), number(4)]),
            joining_fails("dims", RuntimeError, "cat", (2, 3), (3,), mentions=[number(2), number(1)]),
            joining_fails("no dims", RuntimeError, "cat", (), ()),
            joining_fails("dim", IndexError, "cat", (2, 3), (2, 3), dim=2, mentions=["dim", number(2)]),
            ErrorCase("tensor", TypeError, lambda lib, x: lib.cat(x), (ones(2, 3),), ("cat", "[Tt]ensor")),
            ErrorCase(
                "number", TypeError, lambda lib, x: lib.cat([x, 1]), (ones(2, 3),), ("cat|element", "int")
            ),
        ],
    ),
    OpCase("cat.mixed", joining("cat"), mixed_pairs, joined, ("mixed",), differentiable=True),
    row(
        "stack",
        several(
            (((2, 3), (2, 3)), {}),
            (((3,), (3,), (3,)), {"dim": -1}),
            (((), ()), {}),
            (((2, 3),) * 2, {"dim": 1}),
        ),
        piled,
        call=joining("stack"),
        forms={"list": positional_list("stack")},
        view=False,
        empty=lambda d: [Sample((np.zeros((0, 2), d),) * 2, {"dim": 1})],
        errors=[
            joining_fails("nothing", RuntimeError, "stack", mentions=["empty"]),
            joining_fails(
                "sizes", RuntimeError, "stack", (2, 3), (2, 4), mentions=[bracketed(2, 3), bracketed(2, 4)]
            ),
            joining_fails("dim", IndexError, "stack", (2, 3), (2, 3), dim=3, mentions=["dim", number(3)]),
        ],
    ),
    OpCase("stack.mixed", joining("stack"), mixed_pairs, piled, ("mixed",), differentiable=True),
]


# --- copies and casts -----------------------------------------------------------------------------------


def triangle(name: str, ref: Any) -> OpCase:
    return row(
        name,
        plan(((3, 4),), ((3, 3), 1), ((4, 3), -1), ((2, 3, 3),), ((2, 2), 5), ((2, 2), {"diagonal": -3})),
        lambda x, diagonal=0: ref(x, diagonal),
        empty=without_rng(plan(((0, 3),))),
        special=lambda d: [Sample((np.resize(special_values(d), (4, 4)),))],
        errors=[fails("1 dim", RuntimeError, lambda x: getattr(x, name)(), name, number(2), shape=(3,))],
    )


def cast_inputs(target: str, source: str) -> np.ndarray:
    """Values that survive the cast with a defined result: fractions are cut, integers may wrap around."""
    if source not in FLOATS:
        return np.array([0, 1, 2, 100, 255] + ([] if source == "uint8" else [-1, -7, 300, 70000])).astype(
            source
        )
    values = [0.0, 0.5, 1.0, 1.7, 99.9] + ([] if target == "uint8" else [-0.5, -1.7, -1e4])
    return np.array(values, source)


def cast(target: str, shortcut: str, dtypes: Sequence[str], **options: Any) -> OpCase:
    forms = {
        "method": method(shortcut),
        "keyword": lambda lib, x: x.to(dtype=getattr(lib, target)),
        "like": lambda lib, x: x.to(lib.tensor(0).to(getattr(lib, target))),
        "type": lambda lib, x: x.type(getattr(lib, target)),
        "copy": lambda lib, x: x.to(getattr(lib, target), copy=True),
    }
    return OpCase(
        options.pop("name", f"to.{target}"),
        lambda lib, x: x.to(getattr(lib, target)),
        options.pop(
            "samples",
            lambda rng, d: [
                Sample((cast_inputs(target, d),)),
                Sample((cast_inputs(target, d)[1:2].reshape(()),)),
            ],
        ),
        quiet(lambda x: x.astype(target)),
        dtypes=dtypes,
        forms=forms,
        view=None,
        **options,
    )


def to_nowhere(lib: Any, x: Any) -> Any:
    return x.to("nowhere")


COPIES = [
    row(
        "clone",
        plan(((2, 3),), ((),)),
        np.copy,
        view=False,
        special=special_unary,
        empty=empty_unary,
    ),
    row(
        "contiguous",
        plan(((2, 3),), ((),)),
        np.copy,
        call=method("contiguous"),
        forms={},
        view=True,
        empty=empty_unary,
    ),
    row(
        "contiguous.transposed",
        plan(((2, 3),)),
        lambda x: x.T.copy(),
        call=lambda lib, x: x.t().contiguous(),
        forms={},
        view=False,
    ),
    row(
        "flip",
        plan(
            ((3, 4), (0,)),
            ((3, 4), (-1, 0)),
            ((2, 3, 4), [1]),
            ((5,), (0,)),
            ((3, 1, 2), (0, 1, 2)),
            ((2, 2), ()),
        ),
        lambda x, dims: np.flip(x, tuple(dims)),
        empty=without_rng(plan(((0, 3), (1,)))),
        special=lambda d: [Sample((np.resize(special_values(d), (4, 4)), (0, 1)))],
        view=False,
        errors=[fails("dim", IndexError, lambda x: x.flip(2), "dim", number(2), shape=(3, 2))],
    ),
    triangle("tril", np.tril),
    triangle("triu", np.triu),
    cast("float64", "double", DTYPES, differentiable=True, empty=empty_unary),
    cast(
        "float32",
        "float",
        ("float32", *INTS, "bool"),
        differentiable=True,
        errors=[ErrorCase("device", RuntimeError, to_nowhere, (ones(2),), ("device", "nowhere"))],
    ),
    cast(
        "float32",
        "float",
        ("mixed",),
        differentiable=True,
        name="to.float32.narrowing",
        samples=lambda rng, d: [Sample((f64([0.1, 1e-3, -1e30, 1e300, np.nan, np.inf]),))],
    ),
    cast("int64", "long", DTYPES, empty=empty_unary),
    cast("int32", "int", DTYPES),
    cast("uint8", "byte", DTYPES),
    cast("bool", "bool", DTYPES, special=special_unary),
]

CASES = [*VIEWS, *CUTS, *JOINS, *COPIES]
