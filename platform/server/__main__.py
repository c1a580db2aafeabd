"""Starts the server without the `alcove` command: `python -m alcove.platform.server --data-dir … …`."""

import asyncio
import sys

from alcove.platform.core.options import settings_from
from alcove.platform.domain.errors import ServerError
from alcove.platform.server.serve import serve
from alcove.platform.server.settings import Settings
from alcove.registry.errors import RegistryError

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Serve until asked to stop; return the exit code: 0 stopped, 1 could not start, 2 wrong use."""
    settings = settings_from(arguments, Settings, prog="alcove.platform.server", description=__doc__)
    if settings is None:
        return 2
    try:
        asyncio.run(serve(settings))
    except (ServerError, RegistryError, OSError) as error:
        sys.stderr.write(f"alcove: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
