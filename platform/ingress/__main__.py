"""Runs the devices' process: under a server, which speaks to it over pipes, or by itself.

    python -m alcove.platform.ingress --data-dir … …     by itself
    python -m alcove.platform.ingress --socket NUMBER    under a server

Under a server each line of standard input is one of

    {"data_dir": …}   the settings, first; answered by {"ready": true} or {"failed": "why"}
    figures           answered by what `IngressFigures` says
    stop              end: answers under way get a few seconds

and the end of standard input means that the server is gone: the process ends at once and frees the port.
"""

import asyncio
import json
import os
import signal
import socket
import sys
from typing import Final

import structlog
from alcove.platform.core.log import configure_log
from alcove.platform.core.options import settings_from
from alcove.platform.domain.errors import ServerError
from alcove.platform.ingress.serve import Ingress, run_ingress, serve_ingress
from alcove.platform.ingress.settings import IngressSettings
from alcove.registry.errors import RegistryError

__all__ = ["main"]

NICE: Final = 5  # where processors are short, operators get three times as much of one
_log = structlog.get_logger()


def main(arguments: list[str] | None = None) -> int:
    """Answer devices until asked to stop; return the exit code: 0 stopped, 1 could not start or lost its server."""
    given = sys.argv[1:] if arguments is None else arguments
    if given[:1] == ["--socket"]:
        for number in (signal.SIGINT, signal.SIGTERM):  # to a whole group; the server says when it is time
            signal.signal(number, signal.SIG_IGN)
        os.nice(NICE)
        return asyncio.run(_serve_under(socket.socket(fileno=int(given[1]))))
    settings = settings_from(given, IngressSettings, prog="alcove.platform.ingress", description=__doc__)
    if settings is None:
        return 2
    try:
        asyncio.run(serve_ingress(settings))
    except (ServerError, RegistryError, OSError) as error:
        sys.stderr.write(f"alcove: {error}\n")
        return 1
    return 0


async def _serve_under(listener: socket.socket) -> int:
    configure_log()
    loop = asyncio.get_running_loop()
    lines = asyncio.StreamReader()
    pipe, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    try:
        first = await lines.readline()
        if not first:
            return 1
        async with run_ingress(IngressSettings.model_validate_json(first), listener) as ingress:
            _say({"ready": True})
            await _obey(lines, ingress)
    except (ServerError, RegistryError, OSError) as error:
        _say({"failed": str(error)})
        return 1
    finally:
        pipe.close()
        listener.close()
    return 0


async def _obey(lines: asyncio.StreamReader, ingress: Ingress) -> None:
    """Do what the server says until it says "stop"."""
    while (line := (await lines.readline()).strip()) != b"stop":
        if line == b"figures":
            _say(ingress.figures().to_json())
        elif not line:
            _log.error("the server of this process is gone: the devices' port closes")
            sys.stderr.flush()
            os._exit(1)  # at once, so that the next server finds the port free; what was answered was committed


def _say(what: dict[str, object] | str) -> None:
    sys.stdout.write((what if isinstance(what, str) else json.dumps(what)) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
