"""A second device whose memory the host cannot reach: dispatch, sweep and hooks work on it without knowing of it."""

import copy
import io
import pickle
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fastgrad as fg
import fastgrad.nn.functional as F
from fastgrad.native.host import devices
from fastgrad.native.host.tape import record
from tests.runtime.test_tape import make_mlp, make_step, values
from tests.stand_in import SIZE, StandIn


@pytest.fixture(scope="module")
def stand_in():
    resolver = StandIn()
    devices.register_device("standin", 1, resolver, resolver.enclave.routines())
    yield resolver
    del devices.NAMES["standin"]


def test_training_is_the_same_on_both_devices(stand_in):
    cpu, x, y = make_mlp()
    cpu_step = make_step(cpu, x, y)
    other, x, y = make_mlp("standin")
    other_step = make_step(other, x, y)
    for _ in range(5):
        a, b = cpu_step(), other_step()
        assert b.device.type == "standin"
        assert a.item() == b.item()
    for p, q in zip(cpu, other, strict=True):
        assert q.device.type == "standin"
        assert q.grad.device.type == "standin"
        np.testing.assert_array_equal(p.detach().numpy(), q.detach().cpu().numpy())
    assert {"gemm", "relu", "log_softmax", "nll_loss", "sgd_step", "threshold_backward"} <= stand_in.kernels


def test_hooks_see_gradients_of_the_device(stand_in):
    params, x, _ = make_mlp("standin")
    seen = []
    params[0].register_hook(lambda g: seen.append(g.device.type))
    out = (x @ params[0]).sum()
    out.grad_fn.register_prehook(lambda grads: seen.append(grads[0].device.type))
    out.register_hook(lambda g: g * 2)
    out.backward()
    assert seen == ["standin", "standin"]
    expected = 2 * np.repeat(x.cpu().numpy().sum(0)[:, None], 16, axis=1)
    np.testing.assert_allclose(params[0].grad.cpu().numpy(), expected, rtol=1e-5)


def test_devices_do_not_mix(stand_in):
    a = fg.ones(3)
    b = fg.ones(3, device="standin")
    with pytest.raises(RuntimeError, match="same device"):
        a + b
    with pytest.raises(TypeError, match="cpu"):
        b.numpy()


def test_a_number_goes_where_the_tensor_is(stand_in):
    b = fg.ones(3, device="standin") * 2 + 1
    assert b.device.type == "standin"
    assert values([b.cpu()])[0].tolist() == [3.0, 3.0, 3.0]


def test_unknown_devices_are_named():
    with pytest.raises(RuntimeError, match="nowhere"):
        fg.ones(2, device="nowhere")


def test_saved_tensors_come_back_to_their_device(stand_in):
    x = fg.arange(4.0).to("standin")
    file = io.BytesIO()
    fg.save([x, x[1:]], file)
    for map_location, expected in ((None, "standin"), ("cpu", "cpu"), ({"standin": "cpu"}, "cpu")):
        file.seek(0)
        a, b = fg.load(file, map_location=map_location)
        assert (a.device.type, b.device.type) == (expected, expected)
        a.zero_()
        assert b.cpu().tolist() == [0, 0, 0]


def test_a_device_that_is_gone(stand_in):
    file = io.BytesIO()
    fg.save(fg.ones(2, device="standin"), file)
    file.seek(0)
    column = devices.NAMES.pop("standin")
    try:
        with pytest.raises(RuntimeError, match=r"tagged with standin.*map_location='cpu'"):
            fg.load(file)
        file.seek(0)
        assert fg.load(file, map_location="cpu").tolist() == [1, 1]
    finally:
        devices.NAMES["standin"] = column


# --- memory that the host cannot reach -------------------------------------------------------------------------------


