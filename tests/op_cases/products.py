"""Rows for sums of products over named dimensions, and products that are made of others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .common import NUMBERS, ErrorCase, OpCase, Sample, function, method, normal, on_clone, ones, quiet

TOLERANCES = {"float32": (2e-5, 2e-5), "float64": (1e-12, 1e-12)}


def row(
    name: str,
    call: Any,
    shapes: Sequence[tuple[Any, ...]],
    ref: Callable[..., Any],
    *,
    extra: Any = (),
    **options: Any,
) -> OpCase:
    """A function of tensors of these shapes; what is no shape is passed as it is, dicts as keywords."""

    def samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
        found = []
        for shape in shapes:
            *args, last = shape if isinstance(shape[-1], dict) else (*shape, {})
            found.append(
                Sample(tuple(normal(rng, a, dtype) if isinstance(a, tuple) else a for a in args), last)
            )
        return found

    def exact(*args: Any, **kwargs: Any) -> np.ndarray:
        kinds = {a.dtype for a in args if isinstance(a, np.ndarray)}
        wide = [
            a.astype(np.float64) if isinstance(a, np.ndarray) and a.dtype.kind == "f" else a for a in args
        ]
        return np.asarray(ref(*wide, **kwargs)).astype(kinds.pop())

    options = {"dtypes": NUMBERS, "differentiable": True, "tolerances": TOLERANCES} | options
    return OpCase(name, call, samples, quiet(exact), **options)


EQUATIONS: tuple[tuple[Any, ...], ...] = (
    ("ij,jk->ik", (2, 3), (3, 4)),
    ("ij,jk", (2, 3), (3, 4)),
    ("bij,bjk->bik", (2, 2, 3), (2, 3, 2)),
    ("i,j->ij", (2,), (3,)),
    ("ii->i", (3, 3)),
    ("ii", (3, 3)),
    ("ij->ji", (2, 3)),
    ("ij->", (2, 3)),
    ("i,i", (3,), (3,)),
    ("...ij,...jk->...ik", (2, 1, 2, 3), (2, 3, 2)),
    ("bhqd,bhkd->bhqk", (2, 2, 2, 3), (2, 2, 3, 3)),
    ("ij,jk,kl->il", (2, 3), (3, 2), (2, 4)),
    ("ijk,jil->kl", (2, 3, 2), (3, 2, 2)),
    ("ij,kj,j->ik", (2, 3), (2, 3), (3,)),
    ("a,ab,abc->bc", (2,), (2, 3), (2, 3, 2)),
    ("...,i->i...", (2, 2), (3,)),
    ("ij,ij->j", (2, 3), (2, 3)),
)


def einsum(lib: Any, *operands: Any, equation: str) -> Any:
    return lib.einsum(equation, *operands)


def einsum_sublists(lib: Any, *operands: Any, lists: Any) -> Any:
    """Operands with lists of integers, of which the last is that of the result."""
    given = [item for pair in zip(operands, lists, strict=False) for item in pair]
    return lib.einsum(*given, lists[-1])


def bad(label: str, equation: str, shapes: Any, *mentions: str) -> ErrorCase:
    arrays = tuple(ones(*s) for s in shapes)
    return ErrorCase(
        label, RuntimeError, lambda lib, *x: lib.einsum(equation, *x), arrays, ("einsum", *mentions)
    )


def cross(a: np.ndarray, b: np.ndarray, dim: int = -1) -> np.ndarray:
    a, b = np.broadcast_arrays(a, b)
    return np.cross(a, b, axis=dim)


def with_factors(product: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    return lambda x, a, b, beta=1, alpha=1: (beta * x if beta else 0) + alpha * product(a, b)


SUMS: dict[str, tuple[Any, Any]] = {
    "baddbmm": ((((2, 2, 4), (2, 2, 3), (2, 3, 4)), ((4,), (1, 2, 3), (1, 3, 4))), np.matmul),
    "addbmm": (
        (((2, 4), (3, 2, 3), (3, 3, 4)), ((1,), (1, 2, 3), (1, 3, 4))),
        lambda a, b: np.matmul(a, b).sum(0),
    ),
    "addmv": ((((2,), (2, 3), (3,)), ((), (2, 3), (3,))), np.matmul),
    "addr": ((((2, 3), (2,), (3,)), ((), (2,), (3,))), np.outer),
}
FACTORS: tuple[dict[str, int], ...] = ({}, {"beta": 2}, {"alpha": 3}, {"beta": 0, "alpha": 2})


def sums() -> list[OpCase]:
    found = []
    for name, (shapes, product) in SUMS.items():
        samples = [(*s, k) for s in shapes for k in FACTORS]
        wrong = (ones(2, 2, 3), ones(2, 2, 3)) if "bmm" in name else (ones(2, 3), ones(5))
        error = ErrorCase("shapes", RuntimeError, function(name), (ones(2), *wrong), (name,))
        found.append(
            row(
                name,
                function(name),
                samples,
                with_factors(product),
                forms={"method": method(name)},
                errors=[error],
            )
        )
        into = [(*shapes[0], k) for k in FACTORS]
        changed = on_clone(method(f"{name}_"))
        found.append(row(f"{name}_", changed, into, with_factors(product), inplace=method(f"{name}_")))
    addmm_ = [((2, 4), (2, 3), (3, 4), k) for k in FACTORS]
    found.append(
        row("addmm_", on_clone(method("addmm_")), addmm_, with_factors(np.matmul), inplace=method("addmm_"))
    )
    return found


CASES = [
    row(
        "einsum",
        einsum,
        [(*shapes, {"equation": equation}) for equation, *shapes in EQUATIONS],
        lambda *x, equation: np.einsum(equation, *x),
        dtypes=("float32", "float64", "int64"),  # sums of integers are int64
        errors=[
            bad("sizes", "ij,jk", ((2, 3), (2, 3)), "2", "3"),
            bad("count", "ij,jk", ((2, 3),), "fewer"),
            bad("dimensions", "ijk", ((2, 3),), "dimensions"),
            bad("letters", "i1", ((2, 3),), "1"),
            bad("output", "ij->k", ((2, 3),), "k"),
            bad("twice", "ij->ii", ((2, 3),), "i"),
        ],
        view=None,
    ),
    row(
        "einsum.sublists",
        einsum_sublists,
        (
            ((2, 3), (3, 4), {"lists": ([0, 1], [1, 2], [0, 2])}),
            ((2, 3), (3,), {"lists": ([5, 1], [1], [5])}),
            ((2, 2, 3), {"lists": ([..., 0], [0, ...])}),
        ),
        lambda *x, lists: einsum_sublists(np, *x, lists=lists),
        view=None,
    ),
    row(
        "tensordot",
        function("tensordot"),
        (
            ((2, 3), (3, 4), {"dims": 1}),
            ((2, 3), (2, 3), {"dims": 2}),
            ((2,), (3,), {"dims": 0}),
            ((2, 3, 4), (4, 3, 2), {"dims": ([1, 2], [1, 0])}),
        ),
        lambda a, b, dims: np.tensordot(a, b, dims),
        errors=[
            ErrorCase(
                "sizes", RuntimeError, function("tensordot"), (ones(2, 3), ones(2, 3), 1), ("tensordot", "3")
            )
        ],
    ),
    row(
        "inner",
        function("inner"),
        (((3,), (3,)), ((2, 3), (3,)), ((2, 3), (4, 3)), ((), (2, 3))),
        np.inner,
        forms={"method": method("inner")},
        errors=[ErrorCase("sizes", RuntimeError, function("inner"), (ones(2, 3), ones(2)), ("inner", "2"))],
    ),
    *sums(),
    row(
        "ger",
        function("ger"),
        (((2,), (3,)),),
        np.outer,
        forms={"method": method("ger"), "outer": function("outer")},
    ),
    row("vdot", function("vdot"), (((3,), (3,)),), np.vdot, forms={"method": method("vdot")}),
    row(
        "kron",
        function("kron"),
        (((2,), (3,)), ((2, 3), (2, 2)), ((2,), (2, 2)), ((), (2, 2))),
        np.kron,
        forms={"method": method("kron")},
    ),
    row(
        "cross",
        function("cross"),
        (((2, 3), (2, 3), {"dim": 1}), ((2, 3), (1, 3), {"dim": -1}), ((3, 2), (3, 2), {"dim": 0})),
        cross,
        forms={"method": method("cross"), "linalg": lambda lib, a, b, dim: lib.linalg.cross(a, b, dim=dim)},
        errors=[
            ErrorCase(
                "size", RuntimeError, function("cross"), (ones(2, 4), ones(2, 4), 1), ("cross", "3", "4")
            )
        ],
    ),
    row(
        "multi_dot",
        lambda lib, *tensors: lib.linalg.multi_dot(tensors),
        (((2, 3), (3, 4)), ((2, 3), (3, 4), (4, 1), (1, 2)), ((3,), (3, 2), (2,)), ((3,), (3, 2), (2, 4))),
        lambda *arrays: np.linalg.multi_dot(arrays),
        errors=[
            ErrorCase(
                "one",
                RuntimeError,
                lambda lib, x: lib.linalg.multi_dot([x]),
                (ones(2, 3),),
                ("multi_dot", "2"),
            )
        ],
    ),
    row(
        "chain_matmul",
        lambda lib, *x: (
            lib.linalg.multi_dot(x) if lib.__name__ == "torch" else lib.chain_matmul(*x)
        ),  # it warns there
        (((2, 3), (3, 4), (4, 2)),),
        lambda *arrays: np.linalg.multi_dot(arrays),
    ),
    row(
        "matrix_power",
        function("matrix_power"),
        (((2, 2), 0), ((2, 2), 1), ((2, 2), 2), ((3, 2, 2), 3), ((2, 2), 5)),
        np.linalg.matrix_power,
        dtypes=("float32", "float64"),
        forms={"method": method("matrix_power"), "linalg": lambda lib, x, n: lib.linalg.matrix_power(x, n)},
        tolerances={"float32": (1e-4, 1e-4), "float64": (1e-11, 1e-11)},
        errors=[
            ErrorCase(
                "square", RuntimeError, function("matrix_power"), (ones(2, 3), 2), ("matrix_power", "square")
            )
        ],
    ),
    row(
        "vecdot",
        lambda lib, x, y, dim=-1: lib.linalg.vecdot(x, y, dim=dim),
        (((3,), (3,)), ((2, 3), (3,)), ((2, 3), (2, 1), {"dim": 0})),
        lambda x, y, dim=-1: (x * y).sum(dim),
        dtypes=("float32", "float64"),
    ),
    row(
        "vander",
        function("vander"),
        (((3,),), ((3,), 2), ((3,), 4, True)),
        np.vander,
        torch_lacks=("gradients",),
        dtypes=("float32", "float64", "int64"),
    ),
    row(
        "trace",
        function("trace"),
        (((3, 3),), ((2, 3),)),
        np.trace,
        dtypes=("float32", "float64", "int64"),
        forms={"method": method("trace")},
        errors=[ErrorCase("matrix", RuntimeError, function("trace"), (ones(2),), ("trace", "matrix"))],
    ),
]
