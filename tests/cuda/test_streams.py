"""Streams, events and the memory of each stream, over two GPUs that are none: work waits in the queue of its stream."""

from __future__ import annotations

import copy
import gc
import math
import pickle
import threading

import pytest

import fastgrad as fg
from fastgrad.cuda import gpus as gpus_
from tests.cuda.apart import STREAMS, ends
from tests.cuda.fake_driver import ILLEGAL_ADDRESS

pytestmark = pytest.mark.usefixtures("all_is_done")


def in_thread(function):
    """What a function returns on a thread of its own; it may not raise."""
    seen = []
    thread = threading.Thread(target=lambda: seen.append(function()))
    thread.start()
    thread.join()
    return seen[0]


# --- which stream ----------------------------------------------------------------------------------------------


def test_launches_go_to_the_current_stream(driver):
    gpu, s = driver.gpus[0], fg.cuda.Stream()
    x = fg.ones(4, device="cuda")
    fg.cuda.synchronize()
    assert fg.cuda.current_stream() == fg.cuda.default_stream()
    with fg.cuda.stream(s):
        assert fg.cuda.current_stream() == s
        y = x + x
        assert (driver.waiting(s.cuda_stream), driver.waiting(gpu.stream)) == (1, 0)
        assert s.query() is False
        with s, fg.cuda.stream(None):
            assert fg.cuda.current_stream() == s
    assert fg.cuda.current_stream() == fg.cuda.default_stream()
    z = x.exp()
    assert (driver.waiting(s.cuda_stream), driver.waiting(gpu.stream)) == (1, 1)
    s.synchronize()
    assert s.query() is True
    assert (driver.waiting(s.cuda_stream), driver.waiting(gpu.stream)) == (0, 1)
    assert z.tolist() == pytest.approx([math.e] * 4)
    fg.cuda.current_stream().wait_stream(s)
    assert y.tolist() == [2] * 4


def test_a_stream_of_the_other_gpu_makes_that_the_current_one(driver):
    s = fg.cuda.Stream(1)
    assert (s.device, s.device_index) == (fg.device("cuda:1"), 1)
    with fg.cuda.stream(s):
        assert fg.cuda.current_device() == 1
        assert fg.cuda.current_stream() == s
        assert fg.cuda.current_stream(0) == fg.cuda.default_stream(0)
        assert fg.ones(2, device="cuda").get_device() == 1
    assert fg.cuda.current_device() == 0
    fg.cuda.set_stream(s)
    assert fg.cuda.current_device() == 1
    fg.cuda.set_stream(fg.cuda.default_stream(1))
    fg.cuda.set_stream(None)
    fg.cuda.set_device(0)


def test_streams_are_a_threads_own(driver):
    gpu, s = driver.gpus[0], fg.cuda.Stream()
    with fg.cuda.stream(s):
        assert in_thread(fg.cuda.current_stream) == fg.cuda.default_stream()
        x = in_thread(lambda: fg.ones(2, device="cuda"))
        assert driver.waiting(s.cuda_stream) == 0
        assert driver.waiting(gpu.stream) == 1
    fg.cuda.synchronize()
    with fg.cuda.stream(s):
        x = x + 1
    s.synchronize()


def test_the_choice_of_a_thread_ends_with_it(driver):
    def choose():
        fg.cuda.set_stream(fg.cuda.Stream())
        fg.ones(2, device="cuda")
        return driver.gpus[0].read("n_choices")

    assert in_thread(choose) == 1
    gc.collect()
    assert driver.gpus[0].read("n_choices") == 0
    with fg.cuda.stream(fg.cuda.Stream()):
        assert [in_thread(choose) for _ in range(5)] == [2] * 5


def test_many_threads_at_once(driver):
    inputs = [fg.full((64,), k, device="cuda", dtype=fg.float32) for k in range(8)]
    fg.cuda.synchronize()
    failures = []

    def work(k):
        try:
            stream = fg.cuda.Stream()
            with fg.cuda.stream(stream):
                for _ in range(30):
                    y = inputs[k] * 2 + 1
                    stream.synchronize()
                    assert y.tolist() == [2 * k + 1] * 64
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_an_exception_ends_the_choice(driver):
    with pytest.raises(KeyError), fg.cuda.stream(fg.cuda.Stream()):
        raise KeyError
    assert fg.cuda.current_stream() == fg.cuda.default_stream()


