"""Answers health probes, which need no token: gRPC's own protocol, without its endless streams.

`Check` answers at once.  `Watch` is UNIMPLEMENTED: anybody could hold any number of them, and the protocol says that a
client that gets this answer takes the server to be healthy.
"""

# The names and signatures are those of the generated base class.
# ruff: noqa: N802

import asyncio
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc
from alcove.platform.domain import limits
from grpc_health.v1 import health_pb2, health_pb2_grpc

__all__ = ["HealthService", "Probes"]

_Status = health_pb2.HealthCheckResponse


class HealthService(health_pb2_grpc.HealthServicer):  # type: ignore[misc]  # its stubs know nothing of the class
    """Says whether the server serves: as a whole (""), since it has nothing smaller."""

    def __init__(self) -> None:
        self._status = _Status.SERVING

    def stop(self) -> None:
        """Say from now on that it does not serve."""
        self._status = _Status.NOT_SERVING

    async def Check(self, request: health_pb2.HealthCheckRequest, context: Any) -> health_pb2.HealthCheckResponse:
        """Return the status."""
        if request.service:
            await context.abort(grpc.StatusCode.NOT_FOUND, "no such service: ask for the whole server, by no name")
        return health_pb2.HealthCheckResponse(status=self._status)


class Probes:
    """The probes that have not sent their request yet; where there are too many, the oldest is ended.

    An honest probe comes with its request, so it is never the oldest.
    """

    def __init__(self) -> None:
        self._waiting: OrderedDict[int, asyncio.Timeout] = OrderedDict()
        self._next = 0

    @contextmanager
    def waiting(self, limit: asyncio.Timeout) -> Iterator[None]:
        """Count a probe while the block runs; `limit` is what ends it."""
        number = self._next
        self._next += 1
        self._waiting[number] = limit
        if len(self._waiting) > limits.PROBES_AT_ONCE:
            _, oldest = self._waiting.popitem(last=False)
            oldest.reschedule(asyncio.get_running_loop().time())
        try:
            yield
        finally:
            self._waiting.pop(number, None)
