"""Bounds what a sync does on the network: in time for each file and for all, and by the app that ends it.

    begin ─▶ request, chunk, chunk, … ─▶ end of the sync
                  │ between two of them: cancelled? ─▶ ClosedError       late? ─▶ TooSlowError
                  └ of a blob, each HALT_RECHECK_S: is there news?  (sync.py asks for the halt)

What came before an end stays where it was written, so that the next sync continues from there.  The pace of one answer
is `egress.py`'s matter; a server that keeps to it could still hold a device up for days.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from alcove.runtime.clock import Clock
from alcove.sdk.errors import AlcoveSdkError, ClosedError, TooSlowError
from alcove.sdk.limits import HALT_RECHECK_S, MAX_FILE_S, MAX_SYNC_S
from alcove.sdk.transport import OCTETS, Download, Reply, Transport

_NS: Final = 1_000_000_000


class BoundedTransport:
    """Another transport, for one sync at a time; `cancel` may be called from any thread.

    Attributes:
        ended: what ended the present sync before its time, or None; the tree's reader hides it behind its own errors.

    Args:
        transport: the way to the server.
        clock: its monotonic clock measures; time asleep counts.
    """

    def __init__(self, transport: Transport, clock: Clock) -> None:
        self._transport = transport
        self._clock = clock
        self._cancelled = threading.Event()
        self._is_over = False
        self._deadline_ns = 0
        self._asked_ns = 0
        self._ask: Callable[[], None] | None = None
        self.ended: AlcoveSdkError | None = None

    def begin(self) -> None:
        """Give the next sync its time."""
        if not self._is_over:
            self._cancelled.clear()
        self.ended = None
        # The halt is read at the beginning of each sync.
        self._asked_ns = self._clock.monotonic_ns()
        self._deadline_ns = self._asked_ns + int(MAX_SYNC_S * _NS)

    def cancel(self, *, is_for_good: bool = False) -> None:
        """End the sync at hand before its next request or chunk; where it is for good, each later one too."""
        self._is_over = self._is_over or is_for_good
        self._cancelled.set()

    def check(self) -> None:
        """Return while the sync may continue.

        Raises:
            ClosedError: it was cancelled.
            TooSlowError: its time is over.
        """
        if self.ended is None and self._cancelled.is_set():
            self.ended = ClosedError()
        if self.ended is None and self._clock.monotonic_ns() > self._deadline_ns:
            self.ended = TooSlowError(path="", limit_s=MAX_SYNC_S)
        if self.ended is not None:
            raise self.ended

    @contextlib.contextmanager
    def ask_every(self, ask: Callable[[], None]) -> Iterator[None]:
        """Call `ask` now and then while blobs come; what it raises ends the download, of which the start stays."""
        self._ask = ask
        try:
            yield
        finally:
            self._ask = None

    @contextlib.contextmanager
    def get(self, path: str, *, max_bytes: int, start: int = 0) -> Iterator[Download]:
        """Open the answer to a GET within the bounds; see `Transport.get`.

        Raises:
            TooSlowError: the file, or the sync, took too long.
            ClosedError: the sync was cancelled.
        """
        self._pause(path)
        begun_ns = self._clock.monotonic_ns()
        with self._transport.get(path, max_bytes=max_bytes, start=start) as download:
            yield replace(download, chunks=self._chunks(download.chunks, path, begun_ns))

    def post(self, path: str, body: bytes, content_type: str = OCTETS) -> Reply:
        """Send `body`; see `Transport.post`."""
        return self._transport.post(path, body, content_type)

    def close(self) -> None:
        """Let go of connections."""
        self._transport.close()

    def _chunks(self, chunks: Iterator[bytes], path: str, begun_ns: int) -> Iterator[bytes]:
        for chunk in chunks:
            # The chunk is written before anything ends here.
            yield chunk
            self._pause(path)
            if self._clock.monotonic_ns() - begun_ns > MAX_FILE_S * _NS:
                raise TooSlowError(path=path, limit_s=MAX_FILE_S)

    def _pause(self, path: str) -> None:
        self.check()
        ask = self._ask
        # Not between chunks of metadata: the caller reads metadata.
        if ask is None or not path.startswith("/blobs/"):
            return
        if self._clock.monotonic_ns() - self._asked_ns > HALT_RECHECK_S * _NS:
            self._ask = None
            try:
                ask()
            finally:
                self._ask, self._asked_ns = ask, self._clock.monotonic_ns()
