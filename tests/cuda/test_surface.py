"""`fastgrad.cuda` and devices as programs use them: with two GPUs that are none, and without a driver."""

from __future__ import annotations

import copy
import gc
import pickle
import threading

import pytest

import fastgrad as fg
from fastgrad import places
from tests.threads import in_threads, switching

MISSING = "Found no NVIDIA driver on your system"


# --- without a driver ------------------------------------------------------------------------------------------


def test_nobody_has_to_ask_first(no_driver):
    assert fg.cuda.is_available() is False
    assert fg.cuda.device_count() == 0
    assert fg.cuda.is_initialized() is False
    assert fg.cuda.is_bf16_supported() is False
    assert fg.cuda.is_tf32_supported() is False
    assert fg.cuda.memory_allocated() == fg.cuda.max_memory_allocated() == fg.cuda.memory_reserved() == 0
    assert fg.cuda.memory_stats() == {}
    assert fg.cuda.get_arch_list() == fg.cuda.get_rng_state_all() == []
    assert fg.cuda.default_generators == ()
    for call in (fg.cuda.empty_cache, fg.cuda.seed, fg.cuda.seed_all):
        assert call() is None
    assert fg.cuda.manual_seed(0) is None
    assert fg.cuda.manual_seed_all(0) is None
    assert fg.cuda.set_device(-1) is None
    with fg.cuda.device(-1), fg.cuda.device(None), fg.cuda.stream(None), fg.cuda.device_of(fg.ones(1)):
        assert fg.ones(2).device.type == "cpu"


@pytest.mark.parametrize(
    "call",
    [
        fg.cuda.init, fg.cuda.current_device, lambda: fg.cuda.set_device(0), fg.cuda.synchronize,
        fg.cuda.current_stream, fg.cuda.default_stream, fg.cuda.Stream, fg.cuda.Event,
        lambda: fg.cuda.ExternalStream(5), fg.cuda.get_device_name, fg.cuda.get_device_properties,
        fg.cuda.get_device_capability, fg.cuda.mem_get_info, fg.cuda.memory_summary,
        fg.cuda.reset_peak_memory_stats, fg.cuda.get_rng_state, fg.cuda.initial_seed, fg.cuda.ipc_collect,
        lambda: fg.cuda.set_rng_state(fg.get_rng_state()), lambda: fg.cuda.device(0).__enter__(),
        lambda: fg.ones(2, device="cuda"), lambda: fg.ones(2).cuda(), lambda: fg.ones(2).to("cuda:1"),
        lambda: fg.ones(2).pin_memory(), lambda: fg.nn.Linear(2, 2).cuda(), lambda: fg.Generator("cuda"),
        lambda: fg.nn.Linear(2, 2, device="cuda"), lambda: fg.cuda.set_per_process_memory_fraction(0.5),
    ],
)  # fmt: skip
def test_what_needs_a_gpu_says_what_is_missing(no_driver, call):
    with pytest.raises(RuntimeError, match=MISSING):
        call()


def test_a_failed_move_leaves_a_module_as_it_was(no_driver):
    module = fg.nn.Linear(2, 2)
    before = module.weight
    with pytest.raises(RuntimeError, match=MISSING):
        module.to("cuda")
    assert module.weight is before
    assert module(fg.ones(1, 2)).shape == (1, 2)


def test_a_number_alone_is_that_of_a_gpu(no_driver):
    for call in (
        lambda: fg.device(0),
        lambda: fg.ones(2, device=1),
        lambda: fg.ones(2).to(0),
        lambda: fg.ones(1).cuda(0),
    ):
        with pytest.raises(RuntimeError, match="Cannot access accelerator device when none is available"):
            call()
    with pytest.raises(RuntimeError, match="must not be negative"):
        fg.device(-1)


# --- names of devices ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["cuda", "cuda:3", "cpu:0", "meta", "mps", "xpu:1", "privateuseone", "cuda:127"]
)
def test_names_stand_for_themselves(lib, text):
    d = lib.device(text)
    kind, _, index = text.partition(":")
    assert (str(d), d.type, d.index) == (text, kind, int(index) if index else None)
    assert d == lib.device(text) == pickle.loads(pickle.dumps(d)) == copy.deepcopy(d)
    assert hash(d) == hash(lib.device(text))
    assert d != lib.device("cuda:4")
    assert d != text
    assert {d: 1}[lib.device(d)] == 1
    assert lib.device(kind, d.index) == lib.device(type=kind, index=d.index) == lib.device(device=d) == d


