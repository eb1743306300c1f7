"""Dual tensors, custom functions with `jvp` and `vmap`, products with Jacobians, and samples of many ops."""

from __future__ import annotations

import numpy as np
import pytest

import fastgrad as fg
import fastgrad.autograd.forward_ad as fwAD  # noqa: N812 - its usual name
from fastgrad import func
from fastgrad.autograd import Function, functional

X = [0.3, -1.2, 0.7]


class Square(Function):
    generate_vmap_rule = True
    calls: list = []

    @staticmethod
    def forward(x):
        return x * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.save_for_forward(inputs[0])

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 2 * x

    @staticmethod
    def jvp(ctx, t):
        Square.calls.append(t.shape)
        (x,) = ctx.saved_tensors
        return t * 2 * x


class Times(Function):
    seen: list = []

    @staticmethod
    def forward(x, y):
        return x * y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * y, g * x

    @staticmethod
    def vmap(info, in_dims, x, y):
        Times.seen.append((info.batch_size, info.randomness, in_dims))
        return Times.apply(x, y), 0


def test_duals():
    x, t = fg.tensor(X), fg.tensor([1.0, 2.0, 3.0])
    with fwAD.dual_level():
        dual = fwAD.make_dual(x, t)
        primal, tangent = fwAD.unpack_dual((dual * dual).sin())
        assert not primal.requires_grad
        assert not tangent.requires_grad
        np.testing.assert_allclose(tangent.numpy(), ((x * x).cos() * 2 * x * t).numpy(), rtol=1e-5)
        assert fwAD.unpack_dual(x).tangent is None
        assert fwAD.unpack_dual(dual).tangent.tolist() == t.tolist()
        changed = dual.clone()
        changed[0] = 5.0
        changed.mul_(2)
        assert fwAD.unpack_dual(changed).tangent.tolist() == [0.0, 4.0, 6.0]
        view = dual[1:]
        assert fwAD.unpack_dual(view).tangent.tolist() == [2.0, 3.0]
    assert fwAD.unpack_dual(dual).tangent is None


def test_duals_of_what_has_a_history():
    x = fg.tensor(X, requires_grad=True)
    with fwAD.dual_level():
        tangent = fwAD.unpack_dual(fwAD.make_dual(x, fg.ones(3)) ** 3).tangent
        tangent.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 6 * x.detach().numpy(), rtol=1e-5)


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda x: fwAD.make_dual(x, x[:1]), RuntimeError, "different size"),
        (lambda x: fwAD.make_dual(x, x.double()), RuntimeError, "dtype"),
        (lambda x: fwAD.make_dual(x, 1.0), TypeError, "Tensor"),
        (lambda x: fwAD.make_dual(None, x), TypeError, "Tensor"),
        (lambda x: fwAD.make_dual(x.long(), x.long()), ValueError, "floating point"),
        (lambda x: fwAD.enter_dual_level(), RuntimeError, "Nested"),
        (lambda x: fwAD.exit_dual_level(level=3), RuntimeError, "not the last"),
        (lambda x: fwAD.make_dual(x, x, level=2), RuntimeError, "level"),
        (lambda x: fwAD.unpack_dual(3), TypeError, "Tensor"),
    ],
)  # fmt: skip
def test_duals_that_are_refused(call, error, said):
    with fwAD.dual_level(), pytest.raises(error, match=said):
        call(fg.ones(2))
    with pytest.raises(RuntimeError, match="level"):
        fwAD.make_dual(fg.ones(2), fg.ones(2))
    with pytest.raises(RuntimeError, match="not the last"):
        fwAD.exit_dual_level()


