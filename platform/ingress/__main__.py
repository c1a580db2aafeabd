"""Runs the devices' process: under a server, which speaks to it over pipes, or by itself.

python -m alcove.platform.ingress --data-dir … …     by itself
python -m alcove.platform.ingress --socket NUMBER    under a server (`alcove.platform.listening.kept`)
"""

import asyncio
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from alcove.platform.core.options import settings_from
from alcove.platform.domain.errors import ServerError
from alcove.platform.ingress.serve import run_ingress, serve_ingress
from alcove.platform.ingress.settings import IngressSettings
from alcove.platform.listening.kept import run_kept
from alcove.registry.errors import RegistryError

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Answer devices until asked to stop; return the exit code: 0 stopped, 1 could not start or lost its server."""
    given = sys.argv[1:] if arguments is None else arguments
    if given[:1] == ["--socket"]:
        return run_kept(int(given[1]), "the devices' port", _run)
    settings = settings_from(given, IngressSettings, prog="alcove.platform.ingress", description=__doc__)
    if settings is None:
        return 2
    try:
        asyncio.run(serve_ingress(settings))
    except (ServerError, RegistryError, OSError) as error:
        sys.stderr.write(f"alcove: {error}\n")
        return 1
    return 0


@asynccontextmanager
async def _run(line: bytes, listener: socket.socket) -> AsyncIterator[Callable[[], str]]:
    async with run_ingress(IngressSettings.model_validate_json(line), listener) as ingress:
        yield lambda: ingress.figures().to_json()


if __name__ == "__main__":
    sys.exit(main())
