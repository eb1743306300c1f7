"""Losses as layers: each calls the function of `fastgrad.nn.functional` that has its name."""

from __future__ import annotations

import warnings
from typing import Any

from fastgrad.nn import functional as F
from fastgrad.nn.functional.reduction import deprecated_reduction
from fastgrad.nn.modules.module import Module


class ReducedLoss(Module):
    """A loss with a reduction."""

    def __init__(
        self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
    ) -> None:
        super().__init__()
        self.reduction = deprecated_reduction(reduction, size_average, reduce)


class WeightedLoss(ReducedLoss):
    """A loss with a buffer of weights."""

    def __init__(
        self,
        weight: Any = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


class L1Loss(ReducedLoss):
    """The absolute difference.

    Parameters
    ----------
    size_average, reduce : bool, optional
        Deprecated forms of `reduction`.
    reduction : "none", "mean" or "sum"
    """

    def forward(self, input: Any, target: Any) -> Any:
        return F.l1_loss(input, target, reduction=self.reduction)


class MSELoss(ReducedLoss):
    """The squared difference. See `L1Loss` for the parameters."""

    def forward(self, input: Any, target: Any) -> Any:
        return F.mse_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(ReducedLoss):
    """The absolute difference, squared near zero. See `L1Loss`, and `fastgrad.nn.functional.smooth_l1_loss`."""

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        beta: float = 1.0,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: Any, target: Any) -> Any:
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(ReducedLoss):
    """Half the squared difference, linear beyond `delta`. See `fastgrad.nn.functional.huber_loss`."""

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        self.delta = delta

    def forward(self, input: Any, target: Any) -> Any:
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class KLDivLoss(ReducedLoss):
    """``target (log(target) - input)``. See `fastgrad.nn.functional.kl_div`."""

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        log_target: bool = False,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, input: Any, target: Any) -> Any:
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class BCELoss(WeightedLoss):
    """The cross entropy of probabilities of two classes. See `fastgrad.nn.functional.binary_cross_entropy`."""

    def forward(self, input: Any, target: Any) -> Any:
        return F.binary_cross_entropy(input, target, weight=self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(ReducedLoss):
    """The cross entropy of logits of two classes.

    See `fastgrad.nn.functional.binary_cross_entropy_with_logits`; `weight` and `pos_weight` are buffers.
    """

    def __init__(
        self,
        weight: Any = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        pos_weight: Any = None,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Any, target: Any) -> Any:
        return F.binary_cross_entropy_with_logits(
            input, target, self.weight, pos_weight=self.pos_weight, reduction=self.reduction
        )


class NLLLoss(WeightedLoss):
    """The negative log likelihood of log-probabilities of classes. See `fastgrad.nn.functional.nll_loss`."""

    def __init__(
        self,
        weight: Any = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Any, target: Any) -> Any:
        return F.nll_loss(
            input, target, weight=self.weight, ignore_index=self.ignore_index, reduction=self.reduction
        )


class NLLLoss2d(NLLLoss):
    """Deprecated name of `NLLLoss`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warnings.warn(
            "`NLLLoss2d` has been deprecated. Please use `NLLLoss` instead as a drop-in replacement.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__(*args, **kwargs)


class CrossEntropyLoss(WeightedLoss):
    """The cross entropy of logits of classes. See `fastgrad.nn.functional.cross_entropy`.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.nn.CrossEntropyLoss()(fg.zeros(2, 4), fg.tensor([0, 3]))
    tensor(1.3863)
    """

    def __init__(
        self,
        weight: Any = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input: Any, target: Any) -> Any:
        return F.cross_entropy(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class CTCLoss(ReducedLoss):
    """Minus the logarithm of the probability of a target over all alignments. See `fastgrad.nn.functional.ctc_loss`.

    Parameters
    ----------
    blank : int
        The class that stands for no label.
    reduction : "none", "mean" or "sum"
    zero_infinity : bool
        Whether infinite losses, and their gradients, are zero.

    Examples
    --------
    >>> import fastgrad as fg
    >>> log_probs = fg.zeros(5, 2, 4).log_softmax(2)
    >>> fg.nn.CTCLoss()(log_probs, fg.tensor([[1, 2], [3, 3]]), (5, 5), (2, 2)).shape
    fastgrad.Size([])
    """

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        super().__init__(reduction=reduction)
        self.blank = blank
        self.zero_infinity = zero_infinity

    def forward(self, log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any) -> Any:
        return F.ctc_loss(
            log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction, self.zero_infinity
        )
