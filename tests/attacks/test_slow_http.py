"""Attack: connections that ask for nothing, drip what they ask, or read what they get a byte at a time.

Eleven hundred of them took every file that the process could open, and none was ever closed.  Now each has its time and
its place: the places of one address, of all, and of those that are sent something large.
"""

import asyncio
import contextlib
import resource
import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import structlog
from alcove.platform.listening import allowance
from alcove.platform.listening.accepting import raise_file_limit
from alcove.platform.listening.connections import (
    DOWNLOAD_S,
    FIRST_S,
    FORGET_S,
    IDLE_S,
    Connection,
    ConnectionLimits,
    Connections,
)
from alcove.platform.listening.settings import networks_of
from alcove.platform.testing.certificates import Authority
from alcove.platform.testing.ingress import BLOB, RunningIngress, ask, post, record, running_ingress

GET = b"GET /metadata/timestamp.json HTTP/1.1\r\nHost: a\r\n\r\n"
PATIENCE_S = 60.0


class Clock:
    """Seconds that rise when a test says so."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    """A clock by hand."""
    return Clock()


@pytest.fixture
def crowd(clock: Clock) -> Connections:
    """Ten places, three for one address, twenty requests a second from it."""
    return Connections(ConnectionLimits(10, 3, 20), clock)


def admit(crowd: Connections, host: str, cuts: list[str] | None = None) -> Connection:
    """A connection that must be admitted; notes when it is cut."""
    place = crowd.admit(host)
    assert place is not None
    place.cut = lambda: None if cuts is None else cuts.append(host)
    return place


def test_a_connection_that_waits_is_cut_whatever_it_sends(crowd: Connections, clock: Clock) -> None:
    """For every moment: FIRST_S for the first request, IDLE_S for the next; bytes buy no time."""
    for limit_s, begins in ((FIRST_S, False), (IDLE_S, True)):
        cuts: list[str] = []
        place = admit(crowd, "192.0.2.1", cuts)
        if begins:
            assert crowd.begin(place)
            crowd.end(place)
        for second in range(int(limit_s)):
            place.received_bytes += 1
            crowd.sweep()
            assert cuts == [], second
            clock.now_s += 1
        crowd.sweep()
        assert cuts == ["192.0.2.1"]
        assert len(crowd) == 0


def test_one_address_has_its_places_and_no_more(crowd: Connections) -> None:
    """IPv4, the same one written as IPv6, and all of a /64; others are admitted, and a closed one frees its place."""
    for same in (["192.0.2.1", "::ffff:192.0.2.1"], ["2001:db8::1", "2001:db8::ffff:1", "2001:db8:0:0:8000::"]):
        places = [admit(crowd, same[number % len(same)]) for number in range(3)]
        assert all(crowd.admit(host) is None for host in same)
        crowd.release(places.pop())
        places.append(admit(crowd, same[0]))
        crowd.release(places[0])
        crowd.release(places[0])  # twice is once
        places[0] = admit(crowd, same[0])
        assert crowd.admit(same[0]) is None
        for place in places:
            crowd.release(place)
    assert crowd.refused["too_many_connections"] == 7


def test_those_that_waited_longest_give_way_when_all_places_are_taken(crowd: Connections, clock: Clock) -> None:
    """An attacker with many addresses holds idle places while nobody needs them; requests under way keep theirs."""
    cuts: list[str] = []
    places = []
    for number in range(10):
        places.append(admit(crowd, f"192.0.2.{number}", cuts))
        clock.now_s += 0.1
    for place in places[:3]:
        assert crowd.begin(place)
    for number in range(10, 17):
        admit(crowd, f"192.0.2.{number}", cuts)
    assert cuts == [f"192.0.2.{number}" for number in range(3, 10)]
    assert len(crowd) == 10
    for place in list(crowd._open):
        crowd.begin(place)
    assert crowd.admit("198.51.100.1") is None
    assert crowd.refused["full"] == 1


def test_an_address_has_its_rate_and_gets_it_back(crowd: Connections, clock: Clock) -> None:
    """A bounded number of connections and of requests; a second later the same number again."""
    for _ in range(3):
        for number in range(20):
            place = admit(crowd, "192.0.2.1")
            assert crowd.begin(place), number
            crowd.release(place)
        assert crowd.admit("192.0.2.1") is None
        assert not crowd.begin(place)
        clock.now_s += 1
    assert crowd.refused["too_often"] == 6


def test_connections_that_are_too_many_leave_the_others_their_requests(crowd: Connections) -> None:
    """A caller that opens too many connections still gets answers on the accepted ones."""
    place = admit(crowd, "192.0.2.1")
    while (other := crowd.admit("192.0.2.1")) is not None:
        crowd.release(other)
    assert [crowd.begin(place) for _ in range(25)].count(True) == 20


def test_half_of_the_places_are_never_downloads(crowd: Connections, clock: Clock) -> None:
    """So there is one to ask what is new; an old download gives way to a new one, a young one does not."""
    cuts: list[str] = []
    places = [admit(crowd, f"192.0.2.{number}", cuts) for number in range(10)]
    for place in places:
        crowd.begin(place)
    assert [crowd.download(place) for place in places].count(True) == 5
    clock.now_s += DOWNLOAD_S
    assert crowd.download(places[9])
    assert cuts == ["192.0.2.0"]
    crowd.end(places[1])
    assert crowd.download(places[8])
    assert not crowd.download(places[7]) or cuts[1:] == ["192.0.2.2"]


def test_addresses_are_digests_and_are_forgotten(crowd: Connections, clock: Clock) -> None:
    """Nothing in memory has the address's bytes; a minute after its last connection nothing of it is there."""
    place = admit(crowd, "203.0.113.77")
    assert socket.inet_aton("203.0.113.77") not in repr(vars(crowd)).encode("latin-1", "replace")
    assert "203.0.113.77" not in repr(vars(crowd))
    clock.now_s += 2 * FORGET_S
    place.until_s = None
    crowd.sweep()
    assert len(crowd._addresses) == 1  # it has a connection
    crowd.release(place)
    crowd.sweep()
    assert crowd._addresses == {}


