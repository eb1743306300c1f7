"""Averages of the weights of models over their training: stochastic weight averaging, exponential moving averages."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from itertools import chain
from typing import Any

from fastgrad.autograd.modes import no_grad
from fastgrad.dtypes import int64
from fastgrad.functions.creation import tensor
from fastgrad.nn.modules import batchnorm
from fastgrad.nn.modules.module import Module
from fastgrad.optim.lr_scheduler.base import LRScheduler, per_group
from fastgrad.optim.optimizer import Optimizer

__all__ = [
    "SWALR", "AveragedModel", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn", "get_swa_multi_avg_fn",
    "update_bn",
]  # fmt: skip


def _need_decay(decay: float) -> None:
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[..., None]:
    """The function that moves averages in place to ``decay * average + (1 - decay) * value``.

    Parameters
    ----------
    decay : float
        From 0 to 1.

    Returns
    -------
    callable
        ``f(averages, values, n_averaged)`` of lists of tensors.

    Raises
    ------
    ValueError
        If `decay` is out of range.

    Examples
    --------
    >>> import fastgrad as fg
    >>> average = fg.tensor([1.0])
    >>> fg.optim.swa_utils.get_ema_multi_avg_fn(0.5)([average], [fg.tensor([2.0])], 1)
    >>> average
    tensor([1.5000])
    """
    _need_decay(decay)

    @no_grad()
    def ema_update(averages: Sequence[Any], values: Sequence[Any], n_averaged: Any) -> None:
        for average, value in zip(averages, values, strict=True):
            if average.is_floating_point():
                average.lerp_(value, 1 - decay)
            else:
                average.copy_(average * decay + value * (1 - decay))

    return ema_update


def get_swa_multi_avg_fn() -> Callable[..., None]:
    """The function that takes values into equally weighted averages in place.

    Returns
    -------
    callable
        ``f(averages, values, n_averaged)`` of lists of tensors.

    Examples
    --------
    >>> import fastgrad as fg
    >>> average = fg.tensor([1.0])
    >>> fg.optim.swa_utils.get_swa_multi_avg_fn()([average], [fg.tensor([2.0])], 1)
    >>> average
    tensor([1.5000])
    """

    @no_grad()
    def swa_update(averages: Sequence[Any], values: Sequence[Any], n_averaged: Any) -> None:
        for average, value in zip(averages, values, strict=True):
            if average.is_floating_point():
                average.lerp_(value, float(1 / (n_averaged + 1)))
            else:
                average.copy_(average + (value - average) / (n_averaged + 1))

    return swa_update


def get_ema_avg_fn(decay: float = 0.999) -> Callable[..., Any]:
    """The function that gives ``decay * average + (1 - decay) * value``.

    Parameters
    ----------
    decay : float
        From 0 to 1.

    Returns
    -------
    callable
        ``f(average, value, n_averaged)``

    Raises
    ------
    ValueError
        If `decay` is out of range.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.optim.swa_utils.get_ema_avg_fn(0.5)(fg.tensor([1.0]), fg.tensor([2.0]), 1)
    tensor([1.5000])
    """
    _need_decay(decay)

    @no_grad()
    def ema_update(average: Any, value: Any, n_averaged: Any) -> Any:
        return decay * average + (1 - decay) * value

    return ema_update


def get_swa_avg_fn() -> Callable[..., Any]:
    """The function that gives an equally weighted average with one more value.

    Returns
    -------
    callable
        ``f(average, value, n_averaged)``

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.optim.swa_utils.get_swa_avg_fn()(fg.tensor([1.0]), fg.tensor([2.0]), 1)
    tensor([1.5000])
    """

    @no_grad()
    def swa_update(average: Any, value: Any, n_averaged: Any) -> Any:
        return average + (value - average) / (n_averaged + 1)

    return swa_update


class AveragedModel(Module):
    """A copy of a model whose parameters are averages of those that the model had.

    Parameters
    ----------
    model : Module
    device : device, optional
        Where the copy lies.
    avg_fn : callable, optional
        ``avg_fn(average, value, n_averaged)`` gives the new average of a parameter; without it, all count the same.
    multi_avg_fn : callable, optional
        ``multi_avg_fn(averages, values, n_averaged)`` changes lists of averages, all of one device and dtype.
    use_buffers : bool
        Average the buffers, too; else they are those of the model.

    Attributes
    ----------
    module : Module
    n_averaged : Tensor

    Raises
    ------
    AssertionError
        If both functions are given.

    References
    ----------
    Izmailov, Podoprikhin, Garipov, Vetrov, Wilson: Averaging Weights Leads to Wider Optima and Better Generalization,
    UAI 2018.

    Examples
    --------
    >>> import fastgrad as fg
    >>> model = fg.nn.Linear(1, 1, bias=False)
    >>> averaged = fg.optim.swa_utils.AveragedModel(model)
    >>> for value in (1.0, 2.0):
    ...     _ = model.weight.detach().fill_(value)
    ...     averaged.update_parameters(model)
    >>> averaged.module.weight.item()
    1.5
    """

    n_averaged: Any

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Callable[..., Any] | None = None,
        multi_avg_fn: Callable[..., None] | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", tensor(0, dtype=int64, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the averaged model computes."""
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Take the parameters of a model into the averages.

        Parameters
        ----------
        model : Module
        """
        pairs = []
        for average, value in zip(self._averaged(self.module), self._averaged(model), strict=False):
            pairs.append((average.detach(), value.detach().to(average.device)))
        if not self.n_averaged > 0:
            for average, value in pairs:
                average.copy_(value)
        else:
            self._average(pairs)
        if not self.use_buffers:
            for ours, theirs in zip(self.module.buffers(), model.buffers(), strict=True):
                ours.detach().copy_(theirs.detach().to(ours.device))
        self.n_averaged += 1

    def _averaged(self, model: Module) -> Iterable[Any]:
        return chain(model.parameters(), model.buffers()) if self.use_buffers else model.parameters()

    def _average(self, pairs: list[tuple[Any, Any]]) -> None:
        if self.multi_avg_fn is not None:
            alike: dict[Any, list[tuple[Any, Any]]] = {}
            for pair in pairs:
                alike.setdefault((pair[0].device, pair[0].dtype), []).append(pair)
            for (device, _), group in alike.items():
                averages, values = map(list, zip(*group, strict=True))
                self.multi_avg_fn(averages, values, self.n_averaged.to(device))
            return
        function = get_swa_avg_fn() if self.avg_fn is None else self.avg_fn
        for average, value in pairs:
            average.copy_(function(average, value, self.n_averaged.to(average.device)))


@no_grad()
def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Compute the statistics of a model's batch normalization anew, from one pass over data.

    Parameters
    ----------
    loader : iterable
        Of batches, or of lists and tuples that begin with one.
    model : Module
    device : device, optional
        Where batches are brought.

    Examples
    --------
    >>> import fastgrad as fg
    >>> model = fg.nn.BatchNorm1d(1)
    >>> fg.optim.swa_utils.update_bn([fg.tensor([[1.0], [3.0]])], model)
    >>> model.running_mean
    tensor([2.])
    """
    momenta = {
        module: module.momentum for module in model.modules() if isinstance(module, batchnorm._BatchNorm)
    }
    if not momenta:
        return
    training = model.training
    model.train()
    for module in momenta:
        module.reset_running_stats()
        module.momentum = None
    for batch in loader:
        first = batch[0] if isinstance(batch, (list, tuple)) else batch
        model(first if device is None else first.to(device))
    for module, momentum in momenta.items():
        module.momentum = momentum
    model.train(training)


