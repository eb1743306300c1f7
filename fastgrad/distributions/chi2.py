"""The chi-squared distribution."""

from __future__ import annotations

from typing import Any

from fastgrad.distributions import constraints
from fastgrad.distributions.gamma import Gamma

__all__ = ["Chi2"]


class Chi2(Gamma):
    """The distribution of the sum of squares of `df` standard normal numbers: ``Gamma(df / 2, 1 / 2)``.

    Parameters
    ----------
    df : float or Tensor
    validate_args : bool, optional

    Examples
    --------
    >>> from fastgrad.distributions import Chi2
    >>> Chi2(3.0).mean
    tensor(3.)
    """

    arg_constraints = {"df": constraints.positive}

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return super().expand(batch_shape, self._get_checked_instance(Chi2, _instance))

    @property
    def df(self) -> Any:
        """Degrees of freedom."""
        return self.concentration * 2
