"""Steps of optimizers, norms and clipping: one call runs a kernel over groups of tensors, in place."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from fastgrad.native.layout import FN_EACH, FUNCTION, GRAD_ENABLED
from fastgrad.native.loader import rt
from fastgrad.ops.call import apply
from fastgrad.ops.registry import Kernel, Op

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
        attrs = ("width", "written", "single", *settings.split())
        super().__init__(
            name, FUNCTION, ("*tensors",), attrs, kernel=Kernel(name, f"optim:{builder}"), forward=FN_EACH
        )

    def __call__(self, tensors: Sequence[Any], *settings: float, flags: int | None = None) -> None:
        """Run the kernel over groups that stand one after the other in a list; None where a tensor is absent."""
        width = len(self.tensors)
        numbers = [_bits(s) for s in settings]
        if flags is not None:
            numbers.append(flags)
        mode = rt.set_mode(rt.get_mode() & ~GRAD_ENABLED)
        try:
            for start in range(0, len(tensors), MOST // width * width):
                part = tensors[start : start + MOST // width * width]
                apply(self.id, len(part), 0, *part, width, self.written, self.single, *numbers)
        finally:
            rt.set_mode(mode)


def _bits(value: float) -> int:
    """The bit pattern of a float64 as an integer."""
    return int(struct.unpack("<q", struct.pack("<d", value))[0])


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
