"""Limits the connections of devices: how many there are, in all and from one address, and how long each may wait.

admitted ─▶ waits for a request ─▶ is in a request ─▶ waits again ─▶ … ─▶ released
                  │ for too long                          │
                  └────────────────▶ cut ◀────────────────┘

I1  At most `most` connections are open, and at most `most_per_address` from one address.
I2  A connection that waits is cut when its time is over; what arrives meanwhile gives it none.
I3  Where all places are taken, the connection that has waited longest gives way; where none waits, the new one is
    refused.
I4  An address is here as a digest under a key of this process, while it has connections and FORGET_S longer; it is
    written nowhere.
"""

import hashlib
import ipaddress
import math
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from alcove.platform.listening.rate import RateLimit

__all__ = ["Connection", "ConnectionLimits", "Connections", "Network"]

FIRST_S: Final = 10.0  # seconds for a TLS handshake and the head of the first request
IDLE_S: Final = 20.0  # seconds from an answer to the head of the next request; longer than nginx keeps one (10)
DOWNLOAD_S: Final = 30.0  # seconds that a download has before it must give way to another
FORGET_S: Final = 60.0  # seconds after which an address without connections is forgotten
ADDRESSES_KEPT: Final = 16_384  # with a bucket each, 5 MB, far more than connections; the oldest is forgotten first
IPV6_PREFIX: Final = 64  # what one subscriber has
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True)
class ConnectionLimits:
    """Limits on what devices may ask for at once.

    Attributes:
        most: connections in all, below ADDRESSES_KEPT.
        most_per_address: connections from one IPv4 address or one /64 of IPv6.
        per_second: connections and requests a second from one address.
        proxies: networks of our own proxies, which limit addresses themselves: of these only `most` is asked.
    """

    most: int = 2048
    most_per_address: int = 64
    per_second: int = 200
    proxies: Sequence[Network] = ()


@dataclass(eq=False)
class Connection:
    """One connection that was admitted.

    Attributes:
        key: of its address; None: of a proxy.
        cut: ends it at once, whatever it does.
        until_s: when its wait is over, inf: it waits for a body, which has a time limit of its own; None: it is in a
            request, which has one too.
        received_bytes: what came since the last answer.
        downloads_since_s: when it began to be sent something large; None: it is not.
    """

    key: bytes | None
    until_s: float | None
    cut: Callable[[], None] = field(default=lambda: None)
    received_bytes: int = 0
    downloads_since_s: float | None = None


@dataclass(eq=False)
class _Address:
    opened: RateLimit  # apart from requests: who opens too many connections still has those that were taken answered
    requests: RateLimit
    seen_s: float
    connections: int = 0


