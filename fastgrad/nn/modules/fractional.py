"""Maxima over windows of fractional strides, as layers."""

from __future__ import annotations

from typing import Any

from fastgrad.nn import functional as F
from fastgrad.nn.functional.fractional import Ratio
from fastgrad.nn.functional.windows import Setting
from fastgrad.nn.modules.module import Module


def _each(value: Any, rank: int) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * rank


class _FractionalMaxPool(Module):
    """What the layers here have in common: their settings."""

    rank: int
    _random_samples: Any

    def __init__(
        self,
        kernel_size: Setting,
        output_size: Setting | None = None,
        output_ratio: Ratio | None = None,
        return_indices: bool = False,
        _random_samples: Any = None,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        self.kernel_size = _each(kernel_size, self.rank)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else _each(output_size, self.rank)
        self.output_ratio = None if output_ratio is None else _each(output_ratio, self.rank)
        if output_size is None and output_ratio is None:
            raise ValueError(f"{name} requires specifying either an output size, or a pooling ratio")
        if output_size is not None and output_ratio is not None:
            raise ValueError(f"{name}: only one of output_size and output_ratio may be specified")
        if self.output_ratio is not None and not all(0 < ratio < 1 for ratio in self.output_ratio):
            raise ValueError(f"{name}: output_ratio must be between 0 and 1 (got {output_ratio})")

    def forward(self, input: Any) -> Any:
        pool = getattr(F, f"fractional_max_pool{self.rank}d")
        return pool(
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            _random_samples=self._random_samples,
        )


class FractionalMaxPool2d(_FractionalMaxPool):
    """Maxima of windows of images at random places; see `nn.functional.fractional_max_pool2d`.

    Parameters
    ----------
    kernel_size : int or tuple of int
    output_size : int or tuple of int, optional
    output_ratio : float or tuple of float, optional
        Exactly one of the two is given.
    return_indices : bool
    _random_samples : Tensor, optional

    Raises
    ------
    ValueError
        If both or none of size and ratio are given, or the ratio is not between 0 and 1.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.nn.FractionalMaxPool2d(2, output_ratio=0.5)(fg.zeros(1, 3, 8, 6)).shape
    fastgrad.Size([1, 3, 4, 3])
    """

    rank = 2


class FractionalMaxPool3d(_FractionalMaxPool):
    """Maxima of windows of volumes at random places; see `FractionalMaxPool2d`.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.nn.FractionalMaxPool3d(2, output_size=(2, 3, 2))(fg.zeros(1, 3, 4, 8, 6)).shape
    fastgrad.Size([1, 3, 2, 3, 2])
    """

    rank = 3
