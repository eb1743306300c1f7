"""Data sets and loaders, on both libraries; random orders are compared as sets, and with themselves."""

from __future__ import annotations

import re
from collections import OrderedDict, namedtuple
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import fastgrad as fg


@pytest.fixture(params=["fastgrad", pytest.param("torch", marks=pytest.mark.parity)])
def lib(request: pytest.FixtureRequest) -> ModuleType:
    found = pytest.importorskip(request.param)
    found.manual_seed(0)
    __import__(f"{request.param}.utils.data")
    return found


def plain(value: Any) -> Any:
    """Tensors as dtype and nested lists, in the structure in which they are."""
    if hasattr(value, "tolist"):
        return str(value.dtype).partition(".")[2], value.tolist()
    if isinstance(value, dict):
        return type(value).__name__, [(k, plain(v)) for k, v in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [plain(v) for v in value]
    return value


Point = namedtuple("Point", "x name")
BATCHES = {
    "tensors": lambda lib: [lib.ones(2), lib.zeros(2)],
    "integers": lambda lib: [1, 2],
    "floats": lambda lib: [1.5, 2],
    "bools": lambda lib: [True, False],
    "arrays": lambda lib: [np.ones(2), np.zeros(2)],
    "scalars": lambda lib: [np.float32(1), np.float32(2)],
    "texts": lambda lib: ["a", "b"],
    "pairs": lambda lib: [(1, lib.ones(1)), (2, lib.zeros(1))],
    "dicts": lambda lib: [{"a": 1, "b": [1, 2]}, {"a": 3, "b": [4, 5]}],
    "ordered": lambda lib: [OrderedDict(a=1), OrderedDict(a=2)],
    "named": lambda lib: [Point(1, "p"), Point(2, "q")],
    "one": lambda lib: [lib.ones(())],
}


@pytest.mark.parity
@pytest.mark.parametrize("name", BATCHES)
def test_batches_are_those_of_pytorch(name: str):
    torch = pytest.importorskip("torch")
    ours = fg.utils.data.default_collate(BATCHES[name](fg))
    assert plain(ours) == plain(torch.utils.data.default_collate(BATCHES[name](torch)))


@pytest.mark.parametrize(
    ("batch", "kind", "message"),
    [
        ([[1, 2], [3]], RuntimeError, "each element in list of batch should be of equal size"),
        (
            [np.zeros(2), np.zeros(3)],
            RuntimeError,
            r"equal size, but got \[2\] at entry 0 and \[3\] at entry 1",
        ),
        ([object()], TypeError, r"found <class 'object'>"),
        ([None, None], TypeError, r"found <class 'NoneType'>"),
        ([np.array("a")], TypeError, "found <U1"),
    ],
)
def test_batches_that_cannot_be_made(lib: ModuleType, batch: list, kind: type[Exception], message: str):
    with pytest.raises(kind, match=message):
        lib.utils.data.default_collate(batch)


def rows(lib: ModuleType, n: int = 5) -> Any:
    return lib.utils.data.TensorDataset(lib.arange(n), lib.arange(2.0 * n).view(n, 2))


class Stream:
    """Made into an iterable data set of either library."""

    def __new__(cls, lib: ModuleType) -> Any:
        class Numbers(lib.utils.data.IterableDataset):
            def __iter__(self) -> Iterator[int]:
                return iter(range(5))

        return Numbers()


LOADERS = {
    "singles": (rows, {}),
    "pairs": (rows, {"batch_size": 2}),
    "full pairs": (rows, {"batch_size": 2, "drop_last": True}),
    "samples": (rows, {"batch_size": None}),
    "sampler": (rows, {"sampler": [4, 0, 4], "batch_size": 2}),
    "batch sampler": (rows, {"batch_sampler": [[0], [1, 2, 3]]}),
    "own batches": (rows, {"batch_size": 3, "collate_fn": len}),
    "arrays": (lambda lib: [(np.ones(2), {"a": Point(1, "p")})], {"batch_size": None}),
    "list": (lambda lib: [1, 2, 3], {"batch_size": 2}),
    "stream": (Stream, {"batch_size": 2}),
    "full stream": (Stream, {"batch_size": 2, "drop_last": True}),
    "stream of samples": (Stream, {"batch_size": None}),
}


@pytest.mark.parity
@pytest.mark.parametrize("name", LOADERS)
def test_loaders_give_what_those_of_pytorch_give(name: str):
    torch = pytest.importorskip("torch")
    make, options = LOADERS[name]
    ours = fg.utils.data.DataLoader(make(fg), **options)
    theirs = torch.utils.data.DataLoader(make(torch), **options)
    for _ in range(2):
        assert plain(list(ours)) == plain(list(theirs))
    if make is not Stream:
        assert len(ours) == len(theirs)


def test_shuffling(lib: ModuleType):
    loader = lib.utils.data.DataLoader(rows(lib, 50), batch_size=8, shuffle=True)
    orders = [[i for numbers, _ in loader for i in numbers.tolist()] for _ in range(2)]
    assert orders[0] != orders[1]
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(50))
    for numbers, values in loader:
        assert values[:, 0].tolist() == (2 * numbers).tolist()


