"""Defines the routes of an aggregator, below the path of its URL; everything else is 404.

    GET    hpke_config                               both: the HPKE configurations, for anybody
    GET    ohttp_keys                                both: the gateway's keys, for anybody (RFC 9458)
    POST   gateway                                   both: an encapsulated request for one of the resources for anybody
    GET    /healthz                                  both: "ok" while the process serves
    PUT    tasks/{task}                              leader: take part in a task, for the collector; helper: the same,
                                                     for the leader (not of the draft)
    GET    tasks/{task}/token_keys/{time}            both: the issuer's public key, for anybody (not of the draft)
    POST   tasks/{task}/reports                      leader: upload, for anybody
    POST   tasks/{task}/collection_jobs              leader, for the collector; GET, DELETE …/{job}
    POST   tasks/{task}/aggregation_jobs             helper, for the leader; GET …/{job}
    POST   tasks/{task}/aggregate_shares             helper, for the leader; GET …/{share}

Callers show who they are by `Authorization: Bearer …`. Nothing here logs an address or what a message holds.

Source: draft-ietf-ppm-dap-18, section 3 and its appendix of resources.
"""

import asyncio
import base64
import binascii
import contextlib
import hmac
import re
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Final
from urllib.parse import urlsplit

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from alcove.platform.aggregator.anonymous import AnonymousResources, make_message
from alcove.platform.aggregator.collection import Collection
from alcove.platform.aggregator.config import AggregatorConfig
from alcove.platform.aggregator.gateway import Gateway, Resource
from alcove.platform.aggregator.helper import RESOURCE_ID_BYTES, Helper
from alcove.platform.aggregator.keys import KeyRing
from alcove.platform.aggregator.problems import MEDIA_TYPE as PROBLEM_TYPE
from alcove.platform.aggregator.problems import DapProblem, ProblemType, encode_id
from alcove.platform.aggregator.tasks import OpenTask, TaskBook
from alcove.platform.aggregator.token_keys import TokenKeys
from alcove.platform.aggregator.uploads import Uploads
from alcove.platform.domain.errors import ServerError
from alcove.platform.ingress.resources import read_id, receive_body
from alcove.platform.listening.allowance import limit_connections
from alcove.platform.listening.connections import Connections
from alcove.privacy.binary_http import HttpRequest
from alcove.privacy.dap.messages import MEDIA_TYPE, TASK_ID_BYTES
from alcove.privacy.dap.task import DapTask
from alcove.privacy.ohttp import REQUEST_TYPE
from alcove.runtime.clock import Clock

__all__ = ["MAX_PARTNER_BYTES", "MAX_UPLOAD_BYTES", "create_helper_app", "create_leader_app"]

MAX_UPLOAD_BYTES: Final = 4 * 1024 * 1024
MAX_PARTNER_BYTES: Final = 16 * 1024 * 1024

LARGE_BYTES: Final = 64 * 1024
"""Largest upload that needs no place among the large ones: more than ten reports of 256 cells."""

LARGE_UPLOADS: Final = 8
"""Large uploads that are received at once; others wait. Else each connection could hold `MAX_UPLOAD_BYTES`."""

CAPSULE_BYTES: Final = 4096
"""What an encapsulated upload may have beside the upload: names, fields, padding, key and tag."""

BODY_TIMEOUT_S: Final = 15.0
"""Seconds for a body to come: 4 MiB at 280 kB/s, or one report on the slowest network."""

RETRY_S: Final = 2
"""Seconds after which a collector asks again for a job under way."""

_TASKPROV: Final = re.compile(r"\s*:([A-Za-z0-9+/]*={0,2}):\s*(;.*)?")
_log = structlog.get_logger()

_Announce = Callable[[bytes, bytes, int], Awaitable[OpenTask]]


