"""Batch normalisation with running statistics, also over the batches of several processes."""

from __future__ import annotations

import math
from typing import Any

from fastgrad import dtypes
from fastgrad.autograd.modes import no_grad
from fastgrad.functions.arguments import need_tensor, need_type
from fastgrad.functions.creation import ones, tensor, zeros
from fastgrad.functions.shape import cat
from fastgrad.nn import functional as F
from fastgrad.nn.modules.module import Module
from fastgrad.nn.modules.normalization import register_affine, reset_affine


class NormOfChannels(Module):
    """Normalisation of channels with running statistics; subclasses say how, and which inputs they take.

    Parameters
    ----------
    num_features : int
        Number of channels, C.
    eps : float
    momentum : float or None
        How far running statistics move towards those of a batch; with None they are the mean over all batches.
    affine : bool
        Whether there is a weight (ones at first).
    track_running_stats : bool
        Whether there are running statistics. Without them a batch's own are used outside of training, too.
    device : optional
    dtype : dtype, optional
    bias : bool
        Whether there is a bias (zeros at first), given that there is a weight.
    """

    _version = 2

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        register_affine(self, ("weight", "bias"), (affine, affine and bias), (num_features,), device, dtype)
        if track_running_stats:
            self.register_buffer("running_mean", zeros(num_features, device=device, dtype=dtype))
            self.register_buffer("running_var", ones(num_features, device=device, dtype=dtype))
            self.register_buffer("num_batches_tracked", tensor(0, dtype=dtypes.int64, device=device))
        else:
            for name in ("running_mean", "running_var", "num_batches_tracked"):
                self.register_buffer(name, None)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Set running means to zero and variances to one."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Set the weight to one, the bias to zero and the running statistics back."""
        self.reset_running_stats()
        if self.affine:
            reset_affine(self)

    def _check_input_dim(self, input: Any) -> None:
        raise NotImplementedError(f"{type(self).__name__} must define _check_input_dim")

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, *lists: Any
    ) -> None:
        # States of version 1 do not count batches.
        version = local_metadata.get("version", None)
        key = prefix + "num_batches_tracked"
        if (version is None or version < 2) and self.track_running_stats and key not in state_dict:
            count = self.num_batches_tracked
            state_dict[key] = tensor(0, dtype=dtypes.int64) if count is None else count
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, *lists)


class _BatchNorm(NormOfChannels):
    """Batch normalisation of channels; subclasses say which inputs they take."""

    def forward(self, input: Any) -> Any:
        self._check_input_dim(need_tensor("batch_norm", input))
        momentum = self._count_batch()
        by_batch = self.training or (self.running_mean is None and self.running_var is None)
        tracked = not self.training or self.track_running_stats
        return F.batch_norm(
            input,
            self.running_mean if tracked else None,
            self.running_var if tracked else None,
            self.weight,
            self.bias,
            by_batch,
            momentum,
            self.eps,
        )

    def _count_batch(self) -> float:
        """Count a batch in training; returns how far running statistics move towards its own."""
        momentum = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                momentum = 1.0 / float(self.num_batches_tracked)
        return momentum


class BatchNorm1d(_BatchNorm):
    """Batch normalisation of inputs of shape (N, C) or (N, C, L).

    See `BatchNorm2d` for the parameters.

    Raises
    ------
    ValueError
        In calls, if the input has another number of dimensions.
    """

    def _check_input_dim(self, input: Any) -> None:
        if input.dim() not in (2, 3):
            raise ValueError(f"expected 2D or 3D input (got {input.dim()}D input)")


class BatchNorm2d(_BatchNorm):
    """Batch normalisation of inputs of shape (N, C, H, W): see `fastgrad.nn.functional.batch_norm`.

    Parameters
    ----------
    num_features : int
        Number of channels, C.
    eps : float
    momentum : float or None
        How far running statistics move towards those of a batch; with None they are the mean over all batches.
    affine : bool
        Whether there is a weight (ones at first).
    track_running_stats : bool
        Whether there are running statistics. Without them a batch's own are used outside of training, too.
    device : optional
    dtype : dtype, optional
    bias : bool
        Whether there is a bias (zeros at first), given that there is a weight.

    Raises
    ------
    ValueError
        In calls, if the input has another number of dimensions.

    Examples
    --------
    >>> import fastgrad as fg
    >>> norm = fg.nn.BatchNorm2d(3)
    >>> norm(fg.randn(2, 3, 4, 4)).shape
    fastgrad.Size([2, 3, 4, 4])
    >>> int(norm.num_batches_tracked)
    1
    """

    def _check_input_dim(self, input: Any) -> None:
        if input.dim() != 4:
            raise ValueError(f"expected 4D input (got {input.dim()}D input)")


