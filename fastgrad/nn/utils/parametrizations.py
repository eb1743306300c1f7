"""Parametrizations that are ready: orthogonal matrices, weights of a spectral norm of one, length and direction."""

from __future__ import annotations

from enum import Enum, auto
from typing import Any, TypeVar

from fastgrad import linalg
from fastgrad.autograd.modes import no_grad
from fastgrad.dtypes import finfo
from fastgrad.functions.arguments import is_tensor
from fastgrad.functions.creation import eye, randn
from fastgrad.functions.likeness import zeros_like
from fastgrad.functions.orthogonal import geqrf
from fastgrad.functions.shape import cat
from fastgrad.nn.functional.normalization import normalize
from fastgrad.nn.modules.module import Module
from fastgrad.nn.utils.parametrize import register_parametrization
from fastgrad.nn.utils.spectral_norm import as_matrix, need_iterations, unit_vector, usual_dim
from fastgrad.nn.utils.weight_norm import WHOLE, norm_except_dim

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]

_M = TypeVar("_M", bound=Module)


def _tensor_of(module: Module, name: str) -> Any:
    found = getattr(module, name, None)
    if not is_tensor(found):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    return found


# --- orthogonal matrices ----------------------------------------------------------------------------------------


class _OrthMaps(Enum):
    matrix_exp = auto()
    cayley = auto()
    householder = auto()


def _is_orthogonal(matrix: Any) -> bool:
    n, k = matrix.size(-2), matrix.size(-1)
    one = eye(k, dtype=matrix.dtype, device=matrix.device)
    bound = 10.0 * n * finfo(matrix.dtype).eps + 1e-5 * one  # as `allclose` has it
    return bool(((matrix.mT @ matrix - one).abs() <= bound).all())


def _orthogonalized(matrix: Any) -> Any:
    """The factor Q of ``A = Q R`` where the diagonal of R is not negative; of a matrix at least as high as wide."""
    q, r = linalg.qr(matrix)
    return q * r.diagonal(dim1=-2, dim2=-1).sign().unsqueeze(-2)


class _Orthogonal(Module):
    base: Any

    def __init__(self, weight: Any, orthogonal_map: _OrthMaps, *, use_trivialization: bool = True) -> None:
        super().__init__()
        if weight.dtype.is_complex and orthogonal_map is _OrthMaps.householder:
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, x: Any) -> Any:
        wide = x.size(-2) < x.size(-1)
        if wide:
            x = x.mT
        if self.orthogonal_map is _OrthMaps.householder:
            q = self._of_reflections(x)
        else:
            q = self._of_skew_matrix(x)
        if hasattr(self, "base"):
            q = self.base @ q
        return q.mT if wide else q

    def _of_skew_matrix(self, x: Any) -> Any:
        n, k = x.size(-2), x.size(-1)
        x = x.tril()
        if n != k:
            x = cat([x, x.new_zeros((*x.shape[:-2], n, n - k))], -1)
        skew = x - (x.mH if x.dtype.is_complex else x.mT)
        if self.orthogonal_map is _OrthMaps.matrix_exp:
            q = linalg.matrix_exp(skew)
        else:
            one = eye(n, dtype=skew.dtype, device=skew.device)
            q = linalg.solve(one - skew * 0.5, one + skew * 0.5)
        return q if n == k else q[..., :k]

    def _of_reflections(self, x: Any) -> Any:
        vectors = x.tril(-1)
        factors = 2.0 / (1.0 + (vectors * vectors).sum(-2))
        # The diagonal has signs, which are constants.
        signs = x.detach().diagonal(dim1=-2, dim2=-1).trunc().unsqueeze(-2)
        return linalg.householder_product(vectors, factors) * signs

    @no_grad()
    def right_inverse(self, q: Any) -> Any:
        """What an orthogonal matrix is made of, after it became the base; another matrix is orthogonalized first."""
        if q.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of shape {q.shape}."
            )
        given, wide = q, q.size(-2) < q.size(-1)
        if wide:
            q = q.mT
        n, k = q.size(-2), q.size(-1)
        if not hasattr(self, "base"):
            if self.orthogonal_map is not _OrthMaps.householder:
                raise NotImplementedError(
                    "It is not possible to assign to the matrix exponential or the Cayley parametrizations when "
                    "use_trivialization=False."
                )
            return self._reflections(q, wide)
        if n == k:
            q = q.clone() if _is_orthogonal(q) else _orthogonalized(q)
        else:
            q = _orthogonalized(cat([q, randn(*q.shape[:-2], n, n - k, dtype=q.dtype, device=q.device)], -1))
        self.base = q
        # Reflections that do nothing, with the signs that make their product the identity.
        start = zeros_like(given)
        start.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
        return start

    @staticmethod
    def _reflections(q: Any, wide: bool) -> Any:
        reflections, factors = geqrf(q)
        diagonal = reflections.diagonal(dim1=-2, dim2=-1)
        # R is to have a positive diagonal; where there is no reflection, the sign is its own.
        signs = diagonal.sign()
        diagonal.copy_(signs.where(factors != 0, -signs))
        return reflections.mT if wide else reflections


