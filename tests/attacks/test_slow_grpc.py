"""Calls that begin and never continue, watches and connections without number: they take no place from an operator."""

import asyncio
import contextlib
import json
import resource
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import AbstractAsyncContextManager
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from alcove.api.rollout.v1 import rollout_pb2 as pb
from alcove.platform.client import PlatformClient
from alcove.platform.client.errors import ClientError, TooManyCallsError, UnavailableError
from alcove.platform.domain import limits
from alcove.platform.domain.errors import BusyCallerError, ServerFullError
from alcove.platform.domain.principal import Principal, Role
from alcove.platform.server.connections import Connection, overdue, peer_of
from alcove.platform.server.rate_limits import CallerLimits
from alcove.platform.server.rollout_service import RolloutService
from alcove.platform.services.auth.local import create_local_token
from alcove.platform.testing import Served, ServerWorld
from alcove.platform.testing.certificates import Authority
from alcove.platform.testing.raw_http2 import PREFACE, RawConnection
from alcove.platform.testing.wire import METHODS, method_path

CHECK = "/grpc.health.v1.Health/Check"
WATCH_HEALTH = "/grpc.health.v1.Health/Watch"
LIST = method_path(METHODS["ListRollouts"])
EMPTY = b"\x00\x00\x00\x00\x00"
"""A gRPC message without fields."""

RunServer = Callable[..., AbstractAsyncContextManager[Any]]


@pytest.fixture
def operator(server_world: ServerWorld, attacked: Served) -> Iterator[PlatformClient]:
    """Somebody who has to get through."""
    with server_world.client(attacked, "operator") as client:
        yield client


@pytest.fixture
def held() -> Iterator[contextlib.ExitStack]:
    """Connections that an attacker keeps open until the test ends."""
    with contextlib.ExitStack() as stack:
        yield stack


def open_calls(stack: contextlib.ExitStack, address: str, method: str, token: str | None, calls: int) -> RawConnection:
    """A connection with calls that have sent their headers and will never send more."""
    connection = stack.enter_context(RawConnection(address))
    for _ in range(calls):
        connection.begin(method, token)
    return connection


@pytest.mark.parametrize("method", [LIST, "/no.such/Method", WATCH_HEALTH, CHECK])
def test_calls_of_strangers_that_never_send_their_message_hold_up_nobody(
    held: contextlib.ExitStack, attacked: Served, operator: PlatformClient, method: str
) -> None:
    """Three hundred of them, more than all callers together may have under way: an operator's change passes."""
    for _ in range(6):
        with contextlib.suppress(ConnectionError):  # the server may cut one while it still begins calls
            open_calls(held, attacked.grpc_address, method, None, 50)
    for _ in range(3):
        assert operator.set_holdout(f"slow-{method.rpartition('/')[2].lower()}", 100).share_basis_points == 100


@pytest.mark.parametrize(("method", "status"), [(LIST, b"16"), ("/no.such/Method", b"16"), (WATCH_HEALTH, b"12")])
@pytest.mark.parametrize("token", [None, "", "x", "alc_", "alc_" + "0" * 16 + "_" + "0" * 64, "\x7f" * 4000])
def test_a_stranger_is_refused_before_its_message(
    attacked: Served, method: str, status: bytes, token: str | None
) -> None:
    """The status comes after the headers alone, whatever stands in the place of a token."""
    with RawConnection(attacked.grpc_address) as connection:
        said = connection.until_ended(connection.begin(method, token))
    assert b"grpc-status\x02" + status in said


def test_watches_of_one_caller_take_their_share_and_no_more(
    held: contextlib.ExitStack, attacked: Served, server_world: ServerWorld, operator: PlatformClient
) -> None:
    """256 streams that never say what they watch: another reader and an operator are answered."""
    for _ in range(4):
        open_calls(held, attacked.grpc_address, method_path(METHODS["WatchRollout"]), server_world.token("reader"), 64)
    assert operator.set_holdout("watched", 100).share_basis_points == 100
    other, _ = create_local_token(server_world.data_dir, "reader")
    with PlatformClient(attacked.grpc_address, other) as client:
        client.rollouts()
    with server_world.client(attacked, "reader") as same, pytest.raises(TooManyCallsError, match="at most") as refusal:
        for _ in same.watch_rollout("x", timeout_s=20):
            pass
    assert refusal.value.kind == "BusyCallerError"


