"""Steps of optimizers, norms and clipping: one call runs a kernel over groups of tensors, in place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastgrad.native.build.loader import ContextBase
from fastgrad.native.contracts.element_types import FLOATS
from fastgrad.native.contracts.flags import GRAD_ENABLED
from fastgrad.native.contracts.ops import FN_EACH, FUNCTION
from fastgrad.ops.call import apply, float_bits
from fastgrad.ops.registry import Kernel, Op

_FLOATING = "parameters and gradients must be float32 or float64"
MOST = 4096  # tensors of one call: they go to the runtime by way of the stack


class MultiTensorOp(Op):
    """An op that runs its kernel over groups of tensors and changes some of them.

    Parameters
    ----------
    name, builder : str
    tensors : str
        Names of a group's tensors; ``!`` after a name: the kernel writes it; ``.``: it is a single number of any
        float dtype. All others have sizes and dtype of the first.
    settings : str
        Names of the numbers that all groups of a call share.
    """

    def __init__(self, name: str, builder: str, tensors: str, settings: str = "") -> None:
        words = tensors.split()
        self.tensors = tuple(word.rstrip("!.") for word in words)
        self.written, self.single = (sum(1 << k for k, w in enumerate(words) if mark in w) for mark in "!.")
        attrs = ("places", "present", "written", "single", *settings.split())
        kernel = Kernel(name, f"optim:{builder}", dtypes=FLOATS, hint=_FLOATING)
        super().__init__(name, FUNCTION, ("*tensors",), attrs, kernel=kernel, forward=FN_EACH)

    def __call__(
        self, tensors: Sequence[Any], *settings: Any, flags: int | None = None, absent: Sequence[str] = ()
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
        """
        present = (1 << len(self.tensors)) - 1
        for name in absent:
            present &= ~(1 << self.tensors.index(name))
        attrs = [len(self.tensors), present, self.written, self.single, *map(float_bits, settings)]
        if flags is not None:
            attrs.append(flags)
        most = MOST // present.bit_count() * present.bit_count()
        unrecorded = ContextBase()
        unrecorded._off = GRAD_ENABLED
        with unrecorded:
            for start in range(0, len(tensors), most):
                part = tensors[start : start + most]
                apply(self.id, len(part), 0, *part, *attrs)


sgd_step = MultiTensorOp(
    "sgd_step", "sgd", "param! grad momentum_buffer!", "lr momentum dampening weight_decay flags"
)
adam_step = MultiTensorOp(
    "adam_step", "adam", "param! grad exp_avg! exp_avg_sq! max_exp_avg_sq! step!.",
    "lr beta1 beta2 eps weight_decay flags",
)  # fmt: skip
rmsprop_step = MultiTensorOp(
    "rmsprop_step", "rmsprop", "param! grad square_avg! momentum_buffer! grad_avg! step!.",
    "lr alpha eps weight_decay momentum flags",
)  # fmt: skip
adagrad_step = MultiTensorOp(
    "adagrad_step", "adagrad", "param! grad sum! step!.", "lr lr_decay eps weight_decay flags"
)
norm_part = MultiTensorOp("norm_part", "norm_part", "tensor total!.", "order")
scale = MultiTensorOp("scale", "scale", "tensor! factor.")
clip = MultiTensorOp("clip", "clip", "tensor!", "bound")
