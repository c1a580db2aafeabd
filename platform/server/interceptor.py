"""What happens around every call?  Who asks is established, errors become statuses, and one line is logged.

Health calls pass untouched: whoever watches the process needs no token.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import grpc
import structlog
from alcove.platform.auth.permissions import require
from alcove.platform.auth.principal import Principal, set_principal
from alcove.platform.auth.tokens import authenticate, token_id_of
from alcove.platform.core.errors import ERROR_KEY, PlaintextRefusedError, UnauthenticatedError
from alcove.platform.server.status import status_of
from alcove.platform.store.tokens import find_token

if TYPE_CHECKING:
    from alcove.platform.store import Store
    from alcove.registry.clock import Clock

__all__ = ["CallInterceptor"]

_HEALTH = "/grpc.health.v1.Health/"
_BEARER = "Bearer "
_LOOPBACK = ("ipv4:127.", "ipv6:[::1]", "ipv6:%5B::1%5D", "unix:")
_log = structlog.get_logger()

_Call = Callable[[Any, "grpc.aio.ServicerContext[Any, Any]"], Awaitable[Any]]
_Stream = Callable[[Any, "grpc.aio.ServicerContext[Any, Any]"], AsyncIterator[Any]]


class CallInterceptor(grpc.aio.ServerInterceptor):  # type: ignore[type-arg]  # generic in the stubs only
    """Authenticates, authorises, maps errors and logs; wraps calls with one response and streams of responses."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

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
        if handler.request_streaming:
            return grpc.stream_unary_rpc_method_handler(
                self._around(method, handler.stream_unary),
                request_deserializer=handler.request_deserializer,
                response_serializer=handler.response_serializer,
            )
        if handler.response_streaming:
            return grpc.unary_stream_rpc_method_handler(
                self._around_stream(method, handler.unary_stream),
                request_deserializer=handler.request_deserializer,
                response_serializer=handler.response_serializer,
            )
        return grpc.unary_unary_rpc_method_handler(
            self._around(method, handler.unary_unary),
            request_deserializer=handler.request_deserializer,
            response_serializer=handler.response_serializer,
        )

    def _around(self, method: str, behaviour: _Call) -> _Call:
        async def call(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
            async with self._answering(method, context):
                return await behaviour(request, context)

        return call

    def _around_stream(self, method: str, behaviour: _Stream) -> _Stream:
        async def call(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> AsyncIterator[Any]:
            async with self._answering(method, context):
                async for response in behaviour(request, context):
                    yield response

        return call

    @asynccontextmanager
    async def _answering(self, method: str, context: grpc.aio.ServicerContext[Any, Any]) -> AsyncIterator[None]:
        """Let the call run inside the block if its caller may make it; whatever ends it becomes its status."""
        began_s = time.monotonic()
        name, status = None, grpc.StatusCode.CANCELLED
        try:
            principal = await self._authenticate(context)
            name = principal.name
            require(principal, method)
            set_principal(principal)
            yield
            status = grpc.StatusCode.OK
        except Exception as error:  # noqa: BLE001 - whatever happens inside, the caller gets a status
            status = status_of(error) or grpc.StatusCode.INTERNAL
            await _abort(context, status, error)
        finally:
            _log.info(
                "call",
                method=method,
                principal=name,
                status=status.name,
                ms=round((time.monotonic() - began_s) * 1000, 1),
            )

    async def _authenticate(self, context: grpc.aio.ServicerContext[Any, Any]) -> Principal:
        """Return who calls.

        Raises:
            PlaintextRefusedError: neither TLS nor this machine.
            UnauthenticatedError: no valid token.
        """
        is_encrypted = bool(context.auth_context().get("transport_security_type"))
        values = [value for key, value in context.invocation_metadata() or () if key == "authorization"]
        if not values:
            reason = "no token"
            raise UnauthenticatedError(reason)
        if not is_encrypted and not context.peer().startswith(_LOOPBACK):
            raise PlaintextRefusedError
        text = values[0] if isinstance(values[0], str) else values[0].decode("ascii", "replace")
        if len(values) > 1 or not text.startswith(_BEARER):
            reason = "malformed authorization"
            raise UnauthenticatedError(reason)
        token = text.removeprefix(_BEARER)
        async with self._store.read() as session:
            record = await find_token(session, token_id_of(token))
        return authenticate(token, record, now_s=self._clock.now_s())


async def _abort(context: grpc.aio.ServicerContext[Any, Any], status: grpc.StatusCode, error: Exception) -> NoReturn:
    """End the call with what the caller may know of the error."""
    if status_of(error) is None:
        _log.error("internal error", exc_info=error)
        await context.abort(status, "internal error; the server's log tells more", ((ERROR_KEY, "InternalError"),))
    await context.abort(status, str(error), ((ERROR_KEY, type(error).__name__),))
