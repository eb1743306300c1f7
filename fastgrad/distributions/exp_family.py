"""Exponential families: densities ``h(x) exp(<eta, T(x)> - A(eta))``."""

from __future__ import annotations

from typing import Any

import fastgrad as fg
from fastgrad.distributions.distribution import Distribution
from fastgrad.distributions.utils import sum_rightmost


class ExponentialFamily(Distribution):
    """A distribution that knows its natural parameters and the function A of them.

    Its entropy follows from the gradient of A (Nielsen and Nock: Entropies and cross-entropies of exponential families,
    ICIP 2010), unless a subclass has a formula.
    """

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        raise self._lacks("_natural_params")

    def _log_normalizer(self, *natural_params: Any) -> Any:
        raise self._lacks("_log_normalizer")

    @property
    def _mean_carrier_measure(self) -> Any:
        raise self._lacks("_mean_carrier_measure")

    def entropy(self) -> Any:
        params = [p.detach().requires_grad_() for p in self._natural_params]
        with fg.enable_grad():
            normalizer = self._log_normalizer(*params)
            slopes = fg.autograd.grad(normalizer.sum(), params, create_graph=True)
        result = normalizer - self._mean_carrier_measure
        for param, slope in zip(params, slopes, strict=True):
            term = (param * slope).reshape(*self._batch_shape, *param.shape[len(self._batch_shape) :])
            result = result - sum_rightmost(term, param.dim() - len(self._batch_shape))
        return result
