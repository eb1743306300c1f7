"""Which GPUs there are, and which of them the calling thread means."""

from __future__ import annotations

import operator
from typing import Any

from fastgrad.cuda import gpus
from fastgrad.cuda.gpus import Gpu
from fastgrad.native.host import devices
from fastgrad.places import device as Device  # noqa: N812

NAME = "cuda"


def is_available() -> bool:
    """Whether there is a driver of NVIDIA's and a GPU.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.cuda.is_available() == (fg.cuda.device_count() > 0)
    True
    """
    return device_count() > 0


def device_count() -> int:
    """How many GPUs there are; 0 without a driver."""
    return gpus.count()


def is_initialized() -> bool:
    """Whether this process uses the GPUs already: nothing does before the first tensor or call that needs one."""
    return gpus.is_attached()


def init() -> None:
    """Begin to use the GPUs. Nobody has to call it: what needs them does.

    Raises
    ------
    RuntimeError
        If there is no driver, or no GPU.
    """
    gpus.gpus()


def index_of(device: Any, optional: bool = True) -> int:
    """The number of a GPU that a program names; the current one where it names none, if that is allowed.

    Raises
    ------
    ValueError
        If it is none.
    """
    if isinstance(device, str):
        device = Device(device)
    if isinstance(device, Device):
        if device.type != NAME:
            raise ValueError(f"Expected a cuda device, but got: {device}")
        if device.index is not None:
            return device.index
    elif device is not None and not isinstance(device, bool):
        try:
            return operator.index(device)
        except TypeError:
            optional = False
    if isinstance(device, bool) or not optional:
        raise ValueError(
            f"Expected a fastgrad.device with a specified index or an integer, but got: {device!r}"
        )
    return devices.current(NAME)


def gpu_of(device: Any = None) -> Gpu:
    """The GPU that a program names, attached.

    Raises
    ------
    RuntimeError
        If there is no such GPU.
    """
    found, index = gpus.gpus(), index_of(device)
    if not 0 <= index < len(found):
        raise RuntimeError(
            f"CUDA error: invalid device ordinal: GPU {index} was asked for, but there are {len(found)}, from 0 on"
        )
    return found[index]


def can_device_access_peer(device: Any, peer_device: Any) -> bool:
    """Whether kernels of a GPU could reach the memory of another one.

    Raises
    ------
    AssertionError
        If there is no such GPU.
    RuntimeError
        If there is no driver, or no GPU.
    """
    found = gpus.gpus()
    here, there = (index_of(d, optional=False) for d in (device, peer_device))
    for index, which in ((here, "device"), (there, "peer device")):
        if not 0 <= index < len(found):
            raise AssertionError(f"Invalid {which} id: {index}; there are {len(found)} GPUs, from 0 on")
    driver = found[here].driver
    return here != there and bool(
        driver.number("cuDeviceCanAccessPeer", found[here].device, found[there].device)
    )


def current_device() -> int:
    """The number of the GPU where ``device="cuda"`` puts a tensor, on this thread.

    Raises
    ------
    RuntimeError
        If there is no driver, or no GPU.
    """
    gpus.gpus()
    return devices.current(NAME)


def set_device(device: Any) -> None:
    """Let ``device="cuda"`` mean a GPU, on this thread.

    Parameters
    ----------
    device : int, device or str
        A negative number changes nothing.

    Raises
    ------
    ValueError
        If it is no GPU, or a name without a number.
    RuntimeError
        If there is no such GPU.
    """
    index = index_of(device, optional=False)
    if index >= 0:
        devices.set_current(NAME, gpu_of(index).index)


class device:  # noqa: N801 - PyTorch's name
    """In a ``with`` statement: let ``device="cuda"`` mean a GPU, on this thread.

    Parameters
    ----------
    device : int, device, str or None
        None or a negative number change nothing.
    """

    def __init__(self, device: Any) -> None:
        self.idx = -1 if device is None else index_of(device)
        self.prev_idx = -1

    def __enter__(self) -> None:
        if self.idx >= 0:
            self.prev_idx = devices.set_current(NAME, gpu_of(self.idx).index)

    def __exit__(self, *_: object) -> None:
        if self.prev_idx >= 0:
            devices.set_current(NAME, self.prev_idx)
            self.prev_idx = -1


class device_of(device):  # noqa: N801 - PyTorch's name
    """The same for the GPU of a tensor; tensors of the CPU change nothing.

    Parameters
    ----------
    obj : Tensor
    """

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.get_device() if obj.is_cuda else -1)


def synchronize(device: Any = None) -> None:
    """Wait until a GPU, by default the current one, has done all that it was given.

    Raises
    ------
    RuntimeError
        If something went wrong in it, or there is no such GPU.
    """
    from fastgrad.cuda import later

    gpu_of(device).synchronize()
    later.settle()


def ipc_collect() -> None:
    """Do nothing: no memory is shared between processes.

    Raises
    ------
    RuntimeError
        If there is no driver, or no GPU.
    """
    gpus.gpus()
