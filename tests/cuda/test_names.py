"""Smaller names of `cuda` and `backends.cuda`: without a GPU beside PyTorch, and with GPUs that are none."""

from __future__ import annotations

import contextlib
import sys
import types
import warnings

import pytest

import fastgrad as fg
from fastgrad.cuda import driver as driver_module
from fastgrad.cuda import libraries, nvtx

# What both libraries answer on a machine without a GPU.
ANSWERS = {
    "memory_cached": lambda lib: lib.cuda.memory_cached(),
    "max_memory_cached": lambda lib: lib.cuda.max_memory_cached(),
    "nested": lambda lib: lib.cuda.memory_stats_as_nested_dict(),
    "flags": lambda lib: (lib.cuda.get_gencode_flags(), lib.cuda.has_half, lib.cuda.has_magma),
    "processes": lambda lib: lib.cuda.list_gpu_processes(),
    **{
        name: lambda lib, name=name: getattr(lib.cuda, name)()
        for name in (
            "memory_usage", "utilization", "temperature", "power_draw", "clock_rate", "device_memory_used",
        )
    },
    "type": lambda lib: (lib.cuda.HalfTensor.dtype == lib.float16, lib.cuda.HalfTensor.is_cuda),
    "type of the CPU": lambda lib: lib.FloatTensor.is_cuda,
    "instance": lambda lib: isinstance(lib.ones(1), lib.cuda.FloatTensor),
    "linalg": lambda lib: str(lib.backends.cuda.preferred_linalg_library("default")),
    "linalg, magma": lambda lib: lib.backends.cuda.preferred_linalg_library("magma"),
    "linalg, cusolver": lambda lib: lib.backends.cuda.preferred_linalg_library("cusolver"),
    "linalg, none": lambda lib: lib.backends.cuda.preferred_linalg_library("x"),
    "linalg, number": lambda lib: lib.backends.cuda.preferred_linalg_library(1),
    "blas": lambda lib: str(lib.backends.cuda.preferred_blas_library("cublas")),
    "blas, default": lambda lib: str(lib.backends.cuda.preferred_blas_library("default")),
    "blas, hip": lambda lib: str(lib.backends.cuda.preferred_blas_library("hipblas")),
    "blas, lt": lambda lib: lib.backends.cuda.preferred_blas_library("cublaslt"),
    "blas, none": lambda lib: lib.backends.cuda.preferred_blas_library("x"),
    "blas, number": lambda lib: lib.backends.cuda.preferred_blas_library(1.5),
    "a switch that is no bool": lambda lib: lib.backends.cuda.enable_flash_sdp(1),
    "switches": lambda lib: switched(lib),
    "for a while": lambda lib: for_a_while(lib),
    "flash": lambda lib: lib.backends.cuda.is_flash_attention_available(),
    "a call of attention": lambda lib: of_a_call(lib),
    "plans of a GPU": lambda lib: lib.backends.cuda.cufft_plan_cache[0],
}  # fmt: skip


def states(lib):
    b = lib.backends.cuda
    return [
        f()
        for f in (b.flash_sdp_enabled, b.math_sdp_enabled, b.mem_efficient_sdp_enabled, b.cudnn_sdp_enabled)
    ]


def switched(lib):
    b, seen = lib.backends.cuda, []
    switches = ("flash_sdp", "mem_efficient_sdp", "math_sdp", "cudnn_sdp")
    for name in switches:
        getattr(b, f"enable_{name}")(False)
        seen.append(states(lib))
    for name in switches:
        getattr(b, f"enable_{name}")(True)
    b.allow_fp16_bf16_reduction_math_sdp(True)
    seen.append(b.fp16_bf16_reduction_math_sdp_allowed())
    b.allow_fp16_bf16_reduction_math_sdp(False)
    return seen, states(lib), b.fp16_bf16_reduction_math_sdp_allowed()


def for_a_while(lib):
    with lib.backends.cuda.sdp_kernel(enable_flash=False, enable_cudnn=False) as said:
        inside = states(lib)
    with contextlib.suppress(ZeroDivisionError), lib.backends.cuda.sdp_kernel(False, False, False, False):
        1 / 0
    return said, inside, states(lib)