class SWALR(LRScheduler):
    """Rates that go to a constant one within some epochs.

    Parameters
    ----------
    optimizer : Optimizer
    swa_lr : float or list of float
        For all groups or one for each.
    anneal_epochs : int
    anneal_strategy : str
        ``"cos"`` or ``"linear"``.
    last_epoch : int

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> import fastgrad as fg
    >>> optimizer = fg.optim.SGD([fg.ones(1, requires_grad=True)], lr=1.0)
    >>> scheduler = fg.optim.swa_utils.SWALR(optimizer, 0.5, anneal_epochs=2, anneal_strategy="linear")
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.75]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: Any,
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        swa_lrs = per_group("swa_lr", optimizer, swa_lr)
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        for rate, group in zip(swa_lrs, optimizer.param_groups, strict=True):
            group["swa_lr"] = rate
        self._anneal_strategy = anneal_strategy
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def anneal_func(self, part: float) -> float:
        """How far the rates are on their way, after a part of the epochs."""
        return (1 - math.cos(math.pi * part)) / 2 if self._anneal_strategy == "cos" else part

    def _far(self, step: int) -> float:
        return self.anneal_func(max(0, min(1, step / max(1, self.anneal_epochs))))

    def get_lr(self) -> list[Any]:
        """The learning rate of each group, from its present one."""
        self._warn_if_called_from_outside()
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._far(step - 1), self._far(step)
        rates = []
        for group in self.optimizer.param_groups:
            end = group["swa_lr"]
            start = end if before == 1 else (group["lr"] - before * end) / (1 - before)
            rates.append(end * now + start * (1 - now))
        return rates
