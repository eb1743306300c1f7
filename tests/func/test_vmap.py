"""`vmap`: rules for ops against a loop over the batch and against PyTorch; arguments, randomness, what is refused."""

from __future__ import annotations

import threading
import warnings

import numpy as np
import pytest
from vmap_cases import CASES, normal

import fastgrad as fg
import fastgrad.nn.functional as F
from fastgrad.func import grad, vmap
from fastgrad.func.trees import leaves_of


def _close(ours, theirs, of_largest=0.0):
    """`of_largest`: a tolerance for sums of large terms, whose order may differ, as a part of the largest element."""
    for a, b in zip(leaves_of(ours), leaves_of(theirs), strict=True):
        assert tuple(a.shape) == tuple(b.shape)
        assert str(a.dtype).split(".")[1] == str(b.dtype).split(".")[1]
        a, b = a.detach().numpy(), b.detach().numpy()
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=max(2e-5, of_largest * np.abs(b).max(initial=0)))


def _each(function, arguments, dims):
    """The function called for each element, results stacked."""
    dims = dims if isinstance(dims, tuple) else (dims,) * len(arguments)
    size = next(a.shape[d] for a, d in zip(arguments, dims, strict=True) if d is not None)
    rows = [
        leaves_of(
            function(*(a if d is None else a.select(d, k) for a, d in zip(arguments, dims, strict=True)))
        )
        for k in range(size)
    ]
    return [fg.stack(column) for column in zip(*rows, strict=True)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_is_a_loop(case):
    arguments = [fg.tensor(a) for a in case.arguments]

    def function(*given):
        return case.function(fg, F, *given)

    with warnings.catch_warnings():
        warnings.simplefilter("error")  # no op runs for each element
        ours = vmap(function, case.in_dims)(*arguments)
    _close(leaves_of(ours), _each(function, arguments, case.in_dims))


@pytest.mark.parity
def test_is_pytorchs():
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in CASES:
            theirs = torch.func.vmap(
                lambda *a, c=case: c.function(torch, torch.nn.functional, *a), case.in_dims
            )(*map(torch.tensor, case.arguments))
            ours = vmap(lambda *a, c=case: c.function(fg, F, *a), case.in_dims)(
                *map(fg.tensor, case.arguments)
            )
            _close(ours, theirs)


def test_gradients_of_each_element():
    """A pass over values is a pass for each element: by all rules that record."""
    done = 0
    for case in CASES:
        dims = case.in_dims if isinstance(case.in_dims, tuple) else (case.in_dims,) * len(case.arguments)
        if case.arguments[0].dtype != np.float32 or case.name.startswith(("in place", "nested", "no dim")):
            continue

        def loss(*given, c=case):
            out = leaves_of(c.function(fg, F, *given))
            return sum((o * o.cos()).sum() for o in out if o.dtype is fg.float32)

        arguments = [fg.tensor(a) for a in case.arguments]
        ours = vmap(grad(loss), dims)(*arguments)
        _close([ours], _each(grad(loss), arguments, dims), of_largest=4e-6)
        done += 1
    assert done > 40


@pytest.mark.parametrize("dims", [(0, 0), (None, 0), (0, None)])
def test_gradients_of_tables_have_none_for_padding(dims):
    tables = fg.tensor(normal(*(4,) * (dims[0] == 0), 3, 5))
    indices = fg.tensor([[0, 1], [2, 1], [1, 1], [2, 0]]) if dims[1] == 0 else fg.tensor([0, 1, 2, 1])

    def loss(table, index):
        return F.embedding(index, table, padding_idx=1).square().sum()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours = vmap(grad(loss), dims)(tables, indices)
        _close(
            [vmap(grad(lambda *a: grad(loss)(*a).sin().sum()), dims)(tables, indices)],
            _each(grad(lambda *a: grad(loss)(*a).sin().sum()), [tables, indices], dims),
        )
    _close([ours], _each(grad(loss), [tables, indices], dims))
    assert ours[:, 1].eq(0).all()


def test_a_zero_for_any_element_is_a_division_by_zero():
    numbers, divisors = fg.tensor([4, 5]), fg.tensor([2, 0])
    for function in (lambda a, b: a // b, lambda a, b: a % b, lambda a, b: a.clone().floor_divide_(b)):
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            vmap(function)(numbers, divisors)
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            vmap(vmap(function, (0, None)), (None, 0))(numbers, divisors)


def test_dimensions_of_results():
    x = fg.tensor(normal(4, 3, 5))
    a, b = vmap(lambda v: (v, v * 2), out_dims=(1, -1))(x)
    assert a.shape == (3, 4, 5)
    assert b.shape == (3, 5, 4)
    assert vmap(lambda v: v, in_dims=-1, out_dims=2)(x).shape == (4, 3, 5)
    assert vmap(lambda v: fg.ones(3), out_dims=None)(x).shape == (3,)
    assert vmap(lambda v: fg.ones(3))(x).shape == (4, 3)
    parts = vmap(lambda v: (v, {"a": v * 2}), out_dims=(1, -1), chunk_size=3)(x)
    _close(leaves_of(parts), [a, b])


def test_containers_and_names():
    x = fg.tensor(normal(4, 3))
    out = vmap(lambda d, n, scale=None: {"y": d["a"] * n + scale}, in_dims=({"a": 0}, None))(
        {"a": x}, 3, scale=x
    )
    _close([out["y"]], [x * 4])


def test_empty_batch():
    assert vmap(lambda x: (x * 2 + 1).sum())(fg.zeros(0, 3)).shape == (0,)
    assert vmap(lambda x: x @ fg.ones(3, 2))(fg.zeros(0, 3)).shape == (0, 2)


def test_an_op_without_a_rule_says_so():
    x = fg.tensor(normal(2, 3, 3))
    with pytest.warns(UserWarning, match="performance drop .* cosine_similarity"):
        out = vmap(lambda v: F.cosine_similarity(v[0], v[1], dim=0))(x)
    _close([out], [fg.stack([F.cosine_similarity(v[0], v[1], dim=0) for v in x])])


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda x: vmap(lambda v: v.item())(x), RuntimeError, "item"),
        (lambda x: vmap(lambda v: v if v > 0 else -v)(x), RuntimeError, "data-dependent control flow"),
        (lambda x: vmap(lambda v: v.numpy())(x[:, None]), RuntimeError, "memory"),
        (lambda x: vmap(lambda v: v.tolist())(x[:, None]), RuntimeError, "memory"),
        (lambda x: vmap(lambda v: fg.nonzero(v))(x[:, None]), RuntimeError, "dynamic shape"),
        (lambda x: vmap(lambda v: v[v > 0])(x[:, None]), RuntimeError, "dynamic shape"),
        (lambda x: vmap(lambda v: fg.ones(()).add_(v))(x), RuntimeError, "out-of-place"),
        (lambda x: vmap(lambda v: v.backward())(x), RuntimeError, "backward"),
        (lambda x: vmap(lambda v: fg.randn(2))(x), RuntimeError, "randomness"),
        (lambda x: vmap(lambda v: F.dropout(fg.ones(2)))(x), RuntimeError, "randomness"),
        (lambda x: vmap(lambda v: v, randomness="bad")(x), RuntimeError, "randomness"),
        (lambda x: vmap(lambda v: v, chunk_size=0)(x), ValueError, "chunk_size"),
        (lambda x: vmap(lambda v: v)(3), ValueError, "non-Tensor"),
        (lambda x: vmap(lambda v: v)(fg.ones(())), ValueError, "dimensionality 0"),
        (lambda x: vmap(lambda v: v.sum(5))(x[:, None]), IndexError, r"range of \[-1, 0\], but got 5"),
        (lambda x: vmap(lambda v: v.softmax(-2))(x[:, None]), IndexError, "out of range"),
        (lambda x: vmap(lambda v: v.select(-5, 0))(x[:, None]), IndexError, "out of range"),
        (lambda x: vmap(lambda v: v.sum(2**62))(x[:, None]), IndexError, "out of range"),
        (lambda x: vmap(lambda v, w: v)(x, fg.ones(3)), ValueError, "same size"),
        (lambda x: vmap(lambda v: v, in_dims=2)(x), ValueError, "in_dim=2"),
        (lambda x: vmap(lambda v: v, in_dims=(0, 0))(x), ValueError, "not compatible"),
        (lambda x: vmap(lambda v: v, in_dims="a")(x), ValueError, "in_dims"),
        (lambda x: vmap(lambda v: v, in_dims=("a",))(x), ValueError, "integer dimension"),
        (lambda x: vmap(lambda v: v, in_dims=(None,))(x), ValueError, "at least one"),
        (lambda x: vmap(lambda: 1)(), ValueError, "no inputs"),
        (lambda x: vmap(lambda v: 3)(x), ValueError, "must only return Tensors"),
        (lambda x: vmap(lambda v: None)(x), ValueError, "must only return Tensors"),
        (lambda x: vmap(lambda v: v, out_dims=None)(x), ValueError, "out_dim is None"),
        (lambda x: vmap(lambda v: v, out_dims=1)(x), IndexError, "out of range"),
        (lambda x: vmap(lambda v: v, out_dims=(0, 1))(x), ValueError, "not compatible"),
        (lambda x: vmap(lambda v: v, out_dims="a")(x), ValueError, "out_dims"),
    ],
)  # fmt: skip
def test_what_is_refused(call, error, said):
    with pytest.raises(error, match=said):
        call(fg.ones(2))


