"""Bounds the connections of the gRPC ports: strangers leave soon, known callers have a share each.

gRPC accepts connections by itself and asks nobody.  So the process looks at its own sockets now and then, knows from
the calls which of them belong to a known caller, and shuts those down that have no right to stay (`overdue` says which
and why).  gRPC sees such a connection as one that its peer closed.

    opened ─▶ stranger ──a call of a known caller──▶ known ──unused, one too many of its caller──▶ closed
                 │  └──a health probe──▶ prober ──no probe for a minute──▶ closed
                 └──ten seconds, refusals, too many strangers──▶ closed
"""

import asyncio
import contextlib
import os
import socket
import stat
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote

from alcove.platform.domain import limits

__all__ = ["Connection", "Connections", "overdue", "peer_of"]

Peer = tuple[str, int]
"""Address and port at the far end."""

_DESCRIPTORS: Final = "/dev/fd"  # Linux and macOS both have it


@dataclass
class Connection:
    """State of one connection.

    Attributes:
        peer: its far end.
        inode: of its socket; 0: no look has found it yet.
        opened_s: when it was first seen.
        used_s: when its last call of a known caller, or its last probe, began.
        caller: who called last; "": nobody who is known.
        refusals: calls that were refused to strangers, since the last good one.
        probes: health probes so far.
        calls: calls of known callers under way.
        is_stuck: whether its far end takes no answer.
    """

    peer: Peer
    opened_s: float
    inode: int = 0
    used_s: float = field(default=0.0)
    caller: str = ""
    refusals: int = 0
    probes: int = 0
    calls: int = 0
    is_stuck: bool = False


def overdue(connections: Iterable[Connection], now_s: float) -> list[Connection]:
    """Return the connections that have no right to stay."""
    found: list[Connection] = []
    strangers: list[Connection] = []
    by_caller: dict[str, list[Connection]] = defaultdict(list)
    for one in connections:
        if _is_misused(one, now_s) or (not one.caller and now_s >= _leaves_s(one)):
            found.append(one)
        elif one.caller:
            by_caller[one.caller].append(one)
        else:
            strangers.append(one)
    strangers.sort(key=lambda one: one.opened_s, reverse=True)  # who came last may be about to say who it is
    of_address: dict[str, int] = defaultdict(int)
    for count, one in enumerate(strangers):
        of_address[one.peer[0]] += 1
        if count >= limits.STRANGERS or of_address[one.peer[0]] > limits.STRANGERS_OF_ADDRESS:
            found.append(one)
    for held in by_caller.values():
        held.sort(key=lambda one: (one.calls > 0, one.used_s), reverse=True)
        found += held[limits.CONNECTIONS_OF_CALLER :]
    return found


def _is_misused(one: Connection, now_s: float) -> bool:
    refusals = limits.REFUSALS_OF_KNOWN if one.caller else limits.REFUSALS_OF_STRANGER
    is_hasty = one.probes > limits.PROBES_A_SECOND * (1 + now_s - one.opened_s)
    return one.is_stuck or is_hasty or one.refusals >= refusals


def _leaves_s(one: Connection) -> float:
    return one.used_s + limits.PROBER_S if one.probes else one.opened_s + limits.STRANGER_S


def peer_of(text: str) -> Peer | None:
    """Return the far end that gRPC writes as "ipv4:127.0.0.1:53012" or "ipv6:%5B::1%5D:53012"; None for others."""
    kind, _, rest = text.partition(":")
    host, _, port = unquote(rest).rpartition(":")
    if kind not in ("ipv4", "ipv6") or not port.isdecimal():
        return None
    return _plain(host.strip("[]")), int(port)


def _plain(host: str) -> str:
    """Return an address in one spelling: an IPv4 address that came through an IPv6 socket is one."""
    return host.partition("%")[0].removeprefix("::ffff:") if "." in host else host.partition("%")[0]


