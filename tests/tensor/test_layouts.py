"""In which order the elements of new tensors lie in memory: memory formats, and strides that follow the operands."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import fastgrad as fg

FORMATS = ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")


def image() -> Any:
    return fg.arange(120.0).reshape(2, 3, 4, 5)


def test_there_are_four_formats():
    assert [repr(getattr(fg, name)) for name in FORMATS] == [f"fastgrad.{name}" for name in FORMATS]
    assert all(isinstance(getattr(fg, name), fg.memory_format) for name in FORMATS)
    with pytest.raises(TypeError, match="cannot create"):
        fg.memory_format()


def test_formats_survive_pickling():
    import copy
    import pickle

    for name in FORMATS:
        assert pickle.loads(pickle.dumps(getattr(fg, name))) is getattr(fg, name)
        assert copy.deepcopy(getattr(fg, name)) is getattr(fg, name)


def test_a_copy_in_a_format_has_the_same_elements():
    x = image()
    last = x.contiguous(memory_format=fg.channels_last)
    assert last.stride() == (60, 1, 15, 3)
    assert last.is_contiguous(memory_format=fg.channels_last)
    assert not last.is_contiguous()
    assert last.contiguous(memory_format=fg.channels_last) is last
    assert np.array_equal(last.numpy(), x.numpy())
    assert np.array_equal(last.contiguous().numpy(), x.numpy())
    assert last.contiguous().stride() == x.stride()


@pytest.mark.parametrize("name", ["clone", "contiguous", "to"])
def test_a_format_of_other_dimensions_is_refused(name):
    for x, wrong in ((fg.ones(2, 3), fg.channels_last), (image(), fg.channels_last_3d)):
        with pytest.raises(RuntimeError, match="required rank"):
            getattr(x, name)(memory_format=wrong)


@pytest.mark.parametrize("name", ["clone", "contiguous", "is_contiguous", "to"])
def test_what_is_no_format_is_refused(name):
    for wrong in ("channels_last", 2, fg.float32):
        with pytest.raises(TypeError):
            getattr(image(), name)(memory_format=wrong)


def test_preserving_is_no_format_to_be_contiguous_in():
    for name in ("contiguous", "is_contiguous"):
        with pytest.raises(RuntimeError, match="preserve memory format is unsupported"):
            getattr(image(), name)(memory_format=fg.preserve_format)


def test_modules_go_to_a_format_where_it_fits():
    net = fg.nn.Sequential(fg.nn.Conv2d(3, 8, 3), fg.nn.Linear(4, 5))
    before = net[0].weight.detach().numpy().copy()
    net.to(memory_format=fg.channels_last)
    assert net[0].weight.is_contiguous(memory_format=fg.channels_last)
    assert net[1].weight.is_contiguous()
    assert np.array_equal(net[0].weight.detach().numpy(), before)


def test_a_leaf_gets_a_gradient_that_lies_as_it_does():
    w = fg.randn(4, 3, 2, 2).contiguous(memory_format=fg.channels_last).requires_grad_()
    (w.contiguous() * image()[:1, :, :2, :2]).sum().backward()
    assert w.grad.stride() == w.stride()
    w.grad = None
    with pytest.warns(UserWarning, match="create_graph"):
        (w.contiguous() * 2.0).sum().backward(create_graph=True)
    assert w.grad.stride() == w.stride()
    gapped = fg.ones(4, 6)[:, ::2].t().detach().requires_grad_()
    (gapped * 2.0).sum().backward()
    assert gapped.grad.is_contiguous()


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad"])
def test_optimizers_step_where_elements_lie_another_way(name):
    results = []
    for last in (False, True):
        fg.manual_seed(0)
        w = fg.randn(4, 3, 2, 2)
        w = w.contiguous(memory_format=fg.channels_last) if last else w
        w.requires_grad_()
        optimizer = getattr(fg.optim, name)([w], lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            (w * w * image()[:1, :, :2, :2]).sum().backward()
            optimizer.step()
        assert w.is_contiguous(memory_format=fg.channels_last) == last
        results.append(w.detach().numpy().copy())
    assert np.array_equal(*results)


def test_random_fills_write_every_element():
    x = fg.zeros(40, 50).t()
    for made in (fg.rand_like(x), fg.randn_like(x), fg.randint_like(x, 1, 1000)):
        assert made.stride() == (1, 50)
        assert np.unique(made.numpy()).size > 500
    with pytest.raises(RuntimeError, match="without gaps"):
        fg.random.fill_normal(fg.zeros(4, 6)[:, ::2], 0.0, 1.0)


def laid_out(
    lib: Any, sizes: tuple[int, ...], order: tuple[int, ...], step: int, dtype: str = "float32"
) -> Any:
    """A tensor whose dimensions lie in memory in an order, outermost first, with gaps if `step` is not 1."""
    memory = [sizes[d] for d in order]
    if memory:
        memory[-1] *= step
    numbers = np.arange(np.prod(memory, dtype=int)) % 7 + 1
    x = lib.tensor(numbers.astype(dtype)).reshape(tuple(memory))
    if memory and step != 1:
        x = x[..., ::step]
    return x.permute([order.index(d) for d in range(len(order))]) if order else x


def shapes() -> list[tuple[int, ...]]:
    return [
        (),
        (5,),
        (3, 4),
        (1, 4),
        (3, 1),
        (2, 3, 4),
        (2, 1, 4),
        (1, 1, 1),
        (2, 3, 4, 5),
        (2, 1, 3, 1),
        (0, 3),
        (2, 3, 1, 2, 2),
    ]


def orders(n: int) -> list[tuple[int, ...]]:
    every = list(itertools.permutations(range(n)))
    return every if n < 4 else [*every[:: 7 if n == 4 else 29], (0, *range(2, n), 1)]


def steps(x: Any) -> list[int]:
    """The strides that matter: those of dimensions with several elements, of a tensor that is not empty."""
    return [s for s, n in zip(x.stride(), x.shape, strict=True) if n > 1] if x.numel() else []


UNARY = {
    "square": lambda lib, x: x * x,
    "neg": lambda lib, x: -x,
    "scaled": lambda lib, x: 2.0 * x + 1.0,
    "greater": lambda lib, x: x > 2,
    "double": lambda lib, x: x.double(),
    "to int": lambda lib, x: x.to(lib.int64),
    "clone": lambda lib, x: x.clone(),
    "contiguous": lambda lib, x: x.contiguous(),
    "clone contiguous": lambda lib, x: x.clone(memory_format=lib.contiguous_format),
    "to contiguous": lambda lib, x: x.to(memory_format=lib.contiguous_format),
    "empty_like": lambda lib, x: lib.zeros_like(lib.empty_like(x)),
    "zeros_like": lambda lib, x: lib.zeros_like(x),
    "ones_like contiguous": lambda lib, x: lib.ones_like(x, memory_format=lib.contiguous_format),
    "full_like": lambda lib, x: lib.full_like(x, 3.0, dtype=lib.float64),
    "rand_like": lambda lib, x: lib.rand_like(x) * 0.0,
    "clamp": lambda lib, x: x.clamp(2.0, 3.0),
    "relu": lambda lib, x: x.relu(),
    "where": lambda lib, x: lib.where(x > 2, x, 0.0),
}


@pytest.mark.parity
@pytest.mark.parametrize("name", UNARY)
def test_results_of_one_operand_lie_as_in_pytorch(name):
    torch = pytest.importorskip("torch")
    for sizes in shapes():
        for order, step in itertools.product(orders(len(sizes)), (1, 2)):
            ours, theirs = (UNARY[name](lib, laid_out(lib, sizes, order, step)) for lib in (fg, torch))
            assert steps(ours) == steps(theirs), (sizes, order, step)
            assert ours.is_contiguous() == theirs.is_contiguous()
            assert np.array_equal(ours.numpy(), theirs.numpy()), (sizes, order, step)


BINARY = {
    "add": lambda lib, x, y: x + y,
    "compare": lambda lib, x, y: x < y,
    "mixed": lambda lib, x, y: x * y.double(),
    "where": lambda lib, x, y: lib.where(x > 2, x, y),
}


@pytest.mark.parity
@pytest.mark.parametrize("name", BINARY)
def test_results_of_two_operands_lie_as_in_pytorch(name):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    for sizes in shapes():
        if 0 in sizes:
            continue
        for _ in range(40):
            n = len(sizes)
            pair = []
            for _ in range(2):
                own = tuple(int(s) if rng.random() < 0.75 else 1 for s in sizes)[
                    int(rng.integers(0, n + 1)) if rng.random() < 0.2 else 0 :
                ]
                pair.append((own, tuple(map(int, rng.permutation(len(own)))), int(rng.integers(1, 3))))
            ours, theirs = (BINARY[name](lib, *(laid_out(lib, *p) for p in pair)) for lib in (fg, torch))
            assert steps(ours) == steps(theirs), pair
            assert np.array_equal(ours.numpy(), theirs.numpy()), pair


@pytest.mark.parity
def test_formats_as_in_pytorch():
    torch = pytest.importorskip("torch")
    for sizes in (
        (2, 3, 4, 5),
        (2, 1, 4, 5),
        (1, 3, 1, 1),
        (2, 3, 1, 1),
        (2, 3, 4, 1),
        (1, 1, 1, 1),
        (2, 3, 2, 2, 2),
        (2, 3, 0, 4),
        (3, 4),
    ):
        for order in orders(len(sizes)):
            x, y = (laid_out(lib, sizes, order, 1) for lib in (fg, torch))
            assert x.stride() == y.stride()
            for name in ("contiguous_format", "channels_last", "channels_last_3d"):
                ours, theirs = getattr(fg, name), getattr(torch, name)
                assert x.is_contiguous(memory_format=ours) == y.is_contiguous(memory_format=theirs), (
                    sizes,
                    order,
                    name,
                )
                if (name == "channels_last" and len(sizes) != 4) or (
                    name == "channels_last_3d" and len(sizes) != 5
                ):
                    continue
                for f in (
                    lambda t, f, lib: t.contiguous(memory_format=f),
                    lambda t, f, lib: t.clone(memory_format=f),
                    lambda t, f, lib: t.to(memory_format=f),
                    lambda t, f, lib: t.to(lib.float64, memory_format=f),
                    lambda t, f, lib: lib.zeros_like(t, memory_format=f),
                ):
                    assert steps(f(x, ours, fg)) == steps(f(y, theirs, torch)), (sizes, order, name)
                assert (x.to(memory_format=ours) is x) == (y.to(memory_format=theirs) is y), (
                    sizes,
                    order,
                    name,
                )


PASSES = (
    lambda x, w: x * w,
    lambda x, w: x.exp(),
    lambda x, w: (x * x).contiguous(),
    lambda x, w: x.sum(0) * 2.0,
    lambda x, w: x.clone() * x,
    lambda x, w: x.transpose(0, -1) * 3.0,
)


@pytest.mark.parity
def test_gradients_of_leaves_lie_as_in_pytorch():
    torch = pytest.importorskip("torch")
    for sizes in ((3, 4), (2, 3, 4), (2, 3, 4, 5), (2, 1, 4)):
        for order, step in itertools.product(orders(len(sizes)), (1, 2)):
            strides = []
            for lib in (fg, torch):
                x = laid_out(lib, sizes, order, step).detach().requires_grad_()
                w = laid_out(lib, sizes, tuple(range(len(sizes))), 1)
                for f in PASSES:
                    x.grad = None
                    f(x, w).sum().backward()
                    strides.append(steps(x.grad))
                    f(x, w).sum().backward()
                    strides.append(steps(x.grad))
            assert strides[: len(strides) // 2] == strides[len(strides) // 2 :], (sizes, order, step)
