"""Messages that are never whole: what a stranger sends of one is not kept, what a known caller sends is bounded."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import grpc
import pytest
from alcove.api.registry.v1 import registry_pb2
from alcove.api.registry.v1.registry_pb2_grpc import RegistryServiceStub
from alcove.platform.domain import limits
from alcove.platform.server.registry_service import RegistryService
from alcove.platform.testing import Served, ServerWorld
from alcove.platform.testing.raw_http2 import FRAME_BYTES, HALF_OF_A_MESSAGE, INITIAL_WINDOW, RawConnection
from alcove.platform.testing.wire import METHODS, method_path

PUBLISH = method_path(METHODS["PublishVersion"])
MESSAGE_BYTES = 8 * 1024 * 1024
RunServer = Callable[..., AbstractAsyncContextManager[Any]]


def resident_bytes(server: Served) -> int:
    """What the server's process has in memory."""
    lines = Path(f"/proc/{server.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:"))


def push(connection: RawConnection, stream: int, size_bytes: int) -> int:
    """Send a message except its last byte, as fast as the server's windows let; return how much went."""
    first = 65_535 - len(HALF_OF_A_MESSAGE)
    windows = {0: first, stream: first}
    sent = 0
    while sent < size_bytes - 1:
        room = min(windows[0], windows[stream], FRAME_BYTES, size_bytes - 1 - sent)
        if room > 0:
            connection.socket.sendall(connection.data(stream, b"x" * room))
            sent += room
            windows[0] -= room
            windows[stream] -= room
            continue
        try:
            seen = connection.read()
        except TimeoutError:
            return sent
        if seen is None:
            return sent
        kind, flags, of, payload = seen
        if kind == 8:  # WINDOW_UPDATE
            windows[of] = windows.get(of, 0) + int.from_bytes(payload, "big")
        if kind == 4 and not flags & 1:
            for start in range(0, len(payload), 6):
                if int.from_bytes(payload[start : start + 2], "big") == INITIAL_WINDOW:
                    windows[stream] += int.from_bytes(payload[start + 2 : start + 6], "big") - 65_535
        if of == stream and (kind == 3 or flags & 1):
            return sent
    return sent


@pytest.mark.parametrize("method", [PUBLISH, method_path(METHODS["UploadBlob"]), "/grpc.health.v1.Health/Watch"])
def test_a_stranger_cannot_leave_a_byte_of_a_message(attacked: Served, method: str) -> None:
    """The call is over before the server has given room for more than HTTP/2's first window."""
    with RawConnection(attacked.grpc_address) as connection:
        stream = connection.begin(method, None, HALF_OF_A_MESSAGE)
        assert push(connection, stream, MESSAGE_BYTES) <= limits.STREAM_WINDOW_BYTES


async def test_half_messages_of_one_caller_are_bounded_and_end(
    own_world: ServerWorld, run_server: RunServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of six calls that send all but the last byte, two get room for it; they end, and the next ones get it."""
    monkeypatch.setattr(limits, "CALLER_READS", 2)
    token = await asyncio.to_thread(own_world.token, "team:text")

    async with run_server(own_world) as running:
        with contextlib.ExitStack() as stack:

            def attack() -> int:
                connection = stack.enter_context(RawConnection(running.grpc_address, timeout_s=1.5))
                return push(connection, connection.begin(PUBLISH, token, HALF_OF_A_MESSAGE), MESSAGE_BYTES)

            went = await asyncio.gather(*(asyncio.to_thread(attack) for _ in range(6)))
            assert sorted(size > limits.STREAM_WINDOW_BYTES for size in went) == [False] * 4 + [True] * 2
        monkeypatch.setattr(limits, "REQUEST_S", 0.2)

        def attack_and_wait() -> bytes:
            with RawConnection(running.grpc_address) as connection:
                stream = connection.begin(PUBLISH, token, HALF_OF_A_MESSAGE)
                return connection.until_ended(stream)

        for said in await asyncio.gather(*(asyncio.to_thread(attack_and_wait) for _ in range(6))):
            assert b"LateRequestError" in said


async def test_publications_of_one_caller_take_turns(
    own_world: ServerWorld, run_server: RunServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has a request of up to 8 MiB for as long as it takes; other calls of the caller don't wait for them."""
    monkeypatch.setattr(limits, "CALLER_PUBLICATIONS", 2)
    together: list[int] = []
    two_came, go_on = asyncio.Event(), asyncio.Event()

    async def publish(_self: object, _request: object, _context: object) -> registry_pb2.PublishVersionResponse:
        together.append(together[-1] + 1 if together else 1)
        if len(together) == 2:
            two_came.set()
        await go_on.wait()
        together.append(together[-1] - 1)
        return registry_pb2.PublishVersionResponse()

    monkeypatch.setattr(RegistryService, "PublishVersion", publish)
    header = [("authorization", f"Bearer {await asyncio.to_thread(own_world.token, 'team:text')}")]
    request = registry_pb2.PublishVersionRequest(request_id="a" * 32, team_metadata=b"{}")
    async with run_server(own_world) as running, grpc.aio.insecure_channel(running.grpc_address) as channel:
        stub = RegistryServiceStub(channel)
        calls = [asyncio.ensure_future(wait_for(stub.PublishVersion(request, metadata=header))) for _ in range(6)]
        await two_came.wait()
        await stub.ListVersions(registry_pb2.ListVersionsRequest(), metadata=header)
        go_on.set()
        await asyncio.gather(*calls)
    assert max(together) == 2
    assert len(together) == 12


async def wait_for(call: Any) -> None:
    """Begin a call of gRPC, and wait for its answer."""
    await call


@pytest.mark.attack
def test_memory_stands_still_under_half_messages(attacked: Served, server_world: ServerWorld) -> None:
    """The attack as it was found, and with a team's token: 48 calls, each 8 MiB except the last byte."""
    before = resident_bytes(attacked)
    most = {None: 32 * 1024 * 1024, server_world.token("team:text"): (limits.CALLER_READS + 4) * MESSAGE_BYTES}
    for token, bound in most.items():
        with contextlib.ExitStack() as stack:
            connections = [stack.enter_context(RawConnection(attacked.grpc_address)) for _ in range(30)]

            def attack(connection: RawConnection, shown: str | None = token) -> None:
                with contextlib.suppress(OSError):
                    push(connection, connection.begin(PUBLISH, shown, HALF_OF_A_MESSAGE), MESSAGE_BYTES)

            threads = [threading.Thread(target=attack, args=(one,)) for one in connections]
            for thread in threads:
                thread.start()
            largest = before
            until = time.monotonic() + 4
            while time.monotonic() < until:
                largest = max(largest, resident_bytes(attacked))
                time.sleep(0.05)
        for thread in threads:
            thread.join()
        assert largest - before < bound, (token, largest - before)
