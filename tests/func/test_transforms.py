"""Transforms that differentiate, against PyTorch's and against each other: values, nesting, containers, errors."""

from __future__ import annotations

import numpy as np
import pytest

import fastgrad as fg
import fastgrad.nn.functional as F
from fastgrad import func
from fastgrad.func.trees import leaves_of

X = np.array([0.3, -1.2, 0.7], np.float32)

# Functions of a package, its ``nn.functional``, its ``func`` and a vector.
PROGRAMS = {
    "grad": lambda fg, f, t, x: t.grad(lambda v: v.sin().sum())(x),
    "grad twice": lambda fg, f, t, x: t.grad(lambda v: t.grad(lambda w: (w**3).sum())(v).sum())(x),
    "grad and value": lambda fg, f, t, x: t.grad_and_value(lambda v, w: (v * w).sum(), argnums=(0, 1))(
        x, x + 1
    ),
    "aux": lambda fg, f, t, x: t.grad(lambda v: ((v * v).sum(), {"a": v * 2}), has_aux=True)(x),
    "containers": lambda fg, f, t, x: t.grad(lambda d, k=1: (d["a"] * d["b"][0]).sum() * k)(
        {"a": x, "b": (x + 1,)}, k=3
    ),
    "unused": lambda fg, f, t, x: t.grad(lambda v, w: v.sum(), argnums=1)(x, x),
    "vjp": lambda fg, f, t, x: t.vjp(lambda v: (v.exp(), {"s": v.sum()}), x)[1]((x, {"s": x[0]})),
    "jvp": lambda fg, f, t, x: t.jvp(lambda v, w: (v * w, v.sum()), (x, x + 1), (x, x * 2)),
    "jvp of jvp": lambda fg, f, t, x: t.jvp(lambda v: t.jvp(lambda w: w.sin(), (v,), (v,))[1], (x,), (x,)),
    "grad of jvp": lambda fg, f, t, x: t.grad(lambda v: t.jvp(lambda w: w.sin() * w, (v,), (v,))[1].sum())(x),
    "jvp of grad": lambda fg, f, t, x: t.jvp(t.grad(lambda v: (v.sin() * v).sum()), (x,), (x,)),
    "independent": lambda fg, f, t, x: t.jvp(lambda v: fg.ones(2), (x,), (x,)),
    "jacrev": lambda fg, f, t, x: t.jacrev(lambda v, w: {"y": v * w.sum()}, argnums=(0, 1))(x, x + 1),
    "jacfwd": lambda fg, f, t, x: t.jacfwd(lambda v, w: (v * w.sum(), v.sum()), argnums=(0, 1))(x, x + 1),
    "of an element": lambda fg, f, t, x: (t.jacrev(lambda v: v * 2)(x[0]), t.jacfwd(lambda v: x * v)(x[0])),
    "hessian": lambda fg, f, t, x: t.hessian(lambda v: (v.sin() * v.sum()).sum())(x),
    "hessian of two": lambda fg, f, t, x: t.hessian(lambda v, w: (v * v * w).sum(), argnums=(0, 1))(x, x + 1),
    "third order": lambda fg, f, t, x: t.jacfwd(t.hessian(lambda v: (v**4).sum()))(x),
    "captured": lambda fg, f, t, x: t.grad(lambda v: t.grad(lambda w: (w * w * v).sum())(x).sum())(x),
    "without history": lambda fg, f, t, x: t.grad(lambda v: (v.detach() * v).sum())(x),
    "composed": lambda fg, f, t, x: t.jacrev(lambda v: f.softmax(f.linear(v, fg.eye(3)), 0))(x),
}


@pytest.mark.parity
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", PROGRAMS)
def test_is_pytorchs(name):
    torch = pytest.importorskip("torch")
    program = PROGRAMS[name]
    theirs = leaves_of(program(torch, torch.nn.functional, torch.func, torch.tensor(X)))
    ours = leaves_of(program(fg, F, func, fg.tensor(X)))
    assert len(theirs) == len(ours)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-6)


