"""Rows for joining and splitting, common shapes, turns, diagonals, and parts replaced."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from .common import ErrorCase, OpCase, Sample, function, method, normal, ones

DTYPES = ("float32", "float64", "int64", "bool")
WITHOUT_GRAD = ("float32",)
VECTORS = ((3,), (3,))
MATRICES = ((2, 3), (2, 3))
CUBES = ((2, 3, 2), (2, 3, 2))


def row(name: str, samples: Any, ref: Callable[..., Any], call: Any = None, **options: Any) -> OpCase:
    """A function of tensors of these shapes; what is no shape is passed as it is, dicts as keywords."""

    def made(rng: np.random.Generator, dtype: str) -> list[Sample]:
        found = []
        for sample in samples:
            *args, last = sample if isinstance(sample[-1], dict) else (*sample, {})
            found.append(
                Sample(tuple(normal(rng, a, dtype) if isinstance(a, tuple) else a for a in args), last)
            )
        return found

    def exact(*args: Any, **kwargs: Any) -> Any:
        out = ref(*args, **kwargs)
        return tuple(map(np.array, out)) if isinstance(out, (tuple, list)) else np.array(out)

    options = {"dtypes": DTYPES, "differentiable": True} | options
    return OpCase(name, call or function(name), made, exact, **options)


def of_list(name: str) -> Any:
    return lambda lib, *tensors: getattr(lib, name)(tensors)


def joining(name: str, samples: Any, ref: Any) -> OpCase:
    wrong = ErrorCase("sizes", RuntimeError, of_list(name), (ones(2, 3, 2), ones(3, 4, 5)), ("cat|stack",))
    return row(name, samples, lambda *x: ref(x), of_list(name), errors=[wrong])


def as_method(name: str) -> dict[str, Any]:
    return {"forms": {"method": method(name)}}


def block_diag(*parts: np.ndarray) -> np.ndarray:
    parts = tuple(np.atleast_2d(p) for p in parts)
    out = np.zeros((sum(p.shape[0] for p in parts), sum(p.shape[1] for p in parts)), parts[0].dtype)
    n = m = 0
    for p in parts:
        out[n : n + p.shape[0], m : m + p.shape[1]] = p
        n, m = n + p.shape[0], m + p.shape[1]
    return out


def diag_embed(x: np.ndarray, offset: int = 0, dim1: int = -2, dim2: int = -1) -> np.ndarray:
    n = x.shape[-1] + abs(offset)
    out = np.zeros((*x.shape[:-1], n, n), x.dtype)
    for k in range(x.shape[-1]):
        out[..., k + max(-offset, 0), k + max(offset, 0)] = x[..., k]
    return np.moveaxis(out, (-2, -1), (dim1, dim2))


def replaced(part: Callable[..., Any]) -> Callable[..., np.ndarray]:
    def ref(x: np.ndarray, src: np.ndarray, *args: Any, **kwargs: Any) -> np.ndarray:
        out = x.copy()
        out[part(*args, **kwargs)] = src
        return out

    return ref


def diagonal_scatter(x: np.ndarray, src: np.ndarray, offset: int = 0) -> np.ndarray:
    out = x.copy()
    for k in range(src.shape[-1]):
        out[k + max(-offset, 0), k + max(offset, 0)] = src[k]
    return out


def chosen(x: np.ndarray, r: int = 2, with_replacement: bool = False) -> np.ndarray:
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    return np.array(list(choose(x.tolist(), r)), x.dtype).reshape(-1, r)


def grid(*x: np.ndarray, indexing: str = "ij") -> list[np.ndarray]:
    return list(np.meshgrid(*x, indexing=indexing))  # type: ignore[call-overload]


def combined(*x: np.ndarray) -> np.ndarray:
    if len(x) == 1:
        return x[0]
    return np.stack([g.reshape(-1) for g in np.meshgrid(*x, indexing="ij")], 1)


def parts(name: str, samples: Any, ref: Any, wrong: ErrorCase) -> OpCase:
    return row(name, samples, ref, view=True, errors=[wrong], **as_method(name))


def indivisible(name: str, *shape: int) -> ErrorCase:
    return ErrorCase("size", RuntimeError, function(name), (ones(*shape), 2), (name, "3"))


def tensor_split(x: np.ndarray, places: Any, dim: int = 0) -> list[np.ndarray]:
    if isinstance(places, int) or sorted(places) == places:
        return np.array_split(x, places, dim)
    return [x[:2], x[2:1], x[1:], x[5:]]


def with_a_wrong_mode(lib: Any, x: Any) -> Any:
    return lib.meshgrid(x, indexing="no")


def with_one_dim(lib: Any, x: Any) -> Any:
    return lib.diag_embed(x, 0, 1, 1)


def of_numbers(name: str, *samples: Any, ref: Any, dtype: str) -> OpCase:
    return OpCase(name, function(name), lambda rng, d: [Sample(s) for s in samples], ref, (dtype,))


def triangle(indices: Any) -> Any:
    return lambda n, m, k=0: np.array(indices(n, k, m), np.int64)


TRIANGLES = ((3, 3), (2, 4, 1), (0, 3))

JOINING = [
    joining("hstack", (VECTORS, MATRICES, ((), (2,)), ((2, 1), (2, 3))), np.hstack),
    joining("vstack", (VECTORS, MATRICES, ((1, 3), (3,))), np.vstack),
    joining("row_stack", (VECTORS, MATRICES), np.vstack),
    joining("dstack", (VECTORS, MATRICES, CUBES), np.dstack),
    joining("column_stack", (VECTORS, MATRICES, ((2,), (2, 3))), np.column_stack),
    row("block_diag", (MATRICES, ((2,), (2, 1), ())), block_diag),
    row("atleast_1d", (((),), ((2,),), ((), (2, 3))), lambda *x: np.atleast_1d(*x), view=True),
    row("atleast_2d", (((),), ((2,),), ((2,), (2, 3))), lambda *x: np.atleast_2d(*x), view=True),
    row(
        "atleast_3d", (((),), ((2,),), ((2, 3),), ((2,), (2, 3, 1))), lambda *x: np.atleast_3d(*x), view=True
    ),
]

SPLITTING = [
    row(
        "tensor_split",
        (((5, 2), 2), ((5, 2), 7), ((5,), [1, 3]), ((2, 5), 3, 1), ((5,), [2, 1, 9]), ((5,), [-2])),
        lambda x, k, dim=0: (
            np.array_split(x, k, dim)
            if isinstance(k, int) or sorted(k) == k
            else [x[:2], x[2:1], x[1:], x[5:]]
        ),
        view=True,
        errors=[
            ErrorCase("none", RuntimeError, function("tensor_split"), (ones(2), 0), ("tensor_split", "0"))
        ],
        **as_method("tensor_split"),
    ),
    parts("hsplit", (((4,), 2), ((2, 4), 2), ((2, 4), [1, 3])), np.hsplit, indivisible("hsplit", 2, 3)),
    parts("vsplit", (((4, 2), 2), ((4, 2), [1, 3])), np.vsplit, indivisible("vsplit", 3, 2)),
    parts("dsplit", (((1, 2, 4), 2), ((1, 2, 4), [1])), np.dsplit, indivisible("dsplit", 1, 2, 3)),
    row(
        "unsafe_chunk",
        (((4, 2), 2), ((2, 3), 2, 1)),
        lambda x, n, dim=0: np.array_split(x, n, dim),
        view=None,
    ),
]

SHAPES = [
    row(
        "broadcast_tensors",
        (((2, 1), (3,)), ((), (2, 3)), ((2, 3),)),
        lambda *x: list(np.broadcast_arrays(*x)),
        view=True,
        errors=[
            ErrorCase("shapes", RuntimeError, function("broadcast_tensors"), (ones(2), ones(3)), ("2", "3"))
        ],
    ),
    row(
        "meshgrid",
        (
            ((2,), (3,), {"indexing": "ij"}),
            ((2,), (3,), {"indexing": "xy"}),
            ((2,), (3,), (), {"indexing": "xy"}),
        ),
        grid,
        view=True,
        errors=[
            ErrorCase(
                "kind",
                RuntimeError,
                with_a_wrong_mode,
                (ones(2),),
                ("meshgrid", "xy"),
            )
        ],
    ),
    row(
        "cartesian_prod",
        (((2,), (3,)), ((2,), (1,), (2,)), ((3,),)),
        lambda *x: combined(*x) if x[1:] else x[0],
        view=None,
    ),
    row(
        "combinations", (((4,),), ((4,), 3), ((3,), 2, True), ((1,), 2)), chosen, **as_method("combinations")
    ),
    row(
        "rot90",
        (((2, 3), 1, [0, 1]), ((2, 3), 2, [0, 1]), ((2, 3), -1, [1, 0]), ((2, 3), 4, [0, 1])),
        np.rot90,
        view=None,
        **as_method("rot90"),
    ),
    row("fliplr", (((2, 3),),), np.fliplr, **as_method("fliplr")),
    row("flipud", (((2, 3),), ((3,),)), np.flipud, **as_method("flipud")),
    row("ravel", (((2, 3),), ((),)), np.ravel, view=True, strided=True, **as_method("ravel")),
]

DIAGONALS = [
    row(
        "diag_embed",
        (((3,),), ((2, 3),), ((2,), {"offset": 1}), ((2,), {"offset": -2}), ((2, 3), {"dim1": 0, "dim2": 2})),
        diag_embed,
        errors=[
            ErrorCase(
                "dims",
                RuntimeError,
                with_one_dim,
                (ones(2),),
                ("diag_embed", "1"),
            )
        ],
        **as_method("diag_embed"),
    ),
    row(
        "diag",
        (((3,),), ((3,), 1), ((3, 3),), ((2, 3), -1)),
        np.diag,
        view=None,
        **as_method("diag"),
        errors=[ErrorCase("dims", RuntimeError, function("diag"), (ones(2, 2, 2),), ("diag", "3"))],
    ),
    row("diagflat", (((3,),), ((2, 2),), ((2,), 1)), np.diagflat, **as_method("diagflat")),
    row(
        "select_scatter",
        (((2, 3), (3,), 0, 1), ((2, 3), (2,), 1, -1)),
        replaced(lambda dim, index: (slice(None),) * dim + (index,)),
        errors=[
            ErrorCase(
                "sizes",
                RuntimeError,
                function("select_scatter"),
                (ones(2, 3), ones(2), 0, 1),
                ("select_scatter", "2", "3"),
            )
        ],
        **as_method("select_scatter"),
    ),
    row(
        "slice_scatter",
        (((4, 3), (2, 3), 0, 1, 3), ((2, 4), (2, 2), 1, 0, 4, 2), ((2, 3), (2, 3))),
        replaced(lambda dim=0, *bounds: (slice(None),) * dim + (slice(*bounds) if bounds else slice(None),)),
        **as_method("slice_scatter"),
    ),
    row(
        "diagonal_scatter",
        (((3, 3), (3,)), ((3, 3), (2,), 1), ((3, 3), (2,), -1)),
        diagonal_scatter,
        **as_method("diagonal_scatter"),
    ),
    of_numbers("tril_indices", *TRIANGLES, ref=triangle(np.tril_indices), dtype="int64"),
    of_numbers("triu_indices", *TRIANGLES, ref=triangle(np.triu_indices), dtype="int64"),
    of_numbers(
        "logspace",
        (0, 2, 3),
        (-1.0, 1.0, 5, 2.0),
        (0, 1, 0),
        dtype="float32",
        ref=lambda a, b, n, base=10.0: np.logspace(a, b, n, base=base).astype(np.float32),
    ),
]

CASES = [*JOINING, *SPLITTING, *SHAPES, *DIAGONALS]
