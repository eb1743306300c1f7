"""What calls on GPUs are compared with besides."""

from __future__ import annotations

from typing import Any

from fastgrad.compiler.guards import Guards, Walk
from fastgrad.cuda.precision import convolutions_in_tf32, products_in_tf32
from fastgrad.native.host import devices


def _settings() -> tuple[Any, ...]:
    """What tensors are made on, and kernels of GPUs chosen by, beside what a call brings."""
    return devices.current("cuda"), products_in_tf32(), convolutions_in_tf32()


class GpuGuards(Guards):
    """The comparisons of a walk, and of the settings of GPUs."""

    def __init__(self, walk: Walk) -> None:
        super().__init__(walk)
        self._settings = _settings()

    def hold(self) -> bool:
        """Whether all that was compared is as it was."""
        return _settings() == self._settings and super().hold()

    def first_change(self) -> str:
        """What is not as it was, for people; empty if all is."""
        if _settings() != self._settings:
            return "the current GPU, or what GPUs may round to TF32, is another one"
        return super().first_change()