@pytest.mark.parametrize(
    "use",
    [
        lambda x: x + 1, lambda x: -x, lambda x: x.sum(), lambda x: fg.add(x, x), lambda x: x[0], lambda x: x.item(),
        lambda x: x.numpy(), lambda x: x.normal_(), lambda x: x.fill_(1.0), lambda x: x.zero_(), lambda x: x @ x,
        lambda x: fg.ones(3) * x, lambda x: fg.ones(3).add_(x), lambda x: fg.cat([x, fg.ones(3)]), lambda x: x.tolist(),
        lambda x: x.backward(), lambda x: fg.ones(3).copy_(x), lambda x: x.__setitem__(0, 1.0), lambda x: bool(x[0]),
        lambda x: fg.from_numpy(x), lambda x: fg.tensor(x), lambda x: x.to(fg.float64), lambda x: x.data_ptr(),
    ],
)  # fmt: skip
def test_what_has_left_is_refused(use):
    """Nobody takes the first element for the batch."""
    left = []
    vmap(lambda x: left.append(x) or x)(fg.ones(2, 3))
    with pytest.raises((RuntimeError, TypeError)):
        use(left[0])
    left.clear()


def test_random_numbers():
    fg.manual_seed(1)

    def draw(x):
        return (
            fg.randn(6), F.dropout(x, 0.5), F.dropout(fg.ones(6)), x.clone().normal_(), fg.randint(0, 1 << 40, (6,)),
            fg.rand_like(x), fg.randperm(6), fg.normal(0.0, 1.0, (6,)), x.clone().uniform_(),
        )  # fmt: skip

    for out in vmap(draw, randomness="different")(fg.ones(2, 6)):
        assert out.shape == (2, 6)
    assert (
        sum(out[0].tolist() != out[1].tolist() for out in vmap(draw, randomness="different")(fg.ones(2, 6)))
        > 5
    )
    for out in vmap(draw, randomness="same")(fg.ones(2, 6)):
        assert out[0].tolist() == out[1].tolist()


