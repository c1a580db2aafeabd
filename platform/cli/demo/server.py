"""Starts the server with the demo's clock: `python -m alcove.platform.cli.demo.server --clock FILE --data-dir … …`."""

import asyncio
import sys
from pathlib import Path

from alcove.platform.cli.demo.clock import DemoClock
from alcove.platform.cli.output import say
from alcove.platform.core.options import settings_from
from alcove.platform.domain.errors import ServerError
from alcove.platform.server.serve import serve
from alcove.platform.server.settings import Settings
from alcove.registry.errors import RegistryError


class DemoServerSettings(Settings):
    """Settings of the server, and the file of its clock."""

    clock: Path


def main() -> int:
    """Serve until asked to stop; return the exit code: 0 stopped, 1 could not start, 2 wrong use."""
    settings = settings_from(None, DemoServerSettings, prog="alcove.platform.cli.demo.server", description=__doc__)
    if settings is None:
        return 2
    try:
        asyncio.run(serve(settings, DemoClock(settings.clock)))
    except (ServerError, RegistryError, OSError) as error:
        say(f"alcove: {error}", err=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
