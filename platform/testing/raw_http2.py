"""Speaks just enough HTTP/2 to misbehave: calls that begin and do not continue, which no gRPC client can make.

A caller of its own for each connection; nothing is read unless it is asked for.
"""

import socket
import struct
from types import TracebackType
from typing import Final

__all__ = ["HALF_OF_A_MESSAGE", "RawConnection"]

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
FRAME_BYTES: Final = 16_384  # the most that a peer must take in one frame
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GO_AWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
END_STREAM, END_HEADERS, ACK = 1, 4, 1
INITIAL_WINDOW: Final = 4  # number of that setting
HALF_OF_A_MESSAGE: Final = struct.pack(">BI", 0, 8 * 1024 * 1024)
"""How a gRPC message of 8 MiB begins."""


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """Return one frame."""
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def header_block(method: str, token: str | None, *, more: tuple[tuple[str, str], ...] = ()) -> bytes:
    """Return the headers of a gRPC call, each as a literal (HPACK without its tables)."""
    pairs = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", method),
        (":authority", "x"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        *([] if token is None else [("authorization", f"Bearer {token}")]),
        *more,
    ]
    return b"".join(b"\x00" + _text(name) + _text(value) for name, value in pairs)


def _text(value: str) -> bytes:
    data = value.encode()
    if len(data) < 127:
        return bytes([len(data)]) + data
    rest, low = len(data) - 127, bytearray([127])
    while rest >= 128:
        low.append(rest % 128 + 128)
        rest //= 128
    low.append(rest)
    return bytes(low) + data


class RawConnection:
    """A connection to a gRPC port without TLS; close it, or use it as a context.

    Args:
        address: "host:port".
        window_bytes: what the server may send on each stream before it may continue.
        timeout_s: of each read and write.
    """

    def __init__(self, address: str, *, window_bytes: int = 65_535, timeout_s: float = 20.0) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host.strip("[]"), int(port)), timeout=timeout_s)
        self.socket.sendall(PREFACE + frame(SETTINGS, 0, 0, struct.pack(">HI", INITIAL_WINDOW, window_bytes)))
        self._stream = -1
        self._left = b""

    def __enter__(self) -> "RawConnection":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()

    def begin(self, method: str, token: str | None = None, data: bytes = b"", *, ends: bool = False) -> int:
        """Begin a call, send some of its bytes, and return the number of its stream."""
        self._stream += 2
        block = header_block(method, token)
        self.socket.sendall(frame(HEADERS, END_HEADERS, self._stream, block) + self.data(self._stream, data, ends=ends))
        return self._stream

    @staticmethod
    def data(stream: int, data: bytes, *, ends: bool = False) -> bytes:
        """Return the frames that carry bytes of a call."""
        pieces = [data[start : start + FRAME_BYTES] for start in range(0, len(data), FRAME_BYTES)]
        if ends and not pieces:
            pieces = [b""]
        last = len(pieces) - 1
        return b"".join(frame(DATA, END_STREAM if ends and i == last else 0, stream, p) for i, p in enumerate(pieces))

    def read(self) -> tuple[int, int, int, bytes] | None:
        """Return the next frame: kind, flags, stream, payload; None where the server has closed the connection.

        Raises:
            TimeoutError: nothing came in time.
        """
        head = self._exactly(9)
        if head is None:
            return None
        kind, flags, stream = struct.unpack(">BBI", head[3:])
        payload = self._exactly(int.from_bytes(head[:3], "big"))
        if payload is None:
            return None
        if kind == SETTINGS and not flags & ACK:
            self.socket.sendall(frame(SETTINGS, ACK, 0))
        if kind == PING and not flags & ACK:
            self.socket.sendall(frame(PING, ACK, 0, payload))
        return kind, flags, stream, payload

    def until_ended(self, stream: int) -> bytes:
        """Return what the server says on a stream until it ends it; b"" where it closes the connection."""
        received = b""
        while (seen := self.read()) is not None:
            kind, flags, of, payload = seen
            if of == stream:
                received += payload
                if kind == RST_STREAM or flags & END_STREAM:
                    return received
        return b""

    def until_closed(self) -> None:
        """Read until the server closes the connection."""
        while self.read() is not None:
            pass

    def _exactly(self, count: int) -> bytes | None:
        while len(self._left) < count:
            try:
                more = self.socket.recv(65_536)
            except ConnectionError:
                return None
            if not more:
                return None
            self._left += more
        data, self._left = self._left[:count], self._left[count:]
        return data
