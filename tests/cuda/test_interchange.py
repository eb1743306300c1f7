"""Memory that is shared, over GPUs that are none: by DLPack, by the CUDA array interface, locked for copies."""

from __future__ import annotations

import ctypes
import gc

import numpy as np
import pytest

import fastgrad as fg
from fastgrad import capsules, dtypes
from fastgrad.cuda import later, pinned
from fastgrad.native.contracts.element_types import COMPLEX, SELDOM
from fastgrad.utils.data import channel
from tests.cuda.apart import STREAMS, ends

pytestmark = pytest.mark.usefixtures("all_is_done")


class Producer:
    """An array of another library's on a GPU, whose memory is that of a tensor."""

    def __init__(self, x, **said):
        self.x, self.asked, self.said = x, [], said

    def __dlpack_device__(self):
        return self.x.__dlpack_device__()

    def __dlpack__(self, *, stream=None):
        self.asked.append(stream)
        return self.x.__dlpack__(stream=stream)


class Array:
    """The same by the CUDA array interface."""

    def __init__(self, x, **said):
        self.x = x
        self.__cuda_array_interface__ = {**x.__cuda_array_interface__, **said}


# --- DLPack ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [fg.float32, fg.float64, fg.int64, fg.int32, fg.uint8, fg.bool])
def test_memory_is_shared(driver, dtype):
    x = fg.tensor([[0, 1, 2], [3, 4, 5]], device="cuda").to(dtype).t()
    y = fg.from_dlpack(x.__dlpack__())
    assert y.data_ptr() == x.data_ptr()
    assert (y.dtype, y.device, y.shape, y.stride()) == (x.dtype, x.device, x.shape, x.stride())
    assert y.tolist() == x.tolist()
    assert x.__dlpack_device__() == (2, 0)
    assert fg.ones(2, device="cuda:1").__dlpack_device__() == (2, 1)
    assert fg.ones(2).__dlpack_device__() == (1, 0)


def test_views_scalars_and_nothing(driver):
    for x in (
        fg.tensor(3.0),
        fg.empty(0),
        fg.empty(0, 3),
        fg.arange(10.0)[3:8:2],
        fg.ones(2, 1).expand(2, 3),
    ):
        y = fg.from_dlpack(Producer(x.cuda()))
        assert y.shape == x.shape
        assert y.tolist() == x.tolist()


def test_a_tensor_lives_as_long_as_somebody_holds_it(driver):
    before = fg.cuda.memory_allocated()
    capsule = fg.ones(1000, device="cuda").__dlpack__()
    gc.collect()
    assert fg.cuda.memory_allocated() > before
    y = fg.from_dlpack(capsule)
    del capsule
    assert y.sum().item() == 1000
    z = y[5:]
    del y
    assert z.sum().item() == 995
    del z
    fg.cuda.synchronize()
    assert fg.cuda.memory_allocated() == before


def test_a_capsule_that_nobody_wants(driver):
    before = fg.cuda.memory_allocated()
    capsule = fg.ones(1000, device="cuda").__dlpack__()
    assert fg.cuda.memory_allocated() > before
    del capsule
    gc.collect()
    assert fg.cuda.memory_allocated() == before


@pytest.mark.parametrize("shape", [(), (3,), (0,), (2, 0, 3), (1, 4)])
@pytest.mark.parametrize("dtype", [d for d in dtypes.SUPPORTED if d.code not in (*COMPLEX, *SELDOM)], ids=str)
def test_a_capsule_that_goes_while_an_exception_is_on_its_way(driver, dtype, shape):
    before = fg.cuda.memory_allocated()
    x = fg.zeros(shape, dtype=dtype, device="cuda")
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            _ = [x.__dlpack__(), 1 / 0]
    y = fg.from_dlpack(x.__dlpack__())
    assert (y.dtype, y.shape, y.stride(), y.device) == (x.dtype, x.shape, x.stride(), x.device)
    del x, y
    fg.cuda.synchronize()
    assert fg.cuda.memory_allocated() == before


def test_a_capsule_is_used_once(driver):
    capsule = fg.ones(3, device="cuda").__dlpack__()
    y = fg.from_dlpack(capsule)
    with pytest.raises(TypeError, match="expected an object with __dlpack__"):
        fg.from_dlpack(capsule)
    assert y.tolist() == [1] * 3