def test_many_addresses_take_a_bounded_memory(crowd: Connections, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest without connections is forgotten; one with connections keeps its count."""
    monkeypatch.setattr("alcove.platform.listening.connections.ADDRESSES_KEPT", 50)
    held = [admit(crowd, "192.0.2.1") for _ in range(3)]
    for number in range(1000):
        crowd.release(admit(crowd, f"10.0.{number // 250}.{number % 250}"))
        assert len(crowd._addresses) <= 50
    assert crowd.admit("192.0.2.1") is None
    assert len(held) == 3


def test_proxies_of_ours_are_asked_for_places_alone(clock: Clock) -> None:
    """They limit addresses themselves, since only they see them."""
    proxies = Connections(ConnectionLimits(10, 1, 1, proxies=networks_of("192.0.2.0/24")), clock)
    for _ in range(10):
        admit(proxies, "192.0.2.200")
    assert len(proxies) == 10


@contextlib.contextmanager
def hold_open(make: Callable[[], socket.socket], count: int) -> Iterator[list[socket.socket]]:
    """Many connections that stay open."""
    results: list[socket.socket] = []
    try:
        for _ in range(count):
            with contextlib.suppress(OSError):
                results.append(make())
        yield results
    finally:
        for each in results:
            each.close()


def connect(port: int, source: str, data: bytes = b"", receive_bytes: int = 0) -> socket.socket:
    """A connection from an address of this machine that has sent something."""
    connection = socket.socket()
    if receive_bytes:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    connection.bind((source, 0))
    connection.settimeout(PATIENCE_S)
    connection.connect(("127.0.0.1", port))
    if data:
        connection.sendall(data)
    return connection


@pytest.mark.parametrize("data", [b"", b"GET /met", GET, post(b"", length=38)], ids=["idle", "part", "kept", "body"])
async def test_devices_are_answered_while_one_address_holds_all_it_can(tmp_path: Path, data: bytes) -> None:
    """Its connections beyond its places are refused at once, and those of others are not."""
    async with running_ingress(tmp_path, connections=40, connections_per_address=8) as attacked:
        with hold_open(lambda: connect(attacked.port, "127.0.0.2", data), 100):
            await wait_for_connections(attacked, 8)
            assert len(attacked.ingress.connections) <= 8
            assert (await ask(attacked.port, GET))[0] == 200
            assert (await ask(attacked.port, post(record(attacked.task))))[0] == 204


@pytest.mark.parametrize("data", [b"GET /", post(b"", length=38)], ids=["part", "body"])
async def test_devices_are_answered_while_many_addresses_hold_every_place(tmp_path: Path, data: bytes) -> None:
    """Two hundred addresses, five connections each, forty places: the ones that wait give way, for a body too."""
    async with running_ingress(tmp_path, connections=40) as attacked:
        sources = iter(range(1000))
        with hold_open(lambda: connect(attacked.port, f"127.0.1.{next(sources) % 200 + 1}", data), 400):
            await wait_for_connections(attacked, 40)
            for _ in range(20):
                assert (await ask(attacked.port, GET))[0] == 200
            assert len(attacked.ingress.connections) <= 40


async def test_one_that_reads_too_slowly_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large answer has its size's time, and then the connection is gone, the file closed and the place free."""
    monkeypatch.setattr(allowance, "ANSWER_S", 0.2)
    monkeypatch.setattr(allowance, "SLOWEST_BYTES_PER_S", 2**30)
    async with running_ingress(tmp_path) as attacked:
        request = f"GET /blobs/{BLOB} HTTP/1.1\r\nHost: a\r\n\r\n".encode()
        with hold_open(lambda: connect(attacked.port, "127.0.0.2", request, 4096), 5):
            until_s = time.monotonic() + PATIENCE_S
            while attacked.ingress.connections.refused["read_too_slowly"] < 5 or len(attacked.ingress.connections):
                assert time.monotonic() < until_s
                await asyncio.sleep(0.01)
            while any(BLOB in path for path in open_files()):  # closed by another thread, a moment later
                assert time.monotonic() < until_s
                await asyncio.sleep(0.01)
        assert (await ask(attacked.port, request))[0] == 200


def open_files() -> list[str]:
    """The files that this process has open."""
    found = []
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found.append(str(link.readlink()))
    return found


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 50_000,
        b"GET /" + b"a" * 300_000,
        b"GET / HTTP/1.1\r\nx: " + b"a" * 300_000,
        b"\r\n" * 200_000,
        GET * 3_999 + GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"),
    ],
    ids=["many headers", "long line", "long header", "empty lines", "pipelined"],
)
async def test_more_than_anybody_has_to_say_ends_the_connection(tmp_path: Path, request_bytes: bytes) -> None:
    """Whatever its form; the next one is answered."""
    async with running_ingress(tmp_path, requests_per_address=100_000) as attacked:
        with contextlib.suppress(OSError):
            flood = await asyncio.to_thread(connect, attacked.port, "127.0.0.2", request_bytes)
            flood.settimeout(PATIENCE_S)
            try:
                while await asyncio.to_thread(flood.recv, 65_536):
                    pass
            finally:
                flood.close()
        assert (await ask(attacked.port, GET))[0] == 200