def create_leader_app(
    config: AggregatorConfig,
    book: TaskBook,
    uploads: Uploads,
    collection: Collection,
    *,
    announce_to_helper: Callable[[DapTask], Awaitable[None]],
    keys: Callable[[], KeyRing],
    token_keys: TokenKeys,
    clock: Clock,
    connections: Connections | None = None,
    gateway_keys: Callable[[], KeyRing] | None = None,
) -> web.Application:
    """Return the leader's application; the caller runs it, without an access log.

    Without `gateway_keys` it answers no encapsulated request.
    """
    if config.collector_token is None:
        raise ValueError("a leader's configuration has the collector's token")
    token = config.collector_token.get_secret_value()
    anonymous = AnonymousResources(config.leader_url, book, keys, token_keys, uploads)
    places = asyncio.Semaphore(LARGE_UPLOADS)

    async def upload(request: web.Request) -> web.Response:
        await book.find(read_id(request, "task", TASK_ID_BYTES))  # before its body is received
        async with _take_place(places, request):
            body = await _read_body(request, f"{MEDIA_TYPE};message=upload-req", MAX_UPLOAD_BYTES)
        return await anonymous.take_reports(request.match_info["task"], body)

    async def create_job(request: web.Request) -> web.Response:
        _authenticate(request, token)
        opened = await _open_task(request, book, clock)
        body = await _read_body(request, f"{MEDIA_TYPE};message=collection-job-req", MAX_PARTNER_BYTES)
        job_id = await collection.create(opened, body)
        return await answer_job(opened.task.task_id, job_id, f"collection_jobs/{encode_id(job_id)}")

    async def read_job(request: web.Request) -> web.Response:
        _authenticate(request, token)
        task_id = read_id(request, "task", TASK_ID_BYTES)
        return await answer_job(task_id, read_id(request, "job", RESOURCE_ID_BYTES), None)

    async def answer_job(task_id: bytes, job_id: bytes, location: str | None) -> web.Response:
        state = await collection.find(task_id, job_id)
        if state is None:
            raise web.HTTPNotFound
        if state.problem is not None:
            raise state.problem
        response = web.Response(status=201 if location else 200, headers={"Retry-After": str(RETRY_S)})
        if state.response is not None:
            response = make_message("collection-job-resp", state.response)
        if location is not None:
            response.headers["Location"] = f"{config.leader_url}/tasks/{encode_id(task_id)}/{location}"
        return response

    async def delete_job(request: web.Request) -> web.Response:
        _authenticate(request, token)
        job_id = read_id(request, "job", RESOURCE_ID_BYTES)
        await collection.forget(read_id(request, "task", TASK_ID_BYTES), job_id)
        return web.Response()

    task = f"{_path(config.leader_url)}/tasks/{{task}}"
    app = _create_app(config.leader_url, anonymous, connections, gateway_keys, places)
    app.add_routes(
        [
            web.put(task, _make_announce(book, token, clock, announce_to_helper)),
            web.post(f"{task}/reports", upload),
            web.post(f"{task}/collection_jobs", create_job),
            web.get(f"{task}/collection_jobs/{{job}}", read_job),
            web.delete(f"{task}/collection_jobs/{{job}}", delete_job),
        ]
    )
    return app


