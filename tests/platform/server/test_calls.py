"""What surrounds each call: rates, longest calls, reflection, metrics, traces, and the end of the server."""

import asyncio
import itertools
import json
import re
import signal
import threading
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from alcove.api.rollout.v1 import rollout_pb2 as pb
from alcove.api.rollout.v1.rollout_pb2_grpc import RolloutServiceStub
from alcove.platform.cli.demo.reporting import HEADERS
from alcove.platform.client.errors import TooManyCallsError, UnavailableError
from alcove.platform.core import tracing
from alcove.platform.domain import limits
from alcove.platform.domain.errors import TooManyCallsError as RefusedError
from alcove.platform.domain.errors import UnauthenticatedError
from alcove.platform.domain.principal import Role
from alcove.platform.server import rate_limits
from alcove.platform.server.identity import Identity
from alcove.platform.server.rate_limits import CallerLimits
from alcove.platform.server.rollout_service import RolloutService
from alcove.platform.server.serve import SERVICES, Running, run
from alcove.platform.server.settings import Settings
from alcove.platform.server.traces import tracing as traced
from alcove.platform.services.auth.tokens import issue_token
from alcove.platform.store import Store
from alcove.platform.store.tokens import add_token, revoke_token
from alcove.platform.testing import ServerWorld
from alcove.runtime.clock import SYSTEM_CLOCK
from grpc_reflection.v1alpha import reflection_pb2
from grpc_reflection.v1alpha.reflection_pb2_grpc import ServerReflectionStub
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

TEAMS = {"text": ("text_00",)}


@pytest.fixture
def own(tmp_path: Path) -> ServerWorld:
    """A world of its own."""
    return ServerWorld(tmp_path / "own", teams=TEAMS)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> ServerWorld:
    """A world for the servers of this module that run in this process, one after the other."""
    return ServerWorld(tmp_path_factory.mktemp("calls") / "world", teams=TEAMS)


@asynccontextmanager
async def running_server(world: ServerWorld, **more: Any) -> AsyncIterator[Running]:
    """A server in this process."""
    keys = world.online_keys
    given = {"data_dir": world.data_dir, "online_keys": keys, "grpc_port": 0, "http_port": 0, "only": "grpc", **more}
    async with run(Settings.model_validate(given)) as running:
        yield running


def header(token: str) -> list[tuple[str, str]]:
    """What carries a token."""
    return [("authorization", f"Bearer {token}")]


async def ask(stub: Any, token: str, **more: Any) -> grpc.StatusCode:
    """The status of a read."""
    try:
        await stub.ListRollouts(pb.ListRolloutsRequest(), metadata=[*header(token), *more.get("metadata", ())])
    except grpc.aio.AioRpcError as failure:
        return failure.code()
    return grpc.StatusCode.OK


# Rates


class Hand:
    """A clock by hand."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now_s


def test_each_caller_has_a_bucket_of_its_own() -> None:
    """One that is empty refuses its caller, until it refills, and nobody else."""
    hand = Hand()
    bounded = CallerLimits(3, hand)
    for _ in range(3):
        bounded.take("a")
    with pytest.raises(RefusedError, match="calls of a: at most 3 a second") as refusal:
        bounded.take("a")
    bounded.take("b")
    hand.now_s += refusal.value.retry_after_s
    bounded.take("a")
    with pytest.raises(RefusedError):
        bounded.take("a")


def test_buckets_do_not_grow_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many callers come."""
    monkeypatch.setattr(rate_limits, "CALLERS_KEPT", 5)
    bounded = CallerLimits(1, Hand())
    for number in range(100):
        bounded.take(str(number))
    assert len(bounded) <= 5


def test_a_caller_that_calls_too_often_learns_when_to_try_again(own: ServerWorld) -> None:
    """RESOURCE_EXHAUSTED with gRPC's push-back; another caller of the same role passes."""
    server = own.start("--only", "grpc", "--calls-per-second", "2")
    try:
        with own.client(server, "reader") as client:
            with pytest.raises(TooManyCallsError, match="at most 2 a second") as refusal:
                list(itertools.starmap(client.rollouts, itertools.repeat((), 1000)))
            assert refusal.value.status == "RESOURCE_EXHAUSTED"
            assert refusal.value.retry_after_s == pytest.approx(0.5)
        with own.client(server, "operator") as other:
            other.rollouts()
    finally:
        assert server.stop() == 0


