"""`compile`: calls that are replayed do what calls do."""

from __future__ import annotations

import functools
import gc
import operator
import threading

import numpy as np
import pytest

import fastgrad as fg
import fastgrad.nn.functional as F
from fastgrad import nn
from fastgrad.compiler.programs import in_bytes
from fastgrad.compiler.recordings import Recording
from fastgrad.native.build.loader import rt
from fastgrad.native.contracts.element_types import DTYPES
from fastgrad.native.contracts.limits import MAX_DIMS


def replays(function):
    return [s.n_replayed for s in fg.compile.explain(function).signatures]


def refused(function):
    return [s.refused for s in fg.compile.explain(function).signatures]


def grads(module):
    return [None if p.grad is None else p.grad.clone() for p in module.parameters()]


def equal(a, b):
    """Whether two results are the same, floats within rounding: fused kernels add in another order."""
    if isinstance(a, fg.Tensor):
        if a.dtype != b.dtype or a.requires_grad != b.requires_grad or a.shape != b.shape:
            return False
        x, y = a.detach().double(), b.detach().double()
        return fg.allclose(x, y, rtol=1e-5, atol=1e-6, equal_nan=True)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(equal, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(equal(a[k], b[k]) for k in a)
    return type(a) is type(b) and a == b


def net(seed=0, norm=False, dropout=0.0):
    fg.manual_seed(seed)
    layers = [nn.Linear(6, 8), nn.GELU()]
    if norm:
        layers.append(nn.BatchNorm1d(8))
    if dropout:
        layers.append(nn.Dropout(dropout))
    return nn.Sequential(*layers, nn.Linear(8, 3))


# --- functions that compute -------------------------------------------------------------------------------------


def test_a_function_without_gradients():
    calls = []

    def f(x, y, scale=2.0):
        calls.append
        return x * y + scale, [x.sum(), (y - x).relu()], {"n": 3}

    compiled = fg.compile(f)
    for k in range(5):
        x, y = fg.randn(4, 3), fg.randn(4, 3)
        assert equal(compiled(x, y), f(x, y))
        assert equal(compiled(x, y, scale=3.0), f(x, y, scale=3.0))
        assert equal(compiled(y=y, x=x), f(x, y))
        assert k == 0 or replays(compiled) == [k, k, k]


def test_what_a_call_gave_is_not_overwritten():
    compiled = fg.compile(lambda x: (x + 1, x * 2))
    kept = [compiled(fg.full((3,), float(k))) for k in range(6)]
    assert [[a.tolist(), b.tolist()] for a, b in kept] == [[[k + 1.0] * 3, [k * 2.0] * 3] for k in range(6)]
    views = [compiled(fg.full((3,), float(k)))[0][1:] for k in range(4)]
    assert [v.tolist() for v in views] == [[k + 1.0] * 2 for k in range(4)]
    array = compiled(fg.zeros(3))[0].numpy()
    compiled(fg.full((3,), 9.0))
    assert array.tolist() == [1, 1, 1]


def test_memory_is_used_again_where_nobody_holds_it():
    compiled = fg.compile(lambda x: x * 2)
    x = fg.randn(1000)
    for _ in range(3):
        compiled(x)
    before = fg.debug.live()
    for _ in range(10):
        compiled(x)
    assert fg.debug.live() == before


def test_a_result_that_is_an_argument():
    w = fg.ones(2)

    def f(x):
        return x, w, x + w

    compiled = fg.compile(f)
    for _ in range(3):
        x = fg.randn(2)
        a, b, c = compiled(x)
        assert a is x
        assert b is w
        assert fg.equal(c, x + w)
    assert replays(compiled) == [2]


def test_views_of_arguments():
    compiled = fg.compile(lambda x: (x[1:], x.t(), x.reshape(-1)))
    for _ in range(3):
        x = fg.randn(3, 2)
        a, b, c = compiled(x)
        x.fill_(7)
        assert a.tolist() == [[7, 7], [7, 7]]
        assert b.shape == (2, 3)
        assert set(b.flatten().tolist()) == {7} == set(c.tolist())
    assert replays(compiled) == [2]


def test_changes_in_place():
    state = fg.zeros(3)

    def f(x):
        state.add_(x)
        x.mul_(2)
        return state * 1

    compiled = fg.compile(f)
    total = fg.zeros(3)
    for k in range(4):
        x = fg.full((3,), float(k + 1))
        version = state._version
        total += x
        assert compiled(x).tolist() == total.tolist() == state.tolist()
        assert x.tolist() == [2.0 * (k + 1)] * 3
        assert state._version == version + 1
        assert x._version == 1
    assert replays(compiled) == [3]


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (5, 1)])
def test_sizes(shape):
    compiled = fg.compile(lambda x: (x * 2 + 1, x.sum(), x.exp()))
    for _ in range(3):
        x = fg.randn(*shape)
        assert equal(compiled(x), (x * 2 + 1, x.sum(), x.exp()))
    assert replays(compiled) == [2]


def test_strides_and_offsets():
    compiled = fg.compile(lambda x: x.exp().sum(0))
    base = fg.randn(6, 8)
    for x in (
        base,
        base[1:4],
        base[2:5],
        base.t(),
        base[:, ::2],
        base[::2],
        base[1:4].clone(),
        base[1:4, 1:3],
    ):
        assert equal(compiled(x), x.exp().sum(0))
        assert equal(compiled(x), x.exp().sum(0))
    assert all(n > 0 for n in replays(compiled))