def orthogonal(
    module: _M, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> _M:
    """Keep a matrix, or a batch of matrices, orthogonal: columns, or rows if there are fewer, of unit length.

    Parameters
    ----------
    module : Module
    name : str
        Of a tensor with at least two dimensions.
    orthogonal_map : "matrix_exp", "cayley" or "householder", optional
        How the matrix is computed: the exponential of a skew-symmetric matrix A, its Cayley transform ``(I + A/2) (I -
        A/2)^-1``, or a product of reflections. By default the first for square matrices, the last for others.
    use_trivialization : bool
        Multiply with a fixed orthogonal matrix, ``module.parametrizations.weight[0].base``, so that the start is the
        weight as it is, or its nearest by a QR decomposition (Lezcano-Casado 2019).

    Returns
    -------
    Module
        `module`.

    Raises
    ------
    ValueError
        If there is no such tensor, or it is no matrix, or the map is another one.
    NotImplementedError
        If `fastgrad.linalg` lacks a function that the map needs.
    """
    weight = _tensor_of(module, name)
    if weight.ndim < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions.")
    if orthogonal_map is None:
        square = weight.size(-2) == weight.size(-1)
        orthogonal_map = "matrix_exp" if square or weight.dtype.is_complex else "householder"
    if orthogonal_map not in _OrthMaps.__members__:
        raise ValueError(
            f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}'
        )
    made = _Orthogonal(weight, _OrthMaps[orthogonal_map], use_trivialization=use_trivialization)
    return register_parametrization(module, name, made, unsafe=True)


# --- length and direction ---------------------------------------------------------------------------------------


class _WeightNorm(Module):
    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = WHOLE if dim is None else dim

    def forward(self, weight_g: Any, weight_v: Any) -> Any:
        return weight_v * (weight_g / norm_except_dim(weight_v, self.dim))

    def right_inverse(self, weight: Any) -> tuple[Any, Any]:
        """The lengths, and the weight as direction."""
        return norm_except_dim(weight, self.dim), weight


class _OldWeightNorm:
    """Reads state dicts of `fastgrad.nn.utils.weight_norm`.

    Parameters
    ----------
    name : str
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, state_dict: Any, prefix: str, *_: Any) -> None:
        keys = [f"{prefix}{self.name}_g", f"{prefix}{self.name}_v"]
        if all(key in state_dict for key in keys):
            for k, key in enumerate(keys):
                state_dict[f"{prefix}parametrizations.{self.name}.original{k}"] = state_dict.pop(key)


def weight_norm(module: _M, name: str = "weight", dim: int | None = 0) -> _M:
    """Let a module learn length and direction of a weight apart: ``weight = g * v / norm(v)`` (arXiv:1602.07868).

    Parameters
    ----------
    module : Module
        Loads state dicts of `fastgrad.nn.utils.weight_norm` as well.
    name : str
        Of a parameter. ``module.parametrizations.<name>.original0`` is g, ``original1`` is v.
    dim : int, optional
        Each slice along this dimension has a length of its own; None for one length of the whole weight.

    Returns
    -------
    Module
        `module`.

    Raises
    ------
    ValueError
        If there is no such parameter.
    IndexError
        If the parameter has no such dimension.

    Examples
    --------
    >>> import fastgrad as fg
    >>> layer = fg.nn.utils.parametrizations.weight_norm(fg.nn.Linear(20, 40))
    >>> layer.parametrizations.weight.original0.shape
    fastgrad.Size([40, 1])
    """
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)
    module._register_load_state_dict_pre_hook(_OldWeightNorm(name))
    return module


# --- the spectral norm ------------------------------------------------------------------------------------------


class _SpectralNorm(Module):
    _u: Any
    _v: Any

    def __init__(self, weight: Any, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        ndim = weight.ndim
        if not -ndim <= dim < ndim:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [-{ndim}, {ndim - 1}] but got {dim})"
            )
        need_iterations(n_power_iterations)
        self.dim = dim % ndim
        self.eps = eps
        if ndim > 1:  # the norm of a vector is known
            self.n_power_iterations = n_power_iterations
            matrix = as_matrix(weight, self.dim)
            rows, columns = matrix.size()
            with no_grad():
                self.register_buffer("_u", unit_vector(matrix, rows, eps))
                self.register_buffer("_v", unit_vector(matrix, columns, eps))
            self._power_method(matrix, 15)

    @no_grad()
    def _power_method(self, matrix: Any, n_power_iterations: int) -> None:
        """Improve the singular vectors, in place."""
        for _ in range(n_power_iterations):
            self._u.copy_(normalize(matrix.mv(self._v), dim=0, eps=self.eps))
            self._v.copy_(normalize(matrix.t().mv(self._u), dim=0, eps=self.eps))

    def forward(self, weight: Any) -> Any:
        if weight.ndim == 1:
            return normalize(weight, dim=0, eps=self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            self._power_method(matrix, self.n_power_iterations)
        u, v = self._u.clone(), self._v.clone()  # the graphs of several calls live side by side
        return weight / u.dot(matrix.mv(v))

    def right_inverse(self, value: Any) -> Any:
        """The value itself."""
        return value


def spectral_norm(
    module: _M,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> _M:
    """Divide a weight by its largest singular value; a vector by its length (arXiv:1802.05957).

    Each time the weight is read in training mode, `n_power_iterations` steps of the power method improve what is known
    of the value; it begins with 15 of them.

    Parameters
    ----------
    module : Module
    name : str
    n_power_iterations : int
    eps : float
        The least norm by which vectors are divided.
    dim : int, optional
        The dimension of outputs: 0, and 1 for transposed convolutions, if not given.

    Returns
    -------
    Module
        `module`.

    Raises
    ------
    ValueError
        If there is no such tensor, or `n_power_iterations` is not positive.
    IndexError
        If there is no such dimension.

    Examples
    --------
    >>> import fastgrad as fg
    >>> layer = fg.nn.utils.parametrizations.spectral_norm(fg.nn.Linear(3, 4))
    >>> list(layer.state_dict())  # doctest: +NORMALIZE_WHITESPACE
    ['bias', 'parametrizations.weight.original', 'parametrizations.weight.0._u',
     'parametrizations.weight.0._v']
    """
    weight = _tensor_of(module, name)
    made = _SpectralNorm(weight, n_power_iterations, usual_dim(module) if dim is None else dim, eps)
    return register_parametrization(module, name, made)
