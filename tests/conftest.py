"""Seeds, a check after every test that no record of the runtime outlived it, and what both libraries run in."""

from __future__ import annotations

import itertools
import os
import random
import signal
import sys
import zlib
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

from tests.collecting import collect

sys.path.insert(0, str(Path(__file__).parent))  # op_cases and op_testing, in every import mode
pytest.register_assert_rewrite("op_testing")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell starts what runs in the background like this
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests draw the same examples every time, and take as long as the machine needs.
settings.register_profile("fastgrad", derandomize=True, deadline=None)
settings.load_profile("fastgrad")

FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    item.stash[FAILED] = item.stash.get(FAILED, False) or report.failed
    return report


SHARE = int(os.environ.get("FASTGRAD_TEST_SHARE", "1"))
"""Of the samples of an op in a test of `tests/ops`, one in so many runs, and at least one."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With FASTGRAD_TEST_SHARE=3, let a third of the samples of every op run, the same ones every time."""
    if SHARE > 1:
        kept = list(share(items, SHARE))
        config.hook.pytest_deselected(items=[item for item in items if item not in set(kept)])
        items[:] = kept


def share(items: list[pytest.Item], n: int) -> Iterator[pytest.Item]:
    """Of the tests of ops one in `n`, at least one of each function for each op; all others."""
    seen: set[tuple[str, str]] = set()
    for item in items:
        parameters = getattr(getattr(item, "callspec", None), "id", "")
        if "tests/ops/" not in item.nodeid or not parameters:
            yield item
            continue
        op = (item.nodeid.partition("[")[0], parameters.partition("-")[0])
        if op not in seen or zlib.crc32(item.nodeid.encode()) % n == 0:
            seen.add(op)
            yield item


@pytest.fixture(scope="session")
def runtime() -> ModuleType | None:
    """The package, or None where the op table is checked against torch alone (see ops/conftest.py)."""
    if os.environ.get("FASTGRAD_OP_TABLE_LIBRARY", "fastgrad") != "fastgrad":
        return None
    import fastgrad

    collect()
    smallest_parts()
    compiled_passes()
    recorded_rules()
    return fastgrad


def smallest_parts() -> None:
    """With FASTGRAD_TEST_PARTS=1 every launch that can be divided is: also over two elements, and on five threads."""
    if os.environ.get("FASTGRAD_TEST_PARTS", "0") not in ("", "0"):
        import fastgrad
        from fastgrad.native.build.loader import runtime_set

        runtime_set("part_work", 1)
        fastgrad.set_num_threads(5)


def recorded_rules() -> None:
    """Make the programs of recorded passes, whose numbers stay, as no test shall be the first to need one."""
    from fastgrad.native.host.tables import OPS
    from fastgrad.ops.recorded import trace_recorded

    for op in OPS:
        for k in op.rules:
            trace_recorded(op, k)


def compiled_passes() -> None:
    """With FASTGRAD_TEST_COMPILED=1 every pass follows a plan."""
    if os.environ.get("FASTGRAD_TEST_COMPILED", "0") not in ("", "0"):
        import fastgrad

        fastgrad.autograd.compiled.enable()


@pytest.fixture(params=["fastgrad", pytest.param("torch", marks=pytest.mark.parity)])
def lib(request: pytest.FixtureRequest) -> ModuleType:
    """The library; for sentences that are PyTorch's too, both of them."""
    found = pytest.importorskip(request.param)
    if request.param == "torch":
        found.set_num_threads(1)
    return found


@pytest.fixture(autouse=True)
def seeds(runtime: ModuleType | None) -> None:
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002 - for libraries that draw from it
    if runtime is not None:
        runtime.manual_seed(0)


def kept() -> dict[str, int]:
    """At most what tables count that functions keep: a block is a power of two bytes at most."""
    from fastgrad.functions.plans import constants

    tables = constants()
    block_bytes = sum(max(64, 2 * t.nbytes) for t in tables)
    return {"tensors": len(tables), "storages": len(tables), "bytes": block_bytes}


@pytest.fixture(autouse=True)
def nothing_leaks(request: pytest.FixtureRequest, runtime: ModuleType | None) -> Iterator[None]:
    """Live tensors, storages, nodes, tasks, bytes and modes return to what they were before the test.

    What is kept from then on are tables of sizes that the test was the first to meet.
    """
    if runtime is None:
        yield
        return
    from fastgrad.native.build.loader import rt

    forget_last_failure()
    let_be_what_stays()
    before, mode, tables = runtime.debug.live(), rt.get_mode(), kept()
    yield
    assert rt.get_mode() == mode, "modes or hooks of this thread are still in force"
    if request.node.stash.get(FAILED, False):  # the traceback holds the test's tensors
        return
    after = runtime.debug.live()
    if after != before:  # cycles may wait for the collector, also such of earlier tests
        collect()
        after = runtime.debug.live()
    if after != before:
        before = {name: n + max(kept().get(name, 0) - tables.get(name, 0), 0) for name, n in before.items()}
    assert all(after[name] <= before[name] for name in before), (before, after)


FREEZE_EVERY = 1000  # tests
_ran = itertools.count(1)


def let_be_what_stays() -> None:
    """Now and then: what earlier tests imported and compiled."""
    if next(_ran) % FREEZE_EVERY == 0:
        collect()


def forget_last_failure() -> None:
    """Drop the traceback of the last failed test, with the tensors that its frames hold."""
    kept = [name for name in ("last_exc", "last_type", "last_value", "last_traceback") if hasattr(sys, name)]
    for name in kept:
        delattr(sys, name)
    if kept:
        collect()


@pytest.fixture
def ones(lib: ModuleType) -> Callable[..., Any]:
    """Makes a leaf of ones that requires grad."""
    return lambda *sizes: lib.ones(*(sizes or (2,)), requires_grad=True)
