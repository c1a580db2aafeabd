"""Defines the requests that the SDK makes of the network, and checks the servers that it talks to.

Three requests exist: GET of a static file, GET of an aggregator's keys, and POST of a report.  `egress.py` makes them;
tests bring their own.
"""

import ipaddress
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final, Protocol

from alcove.sdk.errors import InsecureServerError

_ADDRESS: Final = re.compile(
    r"(?P<scheme>https?)://(?P<host>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::(?P<port>[0-9]{1,5}))?(?:/[A-Za-z0-9._~/-]*)?"
)


@dataclass(frozen=True, slots=True)
class OutboundRequest:
    """One request that left, or tried to.

    Attributes:
        method: "GET" or "POST".
        path: from the server's root, with no query.
        body: what was posted; empty for a GET.
        wire: every byte handed to the connection, headers included, before encryption.
        server: address that it went to; "" where a double answered.
    """

    method: str
    path: str
    body: bytes
    wire: bytes
    server: str = ""


RequestObserver = Callable[[OutboundRequest], None]


@dataclass(frozen=True, slots=True)
class Download:
    """The answer to a GET.

    Attributes:
        start: offset of the first byte: what was asked for, or 0 if the server sends the whole file again.
        chunks: the bytes; raises `TransportError` or `ResponseTooLargeError` midway.
        content_type: as the server wrote it; "" where it did not.
    """

    start: int
    chunks: Iterator[bytes]
    content_type: str = ""


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a POST that succeeded.

    Attributes:
        content_type: as the server wrote it; "" where it did not.
        body: all of it, at most `limits.MAX_ANSWER_BYTES`.
    """

    content_type: str = ""
    body: bytes = b""


OCTETS: Final = "application/octet-stream"
"""Content type of a randomized report."""


class Transport(Protocol):
    """A way to one server."""

    def get(self, path: str, *, max_bytes: int, start: int = 0) -> AbstractContextManager[Download]:
        """Open the answer to a GET; it is read while the context lasts.

        Args:
            path: from the server's root, beginning with "/".
            max_bytes: reading stops with an error after that many bytes of the whole file.
            start: offset to continue from.

        Raises:
            TransportError: no answer.
            StatusError: an answer that is no success.
        """
        ...

    def post(self, path: str, body: bytes, content_type: str = OCTETS) -> Reply:
        """Send `body`; returns when the server has answered with success.

        Raises:
            TransportError: no answer; the server may or may not have the bytes.
            StatusError: an answer that is no success.
        """
        ...

    def close(self) -> None:
        """Let go of connections."""
        ...


OpenTransport = Callable[[str], Transport]
"""Gives the way to an aggregator, or to another party of a task, by its address; with "" that to the app's server."""


@dataclass(slots=True)
class TrafficStats:
    """How many bytes went, in each direction: all that was sent, and the bodies that came.

    Attributes:
        sent_bytes: every byte of every request.
        received_bytes: of the answers' bodies.
        asked_wait_s: longest time for which the server asked to be left alone, since this was last set to 0.
    """

    sent_bytes: int = 0
    received_bytes: int = 0
    asked_wait_s: float = 0.0


def check_server(server: str) -> str:
    """Return the address of a server with no trailing slash, or refuse it.

    Only letters, digits and a few marks are taken, so that no two readers of the address can disagree about its host.

    Raises:
        InsecureServerError: not https (http only for loopback), no host, or more than scheme, host, port and path.
    """
    match = _ADDRESS.fullmatch(server)
    if match is None or int(match["port"] or 0) > 65535:
        raise InsecureServerError(server=server, problem="an address is https://host[:port][/path], with nothing else")
    if match["scheme"] == "http" and not _is_loopback(match["host"].strip("[]")):
        raise InsecureServerError(server=server, problem="http:// is for loopback addresses only; use https://")
    return server.rstrip("/")


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