def test_products_go_along(driver):
    gpu, s = driver.gpus[0], fg.cuda.Stream()
    a = fg.ones(3, 3, device="cuda")
    fg.cuda.synchronize()
    with fg.cuda.stream(s):
        b = a @ a
        assert driver.waiting(s.cuda_stream) >= 1
        assert driver.waiting(gpu.stream) == 0
        assert b.tolist() == [[3] * 3] * 3
    assert (a @ a).tolist() == [[3] * 3] * 3
    other = fg.cuda.Stream()
    with other:
        assert (a @ a).tolist() == [[3] * 3] * 3
    fg.cuda.synchronize()


def test_the_pool_gives_streams_again(driver):
    streams = [fg.cuda.Stream() for _ in range(33)]
    assert len(set(streams)) == 32
    high = [fg.cuda.Stream(priority=-1), fg.cuda.Stream(priority=-100), fg.cuda.Stream(priority=7)]
    assert [s.priority for s in high] == [-1, -5, 0]
    assert not set(high[:2]) & set(streams)
    assert fg.cuda.Stream.priority_range() == (0, -5)


def test_streams_of_other_libraries(driver):
    for s in (
        fg.cuda.ExternalStream(4321),
        fg.cuda.Stream(stream_ptr=4321, device=1),
        fg.cuda.ExternalStream(1, 0),
    ):
        with fg.cuda.stream(s):
            x = fg.ones(2, device="cuda") + 1
            assert driver.waiting(s.cuda_stream) >= 2
            assert x.tolist() == [2, 2]
        del x
        s.synchronize()
    assert fg.cuda.ExternalStream(4321) == fg.cuda.Stream(stream_ptr=4321)
    assert fg.cuda.ExternalStream(4321, 0) != fg.cuda.ExternalStream(4321, 1)
    for wrong in (0, -1, 2**64):
        with pytest.raises(ValueError, match="address of a stream"):
            fg.cuda.ExternalStream(wrong)


# --- memory ----------------------------------------------------------------------------------------------------


def test_streams_do_not_share_free_memory(driver):
    s = fg.cuda.Stream()
    x = fg.empty(1000, device="cuda")
    address = x.data_ptr()
    del x
    with fg.cuda.stream(s):
        assert fg.empty(1000, device="cuda").data_ptr() != address
    assert fg.empty(1000, device="cuda").data_ptr() == address


def test_recorded_streams_are_waited_for(driver):
    s = fg.cuda.Stream()
    x = fg.full((1000,), 7.0, device="cuda")
    fg.cuda.synchronize()
    with fg.cuda.stream(s):
        y = x + 1  # waits in the queue of s
        x.record_stream(s)
        x.record_stream(s)
    address = x.data_ptr()
    before = fg.cuda.memory_stats()
    del x
    after = fg.cuda.memory_stats()
    assert after["allocated_bytes.all.current"] < before["allocated_bytes.all.current"]
    assert after["active.all.current"] == before["active.all.current"]
    other = fg.zeros(1000, device="cuda")
    assert other.data_ptr() != address
    fg.cuda.default_stream().synchronize()
    s.synchronize()
    assert fg.empty(1000, device="cuda").data_ptr() == address
    assert y.tolist() == [8] * 1000
    assert fg.cuda.memory_stats()["active.all.current"] == before["active.all.current"]


def test_who_gives_back_on_another_stream_waits_for_it(driver):
    """What a pass saved on one stream and frees on another one may not be written by the first in the meantime."""
    s = fg.cuda.Stream()
    w = fg.full((1000,), 3.0, device="cuda", requires_grad=True)
    fg.cuda.synchronize()
    with fg.cuda.stream(s):
        y = (w * w).exp().log()
        loss = y.sum()
    fg.cuda.current_stream().wait_stream(s)
    del y
    loss.backward()  # on the default stream, where it waits
    with fg.cuda.stream(s):
        for _ in range(5):
            fg.full((1000,), 99.0, device="cuda")
        s.synchronize()
    assert w.grad.tolist() == pytest.approx([6.0] * 1000, rel=1e-5)


