"""Eigenvalues and eigenvectors of matrices that need not be symmetric, by NumPy's LAPACK. They are complex."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastgrad import dtypes, return_types
from fastgrad.autograd.function import Function
from fastgrad.functions.arguments import need_tensor
from fastgrad.functions.complex_spectra import need_no_phase
from fastgrad.functions.matrices import LinAlgError, need_equal_sides, need_rows
from fastgrad.functions.outs import taking_out
from fastgrad.functions.sharing import from_numpy
from fastgrad.functions.systems import solve

_RESULTS = {
    dtypes.float32: np.complex64,
    dtypes.float64: np.complex128,
    dtypes.complex64: np.complex64,
    dtypes.complex128: np.complex128,
}


class LinalgEig(Function):
    """The decomposition with its derivative, that of functions that do not depend on the phases of eigenvectors."""

    @staticmethod
    def forward(ctx: Any, a: Any) -> Any:  # noqa: D102
        matrices = a.detach().resolve_conj().resolve_neg().cpu().numpy()
        if not np.isfinite(matrices).all():
            raise RuntimeError("linalg.eig(): input tensor should not contain infs or NaNs.")
        found = np.linalg.eig(matrices)
        values, vectors = (from_numpy(t.astype(_RESULTS[a.dtype])).to(a.device) for t in found)
        ctx.save_for_backward(values, vectors)
        ctx.is_real = a.dtype.is_floating_point
        ctx.set_materialize_grads(False)
        return values, vectors

    @staticmethod
    def backward(ctx: Any, g_values: Any, g_vectors: Any) -> Any:  # noqa: D102
        if g_values is None and g_vectors is None:
            return None
        values, vectors = ctx.saved_tensors
        adjoint = vectors.mH
        diagonal = 0 if g_values is None else g_values.diag_embed()
        if g_vectors is None:
            inner = diagonal
        else:
            slopes = adjoint @ g_vectors
            lengths = slopes.diagonal(dim1=-2, dim2=-1)
            need_no_phase("linalg_eig", lengths)
            moved = slopes - (adjoint @ vectors) * lengths.real.unsqueeze(-2)
            apart = values.unsqueeze(-2) - values.unsqueeze(-1)
            same = moved.new_ones(values.shape[-1]).diag_embed()  # a value and itself
            inner = moved / (apart.conj() + same) * (1 - same) + diagonal
        found = solve(adjoint.cpu(), (inner @ adjoint).cpu()).to(adjoint.device)
        return found.real if ctx.is_real else found

    @staticmethod
    def vmap(info: Any, in_dims: Any, a: Any) -> Any:  # noqa: D102
        return LinalgEig.apply(a.movedim(in_dims[0], 0)), (0, 0)


def _need_square(name: str, x: Any) -> Any:
    need_equal_sides(name, need_rows(name, need_tensor(name, x, "A")))
    if x.dtype not in _RESULTS:
        error = NotImplementedError if x.dtype.is_floating_point else RuntimeError
        raise error(f"{name}(): not implemented for '{x.dtype.type_name}'; convert A with .float()")
    return x


def _decomposed(name: str, x: Any) -> return_types.linalg_eig:
    try:
        return return_types.linalg_eig._make(LinalgEig.apply(_need_square(name, x)))
    except np.linalg.LinAlgError as error:
        raise LinAlgError(f"{name}(): the algorithm did not converge: {error}") from None


@taking_out
def eig(A: Any) -> return_types.linalg_eig:  # noqa: N803 - PyTorch's name
    """Eigenvalues and eigenvectors of square matrices.

    Parameters
    ----------
    A : Tensor
        Of shape (..., n, n), of float32, float64, complex64 or complex128. It is decomposed on the CPU.

    Returns
    -------
    (eigenvalues, eigenvectors)
        Complex, in no particular order; eigenvectors have length 1 and are columns, determined up to their phase.
        Gradients are those of functions that do not depend on it, and not finite where two values are equal.

    Raises
    ------
    RuntimeError
        If matrices are not square or not finite; in backward, if the loss depends on the phase of an eigenvector.
    NotImplementedError
        If the dtype is float16 or bfloat16.
    LinAlgError
        If the method does not converge.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.linalg.eig(fg.tensor([[0.0, -1.0], [1.0, 0.0]])).eigenvalues
    tensor([0.+1.j, 0.-1.j])
    """
    return _decomposed("linalg.eig", A)


@taking_out
def eigvals(A: Any) -> Any:  # noqa: N803 - PyTorch's name
    """Eigenvalues of square matrices, complex and in no particular order. See `eig`.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.linalg.eigvals(fg.tensor([[2.0, 1.0], [0.0, 3.0]]))
    tensor([2.+0.j, 3.+0.j])
    """
    return _decomposed("linalg.eigvals", A).eigenvalues
