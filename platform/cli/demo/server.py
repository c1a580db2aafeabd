"""Runs one of the demo's servers by the demo's clock.

`python -m alcove.platform.cli.demo.server grpc|ingress|leader|helper --clock FILE --data-dir … …`: what `alcove serve
--only grpc`, `alcove serve --only ingress` and `alcove aggregator leader|helper` run.
"""

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from alcove.platform.aggregator.config import Seat
from alcove.platform.aggregator.serve import serve_aggregator
from alcove.platform.aggregator.settings import AggregatorSettings
from alcove.platform.cli.demo.clock import DemoClock
from alcove.platform.cli.output import say
from alcove.platform.core.options import settings_from
from alcove.platform.domain.errors import ServerError
from alcove.platform.ingress.serve import serve_ingress
from alcove.platform.ingress.settings import IngressSettings
from alcove.platform.server.serve import serve
from alcove.platform.server.settings import Settings
from alcove.registry.errors import RegistryError

if TYPE_CHECKING:
    from pydantic import BaseModel


class GrpcProcess(Settings):
    """Settings of the server for teams and operators."""

    clock: Path


class IngressProcess(IngressSettings):
    """Settings of the server for devices."""

    clock: Path


class AggregatorProcess(AggregatorSettings):
    """Settings of an aggregator."""

    clock: Path


def main() -> int:
    """Serve until asked to stop; return the exit code: 0 stopped, 1 could not start, 2 wrong use."""
    part, given = sys.argv[1], sys.argv[2:]
    kinds: dict[str, type[BaseModel]] = {"grpc": GrpcProcess, "ingress": IngressProcess}
    kind = kinds.get(part, AggregatorProcess)
    settings = settings_from(given, kind, prog=f"alcove.platform.cli.demo.server {part}", description=__doc__)
    try:
        match settings:
            case GrpcProcess():
                asyncio.run(serve(settings, DemoClock(settings.clock)))
            case IngressProcess():
                asyncio.run(serve_ingress(settings, DemoClock(settings.clock)))
            case AggregatorProcess():
                asyncio.run(serve_aggregator(settings, Seat(part), DemoClock(settings.clock)))
            case _:
                return 2
    except (ServerError, RegistryError, OSError) as error:
        say(f"alcove: {error}", err=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