async def test_readers_without_number_leave_places_for_operators() -> None:
    """As many readers as one likes, each with all it may have: the last places take operators only."""
    callers = CallerLimits(1000)
    with contextlib.ExitStack() as stack, pytest.raises(ServerFullError) as full:  # noqa: PT012 - which of them fills it is nobody's business
        for number in range(limits.CALLS_AT_ONCE):
            reader = Principal(f"{number // limits.CALLER_CALLS:016x}", Role("reader"))
            stack.enter_context(callers.hold(reader, is_stream=False))
    assert full.value.most == limits.CALLS_AT_ONCE - limits.CALLS_FOR_OPERATORS
    with contextlib.ExitStack() as stack:
        for number in range(limits.CALLS_AT_ONCE - limits.CALLS_FOR_OPERATORS):
            reader = Principal(f"{number // limits.CALLER_CALLS:016x}", Role("reader"))
            stack.enter_context(callers.hold(reader, is_stream=False))
        first, second = (Principal(name * 16, Role("operator")) for name in "ab")
        for _ in range(limits.CALLER_CALLS):
            stack.enter_context(callers.hold(first, is_stream=False))
        with pytest.raises(BusyCallerError), callers.hold(first, is_stream=False):
            pass
        with pytest.raises(ServerFullError), callers.hold(second, is_stream=False):
            pass
    with callers.hold(second, is_stream=True):
        pass