def test_jvp_of_custom_functions():
    x = fg.tensor(X)
    Square.calls.clear()
    with fwAD.dual_level():
        tangent = fwAD.unpack_dual(Square.apply(fwAD.make_dual(x, fg.ones(3))).sin()).tangent
    np.testing.assert_allclose(tangent.detach().numpy(), (2 * x * (x * x).cos()).numpy(), rtol=1e-5)
    _, tangent = func.jvp(lambda v: func.jvp(Square.apply, (v,), (v,))[1], (x,), (x,))
    np.testing.assert_allclose(tangent.numpy(), (4 * x * x).numpy(), rtol=1e-5)
    assert len(Square.calls) == 3

    class Wrong(Square):
        @staticmethod
        def jvp(ctx, t):
            return t, t

    with pytest.raises(RuntimeError, match="number of forward gradients"):
        func.jvp(Wrong.apply, (x,), (x,))


def test_vmap_of_custom_functions():
    x = fg.arange(6.0).reshape(2, 3)
    assert func.vmap(Square.apply)(x).tolist() == (x * x).tolist()
    assert func.vmap(func.grad(lambda v: Square.apply(v).sum()))(x).tolist() == (2 * x).tolist()
    hessians = func.vmap(func.hessian(lambda v: Square.apply(v).sum()))(x)
    assert hessians.tolist() == [(2 * fg.eye(3)).tolist()] * 2
    Times.seen.clear()
    y = fg.tensor(X)
    np.testing.assert_allclose(func.vmap(Times.apply, (0, None))(x, y).numpy(), (x * y).numpy())
    found = func.vmap(func.grad(lambda v: Times.apply(v, y).sum()))(x)
    np.testing.assert_allclose(found.numpy(), y.expand(2, 3).numpy())
    assert Times.seen == [(2, "error", (0, None))] * 2

    class Plain(Function):
        @staticmethod
        def forward(ctx, v):
            return v * 1

    with pytest.raises(RuntimeError, match="does not have vmap support"):
        func.vmap(Plain.apply)(x)


# Calls of ``autograd.functional`` of a package.
PRODUCTS = {
    "vjp": lambda a, x: a.vjp(lambda v: v.sin(), x, x),
    "vjp of two": lambda a, x: a.vjp(lambda v, w: v.sin(), (x, x), x),
    "vjp of a number": lambda a, x: a.vjp(lambda v: v.sum(), x),
    "vjp with graph": lambda a, x: a.vjp(lambda v: v * v, x, x, create_graph=True),
    "vjp strict": lambda a, x: a.vjp(lambda v, w: v.sin(), (x, x), x, strict=True),
    "vjp strict, linear": lambda a, x: a.vjp(lambda v: v * 2, x, x, strict=True, create_graph=True),
    "vjp of no vector": lambda a, x: a.vjp(lambda v: v, x),
    "vjp of few": lambda a, x: a.vjp(lambda v: v, x, x[:2]),
    "vjp of many": lambda a, x: a.vjp(lambda v: v, x, (x, x)),
    "vjp of none": lambda a, x: a.vjp(lambda v: v, 3),
    "vjp to none": lambda a, x: a.vjp(lambda v: (v, 3), x, (x, x)),
    "jvp": lambda a, x: a.jvp(lambda v, w: (v * w, v), (x, x), (x, x * 2)),
    "jvp strict, linear": lambda a, x: a.jvp(lambda v: v * 2, x, x, strict=True, create_graph=True),
    "jvp of no vector": lambda a, x: a.jvp(lambda v: v, x),
    "jacobian": lambda a, x: a.jacobian(lambda v, w: (v * w, w.sum()), (x, x)),
    "jacobian vectorized": lambda a, x: a.jacobian(lambda v: v * v.sum(), x, vectorize=True),
    "jacobian forward": lambda a, x: a.jacobian(
        lambda v: v * v.sum(), x, vectorize=True, strategy="forward-mode"
    ),
    "jacobian forward alone": lambda a, x: a.jacobian(lambda v: v, x, strategy="forward-mode"),
    "jacobian of no strategy": lambda a, x: a.jacobian(lambda v: v, x, strategy="no"),
    "jacobian with graph": lambda a, x: a.jacobian(lambda v: v * v, x, create_graph=True),
    "jacobian strict": lambda a, x: a.jacobian(lambda v, w: (v * 1,), (x, x), strict=True),
    "jacobian strict vectorized": lambda a, x: a.jacobian(lambda v: v, x, strict=True, vectorize=True),
    "hessian": lambda a, x: a.hessian(lambda v: (v.sin() * v.sum()).sum(), x),
    "hessian of two": lambda a, x: a.hessian(lambda v, w: (v * v * w).sum(), (x, x)),
    "hessian forward": lambda a, x: a.hessian(
        lambda v: (v**3).sum(), x, vectorize=True, outer_jacobian_strategy="forward-mode"
    ),
    "hessian of one element": lambda a, x: a.hessian(lambda v: (v**3).sum().reshape(1), x),
    "hessian of linear": lambda a, x: a.hessian(lambda v: v.sum(), x),
    "hessian strict, linear": lambda a, x: a.hessian(lambda v: v.sum(), x, strict=True),
    "hessian of many": lambda a, x: a.hessian(lambda v: v, x),
    "hessian of tuple": lambda a, x: a.hessian(lambda v: (v.sum(),), x),
    "hvp": lambda a, x: a.hvp(lambda v: (v**3).sum(), x, x),
    "hvp of two": lambda a, x: a.hvp(lambda v, w: (v * w).sum(), (x, x), (x, x * 2), create_graph=True),
    "hvp of linear": lambda a, x: a.hvp(lambda v: v.sum(), x, x),
    "vhp": lambda a, x: a.vhp(lambda v: (v**3).sum(), x, x),
    "vhp strict, linear": lambda a, x: a.vhp(lambda v: v.sum(), x, x, strict=True),
    "vhp of many": lambda a, x: a.vhp(lambda v: v, x, x),
}


