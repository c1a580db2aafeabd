"""Floods a server of this machine, to see what it still does for others: each kind for some seconds, from one process.

    python -m alcove.platform.testing.floods KIND HTTP_URL GRPC_ADDRESS SECONDS

Only 127.0.0.0/8 is flooded.  The HTTP kinds come from SOURCES addresses of it, none of them the one that devices of a
test have.  It prints what it has sent as one line of JSON.
"""

import asyncio
import contextlib
import gzip
import itertools
import json
import os
import resource
import socket
import sys
import urllib.parse
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

import grpc
import grpc.aio
from alcove.api.rollout.v1 import rollout_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc

__all__ = ["GRPC_KINDS", "HTTP_KINDS", "NOTHING", "command"]

SOURCES: Final = tuple(f"127.0.0.{number}" for number in range(2, 10))
SOCKETS: Final = 1100  # more than the files that a process has by default
STREAMS: Final = 300
PARTIAL_BYTES: Final = 8 * 1024 * 1024
NOTHING: Final = "nothing"  # no flood: shows the noise of a measurement
PARTIAL_CALLS: Final = 48
SENDERS: Final = 16
AGAIN_S: Final = 0.05  # seconds until a connection that was refused is tried again
_MEDIA: Final = b"Content-Type: application/octet-stream\r\n"
_GET: Final = b"GET /metadata/timestamp.json HTTP/1.1\r\nHost: a\r\n\r\n"

_Kind = Callable[["_Target"], Awaitable[None]]


class _Target:
    """The target of a flood, and counts of what was sent."""

    def __init__(self, http_url: str, grpc_address: str) -> None:
        parts = urllib.parse.urlsplit(http_url)
        self.port = parts.port or 0
        self.grpc = grpc_address
        for host in (parts.hostname or "", grpc_address.rpartition(":")[0]):
            if not host.startswith("127."):
                raise ValueError(f"floods are for this machine alone, not for {host}")
        self.http_url = http_url
        self.done: Counter[str] = Counter()
        self._sources = itertools.cycle(SOURCES)

    async def connect(self, receive_bytes: int = 0) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a connection from the next of the addresses."""
        made = socket.socket()
        if receive_bytes:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        made.setblocking(False)
        made.bind((next(self._sources), 0))
        try:
            await asyncio.get_running_loop().sock_connect(made, ("127.0.0.1", self.port))
        except BaseException:
            made.close()
            raise
        self.done["connections"] += 1
        return await asyncio.open_connection(sock=made, limit=65_536)


def _again(work: Callable[[_Target], Awaitable[None]], count: int) -> _Kind:
    """Do some work on `count` connections, and again when one is refused or cut."""

    async def one(target: _Target) -> None:
        while True:
            try:
                await work(target)
            except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, EOFError):
                target.done["cut"] += 1
                await asyncio.sleep(AGAIN_S)

    async def all_of_them(target: _Target) -> None:
        await asyncio.gather(*(one(target) for _ in range(count)))

    return all_of_them


def _asks(request: Callable[[_Target], bytes]) -> Callable[[_Target], Awaitable[None]]:
    """Ask on one connection, again and again, as fast as it is answered."""

    async def work(target: _Target) -> None:
        reader, writer = await target.connect()
        try:
            wanted = request(target)
            while True:
                writer.write(wanted)
                await writer.drain()
                head = await reader.readuntil(b"\r\n\r\n")
                target.done[head[9:12].decode()] += 1
                length = head.lower().partition(b"content-length: ")[2].partition(b"\r")[0]
                await reader.readexactly(int(length or 0))
                if b"connection: close" in head.lower():
                    raise EOFError
        finally:
            writer.close()

    return work


def _holds(first: bytes, drip: bytes, *, receive_bytes: int = 0) -> Callable[[_Target], Awaitable[None]]:
    """Open a connection, send something, and then a byte a second; read as little."""

    async def work(target: _Target) -> None:
        reader, writer = await target.connect(receive_bytes)
        try:
            writer.write(first)
            while True:
                await asyncio.sleep(1)
                if drip:
                    writer.write(drip)
                    await writer.drain()
                elif receive_bytes:
                    if not await reader.read(1):
                        raise EOFError
                elif reader.at_eof() or reader.exception() is not None:
                    raise EOFError
        finally:
            writer.transport.abort()

    return work


def _post(body: bytes, *headers: bytes) -> bytes:
    head = b"POST /reports HTTP/1.1\r\nHost: a\r\n" + _MEDIA + b"".join(headers)
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


def _largest(target: _Target) -> bytes:
    """Ask for the blob that the harness named."""
    return f"GET /blobs/{os.environ['FLOOD_BLOB']} HTTP/1.1\r\nHost: {target.port}\r\n\r\n".encode()


def _known_report(_target: _Target) -> bytes:
    """Report for the task that the harness named."""
    return _post(bytes.fromhex(os.environ["FLOOD_REPORT"]))


async def _reads_slowly(target: _Target) -> None:
    await _holds(_largest(target), b"", receive_bytes=4096)(target)


async def _health_watch(target: _Target) -> None:
    """Hold anonymous streams of the health service."""
    async with grpc.aio.insecure_channel(target.grpc, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        stub = health_pb2_grpc.HealthStub(channel)

        async def watch() -> None:
            while True:
                with contextlib.suppress(grpc.aio.AioRpcError):
                    async for _ in stub.Watch(health_pb2.HealthCheckRequest()):
                        target.done["held"] += 1
                target.done["cut"] += 1
                await asyncio.sleep(AGAIN_S)

        await asyncio.gather(*(watch() for _ in range(STREAMS)))


async def _slow_unary(target: _Target) -> None:
    """Begin calls and never send their message."""
    async with grpc.aio.insecure_channel(target.grpc) as channel:
        call = channel.stream_unary("/alcove.api.rollout.v1.RolloutService/ListRollouts", None, None)

        async def silence() -> AsyncIterator[bytes]:
            target.done["held"] += 1
            await asyncio.sleep(3600)
            yield rollout_pb2.ListRolloutsRequest().SerializeToString()

        async def begin() -> None:
            while True:
                with contextlib.suppress(grpc.aio.AioRpcError):
                    await call(silence())
                target.done["cut"] += 1
                await asyncio.sleep(AGAIN_S)

        await asyncio.gather(*(begin() for _ in range(STREAMS)))


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """Return one HTTP/2 frame (RFC 9113, 4.1)."""
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def _call_head(path: str) -> bytes:
    """Return the header block of a gRPC call, literals without an index (RFC 7541, 6.2.2)."""
    fields = {
        ":method": "POST", ":scheme": "http", ":path": path, ":authority": "a", "te": "trailers",
        "content-type": "application/grpc",
    }  # fmt: skip
    block = b""
    for name, value in fields.items():
        block += b"\x00" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()
    return block


class _PartialMessage:
    """One connection that sends a call's message except its last byte, as fast as the server's windows let it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: _Target) -> None:
        self._reader = reader
        self._writer = writer
        self._target = target
        self._left = b"\x00" + PARTIAL_BYTES.to_bytes(4, "big") + bytes(PARTIAL_BYTES - 1)
        self._windows = [65_535, 65_535]  # of the connection and of the stream

    async def hold(self) -> None:
        """Send, and then wait until the server ends it; raises EOFError."""
        self._writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _frame(4, 0, 0, b""))
        self._writer.write(_frame(1, 4, 1, _call_head("/alcove.api.rollout.v1.RolloutService/ListRollouts")))
        while True:
            room = min(*self._windows, 16_384, len(self._left))
            if room > 0:
                self._writer.write(_frame(0, 0, 1, self._left[:room]))
                await self._writer.drain()
                self._left = self._left[room:]
                self._windows = [window - room for window in self._windows]
                self._target.done["bytes"] += room
                self._target.done["held"] += not self._left
            else:
                head = await self._reader.readexactly(9)
                self._hear(head, await self._reader.readexactly(int.from_bytes(head[:3], "big")))

    def _hear(self, head: bytes, payload: bytes) -> None:
        """Do what a frame of the server asks for."""
        kind, flags, stream = head[3], head[4], int.from_bytes(head[5:9], "big")
        if kind == 8:
            self._windows[stream] += int.from_bytes(payload, "big")
        elif kind == 4 and not flags & 1:
            for at in range(0, len(payload), 6):
                if payload[at : at + 2] == b"\x00\x04":  # the window that streams begin with
                    self._windows[1] += int.from_bytes(payload[at + 2 : at + 6], "big") - 65_535
            self._writer.write(_frame(4, 1, 0, b""))
        elif kind == 6 and not flags & 1:
            self._writer.write(_frame(6, 1, 0, payload))
        elif kind in (3, 7) or (kind == 1 and flags & 1):
            raise EOFError


