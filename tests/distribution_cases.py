"""Distributions with parameters and values, by the names that both libraries have."""

from __future__ import annotations

from typing import Any, NamedTuple


class Case(NamedTuple):
    """Parameters, values of the support, and what the distribution does not have."""

    name: str
    params: dict[str, Any]
    values: Any
    integer: bool = False
    without: tuple[str, ...] = ()


REAL = [[-1.5, 0.25], [0.5, 2.0], [3.0, -0.75]]
POSITIVE = [[0.1, 0.25], [0.5, 2.0], [3.0, 1.75]]
UNIT = [[0.1, 0.25], [0.5, 0.9], [0.75, 0.4]]
COUNTS = [[0.0, 1.0], [2.0, 3.0], [1.0, 4.0]]
BITS = [[0.0, 1.0], [1.0, 1.0], [1.0, 0.0]]
SIMPLEX = [[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]]
LOC, SCALE = [0.5, -1.0], [1.5, 0.75]
PROBS, LOGITS = [0.25, 0.625], [-1.0, 0.5]
WEIGHTS = [[0.2, 0.3, 0.5], [0.6, 0.15, 0.25]]

CASES = [
    Case("Normal", {"loc": LOC, "scale": SCALE}, REAL),
    Case("Laplace", {"loc": LOC, "scale": SCALE}, REAL),
    Case("Cauchy", {"loc": LOC, "scale": SCALE}, REAL),
    Case("Gumbel", {"loc": LOC, "scale": SCALE}, REAL),
    Case("StudentT", {"df": [3.0, 1.5], "loc": LOC, "scale": SCALE}, REAL),
    Case("VonMises", {"loc": LOC, "concentration": [0.5, 4.0]}, REAL),
    Case("Uniform", {"low": [-2.0, -1.0], "high": [4.0, 2.5]}, REAL),
    Case("Exponential", {"rate": SCALE}, POSITIVE),
    Case("Gamma", {"concentration": [0.5, 3.0], "rate": SCALE}, POSITIVE),
    Case("InverseGamma", {"concentration": [1.5, 3.0], "rate": SCALE}, POSITIVE),
    Case("Chi2", {"df": [1.0, 5.0]}, POSITIVE),
    Case("FisherSnedecor", {"df1": [3.0, 1.5], "df2": [5.0, 3.0]}, POSITIVE),
    Case("HalfNormal", {"scale": SCALE}, POSITIVE),
    Case("HalfCauchy", {"scale": SCALE}, POSITIVE),
    Case("LogNormal", {"loc": LOC, "scale": SCALE}, POSITIVE),
    Case("Weibull", {"scale": SCALE, "concentration": [1.25, 3.0]}, POSITIVE),
    Case("Pareto", {"scale": [0.05, 0.1], "alpha": [1.5, 3.0]}, POSITIVE),
    Case("Beta", {"concentration1": [0.5, 3.0], "concentration0": [2.0, 1.5]}, UNIT),
    # The mode of PyTorch's is NaN everywhere.
    Case(
        "Kumaraswamy", {"concentration1": [1.5, 3.0], "concentration0": [2.0, 1.5]}, UNIT, without=("mode",)
    ),
    Case("ContinuousBernoulli", {"probs": PROBS}, UNIT),
    Case("ContinuousBernoulli", {"logits": [-1.0, 0.001]}, UNIT),
    Case("RelaxedBernoulli", {"temperature": 0.75, "probs": PROBS}, UNIT),
    Case("Bernoulli", {"probs": PROBS}, BITS, True),
    Case("Bernoulli", {"logits": LOGITS}, BITS, True),
    Case("Geometric", {"probs": PROBS}, COUNTS, True),
    Case("Geometric", {"logits": LOGITS}, COUNTS, True),
    Case("Poisson", {"rate": SCALE}, COUNTS, True),
    Case("Binomial", {"total_count": 4, "probs": PROBS}, COUNTS, True),
    Case("Binomial", {"total_count": 4, "logits": LOGITS}, COUNTS, True),
    Case("NegativeBinomial", {"total_count": 2.5, "probs": PROBS}, COUNTS, True),
    Case("Categorical", {"probs": WEIGHTS}, [[0, 1], [2, 2]], True),
    Case("Categorical", {"logits": WEIGHTS}, [[0, 1], [2, 2]], True),
    Case("OneHotCategorical", {"probs": WEIGHTS}, [[[0.0, 1.0, 0.0]], [[1.0, 0.0, 0.0]]], True),
    Case("OneHotCategoricalStraightThrough", {"logits": WEIGHTS}, [[[0.0, 1.0, 0.0]]], True),
    Case("Multinomial", {"total_count": 4, "probs": WEIGHTS}, [[[1.0, 3.0, 0.0]], [[2.0, 1.0, 1.0]]], True),
    Case("Dirichlet", {"concentration": [[0.5, 1.5, 3.0], [0.25, 0.5, 0.75]]}, [SIMPLEX]),
    Case("LogisticNormal", {"loc": [LOC, LOC], "scale": [SCALE, SCALE]}, [SIMPLEX]),
    Case("RelaxedOneHotCategorical", {"temperature": 0.75, "probs": WEIGHTS}, [SIMPLEX]),
]
MATRIX = [[2.0, 0.5], [0.5, 1.0]]
FACTOR = [[1.5, 0.0], [0.25, 0.75]]
CORRELATION = [[[1.0, 0.0], [0.6, 0.8]], [[1.0, 0.0], [-0.8, 0.6]]]
MATRICES = [
    Case("MultivariateNormal", {"loc": LOC, "covariance_matrix": MATRIX}, REAL),
    Case("MultivariateNormal", {"loc": LOC, "precision_matrix": MATRIX}, REAL),
    Case("MultivariateNormal", {"loc": LOC, "scale_tril": FACTOR}, REAL),
    Case("LowRankMultivariateNormal", {"loc": LOC, "cov_factor": [[1.0], [-0.5]], "cov_diag": SCALE}, REAL),
    Case("LKJCholesky", {"dim": 2, "concentration": [0.5, 2.0]}, CORRELATION),
    Case("Wishart", {"df": 4.0, "covariance_matrix": MATRIX}, [MATRIX, [[1.0, 0.25], [0.25, 3.0]]]),
    Case("Wishart", {"df": 4.0, "precision_matrix": MATRIX}, [MATRIX]),
    Case("Wishart", {"df": 4.0, "scale_tril": FACTOR}, [MATRIX]),
]


def made(lib: Any, case: Case, grad: bool = False, **more: Any) -> tuple[Any, list[Any]]:
    """The distribution of a library in float64, and its parameters."""
    module = lib.distributions
    whole = {"total_count", "dim"}
    params = {
        k: v if k in whole else lib.tensor(v, dtype=lib.float64, requires_grad=grad)
        for k, v in case.params.items()
    }
    tensors = [v for k, v in params.items() if k not in whole]
    return getattr(module, case.name)(**params, **more), tensors


def value_of(lib: Any, case: Case) -> Any:
    """The values of a case."""
    whole = case.name == "Categorical"
    return lib.tensor(case.values, dtype=lib.int64 if whole else lib.float64)


def identity(case: Case) -> str:
    return "-".join(
        (case.name, *(k for k in case.params if k.endswith(("probs", "logits", "matrix", "tril"))))
    )