@pytest.mark.parity
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_are_pytorchs(name):
    torch = pytest.importorskip("torch")
    found = []
    for package in (torch, fg):
        try:
            found.append(func.trees.leaves_of(PRODUCTS[name](package.autograd.functional, package.tensor(X))))
        except Exception as error:
            found.append(error)
    theirs, ours = found
    if isinstance(theirs, Exception):
        assert type(ours) is type(theirs), ours
        return
    for a, b in zip(ours, theirs, strict=True):
        assert a.requires_grad == b.requires_grad or name == "hessian forward"  # PyTorch leaves a node there
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_products_by_hand():
    x = fg.tensor([1.0, 2.0])
    assert (
        functional.jvp(lambda v: v * v, x, x)[1].tolist() == functional.vjp(lambda v: v * v, x, x)[1].tolist()
    )
    assert functional.hessian(lambda v: (v**3).sum(), x).tolist() == [[6.0, 0.0], [0.0, 12.0]]


def test_gradients_in_batches():
    x = fg.tensor(X, requires_grad=True)
    w = fg.ones(2, requires_grad=True)
    out = x.sin()
    (found,) = fg.autograd.grad(out, x, fg.eye(3), retain_graph=True, is_grads_batched=True)
    np.testing.assert_allclose(found.numpy(), np.diag(np.cos(np.float32(X))), rtol=1e-5)
    found = fg.autograd.grad(
        out, (x, w), fg.eye(3), retain_graph=True, is_grads_batched=True, allow_unused=True
    )
    assert found[1] is None
    for grads, error in ((fg.ones(3, 2), RuntimeError), (None, RuntimeError), (fg.ones(0, 3), IndexError)):
        with pytest.raises(error):
            fg.autograd.grad(out, x, grads, retain_graph=True, is_grads_batched=True)
    fg.autograd.grad(out, x, fg.eye(3), is_grads_batched=True)
    with pytest.raises(RuntimeError):
        fg.autograd.grad(out, x, fg.ones(3))


