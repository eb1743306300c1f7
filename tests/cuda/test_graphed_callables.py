"""`make_graphed_callables` over GPUs that are none: what PyTorch documents, against the same calls without graphs."""

from __future__ import annotations

import copy
from collections import namedtuple

import pytest

import fastgrad as fg
import fastgrad.nn.functional as F
from tests.cuda.steps import calls_of

pytestmark = pytest.mark.usefixtures("all_is_done", "no_graphs_are_left")
make = fg.cuda.make_graphed_callables


def mlp(p=0.0):
    fg.manual_seed(0)
    return fg.nn.Sequential(fg.nn.Linear(4, 8), fg.nn.ReLU(), fg.nn.Dropout(p), fg.nn.Linear(8, 3)).cuda()


def batch(k, requires_grad=False):
    fg.manual_seed(100 + k)
    return fg.rand(5, 4, device="cuda").requires_grad_(requires_grad)


def train(model, steps=6, each=1):
    """Losses of some steps, of several backwards each, and the weights in the end."""
    optimizer, losses = fg.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), []
    for k in range(steps):
        optimizer.zero_grad()
        for j in range(each):
            x = batch(10 * k + j)
            fg.manual_seed(k)
            loss = (model(x) ** 2).mean()
            loss.backward()
            losses.append(loss.item())
        optimizer.step()
    return losses, [p.tolist() for p in model.parameters()]


@pytest.mark.parametrize("each", [1, 3])
@pytest.mark.parametrize("p", [0.0, 0.5])
def test_training_a_graphed_module_equals_eager(driver, p, each):
    wanted = train(mlp(p), each=each)
    model = mlp(p)
    assert make(model, (batch(0),)) is model
    assert train(model, each=each) == wanted


def test_a_call_is_one_graph_each_way(driver):
    model = make(mlp(), (batch(0),))
    model(batch(1)).sum().backward()
    x = batch(2)
    calls = calls_of(driver, lambda: model(x))
    assert (calls["cuGraphLaunch"], calls["cuLaunchKernel"]) == (1, 1)  # the argument is copied
    y = model(x).sum()
    assert calls_of(driver, y.backward)["cuGraphLaunch"] == 1
    assert y.grad_fn is not None


def test_gradients_of_arguments(driver):
    def f(x, y):
        return (x * y).sin() @ y.t()

    graphed = make(f, (batch(0, True), batch(1, True)))
    for k in range(3):
        seen = []
        for function in (f, graphed):
            x, y = batch(2 * k, True), batch(2 * k + 1, True)
            out = function(x, y)
            out.square().sum().backward()
            seen.append((out.tolist(), x.grad.tolist(), y.grad.tolist()))
        assert seen[0] == seen[1]


def test_an_argument_that_is_the_sample_is_not_copied(driver):
    x = batch(0)
    graphed = make(lambda t: t * 2 + 1, (x,))
    graphed(x)
    assert "cuLaunchKernel" not in calls_of(driver, lambda: graphed(x))


def test_a_chain_of_callables(driver):
    def loss(x, y):
        return F.mse_loss(x, y)

    def steps(first, second, criterion):
        found = []
        for k in range(4):
            x, y = batch(k), fg.ones(5, 3, device="cuda")
            out = criterion(second(F.relu(first(x))), y)
            out.backward()
            found.append(out.item())
        return found, [p.grad.tolist() for m in (first, second) for p in m.parameters()]

    fg.manual_seed(0)
    first, second = fg.nn.Linear(4, 6).cuda(), fg.nn.Linear(6, 3).cuda()
    wanted = steps(copy.deepcopy(first), copy.deepcopy(second), loss)
    hidden, out = (fg.rand(5, n, device="cuda").requires_grad_() for n in (6, 3))
    a, b, c = make((first, second, loss), ((batch(0),), (hidden,), (out, fg.ones(5, 3, device="cuda"))))
    assert (a, b) == (first, second)
    assert steps(a, b, c) == wanted


def test_train_and_eval(driver):
    model = make(mlp(0.5), (batch(0),))
    x = batch(1)
    model.eval()
    calls = calls_of(driver, lambda: model(x))
    assert "cuGraphLaunch" not in calls
    assert model(x).tolist() == mlp(0.5).eval()(x).tolist()
    model.train()
    assert calls_of(driver, lambda: model(x))["cuGraphLaunch"] == 1
    evaluating = make(mlp(0.5).eval(), (batch(0),))
    assert evaluating(x).tolist() == mlp(0.5).eval()(x).tolist()


Pair = namedtuple("Pair", "left right")


def test_containers(driver):
    def f(pair, more):
        return Pair(pair[0] + more["a"], [pair[1] * 2, {"b": more["a"] * 3}])

    sample = ((batch(0), batch(1)), {"a": batch(2)})
    graphed = make(f, sample)
    for k in range(2):
        args = ((batch(3 + k), batch(4 + k)), {"a": batch(5 + k)})
        wanted, found = f(*args), graphed(*args)
        assert type(found) is Pair
        assert found.left.tolist() == wanted.left.tolist()
        assert found.right[0].tolist() == wanted.right[0].tolist()
        assert found.right[1]["b"].tolist() == wanted.right[1]["b"].tolist()