def test_the_consumers_stream_waits(driver):
    x = fg.ones(3, device="cuda")
    here = fg.cuda.current_stream().cuda_stream
    waited = driver.calls["cuStreamWaitEvent"]
    for stream in (-1, here):
        x.__dlpack__(stream=stream)
    assert driver.calls["cuStreamWaitEvent"] == waited
    for stream, handle in ((None, 1), (1, 1), (2, 2), (9876, 9876)):
        count = driver.waiting(handle)
        x.__dlpack__(stream=stream)
        assert driver.waiting(handle) == count + 1
    assert driver.waiting(here) > 0
    driver.work(9876)  # what the consumer does comes after what the tensor waits for
    assert x.tolist() == [1] * 3


@pytest.mark.parametrize(
    ("stream", "error"),
    [
        (0, ValueError),
        (-2, ValueError),
        (2**64, ValueError),
        (1.5, TypeError),
        ("1", TypeError),
        (True, TypeError),
    ],
)
def test_what_is_no_stream(driver, stream, error):
    with pytest.raises(error, match="stream"):
        fg.ones(3, device="cuda").__dlpack__(stream=stream)


def test_the_producer_is_asked_for_the_current_stream(driver):
    p, s = Producer(fg.ones(3, device="cuda")), fg.cuda.Stream()
    fg.from_dlpack(p)
    s.wait_stream(fg.cuda.current_stream())  # where the ones are made
    with fg.cuda.stream(s):
        y = fg.from_dlpack(p) + 1
        assert y.tolist() == [2] * 3
    assert p.asked == [fg.cuda.default_stream().cuda_stream, s.cuda_stream]
    del y


def test_memory_goes_back_when_it_is_no_longer_used(driver):
    returned = []
    x = fg.ones(1000, device="cuda")
    fg.cuda.synchronize()
    s = fg.cuda.Stream()
    with fg.cuda.stream(s):
        y = fg.from_dlpack(x.__dlpack__(stream=-1))
        z = y + 1
        del y
        returned.append(len(later._waiting))  # the sum may still read it
        s.synchronize()
        later.settle()
    assert returned == [1]
    assert z.tolist() == [2] * 1000
    del z


def test_where_the_tensor_shall_be(driver):
    x = fg.ones(3, device="cuda")
    assert fg.from_dlpack(x, copy=True).data_ptr() != x.data_ptr()
    assert fg.from_dlpack(x, device="cpu").is_cpu
    assert fg.from_dlpack(x, device="cuda", copy=False).data_ptr() == x.data_ptr()
    with pytest.raises(BufferError, match="a copy is needed"):
        fg.from_dlpack(x, device="cuda:1", copy=False)
    assert np.from_dlpack(fg.ones(3)).tolist() == [1] * 3
    assert fg.from_dlpack(x.__dlpack__(dl_device=(1, 0))).tolist() == [1] * 3
    with pytest.raises(BufferError, match="cannot give memory"):
        x.__dlpack__(dl_device=(1, 0), copy=False)
    with pytest.raises(BufferError, match="require gradient"):
        x.clone().requires_grad_().__dlpack__()


def test_capsules_that_are_wrong(driver):
    """The memory stays with the capsule, which gives it back."""
    wrong = {
        "code": (9, TypeError), "lanes": (2, TypeError), "bits": (24, TypeError), "device_id": (7, RuntimeError),
        "ndim": (17, BufferError), "device_type": (4, (BufferError, RuntimeError)),
    }  # fmt: skip
    for name, (value, error) in wrong.items():
        x = fg.ones(3, 1, 1, 1, 1, 1, 1, 1, device="cuda")
        capsule = x.__dlpack__()
        found = capsules.inside(capsule).tensor
        setattr(found, name, value)
        with pytest.raises(error):
            fg.from_dlpack(capsule)
        del capsule
        gc.collect()
    capsule = fg.ones(3, 2, device="cuda").__dlpack__()
    found = capsules.inside(capsule).tensor
    found.strides[0] = -2
    with pytest.raises(BufferError, match="must not be negative"):
        fg.from_dlpack(capsule)
    found.strides = ctypes.POINTER(ctypes.c_int64)()
    assert fg.from_dlpack(capsule).stride() == (2, 1)
    for nothing in (None, 3, "x", object()):
        with pytest.raises(TypeError):
            fg.from_dlpack(nothing)


