"""Opens connections: the only module of the device's side that does.

A request carries a path and a fixed set of headers: no cookie, no identifier, no validator, nothing that differs
between devices.  An observer sees every byte that is handed to a connection.  A POST has a connection of its own, which
nothing else goes through: what is posted is not tied to what was fetched, nor one post to another, by it.

Whatever a server does, a call ends: connecting, the head of an answer and each piece of its body have longest times,
its body has a least pace, and closing shuts the sockets under the calls that are under way.
"""

import contextlib
import socket
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any, Final

import urllib3
from alcove.runtime.cancellation import Alarm
from alcove.sdk import limits
from alcove.sdk.errors import ClosedError, ResponseTooLargeError, StatusError, TransportError
from alcove.sdk.transport import (
    OCTETS,
    Download,
    OutboundRequest,
    Reply,
    RequestObserver,
    TrafficStats,
    Transport,
    check_server,
)
from tuf.api.exceptions import DownloadError, DownloadHTTPError
from tuf.ngclient.fetcher import FetcherInterface
from urllib3.connection import HTTPConnection, HTTPSConnection

HEADERS: Final = {"User-Agent": "alcove", "Accept": "*/*", "Accept-Encoding": "gzip"}
"""The same for every device and version."""
_GZIP: Final = 31  # zlib's name for gzip with the largest window, 32 KiB


class _Call:
    """One request and its answer: what was sent, and the socket, which another thread may shut; to be closed."""

    def __init__(self) -> None:
        self.wire = bytearray()
        self._alarm = Alarm()
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._is_shut = False

    @property
    def is_shut(self) -> bool:
        """Tell whether somebody ended it."""
        return self._is_shut

    def within(self, seconds: float) -> AbstractContextManager[None]:
        """Shut the socket if the block takes longer.

        The library's own time-outs are for each silence: a head may drip, and so may what stands between the pieces of
        a body that comes in chunks, their sizes and trailers, of which no caller sees a byte.
        """
        return self._alarm.after(seconds, self.shut)

    def close(self) -> None:
        """Let go of the thread that keeps the time."""
        self._alarm.close()

    def send(self, data: bytes, through: Any) -> None:
        """Note what is about to be sent, and through which socket."""
        with self._lock:
            if self._is_shut:
                raise TimeoutError("the call was ended")
            self._socket = through
        self.wire += data

    def shut(self) -> None:
        """Wake the thread that waits for the socket; it gets an error."""
        with self._lock:
            self._is_shut = True
            if self._socket is not None:
                with contextlib.suppress(OSError):
                    # Of the plain socket: TLS's own would take the session away under the thread that reads.
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


_call: ContextVar[_Call | None] = ContextVar("_call", default=None)


class _PlainConnection(HTTPConnection):
    def send(self, data: Any) -> None:
        if self.sock is None:
            self.connect()
        _record(data, self.sock)
        super().send(data)


class _TlsConnection(HTTPSConnection):
    def send(self, data: Any) -> None:
        if self.sock is None:
            self.connect()
        _record(data, self.sock)
        super().send(data)


class _PlainPool(urllib3.HTTPConnectionPool):
    ConnectionCls = _PlainConnection  # pyright: ignore[reportAssignmentType] - urllib3 types its own pools loosely


class _TlsPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _TlsConnection  # pyright: ignore[reportAssignmentType] - as above


def _record(data: bytes, through: Any) -> None:
    call = _call.get()
    if call is not None:
        call.send(data, through)


