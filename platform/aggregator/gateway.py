"""Answers encapsulated requests that a relay passes on: the aggregator sees the relay's address, never the device's.

    relay ── POST gateway: encapsulated request ──▶ opened ─▶ resource ─▶ answer ─▶ padded and sealed ──▶ relay

What cannot be opened is refused in clear, before anything of it is known; what was opened is answered sealed, errors
too. Nothing here logs what a message holds.

Source: RFC 9458, sections 5 and 6.
"""

import json
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web
from alcove.platform.aggregator.keys import CACHE_S, KeyRing
from alcove.platform.aggregator.problems import MEDIA_TYPE as PROBLEM_TYPE
from alcove.privacy.binary_http import HttpRequest, HttpResponse, read_request, write_response
from alcove.privacy.errors import ObliviousKeyError, ObliviousMessageError
from alcove.privacy.ohttp import KEYS_TYPE, RESPONSE_TYPE, KeyConfig, open_request, write_key_configs

__all__ = ["ANSWER_MULTIPLE_BYTES", "Gateway"]

ANSWER_MULTIPLE_BYTES: Final = 512
"""Answers are padded to a multiple of it: a relay does not see whether a report was taken."""

_KEY_PROBLEM: Final = "https://iana.org/assignments/http-problem-types#ohttp-key"
_PASSED_ON: Final = ("Content-Type", "Retry-After", "Cache-Control")

Resource = Callable[[HttpRequest], Awaitable[web.Response]]
"""Answers a request; errors are answers too."""


class Gateway:
    """The gateway of an aggregator.

    Args:
        keys: gives its present keys, which are others than those that reports are sealed to.
        resource: answers what was encapsulated.
    """

    def __init__(self, keys: Callable[[], KeyRing], resource: Resource) -> None:
        self._keys = keys
        self._resource = resource

    def answer_keys(self) -> web.Response:
        """Return the document of its public keys."""
        configs = [KeyConfig(each.config_id, each.public_key) for each in self._keys().configs.configs]
        headers = {"Content-Type": KEYS_TYPE, "Cache-Control": f"max-age={CACHE_S}"}
        return web.Response(body=write_key_configs(configs), headers=headers)

    async def answer(self, body: bytes) -> web.Response:
        """Return the encapsulated answer to an encapsulated request, or an error in clear where it cannot be opened."""
        try:
            message, sealer = open_request(self._keys().private, body)
        except ObliviousKeyError as error:
            document = {"type": _KEY_PROBLEM, "status": 422, "title": str(error)}
            return web.Response(status=422, body=json.dumps(document).encode(), content_type=PROBLEM_TYPE)
        except ObliviousMessageError as error:
            return web.Response(status=400, text=f"{error}\n")
        answer = await self._answer_message(message)
        sealed = sealer.seal(write_response(answer, ANSWER_MULTIPLE_BYTES))
        return web.Response(body=sealed, headers={"Content-Type": RESPONSE_TYPE})

    async def _answer_message(self, message: bytes) -> HttpResponse:
        try:
            request = read_request(message)
        except ObliviousMessageError as error:
            return HttpResponse(400, content=f"{error}\n".encode())
        if any(name == "expect" for name, _ in request.fields):
            return HttpResponse(417)  # nothing can be said before the whole request is there (section 5.1)
        response = await self._resource(request)
        fields = [(name.lower(), response.headers[name]) for name in _PASSED_ON if name in response.headers]
        content = response.body if isinstance(response.body, bytes) else b""
        return HttpResponse(response.status, tuple(fields), content)