def test_gradients_go_through(driver):
    x = fg.from_dlpack(Producer(fg.ones(3, device="cuda"))).requires_grad_()
    (x * x).sum().backward()
    assert x.grad.tolist() == [2] * 3


def test_a_library_that_outlives_python():
    more = "import ctypes\ncapsule = x.__dlpack__()\nheld = x.__dlpack__()\nfg.kept = fg.from_dlpack(held)"
    assert ends(STREAMS + more) == (0, "", "")


# --- the CUDA array interface ----------------------------------------------------------------------------------


def test_what_a_tensor_says(driver):
    x = fg.arange(6.0, device="cuda").view(2, 3)
    said = x.__cuda_array_interface__
    assert said == {
        "typestr": "<f4", "shape": (2, 3), "strides": None, "data": (x.data_ptr(), False), "version": 3,
        "stream": fg.cuda.current_stream().cuda_stream,
    }  # fmt: skip
    assert x.t().__cuda_array_interface__["strides"] == (4, 12)
    assert fg.empty(0, device="cuda").__cuda_array_interface__["data"] == (0, False)
    with fg.cuda.stream(fg.cuda.Stream()):
        assert x.__cuda_array_interface__["stream"] == fg.cuda.current_stream().cuda_stream
    assert not hasattr(fg.ones(2), "__cuda_array_interface__")
    with pytest.raises(RuntimeError, match="requires grad"):
        x.clone().requires_grad_().__cuda_array_interface__


@pytest.mark.parametrize("dtype", [fg.float32, fg.float64, fg.int64, fg.int32, fg.uint8, fg.bool])
def test_arrays_become_tensors(driver, dtype):
    x = fg.tensor([[0, 1], [2, 3]], device="cuda").to(dtype).t()
    y = fg.as_tensor(Array(x))
    assert (y.data_ptr(), y.dtype, y.device, y.stride()) == (x.data_ptr(), dtype, x.device, x.stride())
    z = fg.tensor(Array(x))
    assert z.data_ptr() != x.data_ptr()
    assert z.tolist() == y.tolist() == x.tolist()
    assert fg.as_tensor(Array(x), device="cpu").is_cpu


def test_who_takes_an_array_waits_for_its_stream(driver):
    other = fg.cuda.Stream()
    with fg.cuda.stream(other):
        x = fg.full((3,), 5.0, device="cuda")
        array = Array(x)
    y = fg.as_tensor(array)
    z = y + 1
    fg.cuda.current_stream().synchronize()
    assert driver.waiting(other.cuda_stream) == 0
    assert z.tolist() == [6] * 3
    waited = driver.calls["cuStreamWaitEvent"]
    fg.as_tensor(Array(x, stream=None))
    assert driver.calls["cuStreamWaitEvent"] == waited
    array = Array(x, version=2)
    del array.__cuda_array_interface__["stream"]
    fg.as_tensor(array)
    assert driver.calls["cuStreamWaitEvent"] == waited + 1


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ({"typestr": "<f3"}, TypeError), ({"typestr": ">f4"}, TypeError),
        ({"typestr": 3}, TypeError), ({"shape": 3}, TypeError), ({"shape": (1.5,)}, TypeError),
        ({"shape": (-1,)}, BufferError), ({"shape": (1,) * 17}, BufferError), ({"data": None}, TypeError),
        ({"data": ("x", False)}, TypeError), ({"strides": (2,)}, ValueError), ({"strides": (-4,)}, BufferError),
        ({"strides": (4, 4)}, ValueError), ({"stream": 0}, ValueError), ({"stream": "x"}, ValueError),
        ({"mask": 1}, BufferError),
    ],
)  # fmt: skip
def test_arrays_that_are_wrong(driver, said, error):
    x = fg.ones(3, device="cuda")
    with pytest.raises(error):
        fg.as_tensor(Array(x, **said))


# --- locked memory ---------------------------------------------------------------------------------------------


