"""`fastgrad.accelerator`, `backends`, `version` and `fastgrad doctor`, with GPUs that are none and without a driver."""

from __future__ import annotations

import warnings

import pytest

import fastgrad as fg
from fastgrad import cli
from fastgrad.cuda import precision


def test_the_accelerator_without_one(no_driver):
    a = fg.accelerator
    assert not a.is_available()
    assert a.device_count() == 0
    assert a.current_accelerator() == fg.device("cuda")
    assert a.current_accelerator(check_available=True) is None
    assert a.memory_allocated() == a.max_memory_reserved() == 0
    assert a.empty_cache() is a.empty_host_cache() is a.set_device_index(-1) is None
    for call in (
        a.current_device_index, lambda: a.set_device_index(0), a.synchronize, a.current_stream, a.get_memory_info,
        lambda: a.set_stream(None), a.reset_peak_memory_stats, a.get_device_capability,
        a.reset_accumulated_memory_stats,
    ):  # fmt: skip
        with pytest.raises(
            RuntimeError, match=r"Cannot access accelerator device when none is available\. Found no"
        ):
            call()


def test_the_accelerator(driver):
    a = fg.accelerator
    assert a.is_available()
    assert a.device_count() == 2
    assert a.current_accelerator(True) == fg.device("cuda")
    a.set_device_index(1)
    assert a.current_device_index() == fg.cuda.current_device() == 1
    a.set_device_index(-1)
    assert a.current_device_index() == 1
    a.set_device_index("cuda:0")
    with a.device_index(1):
        assert a.current_device_index() == 1
        assert a.current_stream() == fg.cuda.default_stream(1)
    a.set_stream(a.current_stream(0))
    x = fg.ones(1000, device="cuda")
    assert a.memory_allocated() >= 4000
    a.reset_accumulated_memory_stats()
    assert a.memory_stats()["allocation.all.allocated"] == 0
    assert a.get_memory_info() == fg.cuda.mem_get_info()
    known = a.get_device_capability()["supported_dtypes"]
    assert fg.float32 in known
    assert (fg.bfloat16 in known) == fg.cuda.is_bf16_supported()
    a.synchronize(0)
    assert x.sum().item() == 1000
    fg.ones(5).pin_memory()
    freed = driver.calls["cuMemFreeHost"]
    a.empty_host_cache()
    assert driver.calls["cuMemFreeHost"] > freed


def test_precision_of_products(driver):
    try:
        for precision, allowed in (("high", True), ("medium", True), ("highest", False)):
            fg.set_float32_matmul_precision(precision)
            assert fg.get_float32_matmul_precision() == precision
            assert fg.backends.cuda.matmul.allow_tf32 is allowed
            assert [gpu.read("allow_tf32") for gpu in driver.gpus] == [allowed] * 2
        fg.backends.cuda.matmul.allow_tf32 = True
        assert fg.get_float32_matmul_precision() == "high"
        assert fg.backends.cuda.matmul.fp32_precision == "tf32"
        fg.backends.cuda.matmul.fp32_precision = "ieee"
        assert fg.get_float32_matmul_precision() == "highest"
    finally:
        fg.set_float32_matmul_precision("highest")


def test_precision_that_is_none(lib):
    with pytest.raises(RuntimeError, match="expects a str, but got int"):
        lib.set_float32_matmul_precision(3)
    if lib is fg:
        with pytest.warns(UserWarning, match="foo is not one of 'highest', 'high', or 'medium'"):
            fg.set_float32_matmul_precision("foo")
    assert lib.get_float32_matmul_precision() == "highest"


