"""Samples of distributions whose parameters are tensors, and how they move with these.

A sampler is a kernel of an element's parameters and of its *key*, 64 random bits that a generator gave: it starts a
stream of random numbers of the element's own, of which the sampler takes as many as it rejects. So a sample depends on
nothing else: see `kernels.cpu.sampling`.
"""

from __future__ import annotations

from fastgrad.native.contracts.element_types import FLOATS
from fastgrad.native.contracts.frames.framed import SAMPLE
from fastgrad.native.contracts.ops import (
    AS_OPERANDS,
    FLOAT_ONLY,
    PROMOTE_FLOAT,
    SHAPE_FRAMED,
    STRUCTURED,
)
from fastgrad.ops import incomplete_functions as scalar
from fastgrad.ops.call import invoke
from fastgrad.ops.gamma import lgamma
from fastgrad.ops.kernel_table import Kernel
from fastgrad.ops.registry import Op, elementwise
from fastgrad.ops.vocabulary import c, m

_incomplete_gamma = scalar.incomplete_gamma
_gamma_movement, _beta_movement = scalar.gamma_movement, scalar.beta_movement


@elementwise("igamma", rule=PROMOTE_FLOAT, public=True)
def igamma(a, b):
    """The regularised lower incomplete gamma function: that of `input` up to `other`, over the whole one."""
    return _incomplete_gamma(a, b, c(0))


@igamma.vjp("b")
def _(g, a, b):
    return g * m.exp((a - 1.0) * m.log(b) - b - invoke(lgamma, (a,)))


@elementwise("igammac", rule=PROMOTE_FLOAT, public=True)
def igammac(a, b):
    """The regularised upper incomplete gamma function: that of `input` from `other` on, over the whole one."""
    return _incomplete_gamma(a, b, c(1))


@igammac.vjp("b")
def _(g, a, b):
    return -g * m.exp((a - 1.0) * m.log(b) - b - invoke(lgamma, (a,)))


@elementwise("_standard_gamma_grad", rule=PROMOTE_FLOAT)
def standard_gamma_grad(a, x):
    return _gamma_movement(a, x)


@elementwise("_dirichlet_grad", rule=PROMOTE_FLOAT)
def dirichlet_grad(x, a, total):
    return _beta_movement(x, a, total)


def _sampler(name, *inputs, **more):
    return Op(
        name, STRUCTURED, inputs, (*SAMPLE.names_of("integers"), "*outputs"), edges=1,
        kernel=Kernel(name, f"sampling:{name.removeprefix('_')}", frame=SAMPLE, dtypes=FLOATS),
        forward=SHAPE_FRAMED, flags=FLOAT_ONLY | AS_OPERANDS, **more,
    )  # fmt: skip


standard_gamma = _sampler("_standard_gamma", "x", "keys", node="StandardGammaBackward0")
poisson = _sampler("poisson", "x", "keys")
binomial = _sampler("binomial", "x", "keys", "p", node="BinomialBackward0")


@standard_gamma.vjp("x")
def _(g, x, y):
    return g * invoke(standard_gamma_grad, (x, y))


@poisson.vjp("x")
def _(g):
    return g * 0.0


@binomial.vjp("x")
def _(g):
    return g * 0.0