def test_memory_that_waits_counts_before_there_is_none(driver):
    gpu, s = driver.gpus[0], fg.cuda.Stream()
    fg.cuda.empty_cache()
    room = driver.size - sum(driver._sizes.values())
    x = fg.empty(room * 2 // 3, dtype=fg.uint8, device="cuda")
    with fg.cuda.stream(s):
        x.record_stream(s)
        mark = fg.ones(1, device="cuda")
    del x
    assert gpu.read("waiting") != 0
    y = fg.empty(room * 2 // 3, dtype=fg.uint8, device="cuda")
    assert gpu.read("waiting") == 0
    assert driver.waiting(s.cuda_stream) == 0
    del y
    assert mark.item() == 1


def test_record_stream_wants_a_stream_of_the_gpu(driver):
    x, s = fg.ones(2, device="cuda"), fg.cuda.Stream(1)
    for wrong in (None, 3, "s", fg.cuda.Event()):
        with pytest.raises(TypeError, match=r"must be fastgrad\.cuda\.Stream"):
            x.record_stream(wrong)
    with pytest.raises(RuntimeError, match="expected a tensor on cuda:1"):
        x.record_stream(s)
    with pytest.raises(RuntimeError, match="but it is on cpu"):
        fg.ones(2).record_stream(s)
    x[1:].record_stream(fg.cuda.default_stream())
    fg.empty(0, device="cuda").record_stream(fg.cuda.Stream())


# --- events ----------------------------------------------------------------------------------------------------


def test_events(driver):
    s = fg.cuda.Stream()
    start, end = fg.cuda.Event(enable_timing=True), fg.cuda.Event(enable_timing=True, blocking=True)
    assert start.query()
    assert start.synchronize() is start.wait() is None
    assert (start.cuda_event, start.device) == (0, None)
    with fg.cuda.stream(s):
        start.record()
        x = fg.ones(3, device="cuda")
        end.record()
    assert (start.device, end.device) == (fg.device("cuda:0"),) * 2
    assert not end.query()
    with pytest.raises(RuntimeError, match="device not ready"):
        start.elapsed_time(end)
    end.synchronize()
    assert end.query()
    assert start.elapsed_time(end) > 0 > end.elapsed_time(start)
    assert x.tolist() == [1] * 3


def test_streams_wait_for_events(driver):
    a, b = fg.cuda.Stream(), fg.cuda.Stream()
    with fg.cuda.stream(a):
        x = fg.ones(3, device="cuda")
        event = a.record_event()
    b.wait_event(event)
    with fg.cuda.stream(b):
        y = x + 1
    b.synchronize()
    assert driver.waiting(a.cuda_stream) == 0
    event.wait(a)
    a.synchronize()
    assert y.tolist() == [2] * 3


def test_events_without_times(driver):
    a, b = fg.cuda.Event(), fg.cuda.Event(enable_timing=True)
    with pytest.raises(ValueError, match="enable_timing=True"):
        a.elapsed_time(b)
    with pytest.raises(ValueError, match="must be recorded before"):
        b.elapsed_time(fg.cuda.Event(enable_timing=True))
    with pytest.raises(TypeError, match=r"must be fastgrad\.cuda\.Event"):
        b.elapsed_time(3)
    with pytest.raises(NotImplementedError):
        fg.cuda.Event(interprocess=True)
    a.record()
    with pytest.raises(RuntimeError, match="Event device 0 does not match recording stream's device 1"):
        a.record(fg.cuda.Stream(1))


def test_events_go_back_to_the_driver(driver):
    made = len(driver._events)
    events = [fg.cuda.Event() for _ in range(5)]
    for event in events:
        event.record()
    assert len(driver._events) == made + 5
    del events, event
    gc.collect()
    assert len(driver._events) == made


# --- what may go wrong -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [3, "s", fg.device("cuda"), {}], ids=str)
def test_what_is_no_stream(driver, wrong):
    s = fg.cuda.current_stream()
    calls = (
        fg.cuda.set_stream, fg.cuda.stream, fg.cuda.StreamContext, s.wait_stream, s.wait_event, s.record_event,
        fg.cuda.Event().record, fg.cuda.Event().wait,
    )  # fmt: skip
    for call in calls:
        with pytest.raises(TypeError, match=r"must be fastgrad\.cuda"):
            call(wrong)


def test_arguments_of_streams(driver):
    for wrong in ("cpu", 1.5, True):
        with pytest.raises(ValueError, match="Expected a"):
            fg.cuda.Stream(wrong)
    for wrong in (1.5, "0", True, None):
        with pytest.raises(TypeError, match="priority"):
            fg.cuda.Stream(priority=wrong)
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        fg.cuda.Stream(-1)


def test_none_is_half_made(driver):
    s = fg.cuda.Stream.__new__(fg.cuda.Stream)
    assert s.query()
    assert fg.cuda.Event.__new__(fg.cuda.Event).query()
    for thing in (s, fg.cuda.Event()):
        for make in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="cannot be copied or pickled"):
                make(thing)
    assert repr(s).startswith("<fastgrad.cuda.Stream device=cuda:0 cuda_stream=0x")
    assert repr(fg.cuda.Event()) == "<fastgrad.cuda.Event uninitialized>"
    assert s.__cuda_stream__() == (0, s.cuda_stream)


def test_subclasses(driver):
    class Own(fg.cuda.Stream):
        pass

    s = Own()
    s.name = "mine"
    with s:
        assert fg.cuda.current_stream() is s
    assert s == fg.cuda.Stream(stream_ptr=s.cuda_stream)


def test_a_lost_context_is_told_everywhere(driver):
    s, e = fg.cuda.Stream(), fg.cuda.Event()
    e.record(s)
    gpu = driver.gpus[0]
    x = fg.ones(3, device="cuda")
    driver.says["cuStreamSynchronize"] = [ILLEGAL_ADDRESS]
    with pytest.raises(RuntimeError, match="must be started again"):
        s.synchronize()
    driver.says["cuStreamSynchronize"] = [ILLEGAL_ADDRESS]
    with pytest.raises(RuntimeError, match="must be started again"):
        x.tolist()
    for call in (s.synchronize, s.query, e.query, e.synchronize, e.record, fg.cuda.synchronize):
        with pytest.raises(RuntimeError, match="must be started again"):
            call()
    x.record_stream(s)
    del x  # asks nothing of a driver that is gone
    gpu._set("failed", 0)


def test_nested_passes_keep_the_streams(driver):
    s = fg.cuda.Stream()
    seen = []

    def nest(depth):
        x = fg.ones(2, device="cuda", requires_grad=True)
        y = x * 2

        def hook(grad):
            seen.append(fg.cuda.current_stream() == s)
            if depth:
                with fg.enable_grad():
                    nest(depth - 1)

        y.register_hook(hook)
        y.sum().backward()

    with fg.cuda.stream(s):
        nest(70)
    assert seen == [True] * 71
    s.synchronize()


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ("", 0),
        ("fg.kept = (s, e, x, p, y)", 0),
        ("threading.Thread(target=threading.Event().wait, daemon=True).start()", 0),
        ("raise SystemExit(3)", 3),
        ("ring = [s, e, x]; ring.append(ring)", 0),
    ],
)
def test_the_interpreter_ends_with_streams_alive(more, code):
    assert ends(STREAMS + more) == (code, "", "")