WRONG_NAMES = {
    "": RuntimeError, "foo": RuntimeError, "cuda:": RuntimeError, "cuda:-1": RuntimeError, "cuda:01": RuntimeError,
    "cuda:x": RuntimeError, "cuda:1:2": RuntimeError, "CUDA": RuntimeError, " cuda": RuntimeError,
    "cuda:" + "9" * 5000: RuntimeError, True: TypeError, None: TypeError, 3.0: TypeError, -1: RuntimeError,
    2**70: ValueError,
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG_NAMES, ids=lambda n: str(n)[:12])
def test_what_is_no_device(lib, name):
    with pytest.raises(WRONG_NAMES[name]):
        lib.device(name)


@pytest.mark.parametrize(
    ("args", "named", "error"),
    [
        ((), {}, TypeError), ((1, 2), {}, TypeError), (("cuda", True), {}, TypeError), (("cuda", 1.0), {}, TypeError),
        (("cuda", -1), {}, RuntimeError), (("cuda:1", 1), {}, RuntimeError), ((), {"index": 3}, TypeError),
        ((), {"other": "cuda"}, TypeError), (("cuda",), {"device": "cuda"}, TypeError),
        (("cuda", 2**70), {}, ValueError),
    ],
)  # fmt: skip
def test_arguments_that_are_none(lib, args, named, error):
    with pytest.raises(error):
        lib.device(*args, **named)


def test_a_device_that_nobody_has():
    for name in ("xla", "mps", "xpu:1"):
        with pytest.raises(NotImplementedError, match="fastgrad has no device"):
            fg.ones(2, device=name)
    with pytest.raises(TypeError, match="argument 'device'"):
        fg.ones(2, device=1.5)
    with pytest.raises(TypeError):
        fg.ones(2).to(True)


# --- where tensors are made ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda: fg.zeros(2), lambda: fg.ones(2), lambda: fg.empty(2), lambda: fg.full((2,), 1.0), lambda: fg.eye(2),
        lambda: fg.arange(3), lambda: fg.linspace(0, 1, 3), lambda: fg.rand(2), lambda: fg.randn(2),
        lambda: fg.randint(3, (2,)), lambda: fg.randperm(3), lambda: fg.tensor([1.0, 2.0]), lambda: fg.tensor(1.0),
        lambda: fg.tensor([[1], [2]]), lambda: fg.as_tensor([1.0]), lambda: fg.normal(0.0, 1.0, (2,)),
        lambda: fg.nn.Linear(2, 2).weight, lambda: fg.nn.LSTM(2, 2).weight_ih_l0,
        lambda: fg.nn.BatchNorm1d(2).running_mean,
    ],
)  # fmt: skip
def test_factories_obey(driver, make):
    with fg.device("cuda:1"):
        with fg.device("cpu"):
            assert make().device == fg.device("cpu")
        assert make().device == fg.device("cuda:1")
    assert make().device == fg.device("cpu")
    fg.set_default_device("cuda")
    try:
        assert make().device == fg.device("cuda:0")
        with fg.cuda.device(1):
            assert make().device == fg.get_default_device() == fg.device("cuda:1")
    finally:
        fg.set_default_device(None)
    assert make().device == fg.device("cpu")


def test_what_belongs_to_a_tensor_stays_with_it(driver):
    here, there = fg.ones(2), fg.ones(2, device="cuda:1")
    with fg.device("cuda"):
        for x in (here, there):
            for y in (
                fg.zeros_like(x),
                x.new_zeros(2),
                x.new_tensor([1.0]),
                x + 1,
                x.clone(),
                fg.rand_like(x),
            ):
                assert y.device == x.device
        assert fg.from_numpy(here.numpy()).device == fg.device("cpu")
    assert here.new_ones(2, device="cuda:1").device == there.device


def test_the_host_keeps_what_is_its(driver, tmp_path):
    fg.save({"w": fg.ones(2)}, tmp_path / "w.pt")
    with fg.device("cuda"):
        assert fg.load(tmp_path / "w.pt")["w"].device == fg.device("cpu")
        assert fg.get_rng_state().device == fg.device("cpu")
        assert sorted(fg.utils.data.RandomSampler(range(4))) == [0, 1, 2, 3]
        assert len(fg.utils.data.DataLoader(range(4), shuffle=True)) == 4
        assert fg.nn.init.trunc_normal_(fg.empty(3)).device == fg.device("cuda:0")


