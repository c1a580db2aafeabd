"""A caller in a loop, and made-up tokens in a loop: others are answered, and the database is asked little."""

import asyncio
import gc
import threading
import weakref
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from alcove.api.experiment.v1 import experiment_pb2
from alcove.api.policy.v1 import policy_pb2
from alcove.api.registry.v1 import registry_pb2 as pb
from alcove.api.rollout.v1 import rollout_pb2
from alcove.platform.client import PlatformClient
from alcove.platform.client.errors import ClientError
from alcove.platform.core.turns import Turns
from alcove.platform.domain import limits
from alcove.platform.domain.errors import InvalidFieldError, TooManyCallsError
from alcove.platform.domain.principal import Principal, Role, current_principal, set_principal
from alcove.platform.server.messages import deserializer, forgetting
from alcove.platform.server.rate_limits import CallerLimits
from alcove.platform.server.token_reads import AT_ONCE, TokenReads
from alcove.platform.services.auth.local import create_local_token
from alcove.platform.services.auth.tokens import issue_token
from alcove.platform.services.mutations import Mutations
from alcove.platform.services.policy import PolicyPublisher
from alcove.platform.services.publishing import RepositoryLock
from alcove.platform.store import Store
from alcove.platform.store.tokens import add_token
from alcove.platform.testing import Served, ServerWorld
from alcove.platform.testing.wire import METHODS, Wire, method_path
from alcove.runtime.clock import SYSTEM_CLOCK
from google.protobuf.message import Message
from sqlalchemy.ext.asyncio import AsyncSession


def test_each_callers_rate_is_its_own() -> None:
    """However many loop, each has its bucket, and an empty one says when it has refilled."""
    now_s = [0.0]
    callers = CallerLimits(10, lambda: now_s[0])
    for name in map(str, range(100)):
        for _ in range(10):
            callers.take(name)
        with pytest.raises(TooManyCallsError) as refusal:
            callers.take(name)
        assert refusal.value.retry_after_s == pytest.approx(0.1)
    now_s[0] += 0.1
    callers.take("0")


async def test_what_takes_long_is_done_by_turns() -> None:
    """A hundred at once of one caller: two are under way, another caller's is too, and nothing is left of them."""
    turns, under_way, is_over = Turns(2), Counter[str](), asyncio.Event()

    async def do(caller: str) -> None:
        async with turns.turn(caller):
            under_way[caller] += 1
            await is_over.wait()

    async with asyncio.TaskGroup() as calls:
        tasks = [calls.create_task(do(caller)) for caller in ["loops"] * 100 + ["other"]]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert under_way == {"loops": 2, "other": 1}
        tasks[50].cancel()
        is_over.set()
    assert under_way["loops"] == 99
    assert len(turns) == 0


async def test_changes_of_one_caller_wait_for_each_other_and_not_before_anothers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forty at once, the first of which takes long: one of them is where the database's only writer is waited for."""
    store = await Store.open(tmp_path / "alcove.db")
    tree = ServerWorld(tmp_path / "world", teams={"text": ("text_00",)}).tree
    mutations = Mutations(store, PolicyPublisher(store, tree, RepositoryLock(store)), tree, SYSTEM_CLOCK)
    writers, present, most = Counter[str](), Counter[str](), Counter[str]()
    is_there, may_end = {"team": asyncio.Event(), "operator": asyncio.Event()}, asyncio.Event()
    write = store.write

    @asynccontextmanager
    async def count_writers() -> AsyncIterator[AsyncSession]:
        caller = current_principal().role.name
        writers[caller] += 1
        present[caller] += 1
        most[caller] = max(most[caller], present[caller])
        is_there[caller].set()
        try:
            async with write() as session:
                yield session
        finally:
            present[caller] -= 1

    async def work(_uow: object) -> policy_pb2.CreateLayerResponse:
        await may_end.wait()
        return policy_pb2.CreateLayerResponse()

    async def change(role: str, number: int) -> None:
        set_principal(Principal(f"{role}-token", Role(role)))
        request = policy_pb2.CreateLayerRequest(request_id=f"{role}-{number:04d}")
        await mutations.run(request, policy_pb2.CreateLayerResponse, work)

    monkeypatch.setattr(store, "write", count_writers)
    async with asyncio.TaskGroup() as calls:
        for number in range(40):
            calls.create_task(change("team", number))
        calls.create_task(change("operator", 0))
        for each in is_there.values():
            await each.wait()
        may_end.set()
    assert writers == {"team": 40, "operator": 1}
    assert most == {"team": 1, "operator": 1}
    await store.close()


def test_no_number_takes_long_to_read(attacked: Served, server_world: ServerWorld) -> None:
    """An epsilon whose fraction has a billion digits: refused with its bound, and others served."""
    with server_world.client(attacked, "team:text") as team:
        for version in ("1.0.0", "2.0.0"):
            server_world.publish(team, "text_06", version)
    operator = server_world.token("operator:text")
    arms = [experiment_pb2.Arm(name=name, version=f"{name}.0.0", share_basis_points=5000) for name in "12"]
    with Wire(attacked.grpc_address) as wire:
        for epsilon in ("1e999999999", "1e-999999999", "1E+999999999999999999", "-1e999999999", "0." + "0" * 29 + "1"):
            experiment = experiment_pb2.CreateExperimentRequest(
                request_id="long-number", app="x", feature="text_06", arms=arms, epsilon=epsilon
            )
            rollout = rollout_pb2.CreateRolloutRequest(
                request_id="long-number",
                app="x",
                feature="text_06",
                version="1.0.0",
                plan=rollout_pb2.Plan(epsilon=epsilon),
            )
            for name, request in (("CreateExperiment", experiment), ("CreateRollout", rollout)):
                code, details, _ = wire.call(name, request, operator)
                assert (code, "epsilon: expected" in details) == (grpc.StatusCode.INVALID_ARGUMENT, True), details
        assert wire.call("ListLayers", policy_pb2.ListLayersRequest(app="x"), operator)[0] is grpc.StatusCode.OK


