"""Capture and replay of a whole training step."""

import gc
import itertools

import numpy as np
import pytest

import fastgrad as fg
import fastgrad.nn.functional as F
from fastgrad.native.host.tape import record


def make_mlp(device=None):
    """Parameters, inputs and targets of a small classifier, the same at every call."""
    rng = np.random.default_rng(0)
    sizes = (8, 16, 16, 4)
    weights = [rng.standard_normal((a, b)) / a**0.5 for a, b in itertools.pairwise(sizes)]
    values = [*weights, *(np.zeros(b) for b in sizes[1:])]
    params = [fg.tensor(v.astype(np.float32), device=device, requires_grad=True) for v in values]
    x = fg.tensor(rng.standard_normal((32, 8)).astype(np.float32), device=device)
    y = fg.tensor(rng.integers(0, 4, 32), device=device)
    return params, x, y


def make_step(params, x, y, lr=0.1):
    """One step of training as a function; it returns the loss."""
    optimizer = fg.optim.SGD(params, lr=lr)

    def step():
        optimizer.zero_grad()
        h = x
        for k in range(3):
            h = h @ params[k] + params[3 + k]
            if k < 2:
                h = F.relu(h)
        loss = F.cross_entropy(h, y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def values(params):
    return [p.detach().numpy().copy() for p in params]


def test_replayed_steps_equal_eager_steps():
    eager, x, y = make_mlp()
    step = make_step(eager, x, y)
    losses = [step().item() for _ in range(12)]

    replayed, x, y = make_mlp()
    step = make_step(replayed, x, y)
    first = step().item()
    with record() as tape:
        loss = step()
    seen = [first, loss.item()]
    for _ in range(10):
        tape.replay()
        seen.append(loss.item())
    assert seen == losses
    for a, b in zip(values(eager), values(replayed), strict=True):
        np.testing.assert_array_equal(a, b)
    assert tape.launches > 20


def test_replay_reads_new_contents_of_the_inputs():
    x = fg.arange(4, dtype=fg.float32)
    with record() as tape:
        total = (x * x).sum()
    x.copy_(fg.full((4,), 3.0))
    tape.replay()
    assert total.item() == 36.0


def test_memory_of_a_capture_is_not_reused_outside():
    x = fg.ones(1000)
    with record() as tape:
        y = (x + 1) * 2
    outside = [fg.zeros(1000) for _ in range(8)]
    tape.replay()
    assert all((z == 0).all() for z in outside)
    assert (y == 4).all()


def test_memory_of_a_capture_comes_back():
    fg.debug.empty_cache()
    with record() as tape:
        fg.ones(1000) + 1
    before = fg.debug.memory()["cached"]
    del tape
    assert fg.debug.memory()["cached"] > before


def test_captures_do_not_nest():
    with record() as tape:
        with pytest.raises(RuntimeError, match="nested"), record():
            pass
        fg.ones(2) + 1
    tape.replay()


def test_replay_inside_its_capture_raises():
    with record() as tape:
        fg.ones(2) + 1
        with pytest.raises(RuntimeError, match="after the"):
            tape.replay()


def test_capture_ends_when_the_block_raises():
    with pytest.raises(KeyError), record():
        raise KeyError
    with record() as tape:
        fg.ones(2) * 2
    assert tape.launches


# --- what writes to memory is a launch ---------------------------------------------------------------------------


def assert_replays_as_called(step, x):
    """A replay of `step` gives for new contents of its input what a call gives."""
    with record() as tape:
        captured = step(x)
    for k in range(3):
        x.detach().copy_(fg.full(tuple(x.shape), float(k + 2)))
        tape.replay()
        expected = step(x.detach().clone().requires_grad_(x.requires_grad))
        np.testing.assert_array_equal(captured.numpy(), expected.numpy())


@pytest.mark.parametrize("layout", ["expanded", "transposed", "contiguous"])
def test_a_hook_that_changes_its_gradient_in_place(layout):
    w = fg.arange(6.0).view(2, 3)

    def step(x):
        y = x * 1
        y.register_hook(lambda g: g.mul_(10))
        z = {"expanded": y, "transposed": y.t() * w.t(), "contiguous": y * y}[layout]
        return fg.autograd.grad(z.sum(), x)[0]

    assert_replays_as_called(step, fg.ones(2, 3, requires_grad=True))


def test_what_the_host_writes_is_written_again():
    def step(x):
        values = fg.tensor([1.0, 2.0, 3.0]).mul_(x)
        number = fg.tensor(4.0).add_(x.sum())
        state = fg.Generator().manual_seed(3).get_state().to(fg.float32)[:3].mul_(x)
        filled = fg.full((3,), 7.0).sub_(x)
        spaced = fg.linspace(0, 1, 3).add_(x)
        return fg.cat([values.add_(values), number.view(1), state, filled, spaced, fg.zeros(2).add_(x[:2])])

    assert_replays_as_called(step, fg.ones(3))


def test_an_index_that_a_replay_finds_out_of_range():
    table, index, out = fg.arange(4.0), fg.tensor([1, 2]), fg.zeros(2)
    with record() as tape:
        out.copy_(table.gather(0, index))
        out.add_(1)
    index.copy_(fg.tensor([0, 3]))
    tape.replay()
    assert out.tolist() == [1, 4]
    index.copy_(fg.tensor([0, 9]))
    with pytest.raises(IndexError, match="index 9 is out of bounds for size 4"):
        tape.replay()
    index.copy_(fg.tensor([3, 3]))
    tape.replay()
    assert out.tolist() == [4, 4]


def test_a_tape_says_what_it_launches():
    x = fg.ones(2, 3)
    with record() as tape:
        y = x.t() + 1.5
        z = y @ x
    launches = list(tape)
    assert len(launches) == tape.launches
    constant, add, product = launches
    assert constant.kernel.name == "constant"
    assert constant.read()["n"] == 1
    assert (add.kernel.name, add.device, add.dtype, add.layout_class) == ("add", "cpu", "float32", 1)
    assert add.read()["sizes"][: add.read()["rank"]] == [6]  # the result lies in memory as its operand does
    assert add.addresses()["a"] == x.data_ptr()
    assert add.addresses()["out"] == y.data_ptr() == product.addresses()["a"]
    assert product.kernel.name == "gemm"
    assert product.addresses() == {"out": z.data_ptr(), "a": y.data_ptr(), "b": x.data_ptr()}
    assert [product.read()[name] for name in "mnk"] == [3, 3, 2]
    assert all(launch.work > 0 for launch in launches)


# --- hooks -------------------------------------------------------------------------------------------------------


def hooked_step(x, seen):
    """A pass with a hook of each kind: what they saw goes to `seen`."""

    def note(name):
        return lambda *grads: seen.append(
            (name, [[g if g is None else g.tolist() for g in p] for p in grads])
        )

    def step():
        x.grad = None
        y = x * 2
        y.register_hook(lambda g: seen.append(("tensor", g.tolist())))
        y.register_hook(lambda g: g * 5)
        z = y * x.detach()
        z.register_hook(lambda g: g.mul_(3))
        z.grad_fn.register_prehook(note("pre"))
        z.grad_fn.register_hook(note("post"))
        z.grad_fn.register_hook(lambda grad_inputs, _: tuple(g if g is None else g + 1 for g in grad_inputs))
        handle = x.register_post_accumulate_grad_hook(lambda p: seen.append(("leaf", p.grad.tolist())))
        z.sum().backward()
        handle.remove()
        return x.grad

    return step


def test_hooks_are_called_again_if_that_is_asked_for():
    x, seen = fg.ones(1, requires_grad=True), []
    step = hooked_step(x, seen)
    with record(hooks=True) as tape:
        grad = step()
    for k in range(2, 5):
        with fg.no_grad():
            x.fill_(float(k))
        seen.clear()
        expected = step().tolist()
        wanted = list(seen)
        seen.clear()
        tape.replay()
        assert seen == wanted
        assert grad.tolist() == x.grad.tolist() == expected


def test_hooks_are_not_called_again_by_themselves():
    x, seen = fg.ones(1, requires_grad=True), []
    with record() as tape:
        hooked_step(x, seen)()
    assert len(seen) == 4
    tape.replay()
    assert len(seen) == 4


def test_a_hook_that_raises_stops_a_replay():
    x, wrong = fg.ones(2, requires_grad=True), []

    def hook(grad):
        if wrong:
            raise KeyError("wrong")

    with record(hooks=True) as tape:
        y = x * 2
        y.register_hook(hook)
        y.sum().backward()
    wrong.append(1)
    with pytest.raises(KeyError, match="wrong"):
        tape.replay()
    assert x.grad.tolist() == [2, 2]
    wrong.clear()
    tape.replay()


def test_a_hook_that_changes_its_mind():
    x, more = fg.ones(2, requires_grad=True), []
    with record(hooks=True) as tape:
        y = x * 2
        y.grad_fn.register_hook(lambda grad_inputs, grads: tuple(None for g in grad_inputs) if more else None)
        y.sum().backward()
    more.append(1)
    with pytest.raises(RuntimeError, match="other gradients than during the capture"):
        tape.replay()
    del y


def test_hooks_that_capture_or_replay_within_a_replay():
    x, tapes = fg.ones(2, requires_grad=True), []
    inner = fg.ones(2)

    def hook(grad):
        if tapes:
            with record() as other:
                inner.add_(1)
            other.replay()

    with record(hooks=True) as tape:
        y = x * 2
        y.register_hook(hook)
        y.sum().backward()
    tapes.append(tape)
    tape.replay()
    assert inner.tolist() == [3, 3]
    x.grad = None


def test_tapes_that_hooks_hold_are_collected():
    before = fg.debug.live()["tapes"]
    x = fg.ones(2, requires_grad=True)
    with record(hooks=True) as tape:
        y = x * 2
        y.register_hook(lambda grad, tape=tape: None)
        y.sum().backward()
    del tape, x, y
    gc.collect()
    assert fg.debug.live()["tapes"] == before


# --- random numbers ----------------------------------------------------------------------------------------------


def test_a_replay_draws_on():
    fg.manual_seed(3)
    wanted = [F.dropout(fg.ones(40), 0.5).tolist() for _ in range(5)]
    fg.manual_seed(3)
    with record() as tape:
        y = F.dropout(fg.ones(40), 0.5)
    seen = [y.tolist()]
    for _ in range(3):
        tape.replay()
        seen.append(y.tolist())
    seen.append(F.dropout(fg.ones(40), 0.5).tolist())
    assert seen == wanted


def test_a_hook_of_a_recording_tape_neither_records_nor_replays_it():
    said = []

    def hook(grad):
        for call in (lambda: record().__enter__(), tape.replay):
            with pytest.raises(RuntimeError) as error:
                call()
            said.append(str(error.value))

    x = fg.ones(2, requires_grad=True)
    handle = x.register_hook(hook)
    with record(hooks=True) as tape:
        (x * 2).sum().backward()
    assert "a hook of a tape with hooks=True runs" in said[0]
    assert "replay after the" in said[1]
    handle.remove()
    x.grad = None