def test_tensors_lie_in_the_memory_of_their_device(stand_in):
    before = stand_in.enclave.in_use
    x = fg.ones(4, device="standin", requires_grad=True)
    y = (x * 2).exp()
    for t in (
        x,
        y,
        y.detach().view(2, 2).t().contiguous(),
        fg.tensor([1.0], device="standin"),
        fg.rand(3, device=x.device),
    ):
        assert stand_in.enclave.start <= t.data_ptr() < stand_in.enclave.start + SIZE
    assert stand_in.enclave.in_use > before
    y.sum().backward()
    np.testing.assert_allclose(x.grad.tolist(), 2 * np.exp([2.0] * 4), rtol=1e-6)
    del x, y, t
    assert stand_in.enclave.in_use == before


def test_who_reaches_for_it_is_ended():
    """The test of the tests: what reads such memory past the device does not go unseen."""
    program = """
import ctypes
import fastgrad as fg
from fastgrad.native.host import devices
from tests.stand_in import StandIn
device = StandIn()
devices.register_device("standin", 1, device, device.enclave.routines())
x = fg.ones(2, device="standin")
assert x.tolist() == [1, 1]
print("reads", flush=True)
ctypes.string_at(x.data_ptr(), 1)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "reads\n", done.stderr
    assert done.returncode == -signal.SIGSEGV


READS = {
    "item": lambda t: t.sum().item(), "tolist": lambda t: t.tolist(), "bool": lambda t: bool(t.sum() > 0),
    "float": lambda t: float(t.sum()), "int": lambda t: int(t.sum()), "index": lambda t: [0] * t.sum().long(),
    "print": lambda t: repr(t).replace(", device='standin'", ""), "format": lambda t: f"{t.sum():.2f}",
    "equal": lambda t: fg.equal(t, t.clone()), "in": lambda t: 2.0 in t,
    "numpy": lambda t: t.numpy(force=True).tolist(), "state": lambda t: (t / 3).bernoulli().shape,
    "nonzero": lambda t: fg.nonzero(t).tolist(), "mask": lambda t: t[t > 1].tolist(),
    "argwhere of a number": lambda t: t.sum().nonzero().tolist(), "allclose": lambda t: fg.allclose(t, t),
    "repeat_interleave": lambda t: fg.repeat_interleave(t.long(), t.long().view(-1)[:1] + 1).tolist(),
    "index_select": lambda t: t.index_select(0, fg.tensor([1, 0], device=t.device)).tolist(),
    "gather": lambda t: t.gather(0, fg.zeros(1, 2, dtype=fg.int64, device=t.device)).tolist(),
    "tensor": lambda t: fg.tensor([t[0, 0], t[1, 1]]).tolist(), "full": lambda t: fg.full((2,), t.sum()).tolist(),
    "dtype": lambda t: t.to(fg.int64).tolist(), "slices": lambda t: t[:, 1].tolist(),
    "arange": lambda t: fg.arange(t.sum().item()).tolist(),
}  # fmt: skip


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_what_the_host_reads_comes_by_the_device(stand_in, read):
    host = fg.tensor([[1.0, 2.0], [0.0, 3.0]])
    assert read(host.to("standin")) == read(host)


def test_a_report_comes_by_the_device(stand_in):
    table, index = fg.arange(4.0).to("standin"), fg.tensor([1, 9]).to("standin")
    with pytest.raises((IndexError, RuntimeError), match="9"):
        table.gather(0, index)
    with pytest.raises((IndexError, RuntimeError), match="9"):
        F.nll_loss(table.view(2, 2), index)


def test_numbers_and_tensors_without_dimensions_go_along(stand_in):
    x = fg.arange(3.0).to("standin").requires_grad_()
    y = (x * 2 + fg.tensor(1.0)) ** 3 / 4 - 1 + fg.tensor(2.0, dtype=fg.float64)
    (g,) = fg.autograd.grad(y.sum(), x, create_graph=True)
    g.sum().backward()
    h = fg.arange(3.0).requires_grad_()
    z = (h * 2 + fg.tensor(1.0)) ** 3 / 4 - 1 + fg.tensor(2.0, dtype=fg.float64)
    (k,) = fg.autograd.grad(z.sum(), h, create_graph=True)
    k.sum().backward()
    assert y.device.type == x.grad.device.type == "standin"
    assert (y.tolist(), g.tolist(), x.grad.tolist()) == (z.tolist(), k.tolist(), h.grad.tolist())
    with pytest.raises(RuntimeError, match="same device"):
        fg.tensor(1.0).add_(x.detach())
    with pytest.raises(RuntimeError, match="same device"):
        x.detach().view(1, 3) @ fg.ones(3, 1)


def test_copies_between_devices(stand_in):
    host = fg.arange(6.0).view(2, 3)
    there = fg.zeros(3, 2, device="standin", dtype=fg.float64)
    there.copy_(host.t())
    assert there.tolist() == host.t().tolist()
    there[0].copy_(fg.tensor([7.0, 8.0]))
    assert there.tolist() == [[7, 8], [1, 4], [2, 5]]
    host[:, 1:].copy_(there[:2].t())
    assert host.tolist() == [[0, 7, 1], [3, 8, 4]]
    devices.register_device("other", 3, StandIn())  # another one, over the host's memory
    try:
        assert there.to("other").to("standin").tolist() == there.tolist()
    finally:
        del devices.NAMES["other"]


def test_a_capture_holds_what_the_host_brings(stand_in):
    table = fg.arange(4.0).to("standin")
    index = fg.tensor([1, 2]).to("standin")
    with record() as tape:
        out = table.gather(0, index) + fg.tensor([1.0, 2.0], device="standin").add_(1)
        fetched = out.cpu()
    index.copy_(fg.tensor([3, 0]))
    tape.replay()
    assert fetched.tolist() == [5, 3] == out.tolist()
    index.copy_(fg.tensor([3, 5]))
    with pytest.raises(IndexError, match="index 5 is out of bounds for size 4"):
        tape.replay()


def test_a_device_without_memory_left(stand_in):
    before = fg.debug.live()
    with pytest.raises(MemoryError):
        fg.ones(SIZE, device="standin")
    fg.debug.set_memory_limit(fg.debug.memory()["live"] + 1000)
    try:
        with pytest.raises(MemoryError):
            fg.ones(10_000, device="standin")
    finally:
        fg.debug.set_memory_limit(None)
    assert fg.debug.live() == before


def test_a_generator_takes_its_state_from_the_host(stand_in):
    state = fg.Generator().get_state()
    with pytest.raises(TypeError, match="on standin"):
        fg.Generator().set_state(state.to("standin"))


# --- names of devices -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["cpu", "cpu:0", "cpu:3", "cpu:", "cpu:-1", "cpu:x", "cpu:01", "cpu: 1", "cpu:1:2"]
)
def test_a_device_by_name(lib, text):
    if text in ("cpu", "cpu:0", "cpu:3"):
        d = lib.device(text)
        assert (str(d), d.type, d.index) == (text, "cpu", int(text[4:]) if ":" in text else None)
        x = lib.ones(2, device=d)
        assert str(x.device) == "cpu"
        assert (x.to(d) is x) == (text == "cpu")
        assert (d == lib.device("cpu")) == (text == "cpu")
    else:
        with pytest.raises(RuntimeError, match="Invalid device string: '"):
            lib.device(text)


def test_a_device_by_name_and_index(lib):
    assert lib.device("cpu", 3) == lib.device("cpu:3")
    with pytest.raises(RuntimeError, match="must not include an index"):
        lib.device("cpu:3", 1)
    with pytest.raises(RuntimeError, match="must not be negative"):
        lib.device("cpu", -1)


def test_a_device_does_not_change(lib):
    d = lib.ones(2).device
    with pytest.raises(AttributeError, match=r"attribute 'type' of '.*device' objects is not writable"):
        d.type = "other"
    with pytest.raises(AttributeError, match="is not writable"):
        del d.index
    with pytest.raises(AttributeError, match="has no attribute 'kind'"):
        d.kind = 1
    assert copy.deepcopy(d) == pickle.loads(pickle.dumps(d)) == lib.device("cpu")
    assert d.type == "cpu"
