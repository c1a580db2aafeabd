"""Accepts the connections of devices within their limits, before TLS and before anything is read.

The sockets are accepted here and not by asyncio's server, which would take as many as the system gives, and would know
of a connection only once its TLS handshake is over.
"""

import asyncio
import contextlib
import errno
import functools
import resource
import socket
import ssl
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from alcove.platform.listening.connections import FIRST_S, Connection, Connections

__all__ = ["Listener", "raise_file_limit"]

AT_ONCE: Final = 64  # connections accepted before others get a turn
PAUSE_S: Final = 0.1  # seconds without accepting, where the system has no more files
SWEEP_S: Final = 1.0
SENDING_BYTES: Final = 128 * 1024  # of the kernel's buffer of a connection; it takes twice as much memory
CYCLE_BYTES: Final = 256 * 1024  # that may come between two answers: heads and bodies that are refused or small
FILES_KEPT: Final = 256  # for the database, the log, files that are being sent from a store
FILES_EACH: Final = 2  # a connection and the file that it is sent
_RESET: Final = struct.pack("ii", 1, 0)  # SO_LINGER: forget what is unsent
_NO_FILES: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


def raise_file_limit() -> int:
    """Let this process have as many open files as the system allows; return for how many connections they do."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 65_536 if most == resource.RLIM_INFINITY else most
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(1, (allowed - FILES_KEPT) // FILES_EACH)


class Listener:
    """Accepts connections and gives them to a protocol.

    Args:
        connections: their limits.
        listener: a listening socket, non-blocking; stays the caller's.
        protocol: makes what reads a connection.
        tls: None: plain.
        body_bytes: of the largest body that is read.

    Attributes:
        cycle_bytes: that may come on a connection between two answers.
    """

    def __init__(
        self,
        connections: Connections,
        listener: socket.socket,
        protocol: Callable[[], asyncio.Protocol],
        tls: ssl.SSLContext | None = None,
        *,
        body_bytes: int = 0,
    ) -> None:
        self.cycle_bytes = CYCLE_BYTES + body_bytes
        self._connections = connections
        self._listener = listener
        self._protocol = protocol
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._opening: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._is_open = True
        self._loop.add_reader(listener.fileno(), self._accept)
        self._sweep()

    def close(self) -> None:
        """Accept no more; connections that are open stay."""
        self._is_open = False
        self._loop.remove_reader(self._listener.fileno())
        if self._timer is not None:
            self._timer.cancel()
        for task in self._opening:
            task.cancel()

    def _sweep(self) -> None:
        self._connections.sweep()
        self._timer = self._loop.call_later(SWEEP_S, self._sweep)

    def _accept(self) -> None:
        for _ in range(AT_ONCE):
            try:
                made, address = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _NO_FILES:
                    raise
                self._pause()
                return
            place = self._connections.admit(str(address[0]))
            if place is None:
                _reset(made)
                continue
            made.setblocking(False)
            place.cut = functools.partial(_shut, made)
            task = self._loop.create_task(self._open(made, place))
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)

    def _pause(self) -> None:
        """Wait for files: one connection gives way, and the others wait in the queue of the port."""
        self._connections.make_room()
        self._loop.remove_reader(self._listener.fileno())
        self._loop.call_later(PAUSE_S, self._resume)

    def _resume(self) -> None:
        if self._is_open:
            self._loop.add_reader(self._listener.fileno(), self._accept)

    async def _open(self, made: socket.socket, place: Connection) -> None:
        """Shake hands where there is TLS, and let the protocol read."""
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SENDING_BYTES)
            tls = {} if self._tls is None else {"ssl": self._tls, "ssl_handshake_timeout": FIRST_S}
            await self._loop.connect_accepted_socket(lambda: _Limited(self, place), made, **tls)  # type: ignore[arg-type]
        except OSError:  # of the handshake too; who it was is nobody's business
            self._connections.release(place)
            with contextlib.suppress(OSError):
                made.close()
        except asyncio.CancelledError:
            self._connections.release(place)
            made.close()
            raise

    def open_connection(self, transport: asyncio.Transport, place: Connection) -> asyncio.Protocol:
        """Note what a place's connection is; return what reads it."""
        place.cut = transport.abort
        self._connections.places[transport] = place
        return self._protocol()

    def close_connection(self, transport: asyncio.BaseTransport | None, place: Connection) -> None:
        """Free a place."""
        self._connections.places.pop(transport, None)
        self._connections.release(place)


class _Limited(asyncio.Protocol):
    """Passes on what happens on a connection; ends one that sends more than anybody has to say."""

    def __init__(self, listener: Listener, place: Connection) -> None:
        self._listener = listener
        self._place = place
        self._transport: asyncio.Transport | None = None
        self._inner: asyncio.Protocol | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if not isinstance(transport, asyncio.Transport):
            raise TypeError(type(transport).__name__)
        self._transport = transport
        self._inner = self._listener.open_connection(transport, self._place)
        self._inner.connection_made(transport)
        # An answer is over when the kernel has all of it.  With TLS asyncio pauses where as much as the limit
        # waits, not where more does; what is left of the handshake waits already.
        transport.set_write_buffer_limits(high=0 if transport.get_extra_info("sslcontext") is None else 1)

    def data_received(self, data: bytes) -> None:
        self._place.received_bytes += len(data)
        if self._place.received_bytes > self._listener.cycle_bytes:
            self._place.cut()
        elif self._inner is not None:
            self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return None if self._inner is None else self._inner.eof_received()

    def pause_writing(self) -> None:
        if self._inner is not None:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        if self._inner is not None:
            self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._listener.close_connection(self._transport, self._place)
        if self._inner is not None:
            self._inner.connection_lost(exc)


def _shut(made: socket.socket) -> None:
    """End a connection whose socket is asyncio's to close."""
    with contextlib.suppress(OSError):
        made.shutdown(socket.SHUT_RDWR)


def _reset(made: socket.socket) -> None:
    """Close a socket without leaving anything of it to the kernel."""
    with contextlib.suppress(OSError):
        made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        made.close()