def test_pinned_copies(driver):
    rows = fg.arange(6).view(2, 3)
    for x in (rows.float(), rows.t(), fg.tensor(1.5), fg.empty(0), fg.ones(3, 4)[:, ::2]):
        p = x.pin_memory()
        assert p.is_pinned()
        assert not x.is_pinned()
        assert p.pin_memory() is p
        assert p.tolist() == x.tolist()
        assert (p.dtype, p.device) == (x.dtype, x.device)
        assert p.view(-1).is_pinned() if p.is_contiguous() and p.numel() else True
        assert p.to("cuda", non_blocking=True).tolist() == x.tolist()
    assert fg.ones(2).t().pin_memory().numpy().tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        fg.ones(2, device="cuda").pin_memory()
    assert fg.ones(2, device="cuda").is_pinned() is False
    for wrong in ("cpu", 1.5):
        with pytest.raises(ValueError, match="Expected a"):
            fg.ones(2).pin_memory(wrong)


def test_a_copy_that_nobody_waits_for_reads_what_was_there(driver):
    p = fg.full((100,), 3.0).pin_memory()
    address = p.data_ptr()
    y = p.to("cuda", non_blocking=True)
    assert driver.waiting(fg.cuda.current_stream().cuda_stream) >= 1
    del p
    q = fg.full((100,), 9.0).pin_memory()  # may not get that memory yet
    assert q.data_ptr() != address
    assert y.tolist() == [3] * 100
    later.settle()
    assert address in pinned._free[driver, 512]


def test_a_copy_that_waits(driver):
    p = fg.full((100,), 3.0).pin_memory()
    for y in (p.to("cuda"), p.cuda(), fg.empty(100, device="cuda").copy_(p), fg.tensor(p, device="cuda")):
        p.fill_(4.0)
        assert y.tolist() == [3] * 100
        p.fill_(3.0)


def test_batches_are_pinned(driver):
    data = [(fg.ones(2) * k, {"label": k}) for k in range(4)]
    loader = fg.utils.data.DataLoader(data, batch_size=2, pin_memory=True)
    for x, labels in loader:
        assert x.is_pinned()
        assert labels["label"].is_pinned()
        assert x.cuda(non_blocking=True).tolist() == x.tolist()

    class Own:
        def pin_memory(self):
            return "pinned"

    batch = [Own(), "text", (Own(), 3)]
    loader = fg.utils.data.DataLoader([1], batch_size=1, pin_memory=True, collate_fn=lambda _: batch)
    assert list(loader) == [["pinned", "text", ("pinned", 3)]]


def test_batches_of_workers_are_pinned(driver):
    data = [(fg.ones(2) * k, k) for k in range(4)]
    for x, numbers in fg.utils.data.DataLoader(data, batch_size=2, num_workers=1, pin_memory=True):
        assert x.is_pinned()
        assert x[:, 0].tolist() == numbers.tolist()


def test_memory_of_a_gpu_stays_in_its_process(driver):
    x = fg.ones(2, device="cuda")
    with pytest.raises(NotImplementedError, match=r"share_memory_\(\): only memory of the CPU can be shared"):
        x.share_memory_()
    assert not x.is_shared()
    here, there = fg.multiprocessing.Pipe()
    with (
        here,
        there,
        pytest.raises(NotImplementedError, match=r"a tensor on cuda:0 cannot be sent .* t\.cpu\(\)"),
    ):
        here.send(x)
    for value in (x, [x[:1]]):
        with pytest.raises(NotImplementedError, match="a tensor on cuda:0 cannot be sent"):
            channel.packed(value)


def test_batches_without_a_gpu(no_driver):
    loader = fg.utils.data.DataLoader(range(4), batch_size=2, pin_memory=True)
    with pytest.warns(UserWarning, match="no accelerator is found"):
        batches = list(loader)
    assert [b.tolist() for b in batches] == [[0, 1], [2, 3]]


def test_saved_tensors_wait_in_locked_memory(driver):
    x = fg.ones(3, device="cuda", requires_grad=True)
    with fg.autograd.graph.save_on_cpu(pin_memory=True):
        y = (x * x).exp()
    y.sum().backward()
    assert x.grad.tolist() == pytest.approx([2 * np.e] * 3)
