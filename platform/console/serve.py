"""Runs the console on a listening socket."""

import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from alcove.platform.console.app import create_console
from alcove.platform.console.calls import open_calls
from alcove.platform.console.settings import ConsoleSettings
from alcove.platform.domain.errors import TlsFilesError
from alcove.platform.listening.connections import Connections
from alcove.platform.listening.http import open_tls, start_listening

__all__ = ["run_console"]


@asynccontextmanager
async def run_console(settings: ConsoleSettings, listener: socket.socket) -> AsyncIterator[int]:
    """Show pages inside the block; give the port.

    Raises:
        ServerError: the TLS files are none.
        RegistryError: others may read the TLS key.
        OSError: a file cannot be read.
    """
    async with AsyncExitStack() as stack:
        calls = await stack.enter_async_context(open_calls(settings.grpc_target, settings.threads))
        connections = Connections(settings.limits)
        app = create_console(settings, calls, connections)
        tls = open_tls(settings)
        if tls is not None and settings.client_ca is not None:
            _ask_for_certificates(tls, settings.client_ca)
        yield await start_listening(stack, app, listener, connections, tls)


def _ask_for_certificates(tls: ssl.SSLContext, client_ca: Path) -> None:
    """Let browsers show a client certificate: one that does not hold ends the handshake, and none is welcome too."""
    client_ca.read_bytes()  # what OpenSSL says of a file that is not there names none
    try:
        tls.load_verify_locations(client_ca)
    except ssl.SSLError as error:
        raise TlsFilesError(client_ca, None, "no PEM certificates of a client CA") from error
    tls.verify_mode = ssl.CERT_OPTIONAL