def test_defaults_are_a_threads_own(driver):
    seen = []
    with fg.device("cuda"), fg.cuda.device(1):
        thread = threading.Thread(target=lambda: seen.extend((fg.ones(1).device, fg.cuda.current_device())))
        thread.start()
        thread.join()
    assert seen == [fg.device("cpu"), 0]


def test_what_a_thread_has_chosen_ends_with_it():
    def choose():
        fg.set_default_device("cpu")
        fg.device("cpu").__enter__()
        seen.append(places.any_chosen())

    before, seen = places.any_chosen(), []
    for _ in range(3):
        thread = threading.Thread(target=choose)
        thread.start()
        thread.join()
        gc.collect()
        assert places.any_chosen() == before
    assert seen == [before + 2] * 3


def test_threads_that_choose_at_once_are_all_counted():
    before = places.any_chosen()

    def choose(_: int) -> None:
        for _ in range(300):
            with fg.device("cpu"):
                assert places.any_chosen() > before

    with switching():
        in_threads(6, choose)
    assert places.any_chosen() == before


# --- selection -------------------------------------------------------------------------------------------------


def test_the_current_gpu(driver):
    assert fg.cuda.is_available()
    assert fg.cuda.is_initialized()
    assert (fg.cuda.device_count(), fg.cuda.current_device()) == (2, 0)
    with fg.cuda.device("cuda:1"):
        assert fg.cuda.current_device() == 1
        assert fg.ones(2, device="cuda").device.index == 1
        assert fg.ones(2).cuda().get_device() == 1
        with fg.cuda.device_of(fg.ones(1, device="cuda:0")):
            assert fg.cuda.current_device() == 0
    fg.cuda.set_device(1)
    fg.cuda.set_device(-1)
    assert fg.cuda.current_device() == 1
    fg.cuda.set_device(fg.device("cuda", 0))
    assert fg.cuda.current_device() == 0
    assert fg.device(1) == fg.device("cuda:1")


@pytest.mark.parametrize("wrong", [None, "cpu", "cuda", "meta", 1.5, True, [0]])
def test_what_cannot_be_selected(driver, wrong):
    with pytest.raises(ValueError, match="Expected a"):
        fg.cuda.set_device(wrong)
    assert fg.cuda.current_device() == 0


@pytest.mark.parametrize("index", [2, 127, 2**62, 2**100])
def test_gpus_that_are_not_there(driver, index):
    for call in (
        fg.cuda.set_device,
        fg.cuda.synchronize,
        fg.cuda.current_stream,
        fg.cuda.Stream,
        fg.cuda.mem_get_info,
    ):
        with pytest.raises(RuntimeError, match="invalid device ordinal"):
            call(index)
    with pytest.raises(AssertionError, match="Invalid device id"):
        fg.cuda.get_device_name(index)
    if index < 2**62:
        with pytest.raises(RuntimeError, match="invalid device ordinal"):
            fg.ones(2).cuda(index)
        with pytest.raises(RuntimeError, match="invalid device ordinal"), fg.device("cuda", index):
            fg.ones(2)


def test_an_exception_ends_a_selection(driver):
    with pytest.raises(KeyError), fg.cuda.device(1), fg.device("cuda"):
        raise KeyError
    assert fg.cuda.current_device() == 0
    assert fg.ones(1).is_cpu


# --- properties ------------------------------------------------------------------------------------------------


def test_what_a_gpu_is(driver):
    found = fg.cuda.get_device_properties("cuda:1")
    assert found.name == fg.cuda.get_device_name(1) == "Stand-in 1"
    assert (found.major, found.minor) == fg.cuda.get_device_capability() == (9, 0)
    assert found.total_memory == fg.cuda.mem_get_info()[1] == driver.size
    assert (found.multi_processor_count, found.warp_size) == (132, 32)
    assert fg.cuda.get_arch_list() == ["sm_90"]
    assert fg.cuda.is_tf32_supported()


# --- tensors ---------------------------------------------------------------------------------------------------