class BatchNorm3d(_BatchNorm):
    """Batch normalisation of inputs of shape (N, C, D, H, W). See `BatchNorm2d` for the parameters.

    Raises
    ------
    ValueError
        In calls, if the input has another number of dimensions.
    """

    def _check_input_dim(self, input: Any) -> None:
        if input.dim() != 5:
            raise ValueError(f"expected 5D input (got {input.dim()}D input)")


class SyncBatchNorm(_BatchNorm):
    """`BatchNorm1d` and its relatives with mean and variance over the batches of all ranks.

    In training, and with a process group of several ranks, all of these call it together; it waits for them, once for
    the mean and once for the variance, forward and backward. Otherwise it is what `BatchNorm2d` is. Batches of ranks
    may have different sizes, none included. Derivatives exist to any order.

    Parameters
    ----------
    num_features, eps, momentum, affine, track_running_stats, device, dtype, bias
        As for `BatchNorm2d`.
    process_group : ProcessGroup, optional
        By default that of all ranks.

    Raises
    ------
    ValueError
        In calls, if the input has fewer than two dimensions or another number of channels, or if a channel has one
        element on all ranks together.

    Examples
    --------
    >>> import fastgrad as fg
    >>> model = fg.nn.Sequential(fg.nn.Conv2d(1, 4, 3), fg.nn.BatchNorm2d(4), fg.nn.ReLU())
    >>> fg.nn.SyncBatchNorm.convert_sync_batchnorm(model)[1]
    SyncBatchNorm(4, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def _check_input_dim(self, input: Any) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")
        if input.shape[1] != self.num_features:
            raise ValueError(
                f"expected input of {self.num_features} channels (got {input.shape[1]}, of shape {list(input.shape)})"
            )

    def forward(self, input: Any) -> Any:
        self._check_input_dim(need_tensor("SyncBatchNorm", input))
        if not self.training or self._ranks() < 2:
            return super().forward(input)
        from fastgrad.distributed.nn import all_reduce

        momentum = self._count_batch()
        wide = input.float() if input.dtype in (dtypes.float16, dtypes.bfloat16) else input
        dims, sizes = [0, *range(2, input.dim())], [1, -1] + [1] * (input.dim() - 2)
        own = tensor([float(math.prod(input.shape[d] for d in dims))], dtype=wide.dtype, device=wide.device)
        sums = all_reduce(cat([wide.sum(dims), own]), group=self.process_group)
        count = float(sums[-1])
        if count < 2:
            raise ValueError(
                f"Expected more than 1 value per channel when training, got input size {list(input.shape)} "
                "on a rank, and no more on all"
            )
        mean = sums[:-1] / count
        centred = wide - mean.view(sizes)
        variance = all_reduce(centred.square().sum(dims), group=self.process_group) / count
        if self.track_running_stats:
            with no_grad():
                self.running_mean.lerp_(mean.to(self.running_mean.dtype), momentum)
                self.running_var.lerp_(
                    (variance * (count / (count - 1))).to(self.running_var.dtype), momentum
                )
        out = centred * (variance + self.eps).rsqrt().view(sizes)
        if self.weight is not None:
            out = out * self.weight.view(sizes)
        if self.bias is not None:
            out = out + self.bias.view(sizes)
        return out.to(input.dtype)

    def _ranks(self) -> int:
        from fastgrad import distributed

        return distributed.get_world_size(self.process_group) if distributed.is_initialized() else 1

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """Replace the layers of batch normalisation in a module; weights and statistics stay.

        Parameters
        ----------
        module : Module
        process_group : ProcessGroup, optional

        Returns
        -------
        Module
            The one given, or what replaces it.
        """
        made = need_type("convert_sync_batchnorm", module, Module, "module")
        if isinstance(module, _BatchNorm) and not isinstance(module, cls):
            made = cls(
                module.num_features,
                module.eps,
                module.momentum,
                module.affine,
                module.track_running_stats,
                process_group,
            )
            for names in ("_parameters", "_buffers"):
                getattr(made, names).update(getattr(module, names))
            made.training = module.training
        for name, child in module.named_children():
            made.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return made
