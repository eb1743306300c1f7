"""What NVIDIA's management library tells of a GPU: its load, its temperature, its power, who uses it.

The library comes with the driver; `nvidia-ml-py` (``pip install nvidia-ml-py``) is what asks it.
"""

from __future__ import annotations

from typing import Any

from fastgrad.cuda import properties
from fastgrad.cuda.selection import index_of

__all__ = [
    "clock_rate",
    "device_memory_used",
    "list_gpu_processes",
    "memory_usage",
    "power_draw",
    "temperature",
    "utilization",
]

_CORE = 0  # NVML_TEMPERATURE_GPU
_MULTIPROCESSORS = 1  # NVML_CLOCK_SM
_HINT = "nvidia-ml-py does not seem to be installed or it can't be imported: pip install nvidia-ml-py"


def _library() -> Any:
    """The module that asks the library.

    Raises
    ------
    ModuleNotFoundError
        If it is not installed.
    """
    try:
        import pynvml
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(_HINT) from error
    return pynvml


def _asked(device: Any) -> tuple[Any, Any]:
    """The module, and the library's handle of a GPU: by where it is plugged in, whatever its number here is."""
    library = _library()
    found = properties.get_device_properties(device)
    try:
        library.nvmlInit()
        place = f"{found.pci_domain_id:08X}:{found.pci_bus_id:02X}:{found.pci_device_id:02X}.0"
        return library, library.nvmlDeviceGetHandleByPciBusId(place.encode())
    except library.NVMLError as error:
        raise RuntimeError(f"NVIDIA's management library cannot be asked: {error}") from error


def device_memory_used(device: Any = None) -> int:
    """Bytes of a GPU's memory that are in use, by all processes.

    Parameters
    ----------
    device : device, str, int or None
        By default the current GPU; so everywhere here.

    Raises
    ------
    ModuleNotFoundError
        If `nvidia-ml-py` is not installed.
    RuntimeError
        If there is no driver, or its library cannot be asked.
    AssertionError
        If there is no such GPU.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.cuda.device_memory_used()  # doctest: +SKIP
    1453850624
    """
    library, handle = _asked(device)
    return int(library.nvmlDeviceGetMemoryInfo(handle).used)


def memory_usage(device: Any = None) -> int:
    """The part of the time in which memory was read or written lately, in percent; see `device_memory_used`."""
    library, handle = _asked(device)
    return int(library.nvmlDeviceGetUtilizationRates(handle).memory)


def utilization(device: Any = None) -> int:
    """The part of the time in which kernels ran lately, in percent; see `device_memory_used`."""
    library, handle = _asked(device)
    return int(library.nvmlDeviceGetUtilizationRates(handle).gpu)


def temperature(device: Any = None) -> int:
    """How warm a GPU is, in degrees Celsius; see `device_memory_used`."""
    library, handle = _asked(device)
    return int(library.nvmlDeviceGetTemperature(handle, _CORE))


def power_draw(device: Any = None) -> int:
    """What a GPU takes, in milliwatts; see `device_memory_used`."""
    library, handle = _asked(device)
    return int(library.nvmlDeviceGetPowerUsage(handle))


def clock_rate(device: Any = None) -> int:
    """The clock of a GPU's multiprocessors at present, in MHz; see `device_memory_used`."""
    library, handle = _asked(device)
    return int(library.nvmlDeviceGetClockInfo(handle, _MULTIPROCESSORS))


def list_gpu_processes(device: Any = None) -> str:
    """The processes that compute on a GPU, and how much of its memory each has, as text; or what is missing for that.

    Examples
    --------
    >>> import fastgrad as fg
    >>> isinstance(fg.cuda.list_gpu_processes(), str)
    True
    """
    try:
        library, handle = _asked(device)
    except ModuleNotFoundError:
        return "pynvml module not found, please install nvidia-ml-py"
    except RuntimeError as error:
        return f"cuda driver can't be loaded, is cuda enabled? {error}"
    lines = [f"GPU:{index_of(device)}"]
    for process in library.nvmlDeviceGetComputeRunningProcesses(handle):
        used = (process.usedGpuMemory or 0) / (1 << 20)  # None where the library may not tell
        lines.append(f"process {process.pid:>10d} uses {used:>12.3f} MB GPU memory")
    return "\n".join(lines if len(lines) > 1 else [*lines, "no processes are running"])
