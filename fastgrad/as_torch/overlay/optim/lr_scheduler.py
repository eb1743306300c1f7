"""The older name of `LRScheduler`."""

from fastgrad.optim.lr_scheduler import LRScheduler as _LRScheduler  # noqa: F401 - what libraries derive from
