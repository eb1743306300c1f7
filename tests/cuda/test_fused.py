"""Fused kernels of GPUs: their bodies in the simulator give what single launches give, and they compile."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from cuda_compiling import needs_compiler

import fastgrad as fg
import fastgrad.nn.functional as F
from fastgrad.compiler.fusion import fuse
from fastgrad.native.contracts.element_types import FLOAT32
from fastgrad.native.contracts.frames import FLAT
from fastgrad.native.host.tape import record
from tests.cuda.fake_driver import FakeDriver, attached
from tests.cuda.fused_testing import assert_compiles, fused_tape, rows_of, tensor
from tests.fusion_testing import same_for_seeds, wanted_of

pytestmark = pytest.mark.cudasim


def long(x, y):
    for _ in range(12):
        x = (x * y + 1.5).tanh() - x / 3
    return x


def with_gradient(x, y):
    x = x.detach().requires_grad_()
    ((x * y).sigmoid() * x - y).backward(fg.ones_like(x))
    return x.grad


def dropped(x, y):
    return F.dropout(F.relu(x), 0.3) + y


PROGRAMS = {
    "flat": (lambda x, y: (x * y + x).exp() - y * x, (37,), (37,)),
    "vectors": (lambda x, y: (x * y + x).exp() - y * x, (64,), (64,)),
    "a vector of columns": (lambda x, y: F.relu(x * y + 2) * x, (3, 20), (20,)),
    "a vector of rows": (lambda x, y: (x - y) * (x + y), (3, 20), (3, 1)),
    "both": (lambda x, y: (x - y).abs() * x + y, (4, 3, 20), (4, 1, 20)),
    "masks": (lambda x, y: fg.where(x * 2 > y, x.tanh(), y - x) * (x != y), (5, 17), (5, 17)),
    "one for all": (lambda x, y: (x * y + x) / y, (33,), ()),
    "one element": (lambda x, y: (x * y + x) / y, (1,), (1,)),
    "in place": (lambda x, y: x.clone().mul_(y).add_(x).clamp_(-1, 1), (35,), (35,)),
    "an odd address": (lambda x, y: (x[1:] * y[1:] + 2) * x[:-1], (66,), (66,)),
    "strided rows": (lambda x, y: (x[:, :17] * y[:, 3:] + 1) * 2, (4, 20), (4, 20)),
    "of doubles": (lambda x, y: (x.double() * 2 + y).float() - x, (21,), (21,)),
    "gradients": (with_gradient, (4, 18), (18,)),
    "long": (long, (19,), (19,)),
}


@pytest.fixture
def simulated():
    fake = FakeDriver()
    with attached(fake, fake.simulator):
        yield fake
        gc.collect()


@pytest.mark.cudasim
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_fused_kernel_gives_the_bits_of_single_launches(simulated, name):
    function, *sizes = PROGRAMS[name]
    inputs = [tensor(k, *s) for k, s in enumerate(sizes)]
    tape, out, expected, report = fused_tape(function, *inputs)
    assert tape.launches == len(report.fused), str(report)
    for _ in range(2):
        out.detach().fill_(7)
        tape.replay()
        np.testing.assert_array_equal(out.detach().cpu().numpy(), expected)


@pytest.mark.cudasim
def test_a_mask_is_drawn_before(simulated):
    fused = same_for_seeds(dropped, tensor(0, 4, 23), tensor(1, 4, 23))
    assert [one.names for one in fused.report.fused] == [("relu", "dropout", "add")]


@pytest.mark.cudasim
def test_numbers_that_are_none(simulated):
    x = fg.tensor([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-42, 3e38, 1.0], device="cuda")
    y = fg.tensor([1.0, 0.0, 2.0, 3.0, -1.0, 1.0, 10.0, np.nan], device="cuda")
    tape, out, expected, report = fused_tape(lambda x, y: (x * y + 0.1 - x).exp() * x, x, y)
    assert report.fused
    tape.replay()
    np.testing.assert_array_equal(out.cpu().numpy().view(np.int32), expected.view(np.int32))


@pytest.mark.cudasim
def test_a_compiled_function(simulated):
    f = fg.compile(lambda x, y: F.silu(x * y + 1) * x)
    for k in range(3):
        x, y = tensor(k, 3, 20), tensor(k + 9, 20)
        expected = f.__wrapped__(x, y).tolist()
        simulated.launched.clear()
        assert f(x, y).tolist() == expected
        assert ("fused" in simulated.launched) == (k > 0)
    f.forget()


@pytest.fixture
def plain():
    fake = FakeDriver(n_gpus=2)
    with attached(fake):
        yield fake
        gc.collect()


def test_what_is_not_fused_says_why(plain):
    def function(x):
        half = (x.half() + 1) * 2
        return half.float().sum(1) * 2 + (x * 3).long().float().sum() + (x * 3).half().amax(1).sum()

    _, _, _, report = fused_tape(function, tensor(0, 30, 20))
    reasons = " ".join(why for _, _, why in report.left)
    assert "no fused kernel of a GPU computes float16" in reasons
    assert "no fused kernel of a GPU computes int64" in reasons
    assert "no fused kernel computes amax of float16" in reasons
    assert not any(e.names[0] == "amax" for e in report.fused)


def test_few_long_rows_are_left_to_all_blocks(plain):
    """A sum of few long rows is made by blocks, an extreme of primes is not."""
    x = fg.zeros(5, 30011, device="cuda")
    _, _, _, report = fused_tape(lambda x: (x + 1).amax(1, keepdim=True), x)
    assert "its rows are too few for the blocks of a GPU to share them" in " ".join(
        w for *_, w in report.left
    )


def test_launches_of_two_gpus_and_the_host_stay_apart(plain):
    x, y, z = (fg.ones(40, device=where) for where in ("cuda:0", "cuda:1", "cpu"))

    with record() as tape:
        results = [(t * 2 + 1).exp() - t for t in (x, y, z)]
    expected = [r.tolist() for r in results]
    found = fuse(tape.entries(), wanted_of(results))
    assert [len(one.numbers) for one in found.report.fused] == [4, 4, 4]
    tape.edit(found.order)
    assert [launch.device for launch in tape] == ["cuda:0", "cuda:1", "cpu"]
    for r in results:
        r.fill_(3)
    tape.replay()
    assert [r.tolist() for r in results] == expected


def test_without_a_compiler_launches_stay(plain, monkeypatch):
    monkeypatch.setattr("fastgrad.compiler.fusion.launches.can_compile", lambda: False)
    _, _, _, report = fused_tape(lambda x: (x * 2 + 1).exp(), tensor(0, 40))
    assert not report.fused
    assert any("numba-cuda" in why for _, _, why in report.left)


COMPILED = ["flat", "both", "masks", "long", "of doubles"]


@pytest.fixture(scope="module")
def rows():
    """What would be compiled for the programs."""
    programs = {name: PROGRAMS[name] for name in COMPILED} | {"dropout": (dropped, (4, 23), (4, 23))}
    with attached(FakeDriver()):
        return {name: rows_of(*program)[0] for name, program in programs.items()}


@needs_compiler
@pytest.mark.parametrize("name", [*COMPILED, "dropout"])
def test_fused_kernels_compile(rows, name):
    assert_compiles(rows[name], doubles=name == "of doubles")


@needs_compiler
def test_nothing_is_contracted_across_formulas(plain):
    """A product that another formula adds is rounded before."""
    from fastgrad.kernels.cuda.assemble import assembled

    (row,) = rows_of(lambda x, y: x * y + x, (40,), (40,))
    assert "fma" not in assembled(row, FLOAT32, FLAT, "sm_90").ptx
