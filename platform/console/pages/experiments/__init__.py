"""Shows experiments: the list, each with what its reports say and what may be done, and a report to print and keep."""

from aiohttp import web
from alcove.platform.console.pages.experiments import detail, index, report
from alcove.platform.console.pages.page import Pages

__all__ = ["routes"]


def routes(pages: Pages) -> list[web.RouteDef]:
    """Return the routes of this area."""
    return [*index.routes(pages), *report.routes(pages), *detail.routes(pages)]