@pytest.mark.parity
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["float64", "complex128"])
def test_tangents_of_samples_are_pytorchs(kind: str):
    """The first samples that PyTorch's table has for its ops: tangents by two passes against those of forward mode."""
    torch = pytest.importorskip("torch")
    from torch.testing._internal.common_methods_invocations import op_db

    names = [
        "exp",
        "log",
        "sin",
        "cos",
        "tan",
        "tanh",
        "sigmoid",
        "sqrt",
        "rsqrt",
        "square",
        "abs",
        "add",
        "sub",
        "mul",
        "div",
        "pow",
        "maximum",
        "minimum",
        "clamp",
        "sum",
        "mean",
        "amax",
        "amin",
        "var",
        "std",
        "cumsum",
        "cumprod",
        "prod",
        "logsumexp",
        "softmax",
        "log_softmax",
        "matmul",
        "mm",
        "bmm",
        "mv",
        "dot",
        "addmm",
        "cat",
        "stack",
        "transpose",
        "permute",
        "reshape",
        "view",
        "squeeze",
        "unsqueeze",
        "narrow",
        "select",
        "index_select",
        "gather",
        "scatter_add",
        "masked_fill",
        "tril",
        "triu",
        "diagonal",
        "flip",
        "roll",
        "expand",
        "outer",
        "kron",
        "lerp",
        "atan2",
        "hypot",
        "logaddexp",
        "erf",
        "lgamma",
        "nn.functional.relu",
        "nn.functional.gelu",
        "nn.functional.silu",
        "nn.functional.linear",
        "nn.functional.layer_norm",
        "nn.functional.conv2d",
        "nn.functional.avg_pool2d",
        "nn.functional.mse_loss",
        "nn.functional.softplus",
    ]
    table = {op.name: op for op in op_db}
    tried = 0
    for name in names:
        op = table.get(name)
        ours = fg
        for part in name.split("."):
            ours = getattr(ours, part, None)
        dtype = getattr(torch, kind)
        if op is None or ours is None or dtype not in op.supported_dtypes("cpu"):
            continue
        if dtype.is_complex and name == "nn.functional.silu":
            continue  # PyTorch has no gradient of it there, and a tangent that differences contradict
        for sample in list(op.sample_inputs("cpu", dtype, requires_grad=False))[:4]:
            tried += _compared(torch, func, op, ours, sample)
    assert tried > 100


def numbers(t):
    return t.detach().resolve_conj().resolve_neg().numpy()


def _compared(torch, func, op, ours, sample):
    """Whether a sample could be compared."""
    primal = sample.input
    if not isinstance(primal, torch.Tensor) or primal.numel() == 0:
        return 0
    tangent = torch.ones_like(primal) * (1 + 2j if primal.is_complex() else 1)
    if any(isinstance(a, (torch.dtype, torch.device)) for a in (*sample.args, *sample.kwargs.values())):
        return 0
    theirs = torch.func.jvp(lambda x: op(x, *sample.args, **sample.kwargs), (primal,), (tangent,))

    def brought(value):
        if isinstance(value, torch.Tensor):
            return fg.tensor(numbers(value))
        return type(value)(map(brought, value)) if isinstance(value, (tuple, list)) else value

    args = [brought(a) for a in sample.args]
    kwargs = {key: brought(value) for key, value in sample.kwargs.items()}
    try:
        ours(brought(primal), *args, **kwargs)
    except (TypeError, RuntimeError, NotImplementedError):
        return 0  # arguments that this package does not take
    found = func.jvp(lambda x: ours(x, *args, **kwargs), (brought(primal),), (brought(tangent),))
    for a, b in zip(func.trees.leaves_of(found), func.trees.leaves_of(theirs), strict=True):
        np.testing.assert_allclose(numbers(a), numbers(b), rtol=1e-6, atol=1e-8, err_msg=op.name)
    return 1