# Longest calls


async def test_a_call_that_hangs_is_ended_whatever_its_deadline(
    world: ServerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a deadline and with one of a day: DEADLINE_EXCEEDED by the server, which names its bound."""

    async def hang(self: object, request: object, context: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(RolloutService, "GetRollout", hang)
    async with (
        running_server(world, call_s_max=0.2) as running,
        grpc.aio.insecure_channel(running.grpc_address) as channel,
    ):
        stub = RolloutServiceStub(channel)
        token = await asyncio.to_thread(world.token, "reader")
        for timeout in (None, 86_400):
            with pytest.raises(grpc.aio.AioRpcError, match=r"more than 0\.2 s") as failure:
                await stub.GetRollout(pb.GetRolloutRequest(rollout_id="x"), metadata=header(token), timeout=timeout)
            assert failure.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
            assert "CallTooLongError" in str(failure.value.trailing_metadata())
        assert await ask(stub, token) is grpc.StatusCode.OK


async def test_a_time_out_inside_a_call_is_no_deadline_of_the_call(
    world: ServerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is a fault of the server, and reported as one."""

    async def fail(self: object, request: object, context: object) -> None:
        raise TimeoutError

    monkeypatch.setattr(RolloutService, "GetRollout", fail)
    async with running_server(world) as running, grpc.aio.insecure_channel(running.grpc_address) as channel:
        token = await asyncio.to_thread(world.token, "reader")
        with pytest.raises(grpc.aio.AioRpcError) as failure:
            await RolloutServiceStub(channel).GetRollout(pb.GetRolloutRequest(rollout_id="x"), metadata=header(token))
        assert failure.value.code() is grpc.StatusCode.INTERNAL


# Tokens that are remembered


async def test_a_revoked_token_is_refused_with_its_next_call(store: Store, tmp_path: Path) -> None:
    """However often it was used before; an unknown one is not remembered as unknown once it is issued."""
    now_s = SYSTEM_CLOCK.now_s()
    issued = issue_token(Role.parse("reader"), now_s=now_s, lifetime_s=1000)
    context: Any = SimpleNamespace(
        auth_context=dict, invocation_metadata=lambda: header(issued.text), peer=lambda: "unix:"
    )
    identity = Identity(store, SYSTEM_CLOCK)
    with pytest.raises(UnauthenticatedError, match="unknown"):
        await identity.of(context)
    async with store.write() as session:
        await add_token(session, issued.record)
    assert (await identity.of(context)).role == Role("reader")
    async with store.write() as session:
        await revoke_token(session, issued.record.token_id, now_s)
    with pytest.raises(UnauthenticatedError, match="revoked"):
        await identity.of(context)


# Reflection


async def list_services(address: str, token: str | None) -> list[str]:
    """The services that a server tells of."""
    async with grpc.aio.insecure_channel(address) as channel:
        stub: Any = ServerReflectionStub(channel)
        wanted = [reflection_pb2.ServerReflectionRequest(list_services="")]
        call = stub.ServerReflectionInfo(iter(wanted), metadata=header(token) if token else [], timeout=60)
        answers = [answer async for answer in call]
    return [service.name for answer in answers for service in answer.list_services_response.service]


async def test_reflection_answers_known_callers_where_it_is_on(world: ServerWorld) -> None:
    """Off unless asked for; never for strangers."""
    token = await asyncio.to_thread(world.token, "reader")
    async with running_server(world, reflection=True) as running:
        assert set(SERVICES) < set(await list_services(running.grpc_address, token))
        with pytest.raises(grpc.aio.AioRpcError) as failure:
            await list_services(running.grpc_address, None)
        assert failure.value.code() is grpc.StatusCode.UNAUTHENTICATED
    async with running_server(world) as running:
        with pytest.raises(grpc.aio.AioRpcError) as failure:
            await list_services(running.grpc_address, token)
        assert failure.value.code() is grpc.StatusCode.UNIMPLEMENTED


# Metrics


def page(url: str) -> str:
    """The text behind an address."""
    with urllib.request.urlopen(url, timeout=60) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain")
        return str(answer.read().decode())


async def test_metrics_tell_of_calls_reports_rollouts_and_signatures(world: ServerWorld) -> None:
    """On a port of their own; nothing in them names a caller."""
    token = await asyncio.to_thread(world.token, "reader")
    async with running_server(world, only=None, metrics_port=0) as running:
        assert running.metrics_url is not None
        assert json.loads(running.ready_line())["metrics"] == running.metrics_url
        async with grpc.aio.insecure_channel(running.grpc_address) as channel:
            stub = RolloutServiceStub(channel)
            assert await ask(stub, token) is grpc.StatusCode.OK
            assert await ask(stub, token) is grpc.StatusCode.OK
            assert await ask(stub, "alc_wrong") is grpc.StatusCode.UNAUTHENTICATED

        bad = urllib.request.Request(running.http_url + "/reports", data=b"x", headers=HEADERS)

        def refuse() -> None:
            with pytest.raises(urllib.error.HTTPError):
                urllib.request.urlopen(bad, timeout=60)
            with pytest.raises(urllib.error.HTTPError):
                urllib.request.urlopen(running.http_url + "/metrics", timeout=60)

        def check_in() -> None:
            timestamp = running.http_url + "/metadata/timestamp.json"
            with urllib.request.urlopen(timestamp, timeout=60) as answer:
                tag = answer.headers["ETag"]
            with pytest.raises(urllib.error.HTTPError, match="304"):
                urllib.request.urlopen(urllib.request.Request(timestamp, headers={"If-None-Match": tag}), timeout=60)

        await asyncio.to_thread(refuse)
        await asyncio.to_thread(check_in)
        text = await asyncio.to_thread(page, running.metrics_url)
    method = "/alcove.api.rollout.v1.RolloutService/ListRollouts"
    assert f'alcove_rpc_seconds_count{{method="{method}",status="OK"}} 2.0' in text
    assert f'alcove_rpc_seconds_count{{method="{method}",status="UNAUTHENTICATED"}} 1.0' in text
    assert f'alcove_rpc_seconds_bucket{{le="10.0",method="{method}",status="OK"}} 2.0' in text
    assert 'alcove_bodies_refused{reason="malformed"} 1.0' in text
    assert "alcove_reports_counted 0.0" in text
    assert "alcove_evidence_alarms 0.0" in text
    assert "alcove_value_overrides 0.0" in text
    for outcome, count in (("changed", 1), ("unchanged", 1), ("absent", 0), ("refused", 0), ("failed", 0)):
        assert f'alcove_check_ins{{outcome="{outcome}"}} {count}.0' in text
    for state in ("draft", "running", "stopped"):
        assert f'alcove_experiments{{state="{state}"}} 0.0' in text
    for process in ("process", "alcove_ingress_process"):
        for name in ("cpu_seconds_total", "resident_memory_bytes", "open_fds", "max_fds"):
            (found,) = re.findall(rf"^{process}_{name} (\S+)", text, re.MULTILINE)
            assert float(found) > 0, (process, name)
    for state in ("draft", "running", "paused", "completed", "rolled_back", "halted"):
        assert re.search(rf'alcove_rollouts{{state="{state}"}} 0\.0', text.replace(" back", "_back")), state
    for state in ("draft", "running", "stopped"):
        assert f'alcove_experiments{{state="{state}"}} 0.0' in text
    assert re.search(r"^process_resident_memory_bytes [1-9]", text, re.MULTILINE)
    now_s = SYSTEM_CLOCK.now_s()
    for role in ("root", "targets", "snapshot", "timestamp", "policy", "halt", "team-text"):
        (found,) = re.findall(rf'alcove_signature_expiry_timestamp_seconds{{role="{role}"}} (\S+)', text)
        assert float(found) > now_s, role
    (found,) = re.findall(r"^alcove_refresh_timestamp_seconds (\S+)", text, re.MULTILINE)
    assert abs(float(found) - now_s) < 60
    assert "alc_" not in text.replace("alcove_", "")
    assert "reader" not in text


async def test_there_are_no_metrics_unless_a_port_is_set(world: ServerWorld) -> None:
    """And the ready line tells of none."""
    async with running_server(world) as running:
        assert running.metrics_url is None
        assert set(json.loads(running.ready_line())) == {"ready", "grpc", "pid"}


# Traces


async def test_spans_tell_of_calls_and_what_they_did(world: ServerWorld) -> None:
    """Calls hang under their caller's span, reads under the call; an error appears by its class, never by its words."""
    token = await asyncio.to_thread(world.token, "operator")
    exporter = InMemorySpanExporter()
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    with traced(None, exporter):
        async with running_server(world) as running, grpc.aio.insecure_channel(running.grpc_address) as channel:
            stub = RolloutServiceStub(channel)
            assert await ask(stub, token, metadata=[("traceparent", parent)]) is grpc.StatusCode.OK
            with pytest.raises(grpc.aio.AioRpcError):
                await stub.GetRollout(pb.GetRolloutRequest(rollout_id="ro-secret"), metadata=header(token))
    assert not tracing.is_traced()
    spans = {span.name: span for span in exporter.get_finished_spans()}
    listed = spans["alcove.api.rollout.v1.RolloutService/ListRollouts"]
    assert f"{listed.context.trace_id:032x}" == parent.split("-")[1]
    assert listed.parent is not None
    assert f"{listed.parent.span_id:016x}" == parent.split("-")[2]
    below = [s for s in exporter.get_finished_spans() if s.parent and s.parent.span_id == listed.context.span_id]
    assert {s.name for s in below} == {"store read"}
    failed = spans["alcove.api.rollout.v1.RolloutService/GetRollout"]
    assert failed.status.description == "ResourceNotFoundError"
    exported = "".join(span.to_json() for span in exporter.get_finished_spans())
    assert "ro-secret" not in exported
    assert token not in exported


def test_without_a_collector_a_span_is_nothing() -> None:
    """No object is made, nothing is noted."""
    assert tracing.span("a") is tracing.span("b")
    with traced(None):
        assert not tracing.is_traced()


def test_traces_go_to_the_console_where_asked(capsys: pytest.CaptureFixture[str]) -> None:
    """Standard error, so that the ready line stays alone on the other."""
    with traced("console"), tracing.span("one", part=1):
        pass
    out, error = capsys.readouterr()
    assert '"name": "one"' in error
    assert out == ""


# The end


def test_at_the_end_a_stream_is_notified_and_a_call_under_way_is_answered(own: ServerWorld) -> None:
    """SIGTERM: who watches is sent elsewhere at once, who is publishing gets an answer, and the server ends with 0."""
    server = own.start("--only", "grpc")
    with own.client(server, "team:text") as team, own.client(server, "operator") as operator:
        own.publish(team, "text_00")
        rollout = operator.create_rollout("app", "text_00", "1.0.0")
        watched = operator.watch_rollout(rollout.rollout_id, timeout_s=60)
        assert next(watched) == rollout
        seen: list[object] = []
        is_busy = threading.Event()

        def work() -> None:
            number = 0
            while True:
                try:
                    seen.append(operator.create_rollout(f"app-{number}", "text_00", "1.0.0").rollout_id)
                except UnavailableError as error:
                    seen.append(error)
                    return
                number += 1
                if number == 3:
                    is_busy.set()

        worker = threading.Thread(target=work)
        worker.start()
        assert is_busy.wait(30)
        assert server.process is not None
        server.process.send_signal(signal.SIGTERM)
        with pytest.raises(UnavailableError, match="the server is stopping"):
            list(watched)
        worker.join(30)
        assert not worker.is_alive()
    # No second signal: an interpreter that is ending has no handler for it any more.
    assert server.wait() == 0
    answered = {item for item in seen if isinstance(item, str)}
    again = own.start("--only", "grpc")
    with own.client(again, "reader") as reader:
        kept = {item.rollout_id for item in reader.rollouts()}
    assert again.stop() == 0
    assert answered <= kept
    assert limits.SHUTDOWN_TELL_S < limits.SHUTDOWN_GRACE_S
