"""What a GPU is: its name, its architecture, its sizes; and the machine, as `fastgrad doctor` shows it."""

from __future__ import annotations

from typing import Any, NamedTuple

from fastgrad.cuda import gpus
from fastgrad.cuda.driver import VERSION, Driver, find, version_name
from fastgrad.cuda.selection import gpu_of, index_of
from fastgrad.native.contracts.element_types import SUPPORTED_DTYPES

_ATTRIBUTES = {
    "multi_processor_count": 16, "warp_size": 10, "max_threads_per_block": 1, "max_threads_per_multi_processor": 39,
    "regs_per_multiprocessor": 82, "shared_memory_per_block": 8, "shared_memory_per_block_optin": 97,
    "shared_memory_per_multiprocessor": 81, "L2_cache_size": 38, "is_integrated": 18, "is_multi_gpu_board": 84,
    "clock_rate": 13, "memory_clock_rate": 36, "pci_bus_id": 33, "pci_device_id": 34, "pci_domain_id": 50,
}  # fmt: skip
"""The driver's numbers of what it tells about a device."""


COMPUTED = SUPPORTED_DTYPES
"""The dtypes that kernels of GPUs have elements of."""


class DeviceProperties(NamedTuple):
    """What a GPU is; sizes in bytes, clocks in kHz."""

    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int
    warp_size: int
    max_threads_per_block: int
    max_threads_per_multi_processor: int
    regs_per_multiprocessor: int
    shared_memory_per_block: int
    shared_memory_per_block_optin: int
    shared_memory_per_multiprocessor: int
    L2_cache_size: int
    is_integrated: int
    is_multi_gpu_board: int
    clock_rate: int
    memory_clock_rate: int
    pci_bus_id: int
    pci_device_id: int
    pci_domain_id: int


def get_device_properties(device: Any = None) -> DeviceProperties:
    """What a GPU is, by default the current one.

    Parameters
    ----------
    device : device, str, int or None

    Raises
    ------
    AssertionError
        If there is no GPU of this number.
    RuntimeError
        If there is no driver, or no GPU.
    """
    found, index = gpus.gpus(), index_of(device)
    if not 0 <= index < len(found):
        raise AssertionError(f"Invalid device id: {index}; there are {len(found)} GPUs, from 0 on")
    gpu = found[index]
    values = {name: gpu.attribute(number) for name, number in _ATTRIBUTES.items()}
    major, minor = gpu.capability
    return DeviceProperties(name=gpu.name, major=major, minor=minor, total_memory=gpu.total_memory, **values)


def get_device_name(device: Any = None) -> str:
    """What its maker calls a GPU, by default the current one; see `get_device_properties`."""
    return get_device_properties(device).name


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """The version of the architecture of a GPU, by default of the current one; see `get_device_properties`."""
    found = get_device_properties(device)
    return found.major, found.minor


def get_arch_list() -> list[str]:
    """The architectures of the GPUs here; kernels are compiled for those.

    Examples
    --------
    >>> import fastgrad as fg
    >>> all(name.startswith("sm_") for name in fg.cuda.get_arch_list())
    True
    """
    if not gpus.count():
        return []
    return sorted({gpu.architecture for gpu in gpus.gpus()})


def get_gencode_flags() -> str:
    """How nvcc is told to compile for the GPUs here; empty without one.

    Examples
    --------
    >>> import fastgrad as fg
    >>> all(flag.startswith("-gencode") for flag in fg.cuda.get_gencode_flags().split()[::2])
    True
    """
    numbers = (name.removeprefix("sm_") for name in get_arch_list())
    return " ".join(f"-gencode compute=compute_{number},code=sm_{number}" for number in numbers)


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether the current GPU computes with tensors of bfloat16; False without one.

    Parameters
    ----------
    including_emulation : bool
        Also where its tensor cores do not know the dtype: kernels compute in float32 anyway, and products of matrices
        are left to cuBLAS.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.cuda.is_bf16_supported() and not fg.cuda.is_available()
    False
    """
    return gpus.count() > 0 and (including_emulation or gpu_of().capability >= (8, 0))


def is_tf32_supported() -> bool:
    """Whether the current GPU can multiply float32 matrices in TF32; False without a GPU."""
    return gpus.count() > 0 and gpu_of().capability >= (8, 0)


# --- for `fastgrad doctor` -------------------------------------------------------------------------------------


def _version(package: str) -> str:
    import importlib.metadata  # which takes longer than all of this module

    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def environment() -> dict[str, str]:
    """The driver, the GPUs and what compiles for them, as text. None of it is imported or used for that."""
    found = {"toolkit": f"numba-cuda {_version('numba-cuda')}"}
    try:
        driver = gpus.attached()[0].driver if gpus.is_attached() else find()
        found |= _described(driver)
    except RuntimeError as error:
        found["driver"] = str(error)
    found["kernels"] = _cache()
    return found


def _described(driver: Driver) -> dict[str, str]:
    driver.call("cuInit", 0)
    version = version_name(driver.number("cuDriverGetVersion"))
    found = {"driver": f"CUDA {version} (needed: {version_name(VERSION)})"}
    for index in range(driver.number("cuDeviceGetCount")):
        number = driver.number("cuDeviceGet", index)
        major, minor = (driver.number("cuDeviceGetAttribute", a, number) for a in (gpus.MAJOR, gpus.MINOR))
        memory = driver.total_memory(number) / (1 << 30)
        found[f"GPU {index}"] = (
            f"{gpus.name_of(driver, number)}, compute capability {major}.{minor}, {memory:.1f} GiB"
        )
    return found


def _cache() -> str:
    """What there is of compiled kernels."""
    from fastgrad.native.build import cache

    folder = cache.place().folder
    files = list(folder.glob("*-sm_*.o")) if folder is not None else []
    return f"{len(files)} cubins, {sum(f.stat().st_size for f in files) / 1024:.0f} KiB"
