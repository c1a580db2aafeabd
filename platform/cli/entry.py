"""Starts the `alcove` command; in a bare install it names the missing library instead."""

import sys
from importlib.util import find_spec

__all__ = ["main"]

_NEEDED = ("typer", "rich", "grpc", "structlog")


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return the exit code.

    0 done, 1 refused or failed, 2 wrong use, 3 no answer (repeating is safe), 4 not found, 5 not allowed.
    """
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        sys.stderr.write(f"alcove: needs alcove-platform: pip install alcove-platform (missing: {missing[0]})\n")
        return 2
    from alcove.platform.cli.main import run  # noqa: PLC0415 - not there in a bare install

    return run(arguments)


if __name__ == "__main__":
    sys.exit(main())