FORKED = """
import os, warnings
warnings.simplefilter("ignore")
child = os.fork()
if not child:
    try:
        assert (fg.ones(3) + 1).tolist() == [2, 2, 2]
        assert fg.cuda.is_available() and not fg.cuda.is_initialized()
        for call in (lambda: x + 1, lambda: fg.ones(2, device="cuda"), s.query, s.synchronize, fg.cuda.Stream,
                     fg.cuda.synchronize, fg.cuda.current_stream, lambda: fg.ones(2).pin_memory(), e.record,
                     lambda: fg.ones(2).cuda(), fg.cuda.mem_get_info, x.tolist):
            try:
                call()
            except RuntimeError as error:
                assert "Cannot re-initialize CUDA in forked subprocess" in str(error), error
            else:
                raise AssertionError(call)
        fg.cuda.empty_cache()
        del x, p, y, s, e
        assert fg.cuda.memory_allocated() == 0
        os._exit(0)
    except BaseException as error:
        print(repr(error), flush=True)
        os._exit(1)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
assert x.tolist() == [1, 1, 1]
assert y.tolist() == [1, 1, 1]
raise SystemExit(code)
"""


def test_a_fork_may_do_everything_but_use_a_gpu():
    assert ends(STREAMS + FORKED) == (0, "", "")


def test_a_fork_after_asking_for_gpus(driver, monkeypatch):
    monkeypatch.setattr(gpus_, "_gpus", None)
    monkeypatch.setattr(gpus_, "_count", None)
    monkeypatch.setattr(gpus_, "find", lambda: driver)
    assert fg.cuda.device_count() == 2
    assert not fg.cuda.is_initialized()
    monkeypatch.setattr(gpus_, "_forked_child", True)
    with pytest.raises(RuntimeError, match="Cannot re-initialize CUDA in forked subprocess"):
        fg.cuda.init()