def of_a_call(lib):
    q, b = lib.ones(1, 2, 4, 8), lib.backends.cuda
    call = b.SDPAParams(q, q, q, None, 0.0, True, False)
    uses = [
        f(call, True)
        for f in (b.can_use_flash_attention, b.can_use_efficient_attention, b.can_use_cudnn_attention)
    ]
    return call.query is q, call.attn_mask, call.is_causal, uses


def outcome(call, lib):
    """What a call gives, or the class of what it raises; and of what it warns."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            found = call(lib)
        except Exception as error:
            found = type(error)
    return found, [w.category for w in said]


@pytest.mark.parity
@pytest.mark.usefixtures("no_driver")
@pytest.mark.parametrize("name", ANSWERS)
def test_without_a_gpu_they_answer_as_in_pytorch(name, monkeypatch):
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("PyTorch has a GPU here")
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setattr(torch.cuda, "_HAS_PYNVML", False)
    assert outcome(ANSWERS[name], fg) == outcome(ANSWERS[name], torch)


@pytest.mark.usefixtures("no_driver")
@pytest.mark.parametrize(
    "call",
    [
        lambda: fg.cuda.can_device_access_peer(0, 1), lambda: fg.cuda.reset_accumulated_memory_stats(),
        lambda: fg.cuda.FloatTensor(2), lambda: fg.backends.cuda.cufft_plan_cache.size,
        lambda: fg.backends.cuda.cufft_plan_cache.clear(), lambda: fg.cuda.get_stream_from_external(1),
    ],
)  # fmt: skip
def test_without_a_driver_they_say_so(call):
    with pytest.raises(RuntimeError, match="Found no NVIDIA driver"):
        call()


# --- with GPUs that are none -------------------------------------------------------------------------------------


def test_tensors_by_their_older_names(driver):
    x = fg.cuda.FloatTensor([1.0, 2.0])
    assert (x.device.type, x.dtype, x.tolist()) == ("cuda", fg.float32, [1.0, 2.0])
    assert isinstance(x, fg.cuda.FloatTensor)
    assert not isinstance(x, fg.FloatTensor)
    assert not isinstance(x, fg.cuda.LongTensor)
    assert x.type() == "fastgrad.cuda.FloatTensor"
    assert fg.ones(2).type(fg.cuda.LongTensor).tolist() == [1, 1]
    assert fg.cuda.LongTensor(2, 3).shape == (2, 3)


def test_peers(driver):
    assert fg.cuda.can_device_access_peer(0, "cuda:1") in (True, False)
    assert fg.cuda.can_device_access_peer(1, 1) is False
    for here, there in ((2, 0), (0, 2), (-1, 0)):
        with pytest.raises(AssertionError, match=r"Invalid (peer )?device id"):
            fg.cuda.can_device_access_peer(here, there)
    with pytest.raises(ValueError, match="Expected a"):
        fg.cuda.can_device_access_peer(None, 0)


def test_counts_begin_anew(driver):
    x = fg.ones(100, device="cuda")
    fg.cuda.reset_accumulated_memory_stats()
    stats = fg.cuda.memory_stats()
    assert (
        stats["allocation.all.allocated"] == stats["allocation.all.freed"] == stats["num_device_alloc"] == 0
    )
    assert stats["allocation.all.current"] > 0
    y = fg.empty(5, device="cuda")
    stats = fg.cuda.memory_stats_as_nested_dict()
    assert stats["allocation"]["all"]["allocated"] == 1
    assert stats["allocated_bytes"]["all"]["current"] == fg.cuda.memory_allocated()
    with pytest.warns(FutureWarning, match=r"fastgrad\.cuda\.reset_peak_memory_stats"):
        fg.cuda.reset_max_memory_cached()
    with pytest.warns(FutureWarning, match="renamed"):
        assert fg.cuda.max_memory_cached() == fg.cuda.memory_reserved()
    del x, y


def test_choices_are_kept(driver):
    b = fg.backends.cuda
    try:
        for name in ("magma", "cusolver"):
            assert str(b.preferred_linalg_library(name)) == f"_LinalgBackend.{name.title()}"
            kept = b.preferred_linalg_library()
            assert b.preferred_linalg_library(kept) is kept
        assert str(b.preferred_blas_library("cublaslt")) == "_BlasBackend.Cublaslt"
        with pytest.raises(RuntimeError, match="type"):
            b.preferred_blas_library(kept)
    finally:
        b.preferred_linalg_library("default")
        b.preferred_blas_library("default")


def test_plans_of_transforms(driver):
    plans = fg.backends.cuda.cufft_plan_cache
    plans.max_size = 7
    plans["cuda:1"].max_size = 3
    assert (plans.size, plans.max_size, plans[0].max_size, plans[1].max_size) == (0, 7, 7, 3)
    with fg.cuda.device(1):
        assert plans.max_size == 3
    assert plans.clear() is plans[1].clear() is None
    with pytest.raises(RuntimeError, match="expected 0 <= device index < 2"):
        plans[2]
    for wrong, error in ((-1, RuntimeError), (True, TypeError), ("a", TypeError)):
        with pytest.raises(error, match="max_size"):
            plans.max_size = wrong
    plans.max_size = plans[1].max_size = 4096


# --- NVML --------------------------------------------------------------------------------------------------------


@pytest.fixture
def nvml(monkeypatch):
    """A module such as nvidia-ml-py's, for a GPU of which all is known."""

    class NVMLError(Exception):
        pass

    def asked(value):
        return lambda handle, *which: value if handle == 5 else pytest.fail("another GPU was asked")

    made = types.SimpleNamespace(
        NVMLError=NVMLError, nvmlInit=lambda: None, places=[],
        nvmlDeviceGetHandleByPciBusId=lambda place: made.places.append(place) or 5,
        nvmlDeviceGetMemoryInfo=asked(types.SimpleNamespace(used=123)),
        nvmlDeviceGetUtilizationRates=asked(types.SimpleNamespace(gpu=40, memory=20)),
        nvmlDeviceGetTemperature=asked(33), nvmlDeviceGetPowerUsage=asked(90_000), nvmlDeviceGetClockInfo=asked(1755),
        nvmlDeviceGetComputeRunningProcesses=asked([]),
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "pynvml", made)
    return made