def test_seeds(lib: ModuleType):
    def order(**options: Any) -> list[int]:
        loader = lib.utils.data.DataLoader(list(range(20)), batch_size=None, shuffle=True, **options)
        return [int(i) for i in loader]

    lib.manual_seed(3)
    first = order()
    lib.manual_seed(3)
    assert order() == first
    generators = [lib.Generator().manual_seed(5) for _ in range(2)]
    assert order(generator=generators[0]) == order(generator=generators[1])


def test_samplers(lib: ModuleType):
    data = lib.utils.data
    assert list(data.SequentialSampler("abc")) == [0, 1, 2]
    assert sorted(data.RandomSampler(range(9))) == list(range(9))
    many = list(data.RandomSampler(range(3), num_samples=7))
    assert sorted(many[:3]) == sorted(many[3:6]) == [0, 1, 2]
    assert len(many) == 7
    drawn = list(data.RandomSampler(range(3), replacement=True, num_samples=50))
    assert set(drawn) == {0, 1, 2}
    assert len(drawn) == 50
    assert sorted(data.SubsetRandomSampler([5, 7, 9])) == [5, 7, 9]
    for drop, expected in ((False, [[0, 1], [2]]), (True, [[0, 1]])):
        batches = data.BatchSampler(data.SequentialSampler(range(3)), 2, drop)
        assert list(batches) == expected
        assert len(batches) == len(expected)


def test_parts_and_sums(lib: ModuleType):
    data = lib.utils.data
    both = data.Subset("abcde", [4, 0])
    assert [both[i] for i in range(len(both))] == ["e", "a"]
    joined = data.ConcatDataset([[1], [2, 3]])
    assert [joined[0], joined[2], joined[-1], len(joined)] == [1, 3, 3, 3]
    assert len(rows(lib) + rows(lib)) == 10
    parts = data.random_split(range(10), [0.33, 0.33, 0.34])
    assert [len(p) for p in parts] == [4, 3, 3]
    assert sorted(x for p in parts for x in (p[i] for i in range(len(p)))) == list(range(10))
    assert [len(p) for p in data.random_split(range(10), [4, 6])] == [4, 6]


def test_the_samples_of_a_batch_at_once(lib: ModuleType):
    class AtOnce(lib.utils.data.Dataset):
        def __len__(self) -> int:
            return 4

        def __getitems__(self, numbers: list[int]) -> list[int]:
            return [10 * n for n in numbers]

    assert [b.tolist() for b in lib.utils.data.DataLoader(AtOnce(), batch_size=2)] == [[0, 10], [20, 30]]


ERRORS = {
    "batch size": (
        lambda d: d.DataLoader([1], batch_size=0),
        ValueError,
        "positive integer value.*batch_size=0",
    ),
    "sampler": (
        lambda d: d.DataLoader([1], shuffle=True, sampler=[0]),
        ValueError,
        "mutually exclusive with shuffle",
    ),
    "batch sampler": (
        lambda d: d.DataLoader([1], batch_sampler=[[0]], batch_size=2),
        ValueError,
        "mutually exclusive with batch_size",
    ),
    "drop": (
        lambda d: d.DataLoader([1], batch_size=None, drop_last=True),
        ValueError,
        "disables auto-batching",
    ),
    "workers": (
        lambda d: d.DataLoader([1], num_workers=-1),
        ValueError,
        "num_workers option should be non-negative",
    ),
    "empty": (lambda d: d.DataLoader([], shuffle=True), ValueError, "num_samples=0"),
    "replacement": (lambda d: d.RandomSampler([1], replacement=5), TypeError, "boolean value"),
    "last": (lambda d: d.BatchSampler([1], 1, 5), ValueError, "drop_last should be a boolean"),
    "split": (lambda d: d.random_split([1, 2, 3], [1, 1]), ValueError, "Sum of input lengths"),
    "fractions": (lambda d: d.random_split([1, 2, 3], [1.5, -0.5]), ValueError, "not between 0 and 1"),
    "no part": (lambda d: d.ConcatDataset([]), AssertionError, "empty iterable"),
    "number": (lambda d: d.ConcatDataset([[1]])[-3], ValueError, "should not exceed dataset length"),
    "end": (lambda d: d.ConcatDataset([[1]])[1], IndexError, "out of range"),
    "data set": (lambda d: d.Dataset()[0], NotImplementedError, "should implement __getitem__"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(lib: ModuleType, name: str):
    call, kind, message = ERRORS[name]
    with pytest.raises(kind, match=message):
        call(lib.utils.data)


def test_errors_of_streams_and_tensors(lib: ModuleType):
    data = lib.utils.data
    with pytest.raises(ValueError, match="expected unspecified shuffle option, but got shuffle=True"):
        data.DataLoader(Stream(lib), shuffle=True)
    with pytest.raises(TypeError, match=r"has no len\(\)"):
        len(data.DataLoader(Stream(lib)))
    with pytest.raises(AssertionError, match="Size mismatch between tensors"):
        data.TensorDataset(lib.ones(2), lib.ones(3))


# --- data sets and samplers of more than one kind -----------------------------------------------------------


class AtOnce:
    """Gives several samples at once, and counts how often."""

    def __init__(self, wrong: int = 0) -> None:
        self.asked = 0
        self.wrong = wrong

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        return 10 * index

    def __getitems__(self, indices: list[int]) -> list[int]:
        self.asked += 1
        return [10 * i for i in indices] + [0] * self.wrong


def test_stacks(lib: ModuleType):
    stack = lib.utils.data.StackDataset
    data = AtOnce()
    pairs, named = stack(data, "abcd"), stack(x=data, y="abcd")
    assert len(pairs) == len(named) == 4
    assert pairs[1] == (10, "b")
    assert named[1] == {"x": 10, "y": "b"}
    assert data.asked == 0
    assert pairs.__getitems__([0, 3]) == [(0, "a"), (30, "d")]
    assert named.__getitems__([0, 3]) == [{"x": 0, "y": "a"}, {"x": 30, "y": "d"}]
    assert data.asked == 2
    (batch,) = lib.utils.data.DataLoader(named, batch_size=4)
    assert batch["x"].tolist() == [0, 10, 20, 30]
    assert batch["y"] == list("abcd")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda d: d.StackDataset(), "At least one dataset should be passed"),
        (lambda d: d.StackDataset([1], x=[2]), "both types are given"),
        (lambda d: d.StackDataset([1], [1, 2]), "Size mismatch between datasets"),
        (lambda d: d.StackDataset(x=[1], y=[1, 2]), "Size mismatch between datasets"),
        (lambda d: d.StackDataset(AtOnce(1)).__getitems__([0, 1]), "output size mismatch. Expected 2, got 3"),
        (lambda d: d.WeightedRandomSampler([1.0], 0), "num_samples=0"),
        (lambda d: d.WeightedRandomSampler([1.0], True), "num_samples=True"),
        (lambda d: d.WeightedRandomSampler([1.0], 1, 1), "replacement=1"),
        (lambda d: d.WeightedRandomSampler([[1.0]], 1), "weights should be a 1d sequence"),
    ],
)
def test_stacks_and_weights_that_cannot_be(lib: ModuleType, make: Any, message: str):
    with pytest.raises(ValueError, match=re.escape(message)):
        make(lib.utils.data)


