"""Autocast and anomaly mode without a block, beside PyTorch: states, dtypes, errors, warnings."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from errors_beside import kinds_raised

import fastgrad as fg


@pytest.fixture(autouse=True)
def _put_back() -> Iterator[None]:
    yield
    for kind, dtype in (("cpu", fg.bfloat16), ("cuda", fg.float16)):
        fg.set_autocast_enabled(kind, False)
        fg.set_autocast_dtype(kind, dtype)
    fg.set_autocast_cache_enabled(True)
    fg.set_anomaly_enabled(False)


def state(lib: Any) -> list[Any]:
    a = lib.ones(2, 2)
    names = [(a @ a).dtype, *(lib.get_autocast_dtype(kind) for kind in ("cpu", "cuda"))]
    on = [lib.is_autocast_enabled(kind) for kind in ("cpu", "cuda")]
    anomaly = [lib.is_anomaly_enabled(), lib.is_anomaly_check_nan_enabled()]
    return [*(str(n).partition(".")[2] for n in names), *on, lib.is_autocast_cache_enabled(), *anomaly]


def nested(lib: Any) -> list[Any]:
    found = []
    with lib.autocast("cpu", lib.float16):
        with lib.autocast("cpu"):
            found.append(state(lib))
        with lib.autocast("cpu", enabled=False, cache_enabled=False):
            found.append(state(lib))
            lib.set_autocast_enabled("cpu", True)
            found.append(state(lib))
        lib.set_autocast_enabled("cpu", False)
        found.append(state(lib))
        lib.set_autocast_dtype("cpu", lib.bfloat16)
        found.append(state(lib))
    return [*found, state(lib)]


def decorated(lib: Any) -> list[Any]:
    lib.set_autocast_dtype("cpu", lib.float16)
    found = [lib.autocast("cpu")(lambda: state(lib))(), state(lib)]
    lib.set_autocast_dtype("cpu", lib.bfloat16)
    return found


STEPS = {
    "on": lambda lib: lib.set_autocast_enabled("cpu", True),
    "dtype": lambda lib: lib.set_autocast_dtype("cpu", lib.float16),
    "by name": lambda lib: lib.set_autocast_enabled(device_type="cpu", enabled=False),
    "on again": lambda lib: lib.set_autocast_enabled("cpu", True),
    "other dtype": lambda lib: lib.set_autocast_dtype("cpu", lib.bfloat16),
    "off": lambda lib: lib.set_autocast_enabled("cpu", False),
    "gpu": lambda lib: lib.set_autocast_enabled(True),
    "gpu dtype": lambda lib: lib.set_autocast_dtype("cuda", lib.bfloat16),
    "gpu off": lambda lib: lib.set_autocast_enabled(enabled=False),
    "gpu dtype back": lambda lib: lib.set_autocast_dtype("cuda", lib.float16),
    "no cache": lambda lib: lib.set_autocast_cache_enabled(False),
    "cache": lambda lib: lib.set_autocast_cache_enabled(True),
    "anomaly": lambda lib: lib.set_anomaly_enabled(True),
    "anomaly unchecked": lambda lib: lib.set_anomaly_enabled(True, check_nan=False),
    "no anomaly": lambda lib: lib.set_anomaly_enabled(enabled=False),
    "nested": nested,
    "decorated": decorated,
    "cpu": lambda lib: lib.set_autocast_cpu_enabled(True),
    "cpu dtype": lambda lib: lib.set_autocast_cpu_dtype(lib.float16),
    "cpu asked": lambda lib: [
        lib.is_autocast_cpu_enabled(),
        str(lib.get_autocast_cpu_dtype()).partition(".")[2],
    ],
    "cpu off": lambda lib: lib.set_autocast_cpu_enabled(False),
    "cpu dtype back": lambda lib: lib.set_autocast_cpu_dtype(lib.bfloat16),
    "gpu asked": lambda lib: str(lib.get_autocast_gpu_dtype()).partition(".")[2],
    "up": lambda lib: [lib.autocast_increment_nesting() for _ in range(2)],
    "down": lambda lib: [lib.autocast_decrement_nesting() for _ in range(2)],
}


@pytest.mark.parity
def test_states_are_pytorchs() -> None:
    torch = pytest.importorskip("torch")
    for name, step in STEPS.items():
        told = []
        for lib in (fg, torch):
            with warnings.catch_warnings(record=True) as given:
                warnings.simplefilter("always")
                told.append([step(lib), state(lib), [w.category for w in given]])
        assert told[0] == told[1], name


WRONG = {
    "number": lambda lib: lib.set_autocast_enabled(1),
    "second number": lambda lib: lib.set_autocast_enabled("cpu", 1),
    "no device": lambda lib: lib.set_autocast_enabled("foo", True),
    "other device": lambda lib: lib.set_autocast_enabled("meta", True),
    "text alone": lambda lib: lib.set_autocast_enabled("cpu"),
    "none": lambda lib: lib.set_autocast_enabled(None),
    "nothing": lambda lib: lib.set_autocast_enabled(),
    "no dtype": lambda lib: lib.set_autocast_dtype("cpu", 1),
    "dtype alone": lambda lib: lib.set_autocast_dtype(lib.float16),
    "dtype of no device": lambda lib: lib.set_autocast_dtype("foo", lib.float16),
    "cache": lambda lib: lib.set_autocast_cache_enabled(1),
    "asked": lambda lib: lib.is_autocast_enabled(1),
    "asked for the dtype": lambda lib: lib.get_autocast_dtype(1),
    "context": lambda lib: lib.autocast(1),
    "anomaly": lambda lib: lib.set_anomaly_enabled(1),
    "anomaly nan": lambda lib: lib.set_anomaly_enabled(True, 1),
    "anomaly nothing": lambda lib: lib.set_anomaly_enabled(),
}


@pytest.mark.parity
@pytest.mark.parametrize("case", sorted(WRONG))
def test_errors_are_pytorchs(case: str) -> None:
    here, there = kinds_raised(WRONG[case])
    assert here is there


def test_other_dtypes_cannot_be_set() -> None:
    with pytest.raises(NotImplementedError, match="float16 and bfloat16"):
        fg.set_autocast_dtype("cpu", fg.float32)


def test_each_thread_has_its_own() -> None:
    fg.set_autocast_enabled("cpu", True)
    fg.set_autocast_cache_enabled(False)
    seen: list[Any] = []
    thread = threading.Thread(
        target=lambda: seen.extend([fg.is_autocast_enabled("cpu"), fg.is_autocast_cache_enabled()])
    )
    thread.start()
    thread.join()
    assert seen == [False, True]
    assert fg.is_autocast_enabled("cpu")


def test_a_pass_in_anomaly_mode_that_was_set() -> None:
    x = fg.zeros(1, requires_grad=True)
    fg.set_anomaly_enabled(True)
    with pytest.warns(UserWarning, match="SqrtBackward0"), pytest.raises(RuntimeError, match="nan values"):
        (x.sqrt() * 0).backward()