def test_arguments_that_share_memory():
    def f(x, y):
        x.add_(1)
        return x * y

    compiled = fg.compile(f)
    for _ in range(2):
        a, b = fg.randn(4), fg.randn(4)
        expected = (a + 1) * b
        assert fg.equal(compiled(a, b), expected)
    one = fg.randn(4)
    expected = (one + 1) * (one + 1)
    assert fg.equal(compiled(one, one), expected)
    whole = fg.randn(6)
    x, y = whole[:4], whole[2:]
    twin = whole.clone()
    expected = f(twin[:4], twin[2:])
    assert fg.equal(compiled(x, y), expected)


# --- steps -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [
    lambda p: fg.optim.SGD(p, lr=0.1), lambda p: fg.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    lambda p: fg.optim.Adam(p, lr=0.01), lambda p: fg.optim.AdamW(p, lr=0.01, amsgrad=True),
    lambda p: fg.optim.RMSprop(p, lr=0.01, momentum=0.1), lambda p: fg.optim.Adagrad(p),
    lambda p: fg.optim.Adadelta(p), lambda p: fg.optim.Adamax(p), lambda p: fg.optim.NAdam(p),
    lambda p: fg.optim.RAdam(p), lambda p: fg.optim.Rprop(p), lambda p: fg.optim.ASGD(p, lr=0.1, t0=1),
], ids=["sgd", "momentum", "adam", "adamw", "rmsprop", "adagrad", "adadelta", "adamax", "nadam", "radam", "rprop",
        "asgd"])  # fmt: skip
@pytest.mark.parametrize("to_none", [True, False])
def test_a_step_of_training(make, to_none):
    models = [net(), net()]
    optimizers = [make(m.parameters()) for m in models]

    def step(model, optimizer, x, y):
        optimizer.zero_grad(set_to_none=to_none)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    compiled = fg.compile(functools.partial(step, models[0], optimizers[0]))
    for _ in range(8):
        x, y = fg.randn(5, 6), fg.randint(0, 3, (5,))
        a, b = compiled(x, y), step(models[1], optimizers[1], x, y)
        assert equal(a, b)
        assert all(map(equal, models[0].parameters(), models[1].parameters()))
        assert equal(grads(models[0]), grads(models[1]))
    assert sum(replays(compiled)) >= 5
    assert refused(compiled) == [""]


def test_gradients_that_somebody_holds_stay():
    w = fg.ones(3, requires_grad=True)

    def step(x):
        w.grad = None
        (w * x).sum().backward()

    compiled = fg.compile(step)
    kept = []
    for k in range(5):
        compiled(fg.full((3,), float(k)))
        kept.append(w.grad)
    assert [g.tolist() for g in kept] == [[k] * 3 for k in range(5)]


def test_gradients_that_add_up():
    w, twin = fg.ones(3, requires_grad=True), fg.ones(3, requires_grad=True)
    compiled = fg.compile(lambda x: (w * x).sum().backward())
    for k in range(6):
        x = fg.full((3,), k + 0.5)
        held = w.grad
        compiled(x)
        (twin * x).sum().backward()
        assert fg.equal(w.grad, twin.grad)
        assert held is None or held is w.grad
    w.grad = None
    compiled(x)
    assert fg.equal(w.grad, x)
    w.grad = fg.zeros(3)
    compiled(x)
    assert fg.equal(w.grad, x)


def test_norms_and_dropout():
    models = [net(norm=True, dropout=0.4), net(norm=True, dropout=0.4)]
    optimizers = [fg.optim.SGD(m.parameters(), lr=0.1) for m in models]

    def step(k, x):
        optimizers[k].zero_grad()
        loss = models[k](x).square().mean()
        loss.backward()
        optimizers[k].step()
        return loss.detach()

    compiled = fg.compile(lambda x: step(0, x))
    losses = []
    for k in range(6):
        x = fg.ones(5, 6) * (k % 2)
        fg.manual_seed(k)
        a = compiled(x)
        after = fg.rand(2)
        fg.manual_seed(k)
        b = step(1, x)
        assert equal(a, b)
        assert fg.equal(after, fg.rand(2))
        losses.append(a.item())
        assert all(map(equal, models[0].buffers(), models[1].buffers()))
    assert len(set(losses)) == 6
    models[0].eval()
    models[1].eval()
    assert equal(compiled(x), step(1, x))
    assert refused(compiled) == [""]


def test_a_loss_whose_graph_the_step_freed():
    w = fg.ones(2, requires_grad=True)

    def step(x):
        w.grad = None
        loss = (w * w * x).sum()
        loss.backward()
        return loss

    compiled = fg.compile(step)
    for _ in range(4):
        loss = compiled(fg.ones(2))
        assert loss.requires_grad
        assert not loss.is_leaf
        with pytest.raises(RuntimeError, match="second time"):
            loss.backward()
    assert replays(compiled) == [2]


# --- functions with a history ----------------------------------------------------------------------------------


def test_the_backward_of_a_module():
    model, twin = net(), net()
    compiled = fg.compile(model)
    for _ in range(4):
        x = fg.randn(5, 6, requires_grad=True)
        y = x.detach().requires_grad_()
        model.zero_grad()
        twin.zero_grad()
        a, b = compiled(x), twin(y)
        assert equal(a, b)
        a.square().sum().backward()
        b.square().sum().backward()
        assert equal(x.grad, y.grad)
        assert equal(grads(model), grads(twin))
    assert replays(compiled) == [3]