def create_helper_app(
    config: AggregatorConfig,
    book: TaskBook,
    helper: Helper,
    *,
    keys: Callable[[], KeyRing],
    token_keys: TokenKeys,
    clock: Clock,
    connections: Connections | None = None,
    gateway_keys: Callable[[], KeyRing] | None = None,
) -> web.Application:
    """Return the helper's application; the caller runs it, without an access log.

    Without `gateway_keys` it answers no encapsulated request.
    """
    token = config.leader_token.get_secret_value()

    async def aggregate(request: web.Request) -> web.Response:
        _authenticate(request, token)
        opened = await _open_task(request, book, clock)
        body = await _read_body(request, f"{MEDIA_TYPE};message=aggregation-job-init-req", MAX_PARTNER_BYTES)
        job_id, answer = await helper.aggregate(opened, body)
        return make_message("aggregation-job-resp", answer, _locate(opened, f"aggregation_jobs/{encode_id(job_id)}"))

    async def release(request: web.Request) -> web.Response:
        _authenticate(request, token)
        opened = await _open_task(request, book, clock)
        body = await _read_body(request, f"{MEDIA_TYPE};message=aggregate-share-req", MAX_PARTNER_BYTES)
        share_id, answer = await helper.release(opened, body)
        return make_message("aggregate-share", answer, _locate(opened, f"aggregate_shares/{encode_id(share_id)}"))

    def _locate(opened: OpenTask, resource: str) -> str:
        return f"{config.helper_url}/tasks/{encode_id(opened.task.task_id)}/{resource}"

    async def read_job(request: web.Request) -> web.Response:
        _authenticate(request, token)
        task_id, job_id = read_id(request, "task", TASK_ID_BYTES), read_id(request, "job", RESOURCE_ID_BYTES)
        answer = await helper.find_job(task_id, job_id)
        if answer is None:
            raise DapProblem(ProblemType.UNRECOGNIZED_AGGREGATION_JOB, "there is no such job", task_id)
        return make_message("aggregation-job-resp", answer)

    async def read_share(request: web.Request) -> web.Response:
        _authenticate(request, token)
        task_id, share_id = read_id(request, "task", TASK_ID_BYTES), read_id(request, "share", RESOURCE_ID_BYTES)
        answer = await helper.find_share(task_id, share_id)
        if answer is None:
            raise web.HTTPNotFound
        return make_message("aggregate-share", answer)

    task = f"{_path(config.helper_url)}/tasks/{{task}}"
    anonymous = AnonymousResources(config.helper_url, book, keys, token_keys)
    app = _create_app(config.helper_url, anonymous, connections, gateway_keys, asyncio.Semaphore(LARGE_UPLOADS))
    app.add_routes(
        [
            web.put(task, _make_announce(book, token, clock)),
            web.post(f"{task}/aggregation_jobs", aggregate),
            web.get(f"{task}/aggregation_jobs/{{job}}", read_job),
            web.post(f"{task}/aggregate_shares", release),
            web.get(f"{task}/aggregate_shares/{{share}}", read_share),
        ]
    )
    return app


def _make_announce(
    book: TaskBook, token: str, clock: Clock, pass_on: Callable[[DapTask], Awaitable[None]] | None = None
) -> Handler:
    """Return what takes part in a task, and tells the helper of one with tokens.

    Devices ask the helper for the issuer's key before the first report comes.
    """

    async def announce(request: web.Request) -> web.Response:
        _authenticate(request, token)
        body = await _read_body(request, MEDIA_TYPE, MAX_PARTNER_BYTES)
        opened = await book.announce(read_id(request, "task", TASK_ID_BYTES), body, clock.now_s())
        if pass_on is not None and opened.task.info.token_issuer is not None:
            await pass_on(opened.task)
        return web.Response(status=204)

    return announce


def _path(url: str) -> str:
    """Return the path of an aggregator's URL, which has no slash at its end."""
    return urlsplit(url).path


