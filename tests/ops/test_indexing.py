"""Indexing at random against NumPy: any number of index tensors among slices and new dimensions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from op_testing import array_of

import fastgrad as fg

MAX_DIMS = 8  # of random cases
SEEDS = range(60)


def random_index(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Arrays that broadcast with one another for some dimensions, a mask over others, slices for the rest."""
    common = tuple(rng.integers(1, 4, rng.integers(1, 3)))
    parts: list[Any] = []
    dim = 0
    while dim < len(shape):
        kind = rng.choice(["array", "array", "array", "slice", "mask"])
        if kind == "mask" and dim + 1 < len(shape):
            # as many true elements as the last common dimension has, so that it broadcasts
            mask = np.zeros(shape[dim : dim + 2], bool)
            mask.reshape(-1)[: common[-1]] = True
            if mask.sum() == common[-1]:
                parts.append(mask)
                dim += 2
                continue
        if kind == "array":
            own = tuple(n if rng.random() < 0.8 else 1 for n in common)[int(rng.integers(0, len(common))) :]
            parts.append(rng.integers(-shape[dim], shape[dim], own))
        else:
            parts.append(
                slice(None) if rng.random() < 0.5 else slice(0, int(rng.integers(1, shape[dim] + 1)))
            )
        dim += 1
    if len(shape) < MAX_DIMS - 2 and rng.random() < 0.3:
        parts.insert(int(rng.integers(0, len(parts) + 1)), None)
    return tuple(parts)


def random_case(seed: int) -> tuple[np.ndarray, tuple[Any, ...]]:
    """An array and an index of it that reads no more than eight dimensions."""
    rng = np.random.default_rng(seed)
    while True:
        shape = tuple(rng.integers(1, 4, rng.integers(1, MAX_DIMS + 1)))
        x = rng.standard_normal(shape)
        index = random_index(rng, shape)
        if x[index].ndim <= MAX_DIMS and x.ndim + sum(part is None for part in index) <= MAX_DIMS:
            return x, index