async def _partial_message(target: _Target) -> None:
    host, _, port = target.grpc.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        await _PartialMessage(reader, writer, target).hold()
    finally:
        writer.close()


async def _nothing(_target: _Target) -> None:
    """Do nothing."""
    await asyncio.sleep(3600)


_BOMB: Final = gzip.compress(bytes(39 * 1024 * 1024), 9)
HTTP_KINDS: Final[dict[str, _Kind]] = {
    "packed bodies": _again(_asks(lambda _: _post(_BOMB, b"Content-Encoding: gzip\r\n")), SENDERS),
    "unknown reports": _again(_asks(lambda _: _post(os.urandom(38))), SENDERS),
    "known reports": _again(_asks(_known_report), SENDERS),
    "check-ins": _again(_asks(lambda _: _GET), SENDERS),
    "new connections": _again(_asks(lambda _: _GET.replace(b"Host: a", b"Host: a\r\nConnection: close")), SENDERS),
    "large heads": _again(_asks(lambda _: b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 10_000 + b"\r\n"), SENDERS),
    "dripped heads": _again(_holds(b"GET /metadata/timestamp.json HTTP/1.1\r\nHost: a\r\nx: ", b"a"), SOCKETS),
    "idle connections": _again(_holds(b"", b""), SOCKETS),
    "kept connections": _again(_holds(_GET, b""), SOCKETS),
    "slow readers": _again(_reads_slowly, STREAMS),
}
GRPC_KINDS: Final[dict[str, _Kind]] = {
    "Health.Watch": _health_watch,
    "calls without their message": _slow_unary,
    "messages without their end": _again(_partial_message, PARTIAL_CALLS),
}


def command(kind: str, http_url: str, grpc_address: str, seconds: float) -> list[str]:
    """Return the command of a process that floods."""
    return [sys.executable, "-m", "alcove.platform.testing.floods", kind, http_url, grpc_address, str(seconds)]


async def _flood(kind: str, target: _Target, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await (HTTP_KINDS | GRPC_KINDS).get(kind, _nothing)(target)


def _main() -> None:
    kind, http_url, grpc_address, seconds = sys.argv[1:]
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    target = _Target(http_url, grpc_address)
    asyncio.run(_flood(kind, target, float(seconds)))
    sys.stdout.write(json.dumps(target.done) + "\n")
    sys.stdout.flush()
    os._exit(0)  # thousands of sockets are closed by the system


if __name__ == "__main__":
    _main()