async def test_a_request_that_never_comes_ends_the_call(
    own_world: ServerWorld, run_server: RunServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A known caller too has only so long: DEADLINE_EXCEEDED by the server, and the place is free again."""
    monkeypatch.setattr(limits, "REQUEST_S", 0.1)
    monkeypatch.setattr(limits, "CHUNK_S", 0.1)
    monkeypatch.setattr(limits, "CALLER_CALLS", 4)
    async with run_server(own_world) as running:

        def attack() -> None:
            for role, method in (("reader", "ListRollouts"), ("reader", "WatchRollout"), ("team:text", "UploadBlob")):
                for _ in range(3):
                    with RawConnection(running.grpc_address) as connection:
                        streams = [connection.begin(method_path(METHODS[method]), own_world.token(role)) for _ in "ab"]
                        assert b"LateRequestError" in connection.until_ended(streams[0])
            with PlatformClient(running.grpc_address, own_world.token("reader")) as reader:
                reader.rollouts()

        await asyncio.to_thread(attack)


async def test_a_caller_that_takes_no_answer_keeps_its_place_until_its_time_is_over(
    own_world: ServerWorld, run_server: RunServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers that nobody takes are counted as calls under way, and end."""
    monkeypatch.setattr(limits, "CALLER_CALLS", 4)

    async def answer(self: object, request: object, context: object) -> pb.ListRolloutsResponse:
        return pb.ListRolloutsResponse(next_page_token="x" * 1_000_000)

    monkeypatch.setattr(RolloutService, "ListRollouts", answer)
    async with run_server(own_world, call_s_max=1.0) as running:

        def attack() -> None:
            token = own_world.token("reader")
            with RawConnection(running.grpc_address, window_bytes=0) as connection:
                streams = [connection.begin(LIST, token, EMPTY, ends=True) for _ in range(6)]
                assert b"BusyCallerError" in connection.until_ended(streams[4])
                connection.until_closed()
            with PlatformClient(running.grpc_address, token) as reader:
                assert reader.versions() == []

        await asyncio.to_thread(attack)


async def test_probes_that_never_ask_go_when_others_come(
    own_world: ServerWorld, run_server: RunServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Health probes have no place to hold: the oldest that is silent ends, and an honest one is answered."""
    monkeypatch.setattr(limits, "PROBE_S", 60.0)
    monkeypatch.setattr(limits, "PROBES_AT_ONCE", 4)
    monkeypatch.setattr(limits, "PROBES_A_SECOND", 1000)
    async with run_server(own_world) as running:

        def attack() -> None:
            with RawConnection(running.grpc_address) as connection:
                streams = [connection.begin(CHECK) for _ in range(20)]
                assert b"grpc-status\x014" in connection.until_ended(streams[0])
                with RawConnection(running.grpc_address) as honest:
                    assert b"\x08\x01" in honest.until_ended(honest.begin(CHECK, None, EMPTY, ends=True))

        await asyncio.to_thread(attack)


BEGINNINGS = {
    "nothing": b"",
    "half a preface": PREFACE[:10],
    "a preface": PREFACE,
    "settings": PREFACE + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00",
    "open headers": PREFACE + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x01\x01\x00\x00\x00\x00\x01\x83",
}  # fmt: skip


@pytest.mark.parametrize("beginning", BEGINNINGS.values(), ids=BEGINNINGS)
async def test_a_connection_that_says_nothing_is_closed(
    own_world: ServerWorld, run_server: RunServer, monkeypatch: pytest.MonkeyPatch, beginning: bytes
) -> None:
    """Wherever it stops; one of a known caller stays."""
    monkeypatch.setattr(limits, "STRANGER_S", 0.1)
    async with run_server(own_world) as running:

        def attack() -> None:
            host, _, port = running.grpc_address.rpartition(":")
            with PlatformClient(running.grpc_address, own_world.token("reader")) as reader:
                reader.rollouts()
                with socket.create_connection((host, int(port)), timeout=20) as connection:
                    connection.sendall(beginning)
                    with contextlib.suppress(ConnectionError):
                        while connection.recv(4096):
                            pass
                reader.rollouts()

        await asyncio.to_thread(attack)


def test_a_connection_is_closed_after_some_refusals(attacked: Served) -> None:
    """A caller without a token has to connect again after a bounded number of calls."""
    with RawConnection(attacked.grpc_address) as connection:
        for _ in range(limits.REFUSALS_OF_STRANGER):
            connection.begin(LIST, None, EMPTY, ends=True)
        connection.until_closed()


async def test_connections_of_strangers_are_bounded_in_number(
    own_world: ServerWorld, run_server: RunServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All but five go, whichever a look at the sockets finds together; a newcomer with a token gets through."""
    monkeypatch.setattr(limits, "STRANGERS_OF_ADDRESS", 5)
    monkeypatch.setattr(limits, "STRANGER_S", 600.0)
    async with run_server(own_world) as running:

        def attack() -> None:
            with contextlib.ExitStack() as stack:
                strangers = [stack.enter_context(RawConnection(running.grpc_address)) for _ in range(50)]
                with PlatformClient(running.grpc_address, own_world.token("reader")) as reader:
                    reader.rollouts()
                with ThreadPoolExecutor(len(strangers)) as pool:
                    closing = [pool.submit(stranger.until_closed) for stranger in strangers]
                    for closed in islice(as_completed(closing, timeout=20), 45):
                        closed.result()
                    for stranger in strangers:  # those that stayed
                        with contextlib.suppress(OSError):
                            stranger.socket.shutdown(socket.SHUT_RDWR)
                with RawConnection(running.grpc_address) as newcomer:
                    said = newcomer.until_ended(newcomer.begin(LIST, own_world.token("reader"), EMPTY, ends=True))
                    assert b"grpc-status\x010" in said

        await asyncio.to_thread(attack)


# What the rules say, of numbers that no test opens


def known_caller(number: int, caller: str = "c", **more: Any) -> Connection:
    """A connection of a known caller, used at the second of its number."""
    return Connection(("a", number), opened_s=0.0, used_s=float(number), caller=caller, **more)


def test_who_may_stay() -> None:
    """Each rule at its bound and one beyond it."""
    most = limits.STRANGERS_OF_ADDRESS
    strangers = [Connection(("a", number), opened_s=number / 1000) for number in range(most + 1)]
    assert overdue(strangers[:most], 1.0) == []
    assert overdue(strangers, 1.0) == strangers[:1]
    everywhere = [Connection((f"a{number}", 1), opened_s=number / 1000) for number in range(limits.STRANGERS + 3)]
    assert {one.peer for one in overdue(everywhere, 1.0)} == {one.peer for one in everywhere[:3]}
    assert overdue([Connection(("a", 1), 0.0)], limits.STRANGER_S - 0.001) == []
    assert len(overdue([Connection(("a", 1), 0.0)], limits.STRANGER_S)) == 1
    prober = Connection(("a", 1), opened_s=0.0, used_s=50.0, probes=3)
    assert overdue([prober], 50.0 + limits.PROBER_S - 0.001) == []
    assert overdue([prober], 50.0 + limits.PROBER_S) == [prober]
    hasty = Connection(("a", 1), opened_s=0.0, probes=3 * limits.PROBES_A_SECOND + 1)
    assert overdue([hasty], 3.0) == []
    assert overdue([hasty], 1.9) == [hasty]
    share = limits.CONNECTIONS_OF_CALLER
    held = [known_caller(number) for number in range(share + 2)]
    assert overdue(held[:share], 1e6) == []
    assert {one.peer[1] for one in overdue(held, 1e6)} == {0, 1}
    busy = [known_caller(0, calls=1), *held[1:]]
    assert {one.peer[1] for one in overdue(busy, 1e6)} == {1, 2}
    others = [known_caller(number, caller=str(number)) for number in range(3 * share)]
    assert overdue(others, 1e6) == []
    assert overdue([known_caller(1, refusals=limits.REFUSALS_OF_KNOWN - 1)], 0.0) == []
    assert len(overdue([known_caller(1, refusals=limits.REFUSALS_OF_KNOWN)], 0.0)) == 1


@pytest.mark.parametrize(
    ("text", "peer"),
    [
        ("ipv4:127.0.0.1:53012", ("127.0.0.1", 53012)),
        ("ipv6:%5B::1%5D:53012", ("::1", 53012)),
        ("ipv6:[fe80::1%25eth0]:7", ("fe80::1", 7)),
        ("ipv6:%5B::ffff:10.0.0.1%5D:7", ("10.0.0.1", 7)),
        ("unix:/a/b", None),
        ("unix:", None),
        ("ipv4:127.0.0.1", None),
    ],
)
def test_a_far_end_has_one_spelling(text: str, peer: tuple[str, int] | None) -> None:
    """As gRPC writes it and as the socket tells it."""
    assert peer_of(text) == peer


@pytest.mark.attack
def test_every_kind_of_flood_at_once_leaves_operators_their_answers(
    held: contextlib.ExitStack, attacked: Served, server_world: ServerWorld, operator: PlatformClient
) -> None:
    """1,500 silent connections, 2,000 calls without a message, watches and reads half sent of two callers."""
    host, _, port = attacked.grpc_address.rpartition(":")
    for _ in range(1500):
        held.enter_context(socket.create_connection((host, int(port)), timeout=20))
    for method in (LIST, WATCH_HEALTH, CHECK, "/no.such/Method"):
        for _ in range(5):
            with contextlib.suppress(OSError):
                open_calls(held, attacked.grpc_address, method, None, 100)
    for role in ("reader", "team:text"):
        for name in ("WatchRollout", "GetVersion"):
            with contextlib.suppress(OSError):
                open_calls(held, attacked.grpc_address, method_path(METHODS[name]), server_world.token(role), 100)
    failures: list[ClientError] = []
    for number in range(20):
        try:
            operator.set_holdout("flooded", 100 + number)
        except (TooManyCallsError, UnavailableError) as failure:  # what H2 was
            failures.append(failure)
    assert failures == []


@pytest.mark.thorough
def test_a_server_has_all_the_files_that_the_system_allows(tmp_path: Path) -> None:
    """A service starts with 1,024, fewer than connections of strangers may be; without one no change is written."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(1024, hard), hard))
    try:
        server = ServerWorld(tmp_path / "files", teams={"text": ("text_00",)}).start("--only", "grpc")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    (line,) = (line for line in Path(f"/proc/{server.pid}/limits").read_text().splitlines() if "open files" in line)
    assert server.stop() == 0
    assert int(line.split()[3]) >= min(hard, 65_536)


@pytest.mark.thorough
def test_every_line_of_the_log_is_json(tmp_path: Path) -> None:
    """Broken handshakes, which gRPC writes lines of its own about, and strangers without number."""
    world = ServerWorld(tmp_path / "logged", teams={"text": ("text_00",)})
    pair = Authority.create("test CA").server()
    for name, content in (("key", pair.key), ("certificate", pair.certificate)):
        (tmp_path / f"{name}.pem").write_bytes(content)
        (tmp_path / f"{name}.pem").chmod(0o600)
    tls = ("--tls-key", str(tmp_path / "key.pem"), "--tls-certificate", str(tmp_path / "certificate.pem"))
    server = world.start("--only", "grpc", *tls)
    host, _, port = server.grpc_address.rpartition(":")
    for beginning in (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(300), PREFACE, b"GET / HTTP/1.1\r\n\r\n"):
        with socket.create_connection((host, int(port)), timeout=20) as connection, contextlib.suppress(OSError):
            connection.sendall(beginning)
            connection.shutdown(socket.SHUT_WR)  # a beginning of a handshake would be waited for
            while connection.recv(4096):
                pass
    assert server.stop() == 0
    lines = server.log.read_text(encoding="utf-8").splitlines()
    assert all(isinstance(json.loads(line), dict) for line in lines)
