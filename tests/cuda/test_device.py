"""The CUDA device of the runtime over a driver without a GPU: dispatch, sweep, hooks, memory, failures."""

from __future__ import annotations

import contextlib
import itertools

import numpy as np
import pytest

import fastgrad as fg
import fastgrad.nn.functional as F
from fastgrad import debug
from fastgrad.native.contracts.cuda import N_LATE
from tests.cuda.fake_driver import ILLEGAL_ADDRESS
from tests.runtime.test_tape import make_mlp, make_step


def test_training_is_the_same_on_both_devices(driver):
    cpu, x, y = make_mlp()
    cpu_step = make_step(cpu, x, y)
    gpu, x, y = make_mlp("cuda")
    gpu_step = make_step(gpu, x, y)
    for _ in range(5):
        a, b = cpu_step(), gpu_step()
        assert b.device == fg.device("cuda", 0)
        assert a.item() == pytest.approx(b.item(), rel=1e-6)
    for p, q in zip(cpu, gpu, strict=True):
        np.testing.assert_allclose(p.detach().numpy(), q.detach().cpu().numpy(), rtol=1e-5, atol=1e-6)


def test_a_step_waits_for_nothing(driver):
    params, x, y = make_mlp("cuda")
    step = make_step(params, x, y)
    step()
    driver.calls.clear()
    loss = step()
    assert not driver.calls["cuStreamSynchronize"]
    assert not driver.calls["cuMemcpyDtoHAsync"]
    assert not driver.calls["cuCtxSynchronize"]
    assert driver.calls["cuLaunchKernel"] > 10
    loss.item()
    assert driver.calls["cuStreamSynchronize"] == 1


def test_memory_is_kept_and_given_back(driver):
    gpu = driver.gpus[0]
    gpu.empty_cache()
    before = gpu.statistics()
    tensors = [fg.empty(n, device="cuda") for n in (1, 100, 1000, 100_000, 1_000_000, 3_000_000)]
    made = gpu.statistics()
    assert made["active"] - before["active"] == 6
    assert made["allocated"] - before["allocated"] >= sum(t.numel() * 4 for t in tensors)
    assert len({t.data_ptr() for t in tensors}) == 6
    assert all(t.data_ptr() % 512 == 0 for t in tensors)
    del tensors
    asked = driver.calls["cuMemAlloc"]
    again = [fg.empty(n, device="cuda") for n in (100, 1, 1000, 3_000_000, 1_000_000, 100_000)]
    assert driver.calls["cuMemAlloc"] == asked
    del again
    assert gpu.statistics()["allocated"] == before["allocated"]
    gpu.empty_cache()
    assert gpu.statistics()["reserved"] == before["reserved"]


def test_blocks_never_overlap(driver):
    """A long random history of sizes: no two tensors share memory, and what is free becomes whole again."""
    rng = np.random.default_rng(0)
    gpu, held = driver.gpus[0], {}
    gpu.empty_cache()
    before = gpu.statistics()
    for _ in range(3000):
        if held and (rng.random() < 0.5 or len(held) > 60):
            del held[rng.choice(list(held))]
        else:
            t = fg.empty(int(2 ** rng.uniform(0, 22)), device="cuda", dtype=fg.uint8)
            held[t.data_ptr()] = t
    spans = sorted((address, address + t.numel()) for address, t in held.items())
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))
    assert gpu.statistics()["active"] - before["active"] == len(held)
    held.clear()
    del t
    gpu.empty_cache()
    assert gpu.statistics()["reserved"] == before["reserved"]


def test_no_memory_left(driver):
    driver.gpus[0].empty_cache()
    held = [fg.empty(25 << 20, device="cuda") for _ in range(3)]
    with pytest.raises(fg.cuda.OutOfMemoryError, match=r"CUDA out of memory.*MiB is free"):
        fg.empty(60 << 20, device="cuda")
    assert issubclass(fg.cuda.OutOfMemoryError, RuntimeError)
    del held
    assert fg.empty(100 << 20, device="cuda").numel() == 100 << 20
    assert (fg.ones(3, device="cuda") * 2).tolist() == [2, 2, 2]


