"""Runs the console's process under a server: `python -m alcove.platform.console --socket NUMBER`."""

import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from alcove.platform.console.serve import run_console
from alcove.platform.console.settings import ConsoleSettings
from alcove.platform.listening.kept import run_kept

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Show pages until asked to stop; return the exit code: 0 stopped, 1 could not start or lost its server, 2 use."""
    given = sys.argv[1:] if arguments is None else arguments
    if len(given) != 2 or given[0] != "--socket":
        sys.stderr.write("alcove: the console is started by `alcove serve`\n")
        return 2
    return run_kept(int(given[1]), "the console's port", _run)


@asynccontextmanager
async def _run(line: bytes, listener: socket.socket) -> AsyncIterator[Callable[[], str]]:
    async with run_console(ConsoleSettings.model_validate_json(line), listener):
        yield lambda: "{}"


if __name__ == "__main__":
    sys.exit(main())
