"""Answers what anybody may ask of an aggregator: its keys, the issuer's keys and, at the leader, the upload of reports.

The same resources are reached over HTTP (`app.py`) and, encapsulated, through a relay (`gateway.py`).
"""

import re
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web
from alcove.platform.aggregator.keys import CACHE_S, KeyRing
from alcove.platform.aggregator.tasks import TaskBook
from alcove.platform.aggregator.token_keys import TokenKeys
from alcove.platform.aggregator.uploads import Uploads
from alcove.platform.ingress.resources import decode_id, decode_time
from alcove.privacy.binary_http import HttpRequest
from alcove.privacy.dap.messages import MEDIA_TYPE, TASK_ID_BYTES, UploadErrors

__all__ = ["AnonymousResources", "make_message"]

_UPLOAD: Final = re.compile(r"/tasks/([^/]{1,64})/reports")
_TOKEN_KEY: Final = re.compile(r"/tasks/([^/]{1,64})/token_keys/([^/]{1,32})")


class AnonymousResources:
    """What anybody may ask for.

    Args:
        url: of the aggregator.
        book: its tasks.
        keys: gives its present HPKE keys.
        token_keys: the issuer's.
        uploads: take reports; None: this is the helper, which takes none.
    """

    def __init__(
        self,
        url: str,
        book: TaskBook,
        keys: Callable[[], KeyRing],
        token_keys: TokenKeys,
        uploads: Uploads | None = None,
    ) -> None:
        self._url = urlsplit(url)
        self._book = book
        self._keys = keys
        self._token_keys = token_keys
        self._uploads = uploads

    async def answer(self, request: HttpRequest) -> web.Response:
        """Return the answer to a request of any of the resources.

        Raises:
            web.HTTPException: there is no such resource, or it is asked for in another way.
            DapProblem, ServerError, PeerUnavailableError: as the resources.
        """
        is_own = (request.scheme, request.authority) == (self._url.scheme, self._url.netloc)
        if not is_own or not request.path.startswith(f"{self._url.path}/"):
            raise web.HTTPMisdirectedRequest(text="it is not a resource of this aggregator\n")
        path = request.path.removeprefix(self._url.path)
        if path == "/hpke_config":
            _require(request, "GET")
            return self.answer_keys()
        if found := _TOKEN_KEY.fullmatch(path):
            _require(request, "GET")
            return await self.answer_token_key(*found.groups())
        found = _UPLOAD.fullmatch(path)
        if found is None or self._uploads is None:
            raise web.HTTPNotFound
        _require(request, "POST")
        expected = f"{MEDIA_TYPE};message=upload-req"
        given = [value.replace(" ", "") for name, value in request.fields if name == "content-type"]
        if given != [expected] or any(name == "content-encoding" for name, _ in request.fields):
            raise web.HTTPUnsupportedMediaType(text=f"expected Content-Type: {expected}\n")
        return await self.take_reports(found.group(1), request.content)

    def answer_keys(self) -> web.Response:
        """Return the aggregator's HPKE configurations."""
        response = make_message("hpke-config-list", self._keys().configs.to_bytes())
        response.headers["Cache-Control"] = f"max-age={CACHE_S}"
        return response

    async def answer_token_key(self, task: str, time: str) -> web.Response:
        """Return the issuer's public key for a task and time, as this aggregator saw it first.

        Raises:
            web.HTTPNotFound: there is none.
            DapProblem: the task is unknown.
            ServerError, PeerUnavailableError: it cannot be told now.
        """
        opened = await self._book.find(decode_id(task, TASK_ID_BYTES))
        at = decode_time(time)
        key = (await self._token_keys.find(opened.task, [at])).get(at)
        if key is None:
            raise web.HTTPNotFound
        headers = {"Content-Type": "application/octet-stream", "Cache-Control": f"max-age={CACHE_S}"}
        return web.Response(body=key.encoded, headers=headers)

    async def take_reports(self, task: str, body: bytes) -> web.Response:
        """Store the reports of an upload.

        Raises:
            web.HTTPNotFound: there is no such resource.
            DapProblem: the task is unknown, or the body is no request.
            ServerError: they cannot be stored now.
        """
        opened = await self._book.find(decode_id(task, TASK_ID_BYTES))
        if self._uploads is None:
            raise web.HTTPNotFound
        refused = await self._uploads.take(opened, body)
        return make_message("upload-errors", UploadErrors(refused).to_bytes()) if refused else web.Response()


def make_message(name: str, body: bytes, location: str | None = None) -> web.Response:
    """Return an answer that is a message of DAP; with a location, of what was made."""
    headers = {"Content-Type": f"{MEDIA_TYPE};message={name}"}
    return web.Response(
        status=200 if location is None else 201,
        body=body,
        headers=headers if location is None else headers | {"Location": location},
    )


def _require(request: HttpRequest, method: str) -> None:
    if request.method != method:
        raise web.HTTPMethodNotAllowed(request.method, [method])
