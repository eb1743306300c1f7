"""A module on several GPUs of one process: with one, or none, it is the module."""

from __future__ import annotations

from typing import Any

from fastgrad import cuda
from fastgrad.nn.modules.module import Module

__all__ = ["DataParallel", "data_parallel"]


class DataParallel(Module):
    """A module that calls another one.

    Parameters
    ----------
    module : Module
    device_ids : list, optional
        GPUs among which batches would be divided: at most one.
    output_device : optional
        Accepted for PyTorch's sake.
    dim : int
        Accepted for PyTorch's sake.

    Raises
    ------
    NotImplementedError
        If there are several GPUs to divide batches among.
    """

    def __init__(self, module: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0) -> None:
        super().__init__()
        self.dim, self.module, self.output_device = dim, module, output_device
        count = cuda.device_count()
        self.device_ids = list(range(count)) if device_ids is None and count else list(device_ids or ())
        if len(self.device_ids) > 1:
            raise NotImplementedError(
                f"DataParallel(): batches cannot be divided among the GPUs {self.device_ids}; "
                "name one, device_ids=[0], or start a process for each"
            )

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What the module gives."""
        return self.module(*inputs, **kwargs)


def data_parallel(
    module: Any,
    inputs: Any,
    device_ids: Any = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: Any = None,
) -> Any:
    """What a module gives for inputs: a tuple of them, or one.

    Raises
    ------
    NotImplementedError
        If there are several GPUs to divide batches among.
    """
    called = DataParallel(module, device_ids, output_device, dim)
    return called(*(inputs if isinstance(inputs, tuple) else (inputs,)), **(module_kwargs or {}))