def test_calls_that_wait_for_their_backward():
    w = fg.randn(3, requires_grad=True)
    f = lambda x: (x * w).tanh()  # noqa: E731
    compiled = fg.compile(f)
    for _ in range(3):
        xs = [fg.randn(3, requires_grad=True) for _ in range(4)]
        outs = [compiled(x) for x in xs]
        for k in (2, 0, 3, 1):
            w.grad = None
            outs[k].sum().backward(retain_graph=True)
            x = xs[k].detach().requires_grad_()
            own = w.detach().requires_grad_()
            (x * own).tanh().sum().backward()
            assert fg.equal(xs[k].grad, x.grad)
            assert fg.equal(w.grad, own.grad)
            outs[k].sum().backward()
            assert fg.equal(xs[k].grad, x.grad * 2)
            with pytest.raises(RuntimeError, match="second time"):
                outs[k].sum().backward()


def test_a_history_before_and_behind():
    w = fg.randn(4, 4, requires_grad=True)
    inner = fg.compile(lambda h: (h @ w).relu())

    def run(f):
        w.grad = None
        x = fg.ones(2, 4, requires_grad=True)
        h = x * 3
        out = f(f(h)) * 2
        out.sum().backward()
        return out.detach(), x.grad, w.grad.clone()

    for _ in range(3):
        assert equal(run(inner), run(lambda h: (h @ w).relu()))
    assert sum(replays(inner)) > 0


def test_several_outputs_of_which_one_is_used():
    w = fg.randn(3, requires_grad=True)
    f = lambda x: (x * w, (x + w).exp(), x.argmax())  # noqa: E731
    compiled = fg.compile(f)
    for _ in range(3):
        x = fg.randn(3)
        w.grad = None
        a, b, c = compiled(x)
        assert not c.requires_grad
        assert a.grad_fn is not None
        b.sum().backward()
        assert fg.equal(w.grad, (x + w).exp().detach())


def test_hooks_on_leaves_and_on_results():
    w = fg.ones(3, requires_grad=True)
    log = []
    w.register_hook(lambda g: log.append(("w", g.tolist())) or g * 2)
    w.register_post_accumulate_grad_hook(lambda p: log.append(("after", p.grad.tolist())))
    compiled = fg.compile(lambda x: x * w * w)
    for k in range(4):
        w.grad = None
        log.clear()
        out = compiled(fg.full((3,), float(k)))
        out.register_hook(lambda g: log.append(("out", g.tolist())))
        out.sum().backward()
        assert log == [("out", [1.0] * 3), ("w", [2.0 * k] * 3), ("after", [4.0 * k] * 3)]
    assert replays(compiled) == [3]


def test_dropout_between_forward_and_backward():
    w = fg.ones(1000, requires_grad=True)
    compiled = fg.compile(lambda: F.dropout(w, 0.5))
    outs = [compiled() for _ in range(4)]
    for out in reversed(outs):
        w.grad = None
        out.sum().backward()
        assert fg.equal(w.grad, out.detach())
    assert len({tuple(out.tolist()) for out in outs}) == 4
    assert replays(compiled) == [3]


def test_a_parameter_that_changes_between_forward_and_backward():
    w = fg.ones(3, requires_grad=True)
    compiled = fg.compile(lambda x: x * w * w)
    for _ in range(3):
        out = compiled(fg.ones(3))
        with fg.no_grad():
            w.mul_(1.5)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            out.sum().backward()


def test_a_second_derivative():
    w = fg.ones(3, requires_grad=True)
    compiled = fg.compile(lambda: (w**3).sum())
    for _ in range(3):
        (first,) = fg.autograd.grad(compiled(), w, create_graph=True)
        assert fg.autograd.grad(first.sum(), w)[0].tolist() == [6] * 3
    assert replays(compiled) == [2]


# --- what is recorded anew, and what is not replayed --------------------------------------------------------------


class Config:
    scale = 2.0

    def __init__(self):
        self.shift = 1.0
        self.table = {"a": 1.0, "b": [1.0, 2.0]}
        self.parts = (1.0, fg.ones(3))


config = Config()
FACTOR = 3.0
weights = [fg.ones(3)]


def helper(x):
    return x * FACTOR


def sees_much(x, mode="a"):
    y = helper(x) * config.scale + config.shift
    for value in config.table["b"]:
        y = y + value * config.table["a"]
    return y * weights[0] + config.parts[1] * (2 if mode == "a" else 3)


def changed(monkeypatch, what):
    if what == "global":
        monkeypatch.setitem(globals(), "FACTOR", 5.0)
    elif what == "function":
        monkeypatch.setitem(globals(), "helper", lambda x: x - 1)
    elif what == "attribute":
        monkeypatch.setattr(config, "shift", -1.0)
    elif what == "class attribute":
        monkeypatch.setattr(Config, "scale", -2.0)
    elif what == "shadowed":
        monkeypatch.setattr(config, "scale", 9.0, raising=False)
    elif what == "list":
        config.table["b"].append(4.0)
    elif what == "dict":
        config.table["a"] = 0.5
    elif what == "tensor":
        weights[0] = fg.full((3,), 2.0)
    elif what == "contents":
        weights[0].fill_(1.5)
    elif what == "data":
        weights[0].data = fg.full((3,), 4.0)
    elif what == "default":
        monkeypatch.setattr(sees_much, "__defaults__", ("b",))
    elif what == "sign of zero":
        monkeypatch.setattr(config, "shift", -0.0)
    elif what == "type":
        monkeypatch.setattr(config, "shift", 1)


