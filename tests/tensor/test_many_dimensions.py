"""Tensors of nine to sixteen dimensions: more than the frame of a kernel has room for, and one too many."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import numpy as np
import pytest

import fastgrad as fg
from tests.op_testing import array_of

N = 16
TWOS = (2, 1, 2, 2, 1, 2, 2, 1, 2, 2, 2, 1, 2, 2, 1, 2)  # 2048 elements
STEPS = (1, 4, 2, 16, 8, 64, 32, 128, 512) + (1,) * 7
SHUFFLED = (15, 3, 8, 0, 12, 5, 10, 2, 13, 6, 9, 1, 14, 4, 11, 7)


def values(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-9, 10, shape).astype(np.float32) / 4


def shuffled(x: Any) -> Any:
    """A view in which hardly any two dimensions merge."""
    return x.permute(SHUFFLED)


def index_of(lib: Any, x: Any, dim: int) -> Any:
    sizes = list(x.shape)
    sizes[dim] = 3
    size = int(np.prod(sizes))
    return (lib.arange(size).reshape(sizes) * 7 // 3) % x.shape[dim]


def rows(lib: Any, x: Any) -> Any:
    """An index whose dimensions merge as little as those of x."""
    return shuffled(lib.arange(x.numel()).reshape(TWOS) % 2)


CASES: dict[str, Any] = {
    "permuted": lambda lib, x: shuffled(x) * 1,
    "dense": lambda lib, x: shuffled(x).contiguous(),
    "added": lambda lib, x: shuffled(x) + x.transpose(0, 15),
    "broadcast": lambda lib, x: shuffled(x) * x[:, :1, :, :1, ..., :1] + x[0, 0, 0],
    "reversed": lambda lib, x: x.permute(*reversed(range(N))) - x,
    "flipped": lambda lib, x: shuffled(x).flip((0, 2, 5, 15)),
    "rolled": lambda lib, x: shuffled(x).roll((1, 1), (0, 9)),
    "sum": lambda lib, x: shuffled(x).sum(),
    "sum of some": lambda lib, x: shuffled(x).sum((0, 2, 4, 6, 8, 10, 12, 14)),
    "sum of others": lambda lib, x: shuffled(x).sum((1, 3, 5, 7, 9, 11, 13, 15), keepdim=True),
    "mean": lambda lib, x: shuffled(x).mean((0, 9, 15)),
    "mean of all but one": lambda lib, x: shuffled(x).mean(tuple(range(15))),
    "prod": lambda lib, x: (shuffled(x) / 2).prod(3),
    "amax": lambda lib, x: (shuffled(x) + lib.arange(2048.0).reshape(TWOS) / 8).amax((0, 2, 3, 5, 11)),
    "max": lambda lib, x: (x + lib.arange(2048.0).reshape(TWOS)).max(9).values,
    "cumsum": lambda lib, x: shuffled(x).cumsum(6),
    "softmax": lambda lib, x: shuffled(x).softmax(2),
    "sorted": lambda lib, x: (shuffled(x) + lib.arange(2048.0).reshape(TWOS) / 8).sort(0).values,
    "cat": lambda lib, x: lib.cat([shuffled(x), shuffled(x) * 2, shuffled(x)[:, :, :, :1]], 3),
    "stacked": lambda lib, x: lib.stack([x[0], x[1]], 15),
    "split": lambda lib, x: shuffled(x).split(1, 2)[1],
    "picked": lambda lib, x: shuffled(x)[1, :, 1, ..., 0],
    "indexed": lambda lib, x: shuffled(x)[:, :, lib.tensor([1, 0, 1])],
    "indexed throughout": lambda lib, x: x[tuple(lib.tensor([0, -1]) for _ in range(N))],
    "indexed by many": lambda lib, x: shuffled(x)[(slice(None), *(lib.tensor([[0], [-1]]) for _ in range(9)))],
    "selected": lambda lib, x: shuffled(x).index_select(10, lib.tensor([0, 1, 1, 0])),
    "gathered": lambda lib, x: shuffled(x).gather(8, index_of(lib, shuffled(x), 8)),
    "gathered by a view": lambda lib, x: shuffled(x).gather(0, rows(lib, x) * 0),
    "scattered": lambda lib, x: shuffled(x).scatter_add(2, rows(lib, x), shuffled(x) * 2),
    "taken along": lambda lib, x: lib.take_along_dim(shuffled(x), index_of(lib, shuffled(x), 2), 2),
    "reshaped": lambda lib, x: shuffled(x).reshape(1, 4, 16, 32),
    "reshaped to many": lambda lib, x: x.reshape(-1).reshape(*TWOS[::-1]).permute(*reversed(range(N))) * 2,
    "expanded": lambda lib, x: x[:, 0].unsqueeze(3).expand(*x.shape[:1], *x.shape[2:4], 5, *x.shape[4:]) * 2,
    "squeezed": lambda lib, x: shuffled(x).squeeze() * 3,
    "flattened": lambda lib, x: shuffled(x).flatten(2, 11),
    "repeated": lambda lib, x: shuffled(x)[..., 0, :].repeat(*[1] * 13, 2, 1),
    "product": lambda lib, x: x.permute(*reversed(range(N))) @ x.transpose(-1, -2),
    "product with a matrix": lambda lib, x: shuffled(x) @ lib.ones(x.shape[SHUFFLED[-1]], 3),
    "einsum": lambda lib, x: lib.einsum("abcdefghijklmnop,pfk->ponmlkjihgedca", x, lib.ones(2, 2, 2)),
    "einsum of two": lambda lib, x: lib.einsum("abcdefghijklmnop,qbcdefghijklmnor->apqr", x, x),
    "strided": lambda lib, x: (x * 1).as_strided((2,) * 9 + (1,) * 7, STEPS) * 2,
    "variance": lambda lib, x: shuffled(x).var((0, 3, 7, 12)),
    "norm": lambda lib, x: lib.linalg.vector_norm(shuffled(x) + 9, dim=(1, 3, 5, 9)),
    "where": lambda lib, x: lib.where(shuffled(x) > 0, x.permute(*reversed(range(N))), 2.0),
    "doubled": lambda lib, x: shuffled(x).double(),
    "diagonal": lambda lib, x: shuffled(x).diagonal(0, 2, 14) * 2,
    "moved": lambda lib, x: lib.movedim(x, (0, 1, 2), (13, 14, 15)) * 2,
    "unfolded": lambda lib, x: shuffled(x)[..., 0].unfold(2, 1, 1) * 2,
    "padded": lambda lib, x: lib.nn.functional.pad(shuffled(x), (1, 0, 0, 2)),
}  # fmt: skip


@pytest.mark.parity
@pytest.mark.parametrize("name", CASES)
def test_results_and_gradients(name: str):
    """As PyTorch has them, whatever the order of dimensions in memory."""
    import torch

    found = []
    for lib in (fg, torch):
        x = lib.tensor(values(TWOS), requires_grad=True)
        y = CASES[name](lib, x)
        weights = lib.tensor(values(tuple(y.shape), 1).astype(array_of(y).dtype))
        (y * weights).sum().backward()
        found.append((array_of(y), array_of(x.grad)))
    for mine, wanted in zip(*found, strict=True):
        np.testing.assert_allclose(mine, wanted, rtol=2e-6, atol=2e-6)


def test_changes_in_place():
    """Of views whose dimensions do not merge, also by indices, and with the history of their base."""
    a = values(TWOS)
    b = a.copy()
    x = fg.tensor(a)
    shuffled(x).add_(shuffled(x), alpha=2)
    np.testing.assert_array_equal(x.numpy(), b * 3)
    source = x.permute(*reversed(range(N))).contiguous().permute(*reversed(range(N)))
    shuffled(x).copy_(shuffled(source) * 2)
    np.testing.assert_array_equal(x.numpy(), b * 6)
    index = rows(fg, x)
    wanted = b.transpose(SHUFFLED) * 6
    at = index.numpy()
    np.put_along_axis(wanted, at, np.float32(1), 2)
    shuffled(x).scatter_(2, index, 1.0)
    np.testing.assert_array_equal(x.numpy().transpose(SHUFFLED), wanted)
    leaf = fg.ones(TWOS, requires_grad=True)
    y = leaf * 2
    shuffled(y)[1].mul_(3)
    y.sum().backward()
    expected = np.full(TWOS, 2, np.float32)
    expected.transpose(SHUFFLED)[1] *= 3
    np.testing.assert_array_equal(leaf.grad.numpy(), expected)


def test_gradients_that_hooks_see_are_dense():
    """A gradient that is broadcast gets memory of its own, piece by piece."""
    seen = []
    x = fg.ones(TWOS, requires_grad=True)
    y = shuffled(x) * 1
    y.register_hook(lambda g: seen.append(g) or g.mul_(2))
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.full(TWOS, 2, np.float32))
    assert seen[0].shape == tuple(TWOS[k] for k in SHUFFLED)


def test_exchange_with_others():
    a = values(TWOS).transpose(SHUFFLED)
    x = fg.from_numpy(a)
    assert x.shape == a.shape
    np.testing.assert_array_equal(x.numpy(), a)
    np.testing.assert_array_equal(np.from_dlpack(x), a)
    np.testing.assert_array_equal(fg.from_dlpack(a).numpy(), a)
    file = io.BytesIO()
    fg.save({"x": x}, file)
    file.seek(0)
    y = fg.load(file)["x"]
    assert y.stride() == x.stride()
    np.testing.assert_array_equal(y.numpy(), a)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(x)).numpy(), a)
    np.testing.assert_array_equal(copy.deepcopy(x).numpy(), a)
    assert fg.tensor(a.tolist()).shape == a.shape
    assert x.tolist() == a.tolist()


def test_printing():
    text = repr(fg.ones(*[1] * 15, 2))
    assert text == "tensor([[[[[[[[[[[[[[[[1., 1.]]]]]]]]]]]]]]]])"
    assert "size=(1, 1, 1" in repr(fg.empty(*[1] * 16, device="meta"))


def test_places_of_what_is_not_zero():
    a = np.zeros(TWOS, bool)
    a.reshape(-1)[[0, 5, 700, 2047]] = True
    np.testing.assert_array_equal(fg.tensor(a).nonzero().numpy(), np.argwhere(a))
    for mine, wanted in zip(fg.tensor(a).nonzero(as_tuple=True), np.nonzero(a), strict=True):
        np.testing.assert_array_equal(mine.numpy(), wanted)
    x = fg.tensor(values(TWOS))
    np.testing.assert_array_equal(x[fg.tensor(a)].numpy(), x.numpy()[a])


def test_sizes_without_elements():
    x = fg.ones(*TWOS[:15], 0, requires_grad=True)
    assert x.permute(*reversed(range(N))).contiguous().shape == (0, *TWOS[14::-1])
    y = shuffled(x).sum((0, 3))
    assert y.numel() == (0 if 15 not in (SHUFFLED[0], SHUFFLED[3]) else y.numel())
    y.sum().backward()
    assert x.grad.shape == x.shape


def test_the_meta_device():
    x = fg.ones(*TWOS, device="meta", requires_grad=True)
    y = (shuffled(x) * 2).sum((0, 1, 2))
    y.sum().backward()
    assert (y.dim(), x.grad.shape) == (13, x.shape)


def test_compiled_calls():
    def step(x: Any, w: Any) -> Any:
        return (shuffled(x) * w).sum((0, 2, 4)) + 1

    call = fg.compile(step)
    w = fg.tensor(values(TWOS[:1], 3), requires_grad=True)
    for seed in range(4):
        x = fg.tensor(values(TWOS, seed), requires_grad=True)
        found = []
        for function in (call, step):
            x.grad = w.grad = None
            y = function(x, w)
            (y * y).sum().backward()
            found.append([t.numpy().copy() for t in (y.detach(), x.grad, w.grad)])
        for mine, wanted in zip(*found, strict=True):
            np.testing.assert_array_equal(mine, wanted)


def test_per_sample_results():
    x = fg.tensor(values(TWOS))
    mapped = fg.func.vmap(lambda row: row.permute(*reversed(range(15))) * 2)(x)
    np.testing.assert_array_equal(mapped.numpy(), x.numpy().transpose(0, *range(15, 0, -1)) * 2)


ONE_MORE: list[Any] = [
    lambda x: fg.ones(*[1] * 17), lambda x: fg.tensor(np.ones([1] * 16).tolist()).unsqueeze(0),
    lambda x: x.unsqueeze(0), lambda x: x.expand(2, *x.shape), lambda x: x.reshape(1, *x.shape),
    lambda x: x.view(*x.shape, 1), lambda x: fg.stack([x, x]), lambda x: x[None],
    lambda x: x[:, fg.zeros(1, 1, dtype=fg.int64)],
    lambda x: x.unfold(0, 1, 1), lambda x: x.as_strided([1] * 17, [1] * 17), lambda x: fg.empty([1] * 17),
    lambda x: fg.view_as_real(fg.zeros(*[1] * 16, dtype=fg.complex64)), lambda x: fg.from_numpy(np.ones([1] * 17)),
    lambda x: fg.tensor(np.ones([1] * 17)), lambda x: fg.nn.functional.one_hot(fg.zeros(*[1] * 16, dtype=fg.int64)),
]  # fmt: skip


@pytest.mark.parametrize("k", range(len(ONE_MORE)))
def test_one_dimension_too_many(k: int):
    with pytest.raises((RuntimeError, ValueError), match=r"17|at most 16"):
        ONE_MORE[k](fg.ones(*TWOS))


def test_indices_of_many_dimensions_that_are_wrong():
    """What stands for several dimensions is checked as each of them is."""
    x = fg.ones(*TWOS)
    places = [fg.tensor([0, size - 1]) for size in TWOS]
    for k in (0, 7, 8, 15):
        wrong = [fg.tensor([0, TWOS[k]]) if d == k else place for d, place in enumerate(places)]
        with pytest.raises(IndexError, match=f"index {TWOS[k]} is out of bounds"):
            x[tuple(wrong)]
    x[tuple(places)] = fg.tensor([5.0, 7.0])
    assert (x[(0,) * N].item(), x[tuple(size - 1 for size in TWOS)].item(), x.sum().item()) == (5, 7, 2058)