class Egress:
    """A way to one server over HTTP; safe for several threads.

    Args:
        server: its address; https, or http for loopback.
        traffic: where the bytes are counted.
        observer: hears of every request once its bytes were handed over.
        monotonic_s: seconds that only rise, for the pace of answers.

    Raises:
        InsecureServerError: the address is refused.
    """

    def __init__(
        self,
        server: str,
        *,
        traffic: TrafficStats | None = None,
        observer: RequestObserver | None = None,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.server = check_server(server)
        self._traffic = traffic or TrafficStats()
        self._observer = observer
        self._monotonic_s = monotonic_s
        self._count = threading.Lock()
        self._calls: set[_Call] = set()
        self._is_closed = False
        self._pool = _new_pool()

    @contextlib.contextmanager
    def get(self, path: str, *, max_bytes: int, start: int = 0) -> Iterator[Download]:
        """Open the answer to a GET; see `Transport.get`.

        Raises:
            TransportError: no answer, or a broken or too slow one.
            StatusError: an answer that is no success.
            ResponseTooLargeError: more than `max_bytes`.
        """
        # A part of a compressed file is a part of nothing.
        extra = {"Range": f"bytes={start}-", "Accept-Encoding": "identity"} if start else {}
        with self._answer(self._pool, "GET", path, b"", extra) as (call, response):
            if response.status == 206 and _range_start(response) != start:
                raise TransportError(method="GET", path=path, reason="the answer is another range than asked for")
            if response.status not in (200, 206):
                raise self._status_error(response, "GET", path)
            first = start if response.status == 206 else 0
            yield Download(first, self._plain(call, response, path, max_bytes - first), _content_type(response))

    def post(self, path: str, body: bytes, content_type: str = OCTETS) -> Reply:
        """Send `body`; see `Transport.post`.

        Raises:
            TransportError: no whole answer.
            StatusError: an answer that is no success.
            ResponseTooLargeError: a long answer.
        """
        pool = _new_pool()
        try:
            with self._answer(pool, "POST", path, body, {"Content-Type": content_type}) as (call, response):
                answer = b"".join(self._chunks(call, response, "POST", path, limits.MAX_ANSWER_BYTES))
                if not 200 <= response.status < 300:
                    raise self._status_error(response, "POST", path)
                return Reply(_content_type(response), answer)
        finally:
            pool.clear()

    def close(self) -> None:
        """Close every connection; calls under way, on whichever thread, end with a `ClosedError`."""
        with self._count:
            self._is_closed = True
            calls = tuple(self._calls)
        for call in calls:
            call.shut()
        self._pool.clear()

    def _status_error(self, response: urllib3.BaseHTTPResponse, method: str, path: str) -> StatusError:
        """Return the error of an answer that is no success, and note how long the server asks to be left alone."""
        wait_s = _retry_after_s(response)
        with self._count:
            self._traffic.asked_wait_s = max(self._traffic.asked_wait_s, wait_s)
        return StatusError(method=method, path=path, status=response.status, retry_after_s=wait_s or None)

    @contextlib.contextmanager
    def _answer(
        self, pool: urllib3.PoolManager, method: str, path: str, body: bytes, extra: dict[str, str]
    ) -> Iterator[tuple[_Call, urllib3.BaseHTTPResponse]]:
        """Send a request and give its answer while the context lasts."""
        with self._count:
            if self._is_closed:
                raise ClosedError
            call = _Call()
            self._calls.add(call)
        try:
            response = self._head(call, pool, method, path, body=body, extra=extra)
            try:
                yield call, response
            finally:
                # Not released to the pool: what is left of an answer is not worth reading.
                response.close()
        finally:
            with self._count:
                self._calls.discard(call)
            call.close()

    def _head(
        self, call: _Call, pool: urllib3.PoolManager, method: str, path: str, *, body: bytes, extra: dict[str, str]
    ) -> urllib3.BaseHTTPResponse:
        """Send a request and return its answer, of which the head has come."""
        token = _call.set(call)
        try:
            with call.within(limits.HEAD_TIMEOUT_S):
                response = pool.request(
                    method,
                    self.server + path,
                    body=body or None,
                    headers=HEADERS | extra,
                    redirect=False,
                    preload_content=False,
                    decode_content=False,
                )
        except (urllib3.exceptions.HTTPError, OSError) as error:
            late = f"no whole head of an answer within {limits.HEAD_TIMEOUT_S:.0f} s" if call.is_shut else ""
            raise self._broken_error(method, path, late or _reason(error)) from error
        finally:
            _call.reset(token)
            with self._count:
                self._traffic.sent_bytes += len(call.wire)
            if self._observer is not None:
                self._observer(OutboundRequest(method, path, body, bytes(call.wire), self.server))
        return response

    def _broken_error(self, method: str, path: str, reason: str) -> TransportError | ClosedError:
        return ClosedError() if self._is_closed else TransportError(method=method, path=path, reason=reason)

    def _plain(self, call: _Call, response: urllib3.BaseHTTPResponse, path: str, limit_bytes: int) -> Iterator[bytes]:
        """Give the file's bytes, unpacked where the server packed them; never more than the limit in memory or out."""
        chunks = self._chunks(call, response, "GET", path, limit_bytes)
        encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
        if encoding == "identity":
            yield from chunks
            return
        if encoding != "gzip" or response.status != 200:
            raise TransportError(method="GET", path=path, reason=f"an answer {response.status} packed as {encoding!r}")
        unpacker = zlib.decompressobj(_GZIP)
        unpacked = 0
        try:
            for chunk in chunks:
                packed = chunk
                while packed and not unpacker.eof:
                    plain = unpacker.decompress(packed, limits.CHUNK_BYTES)
                    packed = unpacker.unconsumed_tail
                    unpacked += len(plain)
                    if unpacked > limit_bytes:
                        raise ResponseTooLargeError(path=path, limit_bytes=limit_bytes)
                    if plain:
                        yield plain
                if unpacker.unused_data or (unpacker.eof and packed):
                    raise TransportError(method="GET", path=path, reason="more follows the packed file")
        except zlib.error as error:
            raise TransportError(method="GET", path=path, reason=_reason(error)) from error
        if not unpacker.eof:
            raise TransportError(method="GET", path=path, reason=f"the packed file ends after {unpacked} bytes")

    def _chunks(
        self, call: _Call, response: urllib3.BaseHTTPResponse, method: str, path: str, limit_bytes: int
    ) -> Iterator[bytes]:
        started_s = self._monotonic_s()
        received = 0
        late = f"no piece of the body within {limits.READ_TIMEOUT_S:.0f} s"
        while True:
            try:
                with call.within(limits.READ_TIMEOUT_S):
                    chunk = response.read1(limits.CHUNK_BYTES)
            except (urllib3.exceptions.HTTPError, OSError) as error:
                raise self._broken_error(method, path, late if call.is_shut else _reason(error)) from error
            if call.is_shut:
                # An answer without a length, or within its trailers, ends like this too.
                raise self._broken_error(method, path, late)
            if not chunk:
                return
            received += len(chunk)
            with self._count:
                self._traffic.received_bytes += len(chunk)
            if received > limit_bytes:
                raise ResponseTooLargeError(path=path, limit_bytes=limit_bytes)
            elapsed_s = self._monotonic_s() - started_s
            if elapsed_s > limits.GRACE_S + received / limits.MIN_BYTES_PER_S:
                reason = f"{received} bytes in {elapsed_s:.0f} s; at least {limits.MIN_BYTES_PER_S} a second are due"
                raise TransportError(method=method, path=path, reason=reason)
            yield chunk


def _new_pool() -> urllib3.PoolManager:
    timeout = urllib3.Timeout(connect=limits.CONNECT_TIMEOUT_S, read=limits.READ_TIMEOUT_S)
    pool = urllib3.PoolManager(num_pools=1, maxsize=2, timeout=timeout, retries=False, headers=HEADERS)
    pool.pool_classes_by_scheme = {"http": _PlainPool, "https": _TlsPool}
    return pool


class TufFetcher(FetcherInterface):
    """Reads the signed tree through a transport.

    Args:
        transport: the way to the server.
        server: the address that the tree's URLs begin with.
    """

    def __init__(self, transport: Transport, server: str) -> None:
        self._transport = transport
        self._server = server.rstrip("/")

    def _fetch(self, url: str) -> Iterator[bytes]:
        if not url.startswith(self._server + "/"):
            raise DownloadError(f"{url} is not on this client's server")
        chunks = self._chunks(url.removeprefix(self._server))
        # The status comes with the first chunk; python-tuf wants it raised here, not on iteration.
        first = next(chunks, b"")
        return _chain(first, chunks)

    def _chunks(self, path: str) -> Iterator[bytes]:
        try:
            with self._transport.get(path, max_bytes=limits.MAX_METADATA_BYTES) as download:
                yield from download.chunks
        except StatusError as error:
            raise DownloadHTTPError(str(error), error.status) from error
        except (TransportError, ResponseTooLargeError) as error:
            raise DownloadError(str(error)) from error


def _chain(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest


def _content_type(response: urllib3.BaseHTTPResponse) -> str:
    return response.headers.get("Content-Type", "")


def _range_start(response: urllib3.BaseHTTPResponse) -> int:
    """Return the offset in "Content-Range: bytes 5-9/10", or -1."""
    unit, _, span = response.headers.get("Content-Range", "").partition(" ")
    first = span.partition("-")[0]
    return int(first) if unit == "bytes" and first.isascii() and first.isdigit() and len(first) < 16 else -1


def _retry_after_s(response: urllib3.BaseHTTPResponse) -> float:
    """Return the seconds in "Retry-After: 120", bounded; 0 where there are none (a date would need a right clock)."""
    text = response.headers.get("Retry-After", "").strip()
    is_number = text.isascii() and text.isdigit() and len(text) < 16
    return float(min(int(text), limits.MAX_RETRY_AFTER_S)) if is_number else 0.0


def _reason(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
