"""`vmap` over decompositions and solvers: batches of LAPACK's calls, and no loop."""

from __future__ import annotations

import numpy as np
import pytest

import fastgrad as fg
from fastgrad import linalg

A = fg.tensor(np.random.default_rng(0).standard_normal((5, 3, 3)))
S = A @ A.mT + 3 * fg.eye(3, dtype=fg.float64)
ROW = fg.ones(3, dtype=fg.float64)
CASES = {
    "cholesky": (linalg.cholesky, S),
    "inv": (linalg.inv, A),
    "det": (linalg.det, A),
    "slogdet": (lambda m: linalg.slogdet(m)[1], A),
    "eigvalsh": (linalg.eigvalsh, S),
    "svdvals": (linalg.svdvals, A),
    "qr": (lambda m: linalg.qr(m)[1], A),
    "matrix_exp": (linalg.matrix_exp, A),
    "pinv": (linalg.pinv, A),
    "solve": (lambda m: linalg.solve(m, ROW), A),
    "solve of a row": (lambda m: linalg.solve(S[0], m), A),
    "lu": (lambda m: linalg.lu(m)[1], A),
    "solve_triangular": (lambda m: linalg.solve_triangular(m, fg.eye(3, dtype=fg.float64), upper=True), A),
    "norm": (lambda m: linalg.norm(m, "nuc"), A),
    "lstsq": (lambda m: linalg.lstsq(m, ROW[:, None])[0], A),
    "a gradient": (fg.func.grad(lambda m: linalg.inv(m).sum()), A),
    "within each other": (fg.vmap(linalg.inv), A.view(5, 1, 3, 3)),
}


@pytest.mark.parametrize("name", CASES)
def test_a_batch_is_its_elements(name):
    function, x = CASES[name]
    wanted = fg.stack([function(one) for one in x])
    np.testing.assert_allclose(fg.vmap(function)(x).numpy(), wanted.numpy(), rtol=1e-12, atol=1e-12)


def test_a_singular_element_is_named():
    matrices = fg.stack([fg.eye(2), fg.zeros(2, 2)])
    with pytest.raises(linalg.LinAlgError, match="Batch element 1"):
        fg.vmap(linalg.inv)(matrices)