def test_places_are_as_many_as_files_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the 1,024 files of a service, raised to what its hard limit allows; some are kept for the database."""
    limits = {"soft": 1024}

    def change(_kind: int, wanted: tuple[int, int]) -> None:
        limits["soft"] = wanted[0]

    for hard, places in ((1024, 384), (4096, 1920), (resource.RLIM_INFINITY, 32_640), (100, 1)):
        limits["hard"] = hard
        monkeypatch.setattr(resource, "getrlimit", lambda _kind: (limits["soft"], limits["hard"]))
        monkeypatch.setattr(resource, "setrlimit", change)
        assert raise_file_limit() == places


async def test_requests_one_after_the_other_on_a_tls_connection_are_answered(tmp_path: Path) -> None:
    """What is sent and gone is waited for no more: the next request is read, and the end need not wait."""
    settings, trusting = with_tls(tmp_path)
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: reported.append(context))
    async with running_ingress(tmp_path / "data", **settings) as attacked:
        reader, writer = await asyncio.open_connection("127.0.0.1", attacked.port, ssl=trusting)
        for _ in range(6):
            writer.write(GET)
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE_S)
            assert head.startswith(b"HTTP/1.1 200 ")
            (length,) = (line for line in head.lower().splitlines() if line.startswith(b"content-length:"))
            await asyncio.wait_for(reader.readexactly(int(length.partition(b":")[2])), PATIENCE_S)
        writer.close()
        await writer.wait_closed()
    assert not reported


def with_tls(folder: Path) -> tuple[dict[str, Any], ssl.SSLContext]:
    """Return the settings of an ingress with a certificate in this folder, and what trusts it."""
    chain, key = folder / "chain.pem", folder / "key.pem"
    authority = Authority.create()
    pair = authority.server()
    chain.write_bytes(pair.certificate)
    key.write_bytes(pair.key)
    key.chmod(0o600)
    trusting = ssl.create_default_context(cadata=authority.certificate.decode())
    trusting.check_hostname = False
    return {"tls_certificate": chain, "tls_key": key}, trusting


async def test_handshakes_that_never_come_hold_no_more_than_their_places(tmp_path: Path) -> None:
    """With TLS a connection counts from the moment it is accepted, and gives way as any other that waits."""
    settings, trusting = with_tls(tmp_path)
    settings |= {"connections": 20, "connections_per_address": 8}
    async with running_ingress(tmp_path / "data", **settings) as attacked:
        sources = iter(range(1000))
        for data in (b"", b"\x16\x03\x01", b"GET / HTTP/1.1\r\n\r\n"):
            with hold_open(partial(from_one_of_many, attacked.port, sources, data), 100):
                assert len(attacked.ingress.connections) <= 20
                reader, writer = await asyncio.open_connection("127.0.0.1", attacked.port, ssl=trusting)
                writer.write(GET)
                assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 200")
                writer.close()


def from_one_of_many(port: int, sources: Iterator[int], data: bytes) -> socket.socket:
    """A connection from the next of fifty addresses."""
    return connect(port, f"127.0.2.{next(sources) % 50 + 1}", data)


async def test_what_the_web_server_refuses_by_itself_ends_the_connection(tmp_path: Path) -> None:
    """An Expect that nobody knows is refused before requests are counted: one a connection, which is counted."""
    expecting = b"GET /healthz HTTP/1.1\r\nHost: a\r\nExpect: x\r\n\r\n"
    async with running_ingress(tmp_path, requests_per_address=5) as attacked:
        reader, writer = await asyncio.open_connection("127.0.0.1", attacked.port)
        writer.write(expecting * 50)
        reply = b""
        with contextlib.suppress(ConnectionError):
            reply = await asyncio.wait_for(reader.read(), PATIENCE_S)
        writer.close()
        assert reply.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize("data", [post(b"", length=38), post(b"x" * 5, length=38)], ids=["no body", "part"])
async def test_devices_that_go_away_leave_no_line(tmp_path: Path, data: bytes) -> None:
    """In the middle of a report, with a reset: no traceback of kilobytes for each."""
    with structlog.testing.capture_logs() as lines:
        async with running_ingress(tmp_path) as attacked:
            for _ in range(10):
                gone = await asyncio.to_thread(connect, attacked.port, "127.0.0.2", data)
                await wait_for_connections(attacked, 2)
                gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                gone.close()
                until_s = time.monotonic() + PATIENCE_S
                while len(attacked.ingress.connections):
                    assert time.monotonic() < until_s
                    await asyncio.sleep(0.01)
            assert (await ask(attacked.port, post(record(attacked.task))))[0] == 204
    assert not [line for line in lines if line["log_level"] == "error"]


async def wait_for_connections(attacked: RunningIngress, most: int) -> None:
    """Wait until the ingress has seen the connections."""
    until_s = time.monotonic() + PATIENCE_S
    while len(attacked.ingress.connections) < most - 1:
        assert time.monotonic() < until_s
        await asyncio.sleep(0.01)
