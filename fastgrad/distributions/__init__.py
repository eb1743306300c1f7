"""Probability distributions with PyTorch's interface: samples, densities, moments, divergences.

Examples
--------
>>> import fastgrad as fg
>>> from fastgrad.distributions import Normal, kl_divergence
>>> kl_divergence(Normal(0.0, 1.0), Normal(1.0, 1.0))
tensor(0.5000)
"""

from fastgrad.distributions import constraints, transforms
from fastgrad.distributions.bernoulli import Bernoulli
from fastgrad.distributions.beta import Beta
from fastgrad.distributions.binomial import Binomial
from fastgrad.distributions.categorical import Categorical
from fastgrad.distributions.cauchy import Cauchy
from fastgrad.distributions.chi2 import Chi2
from fastgrad.distributions.constraint_registry import biject_to, transform_to
from fastgrad.distributions.continuous_bernoulli import ContinuousBernoulli
from fastgrad.distributions.dirichlet import Dirichlet
from fastgrad.distributions.distribution import Distribution
from fastgrad.distributions.exp_family import ExponentialFamily
from fastgrad.distributions.exponential import Exponential
from fastgrad.distributions.fishersnedecor import FisherSnedecor
from fastgrad.distributions.gamma import Gamma
from fastgrad.distributions.generalized_pareto import GeneralizedPareto
from fastgrad.distributions.geometric import Geometric
from fastgrad.distributions.gumbel import Gumbel
from fastgrad.distributions.half_cauchy import HalfCauchy
from fastgrad.distributions.half_normal import HalfNormal
from fastgrad.distributions.independent import Independent
from fastgrad.distributions.inverse_gamma import InverseGamma
from fastgrad.distributions.kl import kl_divergence, register_kl
from fastgrad.distributions.kumaraswamy import Kumaraswamy
from fastgrad.distributions.laplace import Laplace
from fastgrad.distributions.lkj_cholesky import LKJCholesky
from fastgrad.distributions.log_normal import LogNormal
from fastgrad.distributions.logistic_normal import LogisticNormal
from fastgrad.distributions.lowrank_multivariate_normal import LowRankMultivariateNormal
from fastgrad.distributions.mixture_same_family import MixtureSameFamily
from fastgrad.distributions.multinomial import Multinomial
from fastgrad.distributions.multivariate_normal import MultivariateNormal
from fastgrad.distributions.negative_binomial import NegativeBinomial
from fastgrad.distributions.normal import Normal
from fastgrad.distributions.one_hot_categorical import OneHotCategorical, OneHotCategoricalStraightThrough
from fastgrad.distributions.pareto import Pareto
from fastgrad.distributions.poisson import Poisson
from fastgrad.distributions.relaxed_bernoulli import RelaxedBernoulli
from fastgrad.distributions.relaxed_categorical import RelaxedOneHotCategorical
from fastgrad.distributions.studentT import StudentT
from fastgrad.distributions.transformed_distribution import TransformedDistribution
from fastgrad.distributions.transforms import (
    AbsTransform,
    AffineTransform,
    CatTransform,
    ComposeTransform,
    CorrCholeskyTransform,
    CumulativeDistributionTransform,
    ExpTransform,
    IndependentTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    PowerTransform,
    ReshapeTransform,
    SigmoidTransform,
    SoftmaxTransform,
    SoftplusTransform,
    StackTransform,
    StickBreakingTransform,
    TanhTransform,
    Transform,
    identity_transform,
)
from fastgrad.distributions.uniform import Uniform
from fastgrad.distributions.von_mises import VonMises
from fastgrad.distributions.weibull import Weibull
from fastgrad.distributions.wishart import Wishart
from fastgrad.module_names import getattr_of as _getattr_of

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "Bernoulli",
    "Beta",
    "Binomial",
    "CatTransform",
    "Categorical",
    "Cauchy",
    "Chi2",
    "ComposeTransform",
    "ContinuousBernoulli",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "Dirichlet",
    "Distribution",
    "ExpTransform",
    "Exponential",
    "ExponentialFamily",
    "FisherSnedecor",
    "Gamma",
    "GeneralizedPareto",
    "Geometric",
    "Gumbel",
    "HalfCauchy",
    "HalfNormal",
    "Independent",
    "IndependentTransform",
    "InverseGamma",
    "Kumaraswamy",
    "LKJCholesky",
    "Laplace",
    "LogNormal",
    "LogisticNormal",
    "LowRankMultivariateNormal",
    "LowerCholeskyTransform",
    "MixtureSameFamily",
    "Multinomial",
    "MultivariateNormal",
    "NegativeBinomial",
    "Normal",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
    "Pareto",
    "Poisson",
    "PositiveDefiniteTransform",
    "PowerTransform",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftmaxTransform",
    "SoftplusTransform",
    "StackTransform",
    "StickBreakingTransform",
    "StudentT",
    "TanhTransform",
    "Transform",
    "TransformedDistribution",
    "Uniform",
    "VonMises",
    "Weibull",
    "Wishart",
    "biject_to",
    "constraints",
    "identity_transform",
    "kl_divergence",
    "register_kl",
    "transform_to",
    "transforms",
]

__getattr__ = _getattr_of(__name__)