def test_switches(lib):
    cudnn, matmul = lib.backends.cudnn, lib.backends.cuda.matmul
    assert (cudnn.enabled, cudnn.benchmark, cudnn.deterministic, cudnn.allow_tf32) == (
        True,
        False,
        False,
        True,
    )
    assert (cudnn.is_available(), cudnn.version()) == (False, None)
    try:
        cudnn.benchmark = True
        assert lib.backends.cudnn.benchmark is True
        with cudnn.flags(enabled=False, deterministic=True):
            assert (cudnn.enabled, cudnn.deterministic, cudnn.benchmark) == (False, True, False)
        assert (cudnn.enabled, cudnn.deterministic, cudnn.benchmark) == (True, False, True)
    finally:
        cudnn.benchmark = False
    for name in ("enabled", "benchmark", "deterministic", "allow_tf32"):
        with pytest.raises(RuntimeError, match="expects a bool, but got int"):
            setattr(cudnn, name, 1)
    with pytest.raises(RuntimeError, match="expects a bool, but got int"):
        matmul.allow_tf32 = 1
    with pytest.raises(AttributeError, match="Unknown attribute foo"):
        matmul.foo
    with pytest.raises(AttributeError, match="Unknown attribute foo"):
        matmul.foo = 1
    assert matmul.allow_bf16_reduced_precision_reduction is True
    assert lib.backends.mps.is_available() is False


def test_convolutions_are_rounded_where_a_program_says_so():
    cudnn, asked = fg.backends.cudnn, precision.convolutions_in_tf32
    assert (cudnn.allow_tf32, cudnn.conv.fp32_precision, asked()) == (True, "none", None)
    try:
        with cudnn.flags(enabled=False):
            assert (cudnn.allow_tf32, asked()) == (True, None)
        with cudnn.flags(allow_tf32=True):
            assert (cudnn.conv.fp32_precision, asked()) == ("tf32", True)
        assert asked() is None
        cudnn.allow_tf32 = False
        with cudnn.flags():
            assert (cudnn.allow_tf32, asked()) == (True, None)
        assert (cudnn.allow_tf32, cudnn.conv.fp32_precision, asked()) == (False, "ieee", False)
        cudnn.conv.fp32_precision = "tf32"
        assert (cudnn.allow_tf32, asked()) == (True, True)
        assert cudnn.set_flags(_allow_tf32=False)[-1] is True
        for wrong in ("high", 1, None):
            with pytest.raises(RuntimeError, match=r"Unknown precision: [^;]*; expected 'ieee'"):
                cudnn.conv.fp32_precision = wrong
        with pytest.raises(AttributeError):
            cudnn.conv.precision = "ieee"
        assert asked() is False
    finally:
        cudnn.conv.fp32_precision = "none"
    assert asked() is None


def test_what_programs_ask():
    assert fg.backends.cuda.is_built()
    assert fg.version.cuda == "12.0"
    assert fg.version.hip is None
    assert fg.version.__version__ == fg.__version__
    assert fg.OutOfMemoryError is fg.cuda.OutOfMemoryError
    fg.backends.cuda.enable_flash_sdp(False)
    assert fg.backends.cuda.flash_sdp_enabled() is False
    fg.backends.cuda.enable_flash_sdp(True)


def test_doctor(driver, capsys):
    assert cli.main(["doctor"]) == 0
    text = capsys.readouterr().out
    assert "Stand-in 0, compute capability 9.0, 0.5 GiB" in text
    assert "CUDA 13.0 (needed: 12.0)" in text
    assert "numba-cuda" in text
    assert "cubins" in text


