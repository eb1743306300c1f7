"""Which calls of the driver an op and a node of a pass cost; launches find their context, whoever changes it."""

from __future__ import annotations

import functools
import gc
import threading

import pytest

import fastgrad as fg
from fastgrad.native.host.tape import record
from tests.cuda.fake_contexts import FIRST, INVALID_CONTEXT, INVALID_HANDLE
from tests.cuda.fake_driver import FakeDriver, attached

LAUNCH, SET = "cuLaunchKernel", "cuCtxSetCurrent"


@pytest.fixture(params=[1, 2], ids=["alone", "two"])
def machine(request):
    """A machine with one GPU or two; `first` says whether the context is made current before each launch."""
    fake = FakeDriver(n_gpus=request.param)
    with attached(fake):
        fake.first = request.param > 1
        yield fake
        fg.cuda.synchronize()
        gc.collect()


def asked(driver, call):
    """The calls of the driver that a call costs."""
    before = driver.calls.copy()
    call()
    return dict(driver.calls - before)


def warm(program):
    """A program of which kernels and memory are there."""
    program()
    program()
    return program


def test_an_op_is_one_call_of_the_driver(machine):
    x, y = fg.ones(5, 7, device="cuda"), fg.ones(5, 7, device="cuda")
    for op in (lambda: x + y, lambda: x.exp(), lambda: x.sum(), lambda: x.t().exp(), lambda: x.mul_(y)):
        assert asked(machine, warm(op)) == {LAUNCH: 1} | ({SET: 1} if machine.first else {})


def test_a_node_is_one_call_of_the_driver(machine):
    x = fg.ones(16, device="cuda", requires_grad=True)
    loss = x
    for _ in range(20):
        loss = loss.tanh() * loss
    seed = fg.ones(16, device="cuda")
    backward = functools.partial(loss.backward, seed, retain_graph=True)
    found = asked(machine, warm(backward))
    assert found[LAUNCH] >= 40
    assert found == {LAUNCH: found[LAUNCH]} | ({SET: found[LAUNCH]} if machine.first else {})


def test_a_step_over_many_parameters_is_one_call(machine):
    model = [fg.ones(3, device="cuda", requires_grad=True) for _ in range(4)]
    optimizer = fg.optim.SGD(model, lr=0.1)
    for p in model:
        p.grad = fg.ones(3, device="cuda")
    found = asked(machine, warm(optimizer.step))
    assert found == {LAUNCH: 1} | ({SET: 1} if machine.first else {})


@pytest.mark.parametrize("foreign", [0, 7])
def test_another_library_has_changed_the_context(machine, foreign):
    """To one of its own, or to none: between calls, in a hook, and where a graph is replayed."""
    x = fg.ones(4, device="cuda", requires_grad=True)
    y, halves = fg.ones(4, device="cuda"), fg.ones(4, device="cuda", dtype=fg.float16)
    program = warm(lambda: (x.detach() + y, x.detach() @ y, fg.zeros(9, device="cuda"), halves.float()))
    machine.let_be_current(foreign)
    found = asked(machine, lambda: x.detach() + y)
    assert found == ({LAUNCH: 1, SET: 1} if machine.first else {LAUNCH: 2, SET: 1})
    for _ in range(2):
        machine.let_be_current(foreign)
        results = program()
        assert [r.tolist() for r in results] == [[2] * 4, 4, [0] * 9, [1] * 4]

    def elsewhere(grad):
        machine.let_be_current(foreign)

    z = x * y
    z.register_hook(elsewhere)
    (z * z).sum().backward()
    assert x.grad.tolist() == [2] * 4
    with record() as tape:
        w = (y + 1) * 3
    tape.replay()
    y.fill_(4)
    machine.let_be_current(foreign)
    tape.replay()
    assert w.tolist() == [15] * 4
    machine.let_be_current(foreign)
    assert fg.ones(1 << 20, device="cuda").sum().item() == 1 << 20  # memory of the driver's


def test_a_thread_begins_without_a_context(machine):
    x, found = fg.ones(3, device="cuda"), []
    warm(lambda: x + x)

    def run():
        found.append(asked(machine, lambda: x + x))
        found.append(asked(machine, lambda: x + x))
        found.append((x * 2).tolist())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    again = {LAUNCH: 1} | ({SET: 1} if machine.first else {})
    assert found == [again if machine.first else {LAUNCH: 2, SET: 1}, again, [2] * 3]


@pytest.mark.parametrize("code", [INVALID_CONTEXT, INVALID_HANDLE])
def test_what_is_refused_twice_is_an_error(machine, code):
    x = fg.ones(3, device="cuda")
    warm(lambda: x + x)
    machine.says[LAUNCH] = [code] * (1 if machine.first else 2)
    with pytest.raises(RuntimeError, match=f"what the driver says of {code}"):
        x + x
    assert not machine.says[LAUNCH]
    assert (x + x).tolist() == [2] * 3
    machine.says[LAUNCH] = [1]  # nothing else is tried again
    before = machine.calls[LAUNCH]
    with pytest.raises(RuntimeError, match="what the driver says of 1 "):
        x + x
    assert machine.calls[LAUNCH] == before + 1


def test_gpus_take_turns(machine):
    if not machine.first:
        pytest.skip("there is one")
    x, y = (fg.ones(3, device=f"cuda:{k}") for k in range(2))
    for _ in range(3):
        x, y = x + x, y + y
        assert machine.current() == FIRST + 1
    assert x.tolist() == y.tolist() == [8] * 3