def test_what_the_library_tells(driver, nvml):
    c = fg.cuda
    assert (c.device_memory_used(), c.utilization(), c.memory_usage(1)) == (123, 40, 20)
    assert (c.temperature(), c.power_draw("cuda:0"), c.clock_rate()) == (33, 90_000, 1755)
    found = c.get_device_properties(1)
    numbers = found.pci_domain_id, found.pci_bus_id, found.pci_device_id
    assert tuple(int(part, 16) for part in nvml.places[2].split(b".")[0].split(b":")) == numbers
    assert c.list_gpu_processes(1) == "GPU:1\nno processes are running"
    used = [
        types.SimpleNamespace(pid=77, usedGpuMemory=3 << 20),
        types.SimpleNamespace(pid=8, usedGpuMemory=None),
    ]
    nvml.nvmlDeviceGetComputeRunningProcesses = lambda handle: used
    lines = c.list_gpu_processes().splitlines()
    assert [line.split() for line in lines[1:]] == [
        ["process", "77", "uses", "3.000", "MB", "GPU", "memory"],
        ["process", "8", "uses", "0.000", "MB", "GPU", "memory"],
    ]
    with pytest.raises(AssertionError, match="Invalid device id"):
        c.utilization(2)


def test_a_library_that_does_not_answer(driver, nvml):
    def refuse():
        raise nvml.NVMLError("Driver Not Loaded")

    nvml.nvmlInit = refuse
    with pytest.raises(RuntimeError, match="cannot be asked: Driver Not Loaded"):
        fg.cuda.temperature()
    assert fg.cuda.list_gpu_processes().startswith("cuda driver can't be loaded")


@pytest.mark.usefixtures("no_driver")
def test_a_library_without_a_driver(nvml):
    with pytest.raises(RuntimeError, match="Found no NVIDIA driver"):
        fg.cuda.temperature()
    assert fg.cuda.list_gpu_processes().startswith("cuda driver can't be loaded")