class Connections:
    """All connections of devices.

    Args:
        limits: see there.
        monotonic_s: seconds that only rise.

    Attributes:
        places: the place of each connection, by what carries it (an asyncio transport).
        refused: connections and requests refused or cut since the start, by reason.
    """

    def __init__(self, limits: ConnectionLimits, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._monotonic_s = monotonic_s
        self._secret = os.urandom(16)
        self._open: dict[Connection, None] = {}  # those that waited longest come first
        self._downloads: dict[Connection, None] = {}  # the oldest comes first
        self._addresses: dict[bytes, _Address] = {}  # those seen last come last
        self.places: dict[object, Connection] = {}
        self.refused: Counter[str] = Counter()

    def __len__(self) -> int:
        """Return how many are open."""
        return len(self._open)

    def admit(self, host: str) -> Connection | None:
        """Return a place for a connection from an address, which waits for its first request; None: refuse it."""
        key = self._key(host)
        address = None if key is None else self._address(key)
        if address is not None and address.connections >= self._limits.most_per_address:
            self.refused["too_many_connections"] += 1
            return None
        if address is not None and not address.opened.take(1):
            self.refused["too_often"] += 1
            return None
        if len(self._open) >= self._limits.most and not self.make_room():
            self.refused["full"] += 1
            return None
        if address is not None:
            address.connections += 1
        connection = Connection(key, self._monotonic_s() + FIRST_S)
        self._open[connection] = None
        return connection

    def begin(self, connection: Connection) -> bool:
        """Note that the head of a request is there; False: it is one too many of its address."""
        connection.until_s = None
        address = None if connection.key is None else self._address(connection.key)
        if address is None or address.requests.take(1):
            return True
        self.refused["too_often"] += 1
        return False

    def await_body(self, connection: Connection) -> None:
        """Note that the body of its request is waited for: it gives way (I3); its reader says for how long."""
        connection.until_s = math.inf

    def take_body(self, connection: Connection) -> None:
        """Note that the body is there, or is waited for no more: it is in a request."""
        connection.until_s = None

    def end(self, connection: Connection) -> None:
        """Note that the answer has gone out: it waits for the next request."""
        if connection in self._open:
            connection.until_s = self._monotonic_s() + IDLE_S
            connection.received_bytes = 0
            self._downloads.pop(connection, None)
            self._open[connection] = self._open.pop(connection)

    def download(self, connection: Connection) -> bool:
        """Note that something large is sent; False: too much is.

        Half of the places are for downloads, so that there is always one to ask what is new.  Where they are taken, the
        oldest gives way, if it had DOWNLOAD_S: its device asks for the rest (a blob's, by Range).
        """
        now_s = self._monotonic_s()
        if len(self._downloads) >= max(1, self._limits.most // 2):
            oldest = next(iter(self._downloads))
            if oldest.downloads_since_s is None or now_s - oldest.downloads_since_s < DOWNLOAD_S:
                self.refused["too_many_downloads"] += 1
                return False
            self._cut(oldest, "gave_way")
        connection.downloads_since_s = now_s
        self._downloads[connection] = None
        return True

    def release(self, connection: Connection) -> None:
        """Forget a connection that is closed."""
        if connection not in self._open:
            return
        del self._open[connection]
        self._downloads.pop(connection, None)
        address = None if connection.key is None else self._addresses.get(connection.key)
        if address is not None:
            address.connections -= 1

    def make_room(self) -> bool:
        """Cut the connection that has waited longest; tell whether there was one (I3)."""
        for connection in self._open:
            if connection.until_s is not None:
                self._cut(connection, "gave_way")
                return True
        return False

    def sweep(self) -> None:
        """Cut what has waited too long (I2), and forget addresses (I4); to be called every second or so."""
        now_s = self._monotonic_s()
        for connection in list(self._open):
            if connection.until_s is not None and connection.until_s <= now_s:
                self._cut(connection, "waited_too_long")
        for key, address in list(self._addresses.items()):
            if address.seen_s > now_s - FORGET_S:
                break
            if address.connections == 0:
                del self._addresses[key]

    def _cut(self, connection: Connection, reason: str) -> None:
        self.refused[reason] += 1
        self.release(connection)
        connection.cut()

    def _address(self, key: bytes) -> _Address:
        """Return what is known of an address, now the one seen last."""
        found = self._addresses.pop(key, None)
        if found is None:
            if len(self._addresses) >= ADDRESSES_KEPT:
                del self._addresses[next(key for key, kept in self._addresses.items() if kept.connections == 0)]
            opened, requests = (RateLimit(self._limits.per_second, self._monotonic_s) for _ in range(2))
            found = _Address(opened, requests, 0.0)
        found.seen_s = self._monotonic_s()
        self._addresses[key] = found
        return found

    def _key(self, host: str) -> bytes | None:
        """Return what stands for an address, None for a proxy's."""
        address = ipaddress.ip_address(host.partition("%")[0])
        mapped = getattr(address, "ipv4_mapped", None)
        address = address if mapped is None else mapped
        if any(address in network for network in self._limits.proxies):
            return None
        packed = address.packed if address.version == 4 else address.packed[: IPV6_PREFIX // 8]
        return hashlib.blake2s(packed, key=self._secret, digest_size=16).digest()
