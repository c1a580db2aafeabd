"""Who may call what: every RPC with every role, and with no valid token at all, over a real connection."""

import time
from collections.abc import Callable
from typing import Any

import grpc
import pytest
from alcove.api.audit.v1 import audit_pb2
from alcove.api.experiment.v1 import experiment_pb2
from alcove.api.metric.v1 import metric_pb2
from alcove.api.planner.v1 import planner_pb2
from alcove.api.policy.v1 import policy_pb2
from alcove.api.registry.v1 import registry_pb2
from alcove.api.rollout.v1 import rollout_pb2
from alcove.api.session.v1 import session_pb2
from alcove.api.status.v1 import status_pb2
from alcove.platform.domain.permissions import PERMISSIONS
from alcove.platform.services.auth.local import create_local_token, revoke_local_token
from alcove.platform.testing import Served, ServerWorld
from google.protobuf.message_factory import GetMessageClass

MESSAGES = (
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
METHODS = [
    method
    for module in MESSAGES
    for service in module.DESCRIPTOR.services_by_name.values()
    for method in service.methods
]
KINDS = {(False, False): "unary_unary", (True, False): "stream_unary", (False, True): "unary_stream"}
# A revocation is urgent, and an approval takes a second person: both roles may.  Operators say what an app can bear.
# Metrics are what teams and operators both plan with.  Everybody may look at the console.
OTHERWISE = {
    "RevokeVersion": {"operator", "team"},
    "ApproveAlias": {"operator", "team"},
    "SetFeatureRules": {"operator"},
    "CreateMetric": {"operator", "team"},
    "DeprecateMetric": {"operator", "team"},
    "CreateSession": {"reader", "operator", "team", "console"},
    "BeginSignIn": {"console"},
    "DeleteSession": {"reader", "operator", "team"},
    "DeleteOtherSessions": {"reader", "operator", "team"},
}
UNAUTHENTICATED = grpc.StatusCode.UNAUTHENTICATED
Call = Callable[[Any, "list[tuple[str, str]]"], grpc.StatusCode]


def path(method: Any) -> str:
    """Full name of an RPC, as the permissions table has it."""
    return f"/{method.containing_service.full_name}/{method.name}"


@pytest.fixture
def status_of_call(served: Served) -> Callable[..., grpc.StatusCode]:
    """Calls an RPC with an empty request and returns the status."""

    def call(method: Any, *headers: tuple[str, str]) -> grpc.StatusCode:
        request = GetMessageClass(method.input_type)()
        with grpc.insecure_channel(served.grpc_address) as channel:
            kind: Any = getattr(channel, KINDS[method.client_streaming, method.server_streaming])
            stub = kind(
                path(method),
                request_serializer=lambda message: message.SerializeToString(),
                response_deserializer=GetMessageClass(method.output_type).FromString,
            )
            argument = iter([request]) if method.client_streaming else request
            try:
                answer = stub(argument, timeout=60, metadata=headers)
                list(answer if method.server_streaming else [answer])
            except grpc.RpcError as failure:
                return failure.code()
        return grpc.StatusCode.OK

    return call


def test_every_rpc_has_a_line_in_the_table() -> None:
    """No RPC exists that nobody thought about; no line names an RPC that is gone."""
    assert PERMISSIONS.keys() == {path(method) for method in METHODS}


def test_the_table_gives_mutations_to_one_role_each() -> None:
    """Teams push, operators operate, readers change nothing; the exceptions are written down here."""
    for name, permission in PERMISSIONS.items():
        verb = name.rpartition("/")[2]
        is_reading = verb.startswith(("Get", "List", "Watch", "Plan"))
        expected = {"reader", "operator", "team"} if is_reading else {"team"} if "Registry" in name else {"operator"}
        assert permission.roles == OTHERWISE.get(verb, expected), name


def test_no_rpc_answers_without_a_token(status_of_call: Callable[..., grpc.StatusCode]) -> None:
    """Not one RPC is open; a loaded machine may be too slow for the server's time to a first request, so ask again."""
    for method in METHODS:
        codes = (status_of_call(method) for _ in range(10))
        found = next((code for code in codes if code is not grpc.StatusCode.UNAVAILABLE), None)
        assert found is UNAUTHENTICATED, path(method)


def test_bad_tokens_are_refused(world: ServerWorld, status_of_call: Callable[..., grpc.StatusCode]) -> None:
    """Malformed, unknown, wrong, expired and revoked tokens, and two at once, all end the same way."""
    (method,) = [method for method in METHODS if method.name == "ListVersions"]
    good = world.token("reader")
    _, token_id, secret = good.split("_")
    expired, _ = create_local_token(world.data_dir, "reader", lifetime_s=1)
    revoked, record = create_local_token(world.data_dir, "reader")
    revoke_local_token(world.data_dir, record.token_id)
    deadline_s = time.monotonic() + 60
    while status_of_call(method, ("authorization", f"Bearer {expired}")) is grpc.StatusCode.OK:
        assert time.monotonic() < deadline_s
    bad = [
        "",
        "Bearer",
        "Bearer ",
        good,
        f"Basic {good}",
        f"bearer {good}",
        f"Bearer {good} ",
        f"Bearer {good}0",
        f"Bearer {good.upper()}",
        f"Bearer alc_{token_id}_{'0' * 64}",
        f"Bearer alc_{'0' * 16}_{secret}",
        f"Bearer {expired}",
        f"Bearer {revoked}",
    ]
    assert status_of_call(method, ("authorization", f"Bearer {good}")) is grpc.StatusCode.OK
    for value in bad:
        assert status_of_call(method, ("authorization", value)) is UNAUTHENTICATED, value
    twice = [("authorization", f"Bearer {good}")] * 2
    assert status_of_call(method, *twice) is UNAUTHENTICATED


def test_an_unknown_method_is_unimplemented(served: Served, world: ServerWorld) -> None:
    """A method that there is not is reported as such, token or not."""
    with grpc.insecure_channel(served.grpc_address) as channel:
        plain: Any = channel  # bytes in, bytes out: no serializers
        call = plain.unary_unary("/alcove.api.registry.v1.RegistryService/DropEverything")
        with pytest.raises(grpc.RpcError) as failure:
            call(b"", timeout=60, metadata=[("authorization", f"Bearer {world.token('operator')}")])
    assert failure.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_malformed_messages_end_the_call_and_nothing_else(
    served: Served, world: ServerWorld, status_of_call: Callable[..., grpc.StatusCode]
) -> None:
    """Bytes that are no message give an error status for every RPC, and the server continues."""
    header = ("authorization", f"Bearer {world.token('operator')}")
    with grpc.insecure_channel(served.grpc_address) as channel:
        plain: Any = channel  # bytes in, bytes out: no serializers
        for method in METHODS:
            if method.client_streaming or method.server_streaming:
                continue
            bodies = (b"\xff", b"\x0a\xff\xff\xff\xff\x0f", b"\x00" * 100, b"\x0a\x02\xff\xfe")
            # A message passes over fields that it does not have, and its only bool would be of another kind.
            takes_text = any(field.type != field.TYPE_BOOL for field in method.input_type.fields)
            for body in bodies if takes_text else bodies[:2]:
                with pytest.raises(grpc.RpcError) as failure:
                    plain.unary_unary(path(method))(body, timeout=60, metadata=[header])
                assert failure.value.code() is not grpc.StatusCode.OK
    (method,) = [method for method in METHODS if method.name == "ListVersions"]
    assert status_of_call(method, header) is grpc.StatusCode.OK
