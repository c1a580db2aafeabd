"""Attack: the network sends just fast enough, for ever, so that no halt comes through and no app can end."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import Any

import pytest
from alcove.registry.policy import VersionRef
from alcove.sdk import Client, ClosedError, SyncResult, TooSlowError, TransportError
from alcove.sdk.bounded import BoundedTransport
from alcove.sdk.egress import Egress
from alcove.sdk.limits import CHUNK_BYTES, HALT_RECHECK_S, HEAD_TIMEOUT_S, MAX_FILE_S, MAX_SYNC_S, MIN_BYTES_PER_S
from alcove.sdk.testing import FolderTransport, fake_program
from alcove.sdk.transport import Download

from tests.sdk.conftest import FEATURE, Device

CHUNKS = 40
SIZE = CHUNKS * CHUNK_BYTES
OLD = "two 2.0.0 default"


class Drip(FolderTransport):
    """Lets time pass with each chunk of a blob, by both clocks of the device.

    Attributes:
        seconds_a_chunk: how long a chunk takes.
        on_chunk: called with the number of each chunk, over all blobs, before it comes.
    """

    def __init__(self, device: Device) -> None:
        super().__init__(device.world.folder)
        self.device = device
        self.seconds_a_chunk = 0.0
        self.chunks = 0
        self.on_chunk: Callable[[int], None] | None = None

    @contextlib.contextmanager
    def get(self, path: str, *, max_bytes: int, start: int = 0) -> Iterator[Download]:
        """Answer slowly."""
        with super().get(path, max_bytes=max_bytes, start=start) as download:
            slow = self.slow_down(download.chunks) if path.startswith("/blobs/") else download.chunks
            yield Download(download.start, slow)

    def slow_down(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """Give each chunk after its time."""
        for chunk in chunks:
            self.device.clock.pass_s(self.seconds_a_chunk)
            self.chunks += 1
            if self.on_chunk is not None:
                self.on_chunk(self.chunks)
            yield chunk


@pytest.fixture
def dripping(device: Device, unsynced: None) -> tuple[Device, Drip, VersionRef]:
    """A device on 2.0.0, that had 1.0.0, and whose policy now says 3.0.0, of many chunks."""
    device.client().sync()
    device.world.set_policy("2.0.0")
    device.client().sync()
    drip = Drip(device)
    device.options["transport"] = drip.connect
    ref = device.world.push("3.0.0", fake_program("three", size_bytes=SIZE))
    device.world.set_policy("3.0.0")
    return device, drip, ref


def part_bytes(device: Device) -> int:
    """Return how much of downloads lies on the disk."""
    return sum(file.stat().st_size for file in (device.folder / "downloads").iterdir())


def test_file_has_a_deadline_and_the_next_sync_continues(dripping: tuple[Device, Drip, VersionRef]) -> None:
    """However slow: ten minutes a sync, and what came of it stays until the whole is there."""
    device, drip, _ = dripping
    drip.seconds_a_chunk = MAX_FILE_S / 10
    client = device.client()
    sizes = []
    for _ in count():
        result = client.sync()
        if result.error is None:
            break
        assert isinstance(result.error, TooSlowError)
        assert result.error.limit_s == MAX_FILE_S
        assert device.answer(client) == OLD
        sizes.append(part_bytes(device))
    assert sizes == sorted(set(sizes))
    assert len(sizes) <= CHUNKS / 10
    assert device.answer(client) == "three 3.0.0 default"
    assert drip.chunks <= CHUNKS + len(sizes)


def test_sync_has_a_deadline_over_all_files(device: Device, unsynced: None) -> None:
    """Arms that take nearly ten minutes each: half an hour, then it ends; what is there is not asked for again."""
    versions = tuple(f"{number}.0.0" for number in range(3, 9))
    for version in versions:
        device.world.push(version, fake_program(version, size_bytes=CHUNK_BYTES * 9))
    device.world.set_policy("1.0.0", arms=versions)
    drip = Drip(device)
    drip.seconds_a_chunk = MAX_FILE_S / 12
    client = device.client(transport=drip.connect)
    begun_ns = device.clock.monotonic_ns()
    result = client.sync()
    assert isinstance(result.error, TooSlowError)
    assert result.error.limit_s == MAX_SYNC_S
    assert device.clock.monotonic_ns() - begun_ns < (MAX_SYNC_S + MAX_FILE_S / 5) * 1e9
    syncs = 1
    while client.sync().error is not None:
        syncs += 1
    assert syncs <= 4
    assert drip.chunks <= 9 * len(versions) + syncs + len(versions)


@pytest.mark.parametrize("chunk", [1, 2, CHUNKS // 2, CHUNKS - 1])
def test_halt_that_comes_during_a_download_is_followed_within_a_minute(
    dripping: tuple[Device, Drip, VersionRef], chunk: int
) -> None:
    """The version that answers is halted while another drips in: open handles answer with the one before."""
    device, drip, _ = dripping
    drip.seconds_a_chunk = HALT_RECHECK_S / 4
    client = device.client()
    handle = client.feature(FEATURE)
    seen: list[str] = []

    def look(number: int) -> None:
        if number == chunk:
            device.world.halt("2.0.0")
        seen.append(handle.predict("hello").version)

    drip.on_chunk = look
    assert client.sync().error is None
    assert set(seen[:chunk]) == {"2.0.0"}
    # Four chunks are a minute; one more is on its way when the halt is asked for.
    assert set(seen[chunk + 5 :]) <= {"1.0.0"}
    assert handle.version == "3.0.0"
    assert drip.chunks <= CHUNKS + 1


def test_version_that_is_halted_while_it_comes_is_not_installed(dripping: tuple[Device, Drip, VersionRef]) -> None:
    """The rest of it is not fetched."""
    device, drip, ref = dripping
    drip.seconds_a_chunk = HALT_RECHECK_S / 2
    drip.on_chunk = lambda number: device.world.halt("3.0.0") if number == 3 else None
    client = device.client()
    client.sync()
    assert drip.chunks <= 7
    assert not (device.folder / "versions" / FEATURE / ref.manifest_sha256).exists()
    assert device.answer(client) == OLD


def test_feature_that_is_frozen_while_a_version_comes_stays(dripping: tuple[Device, Drip, VersionRef]) -> None:
    """A freeze holds for what is under way, too."""
    device, drip, _ = dripping
    drip.seconds_a_chunk = HALT_RECHECK_S / 2
    drip.on_chunk = lambda number: device.world.halt(is_frozen=True) if number == 3 else None
    client = device.client()
    assert client.sync().error is None
    assert drip.chunks <= 7
    assert device.answer(client) == OLD


def test_mirror_that_keeps_the_halt_back_while_it_drips_gains_nothing_but_that(
    dripping: tuple[Device, Drip, VersionRef],
) -> None:
    """A question without an answer is a transient error: the download continues, and nothing is believed."""
    device, drip, _ = dripping
    drip.seconds_a_chunk = HALT_RECHECK_S / 5

    def refuse(method: str, path: str) -> None:
        if drip.chunks and path.startswith("/metadata"):
            raise TransportError(method=method, path=path, reason="withheld")

    drip.fault = refuse
    client = device.client()
    assert client.sync().error is None
    assert device.answer(client) == "three 3.0.0 default"


def sync_aside(client: Client) -> tuple[threading.Thread, list[SyncResult]]:
    """Sync on another thread; return it, and where its result will be."""
    results: list[SyncResult] = []
    thread = threading.Thread(target=lambda: results.append(client.sync()), daemon=True)
    thread.start()
    return thread, results


@pytest.mark.parametrize("chunk", [1, CHUNKS // 2, CHUNKS])
def test_closing_ends_a_sync_at_its_next_chunk(dripping: tuple[Device, Drip, VersionRef], chunk: int) -> None:
    """Whatever the transport; what came stays for the next client, which asks for the rest alone."""
    device, drip, _ = dripping
    client = device.client()
    drip.on_chunk = lambda number: client.close() if number == chunk else None
    thread, results = sync_aside(client)
    thread.join(60)
    assert isinstance(results[0].error, ClosedError)
    assert drip.chunks == chunk
    assert part_bytes(device) == chunk * CHUNK_BYTES
    drip.on_chunk = None
    later = device.client()
    assert later.sync().error is None
    assert drip.chunks == CHUNKS + 1
    assert device.answer(later) == "three 3.0.0 default"


class Mute:
    """A server that takes a connection, perhaps says a little, and then nothing.

    Attributes:
        reached: set when a request has come.
        pace: seconds between two bytes of what it says.
    """

    def __init__(self, says: bytes, pace: float = 0.0) -> None:
        self.reached = threading.Event()
        self.says = says
        self.pace = pace
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._open: list[socket.socket] = []
        threading.Thread(target=self._run, daemon=True).start()

    def close(self) -> None:
        """Let go of everybody."""
        self._listener.close()
        for connection in self._open:
            connection.close()

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._open.append(connection)
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            connection.recv(65536)
            self.reached.set()
            for byte in self.says:
                connection.sendall(bytes([byte]))
                time.sleep(self.pace)


SAYINGS = {
    "nothing": b"",
    "half a head": b"HTTP/1.1 200 OK\r\nX-",
    "half a body": b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nabc",
    "a body without an end": b"HTTP/1.1 200 OK\r\n\r\nabc",
    "chunks without an end": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
}


@pytest.fixture(params=SAYINGS)
def mute(request: pytest.FixtureRequest) -> Iterator[Mute]:
    """A server that falls silent in the middle."""
    server = Mute(SAYINGS[request.param])
    yield server
    server.close()


def test_closing_wakes_a_sync_that_waits_for_a_silent_server(device: Device, mute: Mute) -> None:
    """Its socket is shut under it: no waiting for the 30 seconds that a server may be silent."""
    client = device.client(mute.url, transport=None)
    thread, results = sync_aside(client)
    assert mute.reached.wait(60)
    client.close()
    thread.join(20)  # below the 30 seconds after which it would end by itself
    assert not thread.is_alive()
    assert isinstance(results[0].error, ClosedError)


def test_closing_ends_the_background_too(device: Device, mute: Mute, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that syncs by itself is gone, and says nothing of it."""
    monkeypatch.setattr("alcove.sdk.background.random_word", lambda entropy: 0)
    client = device.client(mute.url, transport=None)
    client.start_background_sync(1.0)
    assert mute.reached.wait(60)
    threads: list[Any] = [background._thread for background in client._background]
    client.close()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()


