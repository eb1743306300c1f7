"""An optimizer that averages parameters over ranks after its steps, now and then."""

from __future__ import annotations

import warnings
from typing import Any

from fastgrad.distributed.algorithms.model_averaging.averagers import ModelAverager
from fastgrad.functions.arguments import need_type
from fastgrad.optim.optimizer import Optimizer


class PostLocalSGDOptimizer(Optimizer):
    """An optimizer whose steps an averager of models follows.

    Parameters
    ----------
    optim : Optimizer
        It steps the parameters of this rank.
    averager : ModelAverager
        It is called after each step.

    Examples
    --------
    >>> import fastgrad as fg
    >>> import fastgrad.distributed as dist
    >>> from fastgrad.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
    >>> dist.init_process_group("mpi")
    >>> model = fg.nn.Linear(2, 1)
    >>> optimizer = fg.optim.SGD(model.parameters(), lr=0.1)
    >>> optimizer = PostLocalSGDOptimizer(optimizer, PeriodicModelAverager(period=4))
    >>> model(fg.ones(1, 2)).sum().backward()
    >>> optimizer.step()
    >>> dist.destroy_process_group()
    """

    def __init__(self, optim: Optimizer, averager: ModelAverager) -> None:
        self.optim: Any = need_type("PostLocalSGDOptimizer", optim, Optimizer, "optim")
        self.averager = need_type("PostLocalSGDOptimizer", averager, ModelAverager, "averager", 2)
        self.defaults = optim.defaults
        self._prepare()

    @property
    def state(self) -> Any:  # type: ignore[override]
        """That of the optimizer."""
        return self.optim.state

    @property
    def param_groups(self) -> Any:  # type: ignore[override]
        """Those of the optimizer."""
        return self.optim.param_groups

    def __repr__(self) -> str:
        return repr(self.optim)

    def state_dict(self) -> dict[str, Any]:
        """That of the optimizer, with the averager's ``"step"``.

        Returns
        -------
        dict
        """
        return {**self.optim.state_dict(), "step": self.averager.step}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` gave.

        Parameters
        ----------
        state_dict : dict
            If it lacks a ``"step"``, there is a warning, and the averager begins anew.
        """
        self.optim.load_state_dict(state_dict)
        if "step" not in state_dict:
            warnings.warn(
                "Loaded state dict does not contain a step counter for an averager. Setting step counter to 0.",
                stacklevel=2,
            )
        self.averager.step = state_dict.get("step", 0)

    def step(self, closure: Any = None) -> Any:
        """Update the parameters of this rank, and call the averager.

        Parameters
        ----------
        closure : callable, optional
            Computes the loss again; what it returns is returned.
        """
        loss = self.optim.step() if closure is None else self.optim.step(closure)
        self.averager.average_parameters(self.param_groups)
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters.

        Parameters
        ----------
        set_to_none : bool
            Set them to None; else fill them with zeros.
        """
        self.optim.zero_grad(set_to_none)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of parameters to the optimizer.

        Parameters
        ----------
        param_group : dict
        """
        self.optim.add_param_group(param_group)