class Connections:
    """The connections of some ports of this process.

    Args:
        monotonic_s: seconds that only rise.
    """

    def __init__(self, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._monotonic_s = monotonic_s
        self._ports: frozenset[int] = frozenset()
        self._known: dict[Peer, Connection] = {}
        self._sockets: dict[int, tuple[int, Peer | None]] = {}  # by descriptor: inode, and the peer if it is ours
        self._hurry = asyncio.Event()

    def __len__(self) -> int:
        return len(self._known)

    def accept(self, peer: str, caller: str) -> Connection | None:
        """Note that a call of a known caller began on the connection."""
        one = self._of(peer)
        if one is not None:
            one.caller, one.used_s, one.refusals = caller, self._monotonic_s(), 0
        return one

    def count_refusal(self, peer: str) -> None:
        """Note that a stranger's call was refused."""
        one = self._of(peer)
        if one is not None:
            one.refusals += 1
            self._judge(one)

    def count_probe(self, peer: str) -> None:
        """Note a health probe."""
        one = self._of(peer)
        if one is not None:
            one.probes += 1
            one.used_s = self._monotonic_s()
            self._judge(one)

    def stuck(self, peer: str) -> None:
        """Close the connection: its far end takes no answer."""
        one = self._of(peer)
        if one is not None:
            one.is_stuck = True
            self._judge(one)

    def look(self) -> int:
        """Find the connections that there are, and shut down those that have no right to stay; return how many."""
        there = self._there()
        self._known = {peer: self._find_connection(peer, self._sockets[there[peer]][0]) for peer in there}
        closed = overdue(self._known.values(), self._monotonic_s())
        for one in closed:
            self._shut(there[one.peer], one.peer)
            del self._known[one.peer]
        return len(closed)

    def _find_connection(self, peer: Peer, inode: int) -> Connection:
        """Return what is known of a connection that is there."""
        one = self._known.get(peer) or Connection(peer, self._monotonic_s())
        if one.inode not in (0, inode):  # another one, opened from the same port; its calls may have come before
            one.opened_s, one.refusals, one.probes, one.is_stuck = self._monotonic_s(), 0, 0, False
        one.inode = inode
        return one

    @asynccontextmanager
    async def watch(self, *ports: int) -> AsyncIterator[None]:
        """Look again and again at the connections of these ports of ours while the block runs."""
        self._ports = frozenset(ports)
        task = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _watch(self) -> None:
        while True:
            self.look()
            self._hurry.clear()
            await asyncio.sleep(limits.CONNECTIONS_LOOK_S / 10)  # so that a flood of refusals makes ten looks at most
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._hurry.wait(), limits.CONNECTIONS_LOOK_S)

    def _of(self, text: str) -> Connection | None:
        peer = peer_of(text)
        if peer is None:
            return None
        one = self._known.get(peer)
        if one is None:
            one = self._known[peer] = Connection(peer, self._monotonic_s())
        return one

    def _judge(self, one: Connection) -> None:
        if _is_misused(one, self._monotonic_s()):
            self._hurry.set()

    def _there(self) -> dict[Peer, int]:
        """Return the descriptor of each connection that somebody opened to our ports."""
        found: dict[Peer, int] = {}
        seen: dict[int, tuple[int, Peer | None]] = {}
        for name in os.listdir(_DESCRIPTORS):  # noqa: PTH208 - names of descriptors, thousands of them, twice a second
            descriptor = int(name)
            try:
                status = os.fstat(descriptor)
            except OSError:  # the listing's own
                continue
            if not stat.S_ISSOCK(status.st_mode):
                continue
            known = self._sockets.get(descriptor)
            if known is None or known[0] != status.st_ino:
                known = (status.st_ino, self._far_end(descriptor))
            seen[descriptor] = known
            if known[1] is not None:
                found[known[1]] = descriptor
        self._sockets = seen
        return found

    def _far_end(self, descriptor: int) -> Peer | None:
        """Return the far end of a connection to our ports; None for any other socket."""
        try:
            with socket.socket(fileno=os.dup(descriptor)) as one:
                if one.family not in (socket.AF_INET, socket.AF_INET6) or one.type != socket.SOCK_STREAM:
                    return None
                if one.getsockname()[1] not in self._ports:
                    return None
                host, port = one.getpeername()[:2]
                return _plain(host), port
        except OSError:  # it listens, or is gone
            return None

    def _shut(self, descriptor: int, peer: Peer) -> None:
        """Shut a connection down, unless the descriptor is another one by now."""
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as one:
            host, port = one.getpeername()[:2]
            if (_plain(host), port) == peer and one.getsockname()[1] in self._ports:
                one.shutdown(socket.SHUT_RDWR)
