"""How is the server started without the `alcove` command?  `python -m alcove.platform.server --data-dir … …`."""

import argparse
import asyncio
import sys

from alcove.platform.core.errors import ServerError
from alcove.platform.server.serve import serve
from alcove.platform.server.settings import Settings
from alcove.registry.errors import RegistryError
from pydantic import ValidationError

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Serve until told to stop; return the exit code: 0 stopped, 1 could not start, 2 wrong use."""
    parser = argparse.ArgumentParser(prog="alcove.platform.server", description=__doc__)
    for name, field in Settings.model_fields.items():
        parser.add_argument(f"--{name.replace('_', '-')}", dest=name, required=field.is_required())
    given = {name: value for name, value in vars(parser.parse_args(arguments)).items() if value is not None}
    try:
        settings = Settings.model_validate(given)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        sys.stderr.write(f"--{'.'.join(map(str, fault['loc'])).replace('_', '-')}: {fault['msg']}\n")
        return 2
    try:
        asyncio.run(serve(settings))
    except (ServerError, RegistryError, OSError) as error:
        sys.stderr.write(f"alcove: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
