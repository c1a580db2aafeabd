"""Counts the check-ins of devices by what they got: each reads the timestamp, and nothing else tells of it.

A device that is answered by nginx or a CDN is not seen here.
"""

from collections import Counter
from http import HTTPStatus
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from alcove.registry.layout import METADATA

__all__ = ["OUTCOMES", "count_check_ins"]

OUTCOMES: Final = ("changed", "unchanged", "absent", "refused", "failed")
"""A new timestamp; that which the device has; there is none; a limit; an error of ours."""

_PATH: Final = f"/{METADATA}/timestamp.json"


def count_check_ins(counts: Counter[str]) -> Middleware:
    """Return a middleware that adds each check-in to `counts`, by one of `OUTCOMES`."""

    @web.middleware
    async def count(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path != _PATH:
            return await handler(request)
        try:
            response = await handler(request)
        except web.HTTPException as refusal:
            counts[_outcome(refusal.status)] += 1
            raise
        counts[_outcome(response.status)] += 1
        return response

    return count


def _outcome(status: int) -> str:
    if status < HTTPStatus.MULTIPLE_CHOICES:
        return "changed"
    if status == HTTPStatus.NOT_MODIFIED:
        return "unchanged"
    if status == HTTPStatus.NOT_FOUND:
        return "absent"
    limits = (HTTPStatus.SERVICE_UNAVAILABLE,)
    return "refused" if status < HTTPStatus.INTERNAL_SERVER_ERROR or status in limits else "failed"
