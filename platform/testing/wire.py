"""Calls any RPC by its name, for tests: by the services' descriptors, so that a new one is called too."""

from collections.abc import Iterator
from types import MappingProxyType, TracebackType
from typing import Any, Final

import grpc
from alcove.api.audit.v1 import audit_pb2
from alcove.api.experiment.v1 import experiment_pb2
from alcove.api.metric.v1 import metric_pb2
from alcove.api.planner.v1 import planner_pb2
from alcove.api.policy.v1 import policy_pb2
from alcove.api.registry.v1 import registry_pb2
from alcove.api.rollout.v1 import rollout_pb2
from alcove.api.session.v1 import session_pb2
from alcove.api.status.v1 import status_pb2
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

__all__ = ["METHODS", "Wire", "field_paths", "method_path", "request_class"]

_MODULES = (
    registry_pb2,
    rollout_pb2,
    experiment_pb2,
    policy_pb2,
    metric_pb2,
    planner_pb2,
    audit_pb2,
    session_pb2,
    status_pb2,
)
_KINDS = {(False, False): "unary_unary", (True, False): "stream_unary", (False, True): "unary_stream"}
_TIMEOUT_S = 20

METHODS: Final = MappingProxyType(
    {
        method.name: method
        for module in _MODULES
        for service in module.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    }
)
"""Every RPC of every service, by its own name, which no two of them share."""


def method_path(method: MethodDescriptor) -> str:
    """Return the full name of an RPC, as the permissions table has it."""
    return f"/{method.containing_service.full_name}/{method.name}"


def request_class(name: str) -> type[Message]:
    """Return the class of an RPC's request."""
    return GetMessageClass(METHODS[name].input_type)


def field_paths(name: str) -> Iterator[str]:
    """Yield the paths of all fields of an RPC's request, those inside messages too."""

    def below(descriptor: Any, prefix: str) -> Iterator[str]:
        for field in descriptor.fields:
            yield prefix + field.name
            if field.message_type is not None:
                yield from below(field.message_type, f"{prefix}{field.name}.")

    yield from below(METHODS[name].input_type, "")


class Wire:
    """A connection of its own to a server; close it, or use it as a context."""

    def __init__(self, address: str) -> None:
        # By default gRPC shares connections between channels, also one that the server is about to close.
        self._channel: Any = grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)])

    def __enter__(self) -> "Wire":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()

    def call(self, name: str, request: Message, token: str) -> tuple[grpc.StatusCode, str, Any]:
        """Return the status of an answer, its message, and the answer: of a stream the first, None if refused."""
        method = METHODS[name]
        stub = getattr(self._channel, _KINDS[method.client_streaming, method.server_streaming])(
            method_path(method),
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=GetMessageClass(method.output_type).FromString,
        )
        argument = iter([request]) if method.client_streaming else request
        try:
            answer = stub(argument, timeout=_TIMEOUT_S, metadata=[("authorization", f"Bearer {token}")])
            first = next(iter(answer), None) if method.server_streaming else answer
            if method.server_streaming:
                answer.cancel()
        except grpc.RpcError as failure:
            return failure.code(), failure.details() or "", None
        return grpc.StatusCode.OK, "", first