async def test_made_up_tokens_share_their_queries(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Four thousand at once cost some ten queries; the one that is real among them is found, and none is kept."""
    store = await Store.open(tmp_path_factory.mktemp("tokens") / "alcove.db")
    real = issue_token(Role.parse("operator"), now_s=0, lifetime_s=1000).record
    async with store.write() as session:
        await add_token(session, real)
    reads = TokenReads(store)
    asked = [f"{number:016x}" for number in range(4_000)]
    found = await asyncio.gather(*map(reads.record, asked), reads.record(real.token_id))
    assert found[-1] == real
    assert set(found[:-1]) == {None}
    assert reads.queries <= len(asked) // AT_ONCE + 2
    before = reads.queries
    assert await reads.record(real.token_id) == real
    assert reads.queries == before  # what there is, is remembered
    assert await reads.record(asked[0]) is None
    assert reads.queries == before + 1  # what there is not, is not: it may be issued
    await store.close()


def test_a_request_longer_than_its_method_needs_is_not_parsed() -> None:
    """Four million empty filters are eight megabytes on the wire, and 270 in memory; two methods take long bytes."""

    def parse(data: bytes) -> Message:
        raise AssertionError(len(data))

    long = {name for name in METHODS if name in ("PublishVersion", "UploadBlob")}
    for name in METHODS.keys() - long:
        reply = deserializer(method_path(METHODS[name]), parse)(b"\x3a\0" * (limits.REQUEST_BYTES // 2 + 1))
        assert isinstance(reply, InvalidFieldError), name
    for name in long:
        with pytest.raises(AssertionError, match=str(limits.MESSAGE_BYTES)):
            deserializer(method_path(METHODS[name]), parse)(bytes(limits.MESSAGE_BYTES))


def test_a_long_request_is_refused_by_a_server(attacked: Served, server_world: ServerWorld) -> None:
    """A search with half a million filters is refused with the bound; one that fits with its own error."""
    reader = server_world.token("reader")
    with Wire(attacked.grpc_address) as wire:
        for count, reply in ((500_000, str(limits.REQUEST_BYTES)), (20_000, "tags")):
            request = pb.ListVersionsRequest(tags=[pb.TagFilter()] * count)
            code, details, _ = wire.call("ListVersions", request, reader)
            assert code is grpc.StatusCode.INVALID_ARGUMENT
            assert reply in details


async def test_a_refused_request_is_gone_with_its_call() -> None:
    """The error that ended a call is kept with the call: its frames must not hold the request, collector or not."""

    class Request:
        pass

    class Context:
        error: grpc.aio.AbortError | None = None

    seen: list[weakref.ref[Request]] = []

    async def refuse(_requests: Any, context: Context) -> None:
        request = Request()
        seen.append(weakref.ref(request))
        context.error = grpc.aio.AbortError()
        raise context.error

    gc.disable()
    try:
        for call, is_gone in ((refuse, False), (forgetting(refuse), True)):
            context = Context()
            with pytest.raises(grpc.aio.AbortError):
                await call(None, context)  # type: ignore[arg-type]
            assert context.error is not None
            assert (seen[-1]() is None) is is_gone
            del context
    finally:
        gc.enable()


@pytest.mark.attack
def test_refused_requests_take_no_memory(attacked: Served, server_world: ServerWorld) -> None:
    """Six hundred publications of a megabyte, each refused, leave nothing like six hundred megabytes behind."""
    package = server_world.package("text_00", "6.6.6")
    metadata = b"{" + b" " * 1_000_000 + b"}"
    status = Path(f"/proc/{attacked.pid}/status")

    def resident_kib() -> int:
        return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmRSS"))

    def push(wire: Wire, number: int) -> None:
        request = pb.PublishVersionRequest(
            request_id=f"refused-{number:04d}", manifest=package.manifest.to_bytes(), team_metadata=metadata
        )
        code, _, _ = wire.call("PublishVersion", request, server_world.token("team:text"))
        assert code is grpc.StatusCode.INVALID_ARGUMENT

    with Wire(attacked.grpc_address) as wire:
        push(wire, 0)
        before = resident_kib()
        for number in range(1, 601):
            push(wire, number)
        assert resident_kib() < before + 150 * 1024


@pytest.mark.attack
def test_loops_of_strangers_and_readers_leave_operators_their_answers(
    attacked: Served, server_world: ServerWorld
) -> None:
    """Four loops of made-up tokens and four of one reader, for twenty changes of an operator."""
    stop = threading.Event()
    reader, _ = create_local_token(server_world.data_dir, "reader")

    def loop(token: str) -> None:
        while not stop.is_set():
            with PlatformClient(attacked.grpc_address, token) as client:
                try:
                    while not stop.is_set():
                        client.layers("x")
                except ClientError:
                    continue

    tokens = [f"alc_{number:016x}_{'0' * 64}" for number in range(4)] + [reader] * 4
    threads = [threading.Thread(target=loop, args=(token,)) for token in tokens]
    for thread in threads:
        thread.start()
    try:
        with server_world.client(attacked, "operator") as operator:
            for share in range(20):
                assert operator.set_holdout("looped", share).share_basis_points == share
    finally:
        stop.set()
        for thread in threads:
            thread.join()