def test_closed_way_opens_no_connection(mute: Mute) -> None:
    """A caller that still holds it gets a typed error."""
    egress = Egress(mute.url)
    egress.close()
    with pytest.raises(ClosedError), egress.get("/x", max_bytes=10):
        pass
    with pytest.raises(ClosedError):
        egress.post("/reports", b"x")
    assert not mute.reached.is_set()


def test_head_that_drips_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte now and then keeps every time-out of a silence away; the head as a whole has one."""
    monkeypatch.setattr("alcove.sdk.limits.HEAD_TIMEOUT_S", 0.2)
    server = Mute(b"HTTP/1.1 200 OK\r\n" + b"X-A: b\r\n" * 10_000, pace=0.02)
    egress = Egress(server.url)
    with pytest.raises(TransportError, match="no whole head"), egress.get("/x", max_bytes=10):
        pass
    egress.close()
    server.close()


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"
FRAMES = {
    "the size of a piece": CHUNKED + b"3;" + b"x" * 60_000,
    "trailers": CHUNKED + b"0\r\n" + b"X-A: b\r\n" * 10_000,
    "the size of the first piece": CHUNKED.removesuffix(b"3\r\nabc\r\n") + b"0" * 60_000,
}


def download(egress: Egress) -> None:
    """Read a body to its end."""
    with egress.get("/x", max_bytes=1000) as answer:
        assert set(answer.chunks) <= {b"abc"}


def upload(egress: Egress) -> None:
    """Send a report, and read the answer to its end."""
    egress.post("/reports", b"x")


@pytest.mark.parametrize("call", [download, upload])
@pytest.mark.parametrize("says", FRAMES.values(), ids=FRAMES)
def test_body_that_drips_between_its_pieces_is_given_up(
    monkeypatch: pytest.MonkeyPatch, says: bytes, call: Callable[[Egress], None]
) -> None:
    """No byte of it is the body's, so that no rate is measured: it could last for ever."""
    server = Mute(says, pace=0.005)
    monkeypatch.setattr("alcove.sdk.limits.READ_TIMEOUT_S", 0.5)
    egress = Egress(server.url)
    with pytest.raises(TransportError):
        call(egress)
    egress.close()
    server.close()