def test_by_hand():
    x = fg.tensor([1.0, 2.0], dtype=fg.float64)
    assert func.grad(lambda v: (v**3).sum())(x).tolist() == [3.0, 12.0]
    assert func.hessian(lambda v: (v**3).sum())(x).tolist() == [[6.0, 0.0], [0.0, 12.0]]
    assert func.jvp(lambda v: v * v, (x,), (x,))[1].tolist() == [2.0, 8.0]
    out, jvp_fn = func.linearize(lambda v: {"y": v * v.sum()}, x)
    assert out["y"].tolist() == [3.0, 6.0]
    for t in ([1.0, 0.0], [0.0, 1.0]):
        direction = fg.tensor(t, dtype=fg.float64)
        assert (
            jvp_fn(direction)["y"].tolist() == func.jvp(lambda v: v * v.sum(), (x,), (direction,))[1].tolist()
        )
    _, vjp_fn = func.vjp(lambda v: v * v, x)
    assert vjp_fn(x)[0].tolist() == vjp_fn(x)[0].tolist() == [2.0, 8.0]


def test_what_is_made_has_a_history_where_something_else_may_want_it():
    x, w = fg.ones(2), fg.ones(2, requires_grad=True)
    assert not func.grad(lambda v: (v * v).sum())(x).requires_grad
    found = func.grad(lambda v: (v * v * w).sum())(x)
    found.sum().backward()
    assert w.grad.tolist() == [2.0, 2.0]
    assert func.grad(lambda v: (v * v).sum())(w).requires_grad
    with fg.no_grad():
        assert func.grad(lambda v: (v * v).sum())(w).tolist() == [2.0, 2.0]
        assert not func.grad(lambda v: (v * v * w).sum())(x).requires_grad
    assert not func.jacrev(lambda v: v * 2)(x).requires_grad
    assert func.jacrev(lambda v: v * w)(x).requires_grad


def test_modules_as_functions():
    layer = fg.nn.Sequential(fg.nn.Linear(2, 3), fg.nn.Tanh(), fg.nn.Linear(3, 1))
    params = {name: p.detach() for name, p in layer.named_parameters()}
    x = fg.randn(5, 2)

    def loss(p, row):
        return func.functional_call(layer, p, row).sum()

    each = func.vmap(func.grad(loss), in_dims=(None, 0))(params, x)
    for k in range(5):
        layer.zero_grad()
        layer(x[k]).sum().backward()
        for name, p in layer.named_parameters():
            np.testing.assert_allclose(each[name][k].numpy(), p.grad.numpy(), rtol=1e-5, atol=1e-6)
    assert dict(layer.named_parameters())["0.weight"] is layer[0].weight
    with pytest.raises(RuntimeError, match="Unexpected key"):
        func.functional_call(layer, {"no": x}, x, strict=True)
    with pytest.raises(RuntimeError, match="Missing key"):
        func.functional_call(layer, {}, x, strict=True)
    with pytest.raises(ValueError, match="multiple dictionaries"):
        func.functional_call(layer, (params, params), x)
    with pytest.raises(TypeError, match="Tensor"):
        func.functional_call(layer, {"0.weight": 3}, x)
    with pytest.raises(AttributeError, match="no"):
        func.functional_call(layer, {"no.such": x}, x)


def test_models_as_one():
    models = [fg.nn.Linear(2, 3) for _ in range(4)]
    params, buffers = func.stack_module_state(models)
    assert params["weight"].shape == (4, 3, 2)
    assert params["weight"].requires_grad
    assert buffers == {}
    x = fg.randn(5, 2)
    out = func.vmap(lambda p, v: func.functional_call(models[0], p, v), in_dims=(0, None))(params, x)
    for k, model in enumerate(models):
        np.testing.assert_allclose(out[k].detach().numpy(), model(x).detach().numpy(), rtol=1e-5, atol=1e-6)
    out.sum().backward()
    assert params["weight"].grad.shape == (4, 3, 2)
    for bad, said in (([], "at least one"), ([models[0], fg.nn.ReLU()], "same class")):
        with pytest.raises(RuntimeError, match=said):
            func.stack_module_state(bad)
    models[0].eval()
    with pytest.raises(RuntimeError, match="training/eval"):
        func.stack_module_state(models)


