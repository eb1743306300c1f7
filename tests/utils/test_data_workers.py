"""Loaders with worker processes, on both libraries: order, random numbers, exceptions, and how they end."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import random
import re
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from copy import deepcopy
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import fastgrad as fg
from fastgrad.utils.data import DataLoader, TensorDataset, get_worker_info, worker
from fastgrad.utils.data.sampler import drawn_seed


@pytest.fixture(params=["fastgrad", pytest.param("torch", marks=pytest.mark.parity)])
def lib(request: pytest.FixtureRequest) -> ModuleType:
    found = pytest.importorskip(request.param)
    found.manual_seed(0)
    __import__(f"{request.param}.utils.data")
    return found


@pytest.fixture(autouse=True)
def few_processors() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="This DataLoader will create")
        yield


class Numbered:
    """A data set of what a function makes of the numbers from 0 on."""

    def __init__(self, make: Callable[[int], Any], n: int = 6) -> None:
        self.make = make
        self.n = n

    def __getitem__(self, index: int) -> Any:
        return self.make(index)

    def __len__(self) -> int:
        return self.n


def stream(lib: ModuleType, *lengths: int) -> Any:
    """A data set of which each worker gives so many samples: 100 of its number and more."""

    class Shares(lib.utils.data.IterableDataset):  # type: ignore[misc]
        def __iter__(self) -> Iterator[int]:
            info = lib.utils.data.get_worker_info()
            yield from range(100 * info.id, 100 * info.id + lengths[info.id])

        def __len__(self) -> int:
            return 3

    return Shares()


def given(loader: Any) -> list[Any]:
    return [batch.tolist() if hasattr(batch, "tolist") else batch for batch in loader]


def singles(lib: ModuleType, make: Callable[[int], Any], n: int = 6, **options: Any) -> Any:
    options.setdefault("num_workers", 2)
    return lib.utils.data.DataLoader(Numbered(make, n), batch_size=None, **options)


# --- what comes, and in which order -------------------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [None, 1, 2])
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_batches_come_in_order(lib: ModuleType, batch_size: int | None, workers: int):
    data = lib.utils.data.TensorDataset(lib.arange(7), lib.arange(14.0).view(7, 2))
    loaders = [lib.utils.data.DataLoader(data, batch_size=batch_size, num_workers=n) for n in (0, workers)]
    here, there = ([[t.tolist() for t in batch] for batch in loader] for loader in loaders)
    assert here == there


@pytest.mark.parity
@pytest.mark.parametrize("batch_size", [None, 1, 2])
@pytest.mark.parametrize("lengths", [(4, 4), (1, 7), (0, 3), (0, 0), (5, 2), (2, 3)])
def test_iterable_data_sets_are_taken_in_turn(lengths: tuple[int, ...], batch_size: int | None):
    torch = pytest.importorskip("torch")
    options: dict[str, Any] = {"batch_size": batch_size, "num_workers": len(lengths)}
    ours, theirs = (
        given(found.utils.data.DataLoader(stream(found, *lengths), **options)) for found in (fg, torch)
    )
    assert ours == theirs


def test_last_batches_of_workers(lib: ModuleType):
    loader = lib.utils.data.DataLoader(stream(lib, 3, 5), batch_size=2, drop_last=True, num_workers=2)
    assert given(loader) == [[0, 1], [100, 101], [102, 103]]


def test_a_data_set_that_is_longer_than_it_says(lib: ModuleType):
    loader = lib.utils.data.DataLoader(stream(lib, 2, 2), batch_size=None, num_workers=2)
    assert len(loader) == 3
    with pytest.warns(UserWarning, match="was reported to be 3 ?.* but 4 samples have been fetched"):
        assert len(given(loader)) == 4


def test_batches_as_they_get_ready(lib: ModuleType):
    another = multiprocessing.get_context("fork").Event()

    def make(index: int) -> int:
        assert index or another.wait(60)
        return index

    batches = iter(singles(lib, make, 8, in_order=False))
    found = [int(next(batches))]
    assert found[0] != 0
    another.set()
    assert sorted(found + given(batches)) == list(range(8))


def test_parts_as_they_get_ready(lib: ModuleType):
    loader = lib.utils.data.DataLoader(stream(lib, 7, 2, 0), batch_size=2, num_workers=3, in_order=False)
    found = given(loader)
    assert sorted(x for batch in found for x in batch) == [0, 1, 2, 3, 4, 5, 6, 100, 101]
    assert [batch for batch in found if batch[0] < 100] == [[0, 1], [2, 3], [4, 5], [6]]


def test_workers_know_themselves(lib: ModuleType):
    data = lib.utils.data
    assert data.get_worker_info() is None

    def make(index: int) -> Any:
        info = data.get_worker_info()
        return index, info.id, info.num_workers, info.dataset.n, info.seed

    found = list(singles(lib, make, collate_fn=lambda sample: sample))
    assert [f[:4] for f in found] == [(i, i % 2, 2, 6) for i in range(6)]
    assert found[1][4] == found[0][4] + 1


def test_seeds_of_workers(lib: ModuleType):
    draw = [lambda: random.randrange(10**9), lambda: np.random.randint(10**9), lambda: lib.rand(1).item()]  # noqa: NPY002

    def make(index: int) -> list[Any]:
        return [f() for f in draw]

    def drawn(**options: Any) -> list[Any]:
        return list(singles(lib, make, collate_fn=list, **options))

    lib.manual_seed(1)
    first = drawn()
    assert drawn() != first
    lib.manual_seed(1)
    assert drawn() == first
    assert len({tuple(numbers) for numbers in first}) == 6
    generators = [lib.Generator().manual_seed(5) for _ in range(2)]
    assert drawn(generator=generators[0]) == drawn(generator=generators[1])


@pytest.mark.parity
@pytest.mark.parametrize("number", [0, 1])
def test_numbers_of_a_worker_are_those_of_pytorch_for_its_seed(number: int):
    generate_state = pytest.importorskip("torch.utils.data._utils.worker")._generate_state
    seed = drawn_seed(fg.Generator().manual_seed(3))
    recipe = DataLoader([1]).recipe()
    worker.seed_all(worker.Job(recipe, None, seed, number, 2))
    ours = random.random(), np.random.rand()  # noqa: NPY002
    random.seed(seed + number)
    np.random.seed(generate_state(seed, number))  # noqa: NPY002
    assert ours == (random.random(), np.random.rand())  # noqa: NPY002


def test_the_order_is_the_same_with_and_without_workers(lib: ModuleType):
    orders = []
    for n in (0, 1, 2):
        lib.manual_seed(4)
        orders.append(given(lib.utils.data.DataLoader(list(range(20)), shuffle=True, num_workers=n)))
    assert orders[0] == orders[1] == orders[2]


def test_persistent_workers(lib: ModuleType):
    loader = singles(lib, lambda i: os.getpid(), persistent_workers=True)
    assert len({*loader, *loader}) == 2
    other = singles(lib, lambda i: os.getpid())
    assert len({*other, *other}) == 4
    streams = lib.utils.data.DataLoader(
        stream(lib, 3, 5), num_workers=2, persistent_workers=True, batch_size=2
    )
    first = given(streams)
    for _ in streams:  # and what was on its way is forgotten
        break
    assert given(streams) == first


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_ways_to_start(method: str):
    data = TensorDataset(fg.arange(6), fg.arange(6 * 20_000.0).view(6, -1))
    loader = DataLoader(data, batch_size=2, num_workers=2, multiprocessing_context=method)
    batches = list(loader)
    assert fg.equal(fg.cat([numbers for numbers, _ in batches]), data.tensors[0])
    assert fg.equal(fg.cat([values for _, values in batches]), data.tensors[1])


def test_functions_of_the_program(lib: ModuleType):
    loader = singles(
        lib, lambda i: os.environ["STARTED"], worker_init_fn=lambda k: os.environ.update(STARTED=str(k))
    )
    assert list(loader) == ["0", "1"] * 3
    assert "STARTED" not in os.environ


def test_more_batches_ahead_than_a_socket_holds():
    texts = list(singles(fg, lambda i: "x" * 20_000, 300, prefetch_factor=100))
    assert len(texts) == 300
    assert given(DataLoader(range(3 * 10**5), batch_size=10**5, num_workers=2, collate_fn=len)) == [10**5] * 3
    samplers = DataLoader(
        range(9000),
        batch_sampler=[list(range(3000))] * 200,
        num_workers=1,
        collate_fn=len,
        prefetch_factor=200,
    )
    assert given(samplers) == [3000] * 200


# --- exceptions ---------------------------------------------------------------------------------------------


class DemandingError(Exception):
    """Takes two arguments."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(one, two)