def test_the_cache_makes_room_before_memory_is_missing(driver):
    gpu = driver.gpus[0]
    gpu.empty_cache()
    big = fg.empty(100 << 20, device="cuda")
    del big
    small = [fg.empty(25 << 20, device="cuda") for _ in range(4)]
    assert len({t.data_ptr() for t in small}) == 4
    assert gpu.statistics()["retries"] >= 1


def test_what_the_driver_says_is_raised_once(driver):
    x = fg.ones(3, device="cuda")
    driver.says["cuLaunchKernel"] = [1]
    with pytest.raises(
        RuntimeError, match=r"CUDA error: what the driver says of 1 \(CUDA_ERROR_1\), in exp\(\)"
    ):
        x.exp()
    assert x.exp().tolist() == pytest.approx([np.e] * 3)


def test_a_kernel_that_the_driver_cannot_load_is_named(driver):
    x = fg.ones(3, device="cuda")
    driver.says["cuModuleLoadData"] = [209]
    with pytest.raises(RuntimeError, match=r"driver says of 209 .*of the kernel .+, compiled for sm_90"):
        F.softmax(x.double(), 0)
    assert F.softmax(x.double(), 0).tolist() == [1 / 3] * 3


def test_a_failed_step_leaves_no_gradient_and_no_leak(driver):
    x = fg.ones(3, device="cuda", requires_grad=True)
    before = debug.live()
    y = (x * x).exp().sum()
    driver.says["cuLaunchKernel"] = [0, 1]
    with pytest.raises(RuntimeError, match="CUDA error"):
        y.backward()
    driver.says.clear()
    assert x.grad is None
    del y
    assert debug.live() == before


def test_devices_by_index(driver):
    a, b = fg.ones(3, device="cuda:0"), fg.ones(3, device="cuda:1")
    assert (a.device, b.device) == (fg.device("cuda", 0), fg.device("cuda", 1))
    assert a.to("cuda:1").device.index == 1
    assert (a.to("cuda:1") + b).tolist() == [2, 2, 2]
    with pytest.raises(RuntimeError, match="same device"):
        a + b
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        fg.ones(3, device="cuda:2")


WAITING = {
    "a number": lambda x, event: x.sum().item(),
    "the host": lambda x, event: x.cpu(),
    "the device": lambda x, event: fg.cuda.synchronize(),
    "the stream": lambda x, event: fg.cuda.current_stream().synchronize(),
    "an event": lambda x, event: event.synchronize(),
}


@pytest.mark.parametrize("wait", WAITING.values(), ids=WAITING)
def test_an_index_outside_is_said_when_something_waits(driver, wait):
    weight, event = fg.ones(3, 2, device="cuda"), fg.cuda.Event()
    F.embedding(fg.tensor([3], device="cuda"), weight)
    event.record()
    with pytest.raises(IndexError, match=r"embedding.* index 3, .*FASTGRAD_CUDA_SYNC=1 finds it at once"):
        wait(weight, event)
    wait(weight, event)
    assert F.embedding(fg.tensor([2], device="cuda"), weight).tolist() == [[1, 1]]


def test_all_reports_are_said_one_after_the_other(driver):
    x = fg.ones(2, 3, device="cuda")
    x.gather(1, fg.tensor([[7], [0]], device="cuda"))
    x[:, fg.tensor([-9], device="cuda")]
    F.nll_loss(x, fg.tensor([0, 5], device="cuda"))
    fg.bernoulli(x * 2)
    for error, words in (
        (RuntimeError, "gather.*index 7 .* dimension 1 with size 3"), (IndexError, "index -9"),
        (IndexError, "nll_loss.*target 5"), (RuntimeError, "probabilities to lie"),
    ):  # fmt: skip
        with pytest.raises(error, match=words):
            fg.cuda.synchronize()
    fg.cuda.synchronize()


def test_a_report_is_said_before_its_place_is_taken_again(driver):
    table, index = fg.ones(3, 2, device="cuda"), fg.tensor([0], device="cuda")
    F.embedding(fg.tensor([4], device="cuda"), table)
    driver.work()
    with pytest.raises(IndexError, match="index 4"):
        _ = [F.embedding(index, table) for _ in range(N_LATE)]
    for _ in range(3 * N_LATE):
        F.embedding(index, table)
    fg.cuda.synchronize()


