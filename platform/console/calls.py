"""Makes the console's calls: one connection for all viewers, each call with the token of the viewer who asks.

The typed client blocks, so calls run in threads, as many at once as the pool has.  Watches, which last, have a
connection of their own and no thread: HTTP/2 bounds the calls of a connection, and pages must not wait for them.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TypeVar

import grpc
import grpc.aio
from alcove.platform.client import PlatformClient
from alcove.platform.client.watches import Watches
from alcove.platform.domain import limits

__all__ = ["Calls", "open_calls"]

_Answer = TypeVar("_Answer")


class Calls:
    """Calls to the server.

    Args:
        channel: the connection; stays the caller's.
        watching: the one of watches; likewise.
        threads: in which calls run; stay the caller's.
    """

    def __init__(self, channel: grpc.Channel, watching: grpc.aio.Channel, threads: ThreadPoolExecutor) -> None:
        self._channel = channel
        self._watching = watching
        self._threads = threads

    async def run(self, token: str, work: Callable[[PlatformClient], _Answer]) -> _Answer:
        """Return what `work` makes of a client with this token.

        Raises:
            ClientError: a call failed.
        """
        client = PlatformClient("", token, channel=self._channel)
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, client)

    def watches(self, token: str) -> Watches:
        """Return what tells of changes, with this token."""
        return Watches(self._watching, token)


@asynccontextmanager
async def open_calls(target: str, threads: int) -> AsyncIterator[Calls]:
    """Calls to the server at `target`, at most `threads` at once, inside the block."""
    options = [
        ("grpc.max_receive_message_length", limits.MESSAGE_BYTES),
        ("grpc.enable_http_proxy", 0),
        ("grpc.max_reconnect_backoff_ms", 2000),  # a server that starts again is found soon
    ]
    channel = grpc.insecure_channel(target, options)
    watching = grpc.aio.insecure_channel(target, [*options, ("grpc.use_local_subchannel_pool", 1)])
    pool = ThreadPoolExecutor(threads, thread_name_prefix="console")
    try:
        yield Calls(channel, watching, pool)
    finally:
        await watching.close(None)
        channel.close()
        pool.shutdown(wait=False, cancel_futures=True)