def _create_app(
    url: str,
    anonymous: AnonymousResources,
    connections: Connections | None,
    gateway_keys: Callable[[], KeyRing] | None,
    places: asyncio.Semaphore,
) -> web.Application:
    async def hpke_config(_request: web.Request) -> web.Response:
        return anonymous.answer_keys()

    async def token_key(request: web.Request) -> web.Response:
        return await anonymous.answer_token_key(request.match_info["task"], request.match_info["time"])

    async def healthz(_request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    limits: list[Middleware] = [] if connections is None else [limit_connections(connections)]
    app = web.Application(client_max_size=0, middlewares=[*limits, _answer_errors])
    app.add_routes(
        [
            web.get(f"{_path(url)}/hpke_config", hpke_config),
            web.get(f"{_path(url)}/tasks/{{task}}/token_keys/{{time}}", token_key),
            web.get("/healthz", healthz),
        ]
    )
    if gateway_keys is not None:
        app.add_routes(_gateway_routes(_path(url), Gateway(gateway_keys, _make_resource(anonymous)), places))
    app.on_response_prepare.append(_set_headers)
    return app


def _gateway_routes(path: str, gateway: Gateway, places: asyncio.Semaphore) -> list[web.RouteDef]:
    async def answer_keys(_request: web.Request) -> web.Response:
        return gateway.answer_keys()

    async def answer(request: web.Request) -> web.Response:
        async with _take_place(places, request):
            body = await _read_body(request, REQUEST_TYPE, MAX_UPLOAD_BYTES + CAPSULE_BYTES)
        return await gateway.answer(body)

    return [web.get(f"{path}/ohttp_keys", answer_keys), web.post(f"{path}/gateway", answer)]


def _make_resource(anonymous: AnonymousResources) -> Resource:
    """Return what answers a request that was encapsulated; an error is an answer too."""

    async def answer(request: HttpRequest) -> web.Response:
        try:
            return await anonymous.answer(request)
        except web.HTTPException as error:
            return web.Response(status=error.status, text=error.text)
        except Exception as error:  # noqa: BLE001 - as for every other request
            return _describe(error, "gateway")

    return answer


def _take_place(places: asyncio.Semaphore, request: web.Request) -> AbstractAsyncContextManager[None]:
    """Wait for a place among the large bodies, where the request has one."""
    return places if (request.content_length or 0) > LARGE_BYTES else contextlib.nullcontext()


def _describe(error: Exception, resource: str) -> web.Response:
    """Return the answer that says what went wrong; what nobody expected is logged without the caller's address."""
    if isinstance(error, DapProblem):
        return web.Response(status=error.status, body=error.to_json().encode(), content_type=PROBLEM_TYPE)
    if isinstance(error, ServerError):
        return web.Response(status=503, text="busy: try again\n", headers={"Retry-After": "1"})
    _log.error("internal error", resource=resource, exc_info=error)
    return web.Response(status=500, text="internal error\n")


@web.middleware
async def _answer_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer errors."""
    try:
        return await handler(request)
    except web.HTTPException as error:
        error.headers.setdefault("Cache-Control", "no-store")
        if request.can_read_body:
            error.force_close()
        raise
    except ConnectionError:
        if request.transport is not None and not request.transport.is_closing():
            raise
        response = web.Response(status=400)
    except Exception as error:  # noqa: BLE001 - whatever it was, the caller gets an answer and the log a line
        response = _describe(error, request.path.rsplit("/", 1)[-1][:32])
    if request.can_read_body:
        response.force_close()
    return response


async def _set_headers(_request: web.Request, response: web.StreamResponse) -> None:
    response.headers.setdefault("Cache-Control", "no-store")
    response.headers["Server"] = "alcove"
    response.headers["X-Content-Type-Options"] = "nosniff"


def _authenticate(request: web.Request, token: str) -> None:
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    sent = given.encode(errors="surrogateescape")  # bytes that are no UTF-8 come as surrogates
    if scheme.lower() != "bearer" or not hmac.compare_digest(sent, token.encode()):
        raise web.HTTPUnauthorized(headers={"WWW-Authenticate": "Bearer"}, text="a token is required\n")


async def _open_task(request: web.Request, book: TaskBook, clock: Clock) -> OpenTask:
    """Return the task of a partner's request, which may advertise it in a header."""
    task_id = read_id(request, "task", TASK_ID_BYTES)
    found = _TASKPROV.fullmatch(request.headers.get("DAP-Taskprov", ""))
    if found is None:
        return await book.find(task_id)
    try:
        encoded = base64.b64decode(found.group(1), validate=True)
    except binascii.Error:
        return await book.find(task_id)  # a value that is none is ignored (taskprov, section 3.2)
    return await book.announce(task_id, encoded, clock.now_s())


async def _read_body(request: web.Request, expected: str, limit_bytes: int) -> bytes:
    """Return a body of a type.

    Raises:
        web.HTTPException: it has another type, no length, too many bytes, or does not come in time.
    """
    given = request.headers.getall("Content-Type", [])
    if [each.replace(" ", "") for each in given] != [expected] or "Content-Encoding" in request.headers:
        raise web.HTTPUnsupportedMediaType(text=f"expected Content-Type: {expected}\n")
    if request.content_length is None:
        raise web.HTTPLengthRequired(text="expected Content-Length\n")
    if request.content_length > limit_bytes:
        raise web.HTTPRequestEntityTooLarge(limit_bytes, request.content_length, text=f"at most {limit_bytes} bytes\n")
    return await receive_body(request, request.content_length, BODY_TIMEOUT_S)