@pytest.mark.parametrize(
    "what",
    ["global", "function", "attribute", "class attribute", "shadowed", "list", "dict", "tensor", "contents", "data",
     "default", "sign of zero", "type"],
)  # fmt: skip
def test_what_a_function_sees(monkeypatch, what):
    compiled = fg.compile(sees_much)
    monkeypatch.setitem(globals(), "config", Config())
    monkeypatch.setitem(globals(), "weights", [fg.ones(3)])
    x = fg.randn(3)
    for _ in range(3):
        assert fg.equal(compiled(x), sees_much(x))
    assert replays(compiled) == [2]
    changed(monkeypatch, what)
    for _ in range(3):
        assert fg.equal(compiled(x), sees_much(x))
    monkeypatch.undo()
    for _ in range(2):
        assert fg.equal(compiled(x), sees_much(x))


def test_modules_that_change():
    model = net(dropout=0.5)
    compiled = fg.compile(model)
    x = fg.randn(2, 6)

    def check(n_hooked=0):
        for _ in range(2):
            fg.manual_seed(3)
            a = compiled(x)
            fg.manual_seed(3)
            assert equal(a, model(x))

    check()
    model.eval()
    check()
    model[0].weight.requires_grad_(False)
    check()
    model[0].weight = nn.Parameter(fg.ones(8, 6))
    check()
    model[3] = nn.Linear(8, 2)
    check()
    model.append(nn.ReLU())
    check()
    with fg.no_grad():
        check()
    with fg.inference_mode():
        check()
    handle = model[1].register_forward_hook(lambda m, args, out: out * 2)
    check()
    handle.remove()
    check()
    model.double()
    x = x.double()
    check()
    model.load_state_dict({k: v * 2 for k, v in model.state_dict().items()})
    check()


def test_modes():
    compiled = fg.compile(lambda x: x @ x)
    x = fg.randn(3, 3, requires_grad=True)
    for _ in range(2):
        assert compiled(x).requires_grad
        with fg.no_grad():
            assert not compiled(x).requires_grad
        with fg.inference_mode():
            assert compiled(x).is_inference()
        with fg.autocast("cpu"):
            assert compiled(x).dtype == fg.bfloat16
        assert compiled(x).dtype == fg.float32
    with fg.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t):
        compiled(x).sum().backward()
    assert "saved-tensor hooks" in str(fg.compile.explain(compiled))


@pytest.mark.parametrize(("name", "function", "why"), [
    ("numpy", lambda x: fg.from_numpy(x.numpy() * 2), "reads whole tensors"),
    ("list", lambda x: fg.tensor(x.tolist()) * 2, "reads whole tensors"),
    ("generator", lambda x: x * fg.rand(4, generator=_generator), "generator"),
    ("object", lambda x: (x, object), "returns"),
    ("leaf", lambda x: (x * 2).requires_grad_(), "leaf"),
], ids=lambda v: v if isinstance(v, str) and len(v) < 10 else "")  # fmt: skip
def test_what_is_not_replayed_is_right(name, function, why):
    compiled = fg.compile(function)
    for k in range(6):
        x = fg.randn(4) * (1 if k % 2 else -1)
        _generator.manual_seed(k)
        a = compiled(x)
        _generator.manual_seed(k)
        b = function(x)
        if name != "object":
            assert equal(a, b)
    assert why in refused(compiled)[0]
    strict = fg.compile(function, fullgraph=True)
    with pytest.raises(RuntimeError, match="fullgraph"):
        strict(fg.randn(4))


_generator = fg.Generator()


def test_what_cannot_be_looked_into():
    array = np.ones(3, np.float32)
    stream = iter(range(100))
    compiled = [fg.compile(lambda x: x * fg.tensor(array)), fg.compile(lambda x: x + next(stream))]
    x = fg.zeros(3)
    assert [compiled[1](x).tolist()[0] for _ in range(3)] == [0, 1, 2]
    compiled[0](x)
    array[:] = 2
    assert compiled[0](x + 1).tolist() == [2, 2, 2]
    assert all("cannot be seen" in refused(c)[0] for c in compiled)


def test_state_that_a_function_changes():
    seen = []
    counter = {"n": 0}

    def f(x):
        counter["n"] += 1
        seen.append(x.shape)
        return x * counter["n"]

    compiled = fg.compile(f)
    assert [compiled(fg.ones(1)).item() for _ in range(15)] == list(range(1, 16))
    assert len(seen) == 15


def test_numbers_among_the_arguments():
    compiled = fg.compile(lambda x, a: x + a)
    x = fg.zeros(1)
    for a in (1, 1.0, True, 0.0, -0.0, float("nan"), float("inf"), 2**40):
        for _ in range(2):
            assert equal(compiled(x, a), x + a)
    for k in range(100):
        assert compiled(x, k).item() == k


def test_errors_come_through():
    compiled = fg.compile(lambda a, b: a @ b)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="cannot be multiplied"):
            compiled(fg.ones(2, 3), fg.ones(2, 3))
    assert compiled(fg.ones(2, 3), fg.ones(3, 2)).shape == (2, 2)


