"""Receives reports over HTTP; malformed requests are refused by their headers, before a byte of the body is read.

204 counted, 400 refused, 403 from a page of the web, 408 too slow, 410 its window is closed, 411 without a length,
413 longer than a report, 415 not application/octet-stream or packed, 429 too many, 503 busy; repeat the last two.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web
from alcove.platform.domain.errors import ReportRefusedError, StoreBusyError, StoreFullError, StoreUnavailableError
from alcove.platform.ingress.reports import ReportCollector
from alcove.platform.listening.allowance import waiting_for_body
from alcove.platform.listening.rate import RateLimit
from alcove.privacy.limits import MAX_REPORT_BYTES

__all__ = ["reports_handler"]

BODY_TIMEOUT_S: Final = 10.0  # seconds; 68 bytes take longer on no network that could have carried a model
MEDIA_TYPE: Final = "application/octet-stream"  # which no page of the web can send to another site unasked
_REFUSED_STATUS: Final = {"closed_window": 410}
_RETRIED: Final = (429, 503)


def reports_handler(
    collector: ReportCollector, rate: RateLimit, bodies: RateLimit
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """Return the handler of POST /reports.

    Args:
        collector: counts.
        rate: reports a second that are accepted.
        bodies: bodies a second that are read, good or bad.
    """

    async def handle(request: web.Request) -> web.StreamResponse:
        try:
            _validate_headers(request)
            await collector.collect(await _body(request, rate, bodies))
        except _NotReadError as error:
            return _refuse(collector, error.status, error.reason, error.bound)
        except ReportRefusedError as error:
            return _refuse(collector, _REFUSED_STATUS.get(error.reason, 400), error.reason, error.bound)
        except (StoreBusyError, StoreFullError, StoreUnavailableError):
            return _refuse(collector, 503, "busy", "a free database; try again")
        return web.Response(status=204)

    return handle


class _NotReadError(Exception):
    """A body that is not looked at."""

    def __init__(self, status: int, reason: str, bound: str) -> None:
        self.status, self.reason, self.bound = status, reason, bound
        super().__init__(reason)


def _validate_headers(request: web.Request) -> None:
    """Raise for a request that no device sends."""
    headers = request.headers
    if "Origin" in headers or headers.get("Sec-Fetch-Site", "none").strip().lower() != "none":
        raise _NotReadError(403, "from_a_page", "no page of the web")
    if "Content-Encoding" in headers:
        raise _NotReadError(415, "packed", "no Content-Encoding")
    if headers.getall("Content-Type", []) != [MEDIA_TYPE]:
        raise _NotReadError(415, "media_type", f"Content-Type: {MEDIA_TYPE}")
    if request.content_length is None:
        raise _NotReadError(411, "no_length", f"Content-Length: {MAX_REPORT_BYTES}")
    if request.content_length > MAX_REPORT_BYTES:
        raise _NotReadError(413, "too_large", f"{MAX_REPORT_BYTES} bytes")


async def _body(request: web.Request, rate: RateLimit, bodies: RateLimit) -> bytes:
    """Return a body that came in time and within the rates, or raise _NotReadError."""
    if not bodies.take(1):
        raise _NotReadError(429, "too_many", "fewer bodies a second; try again")
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            with waiting_for_body():
                body = await request.content.read(MAX_REPORT_BYTES + 1)
                while len(body) < MAX_REPORT_BYTES and not request.content.at_eof():
                    body += await request.content.read(MAX_REPORT_BYTES + 1)
    except TimeoutError:
        raise _NotReadError(408, "too_slow", f"a body within {BODY_TIMEOUT_S:.0f} s") from None
    if not rate.take(1):
        raise _NotReadError(429, "too_many", "fewer reports a second; try again")
    return body


def _refuse(collector: ReportCollector, status: int, reason: str, bound: str) -> web.Response:
    collector.refused[reason] += 1
    headers = {"Retry-After": "1"} if status in _RETRIED else None
    return web.Response(status=status, text=f"{reason}: expected {bound}\n", headers=headers)
