"""Schedules of learning rates."""

from fastgrad.module_names import getattr_of as _getattr_of
from fastgrad.optim.lr_scheduler.base import LRScheduler
from fastgrad.optim.lr_scheduler.combined import ChainedScheduler, SequentialLR
from fastgrad.optim.lr_scheduler.cyclic import CyclicLR
from fastgrad.optim.lr_scheduler.formulas import (
    ConstantLR,
    CosineAnnealingLR,
    CosineAnnealingWarmRestarts,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from fastgrad.optim.lr_scheduler.one_cycle import OneCycleLR
from fastgrad.optim.lr_scheduler.plateau import ReduceLROnPlateau

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]

__getattr__ = _getattr_of(__name__)