def as_tensors(lib: Any, index: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(lib.tensor(part) if isinstance(part, np.ndarray) else part for part in index)


def test_the_cases_have_many_index_tensors():
    counts = [sum(isinstance(part, np.ndarray) for part in random_case(seed)[1]) for seed in SEEDS]
    assert sum(n > 3 for n in counts) >= 10
    assert max(counts) >= 6


@pytest.mark.parametrize("seed", SEEDS)
def test_reading_and_its_gradients(lib, seed: int):
    x, index = random_case(seed)
    t = lib.tensor(x, requires_grad=True)
    y = t[as_tensors(lib, index)]
    np.testing.assert_array_equal(array_of(y), x[index])
    np.testing.assert_array_equal(array_of(lib.tensor(x)[index]), x[index])
    weights = lib.tensor(np.arange(1.0, y.numel() + 1).reshape(tuple(y.shape)), requires_grad=True)
    (g,) = lib.autograd.grad(y, t, weights, create_graph=True)
    wanted = np.zeros_like(x)
    np.add.at(wanted, index, array_of(weights))
    np.testing.assert_array_equal(array_of(g), wanted)
    # the gradient is linear in the weights: its gradient reads again
    (again,) = lib.autograd.grad((g * lib.tensor(x)).sum(), weights)
    np.testing.assert_array_equal(array_of(again), x[index])


@pytest.mark.parametrize("seed", SEEDS)
def test_writing_and_its_gradients(lib, seed: int):
    x, index = random_case(seed)
    places = np.arange(x.size).reshape(x.shape)[index]
    value = np.random.default_rng(seed).standard_normal(places.shape)
    source, t = lib.tensor(value, requires_grad=True), lib.tensor(x, requires_grad=True)
    y = t.clone()
    y[as_tensors(lib, index)] = source
    wanted = x.copy()
    wanted.reshape(-1)[places.reshape(-1)] = value.reshape(-1)  # the last value of each place remains
    if len(np.unique(places)) < places.size and lib.__name__ == "torch":
        pytest.skip("torch leaves open which of several values remains")
    np.testing.assert_array_equal(array_of(y), wanted)
    weights = np.arange(1.0, x.size + 1).reshape(x.shape)
    by_x, by_value = lib.autograd.grad(y, [t, source], lib.tensor(weights))
    kept = weights.copy()
    kept.reshape(-1)[places.reshape(-1)] = 0
    np.testing.assert_array_equal(array_of(by_x), kept)
    last = {place: k for k, place in enumerate(places.reshape(-1))}
    remains = np.isin(np.arange(places.size), list(last.values())).reshape(places.shape)
    np.testing.assert_array_equal(array_of(by_value), np.where(remains, weights.reshape(-1)[places], 0))


@pytest.mark.parametrize(
    "index",
    [np.array(1), np.array(True), np.array(False), (np.array(0), np.array(2)), (np.array(1), [0, 1])],
    ids=str,
)
def test_arrays_without_dimensions(lib, index: Any):
    """NumPy's 0-dim arrays are numbers, or truth values of a new dimension."""
    x = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(array_of(lib.tensor(x)[index]), x[index])


@pytest.mark.parametrize("count", [1, 2, 8, 9, 16])
def test_the_message_names_the_dimensions(lib, count: int):
    x = lib.zeros(*[1] * count)
    with pytest.raises(IndexError, match=r"index 1 is out of bounds for .*dim.* size 1"):
        x[tuple([0] if k < count - 1 else [1] for k in range(count))]


VIEWS: list[Any] = [
    0, -2, slice(None), slice(1, 2), slice(None, None, 2), slice(5, 1), slice(-9, 1 << 70), ..., None, (),
    (slice(None), 1), (0, slice(None), 1), (..., 0), (0, ...), (None, 0, None), (slice(None), ..., slice(1, 3)),
    (..., None), (slice(None), slice(None)), (True, 0), (np.int64(1), 0), ([1, 0], 0), (0, slice(np.int64(1), None)),
]  # fmt: skip
REFUSED: list[Any] = [
    2, -3, 1 << 70, (0, 3), (0, 0, -5), (0, 0, 0, 0), (..., ...), (0, slice(None, None, -1)), slice(None, None, 0),
    "a", (0, "a"), 1.5, (0, 1.5), (slice(None), slice("a", None)), (slice(None), slice(1.5, None)), (0, {}),
]  # fmt: skip


@pytest.mark.parametrize("index", VIEWS, ids=repr)
def test_views_are_those_of_numpy(lib, index: Any):
    x = np.arange(24.0).reshape(2, 3, 4)
    for source in (
        lib.tensor(x),
        lib.tensor(x, requires_grad=True),
        lib.tensor(x).transpose(0, 1).transpose(0, 1),
    ):
        found = source[index]
        assert found is not source
        np.testing.assert_array_equal(array_of(found), x[index])
    target, wanted = lib.tensor(x), x.copy()
    target[index] = 7.0
    wanted[index] = 7.0
    np.testing.assert_array_equal(array_of(target), wanted)


@pytest.mark.parametrize("index", REFUSED, ids=repr)
def test_what_is_no_index(lib, index: Any):
    def raised(function: Any) -> tuple[type, str]:
        try:
            function()
        except Exception as error:
            return type(error), str(error)
        raise AssertionError(f"{index} is taken")

    x = lib.zeros(2, 3, 4)
    assert len({raised(lambda: x[index]) for _ in range(5)}) == 1
    assert raised(lambda: x[index])[0] in (IndexError, TypeError, ValueError, RuntimeError)


def test_the_history_of_views(lib):
    x = lib.zeros(2, 3, 4, requires_grad=True)
    y = x[:, None, 1, ..., ::2]
    names = []
    node = y.grad_fn
    while node is not None:
        names.append(node.name())
        node = node.next_functions[0][0] if node.next_functions else None
    kinds = [name.removesuffix("Backward0") for name in names[:-1]]
    assert kinds == ["Slice", "Select", "Unsqueeze"]
    assert x[:].grad_fn.name() == "SliceBackward0"
    assert x[...].grad_fn.name() == "AliasBackward0"
    assert x[0].grad_fn.name() == "SelectBackward0"
    assert y._base is x


@pytest.mark.parametrize("share", [0.0, 0.002, 0.5, 1.0])
@pytest.mark.parametrize("n", [127, 128, 129, 1000])
def test_places_of_many_elements(lib, n: int, share: float):
    x = np.random.default_rng(n).random((n, 3)) < share
    np.testing.assert_array_equal(array_of(lib.nonzero(lib.tensor(x))), np.argwhere(x))
    values = np.arange(3.0 * n).reshape(n, 3)
    np.testing.assert_array_equal(array_of(lib.tensor(values)[lib.tensor(x)]), values[x])
    np.testing.assert_array_equal(array_of(lib.tensor(x[:, 0] * 2.0).nonzero()), np.argwhere(x[:, 0]))


@pytest.mark.parametrize("index", [[True, True, False, True], [0, 1, 3]], ids=["mask", "places"])
def test_writing_over_what_is_not_finite_where_gradients_are_wanted(lib, index):
    data = [math.nan, math.inf, 1.0, -math.inf]
    x = lib.tensor(data, requires_grad=True)
    y = x.clone()
    y[lib.tensor(index)] = 2.5
    assert y.tolist() == [2.5, 2.5, 1.0, 2.5]
    (y * lib.tensor(data)).sum().backward()
    assert x.grad.tolist() == [0.0, 0.0, 1.0, 0.0]


def test_values_that_are_written_over_may_be_anything():
    v = fg.tensor([math.nan, 2.0, math.inf], requires_grad=True)
    y = fg.zeros(3)
    y[[1, 1, 0]] = v
    assert y.tolist() == [math.inf, 2.0, 0.0]
    (y * fg.tensor([1.0, math.inf, 1.0])).sum().backward()
    assert v.grad.tolist() == [0.0, math.inf, 1.0]


@pytest.mark.parametrize(
    "index", [([3, 1], slice(None), 1), (False, 3, slice(None), 1)], ids=["list", "bool"]
)
def test_views_of_empty_tensors_may_begin_anywhere(lib, index):
    expected = np.ones((4, 0, 2))[index].shape
    x = lib.ones(4, 0, 2)
    assert tuple(x[index].shape) == expected
    x[index] = 5
    assert tuple(x.shape) == (4, 0, 2)


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_large_reads_do_not_depend_on_threads(dim):
    rng = np.random.default_rng(0)
    x = fg.tensor(rng.standard_normal((60, 70, 80)).astype(np.float32))
    index = rng.integers(-60, 60, 300)
    before = fg.get_num_threads()
    try:
        for threads in (1, 2, 5):
            fg.set_num_threads(threads)
            where = (slice(None),) * dim + (fg.tensor(index),)
            np.testing.assert_array_equal(x[where].numpy(), np.take(x.numpy(), index, dim, mode="wrap"))
            index[-1], index[17] = 999, -998
            with pytest.raises(IndexError, match=f"index -998 is out of bounds for dimension {dim}"):
                x[(slice(None),) * dim + (fg.tensor(index),)]
            index[-1], index[17] = 0, 0
    finally:
        fg.set_num_threads(before)


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("view", ["whole", "turned", "strided"])
def test_index_put_changes_views_in_place(view: str, accumulate: bool):
    a = np.arange(24, dtype=np.float32).reshape(4, 6)
    x = fg.tensor(a)
    take = {"whole": lambda t: t, "turned": lambda t: t.swapaxes(0, 1), "strided": lambda t: t[:, ::2]}[view]
    target, version = take(x), x._version
    rows, column = fg.tensor([0, 2]), fg.tensor(1)
    for _ in range(3):
        assert target.index_put_((rows, column), fg.tensor([10.0, 20.0]), accumulate) is target
        if accumulate:
            take(a)[[0, 2], 1] += [10, 20]
        else:
            take(a)[[0, 2], 1] = [10, 20]
        np.testing.assert_array_equal(x, a)
    assert x._version > version
    y = x * x.sum()
    w = fg.ones(4, 6, requires_grad=True)
    z = (w * y).exp()
    z.index_put_((rows,), fg.zeros(6))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()
