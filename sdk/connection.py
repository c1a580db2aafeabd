"""Holds an app's way to its server: opened by the first call that needs it, counted, and closed with the client.

open() ─┬─ reports                          every request ─▶ traffic, requests, the app's observer
        └─ open_bounded() ─▶ a sync's requests, ended by cancel_sync()
"""

import threading
from collections.abc import Callable

from alcove.runtime.cancellation import Cancellation
from alcove.runtime.clock import Clock
from alcove.sdk.bounded import BoundedTransport
from alcove.sdk.errors import ClosedError
from alcove.sdk.summary import RequestCounter
from alcove.sdk.transport import OutboundRequest, RequestObserver, TrafficStats, Transport

__all__ = ["Connection", "TransportMaker"]

TransportMaker = Callable[[TrafficStats, RequestObserver], Transport]
"""Makes the way to a server from its counters."""


class Connection:
    """The way to one server; safe for several threads.

    Attributes:
        server: its address.
        traffic: bytes in each direction.
        requests: requests that left, by kind.

    Args:
        server: its address, checked.
        clock: measures how long a sync takes.
        closing: cancelled when the client is closed; nothing is opened afterwards.
        observer: hears of every request that leaves.
        make: makes the way; None: over HTTP.
    """

    def __init__(
        self,
        server: str,
        clock: Clock,
        closing: Cancellation,
        observer: RequestObserver | None,
        make: TransportMaker | None,
    ) -> None:
        self.server = server
        self.traffic = TrafficStats()
        self.requests = RequestCounter()
        self._clock = clock
        self._closing = closing
        self._observer = observer
        self._make = make
        self._lock = threading.Lock()
        self._transport: Transport | None = None
        self._bounds: BoundedTransport | None = None

    def check_open(self) -> None:
        """Return while the client is open.

        Raises:
            ClosedError: it was closed.
        """
        if self._closing.is_cancelled:
            raise ClosedError

    def open(self) -> Transport:
        """Return the way to the server, made once.

        Raises:
            ClosedError: the client was closed.
        """
        with self._lock:
            self.check_open()
            if self._transport is None:
                if self._make is not None:
                    self._transport = self._make(self.traffic, self._on_sent)
                else:
                    from alcove.sdk.egress import Egress  # noqa: PLC0415 - loads the network's libraries

                    self._transport = Egress(self.server, traffic=self.traffic, observer=self._on_sent)
            return self._transport

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
            transport, self._transport = self._transport, None
        if transport is not None:
            transport.close()

    def begin_in_child(self) -> None:
        """Hold no lock and no socket of the parent in a forked child."""
        self._lock = threading.Lock()
        self._transport = self._bounds = None

    def _on_sent(self, sent: OutboundRequest) -> None:
        self.requests(sent)
        if self._observer is not None:
            self._observer(sent)