def test_hooks_see_elements():
    seen = []

    def loss(x):
        hidden = x.sin()
        hidden.register_hook(lambda g: seen.append(tuple(g.shape)) or g * 2)
        return hidden.sum()

    assert vmap(grad(loss))(fg.zeros(2, 3)).tolist() == [[2.0] * 3] * 2
    assert seen == [(3,)]


def test_passes_within():
    def inner(x):
        own = x.detach().clone().requires_grad_()
        (found,) = fg.autograd.grad((own * own).sum(), own)
        return found

    assert vmap(inner)(fg.tensor([[1.0], [2.0]])).tolist() == [[2.0], [4.0]]


def test_threads_have_levels_of_their_own():
    failed = []

    def work(n):
        for _ in range(50):
            out = vmap(lambda x: (x * n).sum())(fg.ones(3, 2))
            if out.tolist() != [2.0 * n] * 3:
                failed.append(out)

    threads = [threading.Thread(target=work, args=(n,)) for n in (1, 2, 3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed


def test_what_is_raised_within_leaves_nothing_on():
    def broken(x):
        raise KeyError("mine")

    with pytest.raises(KeyError):
        vmap(broken)(fg.ones(2))
    with pytest.raises(KeyError):
        vmap(lambda x: vmap(broken)(x))(fg.ones(2, 2))
    assert fg.randn(2).shape == (2,)
    assert vmap(lambda x: x + 1)(fg.ones(2)).tolist() == [2.0, 2.0]


def test_tensors_show_themselves():
    shown = []
    vmap(lambda x: shown.append((repr(x), x.shape, x.dtype, x.dim(), x.requires_grad)) or x)(fg.ones(2, 3))
    text, *facts = shown[0]
    assert text.startswith("BatchedTensor(lvl=1, bdim=0, value=")
    assert facts == [(3,), fg.float32, 1, False]


def test_strides_of_memory_mean_nothing_within():
    with pytest.raises(NotImplementedError, match="not supported within vmap"):
        fg.vmap(lambda x: fg.as_strided(x, (2,), (1,)))(fg.ones(3, 4))
