"""Optimizers and schedules of their learning rates."""

from fastgrad.absent import absent_from as _absent_from
from fastgrad.optim import lr_scheduler, optimizer
from fastgrad.optim.adagrad import Adagrad
from fastgrad.optim.adam import Adam, AdamW
from fastgrad.optim.optimizer import Optimizer
from fastgrad.optim.rmsprop import RMSprop
from fastgrad.optim.sgd import SGD

__all__ = ["SGD", "Adagrad", "Adam", "AdamW", "Optimizer", "RMSprop", "lr_scheduler", "optimizer"]

__getattr__ = _absent_from(__name__)
