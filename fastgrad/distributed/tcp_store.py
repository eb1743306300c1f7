"""A store that one process keeps for others, over TCP.

A request is an operation of `stores.OPERATIONS`, a time limit, and keys and values; the answer is a letter and what
was found. Everything is bytes with their lengths: nothing that comes from the network is run or unpickled. Who can
reach the port can read and write the store.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import socketserver
import threading
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from weakref import finalize

from fastgrad.distributed.stores import (
    DEFAULT_TIMEOUT,
    HIDDEN,
    PAUSE,
    DistNetworkError,
    DistStoreError,
    Shelf,
    Store,
    packed,
    unpacked,
)
from fastgrad.functions.arguments import need_type

GRACE = 5.0
"""Seconds that an answer may take beyond what was to be waited for."""

WORKERS = f"{HIDDEN}workers"
DONE, LATE, WRONG = b"d", b"t", b"w"


class _Server(socketserver.ThreadingTCPServer):
    """Answers requests, each connection in a thread of its own."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 1024

    def __init__(self, address: tuple[str, int], family: socket.AddressFamily) -> None:
        self.address_family = family
        self.shelf = Shelf()
        super().__init__(address, _Requests)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that ends in the middle of a request concerns nobody else."""


class _Requests(socketserver.BaseRequestHandler):
    """The requests of one connection."""

    def handle(self) -> None:
        """Answer until the other side closes."""
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        shelf = self.server.shelf  # type: ignore[attr-defined]
        with contextlib.suppress(EOFError, OSError):
            while True:
                self.request.sendall(packed(_answer(shelf, unpacked(self.request.recv))))


def _answer(shelf: Shelf, pieces: Sequence[bytes]) -> list[bytes]:
    try:
        name, seconds, count, *rest = pieces
        keys = [key.decode() for key in rest[: int(count)]]
        return [DONE, *shelf.do(name.decode(), keys, rest[int(count) :], float(seconds))]
    except TimeoutError:
        return [LATE]
    except Exception as error:  # noqa: BLE001 - it is raised where the request came from
        return [WRONG, f"{error}".encode()]


class _Connection:
    """A socket that is closed when nobody has it any more, its thread or the store."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address, GRACE)
        if (
            self.socket.getsockname() == self.socket.getpeername()
        ):  # the kernel may choose the very port as this end's
            raise ConnectionRefusedError(f"nobody listens at {address}")
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __del__(self) -> None:
        if hasattr(self, "socket"):
            self.socket.close()


class TCPStore(Store):
    """A store that one process keeps, for others that know its address.

    Parameters
    ----------
    host_name : str
        Where the store is kept; ``localhost`` is reached by no other machine.
    port : int
        0 lets the keeper choose one, which the attribute `port` tells.
    world_size : int, optional
        How many processes there are.
    is_master : bool
        Keep the store here.
    timeout : timedelta
        For connecting, `get` and `wait`.
    wait_for_workers : bool
        With `world_size`, the keeper waits until all have connected.
    multi_tenant, master_listen_fd, use_libuv
        ``multi_tenant=True`` connects to a keeper of the same address in place of keeping the store twice; an open
        socket is not supported, and libuv ignored.

    Attributes
    ----------
    host : str
    port : int

    Raises
    ------
    DistNetworkError
        If the keeper cannot be reached in time, or the port is taken.
    DistStoreError
        If not all processes connect in time.

    Examples
    --------
    >>> store = TCPStore("localhost", 0, is_master=True)
    >>> other = TCPStore("localhost", store.port)
    >>> other.set("name", "value")
    >>> store.get("name")
    b'value'
    """

    def __init__(
        self,
        host_name: str,
        port: int,
        world_size: int | None = None,
        is_master: bool = False,
        timeout: timedelta = DEFAULT_TIMEOUT,
        wait_for_workers: bool = True,
        multi_tenant: bool = False,
        master_listen_fd: int | None = None,
        use_libuv: bool = True,
    ) -> None:
        super().__init__(timeout)
        self.host = need_type("TCPStore", host_name, str, "host_name")
        if type(port) is not int or not 0 <= port < 2**16:
            raise TypeError(f"TCPStore(): argument 'port' must be an int from 0 to 65535, got {port!r}")
        if master_listen_fd is not None:
            raise NotImplementedError("TCPStore(): argument 'master_listen_fd' is not supported; give a port")
        self.port = port
        self._mine = threading.local()  # a connection for each thread: one that waits keeps none from setting
        if is_master:
            self._keep(multi_tenant)
        joined = int(self._do("add", [WORKERS], [b"1"], GRACE)[0])
        if is_master and world_size and world_size > 0 and wait_for_workers:
            self._wait_for_workers(joined, world_size)

    def __repr__(self) -> str:
        return f"TCPStore({self.host!r}, {self.port})"

    def _keep(self, shared: bool) -> None:
        """Begin to answer requests."""
        try:
            family, _, _, _, address = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)[0]
            local = ipaddress.ip_address(str(address[0])).is_loopback
            server = _Server((str(address[0]) if local else "", self.port), family)
        except OSError as error:
            if shared:
                return
            raise DistNetworkError(
                f"{self!r}: The server socket has failed to listen on any local network address: {error}; choose "
                "another port, or 0"
            ) from error
        self.port = server.server_address[1]
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True, name=repr(self)).start()
        finalize(self, _end, server)

    def _connection(self) -> socket.socket:
        """That of this thread."""
        found: _Connection | None = getattr(self._mine, "connection", None)
        if found is None:
            found = self._mine.connection = self._connect()
        return found.socket

    def _connect(self) -> _Connection:
        end = time.monotonic() + self.timeout.total_seconds()
        while True:
            try:
                return _Connection((self.host, self.port))
            except OSError as error:
                if time.monotonic() > end:
                    raise DistNetworkError(
                        f"{self!r}: could not connect within {self.timeout.total_seconds():g} s: {error}; see whether "
                        "a process keeps it there (is_master=True)"
                    ) from error
                time.sleep(PAUSE)

    def _do(self, name: str, keys: Sequence[str], values: Sequence[bytes], seconds: float) -> list[bytes]:
        head = [name.encode(), repr(float(seconds)).encode(), b"%d" % len(keys)]
        request = packed([*head, *(key.encode() for key in keys), *values])
        connection = self._connection()
        try:
            connection.settimeout(seconds + GRACE)
            connection.sendall(request)
            kind, *found = unpacked(connection.recv)
        except BaseException as error:
            # the answer may come yet, and would be taken for that to the next request
            self._mine.connection = None
            connection.close()
            if isinstance(error, (EOFError, OSError)):
                raise DistNetworkError(
                    f"{name}() of {self!r}: the connection was lost ({error or type(error).__name__}); see whether "
                    "the process that keeps the store has ended"
                ) from error
            raise
        if kind == LATE:
            raise TimeoutError
        if kind == WRONG:
            raise ValueError(found[0].decode())
        return found

    def _wait_for_workers(self, joined: int, world_size: int) -> None:
        end = time.monotonic() + self.timeout.total_seconds()
        while joined < world_size:
            if time.monotonic() > end:
                raise DistStoreError(
                    f"{self!r}: Timed out after {self.timeout.total_seconds():g} seconds waiting for clients. "
                    f"{joined}/{world_size} clients joined."
                )
            time.sleep(PAUSE)
            joined = int(self._do("add", [WORKERS], [b"0"], GRACE)[0])


def _end(server: _Server) -> None:
    server.shutdown()
    server.server_close()