def test_outputs_without_gradients(driver):
    def f(x):
        y = x * 3
        return y, (y > 1).to(fg.int64), x.detach() * 2, y.exp()

    graphed = make(f, (batch(0, True),))
    x = batch(1, True)
    y, n, d, e = graphed(x)
    assert (
        [t.requires_grad for t in (y, n, d, e)]
        == [t.requires_grad for t in f(x)]
        == [True, False, False, True]
    )
    y.sum().backward()  # and none for the last
    assert x.grad.tolist() == [[3] * 4] * 5
    none = make(lambda t: t.detach() + 1, (batch(0, True),))
    assert not none(x).requires_grad


def test_no_graph_of_gradients_where_none_are_wanted(driver):
    graphed = make(lambda t: t * 2 + 1, (batch(0),))
    with fg.no_grad():
        assert graphed(batch(1)).tolist() == (batch(1) * 2 + 1).tolist()
    assert not graphed(batch(1)).requires_grad


def test_inputs_that_are_not_used(driver):
    def f(x, y):
        return x * 2 + 1

    samples = batch(0, True), batch(1, True)
    with pytest.raises(RuntimeError, match="allow_unused"):
        make(f, samples)
    assert not fg.cuda.is_current_stream_capturing()
    graphed = make(f, samples, allow_unused_input=True)
    x, y = batch(2, True), batch(3, True)
    graphed(x, y).sum().backward()
    assert x.grad.tolist() == [[2] * 4] * 5
    assert y.grad is None


def test_how_often_it_is_warmed_up(driver):
    seen = []

    def f(x):
        seen.append(fg.cuda.is_current_stream_capturing())
        return x * 2 + 1

    make(f, (batch(0),), num_warmup_iters=5)
    assert seen == [False] * 5 + [True]
    seen.clear()
    make(f, (batch(0),), num_warmup_iters=0)
    assert seen == [True]


def test_a_backward_cannot_be_differentiated(driver):
    graphed = make(lambda t: t.exp() * t, (batch(0, True),))
    x = batch(1, True)
    (g,) = fg.autograd.grad(graphed(x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match=r"does not require grad|once_differentiable"):
        g.sum().backward()


def test_hooks_come_afterwards(driver):
    model, seen = mlp(), []
    handle = model.register_forward_hook(lambda *_: seen.append("hook"))
    with pytest.raises(AssertionError, match="must not have hooks"):
        make(model, (batch(0),))
    handle.remove()
    for register in (model.register_forward_pre_hook, model.register_full_backward_hook):
        handle = register(lambda *_: None)
        with pytest.raises(AssertionError, match="must not have hooks"):
            make(model, (batch(0),))
        handle.remove()
    make(model, (batch(0),))
    model.register_forward_hook(lambda *_: seen.append("hook"))
    model(batch(1))
    model(batch(1))
    assert seen == ["hook", "hook"]


def test_what_is_refused(driver):
    class Trainable(fg.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("b", fg.ones(4, device="cuda").requires_grad_())

        def forward(self, x):
            return x * self.b

    with pytest.raises(AssertionError, match="only parameters may be trainable"):
        make(Trainable(), (batch(0),))
    with pytest.raises(AssertionError, match="only Tensors"):
        make(lambda x, n: x * n, (batch(0), 2))
    with pytest.raises(TypeError, match="tensors alone, but got int"):
        make(lambda x: (x * 2, 3), (batch(0),))
    with pytest.raises(TypeError, match="expected a callable or a module, but got int"):
        make(3, (batch(0),))
    with pytest.raises(TypeError, match="tuple of tensors, but got Tensor"):
        make(lambda x: x, batch(0))
    with pytest.raises(ValueError, match="each of the 2 callables"):
        make((F.relu, F.relu), ((batch(0),),))
    with pytest.raises(TypeError, match="num_warmup_iters has to be an int"):
        make(F.relu, (batch(0),), num_warmup_iters=1.5)
    with pytest.raises(RuntimeError, match="capturing"):
        make(lambda x: x * x.sum().item(), (batch(0),), num_warmup_iters=0)
    assert not fg.cuda.is_current_stream_capturing()


def test_arguments_that_do_not_fit(driver):
    graphed = make(lambda x: x * 2 + 1, (batch(0),))
    with pytest.raises(RuntimeError, match=r"tensor 0 of sizes \[5, 4\] and .*float32, but got \[3, 4\]"):
        graphed(fg.ones(3, 4, device="cuda"))
    with pytest.raises(RuntimeError, match=r"but got .*float64"):
        graphed(batch(1).double())
    with pytest.raises(TypeError, match="made for 1 tensors, but got 2"):
        graphed(batch(0), batch(1))
    with pytest.raises(TypeError, match="tensors alone, but got int"):
        graphed(3)
    assert graphed(batch(1).t().contiguous().t()).tolist() == (batch(1) * 2 + 1).tolist()


def test_a_pool_that_is_given(driver):
    pool = fg.cuda.graph_pool_handle()
    graphed = make(lambda x: x * 2 + 1, (batch(0),), pool=pool)
    g = fg.cuda.CUDAGraph()
    x = batch(1)
    with fg.cuda.graph(g, pool=pool):
        y = x + 1
    g.replay()
    assert y.tolist() == (batch(1) + 1).tolist()
    del graphed


def test_gradients_that_were_kept_stay_as_they_were(driver):
    model = make(mlp(), (batch(0),))
    model(batch(1)).sum().backward()
    kept = [p.grad for p in model.parameters()]
    before = [g.tolist() for g in kept]
    model.zero_grad()
    (model(batch(2)) * 3).sum().backward()
    assert [g.tolist() for g in kept] == before