def test_batch_norms_without_statistics():
    net = fg.nn.Sequential(
        fg.nn.Linear(2, 3),
        fg.nn.BatchNorm1d(3),
        fg.nn.Sequential(fg.nn.SyncBatchNorm(3)),
        fg.nn.InstanceNorm1d(3, track_running_stats=True),
    )
    x = fg.randn(5, 2)
    wanted = net[1](net[0](x)).detach()
    assert func.replace_all_batch_norm_modules_(net) is net
    for norm in (net[1], net[2][0]):
        assert norm.running_mean is norm.running_var is norm.num_batches_tracked is None
        assert not norm.track_running_stats
    assert net[3].track_running_stats
    assert net[3].running_mean is not None
    net.eval()
    np.testing.assert_allclose(net[1](net[0](x)).detach().numpy(), wanted.numpy(), rtol=1e-6)
    alone = fg.nn.BatchNorm2d(2)
    assert not func.replace_all_batch_norm_modules_(alone).track_running_stats
    first, batch = net[:2], fg.randn(4, 5, 2)
    rows = func.vmap(lambda v: first(v))(batch)
    for row, v in zip(rows, batch, strict=True):
        np.testing.assert_allclose(row.detach().numpy(), first(v).detach().numpy(), rtol=1e-5, atol=1e-6)
    for bad in (None, fg.ones(2), fg.nn.BatchNorm1d):
        with pytest.raises(TypeError, match="expected a Module"):
            func.replace_all_batch_norm_modules_(bad)


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda x: func.grad(lambda v: (v,))(x), RuntimeError, "return a Tensor"),
        (lambda x: func.grad(lambda v: v)(x), RuntimeError, "scalar Tensor"),
        (lambda x: func.grad(lambda v: v.sum(), has_aux=True)(x), RuntimeError, "has_aux"),
        (lambda x: func.grad(lambda v: v.sum(), argnums=1)(x), RuntimeError, "argnum=1"),
        (lambda x: func.grad(lambda v: v.sum(), argnums=())(x), RuntimeError, "non-empty"),
        (lambda x: func.grad(lambda v: v.sum(), argnums="a")(x), RuntimeError, "argnums"),
        (lambda x: func.grad(lambda v: v.sum(), argnums=(0, 0))(x), RuntimeError, "unique"),
        (lambda x: func.grad(lambda v: v.sum())(x.to(fg.int64)), RuntimeError, "floating point"),
        (lambda x: func.grad(lambda v: v.sum())(3), ValueError, "must be Tensor"),
        (lambda x: func.grad(lambda v: fg.tensor(1))(x), RuntimeError, "floating point"),
        (lambda x: func.vjp(lambda v: (v, 2), x), RuntimeError, "only tensors"),
        (lambda x: func.vjp(lambda v: v, x)[1](x[:1]), RuntimeError, "Mismatch in shape"),
        (lambda x: func.vjp(lambda v: v, x)[1]((x, x)), RuntimeError, "structure"),
        (lambda x: func.jvp(lambda v: v, x, x), RuntimeError, "tuple"),
        (lambda x: func.jvp(lambda v: v, (x,), (x[:1],)), RuntimeError, "different size"),
        (lambda x: func.jvp(lambda v: v, (x,), (x, x)), RuntimeError, "structure"),
        (lambda x: func.jvp(lambda v: v, (), ()), RuntimeError, "at least one"),
        (lambda x: func.jvp(lambda v: 3, (x,), (x,)), RuntimeError, "only tensors"),
        (lambda x: func.jvp(lambda v: fg.ones(2), (x,), (x,), strict=True), RuntimeError, "independent"),
        (lambda x: func.jacrev(lambda v: v, chunk_size=0), ValueError, "chunk_size"),
        (lambda x: func.jacfwd(lambda v: v, randomness="no"), RuntimeError, "randomness"),
        (lambda x: func.linearize(lambda v: v, x)[1](x[:1]), RuntimeError, "doesn't match"),
        (lambda x: func.functionalize(lambda v: v), NotImplementedError, "functionalize"),
    ],
)  # fmt: skip
def test_what_is_refused(call, error, said):
    with pytest.raises(error, match=said):
        call(fg.ones(2))
