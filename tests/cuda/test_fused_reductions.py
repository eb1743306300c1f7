"""Fused kernels of GPUs that reduce rows or columns: bodies in the simulator beside the CPU, and what is compiled."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from cuda_compiling import needs_compiler

import fastgrad as fg
from tests.cuda import fake_driver
from tests.cuda.fake_driver import FakeDriver, attached
from tests.cuda.fused_testing import assert_compiles, fused_tape, rows_of, tensor

pytestmark = pytest.mark.cudasim


def softmax(x):
    e = (x - x.amax(-1, keepdim=True)).exp()
    return e / e.sum(-1, keepdim=True)


def layer_norm(x, w, b):
    d = x - x.mean(-1, keepdim=True)
    return d * ((d * d).mean(-1, keepdim=True) + 1e-5).rsqrt() * w + b


def rms_norm(x, w):
    return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * w


def gradient_of(function):
    def with_gradient(x, *others):
        x = x.detach().requires_grad_()
        out = function(x, *others)
        out.backward(out.detach().tanh())
        return x.grad

    return with_gradient


def three_phases(x, y, z):
    """Values that several phases need, expensive ones and such as are made of several."""
    a = x * y
    b = (a + z).exp()
    c = b / b.sum(-1, keepdim=True) * a
    d = (c - c.amax(-1, keepdim=True)).tanh() + z
    return d * d.mean(-1, keepdim=True) + b + a


def written_over(x):
    """What a later phase reads is not written by an earlier one."""
    total = x.sum(-1, keepdim=True)
    parts = x / total
    x.mul_(2)
    return parts - total


def masked(x, y):
    mask = x > y
    return fg.where(mask, x, y.double().sum(-1, keepdim=True).float()) * mask.sum(-1, keepdim=True).float()


def columns_and_elements(x, y, z):
    x.mul_(y * z)
    return x.mean(0) + (x * x).double().sum(0).float()


PROGRAMS = {
    "sums": (lambda x, y: (x * y + 1).exp().sum(-1) * 2, (5, 20), (20,)),
    "several": (lambda x: x.sum(-1) + x.amax(-1) * x.amin(-1) - (x * x).mean(-1), (3, 35)),
    "everything": (lambda x, y: ((x - y) ** 2).mean() * 3, (7, 19), (7, 19)),
    "blocks": (lambda x, y: ((x * y).tanh() + y).sum(), (16400,), (16400,)),
    "softmax": (softmax, (3, 61)),
    "long rows": (softmax, (2, 1044)),
    "two elements": (softmax, (5, 2)),
    "its gradient": (gradient_of(softmax), (5, 20)),
    "layer norm": (layer_norm, (2, 3, 24), (24,), (24,)),
    "gradients of long rows": (gradient_of(layer_norm), (2, 1044), (1044,), (1044,)),
    "an odd address": (lambda x, y: rms_norm(x.view(-1)[1:81].view(4, 20), y), (5, 20), (20,)),
    "strided rows": (lambda x, y: rms_norm(x[:, ::2] * y, y), (3, 4, 20), (20,)),
    "three phases": (three_phases, (2, 1043), (1043,), (2, 1043)),
    "in place": (lambda x, y: x.sub_(x.mean(-1, keepdim=True)).mul_(y), (5, 20), (20,)),
    "written over": (written_over, (2, 1044)),
    "masks": (masked, (4, 71), (4, 71)),
    "columns": (lambda x, y: ((x * y + 1).tanh() * y).sum(0) * 2, (37, 5), (5,)),
    "means of columns, and the elements": (columns_and_elements, (140, 3), (140, 1), ()),
    "blocks of columns": (lambda x, y: (x * y).sum(1), (2, 5, 4), (4,)),
    "numbers that are none": (
        lambda x: softmax(fg.where(x > 1.5, x * np.inf, x)) * x.sum(-1, keepdim=True),
        (6, 20),
    ),
}


LAUNCHES = {"blocks": 2, "columns": 3, "means of columns, and the elements": 3}


@pytest.fixture
def simulated():
    fake = FakeDriver()
    with attached(fake, fake.simulator):
        yield fake
        gc.collect()


def replayed(tape, out, inputs):
    """The results of two replays, between which memory holds something else."""
    before = [t.detach().clone() for t in inputs]
    found = []
    for _ in range(2):
        out.detach().fill_(7)
        for t, value in zip(inputs, before, strict=True):
            t.detach().copy_(value)
        tape.replay()
        found.append([t.detach().cpu().numpy() for t in (out, *inputs)])
    return found


def compare(name):
    function, *sizes = PROGRAMS[name]
    host = [tensor(k, *s).cpu() for k, s in enumerate(sizes)]
    expected = function(*host).detach().numpy()
    inputs = [tensor(k, *s) for k, s in enumerate(sizes)]
    tape, out, single, report = fused_tape(function, *inputs)
    (results, first), (again, second) = [(r[0], r[1:]) for r in replayed(tape, out, inputs)]
    np.testing.assert_array_equal(again, results)
    np.testing.assert_allclose(results, single, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(results, expected, rtol=1e-5, atol=1e-5)
    for found, repeated, wanted in zip(first, second, host, strict=True):
        np.testing.assert_array_equal(repeated, found)
        np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-5, atol=1e-5)
    return tape, report


@pytest.mark.cudasim
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_fused_kernel_gives_what_the_cpu_gives(simulated, name):
    tape, report = compare(name)
    assert report.fused
    assert tape.launches == LAUNCHES.get(name, 1), str(report)


@pytest.mark.cudasim
@pytest.mark.parametrize("name", ["long rows", "three phases"])
def test_several_warps_share_a_row(simulated, name, monkeypatch):
    monkeypatch.setattr(fake_driver, "THREADS", 64)
    compare(name)


@pytest.mark.cudasim
def test_sums_are_those_of_single_launches(simulated):
    """Where rows are read 16 bytes at a time and few values are kept, to the bit."""
    for sizes in ((3, 48), (2, 1044)):
        inputs = tensor(0, *sizes), tensor(1, *sizes)
        tape, out, single, _ = fused_tape(lambda x, y: (x * y).sum(-1), *inputs)
        out.fill_(7)
        tape.replay()
        np.testing.assert_array_equal(out.cpu().numpy(), single)


@pytest.fixture(scope="module")
def rows():
    """What would be compiled for the programs."""
    with attached(FakeDriver()):
        return {name: rows_of(*PROGRAMS[name])[0] for name in COMPILED}


COMPILED = ["layer norm", "masks", "columns"]


@needs_compiler
@pytest.mark.parametrize("name", COMPILED)
def test_fused_reductions_compile(rows, name):
    assert_compiles(rows[name], doubles=name == "masks")
