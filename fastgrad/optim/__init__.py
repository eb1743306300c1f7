"""Optimizers and schedules of their learning rates."""

from fastgrad.module_names import getattr_of as _getattr_of
from fastgrad.optim import lr_scheduler, optimizer, swa_utils
from fastgrad.optim.adadelta import Adadelta
from fastgrad.optim.adafactor import Adafactor
from fastgrad.optim.adagrad import Adagrad
from fastgrad.optim.adam import Adam, AdamW
from fastgrad.optim.adamax import Adamax
from fastgrad.optim.asgd import ASGD
from fastgrad.optim.lbfgs import LBFGS
from fastgrad.optim.muon import Muon
from fastgrad.optim.nadam import NAdam
from fastgrad.optim.optimizer import Optimizer
from fastgrad.optim.radam import RAdam
from fastgrad.optim.rmsprop import RMSprop
from fastgrad.optim.rprop import Rprop
from fastgrad.optim.sgd import SGD

__all__ = [
    "ASGD", "LBFGS", "SGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "Muon", "NAdam", "Optimizer",
    "RAdam", "RMSprop", "Rprop", "lr_scheduler", "optimizer", "swa_utils",
]  # fmt: skip

__getattr__ = _getattr_of(__name__)
