"""Sorting, masks and recurrent layers on the bodies of the GPU's kernels; see `test_bodies`."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import fastgrad as fg
import fastgrad.nn.functional as F
from fastgrad.nn.utils.rnn import pack_padded_sequence
from tests.cuda.fake_driver import FakeDriver, attached

pytestmark = pytest.mark.cudasim


@pytest.fixture(scope="module")
def driver():
    fake = FakeDriver(locked=False)  # locking its memory takes longer than the kernels
    with attached(fake, fake.simulator):
        yield fake
        gc.collect()


def drawn(shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def same(program, *arrays):
    """What a program gives on the GPU, which is what it gives on the CPU."""
    results = []
    for device in ("cpu", "cuda"):
        tensors = [fg.tensor(x, device=device, requires_grad=x.dtype.kind == "f") for x in arrays]
        found = program(*tensors)
        grads = fg.autograd.grad(sum((y * y).sum() for y in found if y.requires_grad), tensors[:1])
        results.append([y.detach().cpu().numpy() for y in (*found, *grads)])
    for expected, found in zip(*results, strict=True):
        np.testing.assert_array_equal(found, expected)


def put(x, mask):
    x[mask] = 1
    return x


PROGRAMS = {
    "sort": lambda x: x.sort(1), "sort columns": lambda x: x.sort(0, descending=True),
    "argsort": lambda x: (x * 1, x.argsort(-1)), "topk": lambda x: x.topk(3, 1), "a mask": lambda x: (x[x > 0],),
    "rows by a mask": lambda x: (x[x[:, 0] > 0],), "places": lambda x: (x * 1, (x > 0).nonzero()),
    "no places": lambda x: (x * 1, (x > 99).nonzero(), *(x > 99).nonzero(as_tuple=True)),
    "put by a mask": lambda x: (x.masked_fill(x > 0, 2.0), put(x * 1, x > 0)),
    "the last axes": lambda x: (x.view(4, 3, 3).sort(1)[0],), "median": lambda x: (x.sort(1)[0][:, 4],),
}  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_orders_and_places(driver, program):
    same(program, drawn((4, 9)))


def test_long_rows(driver):
    """Of a row for which no block has room the few first ones are sought; all of a row of bytes has one digit."""
    same(lambda x: x.topk(5), drawn((2100,)))
    x = np.random.default_rng(0).integers(0, 256, 2100).astype(np.uint8)
    driver.launched.clear()
    values, places = fg.tensor(x, device="cuda").sort()
    assert driver.launched.count("select_sorted") == 3
    np.testing.assert_array_equal(places.cpu().numpy(), np.argsort(x, kind="stable"))
    np.testing.assert_array_equal(values.cpu().numpy(), np.sort(x))


def test_bernoulli(driver):
    chances = np.abs(np.tanh(drawn((30,))))
    found = []
    for device in ("cpu", "cuda"):
        fg.manual_seed(5)
        found.append(fg.bernoulli(fg.tensor(chances, device=device)).cpu().numpy())
    np.testing.assert_array_equal(*found)
    fg.bernoulli(fg.tensor(chances + 1, device="cuda"))
    with pytest.raises(RuntimeError, match="probabilities to lie"):
        fg.cuda.synchronize()


def test_ops_with_integers(driver):
    """Their frames are as long as their integers are many."""
    x, weight = drawn((6, 8)), np.abs(drawn((8,), 1))
    results = []
    for device in ("cpu", "cuda"):
        a, w = (fg.tensor(v, device=device, requires_grad=True) for v in (x, weight))
        fg.manual_seed(2)
        y = F.dropout(
            F.layer_norm(a, (8,), w) + F.embedding(fg.tensor([1, 0, 5, 5, 2, 1], device=device), a), 0.3
        )
        (y * y).sum().backward()
        results.append([t.detach().cpu().numpy() for t in (y, a.grad, w.grad)])
    for expected, found in zip(*results, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


LAYERS = {
    "LSTM": (fg.nn.LSTM, {}), "GRU": (fg.nn.GRU, {}), "RNN": (fg.nn.RNN, {}),
    "RNN of rectifiers": (fg.nn.RNN, {"nonlinearity": "relu"}),
    "LSTM with a projection": (fg.nn.LSTM, {"proj_size": 2}),
}  # fmt: skip
FORMS = {"one size": (None, {}), "packed, both ways": ([2, 4, 1], {"bidirectional": True, "num_layers": 2})}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
def test_recurrent_layers(driver, layer, form):
    (make, options), (lengths, more) = layer, form
    results = []
    for device in ("cpu", "cuda"):
        fg.manual_seed(1)
        module = make(4, 5, **options, **more).to(device)
        x = fg.tensor(drawn((4, 3, 4)), device=device, requires_grad=True)
        output, last = module(pack_padded_sequence(x, lengths, enforce_sorted=False) if lengths else x)
        output, last = output.data if lengths else output, last if isinstance(last, tuple) else (last,)
        ((output * output).sum() + sum((k + 1) * s.sin().sum() for k, s in enumerate(last))).backward()
        results.append([t.detach().cpu().numpy() for t in (output, *last, x.grad)])
        results[-1] += [p.grad.cpu().numpy() for p in module.parameters()]
    for expected, found in zip(*results, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_a_layer_is_a_launch_for_each_step(driver):
    module = fg.nn.LSTM(4, 5).to("cuda")
    x = fg.ones(6, 2, 4, device="cuda", requires_grad=True)
    driver.launched.clear()
    output, _ = module(x)
    assert driver.launched.count("lstm") == 6
    output.sum().backward()
    assert driver.launched.count("lstm_backward") == 7
