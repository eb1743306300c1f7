"""Stores, in both libraries; the sentences are those of docs/distributed.md."""

from __future__ import annotations

import importlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from ranks import environment, succeed

import fastgrad.distributed as dist

SHORT = timedelta(seconds=0.2)
KINDS = ["HashStore", "TCPStore", "FileStore", "PrefixStore"]


@pytest.fixture(params=["fastgrad", pytest.param("torch", marks=pytest.mark.parity)])
def lib(request: pytest.FixtureRequest) -> ModuleType:
    pytest.importorskip(request.param)
    return importlib.import_module(f"{request.param}.distributed")


@pytest.fixture(params=KINDS)
def store(lib: ModuleType, request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    made = {
        "HashStore": lib.HashStore,
        "TCPStore": lambda: lib.TCPStore("127.0.0.1", 0, is_master=True),
        "FileStore": lambda: lib.FileStore(str(tmp_path / "store"), 1),
        "PrefixStore": lambda: lib.PrefixStore("before", lib.HashStore()),
    }[request.param]()
    made.set_timeout(timedelta(seconds=30))
    return made


def later(function: Callable[[], Any]) -> threading.Thread:
    def run() -> None:
        time.sleep(0.1)
        function()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_s1(store: Any):
    store.set("a", "1")
    assert store.get("a") == b"1"
    store.set("a", b"\x00\xff" * 100_000)
    assert store.get("a") == b"\x00\xff" * 100_000
    store.set("", "")
    assert store.get("") == b""


def test_s1_waits(lib: ModuleType):
    store = lib.HashStore()
    thread = later(lambda: store.set("a", "1"))
    assert store.get("a") == b"1"
    thread.join()


def test_s2(store: Any):
    assert store.add("n", 3) == 3
    assert store.add("n", -5) == -2
    assert store.get("n") == b"-2"
    store.set("n", "7")
    assert store.add("n", 1) == 8


def test_s2_of_what_is_no_number(lib: ModuleType):
    store = lib.HashStore()
    store.set("a", "x")
    with pytest.raises(ValueError, match=r"stoll|key 'a' holds b'x', which is no number"):
        store.add("a", 1)


def test_s3(store: Any, lib: ModuleType):
    store.set("a", "1")
    assert store.check(["a"])
    assert store.check([])
    assert not store.check(["a", "b"])
    store.wait(["a"])
    store.set_timeout(SHORT if lib is dist else timedelta(seconds=1))
    for wait in (lambda: store.wait(["a", "b"]), lambda: store.wait(["b"], SHORT), lambda: store.get("b")):
        start = time.monotonic()
        with pytest.raises(lib.DistStoreError if lib is dist else RuntimeError, match=r"[Tt]imeout"):
            wait()
        assert time.monotonic() - start < 8
    setter = (
        store if lib is dist else store.clone()
    )  # one of PyTorch's that waits keeps other threads waiting
    thread = later(lambda: setter.set("b", "1"))
    store.wait(["a", "b"], timedelta(seconds=30))
    thread.join()


def test_s4(store: Any):
    if type(store).__name__ == "FileStore" and not isinstance(store, dist.Store):
        pytest.skip("PyTorch's has none")
    assert store.compare_set("a", "", "1") == b"1"
    assert store.compare_set("a", "1", "2") == b"2"
    assert store.compare_set("a", "1", "3") == b"2"
    assert store.compare_set("b", "1", "3") == b"1"
    assert not store.check(["b"])


def test_s5(store: Any):
    store.set("a", "1")
    assert store.delete_key("a")
    assert not store.check(["a"])


def test_s6(store: Any):
    store.append("a", "x")
    store.append("a", b"y")
    store.multi_set(["b", "c"], ["1", b"2"])
    assert store.multi_get(["a", "b", "c"]) == [b"xy", b"1", b"2"]


def test_s7(lib: ModuleType):
    inner = lib.HashStore()
    store = lib.PrefixStore("p", lib.PrefixStore("q", inner))
    store.set("a", "1")
    assert inner.get("q/p/a") == b"1"
    assert store.underlying_store.underlying_store is inner


def test_s8(lib: ModuleType):
    keeper = lib.TCPStore("127.0.0.1", 0, 3, True, timeout=timedelta(seconds=30), wait_for_workers=False)
    others = [lib.TCPStore("127.0.0.1", keeper.port, 3, False) for _ in range(2)]
    threads = [
        threading.Thread(target=lambda o=o: [o.add("n", 1) for _ in range(50)]) for o in (keeper, *others)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert keeper.get("n") == b"150"
    thread = later(lambda: keeper.set("late", "1"))
    assert others[0].get("late") == b"1"
    thread.join()


def test_s8_when_it_fails(lib: ModuleType):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(lib.DistNetworkError, match="failed to listen"):
            lib.TCPStore("127.0.0.1", taken.getsockname()[1], is_master=True, use_libuv=False)
        free = taken.getsockname()[1]
    with pytest.raises(lib.DistNetworkError, match="connect"):
        lib.TCPStore("127.0.0.1", free, 2, False, timeout=SHORT)
    with pytest.raises(lib.DistStoreError, match="1/2 clients joined"):
        lib.TCPStore("127.0.0.1", 0, 2, True, timeout=timedelta(seconds=1))


def test_s9(lib: ModuleType, tmp_path: Path):
    path = str(tmp_path / "store")
    first, second = lib.FileStore(path, 2), lib.FileStore(path, 2)
    first.set("a", "1")
    assert second.get("a") == b"1"
    assert second.add("n", 2) == 2
    assert first.add("n", 2) == 4
    assert first.path == path
    del first
    assert Path(path).exists()
    del second
    assert not Path(path).exists()


# --- fastgrad only ---------------------------------------------------------------------------------------------------


def test_s9_with_other_processes(tmp_path: Path):
    path = str(tmp_path / "store")
    text = f"import fastgrad.distributed as d; s = d.FileStore({path!r})\nfor k in range(40): s.add('n', 1)"
    running = [subprocess.Popen([sys.executable, "-c", text], env=environment()) for _ in range(2)]
    assert [process.wait(100) for process in running] == [0, 0]
    assert dist.FileStore(path).get("n") == b"80"
    Path(path).write_bytes(b"something else that is long enough")
    with pytest.raises(dist.DistStoreError, match="the file is damaged, or no store"):
        dist.FileStore(path).check(["n"])


@pytest.mark.parametrize("made", [dist.HashStore, lambda: dist.TCPStore("localhost", 0, is_master=True)])
def test_s10(made: Any):
    store = made()
    store.multi_set(["a", "ü"], ["1", "2"])
    assert store.num_keys() == 2
    assert store.list_keys() == ["a", "ü"]
    prefixed = dist.PrefixStore("p", store)
    assert prefixed.num_keys() == 0
    prefixed.set("a", "1")
    assert prefixed.list_keys() == ["a"]
    assert not store.delete_key("b")


def test_s11():
    """Who waits for a keeper that dies learns of it at once, as do later calls."""
    text = (
        "import sys, time, fastgrad.distributed as d\n"
        "s = d.TCPStore('localhost', 0, is_master=True)\nprint(s.port, flush=True)\ntime.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", text], env=environment(), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        store = dist.TCPStore("localhost", int(process.stdout.readline()), timeout=timedelta(seconds=30))
        store.set("a", "1")
        thread = later(lambda: os.kill(process.pid, signal.SIGKILL))
        start = time.monotonic()
        with pytest.raises(dist.DistNetworkError, match="the connection was lost"):
            store.get("b")
        assert time.monotonic() - start < 10
        thread.join()
    store.set_timeout(SHORT)
    with pytest.raises(dist.DistNetworkError, match="could not connect"):
        store.get("a")


def test_requests_that_are_none_harm_nobody():
    keeper = dist.TCPStore("localhost", 0, is_master=True)
    for data in (b"", b"\xff" * 64, b"GET / HTTP/1.0\r\n\r\n", b"\x01" + b"\0" * 7):
        with socket.create_connection(("localhost", keeper.port)) as connection:
            connection.sendall(data)
    assert keeper.add("a", 1) == 1
    with pytest.raises(ValueError, match="nothing"):
        keeper._do("nothing", [], [], 1.0)
    assert keeper.add("a", 1) == 2


def test_a_keeper_that_goes_gives_its_port_back():
    keeper = dist.TCPStore("localhost", 0, is_master=True)
    port = keeper.port
    del keeper
    again = dist.TCPStore("localhost", port, is_master=True)
    assert not again.check(["a"])
    shared = dist.TCPStore("localhost", port, is_master=True, multi_tenant=True)
    shared.set("a", "1")
    assert again.get("a") == b"1"


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda s: s.set("a", 5), TypeError, r"set\(\): a value must be str or bytes, not int"),
        (lambda s: s.set(5, "a"), TypeError, r"set\(\): a key must be str, not int"),
        (lambda s: s.wait("ab"), TypeError, "must be a list of str, not str"),
        (lambda s: s.check(5), TypeError, "must be a list of str, not int"),
        (lambda s: s.add("a", "1"), TypeError, "'amount' .* must be int, not str"),
        (lambda s: s.set_timeout(5), TypeError, "'timeout' .* must be timedelta, not int"),
        (lambda s: s.wait(["a"], timedelta(0)), ValueError, "must be more than zero"),
        (lambda s: s.multi_set(["a"], []), ValueError, "got 1 keys, but 0 values"),
        (lambda s: dist.PrefixStore("p", 5), TypeError, "'store' .* must be Store, not int"),
        (
            lambda s: dist.TCPStore("localhost", "80"),
            TypeError,
            "'port' must be an int from 0 to 65535, got '80'",
        ),
        (lambda s: dist.TCPStore("localhost", 70000), TypeError, "'port' must be an int from 0 to 65535"),
        (lambda s: dist.Store().set("a", "1"), NotImplementedError, "use HashStore, FileStore or TCPStore"),
        (lambda s: dist.FileStore("/nowhere/at/all"), OSError, "No such file"),
    ],
)
def test_refused(call: Any, error: type[Exception], words: str):
    with pytest.raises(error, match=words):
        call(dist.HashStore())


@pytest.mark.mpi
def test_s12_on_ranks():
    text = """
import fastgrad.distributed as dist
dist.init_process_group("mpi", "tcp://localhost:1?rank=0&world_size=1")
dist.destroy_process_group()
dist.init_process_group("mpi", store=dist.HashStore(), rank=0, world_size=1)
for method, store, error in (
    ("tcp://localhost", None, ValueError), ("tcp://localhost:x", None, ValueError), ("udp://a:1", None, ValueError),
    ("tcp://a:1?rank=1", None, ValueError), ("tcp://a:1?world_size=x", None, ValueError), (None, 5, TypeError),
    ("env://", dist.HashStore(), AssertionError),
):
    dist.destroy_process_group()
    try:
        dist.init_process_group("mpi", method, store=store)
        raise SystemExit(f"{method} was taken")
    except error:
        dist.init_process_group("mpi")
print("is done")
"""
    assert succeed(1, "-c", text).endswith("is done\n")
