"""Runs a process that a server keeps, which speaks to it over pipes (`alcove.platform.server.kept_process`).

Each line of standard input is one of

    {…}       the settings, first; answered by {"ready": true} or {"failed": "why"}
    figures   answered by the process's sums, one line
    stop      end: answers under way get a few seconds

and the end of standard input means that the server is gone: the process ends at once and frees the port.
"""

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Final

import structlog
from alcove.platform.core.log import configure_log
from alcove.platform.domain.errors import ServerError
from alcove.registry.errors import RegistryError

__all__ = ["run_kept"]

NICE: Final = 5  # where processors are short, operators get three times as much of one
_log = structlog.get_logger()
_Run = Callable[[bytes, socket.socket], AbstractAsyncContextManager[Callable[[], str]]]


def run_kept(descriptor: int, name: str, run: _Run) -> int:
    """Answer on a socket until the server says stop; return the exit code: 1 could not start or lost its server.

    Args:
        descriptor: of the listening socket.
        name: of the port, as the log has it: "the devices' port".
        run: answers inside its block, from the line of settings and the socket; gives what returns its figures.
    """
    for number in (signal.SIGINT, signal.SIGTERM):  # to a whole group; the server says when it is time
        signal.signal(number, signal.SIG_IGN)
    os.nice(NICE)
    return asyncio.run(_serve(socket.socket(fileno=descriptor), name, run))


async def _serve(listener: socket.socket, name: str, run: _Run) -> int:
    configure_log()
    loop = asyncio.get_running_loop()
    lines = asyncio.StreamReader()
    pipe, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    try:
        first = await lines.readline()
        if not first:
            return 1
        async with run(first, listener) as figures:
            _say(json.dumps({"ready": True}))
            await _obey(lines, name, figures)
    except (ServerError, RegistryError, OSError) as error:
        _say(json.dumps({"failed": str(error)}))
        return 1
    finally:
        pipe.close()
        listener.close()
    return 0


async def _obey(lines: asyncio.StreamReader, name: str, figures: Callable[[], str]) -> None:
    """Do what the server says until it says "stop"."""
    while (line := (await lines.readline()).strip()) != b"stop":
        if line == b"figures":
            _say(figures())
        elif not line:
            _log.error(f"the server of this process is gone: {name} closes")
            sys.stderr.flush()
            os._exit(1)  # at once, so that the next server finds the port free; what was answered was committed


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