def test_an_index_out_of_range_in_a_replay():
    table = fg.randn(5, 2, requires_grad=True)
    compiled = fg.compile(lambda i: F.embedding(i, table))
    for _ in range(2):
        compiled(fg.tensor([0, 4]))
    with pytest.raises(IndexError):
        compiled(fg.tensor([0, 5]))
    out = compiled(fg.tensor([3, 1]))
    assert fg.equal(out, table[fg.tensor([3, 1])])


# --- the interface ---------------------------------------------------------------------------------------------


def test_arguments_of_compile():
    assert fg.compile(mode="max-autotune")(helper)(fg.ones(1)).item() == 3
    assert fg.compile(helper, disable=True) is helper
    assert fg.compile(helper, backend="eager") is helper
    assert fg.compile(helper).__name__ == "helper"
    with pytest.raises(RuntimeError, match="Unrecognized mode"):
        fg.compile(helper, mode="fast")
    with pytest.raises(RuntimeError, match="options"):
        fg.compile(helper, options={"a": 1})
    with pytest.raises(TypeError, match="function or a module"):
        fg.compile(3)
    with pytest.raises(TypeError, match="backend"):
        fg.compile(helper, backend=print)
    with pytest.raises(TypeError, match="what compile"):
        fg.compile.explain(helper)


def test_a_compiled_module_is_a_module():
    model = net()
    compiled = fg.compile(model)
    assert compiled._orig_mod is model
    assert [a is b for a, b in zip(compiled.parameters(), model.parameters(), strict=True)] == [True] * 4
    assert list(compiled.state_dict()) == [f"_orig_mod.{k}" for k in model.state_dict()]
    assert compiled[0] is model[0] if hasattr(type(compiled), "__getitem__") else True
    compiled.eval()
    assert not model.training
    outer = nn.Sequential(compiled, nn.Tanh())
    x = fg.randn(2, 6)
    for _ in range(3):
        assert equal(outer(x), nn.Tanh()(model(x)))


def test_methods():
    class Box:
        def __init__(self, k):
            self.k = k

        @fg.compile
        def scaled(self, x):
            return x * self.k

    a, b = Box(2.0), Box(3.0)
    for _ in range(3):
        assert a.scaled(fg.ones(1)).item() == 2
        assert b.scaled(fg.ones(1)).item() == 3
    a.k = 5.0
    assert a.scaled(fg.ones(1)).item() == 5


def test_compiled_within_compiled():
    inner = fg.compile(lambda x: x * 2)
    outer = fg.compile(lambda x: inner(x) + 1)
    assert [outer(fg.ones(1) * k).item() for k in range(4)] == [1, 3, 5, 7]
    assert replays(outer) == [3]
    assert not fg.compiler.is_compiling()


def test_is_compiling_while_recording():
    seen = []
    fg.compile(lambda x: seen.append(fg.compiler.is_compiling()) or x * 2)(fg.ones(1))
    assert seen == [True]


def test_explanations_and_reset():
    compiled = fg.compile(helper)
    for n in (2, 3, 2):
        compiled(fg.ones(n))
    text = str(fg.compile.explain(compiled))
    assert "float32[2]" in text
    assert "2 launches" in text
    fg.compiler.reset()
    assert fg.compile.explain(compiled).signatures == []
    compiled(fg.ones(2))


def test_threads():
    compiled = fg.compile(lambda x, y: (x @ y).tanh() @ y)
    inputs = [(fg.randn(200, 200), fg.randn(200, 200)) for _ in range(4)]
    expected = [(x @ y).tanh() @ y for x, y in inputs]
    wrong = []

    def work(k):
        for _ in range(20):
            if not fg.equal(compiled(*inputs[k]), expected[k]):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_nothing_is_left():
    gc.collect()
    fg.debug.check()
    before = fg.debug.live()
    model = net()
    compiled = fg.compile(model)
    for _ in range(3):
        compiled(fg.randn(2, 6)).sum().backward()
    del model, compiled
    gc.collect()
    assert fg.debug.live() == before


# --- hooks in replays ------------------------------------------------------------------------------------------


def both(make):
    """Run a step eagerly and compiled, and compare parameters, gradients and what hooks noted."""
    results = []
    for compile_it in (False, True):
        log = []
        step, tensors = make(log)
        call = fg.compile(step) if compile_it else step
        seen = []
        for k in range(5):
            fg.manual_seed(k)
            out = call(fg.randn(4))
            seen.append([log.copy(), out, [t.detach().clone() for t in tensors], [t.grad for t in tensors]])
            log.clear()
        results.append(seen)
    assert equal_all(*results)
    return call


def equal_all(a, b):
    if isinstance(a, fg.Tensor):
        return equal(a, b)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(equal_all, a, b))
    return a == b


def test_tensor_hooks_on_leaves():
    def make(log):
        w = fg.ones(4, requires_grad=True)
        w.register_hook(lambda g: log.append(("first", g.tolist())))
        w.register_hook(lambda g: g * 2)
        w.register_hook(lambda g: log.append(("last", g.tolist())))

        def step(x):
            w.grad = None
            (w * x).sum().backward()
            with fg.no_grad():
                w.sub_(w.grad, alpha=0.1)
            return x.sum()

        return step, [w]

    call = both(make)
    assert refused(call) == [""]
    assert sum(replays(call)) == 3


