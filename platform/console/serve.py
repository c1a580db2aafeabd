"""Runs the console on a listening socket."""

import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from alcove.platform.console.app import create_console
from alcove.platform.console.calls import open_calls
from alcove.platform.console.settings import ConsoleSettings
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
        yield await start_listening(stack, app, listener, connections, open_tls(settings))