# --- NVTX --------------------------------------------------------------------------------------------------------


@pytest.fixture
def marks(monkeypatch):
    """What is said to a library such as NVIDIA's."""
    said = []

    def function(name):
        def call(*args):
            said.append((name, *args))
            return len(said)

        return call

    names = ("nvtxRangePushA", "nvtxRangePop", "nvtxRangeStartA", "nvtxRangeEnd", "nvtxMarkA")
    library = types.SimpleNamespace(**{name: function(name) for name in names})
    monkeypatch.setattr(libraries, "found", lambda files: library)
    nvtx._function.cache_clear()
    yield said
    nvtx._function.cache_clear()


def test_ranges_and_marks(marks):
    n = fg.cuda.nvtx
    assert n.range_push("ä") == 1
    assert n.range_pop() == 2
    n.range_end(n.range_start("b"))
    n.mark("c")
    assert marks == [
        ("nvtxRangePushA", "ä".encode()), ("nvtxRangePop",), ("nvtxRangeStartA", b"b"), ("nvtxRangeEnd", 3),
        ("nvtxMarkA", b"c"),
    ]  # fmt: skip
    marks.clear()
    with pytest.raises(ZeroDivisionError), n.range("{} of {n}", 1, n=2):
        1 / 0
    assert n.range("f")(lambda x: x + 1)(2) == 3
    assert marks == [
        ("nvtxRangePushA", b"1 of 2"),
        ("nvtxRangePop",),
        ("nvtxRangePushA", b"f"),
        ("nvtxRangePop",),
    ]
    for wrong in (n.range_push, n.range_start, n.mark):
        with pytest.raises(TypeError, match="must be str, not int"):
            wrong(3)
    with pytest.raises(TypeError, match="must be str, not int"), n.range(3):
        pass
    for wrong in (None, "a", 1.5, True):
        with pytest.raises(TypeError, match="must be int, not"):
            n.range_end(wrong)


def test_without_the_library(monkeypatch):
    def nowhere(files):
        raise ImportError

    monkeypatch.setattr(libraries, "found", nowhere)
    nvtx._function.cache_clear()
    n = fg.cuda.nvtx
    for call in (
        lambda: n.range_push("a"),
        n.range_pop,
        lambda: n.mark("a"),
        lambda: n.range("a").__enter__(),
    ):
        with pytest.raises(RuntimeError, match="NVTX functions not installed"):
            call()
    nvtx._function.cache_clear()


def test_libraries_are_found_in_wheels(tmp_path, monkeypatch):
    (tmp_path / "cu99" / "lib").mkdir(parents=True)
    (tmp_path / "cu99" / "lib" / "libsome.so.1").touch()
    opened = []

    def load(name):
        opened.append(name)
        if "/" not in name:
            raise OSError
        return name

    spec = types.SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    monkeypatch.setattr(libraries.importlib.util, "find_spec", lambda name: spec)
    monkeypatch.setattr(libraries.ctypes, "CDLL", load)
    assert libraries.found(("libother.so.1", "libsome.so.1")) == str(
        tmp_path / "cu99" / "lib" / "libsome.so.1"
    )
    assert opened[:2] == ["libother.so.1", "libsome.so.1"]
    monkeypatch.setattr(libraries.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"libsome\.so\.1"):
        libraries.found(("libsome.so.1",))


# --- drivers that are too old ------------------------------------------------------------------------------------


def test_a_driver_that_is_too_old_says_which_one_is_needed():
    without = types.SimpleNamespace()
    with pytest.raises(RuntimeError, match=r"too old: fastgrad needs one with CUDA 12\.0 \(525 or newer\)"):
        driver_module._address_in(without)
    lacking = types.SimpleNamespace(cuGetProcAddress_v2=lambda *args: 500)  # CUDA_ERROR_NOT_FOUND
    with pytest.raises(RuntimeError, match="lacks cuLaunchKernel: fastgrad needs 525 or newer"):
        driver_module._address_in(lacking)("cuLaunchKernel")