def test_hooks_that_change_gradients_in_place():
    def make(log):
        w, v = fg.ones(4, requires_grad=True), fg.full((4,), 2.0).requires_grad_()

        def hook(g):
            g.mul_(3)
            log.append(g.tolist())

        w.register_hook(hook)
        v.register_hook(lambda g: g.add_(1))

        def step(x):
            w.grad = v.grad = None
            (w * v * x).sum().backward()
            return (w.grad + v.grad).sum()

        return step, [w, v]

    assert sum(replays(both(make))) == 3


def test_post_accumulate_hooks():
    def make(log):
        w = fg.ones(4, requires_grad=True)
        w.register_post_accumulate_grad_hook(lambda p: log.append((p is w, p.grad.tolist())))

        @w.register_post_accumulate_grad_hook
        def double(p):
            p.grad.mul_(2)

        def step(x):
            w.grad = None
            (w * w * x).sum().backward()
            with fg.no_grad():
                w.add_(w.grad)
            return w.sum().detach()

        return step, [w]

    assert sum(replays(both(make))) == 3


def test_an_optimizer_in_hooks():
    def make(log):
        w, v = fg.ones(4, requires_grad=True), fg.ones(4, requires_grad=True)
        optimizers = {p: fg.optim.SGD([p], lr=0.1) for p in (w, v)}

        def hook(p):
            optimizers[p].step()
            optimizers[p].zero_grad()
            log.append(p.tolist())

        for p in (w, v):
            p.register_post_accumulate_grad_hook(hook)

        def step(x):
            loss = ((w * x) ** 2 + v * x).sum()
            loss.backward()
            return loss.detach()

        return step, [w, v]

    assert sum(replays(both(make))) == 4


def test_hooks_on_what_the_step_makes():
    def make(log):
        w = fg.ones(4, requires_grad=True)

        def clip(g):
            return g.clamp(-0.5, 0.5)

        def step(x):
            w.grad = None
            h = w * x
            h.register_hook(clip)
            h.grad_fn.register_hook(lambda gi, go: (gi[0] * 2, gi[1]) if len(gi) > 1 else None)
            (h * h).sum().backward()
            return w.grad.sum()

        return step, [w]

    both(make)


def test_a_hook_that_holds_a_tensor_of_its_call():
    w = fg.ones(4, requires_grad=True)

    def step(x):
        w.grad = None
        scale = x * 2
        h = w * x
        h.register_hook(lambda g: g * scale)
        h.sum().backward()
        return w.grad * 1

    compiled = fg.compile(step)
    for k in range(4):
        x = fg.full((4,), k + 1.0)
        assert fg.equal(compiled(x), step(x))
    assert "tensor of this call" in refused(compiled)[0]


def test_hooks_that_come_and_go():
    w = fg.ones(4, requires_grad=True)
    log = []

    def step(x):
        w.grad = None
        (w * x).sum().backward()

    compiled = fg.compile(step)
    x = fg.ones(4)
    for _ in range(3):
        compiled(x)
    handle = w.register_hook(lambda g: log.append(1))
    for _ in range(3):
        compiled(x)
    assert log == [1, 1, 1]
    other = w.register_hook(lambda g: g * 5)
    for _ in range(3):
        compiled(x)
    assert log == [1] * 6
    assert w.grad.tolist() == [5] * 4
    handle.remove()
    other.remove()
    for _ in range(2):
        compiled(x)
    assert log == [1] * 6
    assert w.grad.tolist() == [1] * 4


def test_a_hook_that_raises():
    w = fg.ones(4, requires_grad=True)
    fails = []

    def hook(g):
        if fails:
            raise ValueError("enough")

    w.register_hook(hook)

    def step(x):
        w.grad = None
        (w * x).sum().backward()
        return x * 2

    compiled = fg.compile(step)
    x = fg.ones(4)
    for _ in range(3):
        compiled(x)
    fails.append(1)
    for _ in range(2):
        with pytest.raises(ValueError, match="enough"):
            compiled(x)
    assert w.grad is None
    fails.clear()
    assert compiled(x).tolist() == [2] * 4
    assert w.grad.tolist() == [1] * 4


def test_a_hook_that_calls_the_step_again():
    w = fg.ones(4, requires_grad=True)
    depth = []

    def hook(g):
        if len(depth) < 2:
            depth.append(1)
            with fg.enable_grad():
                compiled(fg.ones(4))
            depth.pop()

    w.register_hook(hook)

    def step(x):
        (w * x).sum().backward()
        return x + 1

    compiled = fg.compile(step)
    for _ in range(4):
        assert compiled(fg.ones(4)).tolist() == [2] * 4


# --- memory ----------------------------------------------------------------------------------------------------


def test_what_a_call_left_elsewhere_stays():
    kept = {}

    def f(x):
        h = x * 2
        if not kept:
            kept["h"] = h
        return h.sum() * 1 + (x + 1).sum()

    compiled = fg.compile(f)
    compiled(fg.ones(4))
    mine = kept.pop("h")
    for k in range(4):
        assert compiled(fg.full((4,), float(k))).item() == 4 * (3 * k + 1)
        kept.clear()
    assert mine.tolist() == [2] * 4


def test_constants_of_a_call_stay():
    compiled = fg.compile(
        lambda x: x * fg.tensor([1.0, 2.0, 3.0]) + fg.arange(3) @ fg.tensor([[1], [2], [3]])
    )
    for k in range(4):
        x = fg.full((3,), float(k))
        assert compiled(x).tolist() == [k + 8.0, 2 * k + 8.0, 3 * k + 8.0]
    assert replays(compiled) == [3]


