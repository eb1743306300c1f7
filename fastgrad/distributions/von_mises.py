"""The von Mises distribution."""

from __future__ import annotations

import math
from typing import Any

import fastgrad as fg
from fastgrad.distributions import constraints
from fastgrad.distributions.distribution import Distribution
from fastgrad.distributions.utils import broadcast_all, lazy_property, uniform

__all__ = ["VonMises"]

_TINY, _NARROW = 1e-300, 1e12  # concentrations: drawn as 0 below, as a normal distribution above


def _log_i0(x: Any) -> Any:
    return fg.special.i0e(x).log() + x


class VonMises(Distribution):
    """``exp(concentration cos(x - loc)) / (2 pi I0(concentration))``, of angles.

    Samples are drawn in float64 by the rejection of Best and Fisher: Efficient simulation of the von Mises
    distribution, Applied Statistics (1979). `mean` and `variance` are the circular ones.

    Parameters
    ----------
    loc, concentration : float or Tensor
    validate_args : bool, optional

    Examples
    --------
    >>> import fastgrad as fg
    >>> from fastgrad.distributions import VonMises
    >>> bool(VonMises(0.0, 4.0).sample().abs() <= fg.pi)
    True
    """

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    has_rsample = False

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(batch_shape, _instance, "loc", "concentration", base=VonMises)

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        kappa = self.concentration
        return kappa * fg.cos(value - self.loc) - math.log(2 * math.pi) - _log_i0(kappa)

    def sample(self, sample_shape: Any = ()) -> Any:
        with fg.no_grad():
            shape = tuple(self._extended_shape(sample_shape))
            loc, given = self.loc.double(), self.concentration.double()
            kappa: Any = fg.where(given.abs() < _TINY, _TINY, given)  # uniform, with nothing divided by 0
            tau = 1 + (1 + 4 * kappa**2).sqrt()
            rho = (tau - (2 * tau).sqrt()) / (2 * kappa)
            r = fg.where(kappa < 1e-5, 1 / kappa + kappa, (1 + rho**2) / (2 * rho)).expand(shape)
            # What no draw would ever be accepted for: narrow as rounding sees it, a normal distribution; and nan.
            done = ((kappa > _NARROW) | kappa.isnan()).expand(shape)
            x = fg.where(done, fg.randn_like(r) * kappa.rsqrt(), 0.0) if done.any() else fg.zeros_like(r)
            while not done.all():
                u1, u2, u3 = uniform((3, *shape), r).unbind()
                z = fg.cos(math.pi * u1)
                f: Any = (1 + r * z) / (r + z)
                c = kappa * (r - f)
                accept = ((c * (2 - c) - u2) > 0) | ((c / u2).log() + 1 - c >= 0)
                x = fg.where(accept & ~done, (u3 - 0.5).sign() * f.acos(), x)
                done = done | accept
            return ((x + math.pi + loc) % (2 * math.pi) - math.pi).to(self.loc.dtype)

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc

    @lazy_property
    def variance(self) -> Any:
        kappa = self.concentration
        return 1 - fg.special.i1e(kappa) / fg.special.i0e(kappa)
