"""A second device made of stand-in kernels: dispatch, sweep and hooks work on it without knowing of it."""

import io

import numpy as np
import pytest

import fastgrad as fg
from fastgrad.kernels.compile import compile_kernel
from fastgrad.native.host import devices
from tests.runtime.test_tape import make_mlp, make_step, values


class StandIn:
    """Kernels of the CPU under another device's column; it counts what it was asked for."""

    def __init__(self) -> None:
        self.kernels: set[str] = set()

    def __call__(self, kernel, dtype, layout_class):
        self.kernels.add(kernel.name)
        return compile_kernel(kernel, dtype, layout_class)


@pytest.fixture(scope="module")
def stand_in():
    resolver = StandIn()
    devices.register_device("standin", 1, resolver)
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