def test_memory_within_a_call_is_used_again():
    def f(x):
        for _ in range(20):
            x = (x @ x).tanh()
        return x

    compiled = fg.compile(f)
    x = fg.randn(64, 64)
    for _ in range(3):
        assert equal(compiled(x), f(x))
    assert fg.compile.explain(compiled).signatures[0].nbytes[0] < 6 * 64 * 64 * 4


# --- what a function does not use --------------------------------------------------------------------------------


def test_what_is_not_named_does_not_matter():
    class Trainer:
        def __init__(self):
            self.data = np.random.default_rng(0).standard_normal(3)
            self.scale = 2.0
            self.seen = []

        def step(self, x):
            return x * self.scale

        def report(self):
            return np.random.default_rng().random(), self.seen

    trainer = Trainer()
    compiled = fg.compile(trainer.step)
    x = fg.ones(3)
    for k in range(5):
        assert compiled(x).tolist() == [2] * 3
        trainer.seen.append(k)
        trainer.data[:] = k
    assert replays(compiled) == [4]
    trainer.scale = 3.0
    assert compiled(x).tolist() == [3] * 3
    trainer.other = 1
    assert compiled(x).tolist() == [3] * 3


@pytest.mark.parametrize("how", ["getattr", "vars", "hasattr", "made"])
def test_attributes_that_are_named_otherwise(how):
    class Box:
        def __init__(self):
            self.a = 1.0
            self.b = 2.0 + EXTRA[0]

    box = Box()

    def look(x):
        if how == "getattr":
            return x + getattr(box, "b")  # noqa: B009 - by its text
        if how == "vars":
            return x + sum(vars(box).values())
        if how == "hasattr":
            return x + 1 if hasattr(box, "c") else x
        return x + Box().b

    compiled = fg.compile(look)
    x = fg.zeros(1)
    for change in (lambda: None, lambda: setattr(box, "b", 5.0), lambda: setattr(box, "c", 1), EXTRA.reverse):
        change()
        for _ in range(3):
            assert fg.equal(compiled(x), look(x))
    EXTRA.reverse()


EXTRA = [0.0, 1.0]


def test_methods_that_change():
    class Box:
        def f(self, x):
            return self.g(x)

        def g(self, x):
            return x + 1

    box = Box()
    compiled = fg.compile(box.f)
    x = fg.zeros(1)
    assert [compiled(x).item() for _ in range(2)] == [1, 1]
    Box.g = lambda self, x: x + 2
    assert [compiled(x).item() for _ in range(2)] == [2, 2]
    box.g = lambda x: x + 3
    assert [compiled(x).item() for _ in range(2)] == [3, 3]
    del box.g
    assert compiled(x).item() == 2


def _clip(grad, state):
    for i in range(grad.size):
        if abs(grad[i]) > state[0]:
            state[1] += 1
            grad[i] = state[0] if grad[i] > 0 else -state[0]


def test_native_hooks_run_without_python():
    def make(log):
        w = fg.ones(4, requires_grad=True)
        clip = fg.native_hook(_clip, state=fg.tensor([0.5, 0.0]))
        w.register_hook(clip)
        w.register_hook(lambda g: log.append(g.tolist()))

        def step(x):
            w.grad = None
            (w * x).sum().backward()
            return w.grad * 1

        return step, [w, clip.state]

    call = both(make)
    assert refused(call) == [""]
    assert sum(replays(call)) == 3


# --- effects ---------------------------------------------------------------------------------------------------


def test_containers_among_the_arguments_that_change():
    def f(out, x):
        out.append(x * 2)
        return x + 1

    compiled = fg.compile(f)
    for k in range(4):
        out = []
        compiled(out, fg.full((2,), float(k)))
        assert [t.tolist() for t in out] == [[2.0 * k] * 2]
    assert "among its arguments" in refused(compiled)[0]


def test_attributes_that_a_call_sets():
    class Box:
        last = None

    box = Box()

    def f(x):
        box.last = x * 2
        return x + 1

    compiled = fg.compile(f)
    for k in range(12):
        box.last = None
        compiled(fg.full((2,), float(k)))
        assert box.last.tolist() == [2.0 * k] * 2


def test_a_global_that_a_call_makes():
    def f(x):
        global MADE_BY_A_CALL
        MADE_BY_A_CALL = x * 2
        return x + 1

    compiled = fg.compile(f)
    for k in range(4):
        compiled(fg.full((2,), float(k)))
        assert MADE_BY_A_CALL.tolist() == [2.0 * k] * 2
        if k == 1:
            del globals()["MADE_BY_A_CALL"]
    del globals()["MADE_BY_A_CALL"]


def test_an_argument_that_holds_itself():
    compiled = fg.compile(lambda box, x: x + len(box))
    box = []
    box.append(box)
    assert compiled(box, fg.zeros(1)).item() == 1


def test_a_schedule_around_a_compiled_step():
    runs = []
    for compile_it in (False, True):
        model = net()
        optimizer = fg.optim.SGD(model.parameters(), lr=0.1)
        schedule = fg.optim.lr_scheduler.StepLR(optimizer, 3, gamma=0.5)

        def step(x, model=model, optimizer=optimizer):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        call = fg.compile(step) if compile_it else step
        fg.manual_seed(1)
        losses = []
        for _ in range(9):
            losses.append(call(fg.randn(4, 6)))
            schedule.step()
        runs.append(losses)
    assert equal(*runs)
    assert sum(replays(call)) > 0


