"""Launches that report bad indices, in graphs over GPUs that are none: nothing waits for them."""

from __future__ import annotations

import gc

import pytest

import fastgrad as fg
import fastgrad.nn.functional as F
from fastgrad.native.contracts.cuda import REPORTED
from fastgrad.native.host.tape import record
from tests.cuda.steps import ONE_CALL, calls_of, check_one_call, settle

pytestmark = pytest.mark.usefixtures("all_is_done", "no_graphs_are_left")


@pytest.fixture
def each_is_waited_for(driver):
    """FASTGRAD_CUDA_SYNC=1."""
    gpu = driver.gpus[0]
    gpu._set("synchronous", 1)
    yield
    gpu._set("synchronous", 0)


def test_a_step_with_classes_is_one_call(driver):
    check_one_call(driver, 10, "sgd", "classes")


def captured(function, graph):
    """A replay of a function: of a tape, or of a graph."""
    if not graph:
        with record() as tape:
            result = function()
        return tape, result
    g = fg.cuda.CUDAGraph()
    with fg.cuda.graph(g):
        result = function()
    return g, result


BAD = (IndexError, RuntimeError)  # gather raises the latter, as in PyTorch


def lookups():
    """Ops that look at indices, with what each says of a 9."""
    table, row = fg.arange(4.0).cuda(), fg.arange(8.0).reshape(4, 2).cuda()
    return {
        "gather": (
            lambda i: table.gather(0, i),
            r"gather\(\): index 9 is out of bounds for dimension 0 with size 4",
        ),
        "embedding": (lambda i: F.embedding(i, row), "embedding.*index 9"),
        "nll_loss": (lambda i: F.nll_loss(row.reshape(2, 4).log_softmax(1), i), "nll_loss.*target 9"),
        "index": (lambda i: row[i], "index 9 is out of bounds"),
    }


@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize("name", ["gather", "embedding", "nll_loss", "index"])
def test_an_index_out_of_range_is_told_when_something_waits(driver, name, graph):
    look, says = lookups()[name]
    index, out = fg.tensor([1, 2]).cuda(), fg.zeros(1).cuda()

    def step():
        out.add_(1)
        found = look(index).sum() * 2
        out.add_(1)
        return found

    replayed, found = captured(step, graph)
    out.zero_()
    replayed.replay()
    good = found.item()
    index.copy_(fg.tensor([0, 9]))
    assert calls_of(driver, replayed.replay) == ONE_CALL
    replayed.replay()
    with pytest.raises(BAD, match=says) as error:
        out.item()
    assert "FASTGRAD_CUDA_SYNC=1" in str(error.value)
    assert out.item() == 6  # nothing was left out, and it is told once
    index.copy_(fg.tensor([1, 2]))
    replayed.replay()
    assert found.item() == good


def test_each_launch_of_a_graph_has_its_own_report(driver):
    table, rows = fg.arange(4.0).cuda(), fg.zeros(4, 3).cuda()
    first, second = fg.tensor([0]).cuda(), fg.tensor([0]).cuda()
    g, _ = captured(lambda: (table.gather(0, first), F.embedding(second, rows)), True)
    first.fill_(7)
    second.fill_(8)
    g.replay()
    seen = []
    for _ in range(2):
        with pytest.raises(BAD) as error:
            fg.cuda.synchronize()
        seen.append(str(error.value))
    assert seen[0].startswith("gather(): index 7")
    assert seen[1].startswith("embedding(): ")
    fg.cuda.synchronize()


@pytest.mark.parametrize("graph", [False, True])
def test_where_all_is_waited_for_it_is_told_at_once(driver, each_is_waited_for, graph):
    table, index = fg.arange(4.0).cuda(), fg.tensor([1, 2]).cuda()
    replayed, found = captured(lambda: table.gather(0, index) * 2, graph)
    replayed.replay()
    index.copy_(fg.tensor([0, 9]))
    with pytest.raises(BAD, match=r"gather.*index 9"):
        replayed.replay()
    index.copy_(fg.tensor([3, 3]))
    replayed.replay()
    assert found.tolist() == [6, 6]


