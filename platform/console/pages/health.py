"""Shows how the parts of the server are."""

from typing import Final

from aiohttp import web
from alcove.platform.console.pages.page import Answer, Pages

__all__ = ["BAD_FIRST", "routes"]

BAD_FIRST: Final = ("failed", "degraded", "ok", "off")


def routes(pages: Pages) -> list[web.RouteDef]:
    """Return the routes of this area."""

    async def health(request: web.Request) -> Answer:
        found = await pages.ask(request, lambda client: client.health())
        checks = sorted(found.checks, key=lambda check: BAD_FIRST.index(check.state))
        return Answer("health/health.html", {"health": found, "checks": checks}, found.model_dump(mode="json"))

    return pages.routes("/health", health)
