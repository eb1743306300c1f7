"""Ops over batches of matrices that call LAPACK, or do what belongs to that (see `native.shapes.framed`).

Every operand and result is a batch of matrices, of vectors or of numbers, row by row, and a launch is divided over the
batch. Pivots, and what LAPACK says of a matrix (`info`), are int32, as PyTorch's are. Room for a matrix (`work`,
`factors`) is a result that nobody sees, because kernels of GPUs cannot ask for memory. Where those of the CPU ask for
what they need, the call says how many elements of `room` there are for each matrix: none on the CPU.
"""

from __future__ import annotations

from fastgrad.native.contracts.element_types import INT32, INT64
from fastgrad.native.contracts.frame import REAL_PART, Field, Frame, reads, writes
from fastgrad.native.contracts.frames.framed import FRAMED, INPUT, batch_of
from fastgrad.native.contracts.split import Split

_INFO = {"info": ""}
_ELEMENTS = {
    "pivots": INT32, "info": INT32, "rank": INT64, "values": REAL_PART, "logarithm": REAL_PART, "atol": REAL_PART,
    "rtol": REAL_PART,
}  # fmt: skip


def _field(name: str, sizes: str, role: type | object) -> Field:
    extent = ("batch", *sizes.split())
    element = _ELEMENTS.get(name)
    return reads(*extent, element=element, part=INPUT) if role is reads else writes(*extent, element=element)


def _frame(name: str, outputs: dict[str, str], inputs: dict[str, str], integers: str) -> Frame:
    """A frame whose outputs and inputs have these sizes, names of integers, behind the batch."""
    moves = {field: tuple(sizes.split()) for field, sizes in (outputs | inputs).items()}
    return FRAMED.named(
        name, outputs={field: _field(field, sizes, writes) for field, sizes in outputs.items()},
        inputs={field: _field(field, sizes, reads) for field, sizes in inputs.items()},
        integers=f"batch {integers}", splits=(Split("batch", moves),),
    )  # fmt: skip


def sizes_of_results(frame: Frame) -> tuple[int, ...]:
    """What a call of an op with such a frame says of the sizes of its results, behind the integers."""
    integers = frame.names_of("integers")
    outputs = frame.declared["outputs"].singles.values()
    return tuple(batch_of(0, *(integers.index(str(name)) for name in field.extent[1:])) for field in outputs)


# --- systems of equations ----------------------------------------------------------------------------------------

# `factors` are those of the transposed matrix, which LAPACK sees where a matrix lies row by row: a lower triangle, and
# an upper one with ones on its diagonal.
SOLVE = _frame(
    "solve", {"out": "n k", "factors": "n n", "pivots": "n", **_INFO}, {"a": "n n", "b": "n k"}, "n k"
)
INVERSE = _frame("inverse", {"out": "n n", **_INFO, "pivots": "n"}, {"a": "n n"}, "n")
# The room is that of the derivatives.
DETERMINANT = _frame("determinant", {"out": "", "factors": "n n"}, {"a": "n n"}, "n room")
LOG_DETERMINANT = _frame(
    "log_determinant", {"sign": "", "logarithm": "", "factors": "n n"}, {"a": "n n"}, "n"
)
COFACTORS = _frame("cofactors", {"out": "n n", "work": "room"}, {"a": "n n"}, "n room")
# `k` is the smaller one of m and n, `rest` the difference of the two.
LU = _frame("lu", {"out": "m n", "pivots": "k", **_INFO}, {"a": "m n"}, "m n k rest")
INTERCHANGE = _frame("interchange", {"out": "n k"}, {"x": "n k", "pivots": "p"}, "n k p backwards")
TRIANGULAR = _frame("triangular", {"out": "n k"}, {"a": "n n", "b": "n k"}, "n k upper unit transposed")
CHOLESKY = _frame("cholesky", {"out": "n n", **_INFO}, {"a": "n n"}, "n")
LDL = _frame("ldl", {"out": "n n", "pivots": "n", **_INFO}, {"a": "n n"}, "n hermitian")
LDL_SOLVE = _frame("ldl_solve", {"out": "n k"}, {"a": "n n", "pivots": "n", "b": "n k"}, "n k hermitian")
# `rank` and singular values as far as the method gives them; `rcond` is a float as its bits.
LEAST_SQUARES = _frame(
    "least_squares", {"out": "n k", "rank": "", "values": "least", **_INFO, "work": "room"},
    {"a": "m n", "b": "m k"}, "m n k least method rcond room",
)  # fmt: skip
GELS, GELSY, GELSD, GELSS = range(4)

