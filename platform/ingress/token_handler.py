"""Answers devices that enroll and ask for tokens, below the path of the issuer's address.

    POST challenges                           a challenge for the device's platform
    POST enrollments                          204 enrolled
    GET  tasks/{task}/token_keys/{time}       the public key of the tokens for a task and time
    POST tasks/{task}/tokens/{time}           a blind signature

400 malformed, 403 refused (`IssuanceRefusedError`), 404 no such task or window, 409 the installation has its token by
another request, 411 without a length, 413 too long, 415 of another type, 429 too many, 503 busy; repeat the last two.
"""

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web
from alcove.platform.domain.errors import IssuanceRefusedError, ServerError
from alcove.platform.ingress.resources import read_id, read_time, receive_body
from alcove.platform.issuer import TokenIssuer
from alcove.platform.listening.rate import RateLimit
from alcove.privacy.dap.messages import TASK_ID_BYTES
from alcove.privacy.errors import TokenMessageError
from alcove.privacy.tokens.enrollment import MAX_EVIDENCE_BYTES, EnrollmentRequest, TokenOrder

__all__ = ["token_routes"]

BODY_TIMEOUT_S: Final = 10.0
MEDIA_TYPE: Final = "application/octet-stream"  # which no page of the web can send to another site unasked
MAX_BODY_BYTES: Final = MAX_EVIDENCE_BYTES + 512
KEY_CACHE_S: Final = 86_400
"""Seconds that a public key may be kept: it never changes."""

_STATUS: Final = {"unknown_task": 404, "unknown_window": 404, "request": 409}
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def token_routes(issuer: TokenIssuer, url: str, rate: RateLimit, refused: Counter[str]) -> list[web.RouteDef]:
    """Return the routes of the issuer.

    Args:
        issuer: answers.
        url: its address as tasks name it.
        rate: requests a second that are answered, from all devices together.
        refused: counts refusals by reason.
    """
    path = urlsplit(url).path

    async def challenge(_request: web.Request) -> web.Response:
        return _send(await issuer.make_challenge())

    async def enroll(request: web.Request) -> web.Response:
        await issuer.enroll(EnrollmentRequest.from_bytes(await _body(request)))
        return web.Response(status=204)

    async def key(request: web.Request) -> web.Response:
        found = await issuer.find_key(read_id(request, "task", TASK_ID_BYTES), read_time(request))
        response = _send(found.encoded)
        response.headers["Cache-Control"] = f"max-age={KEY_CACHE_S}"
        return response

    async def issue(request: web.Request) -> web.Response:
        order = TokenOrder.from_bytes(await _body(request))
        answer = await issuer.issue(read_id(request, "task", TASK_ID_BYTES), read_time(request), order)
        return _send(answer.to_bytes())

    def limit(handler: _Handler) -> _Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            try:
                if not rate.take(1):
                    return _refuse(429, "too_many", "fewer requests a second; try again")
                return await handler(request)
            except TokenMessageError as error:
                return _refuse(400, "malformed", str(error))
            except IssuanceRefusedError as error:
                return _refuse(_STATUS.get(error.reason, 403), error.reason, error.bound)
            except ServerError:
                return _refuse(503, "busy", "a free database; try again")

        return handle

    def _refuse(status: int, reason: str, bound: str) -> web.Response:
        refused[f"token_{reason}"] += 1
        headers = {"Retry-After": "1"} if status in (429, 503) else None
        return web.Response(status=status, text=f"{reason}: expected {bound}\n", headers=headers)

    return [
        web.post(f"{path}/challenges", limit(challenge)),
        web.post(f"{path}/enrollments", limit(enroll)),
        web.get(f"{path}/tasks/{{task}}/token_keys/{{time}}", limit(key)),
        web.post(f"{path}/tasks/{{task}}/tokens/{{time}}", limit(issue)),
    ]


def _send(body: bytes) -> web.Response:
    return web.Response(body=body, headers={"Content-Type": MEDIA_TYPE, "Cache-Control": "no-store"})


async def _body(request: web.Request) -> bytes:
    """Return the body of a request that a device sends.

    Raises:
        web.HTTPException: it has another type, no length, too many bytes, or does not come in time.
    """
    if "Origin" in request.headers or request.headers.getall("Content-Type", []) != [MEDIA_TYPE]:
        raise web.HTTPUnsupportedMediaType(text=f"expected Content-Type: {MEDIA_TYPE}\n")
    if "Content-Encoding" in request.headers:
        raise web.HTTPUnsupportedMediaType(text="expected no Content-Encoding\n")
    if request.content_length is None:
        raise web.HTTPLengthRequired(text="expected Content-Length\n")
    if request.content_length > MAX_BODY_BYTES:
        raise web.HTTPRequestEntityTooLarge(MAX_BODY_BYTES, request.content_length, text=f"{MAX_BODY_BYTES} bytes\n")
    return await receive_body(request, request.content_length, BODY_TIMEOUT_S)
