"""Shows rollouts: their list, and each with its stages, its guardrails and what a person can do with it."""

from aiohttp import web
from alcove.platform.console.pages.page import Pages
from alcove.platform.console.pages.rollouts import listing, rollout

__all__ = ["routes"]


def routes(pages: Pages) -> list[web.RouteDef]:
    """Return the routes of this area."""
    return [*listing.routes(pages), *rollout.routes(pages)]
