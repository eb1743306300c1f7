"""Kernels of the CUDA device over batches of matrices, over the host's memory; see `test_simulator`."""

from __future__ import annotations

import numpy as np
import pytest
from cuda_comparing import ROWS, agree, bits, both, guarded
from cuda_simulator import run, words_of

from fastgrad.native.contracts.element_types import DTYPES, FLOAT32, FLOAT64
from fastgrad.native.contracts.frames.elementwise import FLAT
from fastgrad.native.contracts.frames.linalg import (
    GELS,
    GELSD,
    GELSS,
    GELSY,
    room_of_cofactors,
    room_of_exponential,
    room_of_least_squares,
    room_of_singular_vectors,
)

pytestmark = pytest.mark.cudasim
BATCH = 2
BOTH = pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64], ids=DTYPES.__getitem__)
SIZES = pytest.mark.parametrize("n", [1, 2, 5, 9])
SLACK = {"ulps": 400, "of_largest": 1.0}  # of the largest element: other orders of elimination


def matrices(dtype: int, *sizes: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((BATCH, *sizes)).astype(DTYPES[dtype])


def like(dtype: int, *sizes: int) -> np.ndarray:
    return np.zeros((BATCH, *sizes), DTYPES[dtype])


def whole(*sizes: int) -> np.ndarray:
    return np.zeros((BATCH, *sizes), np.int32)


def operand(name: str, array: np.ndarray) -> dict[str, object]:
    return {f"{name}__data": array, f"{name}__numel": array.size}


@BOTH
@pytest.mark.parametrize(("m", "n"), [(1, 1), (4, 4), (6, 3), (3, 6), (9, 9), (0, 3), (3, 0)])
def test_lu(dtype, m, n):
    k = min(m, n)
    outs = {"out": like(dtype, m, n), "pivots": whole(k), "info": whole()}
    agree("lu", dtype, FLAT, outs, **SLACK, **operand("a", matrices(dtype, m, n)), batch=BATCH, m=m, n=n, k=k)


@BOTH
@SIZES
def test_solutions(dtype, n):
    for k in (1, 3, 0):
        a, b = matrices(dtype, n, n), matrices(dtype, n, k, seed=1)
        outs = {"out": like(dtype, n, k), "factors": like(dtype, n, n), "pivots": whole(n), "info": whole()}
        agree(
            "solve", dtype, FLAT, outs, **SLACK, **operand("a", a), **operand("b", b), batch=BATCH, n=n, k=k
        )


@BOTH
def test_singular_matrices_are_said_to_be(dtype):
    a = matrices(dtype, 4, 4)
    a[1, :, 2] = 0
    a[0] = np.triu(a[0])
    a[0, 1, 1] = a[0, 3, 3] = 0
    outs = {"out": like(dtype, 4, 1), "factors": like(dtype, 4, 4), "pivots": whole(4), "info": whole()}
    b = operand("b", matrices(dtype, 4, 1, seed=1))
    mine, theirs = both("solve", dtype, FLAT, outs, **operand("a", a), **b, batch=BATCH, n=4, k=1)
    np.testing.assert_array_equal(mine["info"], theirs["info"])
    assert mine["info"].all()
    outs, pivots = {"out": like(dtype, 4, 4), "info": whole()}, whole(4)
    agree("inverse", dtype, FLAT, outs, **operand("a", a), pivots=pivots, batch=BATCH, n=4)
    agree(
        "determinant",
        dtype,
        FLAT,
        {"out": like(dtype)},
        **operand("a", a),
        factors=a.copy(),
        batch=BATCH,
        n=4,
    )


@BOTH
@SIZES
def test_inverses_and_determinants(dtype, n):
    given = {**operand("a", matrices(dtype, n, n)), "batch": BATCH, "n": n}
    agree(
        "inverse", dtype, FLAT, {"out": like(dtype, n, n), "info": whole()}, **SLACK, **given, pivots=whole(n)
    )
    agree("determinant", dtype, FLAT, {"out": like(dtype)}, 50, **given, factors=like(dtype, n, n))
    outs = {"sign": like(dtype), "logarithm": like(dtype)}
    agree("log_determinant", dtype, FLAT, outs, 50, of_largest=1, **given, factors=like(dtype, n, n))


@BOTH
@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("unit", [0, 1])
@pytest.mark.parametrize("transposed", [0, 1])
def test_triangles(dtype, upper, unit, transposed):
    for n, k in ((1, 1), (5, 1), (6, 3), (0, 2)):
        a = matrices(dtype, n, n) + 4 * np.eye(n, dtype=DTYPES[dtype])
        given = {**operand("a", a), **operand("b", matrices(dtype, n, k, seed=1))}
        which = {"upper": upper, "unit": unit, "transposed": transposed}
        agree(
            "triangular",
            dtype,
            FLAT,
            {"out": like(dtype, n, k)},
            **SLACK,
            **given,
            batch=BATCH,
            n=n,
            k=k,
            **which,
        )


@BOTH
@SIZES
def test_cholesky(dtype, n):
    x = matrices(dtype, n, n)
    a = x @ x.swapaxes(1, 2) + np.eye(n, dtype=x.dtype)
    outs = {"out": like(dtype, n, n), "info": whole()}
    agree("cholesky", dtype, FLAT, outs, **SLACK, **operand("a", a), batch=BATCH, n=n)
    for wrong in (-1, np.nan):
        a[0, n - 1, n - 1], a[1, n // 2, n // 2] = 0, wrong
        mine, theirs = both("cholesky", dtype, FLAT, outs, **operand("a", a), batch=BATCH, n=n)
        np.testing.assert_array_equal(mine["info"], theirs["info"])
        assert mine["info"].all()


@BOTH
@pytest.mark.parametrize("backwards", [0, 1])
def test_interchanges(dtype, backwards):
    for n, k, p in ((5, 3, 5), (5, 1, 2), (1, 1, 1), (4, 0, 4)):
        pivots = np.array([np.random.default_rng(2).integers(1, n + 1, p)] * BATCH, np.int32)
        given = {**operand("x", matrices(dtype, n, k)), **operand("pivots", pivots), "backwards": backwards}
        outs = {"out": like(dtype, n, k), "status": np.zeros(3, np.int64)}
        agree("interchange", dtype, FLAT, outs, 0, **given, batch=BATCH, n=n, k=k, p=p)


def test_pivots_out_of_range_are_reported():
    for pivots in ([[1, 2], [0, 1]], [[1, 4], [1, 1]]):
        given = {**operand("x", matrices(FLOAT32, 3, 2)), **operand("pivots", np.array(pivots, np.int32))}
        outs = {"status": np.zeros(3, np.int64)}
        out = like(FLOAT32, 3, 2)
        agree("interchange", FLOAT32, FLAT, outs, **given, out=out, batch=BATCH, n=3, k=2, p=2)
        mine, _ = both("interchange", FLOAT32, FLAT, outs, **given, out=out, batch=BATCH, n=3, k=2, p=2)
        assert mine["status"][0]


# --- symmetric matrices ------------------------------------------------------------------------------------------


def symmetric(dtype: int, n: int, what: str) -> np.ndarray:
    """Symmetric matrices; above the diagonal stands what nobody may read."""
    x = matrices(dtype, n, n)
    a = x + x.swapaxes(1, 2)
    if what == "pairs":  # no pivot of one row is possible at first
        a[:, range(n), range(n)] = 0
    elif what == "far":  # the largest elements stand in the last row
        a[:, -1:], a[:, range(n), range(n)] = a[:, -1:] * 8, 0.5
    elif what == "definite":
        a += 4 * n * np.eye(n, dtype=a.dtype)
    elif what == "singular":
        a[0, n // 2 :], a[0, :, n // 2 :], a[1] = 0, 0, 0
    a[:, *np.triu_indices(n, 1)] = np.nan
    return a


def ldl_outs(dtype: int, n: int) -> dict[str, np.ndarray]:
    return {"out": like(dtype, n, n), "pivots": whole(n), "info": whole()}


KINDS = ("any", "pairs", "far", "definite", "singular")


@BOTH
@pytest.mark.parametrize("kind", KINDS)
def test_ldl(dtype, kind):
    signs = set()
    for n in (1, 2, 3, 6, 11):
        a = operand("a", symmetric(dtype, n, kind))
        agree("ldl", dtype, FLAT, ldl_outs(dtype, n), **SLACK, **a, batch=BATCH, n=n)
        mine, _ = both("ldl", dtype, FLAT, ldl_outs(dtype, n), **a, batch=BATCH, n=n)
        assert mine["info"].all() == (kind == "singular" or (kind == "pairs" and n == 1))
        signs |= set(np.sign(mine["pivots"][mine["pivots"] != 0]).tolist())
    assert signs == ({1} if kind in ("definite", "singular") else {1, -1})
    agree("ldl", dtype, FLAT, ldl_outs(dtype, 0), **operand("a", matrices(dtype, 0, 0)), batch=BATCH, n=0)


def test_ldl_of_matrices_of_any_size():
    for factor in (2.0**-100, 2.0**100):
        a = symmetric(FLOAT32, 5, "pairs") * np.float32(factor)
        agree("ldl", FLOAT32, FLAT, ldl_outs(FLOAT32, 5), **SLACK, **operand("a", a), batch=BATCH, n=5)
    for at in ((0, 0), (4, 0), (4, 4), (3, 1)):
        a = symmetric(FLOAT32, 5, "any")
        a[1][at] = np.nan
        mine = on_gpu("ldl", ldl_outs(FLOAT32, 5), **operand("a", a), batch=BATCH, n=5)
        assert np.isfinite(mine["out"].reshape(BATCH, 25)[0]).all()
        assert np.isnan(mine["out"].reshape(BATCH, 25)[1]).any()
        assert mine["info"][0] == 0


@BOTH
@pytest.mark.parametrize("kind", KINDS[:-1])
def test_solutions_by_ldl(dtype, kind):
    for n, k in (
        (2, 1),
        (3, 0),
        (6, 3),
        (35, 1) if kind == "any" else (9, 2),
    ):  # more rows than a warp has threads
        a = symmetric(dtype, n, kind)
        factors, _ = both("ldl", dtype, FLAT, ldl_outs(dtype, n), **operand("a", a), batch=BATCH, n=n)
        given = {**operand("a", factors["out"]), **operand("pivots", factors["pivots"])}
        b = matrices(dtype, n, k, seed=1)
        given |= {**operand("b", b), "batch": BATCH, "n": n, "k": k}
        outs = {"out": like(dtype, n, k), "status": np.zeros(3, np.int64)}
        agree("ldl_solve", dtype, FLAT, outs, **SLACK, **given)
        mine, _ = both("ldl_solve", dtype, FLAT, outs, **given)
        lower = np.tril(np.nan_to_num(a))
        full = lower + np.tril(lower, -1).swapaxes(1, 2)
        x = mine["out"].reshape(b.shape).astype(np.float64)
        slack = 100 * np.finfo(b.dtype).eps * max(np.abs(x).max(initial=1) * np.abs(full).max(), 1)
        np.testing.assert_allclose(full @ x, b, rtol=0, atol=slack)


@pytest.mark.parametrize("pivots", [[0, 2, 3], [1, 4, 3], [-1, 2, 3], [1, 2, -3], [-2, -4, 1], [-4, -2, 3]])
def test_pivots_that_no_symmetric_matrix_has_are_reported(pivots):
    every = np.array([[1, 2, 3], pivots], np.int32)
    given = {**operand("a", matrices(FLOAT32, 3, 3)), **operand("b", matrices(FLOAT32, 3, 1))}
    given |= {**operand("pivots", every), "out": like(FLOAT32, 3, 1), "batch": BATCH, "n": 3, "k": 1}
    outs = {"status": np.zeros(3, np.int64)}
    agree("ldl_solve", FLOAT32, FLAT, outs, **given)
    mine, _ = both("ldl_solve", FLOAT32, FLAT, outs, **given)
    assert mine["status"][0]


# --- reflectors --------------------------------------------------------------------------------------------------

SHAPES = pytest.mark.parametrize(("m", "n"), [(1, 1), (4, 4), (7, 3), (3, 7), (9, 9), (4, 0), (0, 4)])


@BOTH
@SHAPES
def test_qr(dtype, m, n):
    k, a = min(m, n), matrices(dtype, m, n)
    a[0, :, n // 2 :] = 0  # reflectors that are none
    for columns, rows in {(k, k), (m, m), (0, k)}:
        outs = {"q": like(dtype, m, columns), "r": like(dtype, rows, n)}
        outs |= {"factors": like(dtype, m, n), "tau": like(dtype, k)}
        given = {**operand("a", a), "batch": BATCH, "m": m, "n": n, "k": k, "columns": columns, "rows": rows}
        agree("qr", dtype, FLAT, outs, **SLACK, **given)
    outs = {"out": like(dtype, m, n), "tau": like(dtype, k)}
    agree("reflectors", dtype, FLAT, outs, **SLACK, **operand("a", a), batch=BATCH, m=m, n=n, k=k)


@BOTH
def test_columns_of_any_size(dtype):
    huge = np.finfo(DTYPES[dtype]).max / 8
    a = matrices(dtype, 5, 3) * np.array([1e-30, 1, huge], DTYPES[dtype])
    outs = {"out": like(dtype, 5, 3), "tau": like(dtype, 3)}
    mine, theirs = both("reflectors", dtype, FLAT, outs, **operand("a", a), batch=BATCH, m=5, n=3, k=3)
    for key, found in mine.items():
        np.testing.assert_allclose(found, theirs[key], rtol=1e-3)
    a[1, 2, 1] = np.nan
    mine, _ = both("reflectors", dtype, FLAT, outs, **operand("a", a), batch=BATCH, m=5, n=3, k=3)
    assert np.isfinite(mine["out"].reshape(BATCH, 15)[0]).all()
    assert np.isnan(mine["tau"].reshape(BATCH, 3)[1, 1])


@BOTH
def test_products_with_reflectors(dtype):
    for m, n, k in ((5, 3, 3), (4, 4, 2), (3, 2, 0)):
        given = {**operand("a", matrices(dtype, m, n)), **operand("tau", matrices(dtype, k, seed=1)), "k": k}
        outs = {"out": like(dtype, m, n)}
        agree("householder", dtype, FLAT, outs, **SLACK, **given, batch=BATCH, m=m, n=n)
        for left in (0, 1):
            for transposed in (0, 1):
                rows, columns = (m, 6) if left else (6, m)
                c = operand("c", matrices(dtype, rows, columns, seed=2))
                sizes = {
                    "m": rows,
                    "n": columns,
                    "order": m,
                    "width": n,
                    "left": left,
                    "transposed": transposed,
                }
                outs = {"out": like(dtype, rows, columns)}
                agree("reflected", dtype, FLAT, outs, **SLACK, **given, **c, batch=BATCH, **sizes)


# --- spectra -----------------------------------------------------------------------------------------------------


def singular_matrices(dtype: int, m: int, n: int) -> list[np.ndarray]:
    a = matrices(dtype, m, n)
    low = a.copy()
    low[:, m // 2 :] = 0
    low[0] = 0
    return [a, low, np.ones_like(a), a * np.array(2.0**80 if dtype == FLOAT32 else 2.0**700, a.dtype)]


def decomposed(dtype: int, a: np.ndarray, columns: int, rows: int) -> None:
    """Compare singular values, and multiply what was found."""
    (m, n), k = a.shape[1:], min(a.shape[1:])
    given = {**operand("a", a), "batch": BATCH, "m": m, "n": n, "k": k}
    outs = {"values": like(dtype, k), "info": whole()}
    agree("svdvals", dtype, FLAT, outs, 40, of_largest=1, **given, work=like(dtype, m, n))
    outs |= {"u": like(dtype, m, columns), "vh": like(dtype, rows, n)}
    mine, theirs = both("svd", dtype, FLAT, outs, **given, columns=columns, rows=rows)
    u, vh = mine["u"].reshape(BATCH, m, columns), mine["vh"].reshape(BATCH, rows, n)
    s, slack = mine["values"].reshape(BATCH, k), 40 * np.finfo(a.dtype).eps
    top = np.abs(a).max(initial=1e-30)
    np.testing.assert_allclose(s, theirs["values"].reshape(s.shape), rtol=0, atol=slack * top * max(m, n))
    np.testing.assert_allclose(
        (u[..., :k] * s[:, None] @ vh[:, :k]) / top, a / top, rtol=0, atol=slack * max(m, n)
    )
    for unitary in (u.swapaxes(1, 2) @ u, vh @ vh.swapaxes(1, 2)):
        np.testing.assert_allclose(
            unitary, np.broadcast_to(np.eye(unitary.shape[1]), unitary.shape), atol=slack
        )
    assert not mine["info"].any()


@BOTH
@pytest.mark.parametrize(("m", "n"), [(1, 1), (4, 3), (2, 4), (3, 0), (0, 2)])
def test_singular_values(dtype, m, n):
    k = min(m, n)
    every = singular_matrices(dtype, m, n)
    for number, a in enumerate(every if m > n else every[::3]):
        columns, rows = (m, n) if number % 2 else (k, k)
        decomposed(dtype, a, columns, rows)


@BOTH
@pytest.mark.parametrize(("n", "lower"), [(1, 0), (2, 1), (4, 0)])
def test_eigenvalues(dtype, n, lower):
    for a in singular_matrices(dtype, n, n)[:: 1 if n == 2 else 3]:
        given = {**operand("a", a), "batch": BATCH, "n": n, "lower": lower}
        outs, top = {"values": like(dtype, n), "info": whole()}, np.abs(a).max() or 1
        agree("eigvalsh", dtype, FLAT, outs, 40, of_largest=1, **given, work=like(dtype, n, n))
        mine, theirs = both("eigh", dtype, FLAT, outs | {"vectors": like(dtype, n, n)}, **given)
        values, vectors = mine["values"].reshape(BATCH, n), mine["vectors"].reshape(BATCH, n, n)
        slack = 40 * n * np.finfo(a.dtype).eps
        np.testing.assert_allclose(values / top, theirs["values"].reshape(BATCH, n) / top, rtol=0, atol=slack)
        half = np.tril(a) if lower else np.triu(a)
        whole_one = half + (np.tril(a, -1) if lower else np.triu(a, 1)).swapaxes(1, 2)
        np.testing.assert_allclose(
            vectors * (values / top)[:, None] @ vectors.swapaxes(1, 2), whole_one / top, atol=slack
        )
        np.testing.assert_allclose(
            vectors.swapaxes(1, 2) @ vectors, np.broadcast_to(np.eye(n), vectors.shape), atol=slack
        )


@BOTH
def test_what_is_not_finite_is_said_to_be(dtype):
    for wrong in (np.nan, np.inf):  # LAPACK goes on with infinities, and may come to an end
        a = matrices(dtype, 3, 3)
        a[1, 2, 1] = wrong
        given = {
            **operand("a", a),
            "batch": BATCH,
            "work": a.copy(),
            "u": a.copy(),
            "vh": a.copy(),
            "k": 3,
            "m": 3,
            "n": 3,
        }
        for name, more in (("svd", {"columns": 3, "rows": 3}), ("svdvals", {})):
            outs = {"values": like(dtype, 3), "info": whole()}
            kept = {key: v for key, v in given.items() if key not in (("work",) if more else ("u", "vh"))}
            mine, theirs = both(name, dtype, FLAT, outs, **kept, **more)
            assert (mine["info"] != 0).tolist() == [False, True]
            assert np.isinf(wrong) or (theirs["info"] != 0).tolist() == [False, True]
        outs = {"values": like(dtype, 3), "info": whole(), "vectors": like(dtype, 3, 3)}
        mine, theirs = both("eigh", dtype, FLAT, outs, **operand("a", a), batch=BATCH, n=3, lower=1)
        assert (mine["info"] != 0).tolist() == [False, True]
        assert np.isinf(wrong) or (theirs["info"] != 0).tolist() == [False, True]


# --- what is made of singular values, and exponentials ---------------------------------------------------------


def without(found: list[dict], key: str) -> list[dict]:
    return [{name: array for name, array in one.items() if name != key} for one in found]


def close(dtype: int, name: str, outs: dict, room: int, slack: float = 1, least: float = 0, **values) -> None:
    """What both write but for their room, of which the CPU's kernel needs none, up to some units of the largest.

    The largest counts as no less than `least`.
    """
    mine, theirs = without(
        both(name, dtype, FLAT, outs | {"work": like(dtype, room)}, 32, room=room, **values), "work"
    )
    for key, expected in theirs.items():
        if expected.dtype.kind == "f":
            largest = np.abs(expected).max(initial=least) or 1
            unit = largest * np.finfo(expected.dtype).eps * slack
            np.testing.assert_allclose(mine[key], expected, 0, 400 * unit, err_msg=key)
        else:
            np.testing.assert_array_equal(mine[key], expected, err_msg=key)


def of_lower_rank(a: np.ndarray) -> np.ndarray:
    a[1, :, -1] = a[1, :, 0]  # the second one of the batch
    return a


@BOTH
@pytest.mark.parametrize(("m", "n"), [(1, 1), (3, 3), (4, 2), (2, 4), (0, 3), (3, 0)])
def test_pseudo_inverses(dtype, m, n):
    a = matrices(dtype, m, n)
    a = of_lower_rank(a) if n > 1 and m > 1 else a
    tolerances = operand("atol", np.full(BATCH, 1e-3, a.dtype)) | operand(
        "rtol", np.full(BATCH, 1e-4, a.dtype)
    )
    for given in (tolerances, {}):
        if not given and n > 1:
            a = matrices(dtype, m, n)  # of full rank, which the tolerance of rounding is for
        for hermitian in (0, 1) if m == n else (0,):
            outs = {"out": like(dtype, n, m), "info": whole()}
            settings = {"batch": BATCH, "m": m, "n": n, "hermitian": hermitian}
            close(
                dtype,
                "pinv",
                outs,
                room_of_singular_vectors(m, n),
                20,
                **operand("a", a),
                **given,
                **settings,
            )


@BOTH
@pytest.mark.parametrize("method", [GELS, GELSD])
@pytest.mark.parametrize(("m", "n", "k"), [(3, 3, 2), (4, 2, 1), (2, 4, 2), (0, 3, 1)])
def test_least_squares(dtype, method, m, n, k):
    a, b, least = (
        matrices(dtype, m, n),
        matrices(dtype, m, k, seed=1),
        min(m, n) if method in (GELSD, GELSS) else 0,
    )
    if method != GELS and min(m, n) > 1:
        of_lower_rank(a)
    outs = {
        "out": like(dtype, n, k),
        "rank": np.zeros(BATCH, np.int64),
        "values": like(dtype, least),
        "info": whole(),
    }
    if method == GELS:
        outs.pop("rank")  # it says nothing of it
    given = {"rank": np.zeros(BATCH, np.int64)} if method == GELS else {}
    settings = {"batch": BATCH, "m": m, "n": n, "k": k, "least": least, "method": method, "rcond": bits(1e-4)}
    sides = {**operand("a", a), **operand("b", b)}
    close(dtype, "least_squares", outs, room_of_least_squares(m, n, k), 20, **sides, **settings, **given)


@BOTH
@pytest.mark.parametrize(("n", "rank"), [(0, 0), (1, 0), (3, 3), (3, 2), (4, 1)])
def test_cofactors_and_their_derivatives(dtype, n, rank):
    a = matrices(dtype, n, rank) @ matrices(dtype, rank, n, seed=1)
    g, room = matrices(dtype, n, n, seed=2), room_of_cofactors(n)
    least = np.linalg.norm(a, axis=(1, 2)).max(initial=0) ** max(n - 1, 0)  # of what products are rounded to
    given = {**operand("a", a), "batch": BATCH, "n": n, "least": float(least)}
    close(dtype, "cofactors", {"out": like(dtype, n, n)}, room, **given)
    close(dtype, "cofactors_derivative", {"out": like(dtype, n, n)}, room, **given, **operand("g", g))


@BOTH
@pytest.mark.parametrize("n", [0, 1, 3])
def test_exponentials_and_their_derivatives(dtype, n):
    for factor in (0.0, 1.0, 4.0):
        a, g = matrices(dtype, n, n) * np.dtype(DTYPES[dtype]).type(factor), matrices(dtype, n, n, seed=1)
        given = {**operand("a", a), "batch": BATCH, "n": n}
        close(dtype, "exponential", {"out": like(dtype, n, n)}, room_of_exponential(n), **given)
        room = room_of_exponential(2 * n)
        close(dtype, "exponential_derivative", {"out": like(dtype, n, n)}, room, **given, **operand("g", g))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_stays_so(bad):
    a = matrices(FLOAT32, 3, 3)
    a[1, 2, 1] = bad
    given = {"batch": BATCH, "n": 3, "work": like(FLOAT32, 200), "room": 200}
    for name in ("cofactors", "cofactors_derivative", "exponential", "exponential_derivative"):
        outs, other = (
            {"out": like(FLOAT32, 3, 3)},
            operand("g", matrices(FLOAT32, 3, 3)) if "_" in name else {},
        )
        mine = on_gpu(name, outs, **operand("a", a), **other, **given)
        assert np.isfinite(mine["out"].reshape(BATCH, 9)[0]).all()
        assert np.isnan(mine["out"].reshape(BATCH, 9)[1]).all()
    mine = on_gpu("pinv", {"out": like(FLOAT32, 3, 3), "info": whole()}, **operand("a", a), m=3, **given)
    assert mine["info"].tolist() == [0, -4]
    for method, said in ((GELS, 0), (GELSY, 0), (GELSD, -4), (GELSS, 0)):
        outs = {"out": like(FLOAT32, 3, 1), "info": whole(), "rank": np.zeros(BATCH, np.int64)}
        sides = {**operand("a", a), **operand("b", matrices(FLOAT32, 3, 1))}
        mine = on_gpu("least_squares", outs, **sides, m=3, k=1, method=method, rcond=bits(1e-6), **given)
        assert mine["info"].tolist() == [0, said]
        assert np.isnan(mine["out"].reshape(BATCH, 3)[1]).all()


def on_gpu(name: str, outs: dict, **values) -> dict:
    """What the simulator writes."""
    copies = {key: guarded(value) for key, value in outs.items()}
    run(ROWS[name], FLOAT32, FLAT, words_of(ROWS[name].frame(FLAT), **copies, **values), 32)
    return copies