RAISED = {
    "key": (KeyError("k"), KeyError),
    "value": (ValueError("v"), ValueError),
    "arguments": (DemandingError(1, 2), RuntimeError),
    "file": (FileNotFoundError(2, "no"), FileNotFoundError),
}


@pytest.mark.parametrize("name", RAISED)
def test_exceptions_bring_the_tracebacks_of_workers(lib: ModuleType, name: str):
    error, kind = RAISED[name]

    def make(index: int) -> int:
        if index == 3:
            raise error
        return index

    it = iter(singles(lib, make))
    assert [next(it) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(kind) as found:
        next(it)
    assert type(found.value) is kind
    text = str(found.value)
    assert text.startswith(
        f"Caught {type(error).__name__} in DataLoader worker process 1.\nOriginal Traceback (most recent call last):\n"
    )
    assert "in make\n    raise error\n" in text
    assert [next(it) for _ in range(2)] == [4, 5]


def test_what_starts_a_worker_raises():
    def init(number: int) -> None:
        raise ValueError(f"no {number}")

    with pytest.raises(ValueError, match=r"Caught ValueError in DataLoader worker process 0[^$]*no 0"):
        list(singles(fg, lambda i: i, worker_init_fn=init))


def test_exceptions_that_cannot_travel():
    class LocalError(Exception):
        pass

    def make(index: int) -> int:
        raise LocalError("here")

    with pytest.raises(RuntimeError, match=r"Caught LocalError in DataLoader worker process 0[^$]*here"):
        list(singles(fg, make))
    with pytest.raises(AttributeError, match=r"in DataLoader worker process 0[^$]*(pickle|get) local object"):
        list(singles(fg, lambda i: lambda: 0))

    def stop(index: int) -> int:
        raise StopIteration("half an epoch")

    with pytest.raises(RuntimeError, match="Caught StopIteration"):
        list(singles(fg, stop))


class Unreadable:
    """Cannot be made again from its pickle."""

    def __reduce__(self) -> Any:
        return int, ("x",)


def test_batches_that_cannot_be_read():
    it = iter(singles(fg, lambda i: Unreadable() if i == 0 else i))
    with pytest.raises(ValueError, match="in a batch of DataLoader worker process 0"):
        next(it)
    assert next(it) == 1


# --- endings ------------------------------------------------------------------------------------------------

DEATHS: dict[str, tuple[Callable[[], Any], str]] = {
    "exit": (lambda: os._exit(3), r"exited unexpectedly with exit code 3; it was worker 1 of 2"),
    "kill": (
        lambda: os.kill(os.getpid(), signal.SIGKILL),
        r"is killed by signal: Killed; it was worker 1 of 2",
    ),
    "leave": (lambda: sys.exit(4), r"exited unexpectedly with exit code 4"),
    "interrupt": (lambda: os.kill(os.getpid(), signal.SIGINT), r"exited unexpectedly with exit code 0"),
}


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("name", DEATHS)
def test_a_worker_that_dies(name: str, persistent: bool):
    die, message = DEATHS[name]

    def make(index: int) -> int:
        return index if index != 3 else die()

    loader = singles(fg, make, persistent_workers=persistent)
    pids = []
    for _ in range(2):  # the next iteration starts others
        it = iter(loader)
        pids += [w.process.pid for w in it._source._workers]
        with pytest.raises(RuntimeError, match=r"DataLoader worker \(pid \d+\) " + message):
            list(it)
        with pytest.raises(StopIteration):
            next(it)
    assert len(set(pids)) == 4
    assert not any(alive(pid) for pid in pids)


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # not there, or gone while it was read
        return False


def test_a_worker_that_dies_between_iterations():
    loader = singles(fg, lambda i: os.getpid(), persistent_workers=True)
    pid = next(iter(loader))
    os.kill(pid, signal.SIGKILL)
    while alive(pid):
        time.sleep(0.01)
    with pytest.raises(RuntimeError, match=rf"worker \(pid {pid}\) is killed by signal: Killed"):
        list(loader)
    assert len(set(loader)) == 2


def test_a_worker_that_takes_too_long(lib: ModuleType):
    loader = singles(lib, lambda i: time.sleep(1), timeout=0.1)
    with pytest.raises(RuntimeError, match=r"DataLoader timed out after 0\.1 seconds"):
        list(loader)


@pytest.mark.parametrize("how", ["all", "some", "none", "error"])
def test_no_worker_outlives_its_iterator(how: str):
    it = iter(singles(fg, lambda i: i if i < 3 or how != "error" else 1 // 0, 9))
    pids = [w.process.pid for w in it._source._workers]
    if how == "all":
        list(it)
    elif how == "some":
        next(it)
    elif how == "error":
        with pytest.raises(ZeroDivisionError):
            list(it)
    del it
    assert not any(alive(pid) for pid in pids)


PROGRAM = """
import os, sys, time
import fastgrad as fg
from fastgrad.utils.data import DataLoader

class Slow:
    def __getitem__(self, i):
        time.sleep(60 * (i == 7))
        return fg.ones(20000)
    def __len__(self):
        return 10

if __name__ == "__main__":
    loader = DataLoader(Slow(), num_workers=2, persistent_workers=sys.argv[1] == "persistent")
    it = iter(loader)
    print(*(w.process.pid for w in it._source._workers), flush=True)
    {then}
"""
ENDINGS = {
    "ctrl-c": ("list(it)", lambda p: os.killpg(p.pid, signal.SIGINT)),
    "interrupt": ("list(it)", lambda p: p.send_signal(signal.SIGINT)),
    "kill": ("[next(it) for _ in range(3)]; time.sleep(60)", lambda p: p.kill()),
    "end": ("next(it)", lambda p: None),
    "exit": ("os._exit(0)", lambda p: None),
    "raise": ("next(it); 1 // 0", lambda p: None),
}


@pytest.mark.parametrize("kind", ["persistent", "short"])
@pytest.mark.parametrize("name", ENDINGS)
def test_nothing_is_left_of_a_program(tmp_path: Any, name: str, kind: str):
    then, end = ENDINGS[name]
    file = tmp_path / "program.py"
    file.write_text(PROGRAM.replace("{then}", then).replace("60", "2" if name == "kill" else "60"))
    before = set(os.listdir("/dev/shm"))
    with subprocess.Popen(
        [sys.executable, file, kind],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        pids = [int(word) for word in process.stdout.readline().split()]
        assert len(pids) == 2
        end(process)
        _, errors = process.communicate(timeout=60)
    assert errors.count("Traceback") == (name in ("ctrl-c", "interrupt", "raise")), errors
    deadline = time.monotonic() + 30
    while any(alive(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not any(alive(pid) for pid in pids)
    assert not [name for name in set(os.listdir("/dev/shm")) - before if "fastgrad" in name]


# --- options ------------------------------------------------------------------------------------------------

ERRORS: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "negative": ({"num_workers": -1}, ValueError, "num_workers option should be non-negative"),
    "timeout": ({"timeout": -1}, ValueError, "timeout option should be non-negative"),
    "prefetch": (
        {"prefetch_factor": 2},
        ValueError,
        "prefetch_factor option could only be specified in multiproc",
    ),
    "persistent": (
        {"persistent_workers": True},
        ValueError,
        "persistent_workers option needs num_workers > 0",
    ),
    "context": (
        {"multiprocessing_context": "fork"},
        ValueError,
        "can only be used with multi-process loading",
    ),
    "method": (
        {"num_workers": 1, "multiprocessing_context": "threads"},
        ValueError,
        r"should specify a valid start method in \['fork', 'spawn', 'forkserver'\], but got "
        "multiprocessing_context='threads'",
    ),
    "no context": (
        {"num_workers": 1, "multiprocessing_context": 5},
        TypeError,
        "should be a valid context object",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_options_that_contradict_each_other(lib: ModuleType, name: str):
    options, kind, message = ERRORS[name]
    with pytest.raises(kind, match=message):
        lib.utils.data.DataLoader([1, 2], **options)


@pytest.mark.parametrize("value", [1.5, None, "2"])
def test_a_number_of_workers_that_is_none(value: Any):
    with pytest.raises(TypeError, match="num_workers option should be an int"):
        DataLoader([1], num_workers=value)
    if value is not None:
        with pytest.raises(TypeError, match="prefetch_factor option should be an int"):
            DataLoader([1], num_workers=1, prefetch_factor=value)
    with pytest.raises(TypeError, match="timeout option should be a number of seconds"):
        DataLoader([1], num_workers=1, timeout="1")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="timeout option should be non-negative, but got nan"):
        DataLoader([1], num_workers=1, timeout=float("nan"))
    with pytest.raises(ValueError, match="prefetch_factor option should be positive, but got 0"):
        DataLoader([1], num_workers=1, prefetch_factor=0)


def test_what_cannot_be_set_later(lib: ModuleType):
    loader = lib.utils.data.DataLoader([1, 2])
    for name in ("batch_size", "sampler", "batch_sampler", "drop_last", "dataset", "persistent_workers"):
        with pytest.raises(
            ValueError, match=f"{name} attribute should not be set after DataLoader is initialized"
        ):
            setattr(loader, name, None)


def test_more_workers_than_processors():
    n = len(os.sched_getaffinity(0)) + 1
    with pytest.warns(UserWarning, match=f"will create {n} worker processes in total"):
        DataLoader([1], num_workers=n)


def test_a_program_that_cannot_be_pickled():
    loader = DataLoader(Numbered(lambda i: i), num_workers=2, multiprocessing_context="spawn")
    with pytest.raises((AttributeError, TypeError), match=re.compile("pickle")):
        iter(loader)
    assert get_worker_info() is None


def test_loaders_are_copied_without_their_workers():
    loader = DataLoader([1, 2, 3], num_workers=2, persistent_workers=True)
    first = given(loader)
    for copy in (pickle.loads(pickle.dumps(loader)), deepcopy(loader)):
        assert copy.num_workers == 2
        assert given(copy) == first


def test_an_iterator_stays_in_its_process():
    it = iter(singles(fg, lambda i: i))
    next(it)
    here, there = multiprocessing.Pipe()

    def use() -> None:
        try:
            next(it)
        except RuntimeError as error:
            there.send(str(error))

    process = multiprocessing.get_context("fork").Process(target=use)
    process.start()
    assert (
        here.recv()
        == "an iterator of a DataLoader with workers belongs to the process that made it; make one here"
    )
    process.join()
    assert list(it) == [1, 2, 3, 4, 5]
    here.close()
    there.close()