def laid(place, offset, sizes):
    """How a tensor lies, as the runtime takes it."""
    rest = [0] * (MAX_DIMS - 1)
    return in_bytes([place, offset, DTYPES.index("float32"), len(sizes), *sizes, *rest, 1, *rest])


def test_a_program_that_says_what_cannot_be():
    """A result beyond the memory that a call brought is refused, as is a region that no tensor places."""
    x, w = fg.ones(8), fg.ones(4)
    recording = Recording(lambda: x * w[0], [x], [w])
    program = recording.bind([recording.result]).tape
    assert rt.call_tape(program, (fg.ones(8),), (w,))[0].tolist() == [1] * 8
    for place, offset, sizes in (
        (0, 0, (9,)),
        (0, 8, (8,)),
        (9, 0, (1,)),
        (-1, 0, (1,)),
        (0, 2**62, (1,)),
        (0, 0, (2**40,)),
    ):
        with pytest.raises(RuntimeError):
            rt.tape_tensor(program, laid(place, offset, sizes))
        with pytest.raises(RuntimeError):
            rt.tape_input(program, laid(place, offset, sizes))
        with pytest.raises(RuntimeError):
            rt.keep_apart(program, laid(place, offset, sizes))
    for where in (None, b"", bytes(8), [1], laid(0, 0, (8,)) + b"1"):
        with pytest.raises(RuntimeError):
            rt.tape_tensor(program, where)
    with pytest.raises(RuntimeError):  # outside of a call nothing lies there
        rt.tape_tensor(program, laid(0, 0, (1,)))


class Named:
    def __init__(self):
        self.stream = 2.0


stream = iter(range(3))
named = Named()


def test_a_global_with_the_name_of_an_attribute():
    def f(x):
        return x * named.stream

    compiled = fg.compile(f)
    assert [compiled(fg.ones(1)).item() for _ in range(3)] == [2] * 3
    assert refused(compiled) == [""]
    assert next(stream) == 0


def test_a_compiled_function_that_names_itself():
    @fg.compile
    def step(x):
        return x * 2 if len(x.shape) else step(x)

    assert [step(fg.ones(1) * k).item() for k in range(4)] == [0, 2, 4, 6]
    assert replays(step) == [3]


class Noisy(nn.Module):
    """A module with what nobody looks into, made by what changes."""

    def __init__(self):
        super().__init__()
        self.made_by = np.random.default_rng(1).random(3)
        self.linear = nn.Linear(3, 3)
        self.scale = 2.0

    def forward(self, x):
        return self.linear(x) * self.scale


noisy = Noisy()


def test_a_module_that_holds_an_array():
    @fg.compile
    @fg.no_grad()
    def evaluate(x):
        noisy.eval()
        out = noisy(x)
        noisy.train()
        return out

    x = fg.randn(2, 3)
    for k in range(6):
        noisy.scale = float(k // 3)
        assert equal(evaluate(x), evaluate.__wrapped__(x))
    assert refused(evaluate) == [""]
    assert replays(evaluate) == [4]
    noisy.linear = nn.Linear(3, 3)
    assert equal(evaluate(x), evaluate.__wrapped__(x))


def test_many_rates_with_replays_between():
    w = fg.ones(2, requires_grad=True)
    optimizer = fg.optim.SGD([w], lr=1.0)

    @fg.compile
    def step(x):
        optimizer.zero_grad()
        (w * x).sum().backward()
        optimizer.step()

    twin = 1.0
    for k in range(1, 25):
        optimizer.param_groups[0]["lr"] = 1 / k
        for _ in range(3):
            step(fg.ones(2))
            twin -= 1 / k
        assert w.tolist() == pytest.approx([twin] * 2, rel=1e-5)
    assert refused(step) == [""]
    assert replays(step)[0] >= 40


get_scale = operator.attrgetter("scale0")


@pytest.mark.parametrize("how", ["computed", "getter", "alias"])
def test_attributes_by_computed_names(how):
    class Scales(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale0, self.scale1 = 1.0, 2.0

        def forward(self, x):
            if how == "getter":
                return x * get_scale(self)
            if how == "alias":
                read = alias_of_getattr
                return x * read(self, "scale" + str(0))
            return x * sum(getattr(self, f"scale{k}") for k in range(2))

    model = Scales()
    compiled = fg.compile(model)
    x = fg.ones(1)
    for k in range(3):
        model.scale0 = float(k)
        for _ in range(2):
            assert fg.equal(compiled(x), model(x))


alias_of_getattr = getattr


def test_destructors_of_garbage_are_no_part_of_a_call():
    table = fg.zeros(1)
    seen = []

    class Late:
        def __init__(self):
            self.me = self

        def __del__(self):
            table.add_(1)

    def f(x):
        seen.append(gc.isenabled())
        Late()
        return [x * k for k in range(2000)][-1]

    assert gc.isenabled()
    assert fg.compile(f)(fg.ones(1)).item() == 1999
    assert gc.isenabled()
    assert seen == [False]
    gc.collect()
    assert table.item() == 1
    with pytest.raises(ValueError, match="stop"):
        fg.compile(lambda x: [x, int("stop")])(fg.ones(1))
    assert gc.isenabled()