def test_a_single_launch_that_reports(driver):
    table, index = fg.arange(4.0).cuda(), fg.tensor([1, 2]).cuda()
    g, found = captured(lambda: table.gather(0, index), True)
    index.copy_(fg.tensor([0, 9]))
    assert calls_of(driver, g.replay) == {"cuLaunchKernel": 1}
    with pytest.raises(BAD, match=r"gather.*index 9"):
        found.tolist()


def test_a_bad_index_while_a_tape_records(driver):
    table, index = fg.arange(4.0).cuda(), fg.tensor([0, 9]).cuda()
    tape, found = captured(lambda: table.gather(0, index) + 1, False)
    with pytest.raises(BAD, match=r"gather.*index 9"):
        fg.cuda.synchronize()
    index.copy_(fg.tensor([3, 3]))
    tape.replay()
    assert found.tolist() == [4, 4]


def test_a_graph_that_goes_before_anybody_has_heard_what_it_says(driver):
    table, index = fg.arange(4.0).cuda(), fg.tensor([1, 2]).cuda()
    tape, found = captured(lambda: table.gather(0, index) + 1, False)
    index.copy_(fg.tensor([0, 9]))
    tape.replay()
    del tape
    gc.collect()
    driver.work()
    others = [
        captured(lambda: table.gather(0, fg.zeros(1, dtype=fg.int64, device="cuda")) + 1, False)[0]
        for _ in "ab"
    ]
    for other in others:
        other.replay()
    with pytest.raises(BAD, match=r"gather.*index 9"):
        fg.cuda.synchronize()
    fg.cuda.synchronize()
    del found


def test_more_reports_than_a_table_has_room_for(driver):
    table, index = fg.arange(4.0).cuda(), fg.tensor([1]).cuda()
    g, found = captured(lambda: [table.gather(0, index) for _ in range(150)], True)
    index.fill_(5)
    g.replay()
    for _ in range(150):
        with pytest.raises(BAD, match=r"gather.*index 5"):
            fg.cuda.synchronize()
    fg.cuda.synchronize()
    index.fill_(2)
    g.replay()
    assert [t.item() for t in found] == [2] * 150


def test_tables_of_reports_are_used_again(driver):
    gpu = driver.gpus[0]
    table, index = fg.arange(4.0).cuda(), fg.tensor([1]).cuda()
    made = set()
    for _ in range(5):
        g, found = captured(lambda: table.gather(0, index) + 1, True)
        g.replay()
        assert found.item() == 2
        del g
        settle()
        made.add(gpu.read("late_tables"))
    assert len(made) == 1


@pytest.mark.parametrize("function", ["cuMemHostAlloc", "cuStreamBeginCapture"])
def test_no_memory_for_reports(driver, function):
    gpu = driver.gpus[0]
    table, index = fg.arange(4.0).cuda(), fg.zeros(4, dtype=fg.int64).cuda()
    g, found = captured(lambda: [table.gather(0, index) + 1 for _ in range(600)], True)
    driver.says[function] = [2]
    taken = gpu.read("late_tables")
    with pytest.raises((MemoryError, fg.cuda.OutOfMemoryError)):
        g.replay()
    if function == "cuMemHostAlloc":
        assert gpu.read("late_tables") == taken
    g.replay()
    assert found[-1].tolist() == [1] * 4


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_replay_with_numbers_that_are_no_probabilities(driver, device):
    p = fg.full((4,), 0.5, device=device)
    with record() as tape:
        y = fg.bernoulli(p)
    p.fill_(2)
    with pytest.raises(RuntimeError, match=r"to lie in \[0, 1\]"):
        (tape.replay(), fg.cuda.synchronize())
    p.fill_(1)
    tape.replay()
    assert y.tolist() == [1] * 4


def test_who_comes_second_is_told_the_same(driver):
    gpu, table = driver.gpus[0], fg.arange(4.0).cuda()
    table.gather(0, fg.tensor([9]).cuda())
    with pytest.raises(BAD, match=r"gather.*index 9") as first:
        fg.cuda.synchronize()
    second = gpu.error(REPORTED, "add()")  # of a thread that waited as well
    assert type(second) is first.type
    assert str(second) == str(first.value)
