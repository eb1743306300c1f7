"""Steps of optimizers, norms and clipping: one call runs a kernel over groups of tensors, in place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastgrad.native.build.loader import ContextBase, runtime_set
from fastgrad.native.contracts.element_types import FLOATS
from fastgrad.native.contracts.flags import GRAD_ENABLED
from fastgrad.native.contracts.frame import READ, UPDATE, Frame
from fastgrad.native.contracts.frames import multi_tensor
from fastgrad.native.contracts.frames.multi_tensor import CLIP, JOINED, NORM_PART, SCALE, UNSCALE, joins
from fastgrad.native.contracts.ops import SHAPE_EACH, STRUCTURED
from fastgrad.native.host.hook_calls import paused, recording_tape
from fastgrad.native.host.options import Settings
from fastgrad.ops import optim_formulas as formulas
from fastgrad.ops.call import apply, float_bits
from fastgrad.ops.kernel_table import Kernel
from fastgrad.ops.optim_formulas import StepFormula
from fastgrad.ops.registry import Op

_FLOATING = "parameters and gradients must be float32 or float64"
MOST = 4096  # tensors of one call: they go to the runtime by way of the stack
_OPTIONS = {  # settings that are items of a tuple
    "beta1": ("betas", 0), "beta2": ("betas", 1), "etaminus": ("etas", 0), "etaplus": ("etas", 1),
    "step_size_min": ("step_sizes", 0), "step_size_max": ("step_sizes", 1),
}  # fmt: skip


class MultiTensorOp(Op):
    """An op that runs its kernel over groups of tensors and changes some of them.

    Parameters
    ----------
    name : str
    frame : Frame
        What the kernel gets: the tensors of a group and the settings that all groups of a call share.
    formula : StepFormula, optional
        What a step of an optimizer computes; the tensors that an update may lack, the groups of a call may lack.
    branching : sequence of str
        Settings whose sign decides what a step does before it calls the op.
    """

    def __init__(
        self, name: str, frame: Frame, formula: StepFormula | None = None, branching: Sequence[str] = ()
    ) -> None:
        tensors = {n: f for n, f in frame.declared.items() if f.role in (READ, UPDATE)}
        self.tensors = tuple(tensors)
        settings = frame.names_of("settings") if "settings" in frame.declared else ()
        self.settings = tuple(name for name in settings if name != "flags")
        self.has_flags = "flags" in settings
        self.singles = tuple(name for name, f in tensors.items() if not f.extent)
        written = [name for name, f in tensors.items() if f.role == UPDATE]
        self.written = tuple(name for name in written if name not in self.singles)
        self.counts = "step" in written
        self.formula = formula
        builder, options = (frame.name, {}) if formula is None else ("step", formula._asdict())
        optional = {name for absent, _ in options.get("updates", ()) for name in absent}
        self._places = {name: (*_OPTIONS.get(name, (name, -1)), name in branching) for name in self.settings}
        kernel = Kernel(name, f"optim:{builder}", frame=frame, dtypes=FLOATS, hint=_FLOATING, **options)
        runtime_set("joins", joins(frame), kernel.id)
        super().__init__(
            name, STRUCTURED, ("*tensors",), ("present", *settings), kernel=kernel, forward=SHAPE_EACH
        )
        self.write("places", len(tensors))
        self.write("needed", sum(1 << k for k, n in enumerate(tensors) if n not in optional))
        self.write("written", sum(1 << k for k, n in enumerate(tensors) if n in written))
        self.write("single", sum(1 << k for k, n in enumerate(tensors) if n in self.singles))

    def options_in(self, group: dict[str, Any]) -> list[Any]:
        """The settings, but for flags, from the options of a group of parameters."""
        return [
            group[key] if item < 0 else _of_pair(group[key], item) for key, item, _ in self._places.values()
        ]

    def __call__(
        self,
        tensors: Sequence[Any],
        *settings: Any,
        flags: int | None = None,
        absent: Sequence[str] = (),
        of: tuple[Any, dict[str, Any]] | None = None,
    ) -> None:
        """Run the kernel over groups that stand one after the other in a list.

        Parameters
        ----------
        tensors : sequence of Tensor
            The groups, without tensors that are `absent`.
        *settings : float or Tensor
        flags : int, optional
            The last setting, where that is bits.
        absent : sequence of str
            Names of tensors that no group has.
        of : tuple of Optimizer and dict, optional
            Whose options the settings are, as they stand in a group of its parameters.
        """
        tape = recording_tape() if of is not None else None
        first = tape.n_entries if tape is not None else 0
        present = (1 << len(self.tensors)) - 1
        for name in absent:
            present &= ~(1 << self.tensors.index(name))
        attrs = [present, *map(float_bits if tape is None else _unnoted_bits, settings)]
        if flags is not None:
            attrs.append(flags)
        most = MOST // present.bit_count() * present.bit_count()
        unrecorded = ContextBase()
        unrecorded._off = GRAD_ENABLED
        with unrecorded:
            for start in range(0, len(tensors), most):
                part = tensors[start : start + most]
                try:
                    apply(self.id, len(part), 0, *part, *attrs)
                except RuntimeError:
                    by_device = _by_device(part, present.bit_count())
                    if len(by_device) == 1:
                        raise
                    for groups in by_device:  # nothing ran yet
                        apply(self.id, len(groups), 0, *groups, *attrs)
        if tape is not None and of is not None:
            tape.note_settings(first, Settings(self.kernel, *of, self._places))


def _of_pair(pair: Any, item: int) -> Any:
    first, second = pair  # whatever is no pair raises as unpacking does
    return second if item else first


def _unnoted_bits(value: Any) -> int:
    """`float_bits`, and a tape that records does not note that a value was read."""
    with paused():
        return float_bits(value)


def _by_device(tensors: Sequence[Any], size: int) -> list[list[Any]]:
    """Groups of tensors in a list of each device."""
    found: dict[Any, list[Any]] = {}
    for k in range(0, len(tensors), size):
        found.setdefault(tensors[k].device, []).extend(tensors[k : k + size])
    return list(found.values())


MANY = Kernel("joined", "optim:joined", frame=JOINED, dtypes=FLOATS, hint=_FLOATING)
sgd_step = MultiTensorOp("sgd_step", multi_tensor.SGD, formulas.SGD_FORMULA, ("momentum",))
adam_step = MultiTensorOp("adam_step", multi_tensor.ADAM, formulas.ADAM_FORMULA)
rmsprop_step = MultiTensorOp(
    "rmsprop_step", multi_tensor.RMSPROP, formulas.RMSPROP_FORMULA, branching=("momentum",)
)
adagrad_step = MultiTensorOp("adagrad_step", multi_tensor.ADAGRAD, formulas.ADAGRAD_FORMULA)
adadelta_step = MultiTensorOp("adadelta_step", multi_tensor.ADADELTA, formulas.ADADELTA_FORMULA)
adamax_step = MultiTensorOp("adamax_step", multi_tensor.ADAMAX, formulas.ADAMAX_FORMULA)
nadam_step = MultiTensorOp("nadam_step", multi_tensor.NADAM, formulas.NADAM_FORMULA)
radam_step = MultiTensorOp("radam_step", multi_tensor.RADAM, formulas.RADAM_FORMULA)
rprop_step = MultiTensorOp("rprop_step", multi_tensor.RPROP, formulas.RPROP_FORMULA)
asgd_step = MultiTensorOp("asgd_step", multi_tensor.ASGD, formulas.ASGD_FORMULA)
asgd_rate = MultiTensorOp("asgd_rate", multi_tensor.ASGD_RATE, formulas.ASGD_RATE_FORMULA)
norm_part = MultiTensorOp("norm_part", NORM_PART)
scale = MultiTensorOp("scale", SCALE)
unscale = MultiTensorOp("unscale", UNSCALE)
clip = MultiTensorOp("clip", CLIP)
