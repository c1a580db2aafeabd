"""Surrounds every call: says who calls, bounds what they hold, turns errors into statuses, logs one line.

    who? ─▶ so often? ─▶ may they? ─▶ a place? ─▶ the request ─▶ the call, for so long at most ─▶ status, log, metrics

The caller is known before a byte of the request is read, so a stranger can leave nothing half sent: to gRPC every
method is a stream of requests and of responses, which looks the same on the wire and lets the server begin with the
headers.  What is not read stays in HTTP/2's window of the stream.

Health probes need no token.  They have no place among the calls, only two seconds to send what they ask
(`alcove.platform.server.health`).  Reflection, where it is on, takes any caller who is known.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final, NoReturn

import grpc
import grpc.aio
import structlog
from alcove.platform.core.tracing import is_traced, span
from alcove.platform.domain import limits
from alcove.platform.domain.errors import (
    ERROR_KEY,
    PUSHBACK_KEY,
    CallTooLongError,
    CertificateListError,
    InvalidFieldError,
    LateRequestError,
    PlatformError,
    ServerStoppingError,
    TooManyCallsError,
    UnauthenticatedError,
)
from alcove.platform.domain.permissions import require
from alcove.platform.domain.principal import set_principal
from alcove.platform.listening.rate import RateLimit
from alcove.platform.server.connections import Connections
from alcove.platform.server.fields import validate_fields
from alcove.platform.server.health import Probes
from alcove.platform.server.messages import LONG, deserializer, forgetting
from alcove.platform.server.rate_limits import CallerLimits
from alcove.platform.server.status import status_of

if TYPE_CHECKING:
    from alcove.platform.domain.principal import Principal
    from alcove.platform.server.identity import Identity
    from alcove.platform.server.metrics import Metrics

__all__ = ["CallInterceptor"]

CALL_S_MAX: Final = 120.0  # seconds; no call but a stream takes a second, so one that takes minutes hangs
CALLS_PER_SECOND: Final = 1000
STRANGERS_LOGGED: Final = 10  # lines a second about calls of strangers; the rest is counted
DROPPED_S: Final = 10.0  # seconds within which a connection that we close is gone
_HEALTH: Final = "/grpc.health.v1.Health/"
_HEALTH_CHECK: Final = f"{_HEALTH}Check"
_HEALTH_WATCH: Final = f"{_HEALTH}Watch"
_REFLECTION: Final = "/grpc.reflection."
_UNKNOWN: Final = "unknown"  # stands for every method that there is not: callers could make up any number of names
_UNAUTHENTICATED: Final = grpc.StatusCode.UNAUTHENTICATED
_NO_TOKEN_TOLD: Final = ((ERROR_KEY, UnauthenticatedError.__name__),)
_log = structlog.get_logger()

_Context = Any  # grpc.aio.ServicerContext, whose stubs know no streams both ways
_Call = Callable[[AsyncIterator[Any], _Context], Awaitable[None]]


class CallInterceptor(grpc.aio.ServerInterceptor):  # type: ignore[type-arg]  # generic in the stubs only
    """Authenticates, authorizes, bounds, maps errors and logs.

    Args:
        identity: tells who calls.
        callers: bounds what each caller holds; None: the default.
        connections: notes which connection has a known caller; None: nobody is.
        call_s_max: seconds that a call may run, except a stream, which may take `limits.STREAM_S_MAX`.
        metrics: gets each call that ended; None: nobody counts.
    """

    def __init__(
        self,
        identity: Identity,
        callers: CallerLimits | None = None,
        connections: Connections | None = None,
        *,
        call_s_max: float = CALL_S_MAX,
        metrics: Metrics | None = None,
    ) -> None:
        self._identity = identity
        self._callers = CallerLimits(CALLS_PER_SECOND) if callers is None else callers
        self._connections = Connections() if connections is None else connections
        self._call_s_max = call_s_max
        self._metrics = metrics
        self._probes = Probes()
        self._log_rate = RateLimit(STRANGERS_LOGGED, time.monotonic)
        self._unlogged = 0
        self._under_way: dict[asyncio.Timeout, str] = {}
        self._unknown: dict[asyncio.Timeout, PlatformError] = {}  # watches whose callers are known no more, and why
        self._stopping = False

    def stop(self, grace_s: float) -> None:
        """Tell calls under way that the server ends: those that watch at once, the others after `grace_s` seconds."""
        self._stopping = True
        now = asyncio.get_running_loop().time()
        for limit, method in self._under_way.items():
            if not limit.expired():
                limit.reschedule(now if _is_watch(method) else min(now + grace_s, limit.when() or now + grace_s))

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any]]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        """Return the handler of a call, wrapped; one that refuses for a method that there is not."""
        handler: Any = await continuation(handler_call_details)  # its behaviors are coroutines, which the stubs deny
        method = handler_call_details.method
        reason = self._identity.why_stranger(handler_call_details.invocation_metadata)
        if reason and not method.startswith(_HEALTH):
            return grpc.stream_stream_rpc_method_handler(self._refuse(str(UnauthenticatedError(reason))))
        if handler is None or method == _HEALTH_WATCH:
            return grpc.stream_stream_rpc_method_handler(forgetting(self._refuse_unknown_method(method)))
        return grpc.stream_stream_rpc_method_handler(
            forgetting(self._probe(handler) if method == _HEALTH_CHECK else self._around(method, handler)),
            request_deserializer=deserializer(method, handler.request_deserializer),
            response_serializer=handler.response_serializer,
        )

    def _around(self, method: str, handler: Any) -> _Call:
        is_stream = handler.request_streaming or handler.response_streaming
        limit_s = limits.STREAM_S_MAX if is_stream else self._call_s_max

        async def call(requests: AsyncIterator[Any], context: _Context) -> None:
            answers = _Answers(context)
            async with self._answering(method, answers, limit_s, is_stream=is_stream) as principal:
                if handler.request_streaming:
                    await _respond(handler, _timely(requests, method), answers)
                    return
                is_long = method.endswith(LONG)
                async with self._callers.publishing(principal.name) if is_long else nullcontext():
                    async with self._callers.reading(principal.name):
                        request = await _one(requests, method, limits.REQUEST_S)
                    answers.request_id = str(getattr(request, "request_id", ""))[: limits.REQUEST_ID_LENGTH[1]]
                    validate_fields(request)
                    await _respond(handler, request, answers)

        return call

    def _probe(self, handler: Any) -> _Call:
        async def call(requests: AsyncIterator[Any], context: _Context) -> None:
            self._connections.count_probe(context.peer())
            try:
                async with asyncio.timeout(limits.PROBE_S) as limit:
                    with self._probes.waiting(limit):
                        request = await _one(requests, _HEALTH_CHECK, limits.PROBE_S)
                    await _respond(handler, request, _Answers(context))
            except (TimeoutError, LateRequestError, InvalidFieldError) as error:
                await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, f"no health probe in time: {error}")

        return call

    def _refuse(self, message: str) -> _Call:
        """Refuse a call without credentials at the least cost: floods consist of them."""

        async def call(_requests: AsyncIterator[Any], context: _Context) -> None:
            self._connections.count_refusal(context.peer())
            if self._metrics is not None:
                self._metrics.call_ended(_UNKNOWN, _UNAUTHENTICATED.name, 0.0)
            self._note(_UNKNOWN, None, _UNAUTHENTICATED, 0.0)
            await context.abort(_UNAUTHENTICATED, message, _NO_TOKEN_TOLD)

        return call

    def _refuse_unknown_method(self, method: str) -> _Call:
        """Refuse a method: strangers, who have no business here, as strangers."""

        async def call(_requests: AsyncIterator[Any], context: _Context) -> None:
            if method == _HEALTH_WATCH:
                self._connections.count_probe(context.peer())
                await context.abort(grpc.StatusCode.UNIMPLEMENTED, "probe with Health.Check, now and then")
            async with self._answering(_UNKNOWN, _Answers(context), self._call_s_max):
                await context.abort(grpc.StatusCode.UNIMPLEMENTED, "no such method")

        return call

    @asynccontextmanager
    async def _answering(
        self, method: str, answers: _Answers, limit_s: float, *, is_stream: bool = False
    ) -> AsyncIterator[Principal]:
        """Let the call run inside the block if its caller may make it; whatever ends it becomes its status."""
        context = answers.context
        began_s = time.monotonic()
        name, status = None, grpc.StatusCode.CANCELLED
        try:
            with span(method.removeprefix("/"), parent=_parent(context), **_ATTRIBUTES):
                async with self._limit_time(method, limit_s) as limit:
                    principal = await self._identity.of(context)
                    name = principal.name
                    async with (
                        self._place(principal, method, context, is_stream=is_stream),
                        self._end_when_unknown(context, limit) if _is_watch(method) else nullcontext(),
                    ):
                        yield principal
            status = grpc.StatusCode.OK
        except grpc.aio.AbortError:
            status = context.code()
            raise
        except Exception as error:  # noqa: BLE001 - whatever happens inside, the caller gets a status
            if name is None and isinstance(error, UnauthenticatedError):
                self._connections.count_refusal(context.peer())
            status = status_of(error) or grpc.StatusCode.INTERNAL
            if answers.is_sending:
                if not isinstance(error, CallTooLongError | ServerStoppingError):
                    status = grpc.StatusCode.CANCELLED  # the peer went while it was answered
                    raise asyncio.CancelledError from None
                await self._drop(context)
            await _abort(context, status, error)
        finally:
            seconds = time.monotonic() - began_s
            if self._metrics is not None:
                self._metrics.call_ended(method, status.name, seconds)
            self._note(method, name, status, seconds, answers.request_id)

    async def _drop(self, context: _Context) -> None:
        """Close the connection of a peer that takes no answer: behind an answer no status can be sent.

        That it is closed comes back as the call's cancellation.
        """
        self._connections.stuck(context.peer())
        await asyncio.sleep(DROPPED_S)

    @asynccontextmanager
    async def _place(
        self, principal: Principal, method: str, context: _Context, *, is_stream: bool
    ) -> AsyncIterator[None]:
        """Give the call of a known caller its place."""
        connection = self._connections.accept(context.peer(), principal.name)
        self._callers.take(principal.name)
        if method != _UNKNOWN and not method.startswith(_REFLECTION):
            require(principal, method)
        set_principal(principal)
        with self._callers.hold(principal, is_stream=is_stream):
            if connection is None:
                yield
                return
            connection.calls += 1
            try:
                yield
            finally:
                connection.calls -= 1

    def _note(
        self, method: str, name: str | None, status: grpc.StatusCode, seconds: float, request_id: str = ""
    ) -> None:
        """Log the call, a mutation with its request id; of strangers a few a second, lest they fill the log."""
        more: dict[str, int | str] = {"request_id": request_id} if request_id else {}
        if name is None:
            if not self._log_rate.take(1):
                self._unlogged += 1
                return
            more |= {"unlogged_before": self._unlogged} if self._unlogged else {}
            self._unlogged = 0
        _log.info("call", method=method, principal=name, status=status.name, ms=round(seconds * 1000, 1), **more)

    @asynccontextmanager
    async def _end_when_unknown(self, context: _Context, limit: asyncio.Timeout) -> AsyncIterator[None]:
        """End what runs inside the block soon after its caller is known no more: its token was revoked, or expired."""

        async def look() -> None:
            while True:
                await asyncio.sleep(limits.WATCH_KNOWN_S)
                try:
                    await self._identity.of(context)
                except (UnauthenticatedError, CertificateListError) as error:
                    if not limit.expired():
                        self._unknown[limit] = error
                        limit.reschedule(asyncio.get_running_loop().time())
                    return
                except PlatformError:  # of the database, which is not the caller's fault; the next look may do
                    continue

        looking = asyncio.create_task(look())
        try:
            yield
        finally:
            looking.cancel()

    @asynccontextmanager
    async def _limit_time(self, method: str, limit_s: float) -> AsyncIterator[asyncio.Timeout]:
        """End what runs inside the block when its time is over, its caller's or the server's."""
        limit = asyncio.timeout(limit_s)
        try:
            async with limit:
                self._under_way[limit] = method
                try:
                    yield limit
                finally:
                    del self._under_way[limit]
        except TimeoutError:
            if not limit.expired():
                raise
            if limit in self._unknown:
                raise self._unknown[limit] from None
            raise (ServerStoppingError() if self._stopping else CallTooLongError(method, limit_s)) from None
        finally:
            self._unknown.pop(limit, None)


def _is_watch(method: str) -> bool:
    return method.rpartition("/")[2].startswith("Watch")


async def _one(requests: AsyncIterator[Any], method: str, limit_s: float) -> Any:
    """Return the one request of a call, or the next of a stream.

    Raises:
        LateRequestError: it does not come in time.
        InvalidFieldError: it does not come at all, or is none.
    """
    limit = asyncio.timeout(limit_s)
    try:
        async with limit:
            request = await anext(requests, None)
    except TimeoutError:
        if not limit.expired():
            raise
        raise LateRequestError(method, limit_s) from None
    if request is None:
        raise InvalidFieldError("request", "one message of the method's kind", request)
    if isinstance(request, InvalidFieldError):
        raise request
    return request


async def _timely(requests: AsyncIterator[Any], method: str) -> AsyncIterator[Any]:
    """Yield the requests of a stream; raises LateRequestError where the next one does not come in time."""
    while True:
        limit = asyncio.timeout(limits.CHUNK_S)
        try:
            async with limit:
                request = await anext(requests, None)
        except TimeoutError:
            if not limit.expired():
                raise
            raise LateRequestError(method, limits.CHUNK_S) from None
        if request is None:
            return
        if isinstance(request, InvalidFieldError):
            raise request
        yield request


class _Answers:
    """The way back to the caller of one call."""

    def __init__(self, context: _Context) -> None:
        self.context = context
        self.is_sending = False
        self.request_id = ""  # of a mutation, once its request is read

    async def send(self, response: Any) -> None:
        """Send one answer; returns when the peer has taken so much of it that the rest fits a small buffer."""
        self.is_sending = True
        await self.context.write(response)
        self.is_sending = False


async def _respond(handler: Any, request: Any, answers: _Answers) -> None:
    """Run the call and send what it answers; to send is part of the call: who takes nothing holds a place."""
    if not handler.response_streaming:
        behavior = handler.stream_unary if handler.request_streaming else handler.unary_unary
        await answers.send(await behavior(request, answers.context))
        return
    behavior = handler.stream_stream if handler.request_streaming else handler.unary_stream
    async with aclosing(behavior(request, answers.context)) as responses:
        async for response in responses:
            await answers.send(response)


_ATTRIBUTES: Final[dict[str, str | int]] = {"rpc.system": "grpc"}


def _parent(context: _Context) -> str | None:
    """Return the span that the call is part of at its caller, where somebody looks at traces."""
    if not is_traced():
        return None
    found = [value for key, value in context.invocation_metadata() or () if key == "traceparent"]
    return str(found[0]) if found else None


async def _abort(context: _Context, status: grpc.StatusCode, error: Exception) -> NoReturn:
    """End the call with what the caller may know of the error."""
    if status_of(error) is None:
        _log.error("internal error", exc_info=error)
        await context.abort(status, "internal error; the server's log tells more", ((ERROR_KEY, "InternalError"),))
    metadata = [(ERROR_KEY, type(error).__name__)]
    if isinstance(error, TooManyCallsError):
        metadata.append((PUSHBACK_KEY, str(max(1, round(error.retry_after_s * 1000)))))
    await context.abort(status, str(error), tuple(metadata))
    raise AssertionError  # `abort` has raised
