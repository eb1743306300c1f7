"""NVIDIA GPUs, under the names that PyTorch has for them.

Nothing here needs a GPU to be imported. `is_available` says whether there is one; what needs one says what is missing.

Examples
--------
>>> import fastgrad as fg
>>> where = fg.device("cuda" if fg.cuda.is_available() else "cpu")
>>> fg.ones(2, device=where).sum().item()
2.0
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastgrad.cuda.gpus import OutOfMemoryError
from fastgrad.cuda.memory import (
    empty_cache,
    get_allocator_backend,
    get_per_process_memory_fraction,
    max_memory_allocated,
    max_memory_cached,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_cached,
    memory_reserved,
    memory_stats,
    memory_stats_as_nested_dict,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_max_memory_cached,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
)
from fastgrad.cuda.random import (
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from fastgrad.cuda.selection import (
    can_device_access_peer,
    current_device,
    device,
    device_count,
    device_of,
    init,
    ipc_collect,
    is_available,
    is_initialized,
    set_device,
    synchronize,
)
from fastgrad.cuda.streams import (
    Event,
    ExternalStream,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    get_stream_from_external,
    set_stream,
    stream,
)
from fastgrad.dtypes import TYPED
from fastgrad.module_names import getattr_of

if TYPE_CHECKING:
    from fastgrad.cuda.graphs import (
        CUDAGraph,
        graph,
        graph_pool_handle,
        is_current_stream_capturing,
        make_graphed_callables,
    )
    from fastgrad.cuda.nvml import (
        clock_rate,
        device_memory_used,
        list_gpu_processes,
        memory_usage,
        power_draw,
        temperature,
        utilization,
    )
    from fastgrad.cuda.properties import (
        get_arch_list,
        get_device_capability,
        get_device_name,
        get_device_properties,
        get_gencode_flags,
        is_bf16_supported,
        is_tf32_supported,
    )

__all__ = [
    "CUDAGraph",
    "Event",
    "ExternalStream",
    "OutOfMemoryError",
    "Stream",
    "StreamContext",
    "can_device_access_peer",
    "clock_rate",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "device_memory_used",
    "device_of",
    "empty_cache",
    "get_allocator_backend",
    "get_arch_list",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_gencode_flags",
    "get_per_process_memory_fraction",
    "get_rng_state",
    "get_rng_state_all",
    "get_stream_from_external",
    "graph",
    "graph_pool_handle",
    "has_half",
    "has_magma",
    "init",
    "initial_seed",
    "ipc_collect",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "is_tf32_supported",
    "list_gpu_processes",
    "make_graphed_callables",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "memory_usage",
    "power_draw",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "stream",
    "synchronize",
    "temperature",
    "utilization",
]


has_half = True
"""Whether there are tensors of float16."""
has_magma = False
"""Whether matrices are factored by MAGMA; fastgrad has kernels of its own."""


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    if name == "default_generators":
        from fastgrad.cuda import random

        return tuple(random.generator(index) for index in range(device_count()))
    return _later(name)


_GRAPHS = ("CUDAGraph", "graph", "graph_pool_handle", "is_current_stream_capturing", "make_graphed_callables")
_PROPERTIES = (
    "get_arch_list", "get_device_capability", "get_device_name", "get_device_properties", "get_gencode_flags",
    "is_bf16_supported", "is_tf32_supported",
)  # fmt: skip
_NVML = (
    "clock_rate", "device_memory_used", "list_gpu_processes", "memory_usage", "power_draw", "temperature",
    "utilization",
)  # fmt: skip
_TYPES = tuple(f"{d.type_name}Tensor" for d in TYPED)
_later = getattr_of(
    __name__,
    dict.fromkeys(("amp", "graphs", "nvml", "nvtx", "properties"))
    | dict.fromkeys(_GRAPHS, "graphs")
    | dict.fromkeys(_NVML, "nvml")
    | dict.fromkeys(_PROPERTIES, "properties")
    | dict.fromkeys(_TYPES, "typed"),
)