# --- eigenvalues and singular values -----------------------------------------------------------------------------

EIGH = _frame("eigh", {"values": "n", "vectors": "n n", **_INFO}, {"a": "n n"}, "n lower")
EIGVALSH = _frame("eigvalsh", {"values": "n", "work": "n n", **_INFO}, {"a": "n n"}, "n lower")
# `k` is the smaller one of m and n; there are `columns` of U and `rows` of V transposed.
SVD = _frame(
    "svd", {"u": "m columns", "values": "k", "vh": "rows n", **_INFO}, {"a": "m n"}, "m n k columns rows"
)
SVDVALS = _frame("svdvals", {"values": "k", "work": "m n", **_INFO}, {"a": "m n"}, "m n k")
PINV = _frame(
    "pinv",
    {"out": "n m", **_INFO, "work": "room"},
    {"a": "m n", "atol": "", "rtol": ""},
    "m n hermitian room",
)

# --- orthogonal matrices -----------------------------------------------------------------------------------------

# There are `columns` of Q and `rows` of R.
QR = _frame(
    "qr", {"q": "m columns", "r": "rows n", "factors": "m n", "tau": "k"}, {"a": "m n"},
    "m n k rest columns rows",
)  # fmt: skip
REFLECTORS = _frame("reflectors", {"out": "m n", "tau": "k"}, {"a": "m n"}, "m n k")
HOUSEHOLDER = _frame("householder", {"out": "m n"}, {"a": "m n", "tau": "k"}, "m n k")
# The product of a matrix with Q from the `left` or from the right, or with Q `transposed`.
REFLECTED = _frame(
    "reflected", {"out": "m n"}, {"a": "order width", "tau": "k", "c": "m n"},
    "m n order width k left transposed",
)  # fmt: skip

# --- exponentials ------------------------------------------------------------------------------------------------

# `more` is the room for matrices with twice as many rows, of which the derivative is a part.
EXPONENTIAL = _frame("exponential", {"out": "n n", "work": "room"}, {"a": "n n"}, "n room more")
DERIVATIVE = _frame("derivative", {"out": "n n", "work": "room"}, {"a": "n n", "g": "n n"}, "n room")
"""That of a function of matrices at a, in the direction g."""


def room_of_singular_vectors(m: int, n: int) -> int:
    """Elements of the room for the singular values and vectors of a matrix."""
    return min(m, n) * (m + n + 1)


def room_of_least_squares(m: int, n: int, k: int) -> int:
    """Elements of the room for singular values and vectors, and for the products of these with k right sides."""
    return room_of_singular_vectors(m, n) + min(m, n) * k


def room_of_cofactors(n: int) -> int:
    """Elements of the room for the cofactors of a matrix, and for their derivative."""
    return room_of_singular_vectors(n, n) + 2 * n * n


def room_of_exponential(n: int) -> int:
    """Elements of the room for the exponential of a matrix."""
    return 5 * n * n + n


LINALG = (
    SOLVE, INVERSE, DETERMINANT, LOG_DETERMINANT, COFACTORS, LU, INTERCHANGE, TRIANGULAR, CHOLESKY, LDL, LDL_SOLVE,
    LEAST_SQUARES, EIGH, EIGVALSH, SVD, SVDVALS, PINV, QR, REFLECTORS, HOUSEHOLDER, REFLECTED, EXPONENTIAL,
    DERIVATIVE,
)  # fmt: skip
