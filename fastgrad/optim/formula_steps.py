"""Optimizers whose step is the formula of an op: one compiled call for a group, or ops that autograd records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any, ClassVar

from fastgrad.autograd.modes import enable_grad, no_grad
from fastgrad.functions.likeness import zeros_like
from fastgrad.native.build.loader import TensorBase
from fastgrad.native.contracts.ops import DECOUPLED, MAXIMIZE, NESTEROV
from fastgrad.ops.optim import MultiTensorOp
from fastgrad.optim.optimizer import Optimizer
from fastgrad.optim.options import as_numbers, as_real, zero_steps

_FLAGS = {"maximize": MAXIMIZE, "decoupled_weight_decay": DECOUPLED, "nesterov": NESTEROV}


class FormulaOptimizer(Optimizer):
    """Base of optimizers whose step is an op of `fastgrad.ops.optim`: a subclass names the op and its state.

    What an op takes besides a parameter and its gradient stands in the parameter's state under the name that it has
    in the op's frame, and settings are options of the group, so that a subclass checks its options, and says what is
    absent and what a state begins with where that is not zero.

    Attributes
    ----------
    _op : MultiTensorOp
    _counted : sequence of str
        State that is one number of the dtype of the number of steps.
    _added : mapping
        Options that groups of older checkpoints lack.
    """

    _op: ClassVar[MultiTensorOp]
    _counted: ClassVar[Sequence[str]] = ("step",)
    _added: ClassVar[dict[str, Any]] = {
        "foreach": None, "maximize": False, "differentiable": False, "capturable": False,
    }  # fmt: skip

    _of_complex: bool = False
    """Whether a parameter is complex: steps take it, and its state, as pairs of real numbers."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._note_complex()
        for group in self.param_groups:
            for name, default in self._added.items():
                group.setdefault(name, default)
            for p in group["params"]:
                own = self.state.get(p)
                if own:
                    as_numbers(p, own, self._counted)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of parameters; see `Optimizer.add_param_group`."""
        super().add_param_group(param_group)
        self._note_complex()

    def _note_complex(self) -> None:
        self._of_complex = any(p.is_complex() for group in self.param_groups for p in group["params"])

    def _absent(self, group: dict[str, Any]) -> tuple[str, ...]:
        """The tensors that the state of a group's parameters lacks, in the order of the frame."""
        return ()

    def _init_state(self, group: dict[str, Any], p: Any, state: dict[str, Any]) -> None:
        absent = self._absent(group)
        for name in ("step", *self._op.tensors[2:]):
            if name not in absent and name not in state:
                state[name] = zero_steps(p) if name in self._counted else zeros_like(p)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters that have a gradient.

        Parameters
        ----------
        closure : callable, optional
            Computes the loss again; what it returns is returned.
        """
        loss = self._loss(closure)
        self._step_groups()
        return loss

    def _step_groups(self) -> None:
        for group in self.param_groups:
            self._step_group(group)

    def _step_group(self, group: dict[str, Any]) -> None:
        absent = self._absent(group)
        self._run(self._op, self._gather(group, self._op.tensors, absent), group, absent)

    def _run(
        self,
        op: MultiTensorOp,
        tensors: Sequence[Any],
        group: dict[str, Any],
        absent: tuple[str, ...] = (),
        flags: int = 0,
        recorded: bool | None = None,
    ) -> None:
        """Run an op over tensors of a group, with the group's options; `recorded`, if it is not as the group says."""
        settings = op.options_in(group)
        if self._of_complex:
            with no_grad():
                tensors = list(map(as_real, tensors))
        if op.has_flags:
            flags |= sum(bit for name, bit in _FLAGS.items() if group.get(name))
        if group.get("differentiable") if recorded is None else recorded:
            with enable_grad():
                _record(op, tensors, dict(zip(op.settings, settings, strict=True)), flags, absent)
        else:
            op(tensors, *settings, flags=flags if op.has_flags else None, absent=absent, of=(self, group))


def _record(
    op: MultiTensorOp, tensors: Sequence[Any], settings: dict[str, Any], flags: int, absent: tuple[str, ...]
) -> None:
    """What an op does, by ops that autograd records, with changes in place of parameters and state."""
    values = {k: v.squeeze() if isinstance(v, TensorBase) else v for k, v in settings.items()}
    names = [name for name in op.tensors if name not in absent]
    for k in range(0, len(tensors), len(names)):
        _record_group(
            op, dict(zip(names, tensors[k : k + len(names)], strict=True)), {**values, "flags": flags}, absent
        )


def _record_group(
    op: MultiTensorOp, group: dict[str, Any], values: dict[str, Any], absent: tuple[str, ...]
) -> None:
    formula = op.formula
    assert formula is not None
    update = dict(formula.updates)[absent]
    counted = {name: group[name].item() for name in group if name in op.singles}
    if op.counts:
        counted["step"] += 1.0
        values["steps"] = counted["step"]
    factors = dict(formula.factors)
    for name, factor in factors.items():
        counted[name] = (group[name].detach() * _number(_called(factor, values))).item()
    numbers = _called(formula.numbers, values | counted)
    # An op may save what is changed below.
    taken = [t.clone() if name in op.written else t for name, t in group.items() if name not in op.singles]
    given = [values["flags"]] if "flags" in signature(update).parameters else []
    results = update(*taken, *numbers, *given)
    for name, result in zip([name for name in group if name in op.written], results, strict=False):
        group[name].copy_(result)
    for name in (*factors, *(["step"] if op.counts else [])):
        group[name].detach().fill_(counted[name])


def _called(function: Callable[..., Any], values: Mapping[str, Any]) -> Any:
    return function(*(values[name] for name in signature(function).parameters))


def _number(value: Any) -> float:
    return float(value.item()) if isinstance(value, TensorBase) else value