def test_chains(lib: ModuleType):
    data = lib.utils.data
    chain = Stream(lib) + Stream(lib)
    assert isinstance(chain, data.ChainDataset)
    assert list(chain) == [*range(5), *range(5)]
    assert [b.tolist() for b in data.DataLoader(chain, batch_size=4)] == [[0, 1, 2, 3], [4, 0, 1, 2], [3, 4]]
    with pytest.raises(TypeError, match="has no len"):
        len(chain)
    for use in (list, len):
        with pytest.raises(AssertionError, match="ChainDataset only supports IterableDataset"):
            use(data.ChainDataset([[1]]))


def test_parts_take_samples_at_once(lib: ModuleType):
    data = AtOnce()
    part = lib.utils.data.Subset(data, [3, 1, 0])
    assert part.__getitems__([0, 2]) == [30, 0]
    assert [b.tolist() for b in lib.utils.data.DataLoader(part, batch_size=2)] == [[30, 10], [0]]
    assert data.asked == 3
    assert lib.utils.data.Subset("abc", [2, 0]).__getitems__([1, 0]) == ["a", "c"]

    class Half(lib.utils.data.Subset):  # type: ignore[misc]
        def __getitem__(self, index: int) -> int:
            return 1

    with pytest.raises(NotImplementedError, match="Half overrides __getitem__ but not __getitems__"):
        Half(data, [0])


def test_weights(lib: ModuleType):
    sampler = lib.utils.data.WeightedRandomSampler
    drawn = list(sampler([0.0, 1.0, 3.0], 400))
    assert len(drawn) == len(sampler([1.0], 400)) == 400
    assert set(drawn) == {1, 2}
    assert 2 < drawn.count(2) / drawn.count(1) < 4.5
    assert sorted(sampler([0.1, 5.0, 2.0], 3, replacement=False)) == [0, 1, 2]
    with pytest.raises(RuntimeError, match="cannot sample n_sample > prob_dist"):
        list(sampler([1.0, 2.0], 3, replacement=False))
    generators = [lib.Generator().manual_seed(2) for _ in range(2)]
    first, second = (list(sampler([1.0] * 9, 20, generator=g)) for g in generators)
    assert first == second
    loader = lib.utils.data.DataLoader([1, 2], sampler=sampler([0, 1], 3), batch_size=3)
    assert [b.tolist() for b in loader] == [[2, 2, 2]]


def test_classes_take_the_types_of_samples(lib: ModuleType):
    data = lib.utils.data
    for kind in (data.Dataset, data.IterableDataset, data.Sampler, data.DataLoader):

        class Typed(kind[int]):  # type: ignore[misc, valid-type]
            pass

        assert issubclass(Typed, kind)
