"""Opens ports and answers HTTP on them, with TLS where there is a certificate."""

import asyncio
import logging
import socket
import ssl
from contextlib import AsyncExitStack, suppress
from typing import Final

from aiohttp import web
from alcove.platform.domain import limits
from alcove.platform.domain.errors import TlsFilesError
from alcove.platform.listening.accepting import Listener
from alcove.platform.listening.connections import IDLE_S, Connections
from alcove.platform.listening.settings import ListenerSettings
from alcove.registry.keys import check_private_file

__all__ = ["SILENT", "end_task", "listen_http", "open_tls", "start_http", "start_listening"]

LINGERING_S: Final = 1.0  # seconds in which a body that is refused is read and thrown away, so that its sender sees why
MAX_HEAD_BYTES: Final = 4096  # of a request's first line, and of one of its headers
BACKLOG: Final = 1024  # connections that wait to be accepted; the system's own cap is often 4096
SILENT: Final = logging.getLogger("alcove.listening.silent")  # in the place of the web server's, which names addresses
SILENT.disabled = True


def listen_http(host: str, port: int) -> socket.socket:
    """Return a socket that listens for devices; close it.

    Raises:
        OSError: the port is taken or not ours to open, or the host has no address; its `filename` is both.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        made = socket.socket(family, kind, protocol)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # no wait for the connections of the one before
            made.bind(address)
            made.listen(BACKLOG)
            made.setblocking(False)
        except BaseException:
            made.close()
            raise
    except OSError as error:  # the system's own says no address, so that nobody could tell which port is meant
        raise OSError(error.errno, error.strerror, f"{host}:{port}") from error
    return made


async def start_http(stack: AsyncExitStack, app: web.Application, listener: socket.socket) -> int:
    """Answer those who watch the server, on a listening socket, until the stack ends; return its port."""
    runner = web.AppRunner(app, access_log=None, logger=SILENT, shutdown_timeout=limits.SHUTDOWN_GRACE_S)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    await web.SockSite(runner, listener).start()
    return int(listener.getsockname()[1])


async def start_listening(
    stack: AsyncExitStack,
    app: web.Application,
    listener: socket.socket,
    connections: Connections,
    tls: ssl.SSLContext | None,
    *,
    body_bytes: int = 0,
) -> int:
    """Answer strangers on a listening socket, within limits, until the stack ends; return its port.

    Args:
        stack: ends it.
        app: what answers.
        listener: where it answers.
        connections: limits.
        tls: None: plain.
        body_bytes: of the largest body that `app` reads; some kilobytes need not be said.
    """
    runner = web.AppRunner(
        app,
        access_log=None,
        logger=SILENT,
        shutdown_timeout=limits.SHUTDOWN_GRACE_S,
        auto_decompress=False,
        keepalive_timeout=IDLE_S,
        lingering_time=LINGERING_S,
        max_line_size=MAX_HEAD_BYTES,
        max_field_size=MAX_HEAD_BYTES,
    )
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    if runner.server is None:
        raise RuntimeError("the application has no server")
    accepting = Listener(connections, listener, runner.server, tls, body_bytes=body_bytes)
    stack.callback(accepting.close)
    return int(listener.getsockname()[1])


async def end_task(task: asyncio.Task[None]) -> None:
    """Cancel a task, and return when it has ended."""
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def open_tls(settings: ListenerSettings) -> ssl.SSLContext | None:
    """Return the context of a listener's certificate; None: it has none.

    Raises:
        KeyFileError: others may read the key.
        TlsFilesError: a file is no certificate or key, or the key is not the certificate's.
        OSError: a file cannot be read; its `filename` says which.
    """
    certificate, key = settings.tls_certificate, settings.tls_key
    if certificate is None:
        return None
    if key is not None:
        check_private_file(key)
    for path in (certificate, key):
        if path is not None:
            path.read_bytes()  # what OpenSSL says of a file that is not there names none
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        tls.load_cert_chain(certificate, key)
    except ssl.SSLError as error:
        problem = (
            "the key is not the certificate's" if error.reason == "KEY_VALUES_MISMATCH" else "no PEM that TLS reads"
        )
        raise TlsFilesError(certificate, key, problem) from error
    return tls