def test_an_index_outside_is_said_at_once_where_all_waits(driver):
    table = fg.ones(3, 2, device="cuda")
    gpu = driver.gpus[0]
    gpu._set("synchronous", 1)
    try:
        with pytest.raises(IndexError, match=r"embedding.*index 9"):
            F.embedding(fg.tensor([9], device="cuda"), table)
    finally:
        gpu._set("synchronous", 0)
    assert table.sum().item() == 6


def test_an_index_outside_in_a_pass_backward(driver):
    x = fg.ones(3, device="cuda", requires_grad=True)
    y = x.index_select(0, fg.tensor([0, 8], device="cuda"))
    with pytest.raises(IndexError, match="index 8"):
        y.sum().backward(), fg.cuda.synchronize()
    for _ in range(2):
        with contextlib.suppress(IndexError):  # the gradient's own reports
            fg.cuda.synchronize()
    assert (x.detach() + 1).tolist() == [2, 2, 2]


def test_a_lost_context_says_so(driver):
    x = fg.ones(3, device="cuda")
    gpu = driver.gpus[0]
    driver.says["cuStreamSynchronize"] = [ILLEGAL_ADDRESS]
    with pytest.raises(RuntimeError, match="must be started again"):
        x.tolist()
    with pytest.raises(RuntimeError, match="must be started again"):
        x * 2
    gpu._set("failed", 0)
    assert x.tolist() == [1, 1, 1]


PRODUCTS = {
    "matrices": lambda a, b: a @ b,
    "by columns": lambda a, b: a.t().contiguous().t() @ b.t().contiguous().t(),
    "transposed": lambda a, b: (b.t() @ a.t()).t(),
    "a row": lambda a, b: a[:1] @ b,
    "a column": lambda a, b: a @ b[:, :1],
    "with a vector": lambda a, b: a.mv(b[:, 0].contiguous()),
    "strided": lambda a, b: a[::2] @ b[:, 1:],
    "batch": lambda a, b: fg.stack([a, a * 2]) @ fg.stack([b, b]),
    "nothing": lambda a, b: a[:, :0] @ b[:0],
}


@pytest.mark.parametrize("dtype", [fg.float32, fg.float64], ids=str)
@pytest.mark.parametrize("product", PRODUCTS.values(), ids=PRODUCTS)
def test_products(driver, product, dtype):
    rng = np.random.default_rng(1)
    a, b = (fg.tensor(rng.integers(-3, 4, size), dtype=dtype) for size in ((4, 6), (6, 5)))
    driver.launched.clear()
    out = product(a.to("cuda"), b.to("cuda"))
    np.testing.assert_array_equal(out.cpu().numpy(), product(a, b).numpy())
    assert "product" in driver.launched or product is PRODUCTS["nothing"]


def test_what_cublas_says(driver):
    a = fg.ones(2, 2, device="cuda")
    gpu = driver.gpus[0]
    a @ a
    blas = gpu.read("blas")
    gpu._set("blas", 1)
    with pytest.raises(RuntimeError, match="CUBLAS_STATUS_INVALID_VALUE in mm"):
        a @ a
    gpu._set("blas", blas)
    assert (a @ a).tolist() == [[2, 2], [2, 2]]


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize(("device", "default"), [("cuda", "cpu"), ("cpu", "cuda"), ("cuda:1", "cuda:0")])
def test_numbers_are_written_where_the_tensor_is(driver, device, default, requires_grad):
    x = fg.ones(3, device=device, requires_grad=requires_grad)
    with fg.device(default):
        for index in ([True, False, True], [0, 2, 2]):
            y = x.clone()
            y[fg.tensor(index, device=device)] = 5
            assert (y.tolist(), y.device) == ([5.0, 1.0, 5.0], x.device)
    if requires_grad:
        y.sum().backward()
        assert x.grad.tolist() == [0.0, 1.0, 0.0]


def test_masks_and_indices_may_lie_on_the_host(driver):
    x, mask, places = fg.ones(4, device="cuda"), fg.tensor([True, False, True, False]), fg.tensor([0, 1])
    for where in (mask, mask.cuda()):
        x[where] = 5
        x[where] += 1
    assert x.tolist() == [6, 1, 6, 1]
    for where in (places, places.cuda()):
        x.index_put_((where,), fg.ones(2, device="cuda"), accumulate=True)
    assert x.tolist() == [8, 3, 6, 1]