def test_halt_is_asked_for_across_files_and_features_too(device: Device) -> None:
    """Many files of less than a minute each are no way around it."""
    asked: list[int] = []
    drip = Drip(device)
    drip.seconds_a_chunk = HALT_RECHECK_S * 0.4
    bounded = BoundedTransport(drip, device.clock)
    bounded.begin()
    blob = device.world.blob("1.0.0").name
    for number in range(10):
        with (
            bounded.ask_every(partial(asked.append, number)),
            bounded.get(f"/blobs/{blob}", max_bytes=1 << 20) as download,
        ):
            assert b"".join(download.chunks)
    assert asked == [2, 5, 8]


def test_bounds_hang_together() -> None:
    """A file has less time than a sync, the halt is asked for within both, and a head within a file."""
    assert HALT_RECHECK_S < MAX_FILE_S < MAX_SYNC_S
    assert HEAD_TIMEOUT_S < MAX_FILE_S


@pytest.mark.attack
def test_pace_of_540_bytes_a_second_is_given_up_in_two_minutes() -> None:
    """The real thing, over loopback: below the least pace, 87 kB would take 160 seconds."""
    server = Mute(b"HTTP/1.1 200 OK\r\nContent-Length: 87000\r\n\r\n" + b"x" * 87_000, pace=1 / 540)
    egress = Egress(server.url)
    received = 0
    assert MIN_BYTES_PER_S > 540
    with egress.get("/x", max_bytes=100_000) as download:
        chunks = iter(download.chunks)
        with contextlib.suppress(TransportError):
            while chunk := next(chunks, b""):
                received += len(chunk)
    assert received < 87_000 * 0.9
    egress.close()
    server.close()
