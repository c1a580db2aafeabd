"""Holds an app's ways to its server and to aggregators: opened by the first call that needs one, counted, and closed.

open() ─┬─ randomized reports               every request ─▶ traffic, requests, the app's observers
        └─ open_bounded() ─▶ a sync's requests, ended by cancel_sync()
open(address of an aggregator) ─▶ its keys, reports of two aggregators
"""

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Final

from alcove.runtime.cancellation import Cancellation
from alcove.runtime.clock import Clock
from alcove.sdk.bounded import BoundedTransport
from alcove.sdk.errors import ClosedError
from alcove.sdk.summary import RequestCounter
from alcove.sdk.transport import OutboundRequest, RequestObserver, TrafficStats, Transport

__all__ = ["Connection", "TransportMaker"]

_LOG: Final = logging.getLogger(__name__)

TransportMaker = Callable[[str, TrafficStats, RequestObserver], Transport]
"""Makes the way to a server from its address and counters."""


class Connection:
    """The ways to the app's server and to aggregators; safe for several threads.

    Attributes:
        server: address of the app's server.
        traffic: bytes to and from it.
        aggregator_traffic: bytes to and from all aggregators; how long they ask to be left alone delays no sync.
        requests: requests that left, by kind.

    Args:
        server: address of the app's server, checked.
        clock: measures how long a sync takes.
        closing: cancelled when the client is closed; nothing is opened afterwards.
        observers: hear of every request that leaves.
        make: makes the way; None: over HTTP.
    """

    def __init__(
        self,
        server: str,
        clock: Clock,
        closing: Cancellation,
        observers: Sequence[RequestObserver],
        make: TransportMaker | None,
    ) -> None:
        self.server = server
        self.traffic = TrafficStats()
        self.aggregator_traffic = TrafficStats()
        self.requests = RequestCounter()
        self._clock = clock
        self._closing = closing
        self._observers = tuple(observers)
        self._make = make
        self._lock = threading.Lock()
        self._transports: dict[str, Transport] = {}
        self._bounds: BoundedTransport | None = None

    def check_open(self) -> None:
        """Return while the client is open.

        Raises:
            ClosedError: it was closed.
        """
        if self._closing.is_cancelled:
            raise ClosedError

    def open(self, aggregator: str = "") -> Transport:
        """Return the way to a server, made once for each.

        Args:
            aggregator: address of an aggregator; "" for the app's server.

        Raises:
            InsecureServerError: the aggregator's address is refused.
            ClosedError: the client was closed.
        """
        with self._lock:
            self.check_open()
            transport = self._transports.get(aggregator)
            if transport is None:
                traffic = self.aggregator_traffic if aggregator else self.traffic
                transport = self._connect(aggregator or self.server, traffic)
                self._transports[aggregator] = transport
            return transport

    def _connect(self, server: str, traffic: TrafficStats) -> Transport:
        if self._make is not None:
            return self._make(server, traffic, self._on_sent)
        from alcove.sdk.egress import Egress  # noqa: PLC0415 - loads the network's libraries

        return Egress(server, traffic=traffic, observer=self._on_sent)

    def open_bounded(self) -> BoundedTransport:
        """Return the way that one sync at a time takes, made once.

        Raises:
            ClosedError: the client was closed.
        """
        if self._bounds is None:
            self._bounds = BoundedTransport(self.open(), self._clock)
        return self._bounds

    def cancel_sync(self, *, is_for_good: bool = False) -> None:
        """End the sync at hand, if there is one; where it is for good, each later one too."""
        bounds = self._bounds
        if bounds is not None:
            bounds.cancel(is_for_good=is_for_good)

    def close(self) -> None:
        """End the sync at hand and let go of sockets; the client is closed already."""
        self.cancel_sync(is_for_good=True)
        with self._lock:
            transports, self._transports = self._transports, {}
        for transport in transports.values():
            transport.close()

    def begin_in_child(self) -> None:
        """Hold no lock and no socket of the parent in a forked child."""
        self._lock = threading.Lock()
        self._transports, self._bounds = {}, None

    def _on_sent(self, sent: OutboundRequest) -> None:
        self.requests(sent)
        _LOG.debug("%s %s%s: %d bytes", sent.method, sent.server, sent.path, len(sent.wire))
        for observer in self._observers:
            observer(sent)
