"""Normalisation of each channel of each sample, and by neighbouring channels, as layers."""

from __future__ import annotations

import warnings
from typing import Any

from fastgrad.functions.arguments import need_tensor
from fastgrad.nn import functional as F
from fastgrad.nn.functional.instances import cross_map_lrn
from fastgrad.nn.modules.batchnorm import NormOfChannels
from fastgrad.nn.modules.module import Module


class _InstanceNorm(NormOfChannels):
    """Normalisation of each channel of each sample.

    Parameters
    ----------
    num_features : int
        Number of channels, C.
    eps : float
    momentum : float or None
        How far running statistics move towards those of a batch.
    affine : bool
        Whether there are a weight and a bias.
    track_running_stats : bool
        Whether there are running statistics, which are used outside of training.
    device : optional
    dtype : dtype, optional
    bias : bool
        Whether there is a bias, given that there is a weight.

    Raises
    ------
    ValueError
        In calls, if the input has another number of dimensions or of channels.
    """

    rank = 1  # dimensions behind the channels

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def _check_input_dim(self, input: Any) -> None:
        if input.dim() not in (self.rank + 1, self.rank + 2):
            raise ValueError(
                f"expected {self.rank + 1}D or {self.rank + 2}D input (got {input.dim()}D input)"
            )

    def forward(self, input: Any) -> Any:
        self._check_input_dim(need_tensor("instance_norm", input))
        dim = input.dim() - self.rank - 1
        if input.shape[dim] != self.num_features:
            if self.affine:
                raise ValueError(
                    f"expected input's size at dim={dim} to match num_features ({self.num_features}), but got: "
                    f"{input.shape[dim]}."
                )
            warnings.warn(
                f"input's size at dim={dim} does not match num_features. You can silence this warning by not passing "
                "in num_features, which is not used because affine=False",
                stacklevel=2,
            )
        if dim:
            return self._normalised(input)
        return self._normalised(input.unsqueeze(0)).squeeze(0)

    def _normalised(self, input: Any) -> Any:
        return F.instance_norm(
            input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )


class InstanceNorm1d(_InstanceNorm):
    """Normalisation of each channel of inputs of shape (N, C, L) or (C, L).

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.nn.InstanceNorm1d(1)(fg.tensor([[[1.0, 2.0, 3.0]]]))
    tensor([[[-1.2247,  0.0000,  1.2247]]])
    """


class InstanceNorm2d(_InstanceNorm):
    """Normalisation of each channel of inputs of shape (N, C, H, W) or (C, H, W)."""

    rank = 2


class InstanceNorm3d(_InstanceNorm):
    """Normalisation of each channel of inputs of shape (N, C, D, H, W) or (C, D, H, W)."""

    rank = 3


class _OverChannels(Module):
    """What divides by sums of squares over neighbouring channels."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class LocalResponseNorm(_OverChannels):
    """Normalisation by neighbouring channels. See `fastgrad.nn.functional.local_response_norm`.

    Parameters
    ----------
    size : int
        How many channels.
    alpha, beta, k : float
    """

    def forward(self, input: Any) -> Any:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)


class CrossMapLRN2d(_OverChannels):
    """``x / (k + alpha / size * s)**beta``, where s is a sum of squares over about `size` neighbouring channels.

    As in PyTorch, the sums of all channels hold the square of the first one, and those of an even `size` one channel
    less. Derivatives are those of this formula. See `LocalResponseNorm` for means over neighbours alone.

    Parameters
    ----------
    size : int
        How many channels, at least 1.
    alpha, beta, k : float

    Raises
    ------
    ValueError
        In a call, if the input has not 4 dimensions.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.nn.CrossMapLRN2d(3, alpha=3.0, beta=1.0)(fg.ones(1, 4, 1, 1)).flatten()
    tensor([0.3333, 0.2500, 0.2000, 0.2500])
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__(size, alpha, beta, k)

    def forward(self, input: Any) -> Any:
        return cross_map_lrn(input, self.size, self.alpha, self.beta, self.k)