def test_moving(driver):
    x = fg.arange(6.0).view(2, 3).t()
    for y in (
        x.cuda(),
        x.cuda(0),
        x.cuda("cuda:0"),
        x.to("cuda"),
        x.to(0),
        x.to(device="cuda", non_blocking=True),
        x.cuda(fg.device("cuda"), True),
    ):
        assert y.device == fg.device("cuda:0")
        assert (y.is_cuda, y.is_cpu, y.is_meta, y.get_device()) == (True, False, False, 0)
        assert y.stride() == x.stride()
        assert y.tolist() == x.tolist()
        assert y.to("cuda") is y is y.cuda() is y.to("cuda:0")
        assert y.cpu().tolist() == x.tolist()
    assert (x.is_cuda, x.is_cpu, x.get_device()) == (False, True, -1)
    assert x.cuda(1).to(x.cuda(0)).get_device() == 0
    assert x.to("cuda", fg.float64).dtype == fg.float64
    with pytest.raises(RuntimeError, match="Invalid device, must be cuda device"):
        x.cuda("cpu")
    for wrong in (1.5, True, [0]):
        with pytest.raises(TypeError, match="device"):
            x.cuda(wrong)
    with pytest.raises(TypeError):
        x.cuda(non_blocking="yes")


def test_gradients_come_back(driver):
    x = fg.tensor([1.0, 2.0], requires_grad=True)
    y = x.cuda()
    assert y.requires_grad
    assert not y.is_leaf
    (y * y).sum().backward()
    assert x.grad.device == fg.device("cpu")
    assert x.grad.tolist() == [2, 4]
    (grad,) = fg.autograd.grad((x.to("cuda:1") ** 3).sum().cpu(), x, create_graph=True)
    (second,) = fg.autograd.grad(grad.sum(), x)
    assert second.tolist() == [6, 12]
    with fg.no_grad():
        assert not x.cuda().requires_grad


def test_modules_keep_their_parameters(driver):
    module = fg.nn.Sequential(fg.nn.Linear(2, 3), fg.nn.BatchNorm1d(3), fg.nn.Linear(3, 1))
    before = list(module.parameters())
    seen = []
    before[0].register_hook(lambda g: seen.append(str(g.device)))
    module.register_forward_hook(lambda m, args, out: seen.append(str(out.device)))
    module(fg.ones(2, 2)).sum().backward()
    optimizer = fg.optim.Adam(module.parameters(), lr=0.1)
    optimizer.step()
    assert module.cuda() is module
    assert all(a is b for a, b in zip(before, module.parameters(), strict=True))
    assert all(p.is_cuda and p.grad.is_cuda and p.requires_grad and p.is_leaf for p in before)
    assert all(b.is_cuda for b in module.buffers())
    seen.clear()
    module.zero_grad()
    module(fg.ones(2, 2, device="cuda")).sum().backward()
    assert seen == ["cuda:0", "cuda:0"]
    fresh = fg.optim.Adam(module.parameters(), lr=0.1)
    fresh.step()
    old = before[0].detach().cpu()
    assert module.to("cuda:1", fg.float64).cpu() is module
    assert before[0].dtype == fg.float64
    assert before[0].flatten().tolist() == pytest.approx(old.flatten().tolist())
    assert module.cuda(1)[0].weight.get_device() == 1
    assert module.to(fg.ones(1)).get_submodule("0").weight.is_cpu


def test_operands_of_two_devices(driver):
    a, b = fg.ones(3, device="cuda"), fg.ones(3)
    launched = len(driver.launched)
    for call in (
        lambda: a + b,
        lambda: b * a,
        lambda: a.add_(b),
        lambda: fg.where(a > 0, a, b),
        lambda: a @ b,
    ):
        with pytest.raises(
            RuntimeError, match="Expected all tensors to be on the same device, but found at least two"
        ):
            call()
    assert set(driver.launched[launched:]) <= {"constant", "gt"}
    with pytest.raises(RuntimeError, match=r"two devices, cuda:0 and cpu!"):
        a + b
    with pytest.raises(RuntimeError, match=r"two devices, cuda:0 and cuda:1!"):
        a + b.cuda(1)


def test_numbers_of_the_host_mix(driver):
    a, two = fg.ones(3, device="cuda"), fg.tensor(2.0)
    for y in (a + two, two + a, a * two + two, fg.where(a > 0, a, two), a.clone().add_(two)):
        assert y.device == a.device
    assert (two + fg.tensor(1.0, device="cuda")).device == a.device
    for call in (
        lambda: fg.ones(3) + two.cuda(),
        lambda: two.cuda() + fg.ones(3),
        lambda: fg.ones(3).mul_(two.cuda()),
    ):
        with pytest.raises(RuntimeError, match="same device"):
            call()
