"""A server may send files gzipped; truncated, damaged and too large ones are typed errors."""

import contextlib
import gzip
import socket
import threading
import zlib
from collections.abc import Iterator

import pytest
from alcove.sdk import ResponseTooLargeError, TransportError
from alcove.sdk.egress import Egress
from alcove.sdk.transport import TrafficStats

WHOLE = bytes(range(256)) * 400


@contextlib.contextmanager
def serve_answer(body: bytes, *, encoding: str = "gzip", status: str = "200 OK", extra: str = "") -> Iterator[str]:
    """A server that gives every connection the same answer."""
    head = f"HTTP/1.1 {status}\r\nContent-Encoding: {encoding}\r\n{extra}Content-Length: {len(body)}\r\n\r\n"
    listener = socket.create_server(("127.0.0.1", 0))

    def run() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection, contextlib.suppress(OSError):
                connection.recv(65536)
                connection.sendall(head.encode() + body)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def read(url: str, *, max_bytes: int = 1 << 20, start: int = 0, traffic: TrafficStats | None = None) -> bytes:
    """Return the whole answer."""
    egress = Egress(url, traffic=traffic)
    try:
        with egress.get("/file", max_bytes=max_bytes, start=start) as download:
            return b"".join(download.chunks)
    finally:
        egress.close()


def test_packed_file_arrives_as_it_is_and_counts_as_it_was_sent() -> None:
    """The bytes that moved are counted, not those that they became."""
    packed = gzip.compress(WHOLE)
    traffic = TrafficStats()
    with serve_answer(packed) as url:
        assert read(url, traffic=traffic) == WHOLE
    assert traffic.received_bytes == len(packed) < len(WHOLE)


def test_packed_bytes_that_become_too_many_are_cut_off() -> None:
    """A thousandfold: reading stops at the bound, whatever the answer would unpack to."""
    with serve_answer(gzip.compress(b"\0" * (64 << 20))) as url:
        with pytest.raises(ResponseTooLargeError):
            read(url, max_bytes=100_000)
        assert len(read(url, max_bytes=64 << 20)) == 64 << 20


@pytest.mark.parametrize(
    ("body", "options"),
    [
        (b"", {}),
        (b"no gzip at all", {}),
        (gzip.compress(WHOLE) + b"more", {}),
        (gzip.compress(WHOLE) + gzip.compress(WHOLE), {}),
        (zlib.compress(WHOLE), {}),
        (zlib.compress(WHOLE), {"encoding": "deflate"}),
        (WHOLE, {"encoding": "br"}),
        (WHOLE, {"encoding": "zstd, gzip"}),
    ],
)
def test_what_is_no_one_packed_file_is_a_typed_error(body: bytes, options: dict[str, str]) -> None:
    """Nothing, garbage, two files, another packing."""
    with serve_answer(body, **options) as url, pytest.raises(TransportError):
        read(url)


def test_packed_file_cut_or_flipped_anywhere_is_never_taken_for_whole() -> None:
    """At every length, and every byte changed: the whole file or a typed error (a few header bytes say nothing)."""
    small = bytes(range(64))
    packed = gzip.compress(small)
    for end in range(len(packed)):
        with serve_answer(packed[:end]) as url, pytest.raises(TransportError):
            read(url)
    for position in range(len(packed)):
        altered = bytearray(packed)
        altered[position] ^= 1
        with serve_answer(bytes(altered)) as url:
            try:
                assert read(url) == small
            except TransportError:
                continue


def test_packed_part_of_a_file_is_refused() -> None:
    """A range of a packed file is no range of the file."""
    options = {"status": "206 Partial Content", "extra": "Content-Range: bytes 5-9/10\r\n"}
    with serve_answer(gzip.compress(b"56789"), **options) as url, pytest.raises(TransportError, match="packed"):
        read(url, start=5)