def test_doctor_without_a_driver(no_driver, capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cli.main(["doctor"]) == 0
    assert "Found no NVIDIA driver" in capsys.readouterr().out


# --- random numbers --------------------------------------------------------------------------------------------


def test_each_gpu_has_a_generator(driver):
    fg.manual_seed(5)
    a = fg.rand(4, device="cuda")
    b = fg.rand(4, device="cuda:1")
    assert a.tolist() == b.tolist() == fg.rand(4).tolist()
    fg.cuda.manual_seed(7)
    assert fg.cuda.initial_seed() == 7
    with fg.cuda.device(1):
        assert fg.cuda.initial_seed() == 5
    state = fg.cuda.get_rng_state()
    assert state.is_cpu
    first = fg.rand(4, device="cuda").tolist()
    fg.cuda.set_rng_state(state)
    assert fg.rand(4, device="cuda").tolist() == first
    states = fg.cuda.get_rng_state_all()
    fg.cuda.manual_seed_all(9)
    again = fg.rand(4, device="cuda").tolist()
    assert again == fg.rand(4, device="cuda:1").tolist()
    assert again == fg.rand(4, generator=fg.Generator().manual_seed(9)).tolist()
    fg.cuda.set_rng_state_all(states)
    fg.cuda.seed()
    fg.cuda.seed_all()
    assert [g.device for g in fg.cuda.default_generators] == [fg.device("cuda:0"), fg.device("cuda:1")]


def test_generators_have_a_device(driver):
    g = fg.Generator("cuda")
    assert g.device == fg.device("cuda:0")
    with fg.cuda.device(1):
        assert fg.Generator("cuda").device == fg.Generator(device=1).device == fg.device("cuda:1")
    assert fg.rand(3, generator=g, device="cuda").is_cuda
    with pytest.raises(RuntimeError, match="Expected a 'cpu' device type for generator but found 'cuda'"):
        fg.rand(3, generator=g)
    with pytest.raises(RuntimeError, match="Expected a 'cuda' device type for generator but found 'cpu'"):
        fg.rand(3, generator=fg.Generator(), device="cuda")
    with pytest.raises(RuntimeError, match="'cuda:1' but found one of 'cuda:0'"):
        fg.rand(3, generator=g, device="cuda:1")
    layer = fg.nn.Dropout(0.5)
    fg.cuda.manual_seed(1)
    x = fg.ones(100, device="cuda")
    a = layer(x).tolist()
    fg.cuda.manual_seed(1)
    fg.rand(5)
    assert layer(x).tolist() == a
    g.set_state(fg.Generator("cuda:1").manual_seed(3).get_state())
    assert g.initial_seed() == 3


# --- files -----------------------------------------------------------------------------------------------------


def test_files_and_devices(driver, tmp_path):
    x = fg.arange(3.0, device="cuda:1")
    path = tmp_path / "x.pt"
    fg.save({"x": x, "also": x[1:], "device": x.device}, path)
    for where, index in (
        (None, 1),
        ("cuda", 0),
        ("cuda:0", 0),
        (fg.device("cuda", 1), 1),
        ({"cuda:1": "cuda:0"}, 0),
    ):
        found = fg.load(path, map_location=where)
        assert found["x"].device == fg.device("cuda", index)
        found["also"][0] = 9
        assert found["x"].tolist() == [0, 9, 2]
        assert found["device"] == fg.device("cuda:1")
    assert fg.load(path, map_location="cpu")["x"].is_cpu
    assert fg.load(path, map_location={"cuda:1": "cpu"})["x"].is_cpu
    assert fg.load(path, map_location=lambda storage, location: storage)["x"].is_cpu
    assert fg.load(path, map_location=lambda storage, location: storage.cuda(0))["x"].device == fg.device(
        "cuda:0"
    )
    seen = []
    fg.load(path, map_location=lambda storage, location: seen.append(location))
    assert seen == ["cuda:1"]
    with fg.cuda.device(1):
        assert fg.load(path, map_location="cuda")["x"].device == fg.device("cuda:1")


def test_files_without_a_gpu(driver, tmp_path, monkeypatch):
    from fastgrad.native.host import devices

    path = tmp_path / "x.pt"
    fg.save(fg.ones(2, device="cuda"), path)
    monkeypatch.setattr(devices, "NAMES", {"cpu": 0})
    monkeypatch.setattr("fastgrad.cuda.gpus._gpus", None)
    monkeypatch.setattr("fastgrad.cuda.driver.LIBRARY", "libcuda-of-nobody.so")
    with pytest.raises(RuntimeError, match="map_location='cpu' loads it to the CPU"):
        fg.load(path)
    assert fg.load(path, map_location="cpu").tolist() == [1, 1]
