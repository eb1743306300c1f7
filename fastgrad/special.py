"""Special functions under PyTorch's names.

Examples
--------
>>> import fastgrad as fg
>>> fg.special.ndtr(fg.tensor([0.0, 1.0]))
tensor([0.5000, 0.8413])
"""

from collections.abc import Callable
from typing import Any

from fastgrad.functions import elementwise, pointwise, reduce
from fastgrad.functions.arguments import need_tensor
from fastgrad.functions.outs import taking_out
from fastgrad.functions.plans import planned
from fastgrad.functions.polynomials import POLYNOMIALS
from fastgrad.functions.special import round
from fastgrad.module_names import getattr_of as _getattr_of
from fastgrad.native.host.tables import BY_NAME

_SQRT_HALF = 0.7071067811865476

erf, erfc, erfinv, exp2, expm1, log1p, sinc, xlogy, i0, digamma = (
    getattr(elementwise, name)
    for name in ("erf", "erfc", "erfinv", "exp2", "expm1", "log1p", "sinc", "xlogy", "i0", "digamma")
)
gammainc, gammaincc = elementwise.igamma, elementwise.igammac
expit, gammaln, psi = elementwise.sigmoid, elementwise.lgamma, elementwise.digamma
logit, polygamma, multigammaln = pointwise.logit, pointwise.polygamma, pointwise.mvlgamma
softmax, log_softmax, logsumexp = reduce.softmax, reduce.log_softmax, reduce.logsumexp


def _of(name: str) -> Callable[..., Any]:
    function = elementwise.function_of(BY_NAME[f"special_{name}"])
    function.__name__ = function.__qualname__ = name
    function.__module__ = __name__
    return function


entr, erfcx, i0e, i1, i1e, log_ndtr, ndtri, xlog1py, zeta = map(
    _of, ("entr", "erfcx", "i0e", "i1", "i1e", "log_ndtr", "ndtri", "xlog1py", "zeta")
)
airy_ai, bessel_j0, bessel_j1, bessel_y0, bessel_y1, spherical_bessel_j0 = map(
    _of, ("airy_ai", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "spherical_bessel_j0")
)
modified_bessel_k0, modified_bessel_k1 = map(_of, ("modified_bessel_k0", "modified_bessel_k1"))
scaled_modified_bessel_k0, scaled_modified_bessel_k1 = map(
    _of, ("scaled_modified_bessel_k0", "scaled_modified_bessel_k1")
)

modified_bessel_i0, modified_bessel_i1 = i0, i1
(
    chebyshev_polynomial_t,
    chebyshev_polynomial_u,
    chebyshev_polynomial_v,
    chebyshev_polynomial_w,
    hermite_polynomial_h,
    hermite_polynomial_he,
    laguerre_polynomial_l,
    legendre_polynomial_p,
    shifted_chebyshev_polynomial_t,
    shifted_chebyshev_polynomial_u,
    shifted_chebyshev_polynomial_v,
    shifted_chebyshev_polynomial_w,
) = (POLYNOMIALS[name] for name in sorted(POLYNOMIALS))


@taking_out
@planned
def ndtr(input: Any) -> Any:
    """The probability that the normal distribution has below the input, element by element."""
    return elementwise.erfc(need_tensor("ndtr", input) * -_SQRT_HALF) * 0.5


__all__ = [
    "airy_ai",
    "bessel_j0",
    "bessel_j1",
    "bessel_y0",
    "bessel_y1",
    "chebyshev_polynomial_t",
    "chebyshev_polynomial_u",
    "chebyshev_polynomial_v",
    "chebyshev_polynomial_w",
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfcx",
    "erfinv",
    "exp2",
    "expit",
    "expm1",
    "gammainc",
    "gammaincc",
    "gammaln",
    "hermite_polynomial_h",
    "hermite_polynomial_he",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "laguerre_polynomial_l",
    "legendre_polynomial_p",
    "log1p",
    "log_ndtr",
    "log_softmax",
    "logit",
    "logsumexp",
    "modified_bessel_i0",
    "modified_bessel_i1",
    "modified_bessel_k0",
    "modified_bessel_k1",
    "multigammaln",
    "ndtr",
    "ndtri",
    "polygamma",
    "psi",
    "round",
    "scaled_modified_bessel_k0",
    "scaled_modified_bessel_k1",
    "shifted_chebyshev_polynomial_t",
    "shifted_chebyshev_polynomial_u",
    "shifted_chebyshev_polynomial_v",
    "shifted_chebyshev_polynomial_w",
    "sinc",
    "softmax",
    "spherical_bessel_j0",
    "xlog1py",
    "xlogy",
    "zeta",
]

__getattr__ = _getattr_of(__name__)
