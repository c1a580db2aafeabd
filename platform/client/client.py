"""Makes each call with a deadline, a token and a request id; returns the answer or raises a typed error.

The registry's calls are in `registry`, those of rollouts in `rollouts`.
"""

import ipaddress
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Self, TypeVar

import grpc
from alcove.api.audit.v1.audit_pb2_grpc import AuditServiceStub
from alcove.api.experiment.v1.experiment_pb2_grpc import ExperimentServiceStub
from alcove.api.metric.v1.metric_pb2_grpc import MetricServiceStub
from alcove.api.planner.v1.planner_pb2_grpc import PlannerServiceStub
from alcove.api.policy.v1.policy_pb2_grpc import PolicyServiceStub
from alcove.api.registry.v1.registry_pb2_grpc import RegistryServiceStub
from alcove.api.rollout.v1.rollout_pb2_grpc import RolloutServiceStub
from alcove.api.session.v1.session_pb2_grpc import SessionServiceStub
from alcove.api.status.v1.status_pb2_grpc import StatusServiceStub
from alcove.platform.client.audit import AuditCalls
from alcove.platform.client.errors import error_of
from alcove.platform.client.experiments import ExperimentCalls
from alcove.platform.client.metrics import MetricCalls
from alcove.platform.client.policies import PolicyCalls
from alcove.platform.client.registry import RegistryCalls
from alcove.platform.client.rollouts import RolloutCalls
from alcove.platform.client.sessions import SessionCalls
from alcove.platform.client.status import StatusCalls
from alcove.platform.client.value_overrides import OverrideCalls
from alcove.platform.domain import limits
from google.protobuf.message import Message

__all__ = ["PlatformClient"]

_Answer = TypeVar("_Answer", bound=Message)


class PlatformClient(
    RegistryCalls,
    RolloutCalls,
    ExperimentCalls,
    PolicyCalls,
    OverrideCalls,
    MetricCalls,
    AuditCalls,
    SessionCalls,
    StatusCalls,
):
    """Calls the server's services; usable from several threads; close it, or use it as a context manager.

    Every method raises a `ClientError` and nothing else.  A mutation that ended in `UnavailableError` or
    `DeadlineError` is repeated safely by giving the same `request_id` again.

    Args:
        address: "host:port" of the gRPC server.  Other machines are spoken to over TLS only.
        token: API token ("alc_…"); "" where a certificate says who asks.
        certificate: PEM key and certificate chain of the caller, for the server's port for client certificates.
        tls_root: PEM certificates to trust; None: the system's.  Giving one means TLS for this machine too.
        timeout_s: deadline of each call, in seconds.
        channel: a connection that others use too, in the place of one to `address`; stays the caller's.
    """

    def __init__(
        self,
        address: str,
        token: str,
        *,
        tls_root: bytes | None = None,
        certificate: tuple[bytes, bytes] | None = None,
        timeout_s: float = limits.CALLS_TIMEOUT_S,
        channel: grpc.Channel | None = None,
    ) -> None:
        self._is_shared = channel is not None
        self._channel = _connect(address, tls_root, certificate) if channel is None else channel
        self._metadata = (("authorization", f"Bearer {token}"),) if token else ()
        self._timeout_s = timeout_s
        self._registry = RegistryServiceStub(self._channel)
        self._rollout = RolloutServiceStub(self._channel)
        self._experiment = ExperimentServiceStub(self._channel)
        self._policy = PolicyServiceStub(self._channel)
        self._metric = MetricServiceStub(self._channel)
        self._audit = AuditServiceStub(self._channel)
        self._planner = PlannerServiceStub(self._channel)
        self._sessions = SessionServiceStub(self._channel)
        self._status = StatusServiceStub(self._channel)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection, unless it is others' too."""
        if not self._is_shared:
            self._channel.close()

    def _stream(self, method: Callable[..., Any], request: Any, *, timeout_s: float) -> Iterator[Any]:
        try:
            yield from method(request, timeout=timeout_s, metadata=self._metadata)
        except grpc.RpcError as failure:
            raise error_of(failure) from None

    def _call(self, method: Callable[..., _Answer], request: Any, *, timeout_s: float | None = None) -> _Answer:
        try:
            return method(request, timeout=timeout_s or self._timeout_s, metadata=self._metadata)
        except grpc.RpcError as failure:
            raise error_of(failure) from None


def _connect(address: str, tls_root: bytes | None, certificate: tuple[bytes, bytes] | None) -> grpc.Channel:
    is_plain = tls_root is None and certificate is None and _is_this_machine(address)
    options = [
        ("grpc.max_receive_message_length", limits.MESSAGE_BYTES),
        ("grpc.enable_http_proxy", 0 if is_plain else 1),
    ]
    if is_plain:
        return grpc.insecure_channel(address, options)
    return grpc.secure_channel(address, grpc.ssl_channel_credentials(tls_root, *(certificate or ())), options)


def _is_this_machine(address: str) -> bool:
    host = address.rpartition(":")[0].strip("[]")
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
