"""What happens around every call?  Who asks is established, errors become statuses, and one line is logged.

    who? ─▶ may they call so often? ─▶ may they call this? ─▶ the call, for so long at most ─▶ status, log, metrics

Health calls pass untouched: whoever watches the process needs no token.  Reflection, where it is on, takes any caller
who is known.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, NoReturn

import grpc
import structlog
from alcove.platform.auth.permissions import require
from alcove.platform.auth.principal import set_principal
from alcove.platform.core import limits
from alcove.platform.core.errors import (
    ERROR_KEY,
    PUSHBACK_KEY,
    CallTooLongError,
    ServerStoppingError,
    TooManyCallsError,
)
from alcove.platform.core.tracing import is_traced, span
from alcove.platform.server.callers import CallerLimits
from alcove.platform.server.fields import check_fields
from alcove.platform.server.status import status_of
from google.protobuf.message import Message

if TYPE_CHECKING:
    from alcove.platform.server.identity import Identity
    from alcove.platform.server.metrics import Metrics

__all__ = ["CallInterceptor"]

CALL_S_MAX: Final = 120.0  # seconds; no call but a stream takes a second, so one that takes minutes hangs
CALLS_PER_SECOND: Final = 1000
_HEALTH: Final = "/grpc.health.v1.Health/"
_REFLECTION: Final = "/grpc.reflection."
_log = structlog.get_logger()

_Call = Callable[[Any, "grpc.aio.ServicerContext[Any, Any]"], Awaitable[Any]]
_Stream = Callable[[Any, "grpc.aio.ServicerContext[Any, Any]"], AsyncIterator[Any]]


class CallInterceptor(grpc.aio.ServerInterceptor):  # type: ignore[type-arg]  # generic in the stubs only
    """Authenticates, authorises, bounds, maps errors and logs; wraps calls with one response and streams of responses.

    Args:
        identity: tells who calls.
        callers: bounds how often each caller calls; None: the default.
        call_s_max: seconds that a call may run, but for a stream, which may take `limits.STREAM_S_MAX`.
        metrics: gets each call that ended; None: nobody counts.
    """

    def __init__(
        self,
        identity: Identity,
        callers: CallerLimits | None = None,
        *,
        call_s_max: float = CALL_S_MAX,
        metrics: Metrics | None = None,
    ) -> None:
        self._identity = identity
        self._callers = callers or CallerLimits(CALLS_PER_SECOND)
        self._call_s_max = call_s_max
        self._metrics = metrics
        self._under_way: dict[asyncio.Timeout, str] = {}
        self._stopping = False

    def stop(self, grace_s: float) -> None:
        """Tell calls under way that the server ends: those that watch at once, the others after `grace_s` seconds."""
        self._stopping = True
        now = asyncio.get_running_loop().time()
        for limit, method in self._under_way.items():
            if not limit.expired():
                is_watch = method.rpartition("/")[2].startswith("Watch")
                limit.reschedule(now if is_watch else min(now + grace_s, limit.when() or now + grace_s))

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any]]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        """Return the handler of a call, wrapped; None for a method that there is not."""
        handler: Any = await continuation(handler_call_details)  # its behaviours are coroutines, which the stubs deny
        method = handler_call_details.method
        if handler is None or method.startswith(_HEALTH):
            return handler
        make, name = _KINDS[handler.request_streaming, handler.response_streaming]
        around = self._around_stream if handler.response_streaming else self._around
        limit_s = limits.STREAM_S_MAX if handler.request_streaming or handler.response_streaming else self._call_s_max
        return make(
            around(method, getattr(handler, name), limit_s),
            request_deserializer=handler.request_deserializer,
            response_serializer=handler.response_serializer,
        )

    def _around(self, method: str, behaviour: _Call, limit_s: float) -> _Call:
        async def call(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
            async with self._answering(method, context, limit_s):
                if isinstance(request, Message):
                    check_fields(request)
                return await behaviour(request, context)

        return call

    def _around_stream(self, method: str, behaviour: _Stream, limit_s: float) -> _Stream:
        async def call(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> AsyncIterator[Any]:
            async with self._answering(method, context, limit_s):
                if isinstance(request, Message):  # one, not a stream of them
                    check_fields(request)
                async for response in behaviour(request, context):
                    yield response

        return call

    @asynccontextmanager
    async def _answering(
        self, method: str, context: grpc.aio.ServicerContext[Any, Any], limit_s: float
    ) -> AsyncIterator[None]:
        """Let the call run inside the block if its caller may make it; whatever ends it becomes its status."""
        began_s = time.monotonic()
        name, status = None, grpc.StatusCode.CANCELLED
        try:
            with span(method.removeprefix("/"), parent=_parent(context), **_ATTRIBUTES):
                async with self._bounded(method, limit_s):
                    principal = await self._identity.of(context)
                    name = principal.name
                    self._callers.take(name)
                    if not method.startswith(_REFLECTION):
                        require(principal, method)
                    set_principal(principal)
                    yield
            status = grpc.StatusCode.OK
        except Exception as error:  # noqa: BLE001 - whatever happens inside, the caller gets a status
            status = status_of(error) or grpc.StatusCode.INTERNAL
            await _abort(context, status, error)
        finally:
            seconds = time.monotonic() - began_s
            if self._metrics is not None:
                self._metrics.call_ended(method, status.name, seconds)
            _log.info("call", method=method, principal=name, status=status.name, ms=round(seconds * 1000, 1))

    @asynccontextmanager
    async def _bounded(self, method: str, limit_s: float) -> AsyncIterator[None]:
        """End what runs inside the block when its time is over, or the server's."""
        try:
            async with asyncio.timeout(limit_s) as limit:
                self._under_way[limit] = method
                try:
                    yield
                finally:
                    del self._under_way[limit]
        except TimeoutError:
            if not limit.expired():
                raise
            raise (ServerStoppingError() if self._stopping else CallTooLongError(method, limit_s)) from None


_KINDS: Final = {
    (False, False): (grpc.unary_unary_rpc_method_handler, "unary_unary"),
    (True, False): (grpc.stream_unary_rpc_method_handler, "stream_unary"),
    (False, True): (grpc.unary_stream_rpc_method_handler, "unary_stream"),
    (True, True): (grpc.stream_stream_rpc_method_handler, "stream_stream"),
}


_ATTRIBUTES: Final[dict[str, str | int]] = {"rpc.system": "grpc"}


def _parent(context: grpc.aio.ServicerContext[Any, Any]) -> str | None:
    """Return the span that the call is part of at its caller, where somebody looks at traces."""
    if not is_traced():
        return None
    found = [value for key, value in context.invocation_metadata() or () if key == "traceparent"]
    return str(found[0]) if found else None


async def _abort(context: grpc.aio.ServicerContext[Any, Any], status: grpc.StatusCode, error: Exception) -> NoReturn:
    """End the call with what the caller may know of the error."""
    if status_of(error) is None:
        _log.error("internal error", exc_info=error)
        await context.abort(status, "internal error; the server's log tells more", ((ERROR_KEY, "InternalError"),))
    told = [(ERROR_KEY, type(error).__name__)]
    if isinstance(error, TooManyCallsError):
        told.append((PUSHBACK_KEY, str(max(1, round(error.retry_after_s * 1000)))))
    await context.abort(status, str(error), tuple(told))
